"""The bytes and elements that a model's operators store: sums over what each declares.

Weights are stored once, the KV cache for every token of context, a state for every request.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from codesign.base.columns import FloatArray, IntegerDict
from codesign.models.workload.lowering import lower
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operators import OperatorTable
from codesign.models.workload.precision import bits_per_element

PARTS = ("embedding", "attention", "linear_attention", "mlp", "experts", "shared_experts", "router",
         "norm", "lm_head")  # fmt: skip
"""Parts of a model whose parameters are counted apart."""


def stored_kv_elements(table: OperatorTable, n_tokens: float) -> FloatArray:
    """(o,) elements of the KV cache of a sequence, of all instances of each operator."""
    tokens = np.minimum(n_tokens, table.most_stored_tokens)
    return table.count * table.stored_kv_elements_per_token * tokens


def stored_state_bytes(table: OperatorTable, n_tokens: float) -> FloatArray:
    """(o,) bytes that a request of some length stores in formats of the model's own."""
    growing = table.stored_bytes_per_token * np.minimum(n_tokens, table.most_stored_tokens)
    return table.count * (growing + table.stored_bytes_per_request)


@lru_cache(maxsize=64)
def stored_operators(model: LanguageModel) -> OperatorTable:
    """The operators of one token; every pass stores the same."""
    return lower(model, "decode", 1, 1)


def parameters_by_part(model: LanguageModel) -> IntegerDict:
    """Parameters of every part of a model; tied weights count once, as ``embedding``.

    A multi-token-prediction module is not counted.
    """
    table = stored_operators(model)
    stored = table.count * table.stored_weight_elements
    return {
        label: round(float(stored[[name == label for name in table.parts]].sum()))
        for label in PARTS
    }


def parameter_count(model: LanguageModel) -> int:
    """Number of all parameters, which memory must hold; tied weights count once."""
    return sum(parameters_by_part(model).values())


def active_parameter_count(model: LanguageModel) -> int:
    """Parameters that one token meets: all but the routed experts that it does not use.

    The embedding table counts in full, as in Mixtral's published 12.9 B.
    """
    table = stored_operators(model)
    used = np.where(table.is_routed, table.experts_per_token / table.n_experts, 1.0)
    return round(float((table.count * table.stored_weight_elements * used).sum()))


def kv_elements(model: LanguageModel, n_tokens: float) -> int:
    """Elements of the KV cache of a sequence; sliding layers hold no more than their window."""
    return round(float(stored_kv_elements(stored_operators(model), n_tokens).sum()))


def kv_elements_per_token(model: LanguageModel) -> int:
    """Elements that one token of context takes in the KV cache, over all layers that hold it."""
    return kv_elements(model, 1)


def state_bytes(model: LanguageModel, n_tokens: float = 0) -> int:
    """Bytes that a request of some length stores in formats of the model's own, in all layers.

    The recurrent state of linear attention and the inputs that a convolution still needs do not
    grow with the tokens; the keys of indexers do.
    """
    return round(float(stored_state_bytes(stored_operators(model), n_tokens).sum()))


def state_bytes_per_token(model: LanguageModel) -> int:
    """Bytes by which a token of context adds to the state, such as keys of indexers."""
    return state_bytes(model, 1) - state_bytes(model)


def sliding_share(model: LanguageModel) -> float:
    """Share of the KV cache of a token that sliding layers hold; 0 without a cache."""
    table = stored_operators(model)
    elements = table.count * table.stored_kv_elements_per_token
    return float(elements[np.isfinite(table.most_stored_tokens)].sum() / (elements.sum() or 1))


def bytes_per_token(model: LanguageModel, design: Mapping[str, object]) -> float:
    """Bytes of the cache and of the state of a token, in the design's ``kv_format``."""
    kv_bytes = bits_per_element(str(design.get("kv_format", "bf16"))) / 8.0
    return kv_elements_per_token(model) * kv_bytes + state_bytes_per_token(model)
