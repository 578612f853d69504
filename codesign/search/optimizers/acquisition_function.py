"""The acquisition function: what candidates are worth under the posteriors of all models."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from codesign.base.columns import BoolArray, FloatArray
from codesign.search.optimizers.improvement import (
    Scale,
    expected_hypervolume_improvement,
    expected_violation_decrease,
)
from codesign.search.optimizers.prediction import PriorPredictions, expected
from codesign.search.optimizers.surrogate import NOISE, Posterior
from codesign.search.optimizers.violations import ViolationScale
from codesign.search.pareto import greedy_subset, non_dominated

_MOST_FRONT = {1: 1, 2: 1000, 3: 100}
_LEAST_GAIN = 1e-3
"""Least improvement, as a share of what lies between the front's best and the reference point, in
each objective [ours]."""
_LIKELY = 0.5
"""Probability of being feasible above which an in-flight design is taken to be [ours]."""
_MOST_FRONT_BEYOND = 40
"""Boxes grow quickly with more objectives, so a large front is thinned out for them."""


@dataclass(frozen=True)
class ConstraintPosterior:
    """Posterior of a limit.

    Attributes:
        posterior: About what is limited, or about the error of its prediction.
        scale: On which it sees violations of ``violations``.
        violations: The scale of violations.
        predicted: Position of the limit's prediction; None if it has none.
        is_bounded: True if no result was better than that.
    """

    posterior: Posterior
    scale: Scale
    violations: ViolationScale
    predicted: int | None
    is_bounded: bool = False

    def log_probability_within(
        self, features: FloatArray, predictions: PriorPredictions | None, inflation: float = 1.0
    ) -> FloatArray:
        """(n,) logarithm of the probability that designs are within the limit."""
        mean, deviation = self._predict(features, predictions)
        within = log_ndtr((self.scale.modeled(np.zeros(1)) - mean) / (inflation * deviation))
        if self.is_bounded and predictions is not None:
            within[predictions.bound(self.predicted) > 0] = -np.inf
        return np.asarray(within)

    def violation(
        self, features: FloatArray, predictions: PriorPredictions | None
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) means and deviations of violations on their scale."""
        mean, deviation = self._predict(features, predictions)
        return self.scale.natural(mean), self.scale.slope * deviation

    def fantasized(self, features: FloatArray) -> ConstraintPosterior:
        """The posterior as if designs with (k, f) features had come out as expected."""
        return replace(self, posterior=self.posterior.fantasized(features))

    def _predict(
        self, features: FloatArray, predictions: PriorPredictions | None
    ) -> tuple[FloatArray, FloatArray]:
        mean, deviation = self.posterior.predict(features)
        if self.predicted is not None and predictions is not None:
            predicted = self.violations.modeled(predictions.values[:, self.predicted])
            mean = mean + expected(self.scale, predicted)
            deviation = predictions.widened(deviation, self.scale, self.predicted)
        return mean, deviation


@dataclass(frozen=True)
class AcquisitionFunction:
    """Posteriors of objectives and limits, with the front to be improved.

    Attributes:
        objectives: The m posteriors.
        scales: The m scales on which they see the objectives.
        is_bounded: (m,) objectives of which no result was better than predicted.
        failing: About failing, if anything failed.
        front: (k, m) the distinct non-dominated values.
        reference: (m,) bound of the hypervolume.
        lower: (b, m) lower corners of the boxes that are not dominated.
        upper: (b, m) upper corners.
        least_violation: Smallest total violation on the scales of the limits; 0 if something
            feasible is known.
        typical_violation: Their median.
        least_value: A smaller value is hardly worth an evaluation.
    """

    objectives: tuple[Posterior, ...]
    scales: tuple[Scale, ...]
    is_bounded: BoolArray
    limits: tuple[ConstraintPosterior, ...]
    failing: tuple[ConstraintPosterior, ...]
    front: FloatArray
    reference: FloatArray
    lower: FloatArray
    upper: FloatArray
    least_violation: float
    typical_violation: float
    least_value: float

    @property
    def has_feasible(self) -> bool:
        """True if something feasible is known."""
        return self.least_violation <= 0.0

    def values(
        self,
        features: FloatArray,
        inflation: float = 1.0,
        predictions: PriorPredictions | None = None,
        least: float = 0.0,
    ) -> FloatArray:
        """(n,) acquisition values; comparable only with each other.

        The value is the expected hypervolume improvement times the probability of feasibility.
        Until a feasible design is known, it is the expected decrease of the total violation.
        Feasibility then counts as an extra decrease of one typical violation [ours: else a small,
        certain decrease would outrank a good chance of feasibility]. Both are multiplied by the
        probability of a successful evaluation.

        Args:
            features: (n, f) features of the designs.
            inflation: Factor on posterior deviations: exploration.
            predictions: Prior predictions, if the models predict their errors.
            least: Value up to which results need not be exact: limits are predicted only for
                designs that may exceed it.
        """
        if self.has_feasible:
            means, deviations = self.outcomes(features, predictions)
            values = expected_hypervolume_improvement(
                means,
                deviations * inflation,
                self.scales,
                self.lower,
                self.upper,
                self._bounds(len(features), predictions),
            )
            constraints = (*self.limits, *self.failing)
            return _times_within(values, constraints, features, predictions, least, inflation)
        within = _times_within(np.ones(len(features)), self.limits, features, predictions)
        violations = [limit.violation(features, predictions) for limit in self.limits]
        decrease = expected_violation_decrease(
            np.column_stack([mean for mean, _ in violations]),
            np.column_stack([deviation for _, deviation in violations]) * inflation,
            self.least_violation,
        )
        values = decrease + self.typical_violation * within
        return _times_within(values, self.failing, features, predictions, least)

    def outcomes(
        self, features: FloatArray, predictions: PriorPredictions | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """(n, m) posterior means and deviations of objectives, on the scales."""
        pairs = [posterior.predict(features) for posterior in self.objectives]
        means = np.column_stack([mean for mean, _ in pairs])
        # No improvement is expected of the least noise that every process has.
        variances = np.column_stack([deviation**2 for _, deviation in pairs]) - NOISE
        deviations = np.sqrt(np.maximum(variances, 0.0))
        if predictions is not None:
            for j, scale in enumerate(self.scales):
                means[:, j] += expected(scale, predictions.values[:, j])
                deviations[:, j] = predictions.widened(deviations[:, j], scale, j)
        return means, deviations

    def _bounds(self, n: int, predictions: PriorPredictions | None) -> FloatArray:
        """(n, m) least values of objectives; -inf where nothing is known."""
        least = np.full((n, len(self.scales)), -np.inf)
        if predictions is not None:
            for j in np.flatnonzero(self.is_bounded).tolist():
                least[:, j] = predictions.bound(j)
        return least

    def fantasized(
        self, features: FloatArray, predictions: PriorPredictions | None = None
    ) -> AcquisitionFunction:
        """The function as if the designs with (k, f) features had come out as expected."""
        return self._expected_front(features, predictions).conditioned(features)

    def conditioned(self, features: FloatArray) -> AcquisitionFunction:
        """The same front, with models that take (k, f) features to have come out as expected."""
        return replace(
            self,
            objectives=tuple(posterior.fantasized(features) for posterior in self.objectives),
            limits=tuple(limit.fantasized(features) for limit in self.limits),
            failing=tuple(constraint.fantasized(features) for constraint in self.failing),
        )

    def _expected_front(
        self, features: FloatArray, predictions: PriorPredictions | None
    ) -> AcquisitionFunction:
        """The function with expected outcomes of (k, f) designs on the front, if likely feasible.

        What they are expected to dominate is no improvement any more. As long as nothing feasible
        is known or likely, what they are expected to violate is what is to be improved.
        """
        constraints, surely = (*self.limits, *self.failing), np.ones(len(features))
        likely = _times_within(surely, constraints, features, predictions, _LIKELY) > _LIKELY
        if not self.has_feasible and not likely.any():
            means = [limit.violation(features, predictions)[0] for limit in self.limits]
            total = float(np.maximum(np.column_stack(means), 0.0).sum(axis=1).min())
            # Above 0: nothing feasible is known.
            least = max(total, _LEAST_GAIN * self.least_violation)
            return replace(self, least_violation=min(self.least_violation, least))
        means_of, _ = self.outcomes(features, predictions)
        pairs = zip(self.scales, means_of[likely].T, strict=True)
        outcomes = np.column_stack([scale.natural(mean) for scale, mean in pairs])
        outcomes = np.maximum(outcomes, self._bounds(len(features), predictions)[likely])
        front = np.unique(np.concatenate([self.front, outcomes]), axis=0)
        front = front[non_dominated(front)]
        lower, upper = improvement_boxes(front, self.reference)
        return replace(self, front=front, lower=lower, upper=upper, least_violation=0.0)


def _times_within(
    values: FloatArray,
    constraints: tuple[ConstraintPosterior, ...],
    features: FloatArray,
    predictions: PriorPredictions | None,
    least: float = 0.0,
    inflation: float = 1.0,
) -> FloatArray:
    """(n,) values times the probability of being within; not exact where at most ``least``."""
    values = np.array(values)
    for constraint in constraints:
        open_rows = np.flatnonzero(values > least)
        if not len(open_rows):
            break
        rest = None if predictions is None else predictions.subset(open_rows)
        values[open_rows] *= np.exp(
            constraint.log_probability_within(features[open_rows], rest, inflation)
        )
    return values


def improvement_boxes(front: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(b, m) corners of boxes that partition what improves on a front by more than too little.

    Else a design that the model cannot tell from one on the front, as where parameters do not
    matter, is expected to be better by what the model allows for noise.
    """
    if len(front):
        front = front - _LEAST_GAIN * np.maximum(reference - front.min(axis=0), 0.0)
    return boxes(front, reference)


def boxes(front: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(b, m) corners of boxes that partition what lies below the reference point undominated."""
    import torch
    from botorch.utils.multi_objective.box_decompositions.non_dominated import (
        FastNondominatedPartitioning,
    )

    m = len(reference)
    inside = front[(front < reference).all(axis=1)]
    if m == 1:
        best = inside.min(axis=0) if len(inside) else reference
        return np.full((1, 1), -np.inf), best[None, :]
    most = _MOST_FRONT.get(m, _MOST_FRONT_BEYOND)
    if len(inside) > most:
        inside = inside[greedy_subset(inside, reference, most)]
    # BoTorch maximizes, so the corners change places.
    cells = FastNondominatedPartitioning(
        ref_point=-torch.as_tensor(reference), Y=-torch.as_tensor(inside)
    ).get_hypercell_bounds()
    return -cells[1].numpy(), -cells[0].numpy()
