"""Time from work by LIFE's Eqs. 1 to 6 [LIFE]_ (see ``variants.py``), for many machines at once.

Eqs. 4 and 5 are printed upside down, bandwidth over bytes; a time is bytes over bandwidth, as in
Eq. 2, and so Table 10 was computed.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

import numpy as np

from codesign.base.columns import FloatArray, FloatMap, Floats, StringTuple
from codesign.base.errors import check_known
from codesign.base.records import frozen
from codesign.evaluators.forecast.operator_work import CLASSES, OPS, READ, WRITTEN, PassWork
from codesign.models.machines.roofline import RooflineTimes, roofline_times


@frozen
class Efficiencies:
    """Share of the peaks that each kind of operator reaches; 1 where none is stated.

    Attributes:
        compute: Shares of the peak rate by operator or by kind (``CLASSES``); an operator's own
            share takes precedence.
        memory: Shares of the bandwidth by operator or by kind.
    """

    compute: FloatMap = field(default_factory=dict)
    memory: FloatMap = field(default_factory=dict)

    def check(self, names: StringTuple) -> None:
        """Refuse names that no operator has.

        Raises:
            UnknownNameError: The first of them.
        """
        for resource, shares in (("compute", self.compute), ("memory", self.memory)):
            for name in shares:
                check_known("operator", name, {*CLASSES, *names}, f"{resource}_efficiency")


class Demand(NamedTuple):
    """Amounts of work, each operator's divided by its efficiencies.

    Attributes:
        ops: Operations, each divided by its operator's efficiency.
        bytes_moved: Bytes read and written, each divided by its operator's efficiency.
        dispatches: Kernel launches.

    Each has the leading axes of the work, usually none, and an axis of operators if it is not that
    of a phase.
    """

    ops: FloatArray
    bytes_moved: FloatArray
    dispatches: FloatArray


@frozen
class ForecastMachine:
    """Machines for which forecasts are made: numbers, or arrays that broadcast with the work.

    Attributes:
        peak_ops_per_s: Operations per second that operators of efficiency 1 reach.
        bandwidth_bytes_per_s: Bytes per second that operators of efficiency 1 reach.
        dispatch_latency_s: Time to launch one kernel.
        efficiencies: Shares of both that the operators reach.
    """

    peak_ops_per_s: Floats
    bandwidth_bytes_per_s: Floats
    dispatch_latency_s: Floats = 0.0
    efficiencies: Efficiencies = field(default_factory=Efficiencies)

    def times(self, work: Demand) -> RooflineTimes:
        """Compute and memory time of some work (LIFE Eqs. 1 and 2), and the longer (Eq. 3).

        Limiting assumption: traffic counts whole, whatever caches a machine has.
        """
        return roofline_times(
            work.ops,
            self.peak_ops_per_s,
            work.bytes_moved / self.bandwidth_bytes_per_s,
            work.dispatches * self.dispatch_latency_s,
        )

    def phase_times(self, work: PassWork) -> RooflineTimes:
        """The same of a phase, of which all arithmetic overlaps with all traffic."""
        return self.times(demand(work, self.efficiencies))


def demand(work: PassWork, efficiencies: Efficiencies) -> Demand:
    """The sums over the operators in Eqs. 1 and 2."""
    return Demand(*(row.sum(axis=-1) for row in operator_demand(work, efficiencies)))


def operator_demand(work: PassWork, efficiencies: Efficiencies) -> Demand:
    """(..., o) what each operator asks for."""
    compute, memory = (
        np.array(
            [
                shares.get(name, shares.get(class_name, 1.0))
                for name, class_name in zip(work.names, work.classes, strict=True)
            ]
        )
        for shares in (efficiencies.compute, efficiencies.memory)
    )
    moved = work.sums(*READ, *WRITTEN) / memory
    return Demand(work.sums(*OPS) / compute, moved, work.sums("dispatches"))
