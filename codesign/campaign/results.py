"""The observations of a campaign as arrays, read from its store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from codesign.campaign.definition import Definition, campaign_reading
from codesign.campaign.observations import Run
from codesign.campaign.reference import minimized
from codesign.campaign.store import Store
from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.enumeration import ExactFront
from codesign.pareto import non_dominated
from codesign.problem import Problem


@dataclass(frozen=True)
class Results:
    """All observations of a campaign at one moment, in the order of runs and steps.

    Attributes:
        definition: The campaign's.
        problem: The campaign's.
        reference_point: Bound of the hypervolume by objective, in natural sign.
        runs: Every optimizer with every seed.
        run_index: (n,) index into ``runs``.
        step: (n,) number of the observation within its run, from 0.
        batch: (n,) number of the batch within its run; those in a batch were asked together.
        rows: (n, d) designs.
        metrics: (n,) values by name; NaN where failed or not reported.
        objectives: (n, m) values to minimize; NaN where failed.
        violations: (n,) values by name; ``<= 0`` is within the limit; NaN where failed.
        feasible: (n,) whether every limit is met.
        failed: (n,) whether the evaluator gave no result.
        reasons: Why, by position.
        hypervolume: (n,) of the run up to and including the observation.
        versions: Of the libraries with which the campaign was begun.
        exact: The exact front of the problem, if it has been enumerated.
        state: Of the campaign at that moment: ``complete``, ``exhausted`` (no further design
            existed), ``running`` or ``stopped``.
    """

    definition: Definition
    problem: Problem
    reference_point: Mapping[str, float]
    runs: tuple[Run, ...]
    run_index: IntArray
    step: IntArray
    batch: IntArray
    rows: IntArray
    metrics: Mapping[str, FloatArray]
    objectives: FloatArray
    violations: Mapping[str, FloatArray]
    feasible: BoolArray
    failed: BoolArray
    reasons: Mapping[int, str]
    hypervolume: FloatArray
    versions: Mapping[str, str] = field(default_factory=dict)
    exact: ExactFront | None = None
    state: str = "complete"

    def __len__(self) -> int:
        return len(self.rows)

    def front(self) -> IntArray:
        """Positions of the non-dominated feasible designs over all runs.

        Each distinct design once, at its first observation; sorted by the first objective, best
        first. Empty if no design is feasible.
        """
        feasible = np.flatnonzero(self.feasible)
        kept = feasible[non_dominated(self.objectives[feasible])]
        _, first = np.unique(self.problem.space.keys(self.rows[kept]), return_index=True)
        distinct = kept[np.sort(first)]
        order = np.lexsort(self.objectives[distinct].T[::-1])
        return distinct[order]

    @property
    def reading(self) -> dict[str, Any]:
        """Name, profile and options of the evaluator."""
        return campaign_reading(self.definition, self.problem)

    @property
    def is_partial(self) -> bool:
        """Whether the campaign had not ended."""
        return self.state not in ("complete", "exhausted")

    @property
    def exact_hypervolume(self) -> float | None:
        """Of the exact front, the most that any optimizer can reach; None if it is not known."""
        if self.exact is None:
            return None
        return self.exact.hypervolume(minimized(self.problem, self.reference_point))

    def design(self, position: int) -> dict[str, Any]:
        """The present parameters of one design, as ``codesign evaluate`` takes them."""
        design = self.problem.space.decode(self.rows[position : position + 1])[0]
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in design.items()
            if value is not None
        }


def read_results(
    store: Store,
    definition: Definition,
    problem: Problem,
    exact: ExactFront | None = None,
    state: str = "complete",
) -> Results:
    """The observations of an open store, next to the exact front where it is known.

    Raises:
        StoreError: The store is damaged.
    """
    table, layout = store.read(), store.layout
    violations = layout.violations_of(table.numbers)
    return Results(
        definition=definition,
        problem=problem,
        reference_point=store.meta["reference_point"],
        runs=store.runs,
        run_index=table.run,
        step=table.step,
        batch=table.batch,
        rows=table.rows,
        metrics={name: table.numbers[:, j] for j, name in enumerate(layout.metrics)},
        objectives=layout.objectives_of(table.numbers),
        violations={name: violations[:, j] for j, name in enumerate(layout.violations)},
        feasible=table.feasible,
        failed=table.failed,
        reasons=table.reasons,
        hypervolume=table.hypervolume,
        versions=store.meta.get("versions", {}),
        exact=exact,
        state=state,
    )
