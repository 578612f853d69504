"""Software variants of a model: formats, fusion, attention, adapters, approximations [LIFE]_.

.. [LIFE] R. Patwari, A. Sirasao, D. Das, "Forecasting LLM Inference Performance via
   Hardware-Agnostic Analytical Modeling", 2025.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ValidationError

from codesign.base.errors import InputError, UnknownNameError
from codesign.base.schema import Positive, Record, accepted_by, sentence_of
from codesign.models.workload import LanguageModel
from codesign.models.workload.precision import bits_per_element, find_format

Attention = Literal["native", "mha", "gqa", "mqa", "mla"]
Nonlinear = Literal["pwl", "polynomial"]

HEADS_PER_GROUP = 4
"""Query heads that share keys and values where ``gqa`` is asked for without a number [fit: LIFE
Table 11 comes out with 8 of Llama-2-7B's 32 heads]."""
SCALE_BYTES = 2.0
"""A group's scale is kept at 16 bits (LIFE, Appendix 8.1, line 15)."""
_INTEGERS = ("int4", "int8")


Format = Annotated[str, accepted_by(find_format)]


class Variant(Record):
    """Software variant of a model; the defaults are the model as it is, in bf16.

    Attributes:
        weight_format: Format of the projections. ``int4`` and ``int8`` have a scale and a zero
            point per group.
        activation_format: Format of activations, and of all weights that are not projections
            (embedding, norms, adapters).
        kv_format: Format of the KV cache.
        fused: Whether elementwise operators and attention scores stay on chip.
        attention: The model's own attention, or another kind with the same heads (LIFE §3.3.2).
        kv_heads: Heads with keys and values of their own under ``gqa``; a quarter of them if left
            out.
        q_lora_rank: Rank of the queries under ``mla`` [fit: Table 11; Appendix 8.2 has 128].
        kv_lora_rank: Rank of keys and values under ``mla`` [fit: Table 11; Appendix 8.2 has 128].
        group_size: Weights along a column that share a scale (LIFE, Appendix 8.2:
            ``gemm_grpsize``).
        fused_projections: Whether the checkpoint has Q, K, V as one matrix, and gate and up (Phi-3,
            Phi-4).
        lora: Adapters on the projections of every layer: merged in every pass, or once before.
        lora_rank: Rank of the adapters, where there are any.
        nonlinear: Approximation of exponentials: piecewise linear, or by a polynomial (LIFE Table
            1); the profile's choice if left out.
        polynomial_degree: Degree of that polynomial [ours].
        hadamard: Whether rotations are computed at run time, as QuaRot does before the output and
            down projections and on queries and keys.
    """

    weight_format: Format = "bf16"
    activation_format: Format = "bf16"
    kv_format: Format = "bf16"
    fused: bool = False
    attention: Attention = "native"
    kv_heads: Positive | None = None
    q_lora_rank: Positive = 512
    kv_lora_rank: Positive = 512
    group_size: Positive = 128
    fused_projections: bool = False
    lora: Literal["none", "inline", "merged"] = "none"
    lora_rank: Positive = 16
    nonlinear: Nonlinear | None = None
    polynomial_degree: Positive = 4
    hadamard: bool = False


VARIANTS: dict[str, Variant] = {
    "bf16-bf16": Variant(),
    "bf16-int4": Variant(weight_format="int4"),
    "bf16-int4-fused": Variant(weight_format="int4", fused=True),
    "bf16-int4-kv4": Variant(weight_format="int4", kv_format="int4", fused=True),
    # Ranks as in Appendix 8.2 and in the caption of Fig. 3.
    "bf16-int4-mla": Variant(
        weight_format="int4", attention="mla", q_lora_rank=128, kv_lora_rank=128, fused=True
    ),
    "bf16-int4-lora": Variant(weight_format="int4", lora="inline", fused=True),
    "quarot-w4a4kv4": Variant(
        weight_format="int4", activation_format="int8", kv_format="int4", fused=True, hadamard=True
    ),
    "fp16-fp16": Variant(weight_format="fp16", activation_format="fp16", kv_format="fp16"),
}
"""The variants of LIFE's Table 3 by name."""


def find_variant(name: str, where: str | None = None) -> Variant:
    """The variant of that name.

    Raises:
        UnknownNameError: No such variant; the nearest is offered.
    """
    folded = name.lower()
    if folded not in VARIANTS:
        raise UnknownNameError("variant", name, VARIANTS, where)
    return VARIANTS[folded]


def format_bytes(name: str) -> float:
    """Bytes of an element, its part of a microscaling block's scale included."""
    return bits_per_element(name) / 8.0


def is_quantized(name: str) -> bool:
    """Whether an element is turned into a 16-bit one before it is used (LIFE §3.3.1)."""
    return find_format(name).element_bits < 16


def weight_bytes_per_element(variant: Variant) -> float:
    """Bytes of a weight of a projection with its part of the group's scale and zero point.

    LIFE, Appendix 8.1, lines 12-16: k·n/2 + (k/g)·n·(2 + 0.5) bytes at int4. Limiting
    assumption: the group divides the rows, so that none is started in part.
    """
    width = format_bytes(variant.weight_format)
    if variant.weight_format not in _INTEGERS:
        return width
    return width + (SCALE_BYTES + width) / variant.group_size


def attention_variant(model: LanguageModel, variant: Variant) -> LanguageModel:
    """The model with the variant's kind of attention instead of its own.

    ``mla`` has keys of ``head_dim`` unrotated and half of that rotated elements a head, and
    values of ``head_dim`` (LIFE, Appendix 8.2).

    Raises:
        InputError: The model cannot have that kind.
    """
    if variant.attention == "native":
        return model
    if model.is_latent:
        raise InputError(
            f"expected native for {model.name}, which has MLA, got {variant.attention!r}",
            "attention",
        )
    changed: dict[str, object] = {"parameters": None}
    if variant.attention == "mla":
        width = model.head_dim
        changed |= {
            "q_lora_rank": variant.q_lora_rank,
            "kv_lora_rank": variant.kv_lora_rank,
            "qk_nope_head_dim": width,
            "qk_rope_head_dim": max(1, width // 2),
            "v_head_dim": width,
        }
    else:
        changed["num_key_value_heads"] = _kv_heads(model, variant)
    try:
        return LanguageModel.model_validate({**model.model_dump(), **changed})
    except ValidationError as error:
        reason = sentence_of(error.errors()[0])
        raise InputError(
            f"{model.name} cannot have {variant.attention}: {reason}", "attention"
        ) from None


def _kv_heads(model: LanguageModel, variant: Variant) -> int:
    heads = model.num_attention_heads
    if variant.attention == "mha":
        return heads
    if variant.attention == "mqa":
        return 1
    return variant.kv_heads or max(1, heads // HEADS_PER_GROUP)
