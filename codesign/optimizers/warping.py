"""Features bent so that a stationary process describes a function that is not.

Many quantities go with the inverse or the square of a parameter, so they change fast at one end
of its range and hardly at the other. Each number ``u`` of 0 to 1 is bent by the distribution
function of Kumaraswamy, ``1 - (1 - u^a)^b``, whose exponents are learned with the other
hyperparameters (Snoek et al., "Input warping for Bayesian optimization of non-stationary
functions", 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from codesign.columns import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

WARP_SCALE = 0.75
"""Deviation of the logarithm of an exponent before anything is observed, about 0 (BoTorch's
tutorial on input warping has the root of 0.75; a little less so that few results bend little)."""
MOST_WARPED = 8.0
"""Largest exponent, and the inverse of the least [ours]."""
_LEAST_VALUES = 4
"""Distinct values of a feature from which on a bend can be told from a length scale [ours]."""
_EDGE = 1e-6
"""Distance to 0 and 1 up to which slopes are finite."""


def is_warpable(features: FloatArray) -> IntArray:
    """(w,) columns with enough distinct values between 0 and 1."""
    return np.array(
        [
            j
            for j, column in enumerate(features.T)
            if len(np.unique(column[(column > 0) & (column < 1)])) >= _LEAST_VALUES
        ],
        dtype=np.int64,
    )


@dataclass(frozen=True)
class Warp:
    """How features are bent.

    Attributes:
        columns: (w,) those that are; the others stay as they are.
        powers: (2, w) the exponents a and b.
    """

    columns: Tensor
    powers: Tensor

    @classmethod
    def of_logs(cls, columns: IntArray, logs: FloatArray) -> Warp:
        """From (2w,) logarithms: those of a, then those of b."""
        import torch

        powers = np.exp(np.reshape(logs, (2, len(columns))))
        return cls(torch.as_tensor(columns), torch.as_tensor(powers))

    def of(self, features: Tensor) -> Tensor:
        """(n, f) bent features; what is below 0 or above 1 stays as it is."""
        if not len(self.columns):
            return features
        plain = features[:, self.columns]
        bent = 1.0 - (1.0 - _inside(plain) ** self.powers[0]) ** self.powers[1]
        result = features.clone()
        result[:, self.columns] = bent.where((plain > 0) & (plain < 1), plain)
        return result

    def slopes(self, features: Tensor, by_bent: Tensor) -> FloatArray:
        """(2w,) of a function by the logarithms of the exponents.

        Args:
            features: (n, f) as they were.
            by_bent: (n, f) the function's slopes by the bent features.
        """
        import torch

        plain = features[:, self.columns]
        u, (a, b) = _inside(plain), self.powers
        power = u**a
        rest = 1.0 - power
        by_a = a * b * rest ** (b - 1.0) * power * u.log()
        by_b = -b * rest**b * rest.log()
        by_bent = by_bent[:, self.columns] * ((plain > 0) & (plain < 1))
        slopes = torch.cat([(by_a * by_bent).sum(dim=0), (by_b * by_bent).sum(dim=0)])
        return np.asarray(slopes.numpy())


def _inside(plain: Tensor) -> Tensor:
    return plain.clamp(_EDGE, 1.0 - _EDGE)
