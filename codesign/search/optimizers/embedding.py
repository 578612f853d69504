"""Values of categories as points that are learned, so that what is seen of one value says
something of those that are alike.

A model that has one number per value of a category can learn that two values differ, but not how:
all pairs of values differ in ways of their own. Mostly a value stands for few properties,
as a material for a density and a stiffness. So each value of a category gets a position in a
plane, found by the largest posterior density of all that is modeled together, as objectives
depend on the same properties, each in its own way (Zhang, Tao, Chen and Apley, "A latent variable
approach to Gaussian process modeling with qualitative and quantitative factors", 2020; positions
that several outputs share are ours).

A position that few results tell is uncertain. The squared distance of two values is therefore the
expected one: that of their positions plus the variances of both, by Laplace's approximation with
Fisher's information. A value that was never seen is as far from all others as two random ones are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.search.optimizers.additive import distance, matern, matern_slope

if TYPE_CHECKING:
    from torch import Tensor

LEAST_VALUES = 5
"""Of a category that is embedded [ours]: of fewer, pairs of values are soon seen. With three
variables of RE33 or RE37 of 5, 6, 8 or 12 values without order, 60 random designs left errors of
the objectives that were smaller by half and more."""
_DIMENSIONS = 2
"""Of the space of positions (Zhang et al.)."""
_ITERATIONS = 80
"""Bound on the steps that positions are learned in [ours]."""
_START_NOISE = math.log(1e-4)
_NOISE_BOUNDS = (math.log(1e-6), math.log(0.3))
_SCALE_BOUNDS = (math.log(2.5e-2), 6.0)
_PRIOR_SCALE = math.sqrt(3.0)
_FARTHEST = 4.0
"""Bound on a coordinate, whose deviation is 1 before anything is observed."""
_PENALTY = 1.0
"""Of the squared effects of values, in the regression that the search begins with."""
_SLIGHTLY = 1e-3
"""Of that, the penalty of other effects; and the least effect that counts as one."""


@dataclass(frozen=True)
class Embedding:
    """Features in which categories are replaced by positions, for one process.

    Attributes:
        matrix: (f, e) from features to embedded ones: first those of no embedded category, as they
            are, then of each category its coordinates, and one column per value, which is as large
            as its position is uncertain.
        groups: (e,) numbers from 0 without a gap; those of a category share a length scale.
        n_plain: Number of features that stay as they are.
    """

    matrix: FloatArray
    groups: IntArray
    n_plain: int

    @property
    def n_compared(self) -> int:
        """Features and coordinates."""
        n_categories = len(np.unique(self.groups[self.n_plain :]))
        return self.n_plain + _DIMENSIONS * n_categories

    def of(self, features: FloatArray) -> FloatArray:
        """(n, e) of (n, f)."""
        return np.asarray(features @ self.matrix)


@dataclass(frozen=True)
class Positions:
    """What was learned of all processes together.

    Attributes:
        embeddings: One for each process.
        log_odds: Below 0; by as much the positions lower the density that results have with them,
            as they were chosen among all that are possible (Laplace's approximation).
    """

    embeddings: tuple[Embedding, ...]
    log_odds: float


def categories_of(groups: IntArray) -> tuple[IntArray, ...]:
    """The columns of each category that has enough values.

    Args:
        groups: (f,) numbers from 0; the values of one category have the same.
    """
    sizes = np.bincount(groups)
    return tuple(np.flatnonzero(groups == group) for group in np.flatnonzero(sizes >= LEAST_VALUES))


class PositionFitting:
    """Finds positions from processes that were observed at the same features.

    All sums are PyTorch's, which are the same in every process on one thread.

    Args:
        features: (n, f); indicators in the columns of categories.
        values: (n, p) of the processes, each standardized.
        groups: (f,) numbers from 0 without a gap.
    """

    def __init__(self, features: FloatArray, values: FloatArray, groups: IntArray) -> None:
        import torch

        self._groups, self._categories = groups, categories_of(groups)
        embedded = np.concatenate(self._categories)
        self._plain_columns = np.setdiff1d(np.arange(features.shape[1]), embedded)
        self._plain = torch.as_tensor(features[:, self._plain_columns])
        # (n, v) of all categories side by side.
        self._indicators = torch.as_tensor(features[:, embedded])
        self._values = torch.as_tensor(np.ascontiguousarray(values.T))
        sizes = np.array([len(columns) for columns in self._categories])
        ends = np.cumsum(sizes)
        self._parts = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        n_compared = len(self._plain_columns) + _DIMENSIONS * len(sizes)
        # A length scale of each feature, of each coordinate and of each category's own values.
        apart = n_compared + np.repeat(np.arange(len(sizes)), sizes)
        self._scale_of_column = np.concatenate([np.arange(n_compared), apart])
        self._n_scales, self._n_values = n_compared + len(sizes), int(sizes.sum())
        self._location = math.sqrt(2.0) + 0.5 * math.log(self._n_scales)

    def fit(self) -> Positions:
        """The positions of largest posterior density, as each process sees them."""
        import torch
        from scipy.optimize import minimize

        p, s, k = len(self._values), self._n_scales, _DIMENSIONS * self._n_values
        first_scales = np.full(p * s, self._location - 0.5 * _PRIOR_SCALE**2)
        first = [self.first_positions().ravel(), first_scales, np.full(p, _START_NOISE)]
        bounds = [(-_FARTHEST, _FARTHEST)] * k + [_SCALE_BOUNDS] * (p * s) + [_NOISE_BOUNDS] * p
        optimum = minimize(
            self.loss,
            np.concatenate(first),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": _ITERATIONS},
        )
        positions, scales, noises = self._read(optimum.x)
        information = torch.eye(k, dtype=torch.float64)
        for own, noise in zip(scales, noises.tolist(), strict=True):
            information += self.information(positions, own, noise)
        factor = torch.linalg.cholesky(information)
        variances = self._centered_variances(torch.cholesky_inverse(factor))
        n_digits = float(factor.diagonal().log().sum())
        return Positions(
            tuple(self._embedding(positions, variances, own) for own in scales),
            log_odds=-0.5 * float((positions**2).sum()) - n_digits,
        )

    def first_positions(self) -> FloatArray:
        """(v, 2) the main directions of the effects that values have by a linear regression."""
        import torch

        n, n_plain = self._plain.shape
        ones = torch.ones(n, 1, dtype=torch.float64)
        table = torch.hstack([ones, self._plain, self._indicators])
        penalty = torch.full((table.shape[1],), _PENALTY, dtype=torch.float64)
        penalty[: 1 + n_plain] *= _SLIGHTLY
        squares = table.T @ table + penalty.diag()
        effects = torch.linalg.solve(squares, table.T @ self._values.T)[1 + n_plain :]
        positions = np.zeros((self._n_values, _DIMENSIONS))
        for part in self._parts:
            centered = effects[part] - effects[part].mean(dim=0)
            left, sizes, _ = torch.linalg.svd(centered, full_matrices=False)
            largest = max(float(sizes[0]) / math.sqrt(len(centered)), _SLIGHTLY)
            directions = (left * sizes / largest)[:, :_DIMENSIONS]
            positions[part, : directions.shape[1]] = directions.numpy()
        return np.clip(positions, -_FARTHEST, _FARTHEST)

    def loss(self, numbers: FloatArray) -> tuple[float, FloatArray]:
        """Negative log posterior density, less a constant, and its gradient.

        Args:
            numbers: (2v,) positions, then logarithms: of (p s,) length scales and of (p,) variances
                of noise.
        """
        positions, scales, noises = self._read(numbers)
        features = self._features(positions)
        total = 0.5 * float((positions**2).sum())
        by_position, by_scales, by_noises = positions.copy(), [], []
        for observed, own, noise in zip(self._values, scales, noises.tolist(), strict=True):
            slopes = _slopes(features, observed, own[self._scale_of_column], noise)
            by_scale = np.bincount(self._scale_of_column, slopes.by_scale, self._n_scales)
            away = (np.log(own) - self._location) / _PRIOR_SCALE
            total += float((0.5 * away**2 + np.log(own)).sum()) - slopes.log_likelihood
            by_position -= self._collected(slopes.by_feature)
            by_scales.append(away / _PRIOR_SCALE + 1.0 - by_scale)
            by_noises.append(-slopes.by_noise)
        return total, np.concatenate([by_position.ravel(), *by_scales, by_noises])

    def information(self, positions: FloatArray, scales: FloatArray, noise: float) -> Tensor:
        """(2v, 2v) Fisher's information that one process has about the positions.

        Half the trace of ``K^-1 dK K^-1 dK'``, where ``dK`` has but the rows and the columns of
        the designs of a value.

        Args:
            positions: (v, 2).
            scales: (s,) length scales of the process.
            noise: Its variance.
        """
        import torch

        of_columns = torch.as_tensor(scales[self._scale_of_column])
        scaled = self._features(positions) / of_columns
        gaps = distance(scaled, scaled)
        kernel = matern(gaps)
        kernel.diagonal().add_(noise)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(kernel))
        steepness, n_plain = matern_slope(gaps), len(self._plain_columns)
        coordinates = [
            (part, i, n_plain + _DIMENSIONS * c + i)
            for c, part in enumerate(self._parts)
            for i in range(_DIMENSIONS)
        ]
        # Slopes of the kernel by a coordinate of the row's design.
        slopes = [
            steepness * (scaled[:, column] - scaled[:, [column]]) / of_columns[column]
            for _, _, column in coordinates
        ]
        weighted = [slope @ inverse for slope in slopes]
        shape = (self._n_values, _DIMENSIONS, self._n_values, _DIMENSIONS)
        information = torch.zeros(shape, dtype=torch.float64)
        for a, (rows, i, _) in enumerate(coordinates):
            for b, (columns, j, _) in enumerate(coordinates):
                pairs = weighted[a] * weighted[b].T + (weighted[a] @ slopes[b].T) * inverse
                by_value = self._indicators[:, rows].T @ pairs @ self._indicators[:, columns]
                information[rows, i, columns, j] = by_value
        return information.reshape(_DIMENSIONS * self._n_values, -1)

    def _read(self, numbers: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(v, 2) positions, (p, s) length scales and (p,) variances of noise."""
        p = len(self._values)
        positions, scales, noises = np.split(
            numbers, [_DIMENSIONS * self._n_values, len(numbers) - p]
        )
        return (
            positions.reshape(-1, _DIMENSIONS),
            np.exp(scales.reshape(p, -1)),
            np.exp(noises),
        )

    def _features(self, positions: FloatArray) -> Tensor:
        """(n, e) plain features, the coordinates of the values, and the values by themselves."""
        import torch

        points = torch.as_tensor(positions)
        coordinates = [self._indicators[:, part] @ points[part] for part in self._parts]
        return torch.hstack([self._plain, *coordinates, self._indicators])

    def _collected(self, by_feature: Tensor) -> FloatArray:
        """(v, 2) sums over the designs of each value, of (n, e) slopes by features."""
        first, sums = len(self._plain_columns), np.empty((self._n_values, _DIMENSIONS))
        for c, part in enumerate(self._parts):
            columns = slice(first + _DIMENSIONS * c, first + _DIMENSIONS * (c + 1))
            sums[part] = (self._indicators[:, part].T @ by_feature[:, columns]).numpy()
        return sums

    def _centered_variances(self, covariance: Tensor) -> FloatArray:
        """(v, 2) variances of positions about the center of their category: that is no matter."""
        shape = (self._n_values, _DIMENSIONS, self._n_values, _DIMENSIONS)
        blocks, variances = covariance.reshape(shape), np.empty((self._n_values, _DIMENSIONS))
        for part in self._parts:
            for i in range(_DIMENSIONS):
                block = blocks[part, i, part, i]
                means = block.mean(dim=0)
                variances[part, i] = (block.diagonal() - 2.0 * means + means.mean()).numpy()
        return np.maximum(variances, 0.0)

    def _embedding(
        self, positions: FloatArray, variances: FloatArray, scales: FloatArray
    ) -> Embedding:
        """As one process sees it, whose length scales say how much each coordinate counts."""
        n_plain, n_categories = len(self._plain_columns), len(self._categories)
        width = n_plain + _DIMENSIONS * n_categories + self._n_values
        matrix = np.zeros((len(self._groups), width))
        matrix[self._plain_columns, np.arange(n_plain)] = 1.0
        _, plain_groups = np.unique(self._groups[self._plain_columns], return_inverse=True)
        groups, column = plain_groups.tolist(), n_plain
        first_group = 1 + max(groups, default=-1)
        of_coordinates, of_values = np.split(scales[n_plain:], [_DIMENSIONS * n_categories])
        for c, (columns, part) in enumerate(zip(self._categories, self._parts, strict=True)):
            own, n_values = of_coordinates[_DIMENSIONS * c :][:_DIMENSIONS], len(columns)
            counts = own.min() / own
            apart = own.min() / of_values[c]
            spread = np.sqrt((variances[part] * counts**2).sum(axis=1) + apart**2)
            matrix[columns, column : column + _DIMENSIONS] = positions[part] * counts
            matrix[columns, column + _DIMENSIONS + np.arange(n_values)] = spread
            column += _DIMENSIONS + n_values
            groups += [first_group + c] * (_DIMENSIONS + n_values)
        return Embedding(matrix, np.array(groups, dtype=np.int64), n_plain)


@dataclass(frozen=True)
class _Slopes:
    """Log likelihood of a process, and its slopes.

    Attributes:
        log_likelihood: Of what was observed.
        by_feature: (n, e).
        by_scale: (e,) by the logarithms of length scales.
        by_noise: By the logarithm of the variance of noise.
    """

    log_likelihood: float
    by_feature: Tensor
    by_scale: FloatArray
    by_noise: float


def _slopes(features: Tensor, observed: Tensor, scales: FloatArray, noise: float) -> _Slopes:
    """Of a process with (e,) length scales that was observed at (n, e) features."""
    import torch

    of_columns = torch.as_tensor(scales)
    scaled = features / of_columns
    gaps = distance(scaled, scaled)
    kernel = matern(gaps)
    kernel.diagonal().add_(noise)
    factor = torch.linalg.cholesky(kernel)
    inverse = torch.cholesky_inverse(factor)
    total = inverse.sum(dim=0)
    residual = observed - total @ observed / total.sum()
    weights = inverse @ residual
    log_likelihood = float(-0.5 * residual @ weights - factor.diagonal().log().sum())
    by_kernel = torch.outer(weights, weights).sub_(inverse)
    slope = matern_slope(gaps).mul_(by_kernel)
    pull = slope.sum(dim=0)[:, None] * scaled - slope @ scaled
    return _Slopes(
        log_likelihood - 0.5 * len(features) * math.log(2.0 * math.pi),
        -pull / of_columns,
        (pull * scaled).sum(dim=0).numpy(),
        0.5 * noise * float(by_kernel.diagonal().sum()),
    )
