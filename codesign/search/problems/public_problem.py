"""A problem of the public set: its parameters, what designs are worth, how good a run is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from codesign.base.columns import (
    Arrays,
    BoolArray,
    FloatArray,
    FloatDict,
    IntArray,
    IntegerList,
    StringDict,
    Strings,
    StringTuple,
    Value,
    ValueTuple,
)
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.search.campaign.campaign_definition import ResolvedDefinition, load_definition
from codesign.search.campaign.reference import minimized
from codesign.search.pareto import HypervolumeTracker
from codesign.search.problem import Problem, most_broken
from codesign.search.problems.problem_records import (
    CAMPAIGN,
    ProblemRecord,
    definition_digest,
    find_record,
    published,
    read_front,
)

_BEYOND = 1e-9
"""Share of a value by which a point may be better than the front: other digits of the same."""


def names() -> StringTuple:
    """The problems of the set, by kind and name."""
    return tuple(published())


def load(name: str) -> PublicProblem:
    """A problem with its exact front.

    Args:
        name: ``re21`` for its latest version, ``re21.v1`` for one version.

    Raises:
        InputError: No such problem, the nearest is offered; or the version is withdrawn, or of a
            definition that has changed since.
    """
    record = find_record(name)
    definition = load_definition(CAMPAIGN + record.name)
    key = definition_digest(definition.problem, definition.reference_point)
    if key != record.definition_sha256:
        raise InputError(
            f"problem {record.label}: {definition.path.name} or what it names is no longer what "
            f"was published; expected the hash {record.definition_sha256[:12]}, got {key[:12]}"
        )
    return PublicProblem(record, definition)


@frozen
class Evaluated:
    """Values of designs, in the order given.

    Attributes:
        objectives: (n, m) in natural sign; NaN where there is no result.
        feasible: (n,) whether a design has a result and keeps every limit.
        violations: (n,) by limit, ``<= 0`` is within; NaN where there is no result.
        reasons: Why a design has no result, by position.
    """

    objectives: FloatArray
    feasible: BoolArray
    violations: Arrays
    reasons: Mapping[int, str]


class PublicProblem:
    """A problem whose exact front is known; see :func:`load`.

    Args:
        record: What is published of it.
    """

    def __init__(self, record: ProblemRecord, definition: ResolvedDefinition) -> None:
        self.record = record
        self.definition = definition

    def __repr__(self) -> str:
        return f"<problem {self.record.label}: {self.record.n_designs:,} designs>"

    @property
    def problem(self) -> Problem:
        """The same as the optimizers of this package see it."""
        return self.definition.problem

    @property
    def parameters(self) -> dict[str, ValueTuple]:
        """The values of every parameter; None among them if it may be absent."""
        return {
            parameter.name: (None, *parameter.values)
            if parameter.optional or parameter.when
            else parameter.values
            for parameter in self.problem.space.parameters
        }

    @property
    def objectives(self) -> StringDict:
        """``minimize`` or ``maximize`` by objective."""
        return {objective.metric.name: objective.sense for objective in self.problem.objectives}

    @property
    def reference_point(self) -> FloatDict:
        """Bound of the hypervolume by objective, in natural sign."""
        return dict(self.record.reference_point)

    @property
    def exact_hypervolume(self) -> float:
        """Hypervolume of the exact front, bounded by the reference point."""
        return self.record.hypervolume

    @cached_property
    def exact_front(self) -> FloatArray:
        """(p, m) points of the exact front in natural sign."""
        return read_front(self.record)[1]

    def sample(self, n: int, seed: int = 0) -> list[dict[str, Value]]:
        """Designs drawn at random, uniform over all that keep the space's constraints."""
        space = self.problem.space
        return space.decode(space.sample(np.random.default_rng(seed), n))

    def evaluate(self, designs: Sequence[Mapping[str, object]], where: Strings = ()) -> Evaluated:
        """Objectives and limits of designs.

        A design that breaks a constraint of the space has no result and is not feasible. Values
        of parameters that are absent in a design are ignored.

        Args:
            designs: Value by parameter; None or no key where it is absent.
            where: Place of each design, for messages.

        Raises:
            InputError: An unknown parameter or value, or a missing one.
        """
        space = self.problem.space
        places = where or [f"design {i}" for i in range(1, len(designs) + 1)]
        encoded = [space.encode(*pair) for pair in zip(designs, places, strict=True)]
        rows = np.concatenate([np.empty((0, len(space.names)), np.int64), *encoded])
        admitted = self.problem.admits(rows)
        observed = self.problem.evaluate(rows[admitted], self.problem.deciding_metrics)
        positions = np.flatnonzero(admitted)

        def spread(values: FloatArray) -> FloatArray:
            filled = np.full((len(rows), *values.shape[1:]), np.nan)
            filled[positions] = values
            return filled

        feasible = np.zeros(len(rows), bool)
        feasible[positions] = observed.feasible
        reasons = {int(positions[i]): str(failure) for i, failure in observed.failures.items()}
        reasons |= {int(i): self._refusal(rows[[i]]) for i in np.flatnonzero(~admitted)}
        return Evaluated(
            objectives=self.problem.flipped(spread(observed.objectives)),
            feasible=feasible,
            violations={
                name: spread(values) for name, values in observed.violations_by_name.items()
            },
            reasons=dict(sorted(reasons.items())),
        )

    def hypervolume(self, evaluated: Evaluated | FloatArray) -> float:
        """Volume that designs dominate, bounded by the reference point.

        Args:
            evaluated: By :meth:`evaluate`, or (n, m) objectives in natural sign of designs that
                are all feasible; NaN where there is no result.
        """
        return float(self._volumes(evaluated)[-1]) if len(_points(evaluated)) else 0.0

    def score(self, evaluated: Evaluated | FloatArray, where: Strings = ()) -> FloatArray:
        """(n,) the share of the exact hypervolume after each evaluation, in the order given.

        Args:
            evaluated: As of :meth:`hypervolume`.
            where: Place of each evaluation, for messages.

        Raises:
            InputError: A point that no design has: it is better than the exact front.
        """
        points = _points(evaluated)
        for i in np.flatnonzero(~np.isnan(points).any(axis=1) & _feasible(evaluated)).tolist():
            point = points[i]
            front, minimized_point = map(self.problem.flipped, (self.exact_front, point))
            slack = _BEYOND * np.maximum(np.abs(front), np.abs(minimized_point))
            if not (front <= minimized_point + slack).all(axis=1).any():
                raise InputError(
                    f"{points[i].tolist()} is better than the exact front of "
                    f"{self.record.label}: no feasible design has these objectives",
                    where[i] if where else f"evaluation {i + 1}",
                )
        return self._volumes(evaluated) / self.record.hypervolume

    def _volumes(self, evaluated: Evaluated | FloatArray) -> FloatArray:
        tracker = HypervolumeTracker(minimized(self.problem, self.record.reference_point))
        return tracker.add_all(self.problem.flipped(_points(evaluated)), _feasible(evaluated))

    def _refusal(self, row: IntArray) -> str:
        """Reason for which a design is inadmissible."""
        space = self.problem.space
        limits = dict(space.violations(row))
        if all(values[0] <= 0 for values in limits.values()) and space.contains(row)[0]:
            limits = self.problem.known_violations(row)
        broken = [name for name, values in limits.items() if values[0] > 0]
        return f"breaks {', '.join(map(repr, broken))}" if broken else most_broken(limits)


def _points(evaluated: Evaluated | FloatArray) -> FloatArray:
    return evaluated.objectives if isinstance(evaluated, Evaluated) else np.asarray(evaluated)


def _feasible(evaluated: Evaluated | FloatArray) -> BoolArray:
    if isinstance(evaluated, Evaluated):
        return evaluated.feasible
    return np.ones(len(np.asarray(evaluated)), bool)


def counts_to_show(n: int) -> IntegerList:
    """10, 20, 50, 100, 200, ... up to ``n``, and ``n``."""
    steps = [factor * 10**power for power in range(1, 10) for factor in (1, 2, 5)]
    return [*(step for step in steps if step < n), n]
