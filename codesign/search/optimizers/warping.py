"""Features bent so that a stationary process describes a function that is not.

Many quantities go with the inverse or the square of a parameter, so they change fast at one end
of its range and hardly at the other. Each number ``u`` of 0 to 1 is bent by the distribution
function of Kumaraswamy, ``1 - (1 - u^a)^b``, whose exponents are learned with the other
hyperparameters (Snoek et al., "Input warping for Bayesian optimization of non-stationary
functions", 2014).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.base.records import frozen

if TYPE_CHECKING:
    from torch import Tensor

WARP_SCALE = 0.4
"""Deviation of the logarithm of an exponent before anything is observed, about 0 [ours]. 0.75 found
2 to 6 % less of the hypervolume where the front lies in several narrow valleys (MW7, three
seeds). It found at most 0.4 % more on four others."""
MOST_WARPED = 8.0
"""Largest exponent, and the inverse of the least [ours]."""
_LEAST_VALUES = 4
"""Distinct values of a feature from which on a bend can be told from a length scale [ours]."""
_STRAIGHT = 1e-2
"""Logarithm of an exponent up to which a feature counts as not bent."""
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
        np.int64,
    )


def _bent(log_plain: Tensor, exponents: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Bent numbers, with what their slopes are made of.

    Args:
        log_plain: (n, w) logarithms of numbers between 0 and 1.
        exponents: (2, w) a and b.

    Returns:
        ``1 - (1 - u^a)^b``, ``u^a``, the logarithm of ``1 - u^a`` and its power ``b``.
    """
    power = (exponents[0] * log_plain).exp_()
    log_rest = (-power).log1p_()
    rest = (exponents[1] * log_rest).exp_()
    return 1.0 - rest, power, log_rest, rest


@frozen
class Warp:
    """Warping of features.

    Attributes:
        columns: (w,) those that are; the others stay as they are.
        exponents: (2, w) a and b.
    """

    columns: Tensor
    exponents: Tensor

    @classmethod
    def read(cls, columns: IntArray, logs: FloatArray) -> Warp:
        """Warping from (2w,) logarithms: those of a, then those of b; features that hardly bend are
        left out."""
        import torch

        pairs = np.reshape(logs, (2, len(columns)))
        bends = (np.abs(pairs) > _STRAIGHT).any(axis=0)
        return cls(torch.as_tensor(columns[bends]), torch.as_tensor(np.exp(pairs[:, bends])))

    def bend(self, features: Tensor) -> Tensor:
        """(n, f) bent features; what is below 0 or above 1 stays as it is."""
        if not len(self.columns):
            return features
        plain = features[:, self.columns]
        bent = _bent(plain.clamp(_EDGE, 1.0 - _EDGE).log_(), self.exponents)[0]
        result = features.clone()
        result[:, self.columns] = bent.where((plain > 0) & (plain < 1), plain)
        return result


class Bending:
    """The same features, bent again and again with other exponents.

    Args:
        features: (n, f) of about 0 to 1.
        columns: (w,) those to bend.
    """

    def __init__(self, features: Tensor, columns: IntArray) -> None:
        import torch

        self._features = features
        self._columns = torch.as_tensor(columns)
        self._plain = features[:, self._columns]
        self._is_inside = (self._plain > 0) & (self._plain < 1)
        self._log_plain = self._plain.clamp(_EDGE, 1.0 - _EDGE).log_()

    def bent(self, logs: FloatArray) -> tuple[Tensor, Tensor]:
        """(n, f) bent features, and (2, n, w) their slopes by the logarithms of a and b.

        Args:
            logs: (2w,) the logarithms of a, then those of b.
        """
        import torch

        exponents = torch.as_tensor(np.exp(np.reshape(logs, (2, len(self._columns)))))
        bent, power, log_rest, rest = _bent(self._log_plain, exponents)
        by_a = exponents.prod(dim=0) * rest / (1.0 - power) * power * self._log_plain
        by_b = -exponents[1] * rest * log_rest
        result = self._features.clone()
        result[:, self._columns] = bent.where(self._is_inside, self._plain)
        return result, torch.stack([by_a, by_b]).mul_(self._is_inside)
