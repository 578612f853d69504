"""Independent Gaussian processes for functions that are computed and not measured.

Matérn 5/2 kernels with one length scale per feature and the prior on them that grows with the
dimension (Hvarfner et al., "Vanilla Bayesian optimization performs great in high dimensions",
2024), as in BoTorch, over features that are warped as the observations ask for (``warping.py``).
Hyperparameters have the largest posterior density, found by L-BFGS with the gradient in closed
form; the prior mean is the generalized least-squares one. What is observed is computed, so there
is almost no noise. Written out because it is a fraction of the cost of the general libraries at
a hundred observations; the tests hold it to BoTorch's numbers.

PyTorch runs on one thread and in double precision, so that the same history gives the same
numbers in every process.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from codesign.columns import FloatArray, IntArray
from codesign.errors import MissingExtraError
from codesign.optimizers.warping import MOST_WARPED, WARP_SCALE, Bending, Warp, is_warpable

if TYPE_CHECKING:
    from torch import Tensor

NOISE = 1e-6
"""Variance, where that of what is observed is 1 [ours]: a thousandth of the range can decide
where a limit leaves a narrow band, and 1e-4 left up to 0.2 of the hypervolume unfound there."""
PRIOR_SCALE = math.sqrt(3.0)
"""Deviation of the logarithm of a length scale before anything is observed (Hvarfner et al.)."""
ALIKE_SCALE = 0.5
"""Deviation of the logarithm of a length scale about that of its group before anything is observed
[ours]: over three spaces with three categories of 20 values, two histories each, the ten results to
come were predicted with an error of 0.57 deviations on average, against 0.65 if the values share
one scale and 0.66 if each has its own."""
_SHORTEST = 2.5e-2
"""Least length scale, as in BoTorch."""
_LONGEST = 1e4
_CHUNK = 1 << 12


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
    try:
        load_libraries()
    except ImportError as error:
        raise MissingExtraError(f"optimizer {optimizer}", "gp") from error


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


@dataclass(frozen=True)
class Hyperparameters:
    """What is learned of a process besides its observations.

    Attributes:
        length_scales: (f,) of the kernel, whose variance is 1.
        warp: Of features before they are compared.
    """

    length_scales: Tensor
    warp: Warp


@dataclass(frozen=True)
class GaussianProcess:
    """Beliefs about a function after ``n`` observations.

    Attributes:
        features: (n, f) where it was observed, warped.
        values: (n,) what was observed, with mean about 0 and variance about 1.
        mean: Prior mean.
        hyperparameters: Of the kernel.
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

        warped = hyperparameters.warp.of(torch.as_tensor(features, dtype=torch.float64))
        return cls.of(warped, torch.as_tensor(np.ascontiguousarray(values)), hyperparameters)

    @classmethod
    def of(
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

        noise = NOISE * torch.eye(len(features), dtype=torch.float64)
        kernel = _kernel(features, features, hyperparameters.length_scales)
        factor = torch.linalg.cholesky(kernel + noise)
        if mean is None:
            columns = torch.stack([torch.ones_like(values), values], dim=1)
            ones, weighted = torch.cholesky_solve(columns, factor).sum(dim=0)
            mean = float(weighted / ones)
        weights = torch.cholesky_solve((values - mean)[:, None], factor)[:, 0]
        return cls(features, values, mean, hyperparameters, factor, weights)

    def predict(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(k,) means and standard deviations at (k, f) features."""
        import torch

        points = self.hyperparameters.warp.of(torch.as_tensor(features, dtype=torch.float64))
        mean = torch.empty(len(points), dtype=torch.float64)
        variance = torch.empty_like(mean)
        for start in range(0, len(points), _CHUNK):
            part = slice(start, start + _CHUNK)
            cross = _kernel(self.features, points[part], self.hyperparameters.length_scales)
            mean[part] = self.mean + self.weights @ cross
            explained = torch.linalg.solve_triangular(self.factor, cross, upper=False)
            variance[part] = 1.0 - explained.square_().sum(dim=0)
        return mean.numpy(), variance.clamp_min_(NOISE).sqrt_().numpy()

    def with_belief(self, features: FloatArray) -> GaussianProcess:
        """As if (k, f) features had been observed and were as expected."""
        import torch

        expected, _ = self.predict(features)
        return GaussianProcess.of(
            torch.cat([self.features, self.hyperparameters.warp.of(torch.as_tensor(features))]),
            torch.cat([self.values, torch.as_tensor(expected)]),
            self.hyperparameters,
            self.mean,
        )


def _kernel(first: Tensor, second: Tensor, length_scales: Tensor) -> Tensor:
    """Matérn 5/2."""
    return _matern(_distance(first / length_scales, second / length_scales))


def _distance(first: Tensor, second: Tensor) -> Tensor:
    """Distances, multiplied by the root of 5."""
    import torch

    distance: Tensor = torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
    return distance.mul_(math.sqrt(5.0))


def _matern(distance: Tensor) -> Tensor:
    """Matérn 5/2 of distances that are multiplied by the root of 5."""
    correlation: Tensor = (1.0 + distance + distance**2 / 3.0) * (-distance).exp()
    return correlation


class Fitting:
    """Finds the hyperparameters of processes that were observed at the same features.

    Args:
        features: (n, f) of about 0 to 1.
        iterations: Bound on the steps of L-BFGS for each process.
        groups: (f,) numbers from 0; length scales of features with one number are similar.
            Without them, each is by itself.
    """

    def __init__(
        self, features: FloatArray, iterations: int, groups: IntArray | None = None
    ) -> None:
        import torch

        self._features = torch.as_tensor(features, dtype=torch.float64)
        self._iterations = iterations
        self._groups = np.arange(features.shape[1]) if groups is None else groups
        self._n_groups = int(self._groups.max()) + 1
        # Features that are not alone in their group.
        self._alike = np.flatnonzero(np.bincount(self._groups)[self._groups] > 1)
        self._warpable = is_warpable(features)
        self._bending = Bending(self._features, self._warpable)
        self._noise = NOISE * torch.eye(len(features), dtype=torch.float64)

    def fit(self, values: FloatArray) -> tuple[Hyperparameters, float]:
        """Those of largest posterior density, and the logarithm of that.

        Args:
            values: (n,), standardized.
        """
        import torch
        from scipy.optimize import minimize

        observed = torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float64)
        n_others = len(self._alike) + 2 * len(self._warpable)
        mode = prior_location(self._features.shape[1]) - PRIOR_SCALE**2  # of the prior
        most = math.log(MOST_WARPED)
        optimum = minimize(
            lambda logs: self.loss(logs, observed)[:2],
            np.append(np.full(self._n_groups, mode), np.zeros(n_others)),
            jac=True,
            method="L-BFGS-B",
            bounds=[(math.log(_SHORTEST), math.log(_LONGEST))] * self._n_groups
            + [(-most, most)] * n_others,
            options={"maxiter": self._iterations},
        )
        scales, exponents = self._read(optimum.x)
        return Hyperparameters(scales, Warp.of_logs(self._warpable, exponents)), -float(optimum.fun)

    def _read(self, logs: FloatArray) -> tuple[Tensor, FloatArray]:
        """(f,) length scales and (2w,) logarithms of exponents."""
        import torch

        g, k = self._n_groups, len(self._alike)
        scales = logs[:g][self._groups]
        scales[self._alike] += logs[g : g + k]
        return torch.as_tensor(np.exp(scales)), logs[g + k :]

    def loss(self, logs: FloatArray, observed: Tensor) -> tuple[float, FloatArray, float]:
        """Negative log posterior density, its gradient by the hyperparameters, the prior mean.

        The density is that of the marginal likelihood at the generalized least-squares mean,
        times the prior's over the length scales themselves, as BoTorch has it, and over the
        logarithms of the warps' exponents.

        Args:
            logs: (g,) logarithms of the groups' length scales, (k,) what features that are not
                alone differ from their group's, and (2w,) logarithms of the warps' exponents;
                without the latter, nothing is warped.
            observed: (n,) standardized values.
        """
        import torch

        n = len(self._features)
        scales, exponents = self._read(logs)
        bent, by_exponent = self._features, None
        if len(exponents):
            bent, by_exponent = self._bending.bent(exponents)
        scaled = bent / scales
        distance = _distance(scaled, scaled)
        factor = torch.linalg.cholesky(_matern(distance).add_(self._noise))
        inverse = torch.cholesky_inverse(factor)
        total = inverse.sum(dim=0)
        mean = float(total @ observed / total.sum())
        residual = observed - mean
        weights = inverse @ residual
        log_likelihood = float(
            -0.5 * residual @ weights - factor.diagonal().log().sum()
        ) - 0.5 * n * math.log(2.0 * math.pi)
        # Of the kernel by the logarithm of length scale i: 5/3 (1 + d) exp(-d) gap_i^2 / l_i^2.
        slope = (1.0 + distance).mul_((-distance).exp_()).mul_(5.0 / 3.0)
        slope.mul_(torch.outer(weights, weights).sub_(inverse))
        # (n, f) of the likelihood by -scaled: sums over the other of slope times the gap.
        pull = slope.sum(dim=0)[:, None] * scaled - slope @ scaled
        by_bent = (pull / scales)[:, self._warpable]
        by_scale = (pull * scaled).sum(dim=0).numpy()
        slopes = np.concatenate(
            [
                np.bincount(self._groups, by_scale, self._n_groups),
                by_scale[self._alike],
                []
                if by_exponent is None
                else -(by_exponent * by_bent).sum(dim=1).flatten().numpy(),
            ]
        )
        log_prior, prior_slopes = self._log_prior(logs)
        return -(log_likelihood + log_prior), -(slopes + prior_slopes), mean

    def _log_prior(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """Logarithm of the prior density, less a constant, and its gradient."""
        g, k = self._n_groups, len(self._alike)
        away = (logs[:g] - prior_location(self._features.shape[1])) / PRIOR_SCALE
        scales = np.append(np.full(k, ALIKE_SCALE), np.full(len(logs) - g - k, WARP_SCALE))
        others = logs[g:] / scales
        density = float((-0.5 * away**2 - logs[:g]).sum() - 0.5 * (others**2).sum())
        return density, np.append(-away / PRIOR_SCALE - 1.0, -others / scales)
