"""Rules of operators, one row each, for machines and deployments.

A row states how several devices divide the operator, which kernel runs it, and its role.

Tensor parallelism cuts a matrix by columns, so that every device has a part of the output, or by
rows, so that every device has a part of the input and a partial sum of the whole output; attention
is cut by heads [Shoeybi2019]_. After a cut by rows the devices add up their partial sums
(all-reduce). Every device has the same code, so the one with the largest part sets the pace.

A kernel is what a device starts at once: the products with keys and values and the softmax between
them are one, as FlashAttention has it, and so is a layer of experts.

What an operator does in its layer is its role: those who count work by other rules than the
lowering, as LIFE does, go by it and not by the operator's name.

An operator that has no row here is refused when it is lowered.

.. [Shoeybi2019] M. Shoeybi et al., Megatron-LM: Training multi-billion parameter language
   models using model parallelism, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from codesign.base.errors import check_known

Axis: TypeAlias = Literal["columns", "rows", "heads", "replicated"]
Collective: TypeAlias = Literal["all_reduce", "all_gather"]
Kernel: TypeAlias = Literal[
    "gemm", "absorption", "attention", "index", "experts", "scan", "rowwise", "residual", "lookup",
    "stream",
]  # fmt: skip
Dimension: TypeAlias = Literal[
    "query_heads", "query_key_value", "kv_heads", "latent", "value_heads", "linear_projection",
    "linear_convolution", "mlp", "shared", "expert", "vocabulary", "all",
]  # fmt: skip
Access: TypeAlias = Literal["streamed", "paged", "gathered"]
Scope: TypeAlias = Literal["tokens", "logits", "phase"]
Role: TypeAlias = Literal[
    "embedding", "norm", "residual", "lm_head", "qkv", "qk_norm", "rope", "softmax",
    "attention_output", "latent", "query", "key_value", "up", "activation", "down", "router",
    "combination", "other",
]  # fmt: skip


@dataclass(frozen=True)
class OperatorRule:
    """Division of one operator among devices, its kernel and its role.

    Attributes:
        axis: What is cut: columns or rows of its weights, heads, or nothing.
        dimension: Dimension of the model along which it is cut.
        kernel: Kernel that runs it: a matrix product, or one for each head; attention, the choice
            of its tokens by an index, experts or a scan of linear attention, of which it is a part;
            a kernel that works row by row; an addition that the next norm does on its way; a
            look-up in a table; a kernel that streams a state of every request.
        collective: What the devices send one another afterwards: the operator's output, added up
            (``all_reduce``) or put together (``all_gather``); None if nothing.
        role: What it does in its layer, the same for dense, shared and routed feed-forward layers:
            their ``up`` projections have the gate's matrix with them.
        scope: Which tokens of a step go through it together: all ``tokens``; those before a
            predicted one, which ``logits`` are computed of; or those of prompts and of decoding
            requests apart, since each ``phase`` does it in its own way.
        is_windowed: Whether it is attention of layers that slide, in a model that has others too.
        access: Order in which it reads stored data: ``streamed`` from end to end, ``paged`` as
            caches of serving engines are, or ``gathered`` row by row.
        stored: Dimension along which devices divide the cache or the state that it stores.
    """

    axis: Axis
    dimension: Dimension
    kernel: Kernel
    collective: Collective | None = None
    role: Role = "other"
    scope: Scope = "tokens"
    is_windowed: bool = False
    access: Access = "streamed"
    stored: Dimension = "all"

    @property
    def has_keys(self) -> bool:
        """Whether requests multiply with keys or values that are their own, or weigh the scores."""
        return self.kernel in ("attention", "index")

    @property
    def divides_weights(self) -> bool:
        """Whether a device has a part of the weights; of a norm every device has them all."""
        return self.kernel != "rowwise"


REPLICATED_PRODUCT = OperatorRule("replicated", "all", "gemm")
"""A product that every device does with all of its weights."""
STREAMED_STATE = OperatorRule("replicated", "all", "stream", scope="phase")
"""An operator that reads and writes a state of every request, which every device stores."""
_ATTENTION = OperatorRule(
    "heads", "query_heads", "attention", scope="phase", access="paged", stored="kv_heads"
)
_ROWS_OF_HEADS = OperatorRule("heads", "query_heads", "rowwise")
_INDEX = OperatorRule("replicated", "all", "index", scope="phase", access="paged")
_ABSORPTION = OperatorRule("heads", "query_heads", "absorption", scope="phase")
_SCAN = OperatorRule("heads", "value_heads", "scan", scope="phase", stored="value_heads")
_CONVOLUTION = replace(_SCAN, dimension="linear_convolution")

_RULES: dict[str, OperatorRule] = {
    "embedding": OperatorRule(
        "rows", "vocabulary", "lookup", "all_reduce", role="embedding", access="gathered"
    ),
    "embedding_projection": REPLICATED_PRODUCT,
    "norm": OperatorRule("replicated", "all", "rowwise", role="norm"),
    "residual": OperatorRule("replicated", "all", "residual", role="residual"),
    "lm_head": OperatorRule(
        "columns", "vocabulary", "gemm", "all_gather", role="lm_head", scope="logits"
    ),
    # Attention with grouped queries.
    "qkv_projection": OperatorRule("columns", "query_key_value", "gemm", role="qkv"),
    "qk_norm": replace(_ROWS_OF_HEADS, role="qk_norm"),
    "rope": replace(_ROWS_OF_HEADS, role="rope"),
    "attention_qk": _ATTENTION,
    "softmax": replace(_ATTENTION, role="softmax"),
    "attention_pv": _ATTENTION,
    "sliding_attention_qk": replace(_ATTENTION, is_windowed=True),
    "sliding_softmax": replace(_ATTENTION, role="softmax", is_windowed=True),
    "sliding_attention_pv": replace(_ATTENTION, is_windowed=True),
    "output_gate": _ROWS_OF_HEADS,
    "output_projection": OperatorRule(
        "rows", "query_heads", "gemm", "all_reduce", role="attention_output"
    ),
    # Multi-head latent attention: all heads share the latent, which every device keeps.
    "latent_projection": OperatorRule("columns", "latent", "gemm", role="latent"),
    "latent_norm": OperatorRule("replicated", "all", "rowwise", role="norm"),
    "query_projection": OperatorRule("columns", "query_heads", "gemm", role="query"),
    "key_value_projection": OperatorRule(
        "columns", "query_heads", "gemm", role="key_value", scope="phase"
    ),
    "query_absorption": _ABSORPTION,
    "value_absorption": _ABSORPTION,
    # The indexer of sparse latent attention, which every device has.
    "index_projection": REPLICATED_PRODUCT,
    "index_query_projection": REPLICATED_PRODUCT,
    "index_norm": OperatorRule("replicated", "all", "rowwise", role="norm"),
    "index_scores": _INDEX,
    "index_selection": _INDEX,
    # Linear attention.
    "linear_projection": OperatorRule("columns", "linear_projection", "gemm"),
    "linear_convolution": _CONVOLUTION,
    "linear_qk_norm": replace(_CONVOLUTION, role="norm"),
    "linear_decay": _SCAN,
    "linear_state_products": _SCAN,
    "linear_state_update": _SCAN,
    "scan_projection": OperatorRule("rows", "value_heads", "gemm", "all_reduce"),
    "time_step_projection": OperatorRule("columns", "value_heads", "gemm"),
    "selective_scan": _SCAN,
    "convolution_gates": _SCAN,
    "scan_scores": _SCAN,
    "scan_decay": _SCAN,
    "scan_corrections": _SCAN,
    "scan_state_products": _SCAN,
    "scan_outputs": _SCAN,
    "scan_state_update": _SCAN,
    "linear_norm": OperatorRule("heads", "value_heads", "rowwise", role="norm"),
    "linear_output_projection": OperatorRule("rows", "value_heads", "gemm", "all_reduce"),
    # Feed-forward layers. Partial sums of all experts are combined before they are added up.
    "gate_up_projection": OperatorRule("columns", "mlp", "gemm", role="up"),
    "up_projection": OperatorRule("columns", "mlp", "gemm", role="up"),
    "activation": OperatorRule("heads", "mlp", "rowwise", role="activation"),
    "down_projection": OperatorRule("rows", "mlp", "gemm", "all_reduce", role="down"),
    "router": replace(REPLICATED_PRODUCT, role="router"),
    "shared_gate_up_projection": OperatorRule("columns", "shared", "gemm", role="up"),
    "shared_up_projection": OperatorRule("columns", "shared", "gemm", role="up"),
    "shared_activation": OperatorRule("heads", "shared", "rowwise", role="activation"),
    "shared_down_projection": OperatorRule("rows", "shared", "gemm", role="down"),
    "expert_latent_projection": REPLICATED_PRODUCT,
    "expert_latent_output": REPLICATED_PRODUCT,
    "expert_gate_up_projection": OperatorRule("columns", "expert", "experts", role="up"),
    "expert_up_projection": OperatorRule("columns", "expert", "experts", role="up"),
    "expert_activation": OperatorRule("heads", "expert", "experts", role="activation"),
    "expert_down_projection": OperatorRule("rows", "expert", "experts", role="down"),
    "expert_combination": OperatorRule(
        "replicated", "all", "experts", "all_reduce", role="combination"
    ),
}


def operator_rule(operator: str) -> OperatorRule:
    """The rule of the operator of that name.

    Raises:
        UnknownNameError: The operator has none.
    """
    check_known("operator", operator, _RULES)
    return _RULES[operator]
