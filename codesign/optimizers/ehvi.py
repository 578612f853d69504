"""Bayesian optimization: Gaussian processes and expected hypervolume improvement.

MemExplorer section 4.4 [11, 14] gives the frame: independent processes, analytic expected
hypervolume improvement, candidates that were not evaluated. Added to it are processes on the
logarithm of objectives with improvement in their own units, features that include derived
quantities, neighbors of the front among the candidates with a local search from the best, and
a model of what is feasible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import log_ndtr

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.errors import MissingExtraError
from codesign.optimizers.acquisition import Scale, expected_hypervolume_improvement
from codesign.optimizers.base import KeySet, SearchSpace
from codesign.optimizers.surrogate import GaussianProcesses, fit, load_libraries, single_thread
from codesign.pareto import non_dominated
from codesign.schema import Record

_MARGIN = 0.1
"""Of an inferred reference point beyond the worst observation, as a share of the range."""
_MOST_FRONT = {1: 1, 2: 1000, 3: 100}
_MOST_FRONT_BEYOND = 40
"""Boxes grow quickly with more objectives, so a large front is thinned out for them."""
_LOCAL_STEPS = 8


class GpEhvi:
    """Proposes the candidate with the largest expected hypervolume improvement.

    All that has a result is learned from, feasible or not. Limits that were violated are
    modeled, as is failing; the probability of being within them multiplies the improvement, or
    replaces it as long as nothing feasible is known. A limit that says no more than the
    reference point is left out. In a batch, each choice is taken to come out as expected
    before the next is made. Beyond ``training`` results the models see the front, the latest
    and a random choice of the others.

    Args:
        space: Where to look.
        n_objectives: Number of objectives.
        seed: Of all random choices.
        options: See :class:`Options`.
        reference_point: (m,) bound of the hypervolume; if not given, somewhat beyond the worst
            feasible observation.

    Raises:
        MissingExtraError: PyTorch or BoTorch is not installed.
    """

    class Options(Record):
        """Options of Gaussian processes with expected hypervolume improvement."""

        candidates: Annotated[int, Field(ge=1)] = 2048
        """Random designs that compete in each step."""
        neighborhoods: Annotated[int, Field(ge=0)] = 16
        """Designs of the front whose neighbors compete too."""
        local_search: Annotated[int, Field(ge=0)] = 3
        """Best candidates from which the search goes on from neighbor to neighbor."""
        logarithmic: bool = True
        """Model the logarithm of objectives that have one sign."""
        training: Annotated[int, Field(ge=2)] = 300
        """Most results that the models learn from."""
        iterations: Annotated[int, Field(ge=1)] = 50
        """Bound on the optimization of the models' hyperparameters."""

    def __init__(
        self,
        space: SearchSpace,
        n_objectives: int,
        seed: int,
        options: Options,
        reference_point: FloatArray | None = None,
    ) -> None:
        try:
            load_libraries()
        except ImportError as error:
            raise MissingExtraError("optimizer gp-ehvi", "gp") from error
        self._space, self._seed, self._options = space, seed, options
        self._n_objectives = n_objectives
        self._reference = reference_point
        self._told: list[tuple[IntArray, FloatArray, FloatArray, BoolArray]] = []
        self._seen, self._n_told = KeySet(), 0
        self.preferred_batch = 1

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Take results."""
        self._told.append(
            (
                np.array(rows, dtype=np.int64),
                np.array(objectives, dtype=np.float64),
                np.array(violations, dtype=np.float64),
                np.array(failed, dtype=bool),
            )
        )
        self._seen.add(self._space.space.keys(rows))
        self._n_told += len(rows)

    def ask(self, n: int) -> IntArray:
        """(k, d) as the protocol promises."""
        rng = np.random.default_rng([self._seed, self._n_told])
        history = self._history()
        can_model = self._space.space.feature_names and (~history.failed).sum() >= 2
        if not can_model or n < 1:
            return self._space.sample_unseen(rng, n, self._seen)
        with single_thread():
            beliefs = self._beliefs(history, rng)
            return self._choose(n, beliefs, history, rng)

    # What is known

    def _history(self) -> _History:
        if not self._told:
            nothing = np.empty((0, self._n_objectives))
            return _History(self._space.no_rows, nothing, nothing[:, :0], np.empty(0, dtype=bool))
        parts = zip(*self._told, strict=True)
        history = _History(*(np.concatenate(part) for part in parts))
        # One part from now on: appending stays cheap.
        self._told = [(history.rows, history.objectives, history.violations, history.failed)]
        return history

    def _beliefs(self, history: _History, rng: np.random.Generator) -> _Beliefs:
        known = self._training(history, np.flatnonzero(~history.failed), rng)
        objectives, violations = history.objectives[known], history.violations[known]
        reference = self._reference_of(history)
        scales = [Scale.of(column, self._options.logarithmic) for column in objectives.T]
        values = [
            scale.to_model(column) for scale, column in zip(scales, objectives.T, strict=True)
        ]
        thresholds = []
        for column in violations.T:
            if (column > 0).any() and not self._is_reference(column, objectives, reference):
                value, threshold = _standardized(_compressed(column))
                values.append(value)
                thresholds.append(threshold)
        features = self._space.space.features(history.rows[known])
        processes = [fit(features, np.column_stack(values), self._options.iterations)]
        if history.failed.any():
            known = self._training(history, np.arange(len(history.rows)), rng)
            value, threshold = _standardized(np.where(history.failed[known], 1.0, -1.0))
            features = self._space.space.features(history.rows[known])
            processes.append(fit(features, value[:, None], self._options.iterations))
            thresholds.append(threshold)
        lower, upper = _boxes(history.front_values, reference)
        return _Beliefs(
            tuple(processes),
            tuple(scales),
            np.array(thresholds),
            lower,
            upper,
            bool(history.feasible.any()),
        )

    def _training(self, history: _History, known: IntArray, rng: np.random.Generator) -> IntArray:
        """Positions to learn from: all that are known, or half front, a quarter latest, others."""
        most = self._options.training
        if len(known) <= most:
            return known
        front = rng.permutation(np.intersect1d(history.front, known))[: most // 2]
        chosen = np.union1d(front, known[-(most // 4) :]) if most >= 4 else front
        others = rng.permutation(np.setdiff1d(known, chosen))
        return np.sort(np.concatenate([chosen, others[: most - len(chosen)]]))

    def _reference_of(self, history: _History) -> FloatArray:
        if self._reference is not None:
            return np.asarray(self._reference, dtype=np.float64)
        of = history.feasible if history.feasible.any() else ~history.failed
        worst, best = history.objectives[of].max(axis=0), history.objectives[of].min(axis=0)
        span = np.where(worst > best, worst - best, np.maximum(np.abs(worst), 1.0))
        return np.asarray(worst + _MARGIN * span)

    def _is_reference(
        self, violation: FloatArray, objectives: FloatArray, reference: FloatArray
    ) -> bool:
        """Whether a limit has always meant the same as the given bound of an objective."""
        if self._reference is None:
            return False
        same = (violation > 0)[:, None] == (objectives > reference)
        return bool(same.all(axis=0).any())

    # Choosing

    def _choose(
        self, n: int, beliefs: _Beliefs, history: _History, rng: np.random.Generator
    ) -> IntArray:
        candidates = self._candidates(n, history, rng)
        chosen, taken = self._space.no_rows, KeySet()
        while len(chosen) < n and len(candidates):
            row = self._best(candidates, beliefs, taken)
            chosen = np.concatenate([chosen, row])
            taken.add(self._space.space.keys(row))
            if len(chosen) < n:
                beliefs = beliefs.after(self._space.space.features(row))
                candidates = self._space.distinct(candidates, taken)
        return chosen

    def _candidates(self, n: int, history: _History, rng: np.random.Generator) -> IntArray:
        size = max(self._options.candidates, n)
        drawn = self._space.sample_unseen(rng, size, self._seen)
        front = rng.permutation(history.front)[: self._options.neighborhoods]
        near = [self._space.space.neighbors(history.rows[i]) for i in np.sort(front)]
        return self._space.distinct(
            np.concatenate([drawn, *(self._space.unseen(rows, self._seen) for rows in near)]),
            self._seen,
        )

    def _best(self, candidates: IntArray, beliefs: _Beliefs, taken: KeySet) -> IntArray:
        """(1, d) the best candidate, or what local search finds from the best few."""
        worth = self._worth(candidates, beliefs)
        order = np.argsort(-worth, kind="stable")
        rows, worth = candidates[order], worth[order]
        best, best_worth = rows[:1], worth[0]
        for i in range(min(self._options.local_search, len(rows))):
            row, value = self._climb(rows[i], worth[i], beliefs, taken)
            if value > best_worth:
                best, best_worth = row[None, :], value
        return best

    def _climb(
        self, row: IntArray, worth: float, beliefs: _Beliefs, taken: KeySet
    ) -> tuple[IntArray, float]:
        for _ in range(_LOCAL_STEPS):
            near = self._space.unseen(self._space.space.neighbors(row), self._seen)
            near = self._space.distinct(near, taken)
            if not len(near):
                break
            values = self._worth(near, beliefs)
            best = int(np.argmax(values))
            if not values[best] > worth:
                break
            row, worth = near[best], float(values[best])
        return row, worth

    def _worth(self, rows: IntArray, beliefs: _Beliefs) -> FloatArray:
        return beliefs.worth(self._space.space.features(rows))


@dataclass(frozen=True)
class _History:
    """Everything told, in order."""

    rows: IntArray
    objectives: FloatArray
    violations: FloatArray
    failed: BoolArray

    @property
    def feasible(self) -> BoolArray:
        """(n,) designs with a result and within every limit."""
        return ~self.failed & (self.violations <= 0).all(axis=1)

    @property
    def front(self) -> IntArray:
        """Positions of the non-dominated feasible designs."""
        feasible = np.flatnonzero(self.feasible)
        return feasible[non_dominated(self.objectives[feasible])]

    @property
    def front_values(self) -> FloatArray:
        """(k, m) the distinct values on the front, sorted."""
        return np.unique(self.objectives[self.front], axis=0)


@dataclass(frozen=True)
class _Beliefs:
    """What is believed about designs, and what follows for their worth.

    Attributes:
        processes: The first of the objectives and of limits, the second, if any, of failing.
        scales: Of the objectives.
        thresholds: Of the limits and of failing, on the models' scales; above is outside.
        lower: (b, m) lower corners of the boxes that are not dominated.
        upper: (b, m) upper corners.
        has_feasible: Whether something feasible is known.
    """

    processes: tuple[GaussianProcesses, ...]
    scales: tuple[Scale, ...]
    thresholds: FloatArray
    lower: FloatArray
    upper: FloatArray
    has_feasible: bool

    def worth(self, features: FloatArray) -> FloatArray:
        """(n,) the larger the better; comparable only with each other."""
        predictions = [process.predict(features) for process in self.processes]
        mean = np.concatenate([part for part, _ in predictions], axis=1)
        deviation = np.concatenate([part for _, part in predictions], axis=1)
        m = len(self.scales)
        gap = (self.thresholds - mean[:, m:]) / deviation[:, m:]
        within = np.asarray(log_ndtr(gap).sum(axis=1))
        if not self.has_feasible and len(self.thresholds):
            return within
        improvement = expected_hypervolume_improvement(
            mean[:, :m], deviation[:, :m], self.scales, self.lower, self.upper
        )
        return np.asarray(improvement * np.exp(within))

    def after(self, features: FloatArray) -> _Beliefs:
        """As if the design with (1, f) features had come out as expected."""
        processes = tuple(process.with_belief(features) for process in self.processes)
        return _Beliefs(
            processes, self.scales, self.thresholds, self.lower, self.upper, self.has_feasible
        )


def _compressed(violations: FloatArray) -> FloatArray:
    """Violations with their signs, large ones drawn together; infinite ones as the largest."""
    finite = violations[np.isfinite(violations)]
    largest = float(np.abs(finite).max(initial=1.0))
    bounded = np.clip(violations, -largest, largest)
    typical = float(np.median(np.abs(bounded))) or largest
    return np.asarray(np.sign(bounded) * np.log1p(np.abs(bounded) / typical))


def _standardized(values: FloatArray) -> tuple[FloatArray, float]:
    """Values with mean 0 and deviation 1, and where 0 is then."""
    mean, deviation = float(values.mean()), float(values.std())
    deviation = deviation if deviation > 0 else 1.0
    return (values - mean) / deviation, -mean / deviation


def _boxes(front: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
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
