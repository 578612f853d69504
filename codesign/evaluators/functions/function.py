"""Values of benchmark functions, for the modules beside this one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.base.columns import FloatArray

Values = tuple[Sequence[FloatArray], Sequence[FloatArray]]
"""(n,) each: the objectives, minimized, and the limits, where ``<= 0`` is within."""


def exceeded(*margins: FloatArray) -> FloatArray:
    """(n,) the sum of what margins of limits lack, of which each should be at least 0."""
    return np.asarray(np.sum([np.maximum(-margin, 0.0) for margin in margins], axis=0))
