"""Points of a scrambled Sobol sequence [Sobol1967]_, bit for bit those of ``scipy.stats.qmc``.

Of SciPy, its statistics would be loaded for these alone, which takes half a second of every process
that begins a run. The directions are those of [JoeKuo2008]_, the scramble is Matousek's: random
lower triangular matrices over bits, and a random shift [Owen1998]_.

.. [Sobol1967] I. M. Sobol, "On the distribution of points in a cube and the approximate
   evaluation of integrals", USSR Comput. Math. Math. Phys. 7(4), 1967.
.. [JoeKuo2008] S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional
   projections", SIAM J. Sci. Comput. 30(5), 2008; file new-joe-kuo-6.21201, its first 1,024
   dimensions.
.. [Owen1998] A. B. Owen, "Scrambling Sobol and Niederreiter-Xing points", J. Complexity 14, 1998.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codesign.columns import FloatArray

_BITS = 30
"""Of a coordinate, as of SciPy's engine."""
_FILE = Path(__file__).parent / "sobol_directions.npz"


MOST_DIMENSIONS = 1024
"""Whose directions the file has; of a space with more parameters, SciPy draws the points."""


def sobol_points(n_dimensions: int, seed: int) -> Callable[[int], FloatArray]:
    """A function that gives the next (n, d) points of a sequence that a seed scrambles."""
    if n_dimensions <= MOST_DIMENSIONS:
        return _Sequence(n_dimensions, seed).draw
    from scipy.stats import qmc

    rng = np.random.default_rng(seed)
    draw: Callable[[int], FloatArray] = qmc.Sobol(n_dimensions, scramble=True, seed=rng).random
    return draw


class _Sequence:
    """The sequence, coordinates in [0, 1)."""

    def __init__(self, n_dimensions: int, seed: int) -> None:
        (rng,) = np.random.default_rng(seed).spawn(1)  # as SciPy does with a generator
        shape, places = (n_dimensions, _BITS), np.arange(_BITS, dtype=np.uint32)
        # Drawn as SciPy draws them: first the shift, then the matrices.
        self._shift = rng.integers(2, size=shape, dtype=np.uint32) @ (np.uint32(1) << places)
        matrices = np.tril(rng.integers(2, size=(*shape, _BITS), dtype=np.uint32))
        matrices[:, places, places] = 1
        weights = np.uint32(1) << places[::-1]
        rows, directions = matrices @ weights, _directions(n_dimensions)
        parities = np.bitwise_count(rows[:, :, None] & directions[:, None, :]) & np.uint32(1)
        scrambled = (parities * weights[:, None]).sum(axis=1, dtype=np.uint32)
        self._directions: NDArray[np.uint32] = scrambled
        self._n_drawn = 0

    def draw(self, n: int) -> FloatArray:
        """(n, d) the next points."""
        places = np.arange(self._n_drawn, self._n_drawn + n, dtype=np.uint32)
        self._n_drawn += n
        gray = places ^ (places >> np.uint32(1))
        points = np.tile(self._shift, (n, 1))
        for bit in range(int(gray.max(initial=0)).bit_length()):
            points ^= (gray >> np.uint32(bit) & np.uint32(1))[:, None] * self._directions[:, bit]
        return points * 2.0**-_BITS


@cache
def _directions(n_dimensions: int) -> NDArray[np.uint32]:
    """(d, b) direction numbers: recurrences of primitive polynomials [JoeKuo2008]_, section 2."""
    with np.load(_FILE) as arrays:
        polynomials = arrays["polynomials"][:n_dimensions].tolist()
        first = arrays["first"][:n_dimensions].tolist()
    numbers = [[1] * _BITS]
    for polynomial, row in zip(polynomials[1:], first[1:], strict=True):
        degree = polynomial.bit_length() - 1
        line = row[:degree]
        for place in range(degree, _BITS):
            number = line[place - degree]
            for k in range(1, degree + 1):
                if polynomial >> (degree - k) & 1:
                    number ^= line[place - k] << k
            line.append(number)
        numbers.append(line)
    return np.array(numbers, dtype=np.uint32) << np.arange(_BITS, dtype=np.uint32)[::-1]
