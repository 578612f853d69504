"""Rules of operators (``operator_rules.csv``), one row each, for machines and deployments.

A row states how several devices divide the operator, which kernel runs it, and its role.

Tensor parallelism cuts a matrix by columns or by rows, and attention by heads [Shoeybi2019]_.
Columns give every device a part of the output. Rows give every device a part of the input and a
partial sum of the whole output; an all-reduce adds the partial sums. Every device runs the same
code, so the one with the largest part sets the pace.

A kernel is the work that a device launches at once. The products with keys and values and the
softmax between them are one kernel, as in FlashAttention; so is a layer of experts.

A role states what an operator does in its layer. Conventions that count work differently from the
lowering, such as LIFE's, use the role and not the operator's name.

An operator that has no row here is refused when it is lowered.

.. [Shoeybi2019] M. Shoeybi et al., Megatron-LM: Training multi-billion parameter language
   models using model parallelism, 2019.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from codesign.base.errors import entry_named
from codesign.base.records import frozen

Axis = Literal["columns", "rows", "heads", "replicated"]
Collective = Literal["all_reduce", "all_gather"]
Kernel = Literal[
    "gemm", "absorption", "attention", "index", "experts", "scan", "rowwise", "residual", "lookup",
    "stream",
]  # fmt: skip
Dimension = Literal[
    "query_heads", "query_key_value", "kv_heads", "latent", "value_heads", "linear_projection",
    "linear_convolution", "mlp", "shared", "expert", "vocabulary", "all",
]  # fmt: skip
Access = Literal["streamed", "paged", "gathered"]
Scope = Literal["tokens", "logits", "phase"]
Role = Literal[
    "embedding", "norm", "residual", "lm_head", "qkv", "qk_norm", "rope", "softmax",
    "attention_output", "latent", "query", "key_value", "up", "activation", "down", "router",
    "combination", "other",
]  # fmt: skip


@frozen
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


@cache
def _rules() -> dict[str, OperatorRule]:
    with Path(__file__).with_name("operator_rules.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    reader = TypeAdapter(OperatorRule)
    return {
        row["operator"]: reader.validate_python(
            {key: text for key, text in row.items() if text and key != "operator"}
        )
        for row in rows
    }


def operator_rule(operator: str) -> OperatorRule:
    """The rule of the operator of that name.

    Raises:
        UnknownNameError: The operator has none.
    """
    return entry_named("operator", operator, _rules())
