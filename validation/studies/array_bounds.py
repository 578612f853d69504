"""Cycles of every product against what no array can beat, and why some take far longer.

An array of MLEN x BLEN units does that many multiply-accumulates in a cycle, and takes MLEN
operands: a product can be no faster than its multiply-accumulates over the one, nor than its
stationary operand (weights, keys or values, each element once) over the other. What takes longer
works on padding: along rows, columns or the inner size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from codesign.base.columns import Columns, FloatArray
from codesign.evaluators.npu import NpuEvaluator
from codesign.models.machines.npu.stage_records import Shape
from codesign.models.memtech import load_library
from codesign.models.workload import Request, list_models
from codesign.models.workload.lowering import Phase
from codesign.space import load_space
from validation.studies.study import Study, comparison, promise, summarize

DESIGNS = 1_000
"""Default number of drawn designs."""
FAR = 4.0
"""Times the bound beyond which a product needs a reason."""
_ROUNDING = 1e-9
"""Largest relative shortfall of cycles below the bound by rounding."""
_NOTICEABLE = 1.1
"""Padding, as a factor, from which it is named as a reason [ours]."""
_PHASES: tuple[Phase, ...] = ("prefill", "decode")


@dataclass(frozen=True)
class BoundedProduct:
    """An operator that multiplies, on ``u`` distinct arrays and batch sizes.

    Attributes:
        rows: (u,) rows of one product.
        inner: Inner size of one product.
        n_products: (u,) products of one instance.
        is_per_head: Whether it belongs to one head, whose columns share the array's depth.
        depth: (u,) MLEN.
        width: (u,) BLEN.
        cycles: (u,) of one instance, by the closed form.
    """

    model: str
    phase: Phase
    name: str
    kind: str
    rows: FloatArray
    inner: float
    columns: float
    n_products: FloatArray
    is_per_head: bool
    depth: FloatArray
    width: FloatArray
    cycles: FloatArray

    @property
    def bound(self) -> FloatArray:
        """(u,) cycles of its multiply-accumulates, or of its stationary operand if more."""
        operand = self.n_products * self.inner * self.columns / self.depth
        return np.asarray(np.maximum(operand * self.rows / self.width, operand))

    @property
    def ratio(self) -> FloatArray:
        """(u,) cycles over the bound."""
        return np.asarray(self.cycles / self.bound)

    def reason(self, position: int) -> str:
        """The padding that makes up the ratio on one array; empty if it does not."""
        rows, depth, width = (
            float(values[position]) for values in (self.rows, self.depth, self.width)
        )
        slots = max(1, int(depth // self.inner)) if self.is_per_head else 1
        deep = f"MLEN {depth:g}" + (f" / {slots} slots" if slots > 1 else "")
        # Rows that do not fill one tile cost no more than the operand that streams past them, and
        # a block of streaming columns may end after any of them.
        paddings = {
            f"{self.columns:,.6g} columns padded to {slots} slots": _padding(self.columns, slots),
            f"inner size {self.inner:,.6g} padded to {deep}": _padding(self.inner, depth / slots),
            f"{rows:,.6g} rows padded to BLEN {width:g}": _padding(max(rows, width), width),
        }
        if not math.isclose(math.prod(paddings.values()), self.ratio[position], rel_tol=1e-4):
            return ""
        noticeable = [text for text, factor in paddings.items() if factor >= _NOTICEABLE]
        return ", ".join(sorted(noticeable, key=lambda text: -paddings[text]))

    def row(self) -> dict[str, Any]:
        """The comparison on the array and batch size where it is farthest from the bound."""
        worst = int(self.ratio.argmax())
        array = f"{self.depth[worst]:g} x {self.width[worst]:g}"
        labels = {
            "what": f"{self.model} {self.phase} {self.name} on {array}",
            "model": self.model,
            "phase": self.phase,
            "operator": self.name,
            "group": self.kind,
            "array": array,
        }
        smallest, reason = float(self.ratio.min()), self.reason(worst)
        bound, cycles = self.bound[worst], self.cycles[worst]
        return comparison(labels, bound, cycles, smallest_ratio=smallest, reason=reason)


def _padding(size: float, tile: float) -> float:
    """Size covered by tiles over the size itself."""
    return math.ceil(size / tile) * tile / size


def run(seed: int = 0, size: int | None = None) -> Study:
    """The study.

    Args:
        size: Designs drawn; 1,000 if None.
    """
    space = load_space("memexplorer", {"memtech": load_library().catalog()})
    n = DESIGNS if size is None else size
    designs = space.columns(space.sample(np.random.default_rng([seed, 11]), n))
    products = [
        bounded
        for model, phase in product(list_models(), _PHASES)
        for bounded in products_of(model, phase, designs)
    ]
    rows = [bounded.row() for bounded in products]
    smallest = min(row["smallest_ratio"] for row in rows)
    unexplained = sum(_is_far(row) and not row["reason"] for row in rows)
    return Study(
        name="array-bounds",
        question=(
            f"How far above its lower bound is each product of the {len(list_models())} models on "
            f"the flattened arrays of {n:,} designs? The larger of its multiply-accumulates over "
            "the array's peak and its stationary operand over MLEN a cycle; errors are the excess."
        ),
        rows=rows,
        summary=[
            summarize(f"{phase}, {operator_kind}", np.concatenate(excess))
            for phase, operator_kind in product(_PHASES, dict.fromkeys(x.kind for x in products))
            if (
                excess := [
                    x.ratio - 1.0 for x in products if (x.phase, x.kind) == (phase, operator_kind)
                ]
            )
        ],
        targets=(
            [
                promise(
                    "smallest ratio of cycles to the bound",
                    f">= 1, to {_ROUNDING:g}",
                    smallest,
                    smallest >= 1.0 - _ROUNDING,
                ),
                promise(
                    f"operators beyond {FAR:g} times the bound for another reason than padding",
                    "<= 0",
                    unexplained,
                    unexplained == 0,
                ),
            ]
        ),
        notes=[
            "OSWorld's token counts; a row is the farthest of all arrays and batch sizes",
            "the stationary operand is weights, keys or values, each element once a product",
            *_far_notes(rows),
        ],
    )


def products_of(model: str, phase: Phase, designs: Columns) -> Iterator[BoundedProduct]:
    """Every operator of a pass that multiplies, on the distinct arrays and batch sizes."""
    evaluator = NpuEvaluator(Request(model=model, trace="osworld", phase=phase))
    pass_, working = evaluator.pass_, evaluator.choose(designs).working
    shapes = Shape(*pass_.shapes(working.shapes))
    depth, width = np.array([array[:2] for array, _ in working.shapes]).T
    table = pass_.table
    for i in np.flatnonzero(table.m_per_request > 0).tolist():
        yield BoundedProduct(
            model=model,
            phase=phase,
            name=table.names[i],
            kind=table.kinds[i],
            rows=shapes.rows[:, i],
            inner=float(table.k[i]),
            columns=float(table.n[i]),
            n_products=1.0 / shapes.per_product[:, i],
            is_per_head=bool(pass_.is_per_head[i]),
            depth=depth,
            width=width,
            cycles=shapes.cycles[:, i],
        )


def _is_far(row: Mapping[str, Any]) -> bool:
    return bool(row["error"] + 1.0 > FAR)


def _far_notes(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One note for each operator and reason, the farthest first."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: -row["error"]):
        if _is_far(row):
            groups.setdefault((row["operator"], row["reason"]), []).append(row)
    for (operator, reason), members in groups.items():
        ratios = ", ".join(
            f"{row['model']} {row['phase']} {row['error'] + 1.0:.3g} x" for row in members
        )
        yield f"{operator}, {reason or 'no reason found'}: {ratios}"
