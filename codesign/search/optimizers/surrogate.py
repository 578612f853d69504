"""Independent Gaussian processes for functions that are computed and not measured.

Matérn 5/2 kernels with one length scale per feature and the prior on them that grows with the
dimension (Hvarfner et al., "Vanilla Bayesian optimization performs great in high dimensions",
2024), as in BoTorch, over features that are warped as the observations ask for (``warping.py``);
the values of categories may have positions that are learned (``embedding.py``).
Besides that product there may be a sum of functions of one parameter each (``additive.py``), and
noise; whoever fits chooses by the posterior density. Hyperparameters have the largest posterior
density, found by L-BFGS with the gradient in closed form; the prior mean is the generalized
least-squares one. What is observed is mostly computed, so that there is almost no noise. Written
out because it is a fraction of the cost of the general libraries at a hundred observations; the
tests hold it to BoTorch's numbers.

PyTorch runs on one thread and in double precision, so that the same history gives the same
numbers in every process.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.base.errors import needing_extra
from codesign.search.optimizers.additive import (
    AdditiveFitting,
    Contributions,
    distance,
    matern,
    matern_slope,
)
from codesign.search.optimizers.embedding import Embedding
from codesign.search.optimizers.warping import MOST_WARPED, WARP_SCALE, Bending, Warp, is_warpable

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
LOG_NOISE = math.log(NOISE)
_MOST_LOG_NOISE = math.log(0.5)
"""Noise is at most half of what varies."""
_NOISE_START = math.log(3e-3)
"""Where the search for the noise's variance begins [ours]: from the least, it is not found."""
VARIANCE_SCALE = 2.0
"""Deviation of the logarithm of a variance of a product or a sum before anything is observed."""
_SUM_START = 0.5
"""Logarithm of the length scales of a sum where their search begins [ours]."""
_VARIANCE_BOUNDS = (-8.0, 8.0)
"""Of the logarithm of a variance of a product or a sum."""
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


@dataclass(frozen=True)
class Hyperparameters:
    """What is learned of a process besides its observations.

    Attributes:
        length_scales: (f,) of the kernel that is a product over the features.
        warp: Of features before they are compared.
        noise: Variance of the observations about the function.
        variance: Of the product.
        contributions: A kernel that is a sum over the parameters, if it is added to the product.
        embedding: Of categories, before features are warped.
    """

    length_scales: Tensor
    warp: Warp
    noise: float = NOISE
    variance: float = 1.0
    contributions: Contributions | None = None
    embedding: Embedding | None = None

    def warped(self, features: FloatArray) -> Tensor:
        """(n, e) as the kernel compares them, of (n, f) features."""
        import torch

        embedded = features if self.embedding is None else self.embedding.of(features)
        return self.warp.of(torch.as_tensor(embedded, dtype=torch.float64))

    @property
    def total_variance(self) -> float:
        """Of the function before anything is observed."""
        added = 0.0 if self.contributions is None else self.contributions.variance
        return self.variance + added

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """(n, k) between (n, f) and (k, f) warped features."""
        scales = self.length_scales
        if self.contributions is None:
            return matern(distance(first / scales, second / scales))
        # The rows are those of the second: whole ones are looked up in tables.
        product = matern(distance(second / scales, first / scales)).mul_(self.variance)
        return product.add_(self.contributions.covariance(first, second)).T


@dataclass(frozen=True)
class GaussianProcess:
    """Beliefs about a function after ``n`` observations.

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

        kernel = hyperparameters.covariance(features, features)
        kernel.diagonal().add_(hyperparameters.noise)
        factor = torch.linalg.cholesky(kernel)
        if mean is None:
            columns = torch.stack([torch.ones_like(values), values], dim=1)
            ones, weighted = torch.cholesky_solve(columns, factor).sum(dim=0)
            mean = float(weighted / ones)
        weights = torch.cholesky_solve((values - mean)[:, None], factor)[:, 0]
        return cls(features, values, mean, hyperparameters, factor, weights)

    def predict(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(k,) means and standard deviations at (k, f) features."""
        import torch

        hyperparameters = self.hyperparameters
        points = hyperparameters.warped(features)
        mean = torch.empty(len(points), dtype=torch.float64)
        variance = torch.empty_like(mean)
        for start in range(0, len(points), _CHUNK):
            part = slice(start, start + _CHUNK)
            cross = hyperparameters.covariance(self.features, points[part])
            mean[part] = self.mean + self.weights @ cross
            explained = torch.linalg.solve_triangular(self.factor, cross, upper=False)
            variance[part] = hyperparameters.total_variance - explained.square_().sum(dim=0)
        return mean.numpy(), variance.clamp_min_(NOISE).sqrt_().numpy()

    def with_belief(self, features: FloatArray) -> GaussianProcess:
        """As if (k, f) features had been observed and were as expected.

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
        n, k = len(self.features), len(points)
        factor = torch.zeros(n + k, n + k, dtype=torch.float64)
        factor[:n, :n], factor[n:, :n] = self.factor, rows
        factor[n:, n:] = torch.linalg.cholesky(rest)
        return replace(
            self,
            features=torch.cat([self.features, points]),
            values=torch.cat([self.values, torch.as_tensor(expected)]),
            factor=factor,
            weights=torch.cat([self.weights, torch.zeros(k, dtype=torch.float64)]),
        )


@dataclass(frozen=True)
class _Read:
    """Numbers that are optimized, by what they are about.

    Attributes:
        scales: (f,) length scales of the product.
        noise: Variance.
        exponents: (2w,) logarithms of the warps' exponents.
        variance: Of the product.
        added_variance: Of the sum.
        added_scales: (g,) length scales of the sum; None without one.
    """

    scales: Tensor
    noise: float
    exponents: FloatArray
    variance: float = 1.0
    added_variance: float = 0.0
    added_scales: FloatArray | None = None


@dataclass(frozen=True)
class _Parts:
    """What the kernel between the observations is made of.

    Attributes:
        read: The hyperparameters.
        by_exponent: (2, n, w) slopes of bent features by the logarithms of exponents.
        scaled: (n, f) bent features over the length scales of the product.
        gaps: (n, n) their distances.
        product: (n, n) the product, with variance 1.
        tables: Of the sum; see :class:`AdditiveFitting`.
        added: (n, n) the sum, with variance 1; None without one.
    """

    read: _Read
    by_exponent: Tensor | None
    scaled: Tensor
    gaps: Tensor
    product: Tensor
    tables: Sequence[tuple[Tensor, Tensor]] = ()
    added: Tensor | None = None

    def kernel(self) -> Tensor:
        """(n, n) with noise."""
        kernel: Tensor = self.read.variance * self.product
        if self.added is not None:
            kernel += self.read.added_variance * self.added
        kernel.diagonal().add_(self.read.noise)
        return kernel


@dataclass(frozen=True)
class Fitted:
    """What was learned, and how likely it is.

    Attributes:
        hyperparameters: Those of largest posterior density.
        density: The logarithm of that.
        logs: The logarithms that were optimized.
        warpable: (w,) columns of the features whose warps are among them.
    """

    hyperparameters: Hyperparameters
    density: float
    logs: FloatArray
    warpable: IntArray


class Fitting:
    """Finds the hyperparameters of processes that were observed at the same features.

    Args:
        features: (n, f) of about 0 to 1.
        iterations: Bound on the steps of L-BFGS for each process.
        groups: (f,) numbers from 0; length scales of features with one number are similar.
            Without them, each is by itself.
        embedding: Of categories, whose groups take the place of the others: the features of each
            share one length scale.
    """

    def __init__(
        self,
        features: FloatArray,
        iterations: int,
        groups: IntArray | None = None,
        embedding: Embedding | None = None,
    ) -> None:
        import torch

        n_plain = features.shape[1]
        if embedding is not None:
            features, groups, n_plain = embedding.of(features), embedding.groups, embedding.n_plain
        self._features = torch.as_tensor(features, dtype=torch.float64)
        self._iterations, self._embedding = iterations, embedding
        self._groups = np.arange(features.shape[1]) if groups is None else groups
        self._n_groups = int(self._groups.max()) + 1
        is_shared = np.bincount(self._groups)[self._groups] > 1
        # Features that are not alone in their group; what is embedded is on one scale already.
        self._alike = np.flatnonzero(is_shared[:n_plain])
        n_compared = n_plain if embedding is None else embedding.n_compared
        self._location = prior_location(n_compared)
        self._warpable = is_warpable(features[:, :n_plain])
        self._bending = Bending(self._features, self._warpable)

    def fit(self, values: FloatArray) -> Fitted:
        """Those of largest posterior density, of a product with the least noise.

        Args:
            values: (n,), standardized.
        """
        mode = self._location - PRIOR_SCALE**2  # of the prior
        n_others = len(self._alike) + 2 * len(self._warpable)
        scales, others = np.full(self._n_groups, mode), np.zeros(n_others)
        return self._optimum(values, np.concatenate([[LOG_NOISE], scales, others]))

    def with_sum(self, values: FloatArray, fitted: Fitted) -> Fitted:
        """Those of a product and a sum over the parameters.

        Args:
            values: (n,), standardized.
            fitted: What was learned of them with a product.
        """
        added = [np.zeros(2), np.full(self._n_groups, _SUM_START)]
        return self._optimum(values, np.concatenate([fitted.logs, *added]))

    def with_noise(self, values: FloatArray, fitted: Fitted) -> Fitted:
        """Those with as much noise as there seems to be.

        Args:
            values: (n,), standardized.
            fitted: What was learned of them with the least noise.
        """
        return self._optimum(values, np.append(_NOISE_START, fitted.logs[1:]))

    def again(self, values: FloatArray, fitted: Fitted) -> Fitted:
        """Those near what other observations of the same features taught, in the same form.

        Args:
            values: (n,), standardized.
        """
        first = 1 + self._n_groups + len(self._alike)
        scales, warps, added = np.split(fitted.logs, [first, first + 2 * len(fitted.warpable)])
        of_columns = np.zeros((2, self._features.shape[1]))
        of_columns[:, fitted.warpable] = np.reshape(warps, (2, -1))
        of_warps = of_columns[:, self._warpable].ravel()
        return self._optimum(values, np.concatenate([scales, of_warps, added]))

    def _bounds(self, start: FloatArray) -> list[tuple[float, float]]:
        g, k, w = self._n_groups, len(self._alike), 2 * len(self._warpable)
        most = math.log(MOST_WARPED)
        noise = (LOG_NOISE, LOG_NOISE if start[0] == LOG_NOISE else _MOST_LOG_NOISE)
        bounds = [noise, *[_SCALE_BOUNDS] * g, *[(-most, most)] * (k + w)]
        if len(start) > len(bounds):
            bounds += [_VARIANCE_BOUNDS] * 2 + [_SCALE_BOUNDS] * g
        return bounds

    def _optimum(self, values: FloatArray, start: FloatArray) -> Fitted:
        import torch
        from scipy.optimize import minimize

        observed = torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float64)
        optimum = minimize(
            lambda logs: self.loss(logs, observed)[:2],
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=self._bounds(start),
            options={"maxiter": self._iterations, "ftol": _TOLERANCE},
        )
        read = self._read(optimum.x)
        hyperparameters = Hyperparameters(
            read.scales,
            Warp.of_logs(self._warpable, read.exponents),
            read.noise,
            read.variance,
            embedding=self._embedding,
        )
        if read.added_scales is not None:
            contributions = Contributions(self._groups, read.added_scales, read.added_variance)
            hyperparameters = replace(hyperparameters, contributions=contributions)
        return Fitted(hyperparameters, -float(optimum.fun), optimum.x, self._warpable)

    def _read(self, logs: FloatArray) -> _Read:
        """Of all logarithms; those of exponents or of the sum may be absent."""
        import torch

        g, k, w = self._n_groups, len(self._alike), 2 * len(self._warpable)
        noise, scales, alike, others = np.split(logs, [1, 1 + g, 1 + g + k])
        scales = scales[self._groups]
        scales[self._alike] += alike
        read = _Read(torch.as_tensor(np.exp(scales)), math.exp(noise[0]), others[:w])
        if len(others) <= w:
            return read
        return replace(
            read,
            variance=math.exp(others[w]),
            added_variance=math.exp(others[w + 1]),
            added_scales=np.exp(others[w + 2 :]),
        )

    def loss(self, logs: FloatArray, observed: Tensor) -> tuple[float, FloatArray, float]:
        """Negative log posterior density, its gradient by the hyperparameters, the prior mean.

        The density is that of the marginal likelihood at the generalized least-squares mean,
        times the prior's over the length scales themselves, as BoTorch has it, and over the
        logarithms of the warps' exponents. That of a sum is 1 where it is largest and that of
        noise 1 everywhere, so that models with and without can be compared.

        Args:
            logs: (1,) logarithm of the noise's variance, (g,) logarithms of the groups' length
                scales, (k,) what features that are not alone differ from their group's, and (2w,)
                logarithms of the warps' exponents; without the latter, nothing is warped. Of a
                product and a sum, further (2,) logarithms of the variances of either and (g,) of
                the length scales of the sum.
            observed: (n,) standardized values.
        """
        import torch

        n, parts = len(self._features), self._parts(self._read(logs))
        factor = torch.linalg.cholesky(parts.kernel())
        inverse = torch.cholesky_inverse(factor)
        total = inverse.sum(dim=0)
        mean = float(total @ observed / total.sum())
        residual = observed - mean
        weights = inverse @ residual
        log_likelihood = float(
            -0.5 * residual @ weights - factor.diagonal().log().sum()
        ) - 0.5 * n * math.log(2.0 * math.pi)
        # Twice the slopes of the likelihood by the entries of the kernel.
        slopes = self._slopes(parts, torch.outer(weights, weights).sub_(inverse))
        log_prior, prior_slopes = self._log_prior(logs, len(parts.read.exponents))
        return -(log_likelihood + log_prior), -(slopes + prior_slopes), mean

    def _parts(self, read: _Read) -> _Parts:
        bent, by_exponent = self._features, None
        if len(read.exponents):
            bent, by_exponent = self._bending.bent(read.exponents)
        scaled = bent / read.scales
        gaps = distance(scaled, scaled)
        parts = _Parts(read, by_exponent, scaled, gaps, matern(gaps))
        if read.added_scales is None:
            return parts
        tables = self._additive.tables(bent, read.added_scales)
        return replace(parts, tables=tables, added=self._additive.covariance(tables))

    def _slopes(self, parts: _Parts, by_kernel: Tensor) -> FloatArray:
        """Of the likelihood by all logarithms, from twice those by the entries of the kernel."""
        read, scaled = parts.read, parts.scaled
        slope = matern_slope(parts.gaps).mul_(by_kernel).mul_(read.variance)
        # (n, f) of the likelihood by -scaled: sums over the other of slope times the gap.
        pull = slope.sum(dim=0)[:, None] * scaled - slope @ scaled
        by_scale = (pull * scaled).sum(dim=0).numpy()
        by_bent, of_sum = pull / read.scales, np.empty(0)
        if read.added_scales is not None and parts.added is not None:
            by_added, bent_by_added = self._additive.slopes(
                by_kernel, parts.tables, read.added_scales
            )
            by_bent += read.added_variance * bent_by_added
            of_sum = np.array(
                [
                    0.5 * read.variance * float((by_kernel * parts.product).sum()),
                    0.5 * read.added_variance * float((by_kernel * parts.added).sum()),
                    *(read.added_variance * by_added),
                ]
            )
        of_warps = np.empty(0)
        if parts.by_exponent is not None:
            by_warped = by_bent[:, self._warpable]
            of_warps = -(parts.by_exponent * by_warped).sum(dim=1).flatten().numpy()
        of_noise = 0.5 * read.noise * float(by_kernel.diagonal().sum())
        of_groups = np.bincount(self._groups, by_scale, self._n_groups)
        return np.concatenate([[of_noise], of_groups, by_scale[self._alike], of_warps, of_sum])

    @cached_property
    def _additive(self) -> AdditiveFitting:
        return AdditiveFitting(self._features.numpy(), self._groups)

    def _log_prior(self, logs: FloatArray, w: int) -> tuple[float, FloatArray]:
        """Logarithm of the prior density, less a constant, and its gradient."""
        g, k = self._n_groups, len(self._alike)
        noise, scales, others, variances, added = np.split(
            logs, [1, 1 + g, 1 + g + k + w, 3 + g + k + w]
        )
        away = (scales - self._location) / PRIOR_SCALE
        deviations = np.append(np.full(k, ALIKE_SCALE), np.full(w, WARP_SCALE))
        density = float((-0.5 * away**2 - scales).sum() - 0.5 * ((others / deviations) ** 2).sum())
        # Of a sum, less its largest: the mode of a function of one parameter.
        far = (added - prior_location(1) + PRIOR_SCALE**2) / PRIOR_SCALE
        density -= 0.5 * float((far**2).sum() + ((variances / VARIANCE_SCALE) ** 2).sum())
        gradient = [
            np.zeros_like(noise),
            -away / PRIOR_SCALE - 1.0,
            -others / deviations**2,
            -variances / VARIANCE_SCALE**2,
            -far / PRIOR_SCALE,
        ]
        return density, np.concatenate(gradient)
