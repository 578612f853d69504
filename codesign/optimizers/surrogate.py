"""Independent Gaussian processes for functions that are computed and not measured.

Matérn 5/2 kernels with one length scale per feature and the prior on them that grows with the
dimension (Hvarfner et al., "Vanilla Bayesian optimization performs great in high dimensions",
2024), as in BoTorch. Length scales have the largest posterior density, found by L-BFGS with the
gradient in closed form; the prior mean is the generalized least-squares one. What is observed
is computed, so there is almost no noise. Written out because it is a fraction of the cost of
the general libraries at a hundred observations; the tests hold it to BoTorch's numbers.

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

from codesign.columns import FloatArray
from codesign.errors import MissingExtraError

if TYPE_CHECKING:
    from torch import Tensor

NOISE = 1e-6
"""Variance, where that of what is observed is 1 [ours]: a thousandth of the range can decide
where a limit leaves a narrow band, and 1e-4 left up to 0.2 of the hypervolume unfound there."""
PRIOR_SCALE = math.sqrt(3.0)
"""Deviation of the logarithm of a length scale before anything is observed (Hvarfner et al.)."""
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
class GaussianProcess:
    """Beliefs about a function after ``n`` observations.

    Attributes:
        features: (n, f) where it was observed.
        values: (n,) what was observed, with mean about 0 and variance about 1.
        mean: Prior mean.
        length_scales: (f,) of the kernel, whose variance is 1.
        factor: (n, n) lower Cholesky factor of the covariance of the observations.
        weights: (n,) that covariance's inverse times ``values - mean``.
    """

    features: Tensor
    values: Tensor
    mean: float
    length_scales: Tensor
    factor: Tensor
    weights: Tensor

    @classmethod
    def of(
        cls, features: Tensor, values: Tensor, length_scales: Tensor, mean: float
    ) -> GaussianProcess:
        """The process with given hyperparameters."""
        import torch

        noise = NOISE * torch.eye(len(features), dtype=torch.float64)
        factor = torch.linalg.cholesky(_kernel(features, features, length_scales) + noise)
        weights = torch.cholesky_solve((values - mean)[:, None], factor)[:, 0]
        return cls(features, values, mean, length_scales, factor, weights)

    def predict(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(k,) means and standard deviations at (k, f) features."""
        import torch

        points = torch.as_tensor(features, dtype=torch.float64)
        mean = torch.empty(len(points), dtype=torch.float64)
        variance = torch.empty_like(mean)
        for start in range(0, len(points), _CHUNK):
            part = slice(start, start + _CHUNK)
            cross = _kernel(self.features, points[part], self.length_scales)
            mean[part] = self.mean + self.weights @ cross
            explained = torch.linalg.solve_triangular(self.factor, cross, upper=False)
            variance[part] = 1.0 - explained.square_().sum(dim=0)
        return mean.numpy(), variance.clamp_min_(NOISE).sqrt_().numpy()

    def with_belief(self, features: FloatArray) -> GaussianProcess:
        """As if (k, f) features had been observed and were as expected."""
        import torch

        expected, _ = self.predict(features)
        return GaussianProcess.of(
            torch.cat([self.features, torch.as_tensor(features)]),
            torch.cat([self.values, torch.as_tensor(expected)]),
            self.length_scales,
            self.mean,
        )


def _kernel(first: Tensor, second: Tensor, length_scales: Tensor) -> Tensor:
    """Matérn 5/2."""
    import torch

    distance = torch.cdist(
        first / length_scales,
        second / length_scales,
        compute_mode="donot_use_mm_for_euclid_dist",
    ).mul_(math.sqrt(5.0))
    return _matern(distance)


def _matern(distance: Tensor) -> Tensor:
    """Matérn 5/2 of distances that are multiplied by the root of 5."""
    correlation: Tensor = (1.0 + distance + distance**2 / 3.0) * (-distance).exp()
    return correlation


class Fitting:
    """Finds the hyperparameters of processes that were observed at the same features.

    Args:
        features: (n, f) of about 0 to 1.
        iterations: Bound on the steps of L-BFGS for each process.
    """

    def __init__(self, features: FloatArray, iterations: int) -> None:
        import torch

        self._features = torch.as_tensor(features, dtype=torch.float64)
        self._iterations = iterations
        n, f = features.shape
        gaps = self._features.T[:, :, None] - self._features.T[:, None, :]
        self._squares = gaps.square_().reshape(f, n * n)
        self._noise = NOISE * torch.eye(n, dtype=torch.float64)

    def fit(self, values: FloatArray) -> GaussianProcess:
        """The process of largest posterior density of the length scales.

        Args:
            values: (n,), standardized.
        """
        import torch
        from scipy.optimize import minimize

        observed = torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float64)
        f = len(self._squares)
        optimum = minimize(
            lambda logs: self.loss(logs, observed)[:2],
            np.full(f, prior_location(f) - PRIOR_SCALE**2),  # the prior's mode
            jac=True,
            method="L-BFGS-B",
            bounds=[(math.log(_SHORTEST), math.log(_LONGEST))] * f,
            options={"maxiter": self._iterations},
        )
        mean = self.loss(optimum.x, observed)[2]
        scales = torch.as_tensor(np.exp(optimum.x))
        return GaussianProcess.of(self._features, observed, scales, mean)

    def loss(self, logs: FloatArray, observed: Tensor) -> tuple[float, FloatArray, float]:
        """Negative log posterior density of log length scales, its gradient, the prior mean.

        The density is that of the marginal likelihood at the generalized least-squares mean,
        times the prior's over the length scales themselves, as BoTorch has it.
        """
        import torch

        n = len(observed)
        inverse_squares = torch.as_tensor(np.exp(-2.0 * logs))
        distance = (inverse_squares @ self._squares).mul_(5.0).sqrt_().reshape(n, n)
        covariance = _matern(distance).add_(self._noise)
        factor = torch.linalg.cholesky(covariance)
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
        gradient = 0.5 * inverse_squares * (self._squares @ slope.reshape(-1))
        away = (logs - prior_location(len(logs))) / PRIOR_SCALE
        log_prior = float((-0.5 * away**2 - logs).sum())
        prior_slope = -away / PRIOR_SCALE - 1.0
        return -(log_likelihood + log_prior), -(gradient.numpy() + prior_slope), mean
