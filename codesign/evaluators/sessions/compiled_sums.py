"""The sums over the turns of sessions as one compiled loop over designs (numba, optional).

The loop calls the very functions of ``cache_levels.py``, which then work on single numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from codesign.base.columns import FloatArray, IntArray
from codesign.models.deployments import cache_levels
from codesign.models.deployments.cache_levels import MachineSessions, Workspace, session_sums
from codesign.models.deployments.queueing.fleet import exposed_s
from codesign.models.machines.npu.machine_code import compile_loop, functions_of


@cache
def compiled_sums() -> Callable[..., None]:
    """The loop, its machine code read from the disk if it is there."""
    return compile_loop(_fill_over_designs, (*functions_of(cache_levels), exposed_s), False)


def _fill_over_designs(
    machine_index: IntArray,
    cache_index: IntArray,
    machines: MachineSessions,
    workspace: Workspace,
    sums: FloatArray,
) -> None:
    """Fill (s, n) ``sums`` of designs on machines with outer caches, one after the other."""
    for i in range(len(machine_index)):
        values = session_sums(machine_index[i], cache_index[i], machines, workspace)
        for sum_index in range(len(values)):
            sums[sum_index, i] = values[sum_index]
