"""What is believed about designs that were not evaluated, and what they are worth for it.

Objectives that have one sign are modeled by their logarithm, and so are limits: a violation is
a relative excess, ``metric / limit - 1``, so that one plus it is the metric itself in the
limit's unit. Limits that no observation has violated are taken to hold; so is, once something
is feasible, a limit that says no more than the reference point, as a TDP limit does if the TDP
is an objective too: what is beyond it improves nothing anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.optimizers.acquisition import Scale, expected_hypervolume_improvement
from codesign.optimizers.history import History
from codesign.optimizers.prediction import error_scale, expected
from codesign.optimizers.surrogate import Fitting, GaussianProcess

_MOST_FRONT = {1: 1, 2: 1000, 3: 100}
_MOST_FRONT_BEYOND = 40
"""Boxes grow quickly with more objectives, so a large front is thinned out for them."""


@dataclass(frozen=True)
class Threshold:
    """A limit as a model sees it.

    Attributes:
        process: The belief about what is limited.
        bound: Value on the model's scale above which a design is outside.
    """

    process: GaussianProcess
    bound: float

    def log_probability_within(self, features: FloatArray) -> FloatArray:
        """(n,) logarithm of the probability that designs are within the limit."""
        mean, deviation = self.process.predict(features)
        return np.asarray(log_ndtr((self.bound - mean) / deviation))


@dataclass(frozen=True)
class Beliefs:
    """Models of the objectives and of limits, and what follows for designs' worth.

    Attributes:
        objectives: The m processes.
        scales: The m scales on which they see the objectives.
        limits: Limits that were violated, and failing if anything failed.
        lower: (b, m) lower corners of the boxes that are not dominated.
        upper: (b, m) upper corners.
        has_feasible: Whether something feasible is known.
    """

    objectives: tuple[GaussianProcess, ...]
    scales: tuple[Scale, ...]
    limits: tuple[Threshold, ...]
    lower: FloatArray
    upper: FloatArray
    has_feasible: bool

    def worth(
        self,
        features: FloatArray,
        inflation: float = 1.0,
        predicted: FloatArray | None = None,
    ) -> FloatArray:
        """(n,) the larger the better; comparable only with each other.

        The expected hypervolume improvement times the probability of being within the limits;
        that probability alone as long as nothing feasible is known.

        Args:
            features: (n, f) of the designs.
            inflation: Factor on the deviations of the objectives' beliefs.
            predicted: (n, m) their objectives as a cheaper model has them, if the processes are
                about its errors.
        """
        within = np.zeros(len(features))
        for limit in self.limits:
            within += limit.log_probability_within(features)
        if not self.has_feasible and self.limits:
            return within
        predictions = [process.predict(features) for process in self.objectives]
        means = np.column_stack([mean for mean, _ in predictions])
        if predicted is not None:
            pairs = zip(self.scales, predicted.T, strict=True)
            means += np.column_stack([expected(scale, column) for scale, column in pairs])
        improvement = expected_hypervolume_improvement(
            means,
            np.column_stack([deviation for _, deviation in predictions]) * inflation,
            self.scales,
            self.lower,
            self.upper,
        )
        return np.asarray(improvement * np.exp(within))

    def after(self, features: FloatArray) -> Beliefs:
        """As if the designs with (k, f) features had come out as expected."""
        return replace(
            self,
            objectives=tuple(process.with_belief(features) for process in self.objectives),
            limits=tuple(
                Threshold(limit.process.with_belief(features), limit.bound) for limit in self.limits
            ),
        )


@dataclass(frozen=True)
class Modeling:
    """How beliefs are formed.

    Attributes:
        logarithmic: Model the logarithm of what has one sign.
        iterations: Bound on the optimization of the models' hyperparameters.
        training: Most results that the models learn from.
    """

    logarithmic: bool
    iterations: int
    training: int

    def beliefs(
        self,
        history: History,
        features: FloatArray,
        reference: FloatArray,
        is_reference_given: bool,
        rng: np.random.Generator,
        predicted: FloatArray | None = None,
    ) -> Beliefs:
        """What follows from a history.

        Args:
            history: With at least two results.
            features: (n, f) of its designs.
            reference: (m,) bound of the hypervolume.
            is_reference_given: The bound was not inferred from the history.
            rng: Chooses what to learn from if there is too much.
            predicted: (n, m) the objectives as a cheaper model has them; the processes are then
                about its errors.
        """
        known = training_of(history, np.flatnonzero(~history.failed), self.training, rng)
        fitting = Fitting(features[known], self.iterations)
        objectives, violations = history.objectives[known], history.violations[known]
        scales, targets = self._targets(objectives, None if predicted is None else predicted[known])
        processes = [fitting.fit(target) for target in targets]
        has_feasible = bool(history.feasible.any())
        bound = reference if is_reference_given and has_feasible else None
        limits = [
            _threshold(fitting, compressed(column))
            for column in violations.T
            if (column > 0).any() and not _is_bound(column, objectives, bound)
        ]
        if history.failed.any():
            some = training_of(history, np.arange(len(history.rows)), self.training, rng)
            failing = np.where(history.failed[some], 1.0, -1.0)
            limits.append(_threshold(Fitting(features[some], self.iterations), failing))
        lower, upper = boxes(history.front_values, reference)
        return Beliefs(tuple(processes), tuple(scales), tuple(limits), lower, upper, has_feasible)

    def _targets(
        self, objectives: FloatArray, predicted: FloatArray | None
    ) -> tuple[list[Scale], list[FloatArray]]:
        """What the objectives' processes are to learn: (n,) each, with its scale."""
        if predicted is None:
            scales = [Scale.of(column, self.logarithmic) for column in objectives.T]
            pairs = zip(scales, objectives.T, strict=True)
            return scales, [scale.to_model(column) for scale, column in pairs]
        predicted_pairs = list(zip(objectives.T, predicted.T, strict=True))
        scales = [error_scale(column, guess, self.logarithmic) for column, guess in predicted_pairs]
        return scales, [
            scale.to_model(column) - expected(scale, guess)
            for scale, (column, guess) in zip(scales, predicted_pairs, strict=True)
        ]


def training_of(history: History, known: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    """Positions to learn from: all that are known, or half front, a quarter latest, others."""
    if len(known) <= most:
        return known
    front = rng.permutation(np.intersect1d(history.front, known))[: most // 2]
    chosen = np.union1d(front, known[-(most // 4) :]) if most >= 4 else front
    others = rng.permutation(np.setdiff1d(known, chosen))
    return np.sort(np.concatenate([chosen, others[: most - len(chosen)]]))


def _is_bound(violation: FloatArray, objectives: FloatArray, reference: FloatArray | None) -> bool:
    """Whether a limit has always meant the same as the reference value of an objective."""
    if reference is None:
        return False
    same: BoolArray = (violation > 0)[:, None] == (objectives > reference)
    return bool(same.all(axis=0).any())


def _threshold(fitting: Fitting, values: FloatArray) -> Threshold:
    """The belief about values of which 0 is the limit."""
    mean, deviation = float(values.mean()), float(values.std())
    deviation = deviation if deviation > 0 else 1.0
    return Threshold(fitting.fit((values - mean) / deviation), -mean / deviation)


def compressed(violations: FloatArray) -> FloatArray:
    """Violations on the scale on which they are modeled; infinite ones as the largest.

    The logarithm of one plus a relative excess. What can be below -1 is no relative excess; of
    it large values are drawn together, with the sign kept.
    """
    finite = violations[np.isfinite(violations)]
    largest = float(np.abs(finite).max(initial=1.0))
    bounded = np.clip(violations, -largest, largest)
    if (bounded > -1.0).all():
        return np.asarray(np.log1p(bounded))
    typical = float(np.median(np.abs(bounded))) or largest
    return np.asarray(np.sign(bounded) * np.log1p(np.abs(bounded) / typical))


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
        inside = inside[np.linspace(0, len(inside) - 1, most).round().astype(np.int64)]
    # BoTorch maximizes, so the corners change places.
    cells = FastNondominatedPartitioning(
        ref_point=-torch.as_tensor(reference), Y=-torch.as_tensor(inside)
    ).get_hypercell_bounds()
    return -cells[1].numpy(), -cells[0].numpy()
