"""The plain roofline: work that arithmetic or memory bounds, whichever takes longer.

[Williams2009]_, and GenZ's Eqs. 1 and 2 and LIFE's Eqs. 1 to 3 after it. Callers say what counts as
a byte and at which rate each of their memories moves it. Where operators are summed before, the
phase is bound as one; where they are not, each operator is.

.. [Williams2009] S. Williams, A. Waterman, D. Patterson, Roofline: An Insightful Visual Performance
   Model for Multicore Architectures, CACM 2009.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from codesign.base.columns import FloatArray, Floats


class RooflineTimes(NamedTuple):
    """Seconds of arithmetic and of memories, which overlap perfectly."""

    compute_s: FloatArray
    memory_s: FloatArray

    @property
    def time_s(self) -> FloatArray:
        """The longer of both."""
        return np.maximum(self.compute_s, self.memory_s)


def roofline_times(
    ops: Floats,
    peak_ops_per_s: Floats,
    memory_s: Floats,
    launches_s: Floats = 0.0,
) -> RooflineTimes:
    """Bounds of some work; the arguments broadcast.

    Limiting assumption: launches overlap with nothing.

    Args:
        ops: Operations, 2 per multiply-accumulate.
        peak_ops_per_s: Rate of the arithmetic.
        memory_s: Bytes over the rate of their memory, in s; sums over memories that take turns.
        launches_s: Time in which kernels are launched.

    Examples:
        >>> round(float(roofline_times(29.29e12, 326.4e9, 0.0).time_s), 2)  # LIFE Table 6
        89.74
    """
    return RooflineTimes(
        np.asarray(ops / peak_ops_per_s + launches_s), np.asarray(memory_s + launches_s)
    )
