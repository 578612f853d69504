"""Gaussian processes for functions that are computed or measured.

Each is the sum of a product kernel and an additive kernel: Matérn 5/2 with one length scale per
feature under the prior that grows with the dimension (Hvarfner et al., "Vanilla Bayesian
optimization performs great in high dimensions", 2024), as in BoTorch, plus a sum of functions of
one parameter each (``additive.py``). Features are warped as the observations ask for
(``warping.py``). Both variances and the noise are learned; hyperparameters have the largest
posterior density, found by L-BFGS with the gradient in closed form; the prior mean is the
generalized least-squares one.

Rough results are explained by short length scales or by noise, and few results cannot tell which.
So the density is climbed from either end, and the posterior is the mixture of both optima. What a
point estimate of ``p`` hyperparameters from ``n`` results hides widens it by ``1 + p / n``.

Written out because it is a fraction of the cost of the general libraries at a hundred
observations (docs/comparison.md measures it); the tests hold it to BoTorch's numbers. PyTorch runs
on one thread and in double precision, so that the same history gives the same numbers in every
process.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import ArrayPair, FloatArray, IntArray
from codesign.base.errors import needing_extra
from codesign.base.records import frozen
from codesign.search.optimizers.additive import (
    MOST_GROUPS,
    AdditiveFitting,
    Contributions,
    distance,
    matern,
    matern_slope,
)
from codesign.search.optimizers.warping import MOST_WARPED, WARP_SCALE, Bending, Warp, is_warpable

if TYPE_CHECKING:
    from torch import Tensor

NOISE = 1e-6
"""Variance, where that of what is observed is 1 [ours]. A thousandth of the range can decide
where a limit leaves a narrow band, and 1e-4 left up to 0.2 of the hypervolume unfound there."""
PRIOR_SCALE = math.sqrt(3.0)
"""Deviation of the logarithm of a length scale before anything is observed (Hvarfner et al.)."""
ALIKE_SCALE = 0.5
"""Deviation of the logarithm of a length scale about that of its group before anything is observed
[ours]. Over three spaces with three categories of 20 values, two histories each, the ten results to
come were predicted with an error of 0.57 deviations on average. It is 0.65 if the values share
one scale and 0.66 if each has its own."""
LOG_NOISE = math.log(NOISE)
_NOISE_BOUNDS = (LOG_NOISE, math.log(0.5))
"""Noise is at most half of what varies."""
_NOISE_STARTS = (math.log(1e-5), math.log(1e-1))
"""Starts of the two searches: function values, and noisy ones [ours]."""
_NOISE_RATE = 0.3
"""Slope of the logarithm of the prior density by that of the noise's variance: of two equal
explanations the one with less noise is likelier [ours]."""
_SAME_MODE = 0.1
"""Difference of log densities up to which two searches found the same optimum [ours]."""
_TEMPERATURE = 100.0
"""Divides log densities of modes before they become weights [ours]. Over 37 models of 17 histories,
unseen designs had a mean log density of 1.33, and of -0.14 at a temperature of 10: on plateaus
the denser mode is overconfident. Twofold widening held more, but found less of two fronts."""
VARIANCE_SCALE = 2.0
"""Deviation of the logarithm of a variance of a product or a sum before anything is observed."""
_ADDED_START = 0.5
"""Logarithm of the length scales of the sum where their search begins [ours]."""
_VARIANCE_BOUNDS = (-8.0, 8.0)
"""Bounds of the logarithm of a variance of a product or a sum."""
_SHORTEST = 2.5e-2
"""Least length scale, as in BoTorch."""
_LONGEST = 1e4
_TOLERANCE = 1e-5
"""Share of the loss that a step of L-BFGS gains at least [ours]: a thousandth of a logarithm is of
no account."""
_CHUNK = 1 << 12
_SCALE_BOUNDS = (math.log(_SHORTEST), math.log(_LONGEST))


def prior_location(n_features: int) -> float:
    """Mean of the logarithm of a length scale before anything is observed (Hvarfner et al.)."""
    return math.sqrt(2.0) + 0.5 * math.log(n_features)


def load_libraries() -> None:
    """Import BoTorch and what it stands on, without what they warn of in each other.

    Raises:
        ImportError: One is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("botorch")


def require_libraries(optimizer: str) -> None:
    """:func:`load_libraries`; raises MissingExtraError if one is not installed."""
    with needing_extra(f"optimizer {optimizer}", "gp"):
        load_libraries()


@contextmanager
def single_thread() -> Iterator[None]:
    """PyTorch on one thread; afterwards as it was."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@frozen
class Hyperparameters:
    """Hyperparameters of a process.

    Attributes:
        length_scales: (f,) of the product kernel.
        warp: Of features before they are compared.
        noise: Variance of the observations about the function.
        variance: Of the product kernel.
        contributions: The additive kernel.
    """

    length_scales: Tensor
    warp: Warp
    noise: float
    variance: float
    contributions: Contributions

    def warped(self, features: FloatArray) -> Tensor:
        """(n, f) features as the kernel compares them."""
        import torch

        return self.warp.bend(torch.as_tensor(features, dtype=torch.float64))

    @property
    def total_variance(self) -> float:
        """Variance of the function before anything is observed."""
        return self.variance + self.contributions.variance

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """(n, k) between (n, f) and (k, f) warped features."""
        scales = self.length_scales
        # The rows are those of the second: whole rows are looked up in tables.
        product = matern(distance(second / scales, first / scales)).mul_(self.variance)
        return product.add_(self.contributions.covariance(first, second)).T


@frozen
class GaussianProcess:
    """Process that was observed at ``n`` designs.

    Attributes:
        features: (n, f) where it was observed, warped.
        values: (n,) what was observed, with mean about 0 and variance about 1.
        mean: Prior mean.
        factor: (n, n) lower Cholesky factor of the covariance of the observations.
        weights: (n,) that covariance's inverse times ``values - mean``.
    """

    features: Tensor
    values: Tensor
    mean: float
    hyperparameters: Hyperparameters
    factor: Tensor
    weights: Tensor

    @classmethod
    def observed(
        cls, features: FloatArray, values: FloatArray, hyperparameters: Hyperparameters
    ) -> GaussianProcess:
        """The process after (n,) values at (n, f) features."""
        import torch

        warped = hyperparameters.warped(features)
        return cls.condition(warped, torch.as_tensor(np.ascontiguousarray(values)), hyperparameters)

    @classmethod
    def condition(
        cls,
        features: Tensor,
        values: Tensor,
        hyperparameters: Hyperparameters,
        mean: float | None = None,
    ) -> GaussianProcess:
        """The process after observations at warped features.

        Without a mean, it is the generalized least-squares one.
        """
        import torch

        kernel = hyperparameters.covariance(features, features)
        kernel.diagonal().add_(hyperparameters.noise)
        factor = torch.linalg.cholesky(kernel)
        if mean is None:
            columns = torch.stack([torch.ones_like(values), values], dim=1)
            ones, weighted = torch.cholesky_solve(columns, factor).sum(dim=0)
            mean = float(weighted / ones)
        weights = torch.cholesky_solve((values - mean)[:, None], factor)[:, 0]
        return cls(features, values, mean, hyperparameters, factor, weights)

    def predict(self, features: FloatArray) -> ArrayPair:
        """(k,) means and standard deviations at (k, f) features."""
        import torch

        hyperparameters = self.hyperparameters
        points = hyperparameters.warped(features)
        mean = torch.empty(len(points), dtype=torch.float64)
        variance = torch.empty_like(mean)
        for start in range(0, len(points), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            cross = hyperparameters.covariance(self.features, points[chunk])
            mean[chunk] = self.mean + self.weights @ cross
            explained = torch.linalg.solve_triangular(self.factor, cross, upper=False)
            variance[chunk] = hyperparameters.total_variance - explained.square_().sum(dim=0)
        return mean.numpy(), variance.clamp_min_(NOISE).sqrt_().numpy()

    def fantasized(self, features: FloatArray) -> GaussianProcess:
        """Posterior after (k, f) features were observed at their expected values.

        What is as expected moves no mean, so the new weights are 0 and the factor gets new rows.
        """
        import torch

        expected, _ = self.predict(features)
        points = self.hyperparameters.warped(features)
        cross = self.hyperparameters.covariance(self.features, points)
        rows = torch.linalg.solve_triangular(self.factor, cross, upper=False).T
        rest = self.hyperparameters.covariance(points, points) - rows @ rows.T
        # As much noise as observations have; of designs that are alike, rounding may leave less.
        rest.diagonal().clamp_min_(0.0).add_(self.hyperparameters.noise)
        n = len(self.features)
        k = len(points)
        factor = torch.zeros(n + k, n + k, dtype=torch.float64)
        factor[:n, :n] = self.factor
        factor[n:, :n] = rows
        factor[n:, n:] = torch.linalg.cholesky(rest)
        return replace(
            self,
            features=torch.cat([self.features, points]),
            values=torch.cat([self.values, torch.as_tensor(expected)]),
            factor=factor,
            weights=torch.cat([self.weights, torch.zeros(k, dtype=torch.float64)]),
        )


@frozen
class Posterior:
    """Mixture of Gaussian processes that saw the same observations.

    Attributes:
        processes: One for each mode of the hyperparameters.
        weights: (k,) of the modes; their sum is 1.
        widening: Factor on the variance for what point estimates hide.
    """

    processes: tuple[GaussianProcess, ...]
    weights: FloatArray
    widening: float = 1.0

    @property
    def noise(self) -> float:
        """Variance of observations about the function."""
        noises = [process.hyperparameters.noise for process in self.processes]
        return float(self.weights @ np.array(noises))

    def predict(self, features: FloatArray) -> ArrayPair:
        """(k,) means and standard deviations of the function at (k, f) features."""
        predictions = [process.predict(features) for process in self.processes]
        means = np.stack([mean for mean, _ in predictions])
        variances = np.stack([deviation**2 for _, deviation in predictions]) - NOISE
        mean = self.weights @ means
        variance = self.weights @ (self.widening * variances + (means - mean) ** 2)
        return mean, np.sqrt(variance + NOISE)

    def fantasized(self, features: FloatArray) -> Posterior:
        """The posterior as if (k, f) features had been observed and were as expected."""
        return replace(
            self, processes=tuple(process.fantasized(features) for process in self.processes)
        )


@frozen
class Mode:
    """Optimum of the posterior density of hyperparameters.

    Attributes:
        hyperparameters: Those of largest density nearby.
        density: The logarithm of that.
        logs: The logarithms that were optimized.
        warpable: (w,) columns of the features whose warps are among them.
    """

    hyperparameters: Hyperparameters
    density: float
    logs: FloatArray
    warpable: IntArray


@frozen
class Modes:
    """Distinct optima of the posterior density, in the order of their searches."""

    modes: tuple[Mode, ...]

    @property
    def density(self) -> float:
        """Largest log density."""
        return max(mode.density for mode in self.modes)

    def posterior(self, features: FloatArray, values: FloatArray, n_training: int) -> Posterior:
        """The mixture after (n,) values at (n, f) features.

        Args:
            n_training: Results that the hyperparameters were learned from.
        """
        processes = [
            GaussianProcess.observed(features, values, mode.hyperparameters) for mode in self.modes
        ]
        densities = np.array([mode.density for mode in self.modes])
        weights = np.exp((densities - densities.max()) / _TEMPERATURE)
        widening = 1.0 + len(self.modes[0].logs) / n_training
        return Posterior(tuple(processes), weights / weights.sum(), widening)


class Fitting:
    """Finds the hyperparameters of processes that were observed at the same features.

    Args:
        features: (n, f) of about 0 to 1.
        iterations: Bound on the steps of L-BFGS for each search.
        groups: (f,) numbers from 0; length scales of features with one number are similar.
            Without them, each is by itself. More than :data:`MOST_GROUPS` count as one.
    """

    def __init__(
        self, features: FloatArray, iterations: int, groups: IntArray | None = None
    ) -> None:
        import torch

        n_features = features.shape[1]
        self._features = torch.as_tensor(features, dtype=torch.float64)
        self._iterations = iterations
        self._groups = np.arange(n_features) if groups is None else groups
        is_merged = int(self._groups.max()) >= MOST_GROUPS
        if is_merged:
            self._groups = np.zeros(n_features, np.int64)
        self._n_groups = int(self._groups.max()) + 1
        # Features that are not alone in their group.
        self._alike = np.flatnonzero(np.bincount(self._groups)[self._groups] > 1)
        self._location = prior_location(n_features)
        self._warpable = is_warpable(features[:, :0] if is_merged else features)
        self._bending = Bending(self._features, self._warpable)
        self._additive = AdditiveFitting(features, self._groups)
        # Numbers that are optimized, in their order; see loss().
        sizes = [1, self._n_groups, len(self._alike), 2 * len(self._warpable), 2, self._n_groups]
        self._ends = np.cumsum(sizes)[:-1]

    def fit(self, values: FloatArray) -> Modes:
        """The modes for (n,) standardized values."""
        mode = self._location - PRIOR_SCALE**2  # of the prior
        n_others = len(self._alike) + 2 * len(self._warpable) + 2
        others = [np.full(self._n_groups, mode), np.zeros(n_others)]
        added = np.full(self._n_groups, _ADDED_START)
        starts = [np.concatenate([[noise], *others, added]) for noise in _NOISE_STARTS]
        return self._modes(values, starts)

    def refit(self, values: FloatArray, modes: Modes) -> Modes:
        """The modes near those of other values, as of fewer designs."""
        starts = []
        for mode in modes.modes:
            first = 1 + self._n_groups + len(self._alike)
            scales, warps, added = np.split(mode.logs, [first, first + 2 * len(mode.warpable)])
            of_columns = np.zeros((2, self._features.shape[1]))
            of_columns[:, mode.warpable] = np.reshape(warps, (2, -1))
            starts.append(np.concatenate([scales, of_columns[:, self._warpable].ravel(), added]))
        return self._modes(values, starts)

    def _modes(self, values: FloatArray, starts: Sequence[FloatArray]) -> Modes:
        modes: list[Mode] = []
        for start in starts:
            mode = self._optimum(values, start)
            if all(abs(mode.density - earlier.density) > _SAME_MODE for earlier in modes):
                modes.append(mode)
        return Modes(tuple(modes))

    def _optimum(self, values: FloatArray, start: FloatArray) -> Mode:
        import torch
        from scipy.optimize import minimize

        observed = torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float64)
        n_scales = self._n_groups
        most = math.log(MOST_WARPED)
        optimum = minimize(
            lambda logs: self.loss(logs, observed)[:2],
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[
                _NOISE_BOUNDS,
                *[_SCALE_BOUNDS] * n_scales,
                *[(-most, most)] * (len(self._alike) + 2 * len(self._warpable)),
                *[_VARIANCE_BOUNDS] * 2,
                *[_SCALE_BOUNDS] * n_scales,
            ],
            options={"maxiter": self._iterations, "ftol": _TOLERANCE},
        )
        scales, exponents, (noise, variance, added_variance), added = self._read(optimum.x)
        hyperparameters = Hyperparameters(
            scales,
            Warp.read(self._warpable, exponents),
            noise,
            variance,
            Contributions(self._groups, added, added_variance),
        )
        return Mode(hyperparameters, -float(optimum.fun), optimum.x, self._warpable)

    def _read(
        self, logs: FloatArray
    ) -> tuple[Tensor, FloatArray, tuple[float, float, float], FloatArray]:
        """(f,) length scales, (2w,) logarithms of exponents, noise and variances, (g,) scales."""
        import torch

        noise, of_groups, alike, exponents, variances, added = np.split(logs, self._ends)
        scales = of_groups[self._groups]
        scales[self._alike] += alike
        numbers = np.exp(np.append(noise, variances)).tolist()
        return torch.as_tensor(np.exp(scales)), exponents, tuple(numbers), np.exp(added)

    def loss(self, logs: FloatArray, observed: Tensor) -> tuple[float, FloatArray, float]:
        """Negative log posterior density, its gradient by the hyperparameters, the prior mean.

        The density is that of the marginal likelihood at the generalized least-squares mean,
        times the prior's over the length scales of the product themselves, as BoTorch has it, and
        over the logarithms of all others.

        Args:
            logs: (1,) logarithm of the noise's variance, (g,) logarithms of the groups' length
                scales, (k,) what features that are not alone differ from their group's, (2w,)
                logarithms of the warps' exponents, (2,) logarithms of the variances of the product
                and of the sum, and (g,) of the length scales of the sum.
            observed: (n,) standardized values.
        """
        import torch

        scales, exponents, (noise, variance, added_variance), added_scales = self._read(logs)
        bent, by_exponent = self._bending.bent(exponents)
        scaled = bent / scales
        gaps = distance(scaled, scaled)
        product = matern(gaps)
        tables = self._additive.tables(bent, added_scales)
        added = self._additive.covariance(tables)
        kernel = variance * product + added_variance * added
        kernel.diagonal().add_(noise)
        factor = torch.linalg.cholesky(kernel)
        inverse = torch.cholesky_inverse(factor)
        total = inverse.sum(dim=0)
        mean = float(total @ observed / total.sum())
        residual = observed - mean
        weights = inverse @ residual
        log_likelihood = float(
            -0.5 * residual @ weights - factor.diagonal().log().sum()
        ) - 0.5 * len(observed) * math.log(2.0 * math.pi)
        # Twice the slopes of the likelihood by the entries of the kernel.
        by_kernel = torch.outer(weights, weights).sub_(inverse)
        slope = matern_slope(gaps).mul_(by_kernel).mul_(variance)
        # (n, f) of the likelihood by -scaled: sums over the other design of slope times the gap.
        pull = slope.sum(dim=0)[:, None] * scaled - slope @ scaled
        by_scale = (pull * scaled).sum(dim=0).numpy()
        by_added, bent_by_added = self._additive.slopes(by_kernel, tables, added_scales)
        by_bent = pull / scales + added_variance * bent_by_added
        slopes = np.concatenate(
            [
                [0.5 * noise * float(by_kernel.diagonal().sum())],
                np.bincount(self._groups, by_scale, self._n_groups),
                by_scale[self._alike],
                -(by_exponent * by_bent[:, self._warpable]).sum(dim=1).flatten().numpy(),
                [0.5 * variance * float((by_kernel * product).sum())],
                [0.5 * added_variance * float((by_kernel * added).sum())],
                added_variance * by_added,
            ]
        )
        log_prior, prior_slopes = self._log_prior(logs)
        return -(log_likelihood + log_prior), -(slopes + prior_slopes), mean

    def _log_prior(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """Logarithm of the prior density, less a constant, and its gradient."""
        noise, scales, alike, exponents, variances, added = np.split(logs, self._ends)
        away = (scales - self._location) / PRIOR_SCALE
        others = np.concatenate([alike, exponents, variances])
        deviations = np.repeat(
            [ALIKE_SCALE, WARP_SCALE, VARIANCE_SCALE], [len(alike), len(exponents), 2]
        )
        # Of the sum: the mode for a function of one parameter.
        far = (added - prior_location(1) + PRIOR_SCALE**2) / PRIOR_SCALE
        density = -_NOISE_RATE * float(noise[0] - LOG_NOISE) + float(
            (-0.5 * away**2 - scales).sum()
            - 0.5 * ((others / deviations) ** 2).sum()
            - 0.5 * (far**2).sum()
        )
        gradient = [
            np.full(1, -_NOISE_RATE),
            -away / PRIOR_SCALE - 1.0,
            -others / deviations**2,
            -far / PRIOR_SCALE,
        ]
        return density, np.concatenate(gradient)
