"""The sums over the turns of sessions as one compiled loop over designs (numba, optional).

The loop calls the very functions of ``cache_levels.py``, which then work on single numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from codesign.base.columns import FloatArray, IntArray
from codesign.models.deployments import cache_levels
from codesign.models.deployments.cache_levels import HostSessions, TurnRoom, session_sums
from codesign.models.deployments.queueing.fleet import exposed_s
from codesign.models.machines.npu.machine_code import compile_loop, functions_of


@cache
def loop() -> Callable[..., None]:
    """The loop, its machine code read from the disk if it is there."""
    return compile_loop(_fill_over_designs, (*functions_of(cache_levels), exposed_s), False)


def _fill_over_designs(
    host: IntArray, cache: IntArray, hosts: HostSessions, room: TurnRoom, sums: FloatArray
) -> None:
    """Fill (s, n) ``sums`` of designs on hosts with outer caches, one after the other."""
    for i in range(len(host)):
        values = session_sums(host[i], cache[i], hosts, room)
        for place in range(len(values)):
            sums[place, i] = values[place]
