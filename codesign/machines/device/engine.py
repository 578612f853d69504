"""What a serving engine adds to kernels: the host's time, and ranks that wait for each other.

An engine that starts kernels one by one cannot run them faster than its host starts them, however
many devices share each of them. What the host does before and after, no kernel hides: it schedules
a step, prepares the inputs of prompts and books the tokens.

Measured collectives run in step; those of an engine begin when the last of their ranks has ended
what came before. If the ranks' times vary by a standard deviation, the last of ``n`` is about
``sqrt(2 ln n)`` of them behind the mean.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.columns import BoolArray, FloatArray
from codesign.machines.device.rates import Floats
from codesign.schema import Record, quantity

_Seconds = Annotated[float, quantity("us"), Field(ge=0)]

_RECENT_HOST_BYTES_PER_S = 48e9
"""Rate to a host from which on it is a recent one [ours]: between PCIe 4, 32 GB/s, of hosts until
2022, and PCIe 5, 64 GB/s, of those since (Sapphire Rapids, Genoa)."""


class EngineConstants(Record):
    """The free constants of serving engines on a class of devices."""

    host_start: _Seconds
    """Seconds in which a recent host starts one kernel, where it starts them one by one: as those
    of H100, with PCIe 5."""
    earlier_host_start: _Seconds
    """Seconds in which an earlier host does: as those of A100, with PCIe 4."""
    host_step: _Seconds
    """Seconds of such a host in each step that no kernel hides: it schedules, hands inputs to the
    ranks and samples."""
    host_prompt: _Seconds
    """Seconds more in a step that has prompts, whose inputs and blocks it prepares."""
    rank_deviation: _Seconds
    """Standard deviation of the ranks' times between two collectives."""


def host_starts_s(
    n_kernels: Floats, host_bandwidth_bytes_per_s: Floats, constants: EngineConstants
) -> FloatArray:
    """Seconds in which a host starts kernels one by one.

    Limiting assumption: a host is as fast as those of the devices that it was sold with, which the
    rate of the link between them tells; an unstated rate is an earlier host's.

    Args:
        host_bandwidth_bytes_per_s: Rate between a device and its host's memory.

    Examples:
        >>> seconds = {"host_step": "8 ms", "host_prompt": "12 ms", "rank_deviation": "10 us"}
        >>> starts = {"host_start": "20 us", "earlier_host_start": "40 us"}
        >>> engine = EngineConstants.model_validate(starts | seconds)
        >>> [round(float(host_starts_s(1000, rate, engine)), 3) for rate in (64e9, 32e9)]
        [0.02, 0.04]
    """
    is_recent = np.asarray(host_bandwidth_bytes_per_s) > _RECENT_HOST_BYTES_PER_S
    start = np.where(is_recent, constants.host_start, constants.earlier_host_start)
    return np.asarray(n_kernels * start)


def host_own_s(has_prompts: BoolArray | bool, constants: EngineConstants) -> FloatArray:
    """Seconds of a step in which the host does what no kernel hides.

    Limiting assumption: a step of many requests takes the host as long as that of one.

    Args:
        has_prompts: Whether the step has prompts.
    """
    return np.asarray(constants.host_step + np.where(has_prompts, constants.host_prompt, 0.0))


def rank_wait_s(n_ranks: Floats, constants: EngineConstants) -> FloatArray:
    """Seconds that a collective waits for the last of its ranks; 0 for one rank alone.

    Examples:
        >>> seconds = {"host_step": "8 ms", "host_prompt": "12 ms", "rank_deviation": "10 us"}
        >>> starts = {"host_start": "20 us", "earlier_host_start": "40 us"}
        >>> waiting = EngineConstants.model_validate(starts | seconds)
        >>> round(float(rank_wait_s(8, waiting)) * 1e6, 1)
        20.4
    """
    return np.asarray(constants.rank_deviation * np.sqrt(2.0 * np.log(np.maximum(n_ranks, 1.0))))
