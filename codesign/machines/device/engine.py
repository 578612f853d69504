"""What a serving engine adds to kernels: the host's starts, and ranks that wait for each other.

Measured collectives run in step; those of an engine begin when the last of their ranks has ended
what came before. If the ranks' times vary by a standard deviation, the last of ``n`` is about
``sqrt(2 ln n)`` of them behind the mean.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.columns import FloatArray
from codesign.machines.device.rates import Floats
from codesign.schema import Record, quantity

_Seconds = Annotated[float, quantity("us"), Field(ge=0)]


class EngineConstants(Record):
    """The free constants of serving engines on a class of devices."""

    host_start: _Seconds
    """Seconds in which the host starts one kernel, where it starts them one by one."""
    host_step: _Seconds
    """Seconds of such a host in each step that no kernel hides: it schedules, hands inputs to the
    ranks and samples."""
    rank_deviation: _Seconds
    """Standard deviation of the ranks' times between two collectives."""


def rank_wait_s(n_ranks: Floats, constants: EngineConstants) -> FloatArray:
    """Seconds that a collective waits for the last of its ranks; 0 for one rank alone.

    Examples:
        >>> waiting = EngineConstants.model_validate(
        ...     {"host_start": "30 us", "host_step": "10 ms", "rank_deviation": "10 us"}
        ... )
        >>> round(float(rank_wait_s(8, waiting)) * 1e6, 1)
        20.4
    """
    return np.asarray(constants.rank_deviation * np.sqrt(2.0 * np.log(np.maximum(n_ranks, 1.0))))
