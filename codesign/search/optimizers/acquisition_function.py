"""The acquisition function: what candidates are worth under the posteriors of all models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr

from codesign.base.columns import ArrayPair, FloatArray
from codesign.base.records import frozen
from codesign.search.optimizers.improvement import (
    Scale,
    expected_hypervolume_improvement,
    expected_violation_decrease,
)
from codesign.search.optimizers.prediction import QueryPoints, Target
from codesign.search.optimizers.surrogate import NOISE, Posterior
from codesign.search.pareto import greedy_subset, non_dominated

_MOST_FRONT = 80
"""Boxes grow quickly with more than two objectives, so a large front is thinned out for them."""
_LEAST_GAIN = 1e-3
"""Least improvement, as a share of what lies between the front's best and the reference point, in
each objective [ours]."""
_LIKELY = 0.5
"""Probability of being feasible above which an in-flight design is taken to be [ours]."""


@frozen
class OutcomeModel:
    """Model of an objective, of a limit or of failing.

    Attributes:
        target: The values that it learned.
        posterior: About these values.
    """

    target: Target
    posterior: Posterior

    def predict(self, points: QueryPoints, least_variance: float = 0.0) -> ArrayPair:
        """(n,) posterior means and deviations on the target's scale.

        Args:
            points: The designs.
            least_variance: Part of every variance that does not count.
        """
        mean, deviation = self.posterior.predict(points.features)
        if least_variance:
            deviation = np.sqrt(np.maximum(deviation**2 - least_variance, 0.0))
        return mean + self.target.prior(points), self.target.widened(deviation, points)

    def log_probability_within(self, points: QueryPoints, inflation: float = 1.0) -> FloatArray:
        """(n,) logarithm of the probability that designs are within the limit."""
        mean, deviation = self.predict(points)
        limit = self.target.scale.modeled(np.zeros(1))
        within = log_ndtr((limit - mean) / (inflation * deviation))
        return np.where(self.target.least(points) > 0, -np.inf, within)

    def violation(self, points: QueryPoints) -> ArrayPair:
        """(n,) means and deviations of violations on their scale."""
        mean, deviation = self.predict(points)
        return self.target.scale.natural(mean), self.target.scale.slope * deviation

    def fantasized(self, features: FloatArray) -> OutcomeModel:
        """The model as if designs with (k, f) features had come out as expected."""
        return replace(self, posterior=self.posterior.fantasized(features))


@frozen
class AcquisitionFunction:
    """Posteriors of objectives and limits, with the front to be improved.

    Attributes:
        objectives: The m models.
        limits: Models of the limits that matter.
        failing: A model of failing, if anything failed.
        front: (k, m) non-dominated values.
        reference: (m,) bound of the hypervolume.
        least_violation: Smallest total violation on the scales of the limits; 0 if something
            feasible is known.
        typical_violation: Their median.
        least_value: A smaller value is hardly worth an evaluation.
    """

    objectives: tuple[OutcomeModel, ...]
    limits: tuple[OutcomeModel, ...]
    failing: tuple[OutcomeModel, ...]
    front: FloatArray
    reference: FloatArray
    least_violation: float
    typical_violation: float
    least_value: float

    @property
    def has_feasible(self) -> bool:
        """True if something feasible is known."""
        return self.least_violation <= 0.0

    def values(self, points: QueryPoints, inflation: float = 1.0, least: float = 0.0) -> FloatArray:
        """(n,) acquisition values; comparable only with each other.

        The value is the expected hypervolume improvement times the probability of feasibility.
        Until a feasible design is known, it is the expected decrease of the total violation.
        Feasibility then counts as an extra decrease of one typical violation [ours: else a small,
        certain decrease would outrank a good chance of feasibility]. Both are multiplied by the
        probability of a successful evaluation.

        Args:
            points: The designs.
            inflation: Factor on posterior deviations: exploration.
            least: Value up to which results need not be exact: limits are predicted only for
                designs that may exceed it.
        """
        if self.has_feasible:
            means, deviations = self._outcomes(points)
            values = expected_hypervolume_improvement(
                means,
                deviations * inflation,
                self._scales,
                *self._boxes,
                self._least(points),
            )
            return _times_within(values, (*self.limits, *self.failing), points, least, inflation)
        within = _times_within(np.ones(len(points.features)), self.limits, points)
        means, deviations = _columns(limit.violation(points) for limit in self.limits)
        decrease = expected_violation_decrease(means, deviations * inflation, self.least_violation)
        values = decrease + self.typical_violation * within
        return _times_within(values, self.failing, points, least)

    @cached_property
    def _boxes(self) -> ArrayPair:
        """:func:`boxes` of a front that is a little better, for what improves on it by too little.

        Else a design that the model cannot tell from one on the front, as where parameters do not
        matter, is expected to be better by what the model allows for noise.
        """
        least = np.maximum(self.reference - self.front.min(axis=0, initial=np.inf), 0.0)
        return boxes(self.front - _LEAST_GAIN * least, self.reference)

    @property
    def _scales(self) -> list[Scale]:
        return [model.target.scale for model in self.objectives]

    def _outcomes(self, points: QueryPoints) -> ArrayPair:
        """(n, m) posterior means and deviations of objectives, on the scales."""
        # No improvement is expected of the least noise that every process has.
        return _columns(model.predict(points, NOISE) for model in self.objectives)

    def _least(self, points: QueryPoints) -> FloatArray:
        """(n, m) least values of objectives; -inf where nothing is known."""
        return np.column_stack([model.target.least(points) for model in self.objectives])

    def fantasized(self, points: QueryPoints) -> AcquisitionFunction:
        """The function as if k designs had come out as expected."""
        return self._expected_front(points).conditioned(points.features)

    def conditioned(self, features: FloatArray) -> AcquisitionFunction:
        """The same front, with models that take (k, f) features to have come out as expected."""
        groups = (self.objectives, self.limits, self.failing)
        objectives, limits, failing = (
            tuple(model.fantasized(features) for model in models) for models in groups
        )
        return replace(self, objectives=objectives, limits=limits, failing=failing)

    def _expected_front(self, points: QueryPoints) -> AcquisitionFunction:
        """The function with expected outcomes of k designs on the front, if likely feasible.

        What they are expected to dominate is no improvement any more. As long as nothing feasible
        is known or likely, what they are expected to violate is what is to be improved.
        """
        constraints = (*self.limits, *self.failing)
        surely = np.ones(len(points.features))
        likely = _times_within(surely, constraints, points, _LIKELY) > _LIKELY
        if not self.has_feasible and not likely.any():
            means, _ = _columns(limit.violation(points) for limit in self.limits)
            total = float(np.maximum(means, 0.0).sum(axis=1).min())
            # Above 0: nothing feasible is known.
            least = max(total, _LEAST_GAIN * self.least_violation)
            return replace(self, least_violation=min(self.least_violation, least))
        means_of, _ = self._outcomes(points)
        pairs = zip(self._scales, means_of[likely].T, strict=True)
        outcomes = np.column_stack([scale.natural(mean) for scale, mean in pairs])
        outcomes = np.maximum(outcomes, self._least(points)[likely])
        front = np.concatenate([self.front, outcomes])
        return replace(self, front=front[non_dominated(front)], least_violation=0.0)


def _columns(
    predictions: Iterable[ArrayPair],
) -> ArrayPair:
    """(n, k) means and deviations of k models."""
    means, deviations = zip(*predictions, strict=True)
    return np.column_stack(means), np.column_stack(deviations)


def _times_within(
    values: FloatArray,
    constraints: tuple[OutcomeModel, ...],
    points: QueryPoints,
    least: float = 0.0,
    inflation: float = 1.0,
) -> FloatArray:
    """(n,) values times the probability of being within; not exact where at most ``least``."""
    values = np.array(values)
    for constraint in constraints:
        open_rows = np.flatnonzero(values > least)
        if not len(open_rows):
            break
        rest = points.subset(open_rows)
        values[open_rows] *= np.exp(constraint.log_probability_within(rest, inflation))
    return values


def boxes(front: FloatArray, reference: FloatArray) -> ArrayPair:
    """(b, m) corners of the box below the reference point, then of those that are dominated.

    The dominated boxes do not overlap. There are a third as many as boxes of what is not dominated
    for five objectives, and BoTorch finds them in a thirtieth of the time.
    """
    import torch
    from botorch.utils.multi_objective.box_decompositions.dominated import DominatedPartitioning

    m = len(reference)
    inside = front[(front < reference).all(axis=1)]
    if m > 2 and len(inside) > _MOST_FRONT:
        inside = inside[greedy_subset(inside, reference, _MOST_FRONT)]
    lower = np.full((1, m), -np.inf)
    upper = reference[None, :]
    if m == 1:
        best = inside.min(axis=0, initial=float(reference[0]))
        return np.vstack([lower, best]), np.vstack([upper, upper])
    # BoTorch maximizes, so the corners change places.
    cells = DominatedPartitioning(
        ref_point=-torch.as_tensor(reference), Y=-torch.as_tensor(inside)
    ).get_hypercell_bounds()
    return np.vstack([lower, -cells[1].numpy()]), np.vstack([upper, -cells[0].numpy()])
