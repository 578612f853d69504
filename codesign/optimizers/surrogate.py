"""Independent Gaussian processes: hyperparameters by BoTorch, beliefs in closed form.

Matérn 5/2 kernels with one length scale per feature and the prior on them that grows with the
dimension (Hvarfner et al., "Vanilla Bayesian optimization performs great in high dimensions",
2024). What is observed is computed and not measured, so there is almost no noise.

PyTorch runs on one thread and in double precision, so that the same history gives the same
numbers in every process.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codesign.columns import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

_NOISE = 1e-4
"""Variance, where that of what is observed is 1."""
_CHUNK = 1 << 12


def load_libraries() -> None:
    """Import BoTorch and what it stands on, without what they warn of in each other.

    Raises:
        ImportError: One is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("botorch")


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
class GaussianProcesses:
    """Beliefs about ``p`` functions after ``n`` observations of each.

    Attributes:
        features: (n, f) where they were observed.
        values: (n, p) what was observed, each with mean about 0 and variance about 1.
        means: (p,) prior means.
        length_scales: (p, f) of the kernels, whose variance is 1.
    """

    features: Tensor
    values: Tensor
    means: Tensor
    length_scales: Tensor

    def predict(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(k, p) means and standard deviations at (k, f) features."""
        import torch

        points = torch.as_tensor(features, dtype=torch.float64)
        means = torch.empty((len(points), len(self.means)), dtype=torch.float64)
        deviations = torch.empty_like(means)
        for j, factor in enumerate(self._factors()):
            residual = (self.values[:, j] - self.means[j])[:, None]
            weights = torch.cholesky_solve(residual, factor)[:, 0]
            for start in range(0, len(points), _CHUNK):
                part = slice(start, start + _CHUNK)
                cross = _kernel(self.features, points[part], self.length_scales[j])
                means[part, j] = self.means[j] + weights @ cross
                explained = torch.linalg.solve_triangular(factor, cross, upper=False)
                variance = 1.0 - (explained**2).sum(dim=0)
                deviations[part, j] = variance.clamp_min(_NOISE * 1e-2).sqrt()
        return means.numpy(), deviations.numpy()

    def with_belief(self, features: FloatArray) -> GaussianProcesses:
        """As if (1, f) features had been observed and were as expected."""
        import torch

        mean, _ = self.predict(features)
        return GaussianProcesses(
            torch.cat([self.features, torch.as_tensor(features)]),
            torch.cat([self.values, torch.as_tensor(mean)]),
            self.means,
            self.length_scales,
        )

    def _factors(self) -> Iterator[Tensor]:
        import torch

        noise = _NOISE * torch.eye(len(self.features), dtype=torch.float64)
        for scales in self.length_scales:
            covariance = _kernel(self.features, self.features, scales) + noise
            yield torch.linalg.cholesky(covariance)


def _kernel(first: Tensor, second: Tensor, length_scales: Tensor) -> Tensor:
    """Matérn 5/2."""
    import torch

    distance = 5.0**0.5 * torch.cdist(
        first / length_scales,
        second / length_scales,
        compute_mode="donot_use_mm_for_euclid_dist",
    )
    correlation: Tensor = (1.0 + distance + distance**2 / 3.0) * torch.exp(-distance)
    return correlation


def fit(features: FloatArray, values: FloatArray, iterations: int) -> GaussianProcesses:
    """Independent processes with hyperparameters of largest posterior density.

    Args:
        features: (n, f) of about 0 to 1.
        values: (n, p), standardized.
        iterations: Bound on the steps of the optimizer, L-BFGS.
    """
    import torch
    from botorch import settings
    from botorch.models import SingleTaskGP
    from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
    from botorch.optim.fit import fit_gpytorch_mll_scipy
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = torch.as_tensor(features, dtype=torch.float64)
    y = torch.as_tensor(values, dtype=torch.float64)
    p = y.shape[1]
    model = SingleTaskGP(
        x,
        y,
        train_Yvar=torch.full_like(y, _NOISE),
        covar_module=get_covar_module_with_dim_scaled_prior(
            ard_num_dims=x.shape[1],
            batch_shape=torch.Size([p] if p > 1 else []),
            use_rbf_kernel=False,
        ),
        outcome_transform=None,
    )
    likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
    with warnings.catch_warnings(), settings.validate_input_scaling(False):
        # Stopping early is meant; an ill-conditioned trial step is stepped back from.
        warnings.simplefilter("ignore")
        fit_gpytorch_mll_scipy(likelihood, options={"maxiter": iterations})
    length_scales = model.covar_module.lengthscale.detach().reshape(p, -1)
    means = model.mean_module.constant.detach().reshape(p)
    return GaussianProcesses(x, y, means, length_scales)
