"""A cantilever of rectangular section: how far its free end bends, and what it weighs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codesign.base.columns import BoolArray, Columns, FloatArray, IntArray
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import Metric
from codesign.base.schema import Record
from codesign.report.frames import scope_columns
from codesign.search.optimizers.base import BaseOptimizer


class Beam(Evaluator):
    """Small bending of a uniform beam under a unit load at its end, modulus 1."""

    class Workload(Record):
        """What a campaign's ``workload:`` says."""

        length: float
        """Metres from the wall to the load."""

    class Options(Record):
        """What a campaign's ``evaluator:`` says beside ``name:``."""

        density: float = 1.0
        """Kilograms per cubic metre."""

    metrics = (
        Metric("deflection_m", "minimize", "m", "of the free end under a unit load"),
        Metric("mass_kg", "minimize", "", "of the beam"),
    )
    workload: Workload
    options: Options
    required_parameters = frozenset({"width", "height"})

    def __init__(self, workload: Workload, options: Options) -> None:
        self.workload, self.options = workload, options

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        """Each metric as an ``(n,)`` array; only those that are asked for."""
        width, height = (designs[name].lookup(float) for name in ("width", "height"))
        length = self.workload.length
        values = {
            "deflection_m": 4 * length**3 / (width * height**3),
            "mass_kg": self.options.density * length * width * height,
        }
        names = values if metrics is None else metrics
        return Evaluation({name: values[name] for name in names})

    def provenance(self) -> dict[str, Any]:
        """All that a result depends on."""
        return {"workload": self.workload.model_dump(), "options": self.options.model_dump()}


class Spread(BaseOptimizer):
    """Of designs drawn at random, those that differ in most parameters from all that it knows."""

    class Options(Record):
        """What a campaign's ``optimizers:`` says beside ``name:``."""

        drawn: int = 16
        """Designs drawn for each that is proposed."""

    _options: Options

    def _set_up(self) -> None:
        self._known = self._space.no_rows

    def ask(self, n: int) -> IntArray:
        """At most ``n`` designs that it was not told; asking changes nothing."""
        rows = self._space.sample_unseen(self._rng(), n * self._options.drawn, self._seen)
        differs = rows[:, None, :] != self._known[None, :, :]
        least = differs.sum(axis=2).min(axis=1, initial=rows.shape[1])
        return rows[np.argsort(-least, kind="stable")[:n]]

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Remember the designs; what they are worth changes nothing here."""
        super().tell(rows, objectives, violations, failed)
        self._known = np.concatenate([self._known, rows])


def to_latex(results: Any, path: Path, scope: str = "front") -> Path:
    """The observations as a LaTeX table."""
    columns = scope_columns(results, scope)
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    lines = [" & ".join(str(cell).replace("_", r"\_") for cell in row) + r" \\" for row in rows]
    head = rf"\begin{{tabular}}{{{'l' * len(columns)}}}"
    path.write_text("\n".join([head, *lines, r"\end{tabular}", ""]), encoding="utf-8")
    return path
