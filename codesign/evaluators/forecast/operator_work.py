"""Work of operators, whatever machine does it: operations, bytes and dispatches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from codesign.base.columns import FloatArray, JsonObject, JsonRows, StringTuple
from codesign.base.records import frozen
from codesign.models.workload.operator_rules import OperatorRule, Role

QUANTITIES = (
    "matrix_ops",
    "vector_ops",
    "weight_bytes",
    "activation_read_bytes",
    "activation_written_bytes",
    "kv_read_bytes",
    "kv_written_bytes",
    "dispatches",
)
"""The rows of :class:`PassWork`. ``matrix_ops`` are those of products, ``vector_ops`` all others;
weights are read only."""
OPS = ("matrix_ops", "vector_ops")
READ = ("weight_bytes", "activation_read_bytes", "kv_read_bytes")
WRITTEN = ("activation_written_bytes", "kv_written_bytes")
CLASSES = ("linear", "bmm", "softmax", "norm", "rope", "elementwise", "embedding")
"""Kinds of operators, each of which may have efficiencies of its own."""
NORMS: tuple[Role, ...] = ("norm", "qk_norm")
"""Roles of the operators that normalize."""


def class_of(role: Role, operator_kind: str) -> str:
    """The one of ``CLASSES`` to which an operator of the lowering belongs."""
    class_by_kind = {"gemm": "linear", "attention_qk": "bmm", "attention_pv": "bmm",
             "linear_attention": "bmm", "gather": "embedding"}  # fmt: skip
    if operator_kind in class_by_kind:
        return class_by_kind[operator_kind]
    if role in NORMS:
        return "norm"
    return role if role in CLASSES else "elementwise"


@frozen
class PassWork:
    """Work of the ``o`` operators of one pass or of several, all layers together.

    Attributes:
        names: Names of the operators.
        classes: Kinds of the operators, each from ``CLASSES``.
        groups: Parts of the layer to which the operators belong, as the lowering has them.
        rules: What the operators are for.
        values: (..., q, o) amounts of work, one row per quantity in the order of ``QUANTITIES``.
    """

    names: StringTuple
    classes: StringTuple
    groups: StringTuple
    rules: tuple[OperatorRule, ...]
    values: FloatArray

    def sums(self, *quantities: str) -> FloatArray:
        """(..., o) the sum of these quantities by operator."""
        rows = [QUANTITIES.index(name) for name in quantities]
        return np.asarray(self.values[..., rows, :].sum(axis=-2))

    def total(self, *quantities: str) -> FloatArray:
        """(...) the sum over the operators as well."""
        return np.asarray(self.sums(*quantities).sum(axis=-1))

    def substituted(self, values: FloatArray) -> PassWork:
        """The same operators with other work."""
        return replace(self, values=values)

    def rows(self) -> JsonRows:
        """One row per operator for people; only of work without leading axes."""
        return [
            {"name": name, "class": class_name}
            | dict(zip(QUANTITIES, self.values[:, i].tolist(), strict=True))
            for i, (name, class_name) in enumerate(zip(self.names, self.classes, strict=True))
        ]


def added(works: Iterable[PassWork]) -> PassWork:
    """The work of several passes together; operators that only later ones have come last."""
    total, *others = works
    for work in others:
        new = [i for i, name in enumerate(work.names) if name not in total.names]
        values = np.pad(total.values, ((0, 0), (0, len(new))))
        labels: JsonObject = {
            label: (*getattr(total, label), *(getattr(work, label)[i] for i in new))
            for label in ("names", "classes", "groups", "rules")
        }
        values[:, [labels["names"].index(name) for name in work.names]] += work.values
        total = PassWork(values=values, **labels)
    return total
