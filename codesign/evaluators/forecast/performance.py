"""Time from work by LIFE's Eqs. 1 to 6 [LIFE]_ (see ``variants.py``), for many machines at once.

Eqs. 4 and 5 are printed upside down, bandwidth over bytes; a time is bytes over bandwidth, as in
Eq. 2, and so Table 10 was computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from codesign.columns import FloatArray
from codesign.errors import InputError, check_known
from codesign.evaluators.forecast.operator_work import CLASSES, OPS, READ, WRITTEN, PassWork


@dataclass(frozen=True)
class Efficiencies:
    """Share of the peaks that each kind of operator reaches; 1 where none is stated.

    Attributes:
        compute: Shares of the peak rate by operator or by kind (``CLASSES``); an operator's own
            share takes precedence.
        memory: Shares of the bandwidth by operator or by kind.
    """

    compute: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)

    def check(self, names: tuple[str, ...]) -> None:
        """Refuse shares outside (0, 1] and names that no operator has.

        Raises:
            InputError: One problem for each.
        """
        known = set(CLASSES) | set(names)
        for resource, shares in (("compute", self.compute), ("memory", self.memory)):
            where = f"{resource}_efficiency"
            for name, share in shares.items():
                check_known("operator", name, known, where)
                if not 0.0 < share <= 1.0:
                    raise InputError(f"expected more than 0 and at most 1, got {share}", where)


@dataclass(frozen=True)
class Demand:
    """Amounts of work of a phase, each operator's divided by its efficiencies.

    Attributes:
        ops: Operations, each divided by its operator's efficiency.
        bytes_moved: Bytes read and written, each divided by its operator's efficiency.
        dispatches: Kernel launches.

    Each has the leading axes of the work, usually none.
    """

    ops: FloatArray
    bytes_moved: FloatArray
    dispatches: FloatArray


def demand(work: PassWork, efficiencies: Efficiencies) -> Demand:
    """The sums over the operators in Eqs. 1 and 2."""
    # At rates of 1, times are amounts.
    ops, moved = operator_times(work, efficiencies, 1.0, 1.0)
    sums = (np.asarray(rows.sum(axis=-1)) for rows in (ops, moved, work.of("dispatches")))
    return Demand(*sums)


def operator_times(
    work: PassWork, efficiencies: Efficiencies, peak_ops_per_s: float, bandwidth_bytes_per_s: float
) -> tuple[FloatArray, FloatArray]:
    """(..., o) seconds of arithmetic and of traffic of each operator, launches apart."""
    compute, memory = (
        np.array([_share(shares, *pair) for pair in zip(work.names, work.classes, strict=True)])
        for shares in (efficiencies.compute, efficiencies.memory)
    )
    return (
        work.of(*OPS) / (compute * peak_ops_per_s),
        work.of(*READ, *WRITTEN) / (memory * bandwidth_bytes_per_s),
    )


def _share(shares: Mapping[str, float], name: str, kind: str) -> float:
    return shares.get(name, shares.get(kind, 1.0))


def compute_time_s(
    ops: FloatArray | float,
    dispatches: FloatArray | float,
    peak_ops_per_s: FloatArray | float,
    efficiency: FloatArray | float,
    dispatch_latency_s: FloatArray | float,
) -> FloatArray:
    """Time of the arithmetic and of its launches (LIFE Eq. 1). The arguments broadcast.

    Limiting assumption: launches overlap with nothing.

    Examples:
        >>> round(float(compute_time_s(29.29e12, 0, 326.4e9, 1.0, 0.0)), 2)  # LIFE Table 6
        89.74
    """
    return np.asarray(ops / (peak_ops_per_s * efficiency) + dispatches * dispatch_latency_s)


def memory_time_s(
    bytes_moved: FloatArray | float,
    dispatches: FloatArray | float,
    bandwidth_bytes_per_s: FloatArray | float,
    efficiency: FloatArray | float,
    dispatch_latency_s: FloatArray | float,
) -> FloatArray:
    """Time of the traffic and of the launches (LIFE Eq. 2). The arguments broadcast.

    Limiting assumption: traffic counts whole, whatever caches a machine has.
    """
    moving = bytes_moved / (bandwidth_bytes_per_s * efficiency)
    return np.asarray(moving + dispatches * dispatch_latency_s)


def times_s(
    phase_demand: Demand,
    peak_ops_per_s: FloatArray | float,
    bandwidth_bytes_per_s: FloatArray | float,
    dispatch_latency_s: FloatArray | float = 0.0,
    compute_efficiency: FloatArray | float = 1.0,
    memory_efficiency: FloatArray | float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Compute and memory time of what is asked (LIFE Eqs. 1 and 2). The arguments broadcast."""
    launches, latency = phase_demand.dispatches, dispatch_latency_s
    return (
        compute_time_s(phase_demand.ops, launches, peak_ops_per_s, compute_efficiency, latency),
        memory_time_s(
            phase_demand.bytes_moved, launches, bandwidth_bytes_per_s, memory_efficiency, latency
        ),
    )


def phase_time_s(compute_s: FloatArray, memory_s: FloatArray) -> FloatArray:
    """Compute and traffic overlap: the longer of the two (LIFE Eq. 3)."""
    return np.maximum(compute_s, memory_s)
