"""MemExplorer's search as published (§4.4), with BoTorch's models.

Independent Gaussian processes on the objectives, and the largest analytic expected hypervolume
improvement (Eq. 8) over a random subset of the designs that were not evaluated. The paper does
not state the kernel, the encoding or the size of the subset: BoTorch's defaults, one coordinate
per parameter, and 1,024 are ours. It models no limits; infeasible designs are learned from, but
are no part of the front that is to be improved.
"""

from __future__ import annotations

import warnings
from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import ArrayPair, FloatArray, IntArray
from codesign.base.schema import Record
from codesign.search.observations import Observations
from codesign.search.optimizers.acquisition_function import boxes
from codesign.search.optimizers.base import Count
from codesign.search.optimizers.history import LearningOptimizer
from codesign.search.optimizers.improvement import Scale, expected_hypervolume_improvement
from codesign.search.optimizers.surrogate import require_libraries, single_thread


class GpEhviPaper(LearningOptimizer):
    """Proposes the candidate of largest expected hypervolume improvement, and no more than that.

    In a batch, it proposes the best candidates of one ranking; of pending designs it knows only
    that they are taken. The reference point is the worst of the results if none is given.

    Raises:
        MissingExtraError: PyTorch or BoTorch is not installed.
    """

    class Options(Record):
        """Options of the published recipe."""

        candidates: Count = 1024
        """Size of the random subset."""
        training: Annotated[Count, Field(ge=2)] = 500
        """Most results, the latest ones, that the models learn from."""
        iterations: Count = 200
        """Bound on the optimization of the models' hyperparameters."""

    knows_pending = True
    _options: Options

    def _set_up(self) -> None:
        require_libraries("gp-ehvi-paper")
        super()._set_up()

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        rng = self._rng(pending)
        history = self._memory.history()
        size = max(self._options.candidates, n)
        candidates = self._space.sample_unseen(rng, size, self._excluded(pending))
        if (~history.failed).sum() < 2 or not len(candidates) or n < 1:
            return candidates[:n]
        with single_thread(), warnings.catch_warnings():
            # Of inputs that are not standardized to the last bit, and of fits that start again.
            warnings.simplefilter("ignore")
            values = self._improvement(candidates, history)
        return candidates[np.argsort(-values, kind="stable")[:n]]

    def _improvement(self, candidates: IntArray, history: Observations) -> FloatArray:
        """(k,) expected hypervolume improvement of each candidate."""
        observed = np.flatnonzero(~history.failed)[-self._options.training :]
        objectives = history.objectives[observed]
        bound = objectives.max(axis=0) if self._reference is None else self._reference
        scales = [Scale.fit(column, logarithmic=False) for column in objectives.T]
        values = [scale.modeled(column) for scale, column in zip(scales, objectives.T, strict=True)]
        predictions = [
            self._predict(history.rows[observed], column, candidates) for column in values
        ]
        mean = np.column_stack([mean for mean, _ in predictions])
        deviation = np.column_stack([deviation for _, deviation in predictions])
        lower, upper = boxes(history.front_values, bound)
        return expected_hypervolume_improvement(mean, deviation, scales, lower, upper)

    def _predict(self, rows: IntArray, values: FloatArray, candidates: IntArray) -> ArrayPair:
        """(k,) mean and deviation of a function at candidates, after its (n,) values at rows."""
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        points, queries = (
            torch.as_tensor(self._space.space.points(designs)) for designs in (rows, candidates)
        )
        model = SingleTaskGP(points, torch.as_tensor(values)[:, None], outcome_transform=None)
        # Fits that fail start again from random numbers.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            fit_gpytorch_mll(
                ExactMarginalLogLikelihood(model.likelihood, model),
                optimizer_kwargs={"options": {"maxiter": self._options.iterations}},
            )
        with torch.no_grad():
            posterior = model.posterior(queries)
            mean = posterior.mean[:, 0].numpy()
            variance = posterior.variance[:, 0].numpy()
        return mean, np.sqrt(variance)
