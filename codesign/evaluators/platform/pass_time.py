"""Time of a pass: its operators and the messages between devices (GenZ Eqs. 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.communication import Message, message_time_s
from codesign.evaluators.platform.fitted import FittedKernels, message_s
from codesign.evaluators.platform.memory import Residence
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.platforms import Platform
from codesign.evaluators.platform.roofline import OperatorTime, time_message, time_operator
from codesign.evaluators.platform.work import DeviceWork
from codesign.workload.model import LanguageModel


@dataclass(frozen=True)
class TimedPass:
    """A pass of a micro-batch; (n,) each.

    Attributes:
        operators: Operators in the order in which they first run, then the messages.
        total_s: Time through all stages, one after the other.
        stage_s: Time of the slowest stage alone.
        idle_watts: Power of a device that waits.
    """

    operators: Sequence[OperatorTime]
    total_s: FloatArray
    stage_s: FloatArray
    idle_watts: FloatArray

    def energy_joules(
        self, devices: FloatArray, stages: FloatArray, time_s: FloatArray
    ) -> FloatArray:
        """Energy of devices that are busy with one such pass in a time, and wait in the rest of it.

        Args:
            devices: (n,) devices of one stage.
            stages: (n,) stages, each of which has its part of the operators.
            time_s: (n,) time from one pass to the next.
        """
        zero = np.zeros_like(self.total_s)
        busy = sum((np.nan_to_num(item.joules) for item in self.operators), zero)
        waiting = self.idle_watts * np.maximum(time_s * stages - self.total_s, 0.0)
        return devices * (busy + waiting)

    def part_s(self, *parts: str) -> FloatArray:
        """Time of the operators of some parts."""
        zero = np.zeros_like(self.total_s)
        return sum((item.time_s for item in self.operators if item.part in parts), zero)


def time_pass(
    model: LanguageModel,
    platform: Platform,
    work: Sequence[DeviceWork],
    messages: Sequence[Message],
    residence: Residence,
    options: PlatformOptions,
) -> TimedPass:
    """All operators of a pass, and how long it takes through the whole pipeline.

    With overlap, collectives and operators each hide the shorter of the two; what is sent from
    stage to stage is never hidden.
    """
    unknown = np.full_like(platform.tp, np.nan)
    if options.is_fitted:
        kernels = FittedKernels(model, platform, options, residence)
        idle = kernels.idle_watts()
        timed = kernels.times(work)
        timed += [time_message(item, platform, message_s(kernels, item), idle) for item in messages]
    else:
        idle = unknown
        timed = [time_operator(item, platform, residence, options) for item in work]
        timed += [
            time_message(item, platform, message_time_s(item, platform, options), unknown)
            for item in messages
        ]
    pass_without_totals = TimedPass(timed, platform.tp, platform.tp, idle)
    layers = _joint(pass_without_totals, options, in_layers=True)
    ends = _joint(pass_without_totals, options, in_layers=False)
    share = np.ceil(model.num_hidden_layers / platform.pp) / model.num_hidden_layers
    send = pass_without_totals.part_s("send")
    if options.is_fitted and options.engine == "eager":
        started = sum(item.count for item in timed if item.is_in_layers)
        layers = np.maximum(layers, started * kernels.host_start_s())
    one_send = send / np.maximum(platform.pp - 1, 1)
    return TimedPass(timed, layers + ends + send, layers * share + ends + one_send, idle)


def _joint(times: TimedPass, options: PlatformOptions, in_layers: bool) -> FloatArray:
    """Operators and collectives of the layers, or of the model's ends."""
    zero = np.zeros_like(times.total_s)
    chosen = [item for item in times.operators if item.is_in_layers == in_layers]
    busy = sum((i.time_s for i in chosen if i.part in ("linear", "attention")), zero)
    talking = sum((i.time_s for i in chosen if i.part == "collective"), zero)
    return np.maximum(busy, talking) if options.overlap else busy + talking

