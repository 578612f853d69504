"""What one device has of every operator when a layer is split over a group of devices.

A matrix is split by columns (its output is split) or by rows (its input is split, and partial
sums are added up by an all-reduce) [Shoeybi2019]_; attention is split by heads. Each rank has
the larger part where a dimension does not divide.

.. [Shoeybi2019] M. Shoeybi et al., Megatron-LM: Training multi-billion parameter language
   models using model parallelism, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.platforms import Platform
from codesign.workload.model import LanguageModel

Style: TypeAlias = Literal["column", "row", "heads", "replicated"]
Dimension: TypeAlias = Literal[
    "vocabulary", "qkv", "latent", "heads", "mlp", "shared", "expert", "router"
]

_RULES: dict[str, tuple[Style, Dimension]] = {
    "embedding": ("row", "vocabulary"),
    "qkv_projection": ("column", "qkv"),
    "latent_projection": ("column", "latent"),
    "query_projection": ("column", "heads"),
    "key_value_projection": ("column", "heads"),
    "query_absorption": ("heads", "heads"),
    "value_absorption": ("heads", "heads"),
    "attention_qk": ("heads", "heads"),
    "attention_pv": ("heads", "heads"),
    "output_projection": ("row", "heads"),
    "gate_up_projection": ("column", "mlp"),
    "up_projection": ("column", "mlp"),
    "down_projection": ("row", "mlp"),
    "router": ("row", "router"),
    "shared_gate_up_projection": ("column", "shared"),
    "shared_up_projection": ("column", "shared"),
    "shared_down_projection": ("row", "shared"),
    "expert_gate_up_projection": ("column", "expert"),
    "expert_up_projection": ("column", "expert"),
    "expert_down_projection": ("row", "expert"),
    "lm_head": ("column", "vocabulary"),
}


@dataclass(frozen=True)
class RankShare:
    """A rank's part of an operator; (n,) each, of the work, the input and the output."""

    work: FloatArray
    input: FloatArray
    output: FloatArray


class Sharding:
    """Parts of a model's dimensions that one device of ``n`` platforms has.

    Args:
        model: The language model.
        platform: Degrees of parallelism.
        is_genz: Whether the vocabulary and the router's rows are rounded down, as GenZ's tool
            has it, and the router is split at all.
    """

    def __init__(self, model: LanguageModel, platform: Platform, is_genz: bool) -> None:
        ranks, tp = platform.attention_ranks, platform.tp
        self.heads_per_rank = np.ceil(model.num_attention_heads / ranks)
        self.kv_heads_per_rank = np.ceil(model.num_key_value_heads / ranks)
        heads = self.heads_per_rank / model.num_attention_heads
        kv_heads = self.kv_heads_per_rank / model.num_key_value_heads
        rounded = np.floor if is_genz else np.ceil
        unsplit = np.ones_like(tp)
        self._parts: dict[Dimension, FloatArray] = {
            "vocabulary": rounded(model.vocab_size / ranks) / model.vocab_size,
            "heads": heads,
            "qkv": _qkv(model, heads, kv_heads),
            "latent": _latent(model, heads),
            "mlp": np.ceil(model.intermediate_size / tp) / model.intermediate_size,
            "router": np.floor(model.hidden_size / tp) / model.hidden_size if is_genz else unsplit,
        }
        if model.is_mixture:
            moe = model.moe_dims
            width = moe.moe_intermediate_size
            shared = moe.shared_width or width
            self._parts |= {
                "expert": np.ceil(width / tp) / width,
                "shared": np.ceil(shared / tp) / shared,
            }
        # All heads share one latent, which every rank therefore holds.
        self.kv = unsplit if model.is_latent else kv_heads

    def knows(self, name: str) -> bool:
        """Whether the operator is a product or a look-up, which take time here."""
        return name in _RULES

    def share(self, name: str) -> RankShare:
        """A rank's part of the operator of that name."""
        style, dimension = _RULES[name]
        part = self._parts[dimension]
        unsplit = np.ones_like(part)
        return RankShare(
            work=part,
            input=unsplit if style == "column" else part,
            output=unsplit if style == "row" else part,
        )


def _qkv(model: LanguageModel, heads: FloatArray, kv_heads: FloatArray) -> FloatArray:
    queries, keys = model.num_attention_heads, 2 * model.num_key_value_heads
    return (queries * heads + keys * kv_heads) / (queries + keys)


def _latent(model: LanguageModel, heads: FloatArray) -> FloatArray:
    """The down projections of MLA: queries are split only where they have no latent."""
    if not model.is_latent or model.latent_dims.q_lora_rank is not None:
        return np.ones_like(heads)
    dims = model.latent_dims
    query = model.num_attention_heads * (dims.qk_nope_head_dim + dims.qk_rope_head_dim)
    rest = dims.kv_lora_rank + dims.qk_rope_head_dim
    return (query * heads + rest) / (query + rest)
