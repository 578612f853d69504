"""What is believed about designs that were not evaluated, and what they are worth for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.search.optimizers.acquisition import (
    Scale,
    expected_hypervolume_improvement,
    expected_violation_decrease,
)
from codesign.search.optimizers.prediction import expected
from codesign.search.optimizers.surrogate import GaussianProcess
from codesign.search.optimizers.violations import compressed_prediction
from codesign.search.pareto import greedy_subset, non_dominated

_MOST_FRONT = {1: 1, 2: 1000, 3: 100}
_LEAST_GAIN = 1e-3
"""Of what lies between the front's best and the reference point, in each objective: less is no
improvement [ours]."""
_LIKELY = 0.5
"""Probability of being feasible above which a pending design is taken to be [ours]."""
_MOST_FRONT_BEYOND = 40
"""Boxes grow quickly with more objectives, so a large front is thinned out for them."""


@dataclass(frozen=True)
class Inflation:
    """Factors on the deviations of beliefs.

    Attributes:
        objectives: Of those about what is to be improved.
        limits: Of those about limits and failing, once something is feasible.
    """

    objectives: float = 1.0
    limits: float = 1.0

    def times(self, factor: float) -> Inflation:
        """Less certain of everything."""
        return Inflation(self.objectives * factor, self.limits * factor)


CERTAIN = Inflation()
"""Beliefs as they are."""


@dataclass(frozen=True)
class Guesses:
    """What is known in advance of ``n`` designs, from a cheaper model or a cheaper evaluator.

    Attributes:
        values: (n, m + c) objectives and violations; NaN in the columns that are not known.
        deviation: (n, m + c) of a belief about them: of the logarithm of an objective that has one
            sign, of :func:`compressed` violations. None: they are taken as they are.
    """

    values: FloatArray
    deviation: FloatArray | None = None

    def part(self, chosen: IntArray) -> Guesses:
        """Those of some of the designs."""
        deviation = None if self.deviation is None else self.deviation[chosen]
        return Guesses(self.values[chosen], deviation)

    def widened(self, deviation: FloatArray, scale: Scale, column: int) -> FloatArray:
        """(n,) deviations on a scale, with those of what is known in advance."""
        if self.deviation is None:
            return deviation
        return np.hypot(deviation, self.deviation[:, column] / scale.slope)

    def bound(self, column: int | None) -> FloatArray:
        """(n,) the least values that results have, if no result was better than its guess."""
        if column is None or self.deviation is not None:
            return np.full(len(self.values), -np.inf)
        return self.values[:, column]


@dataclass(frozen=True)
class Threshold:
    """A limit as a model sees it.

    Attributes:
        process: The belief about what is limited, or about the error of its prediction.
        scale: On which it sees what is limited.
        predicted: Position of the limit's prediction; None if it has none.
        is_bounded: Whether no result was better than that.
    """

    process: GaussianProcess
    scale: Scale
    predicted: int | None
    is_bounded: bool = False

    def log_probability_within(
        self, features: FloatArray, guesses: Guesses | None, inflation: float = 1.0
    ) -> FloatArray:
        """(n,) logarithm of the probability that designs are within the limit."""
        mean, deviation = self._belief(features, guesses)
        within = log_ndtr((self.scale.to_model(np.zeros(1)) - mean) / (inflation * deviation))
        if self.is_bounded and guesses is not None:
            within[guesses.bound(self.predicted) > 0] = -np.inf
        return np.asarray(within)

    def violation(
        self, features: FloatArray, guesses: Guesses | None
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) means and deviations of :func:`compressed` violations."""
        mean, deviation = self._belief(features, guesses)
        return self.scale.of_model(mean), self.scale.slope * deviation

    def after(self, features: FloatArray) -> Threshold:
        """As if designs with (k, f) features had come out as expected."""
        return replace(self, process=self.process.with_belief(features))

    def _belief(
        self, features: FloatArray, guesses: Guesses | None
    ) -> tuple[FloatArray, FloatArray]:
        mean, deviation = self.process.predict(features)
        if self.predicted is not None and guesses is not None:
            mean = mean + expected(
                self.scale, compressed_prediction(guesses.values[:, self.predicted])
            )
            deviation = guesses.widened(deviation, self.scale, self.predicted)
        return mean, deviation


@dataclass(frozen=True)
class Beliefs:
    """Models of the objectives and of limits, and what follows for designs' worth.

    Attributes:
        objectives: The m processes.
        scales: The m scales on which they see the objectives.
        is_bounded: (m,) objectives of which no result was better than predicted.
        failing: About failing, if anything failed.
        front: (k, m) the distinct values that nothing dominates, of the results.
        reference: (m,) bound of the hypervolume.
        lower: (b, m) lower corners of the boxes that are not dominated.
        upper: (b, m) upper corners.
        least_violation: Least total of :func:`compressed` violations; 0 if something feasible is
            known.
        typical_violation: Their median.
        least_worth: What is worth less is hardly worth an evaluation.
    """

    objectives: tuple[GaussianProcess, ...]
    scales: tuple[Scale, ...]
    is_bounded: BoolArray
    limits: tuple[Threshold, ...]
    failing: tuple[Threshold, ...]
    front: FloatArray
    reference: FloatArray
    lower: FloatArray
    upper: FloatArray
    least_violation: float
    typical_violation: float
    least_worth: float

    @property
    def has_feasible(self) -> bool:
        """Whether something feasible is known."""
        return self.least_violation <= 0.0

    def worth(
        self,
        features: FloatArray,
        inflation: Inflation = CERTAIN,
        guesses: Guesses | None = None,
        least: float = 0.0,
    ) -> FloatArray:
        """(n,) the larger the better; comparable only with each other.

        The expected hypervolume improvement times the probability of being within the limits. As
        long as nothing feasible is known, by how much less the limits are expected to be violated,
        where being within all of them counts as much as the typical violation besides [ours: else
        a small decrease that is sure would go before a good chance to be feasible]. Either times
        the probability of having a result.

        Args:
            features: (n, f) of the designs.
            inflation: How much less certain the beliefs are taken to be.
            guesses: What a cheaper model says of them, if processes are about its errors.
            least: What is worth no more than this is of no use: any number up to it will do, so
                that limits are predicted only of designs that may be worth more.
        """
        if self.has_feasible:
            means, deviations = self._outcomes(features, guesses)
            worth = expected_hypervolume_improvement(
                means,
                deviations * inflation.objectives,
                self.scales,
                self.lower,
                self.upper,
                self._bounds(len(features), guesses),
            )
            thresholds = (*self.limits, *self.failing)
            return _where_within(worth, thresholds, features, guesses, least, inflation.limits)
        within = _where_within(np.ones(len(features)), self.limits, features, guesses)
        decrease = self._violation_decrease(features, inflation.objectives, guesses)
        worth = decrease + self.typical_violation * within
        return _where_within(worth, self.failing, features, guesses, least)

    def _outcomes(
        self, features: FloatArray, guesses: Guesses | None
    ) -> tuple[FloatArray, FloatArray]:
        """(n, m) means and deviations of beliefs about objectives, on the scales."""
        predictions = [process.predict(features) for process in self.objectives]
        means = np.column_stack([mean for mean, _ in predictions])
        deviations = [
            doubt(process, deviation)
            for process, (_, deviation) in zip(self.objectives, predictions, strict=True)
        ]
        if guesses is not None:
            pairs = list(zip(self.scales, guesses.values.T[: len(self.scales)], strict=True))
            means += np.column_stack([expected(scale, column) for scale, column in pairs])
            deviations = [
                guesses.widened(deviation, scale, j)
                for j, (deviation, scale) in enumerate(zip(deviations, self.scales, strict=True))
            ]
        return means, np.column_stack(deviations)

    def _bounds(self, n: int, guesses: Guesses | None) -> FloatArray:
        """(n, m) what objectives are at least; -inf where nothing is known."""
        least = np.full((n, len(self.scales)), -np.inf)
        if guesses is not None:
            for j in np.flatnonzero(self.is_bounded).tolist():
                least[:, j] = guesses.bound(j)
        return least

    def _violation_decrease(
        self, features: FloatArray, inflation: float, guesses: Guesses | None
    ) -> FloatArray:
        violations = [limit.violation(features, guesses) for limit in self.limits]
        means = np.column_stack([mean for mean, _ in violations])
        deviations = np.column_stack([deviation for _, deviation in violations])
        return expected_violation_decrease(means, deviations * inflation, self.least_violation)

    def after(self, features: FloatArray) -> Beliefs:
        """As if the designs with (k, f) features had come out as expected."""
        return replace(
            self,
            objectives=tuple(process.with_belief(features) for process in self.objectives),
            limits=tuple(limit.after(features) for limit in self.limits),
            failing=tuple(threshold.after(features) for threshold in self.failing),
        )

    def with_expected(self, features: FloatArray, guesses: Guesses | None) -> Beliefs:
        """With the expected outcomes of (k, f) designs on the front, of those likely feasible.

        What they are expected to dominate is no improvement any more. As long as nothing feasible
        is known or likely, what they are expected to violate is what is to be improved.
        """
        thresholds, surely = (*self.limits, *self.failing), np.ones(len(features))
        likely = _where_within(surely, thresholds, features, guesses, _LIKELY) > _LIKELY
        if not self.has_feasible and not likely.any():
            return self._with_expected_violations(features, guesses)
        means, _ = self._outcomes(features, guesses)
        pairs = zip(self.scales, means[likely].T, strict=True)
        outcomes = np.column_stack([scale.of_model(mean) for scale, mean in pairs])
        outcomes = np.maximum(outcomes, self._bounds(len(features), guesses)[likely])
        front = np.unique(np.concatenate([self.front, outcomes]), axis=0)
        front = front[non_dominated(front)]
        lower, upper = improvement_boxes(front, self.reference)
        return replace(self, front=front, lower=lower, upper=upper, least_violation=0.0)

    def _with_expected_violations(self, features: FloatArray, guesses: Guesses | None) -> Beliefs:
        means = [limit.violation(features, guesses)[0] for limit in self.limits]
        total = float(np.maximum(np.column_stack(means), 0.0).sum(axis=1).min())
        # Above 0: nothing feasible is known.
        least = max(total, _LEAST_GAIN * self.least_violation)
        return replace(self, least_violation=min(self.least_violation, least))


def _where_within(
    worth: FloatArray,
    thresholds: tuple[Threshold, ...],
    features: FloatArray,
    guesses: Guesses | None,
    least: float = 0.0,
    inflation: float = 1.0,
) -> FloatArray:
    """(n,) worth times the probability of being within; not exact where it is at most ``least``."""
    worth = np.array(worth)
    for threshold in thresholds:
        left = np.flatnonzero(worth > least)
        if not len(left):
            break
        known = None if guesses is None else guesses.part(left)
        worth[left] *= np.exp(threshold.log_probability_within(features[left], known, inflation))
    return worth


def doubt(process: GaussianProcess, deviation: FloatArray) -> FloatArray:
    """(n,) deviations without the noise, which is no hope of an improvement."""
    return np.sqrt(np.maximum(deviation**2 - process.hyperparameters.noise, 0.0))


def improvement_boxes(front: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(b, m) corners of boxes that partition what improves on a front by more than too little."""
    return boxes(_beyond(front, reference), reference)


def _beyond(front: FloatArray, reference: FloatArray) -> FloatArray:
    """(k, m) the front moved by what is too little to be an improvement.

    Else a design that the model cannot tell from one on the front, as where parameters do not
    matter, is hoped to be better by what the model allows for noise.
    """
    if not len(front):
        return front
    return np.asarray(front - _LEAST_GAIN * np.maximum(reference - front.min(axis=0), 0.0))


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
