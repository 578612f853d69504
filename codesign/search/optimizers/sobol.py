"""Points of a scrambled Sobol sequence, which fill the unit cube evenly.

They are those of ``scipy.stats.qmc.Sobol``, whose import takes longer than a small campaign: the
direction numbers of Joe and Kuo [JoeKuo2008]_ with a random linear scramble and a digital shift
[Matousek1998]_.

.. [JoeKuo2008] S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional
   projections", SIAM J. Sci. Comput. 30(5), 2008, criterion D6.
.. [Matousek1998] J. Matousek, "On the L2-discrepancy for anchored boxes", J. Complexity 14, 1998.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from codesign.base.columns import FloatArray, IntArray

_BITS = np.arange(30)
"""Binary digits of a coordinate, the least significant first."""


def sobol_points(n_coordinates: int, seed: int, first: int, n: int) -> FloatArray:
    """(n, n_coordinates) points of the sequence, in [0, 1), from number ``first`` on.

    Coordinates after the 1024th, for which there are no direction numbers, are random.
    """
    shift, directions = _scrambled(n_coordinates, seed)
    numbers = np.arange(first, first + n)[:, None]
    gray_code = numbers ^ numbers >> 1
    points = 0 * numbers + shift
    for bit, direction in enumerate(directions.T):
        points ^= (gray_code >> bit) % 2 * direction
    rest = np.random.default_rng([seed, first]).random((n, n_coordinates - len(shift)))
    return np.concatenate([points / 2**30, rest], axis=1)


@lru_cache(maxsize=64)
def _scrambled(n_coordinates: int, seed: int) -> tuple[IntArray, IntArray]:
    """(d,) digital shift and (d, bits) scrambled direction numbers."""
    directions = np.load(Path(__file__).with_name("sobol_directions.npy"))[:n_coordinates]
    rng = np.random.default_rng(seed).spawn(1)[0]  # as SciPy does
    draws = rng.integers(2, size=(31, *directions.shape), dtype=np.uint32)
    mixing = np.tril(draws[1:].reshape(-1, 30, 30))
    mixing[:, _BITS, _BITS] = 1
    digits = directions[..., None] >> _BITS[::-1] & 1
    directions = np.einsum("dik,djk->dji", mixing, digits) % 2 @ 2 ** _BITS[::-1]
    return draws[0] @ 2**_BITS, directions
