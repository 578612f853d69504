"""A sum of functions of one parameter each, as a part of a Gaussian process.

What is observed may be, up to a smaller rest, a sum of what each parameter contributes by itself,
as a cost is of the costs of its parts. A kernel that is a sum over the parameters learns each
contribution from all designs, also of a value that was seen beside others only, where a product
must see combinations (Duvenaud, Nickisch and Rasmussen, "Additive Gaussian processes", 2011).

On a grid a parameter has few values, so its part of the kernel is a small table that is looked up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.base.records import frozen

if TYPE_CHECKING:
    from torch import Tensor

MOST_GROUPS = 200
"""Most groups of features with length scales and warps of their own [ours]. With 1,100 groups, one
proposal took over 100 s of processor time."""


def distance(first: Tensor, second: Tensor) -> Tensor:
    """Distances, multiplied by the root of 5."""
    import torch

    result = torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
    return result.mul_(math.sqrt(5.0))


def matern(distances: Tensor) -> Tensor:
    """Matérn 5/2 of distances that are multiplied by the root of 5."""
    return (1.0 + distances + distances**2 / 3.0) * (-distances).exp()


def matern_slope(distances: Tensor) -> Tensor:
    """Slope of :func:`matern` by the logarithm of a length scale, over the squared scaled gap."""
    return (1.0 + distances).mul_((-distances).exp()).mul_(5.0 / 3.0)


@frozen
class Contributions:
    """The kernel of a sum of functions of one group of features each.

    Attributes:
        groups: (f,) numbers from 0 of the features' groups.
        length_scales: (g,) of the groups.
        variance: Of the sum.
    """

    groups: IntArray
    length_scales: FloatArray
    variance: float

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """(k, n) between (n, f) and (k, f) warped features; the second gives the rows."""
        import torch

        total = torch.zeros(len(second), len(first), dtype=torch.float64)
        for group, scale in enumerate(self.length_scales.tolist()):
            columns = torch.as_tensor(np.flatnonzero(self.groups == group))
            values, places = _distinct(second[:, columns])
            table = matern(distance(values / scale, first[:, columns] / scale))
            total += table.index_select(0, places)
        return total.mul_(self.variance / len(self.length_scales))


def _distinct(features: Tensor) -> tuple[Tensor, Tensor]:
    """(u, c) distinct rows, and (n,) the place of each row among them."""
    import torch

    if features.shape[1] > MOST_GROUPS:
        return features, torch.arange(len(features))  # hardly any two are alike
    if features.shape[1] == 1:
        values, places = torch.unique(features[:, 0], return_inverse=True)
        return values[:, None], places
    values, places = torch.unique(features, dim=0, return_inverse=True)
    return values, places


class _Group:
    """The distinct values of one group of features among the observations."""

    def __init__(self, features: FloatArray, columns: IntArray) -> None:
        import torch

        _, first, places = np.unique(
            features[:, columns], axis=0, return_index=True, return_inverse=True
        )
        self.columns = torch.as_tensor(columns)
        self._first = torch.as_tensor(first)
        self._places = torch.as_tensor(places.ravel())

    def values(self, features: Tensor) -> Tensor:
        """(u, c) of (n, f) features, bent or not."""
        return features[self._first][:, self.columns]

    def spread(self, table: Tensor) -> Tensor:
        """(n, n) of a (u, u) table."""
        return table.index_select(1, self._places).index_select(0, self._places)

    def collected(self, matrix: Tensor) -> Tensor:
        """(u, u) sums over the observations of each value, of a symmetric (n, n) matrix."""
        import torch

        u = len(self._first)
        rows = torch.zeros(u, len(matrix), dtype=torch.float64)
        rows.index_add_(0, self._places, matrix)
        return torch.zeros(u, u, dtype=torch.float64).index_add_(1, self._places, rows)

    def add_to(self, slopes: Tensor, by_value: Tensor) -> None:
        """Add (u, c) to (n, f), at one observation of each value: there the bends' slopes are."""
        slopes[self._first[:, None], self.columns] += by_value


class AdditiveFitting:
    """The kernel of :class:`Contributions` between the same designs, with its slopes.

    Args:
        features: (n, f).
        groups: (f,) numbers from 0.
    """

    def __init__(self, features: FloatArray, groups: IntArray) -> None:
        n_groups = int(groups.max()) + 1
        self._groups = [_Group(features, np.flatnonzero(groups == j)) for j in range(n_groups)]

    def tables(self, bent: Tensor, scales: FloatArray) -> list[tuple[Tensor, Tensor]]:
        """(u, c) values over the length scale and their (u, u) distances, for each group."""
        scaled = [
            group.values(bent) / scale
            for group, scale in zip(self._groups, scales.tolist(), strict=True)
        ]
        return [(values, distance(values, values)) for values in scaled]

    def covariance(self, tables: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """(n, n) with variance 1."""
        pairs = zip(self._groups, tables, strict=True)
        kernels = (group.spread(matern(distances)) for group, (_, distances) in pairs)
        total = next(kernels).clone()
        for kernel in kernels:
            total += kernel
        return total.div_(len(self._groups))

    def slopes(
        self, weights: Tensor, tables: Sequence[tuple[Tensor, Tensor]], scales: FloatArray
    ) -> tuple[FloatArray, Tensor]:
        """Slopes of half the sum of ``weights`` times the covariance.

        Args:
            weights: (n, n), symmetric.
            tables: Of :meth:`tables`.
            scales: (g,) length scales.

        Returns:
            (g,) by the logarithms of length scales; and (n, f) by the bent features with the sign
            turned, collected where each value is seen first.
        """
        import torch

        n_features = sum(len(group.columns) for group in self._groups)
        by_scale = []
        by_bent = torch.zeros(len(weights), n_features, dtype=torch.float64)
        for group, (scaled, distances), scale in zip(
            self._groups, tables, scales.tolist(), strict=True
        ):
            slope = matern_slope(distances).mul_(group.collected(weights)).div_(len(self._groups))
            pull = slope.sum(dim=0)[:, None] * scaled - slope @ scaled
            by_scale.append(float((pull * scaled).sum()))
            group.add_to(by_bent, pull / scale)
        return np.array(by_scale), by_bent
