"""Observations of designs: one record from the problem to the results.

A problem makes it of an evaluator's answer, optimizers keep it of what they are told, the loop and
the store add where each observation stands in its run, and results are read from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    BoolArray,
    FloatArray,
    IntArray,
    Strings,
    StringTuple,
)
from codesign.base.failures import Failure, Status
from codesign.base.records import frozen
from codesign.search.pareto import non_dominated

StatusArray = NDArray[np.int8]


@frozen
class Observations:
    """Results of ``n`` designs.

    Attributes:
        rows: (n, d) designs.
        objectives: (n, m) values to minimize; NaN where failed, and nowhere else.
        violations: (n, c) excess over every limit; ``<= 0`` is within; NaN where failed.
        violation_names: The evaluator's limits, then the problem's constraints on metrics; empty
            for an optimizer, to which limits have no names.
        metrics: (n,) values by name, each in its own sense; NaN where failed or not reported.
        failures: By position, why a design has no result, as far as that is known.
    """

    rows: IntArray
    objectives: FloatArray
    violations: FloatArray
    violation_names: StringTuple = ()
    metrics: Arrays = field(default_factory=dict)
    failures: Mapping[int, Failure] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def copied(
        cls, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> Observations:
        """Observations from the arguments of ``tell``, which may change afterwards."""
        minimized = np.array(objectives, np.float64)
        minimized[np.asarray(failed, bool)] = np.nan
        return cls(np.array(rows, np.int64), minimized, np.array(violations, np.float64))

    @property
    def tell_arguments(self) -> tuple[IntArray, FloatArray, FloatArray, BoolArray]:
        """The arguments of an optimizer's ``tell``."""
        return self.rows, self.objectives, self.violations, self.failed

    @cached_property
    def failed(self) -> BoolArray:
        """(n,) whether a design has no result."""
        return np.asarray(np.isnan(self.objectives).any(axis=1))

    @cached_property
    def feasible(self) -> BoolArray:
        """(n,) whether a design has a result and violates nothing."""
        return ~self.failed & (self.violations <= 0).all(axis=1)

    @cached_property
    def status(self) -> StatusArray:
        """(n,) values of :class:`~codesign.base.failures.Status`."""
        without_result = np.where(self.failed, Status.FAILED, Status.INFEASIBLE)
        status = np.where(self.feasible, Status.FEASIBLE, without_result).astype(np.int8)
        for position, failure in self.failures.items():
            status[position] = failure.status
        return status

    @property
    def front(self) -> IntArray:
        """Positions of the non-dominated feasible designs."""
        feasible = np.flatnonzero(self.feasible)
        return feasible[non_dominated(self.objectives[feasible])]

    @property
    def front_values(self) -> FloatArray:
        """(k, m) the distinct objectives on the front, sorted."""
        return np.unique(self.objectives[self.front], axis=0)

    @cached_property
    def violations_by_name(self) -> ArrayDict:
        """(n,) each."""
        return dict(zip(self.violation_names, self.violations.T, strict=True))

    def part(self, chosen: slice | IntArray | BoolArray) -> Observations:
        """Some of them, in the order chosen."""
        failures = {}
        if self.failures:
            positions = enumerate(np.arange(len(self))[chosen].tolist())
            failures = {i: self.failures[old] for i, old in positions if old in self.failures}
        return Observations(
            self.rows[chosen],
            self.objectives[chosen],
            self.violations[chosen],
            self.violation_names,
            {name: values[chosen] for name, values in self.metrics.items()},
            failures,
        )

    @classmethod
    def joined(cls, batches: Sequence[Observations]) -> Observations:
        """Join batches in their order.


        Args:
            batches: At least one batch, all of one problem; the first states the metrics.
        """
        # Where all designs of a batch failed, it may not name the evaluator's limits.
        names = max((observations.violation_names for observations in batches), key=len)
        batches = [observations.limited_to(names) for observations in batches]
        starts = np.cumsum([0, *map(len, batches)]).tolist()
        return cls(
            np.concatenate([observations.rows for observations in batches]),
            np.concatenate([observations.objectives for observations in batches]),
            np.concatenate([observations.violations for observations in batches]),
            names,
            {
                name: np.concatenate(
                    [
                        observations.metrics.get(name, np.full(len(observations), np.nan))
                        for observations in batches
                    ]
                )
                for name in batches[0].metrics
            },
            {
                start + i: failure
                for start, observations in zip(starts, batches, strict=False)
                for i, failure in observations.failures.items()
            },
        )

    def limited_to(self, names: Strings) -> Observations:
        """The same with the violations of these limits alone, in this order; NaN if unreported."""
        if tuple(names) == self.violation_names:
            return self
        nothing = np.full(len(self), np.nan)
        columns = [self.violations_by_name.get(name, nothing) for name in names]
        violations = np.column_stack([*columns, np.empty((len(self), 0))])
        return replace(self, violations=violations, violation_names=tuple(names))
