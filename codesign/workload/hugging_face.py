"""Hugging Face's ``config.json`` as a :class:`LanguageModel`.

Real files have many keys that say nothing about dimensions; those are ignored. A key that
would change the shape of the model in a way that is not modeled is refused. Of a file that nests
a language model in ``text_config``, that part is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from codesign.errors import InputError, describe_unknown
from codesign.schema import Document, to_record
from codesign.workload.model import LINEAR_KEYS, LanguageModel

_DIMENSIONS = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu",
                "gelu_pytorch_tanh": "gelu", "gelu_fast": "gelu"}  # fmt: skip
FIRST_WINDOW_LAYER = 28
"""Transformers' default of ``max_window_layers``."""
ROTATED_PART, FULL_ATTENTION_INTERVAL = 0.25, 4
"""Transformers' defaults of ``partial_rotary_factor`` and ``full_attention_interval`` for
Qwen3-Next and Qwen3.5."""


@dataclass(frozen=True)
class _Family:
    """How one ``model_type`` is read.

    Attributes:
        required: Keys that the file must have.
        optional: Keys that are taken if present.
        renamed: Our key for a key of another name.
        fixed: Values that the architecture's code has built in.
        expected: Keys that may only have one of these values, if present.
        window_key: Key that says whether ``sliding_window`` counts; None: it counts.
        first_window_key: Key with the number of layers before the first sliding one; None: 0.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, object] = field(default_factory=dict)
    expected: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    window_key: str | None = None
    first_window_key: str | None = None


_LLAMA = _Family(
    required=(*_DIMENSIONS, "vocab_size"),
    optional=("num_key_value_heads", "head_dim", "tie_word_embeddings", "hidden_act",
              "attention_bias", "mlp_bias", "layer_types", "sliding_window"),
)  # fmt: skip
# Their default of num_key_value_heads is not the number of heads, so it has to be given.
_GROUPED = replace(_LLAMA, required=(*_LLAMA.required, "num_key_value_heads"))
_WINDOWED = replace(_GROUPED, window_key="use_sliding_window", first_window_key="max_window_layers")
_MIXTURE = ("num_experts", "num_experts_per_tok", "moe_intermediate_size")
_SPARSE = ("decoder_sparse_step", "mlp_only_layers")
_DEEPSEEK = _Family(
    required=(*_DIMENSIONS, "vocab_size", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
              "v_head_dim", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
              "first_k_dense_replace"),
    optional=("q_lora_rank", "n_shared_experts", "tie_word_embeddings", "hidden_act",
              "attention_bias"),
    expected={"moe_layer_freq": (1,)},
)  # fmt: skip

_QWEN3_NEXT = replace(
    _GROUPED,
    required=(*_GROUPED.required, "head_dim", *_MIXTURE, "shared_expert_intermediate_size",
              *LINEAR_KEYS),
    optional=(*_GROUPED.optional, *_SPARSE, "full_attention_interval", "mamba_ssm_dtype"),
    renamed={"num_experts": "n_routed_experts"},
    fixed={"qk_norm": True, "attn_output_gate": True},
    window_key="use_sliding_window",
)  # fmt: skip
_NESTED = {"qwen3_5_moe": "qwen3_5_moe_text"}
"""Types of files whose ``text_config`` is of another type."""

_FAMILIES: dict[str, _Family] = {
    "llama": _LLAMA,
    "mistral": _GROUPED,
    "mixtral": replace(
        _GROUPED,
        required=(*_GROUPED.required, "num_local_experts", "num_experts_per_tok"),
        renamed={"num_local_experts": "n_routed_experts"},
    ),
    "qwen2": replace(_WINDOWED, fixed={"attention_bias": True, "attention_output_bias": False}),
    "qwen3": replace(_WINDOWED, required=(*_GROUPED.required, "head_dim"), fixed={"qk_norm": True}),
    "qwen3_moe": replace(
        _GROUPED,
        required=(*_GROUPED.required, "head_dim", *_MIXTURE),
        optional=(*_GROUPED.optional, *_SPARSE),
        renamed={"num_experts": "n_routed_experts"},
        fixed={"qk_norm": True},
        window_key="use_sliding_window",
    ),
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5_moe_text": replace(
        _QWEN3_NEXT,
        # Every layer has experts; a width of dense ones is not in the file.
        required=tuple(key for key in _QWEN3_NEXT.required if key != "intermediate_size"),
        optional=tuple(key for key in _QWEN3_NEXT.optional if key not in _SPARSE),
        expected={"attn_output_gate": (True,)},
    ),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": replace(_DEEPSEEK, fixed={"has_router_bias": True}),
    "gpt2": _Family(
        required=("n_embd", "n_head", "n_layer", "vocab_size", "n_positions"),
        optional=("n_inner", "tie_word_embeddings", "activation_function"),
        renamed={
            "n_embd": "hidden_size",
            "n_head": "num_attention_heads",
            "n_layer": "num_hidden_layers",
            "n_positions": "max_position_embeddings",
            "n_inner": "intermediate_size",
            "activation_function": "hidden_act",
        },
        fixed={
            "is_gated": False,
            "norm": "layernorm",
            "position": "learned",
            "attention_bias": True,
            "attention_output_bias": True,
            "mlp_bias": True,
        },
    ),
    "llada": _Family(
        required=("d_model", "n_heads", "n_layers", "mlp_hidden_size", "vocab_size"),
        optional=("n_kv_heads", "weight_tying", "activation_type", "embedding_size"),
        renamed={
            "d_model": "hidden_size",
            "n_heads": "num_attention_heads",
            "n_layers": "num_hidden_layers",
            "mlp_hidden_size": "intermediate_size",
            "n_kv_heads": "num_key_value_heads",
            "weight_tying": "tie_word_embeddings",
            "activation_type": "hidden_act",
            "embedding_size": "vocab_size",
        },
        fixed={"is_diffusion": True},
        expected={
            "block_type": ("llama",),
            "rope": (True,),
            "include_bias": (False,),
            "include_qkv_bias": (False, None),
            "layer_norm_type": ("rms",),
        },
    ),
}


def known_model_types() -> list[str]:
    """The values of ``model_type`` that can be read."""
    return sorted([*_FAMILIES, *_NESTED])


def from_config(document: Document, name: str) -> LanguageModel:
    """The model that a ``config.json`` describes.

    Raises:
        InputError: An architecture that is not modeled, a missing key, or a value that makes
            no sense; all that were found.
    """
    if document.data["model_type"] in _NESTED:
        document = _text_config(document)
    config = document.data
    family = _FAMILIES.get(str(config["model_type"]))
    if family is None:
        problem = describe_unknown("model_type", config["model_type"], known_model_types())
        raise InputError(problem, document.where("model_type"))
    problems = _problems(document, family)
    if problems:
        raise InputError(problems)
    keys = [*family.required, *(key for key in family.optional if config.get(key) is not None)]
    renamed = {key: family.renamed.get(key, key) for key in keys}
    values: dict[str, Any] = {ours: config[key] for key, ours in renamed.items()}
    # Errors about our key point to the line of the file's own.
    lines = document.lines | {(ours,): document.lines[(key,)] for key, ours in renamed.items()}
    completed = _complete(document, values) | dict(family.fixed) | {"name": name}
    completed |= _layers(config, family, completed)
    return to_record(replace(document, lines=lines), LanguageModel, completed)


def _text_config(document: Document) -> Document:
    """The language model in a file of several models, with its lines in that file."""
    kind, key = str(document.data["model_type"]), "text_config"
    nested = document.data.get(key)
    if not isinstance(nested, dict):
        problem = f"expected the keys of the language model of {kind!r}, got {nested!r}"
        raise InputError(problem, document.where(key))
    lines = {path[1:]: line for path, line in document.lines.items() if path[0] == key}
    return replace(document, data={"model_type": _NESTED[kind], **nested}, lines=lines)


def _layers(config: dict[str, Any], family: _Family, values: dict[str, Any]) -> dict[str, Any]:
    """Kinds of attention by layer and their window, as Transformers' configurations fill them."""
    window, kinds = values.get("sliding_window"), values.get("layer_types")
    if family.window_key is not None and not config.get(family.window_key):
        window = None
    if kinds is not None:
        is_used = not isinstance(kinds, list) or "sliding_attention" in kinds
        return {"sliding_window": window if is_used else None, "full_attention_interval": None}
    layers, first = values["num_hidden_layers"], 0
    if family.first_window_key is not None:
        first = config.get(family.first_window_key, FIRST_WINDOW_LAYER)
    if window is None or not (isinstance(layers, int) and isinstance(first, int)) or first == 0:
        return {"sliding_window": window}
    if first >= layers:
        return {"sliding_window": None}
    return {"layer_types": ["full_attention"] * first + ["sliding_attention"] * (layers - first)}


def _problems(document: Document, family: _Family) -> list[str]:
    config, kind = document.data, document.data["model_type"]
    problems = [
        f"{document.where(key)}: the key is required for model_type {kind!r}"
        for key in family.required
        if config.get(key) is None
    ]
    if family.window_key and config.get(family.window_key) and "sliding_window" not in config:
        problem = f"the key is required, since {family.window_key} is given"
        problems.append(f"{document.where('sliding_window')}: {problem}")
    for key, allowed in family.expected.items():
        if key in config and config[key] not in allowed:
            known = " or ".join(str(value) for value in allowed if value is not None)
            problems.append(
                f"{document.where(key)}: expected {known} (others are not modeled), "
                f"got {config[key]!r}"
            )
    return problems


def _complete(document: Document, values: dict[str, Any]) -> dict[str, Any]:
    """The architectures' own defaults and spellings."""
    kind = document.data["model_type"]
    completed = dict(values)
    if "hidden_act" in completed:
        spelling = completed["hidden_act"]
        if spelling not in _ACTIVATIONS:
            problem = describe_unknown("activation", spelling, _ACTIVATIONS)
            raise InputError(problem, document.where("hidden_act"))
        completed["hidden_act"] = _ACTIVATIONS[spelling]
    if kind == "gpt2":
        completed.setdefault("hidden_act", "gelu")
        completed.setdefault("tie_word_embeddings", True)
        if isinstance(completed["hidden_size"], int):
            completed.setdefault("intermediate_size", 4 * completed["hidden_size"])
    elif kind == "mixtral":
        completed["moe_intermediate_size"] = completed["intermediate_size"]
    elif kind in ("qwen3_next", "qwen3_5_moe_text"):
        rope = document.data.get("rope_parameters")  # where newer files have the factor
        keys = document.data | (rope if isinstance(rope, dict) else {})
        completed["partial_rotary_factor"] = keys.get("partial_rotary_factor", ROTATED_PART)
        completed.setdefault("full_attention_interval", FULL_ATTENTION_INTERVAL)
        completed.setdefault("intermediate_size", completed["moe_intermediate_size"])
    completed.setdefault("attention_output_bias", completed.get("attention_bias", False))
    return completed
