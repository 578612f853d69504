"""Time of a pass: its operators and the messages between devices (GenZ Eqs. 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.evaluators.platform.communication import Message
from codesign.evaluators.platform.device_work import Stream, Works
from codesign.evaluators.platform.operator_time import OperatorTime, Rooflines, time_message


@frozen
class TimedPass:
    """A pass of a micro-batch; (n,) each.

    Attributes:
        operators: Operators in the order in which they first run, then the messages.
        total_s: Time through all stages, one after the other.
        stage_s: Time of the slowest stage alone.
        idle_watts: Power of a device that waits.
        host_s: Time within all stages in which a device waits for its host.
        repeated: The pass while it repeats, at the clock that the power limit leaves; None: at
            the same.
    """

    operators: Sequence[OperatorTime]
    total_s: FloatArray
    stage_s: FloatArray
    idle_watts: FloatArray
    host_s: FloatArray
    repeated: TimedPass | None = None

    @property
    def sustained(self) -> TimedPass:
        """The pass in a steady state."""
        return self.repeated or self

    def mix_burst(self, share: FloatArray) -> TimedPass:
        """The pass of a prefill of which a share runs in a burst, the rest in a steady state.

        Args:
            share: (n,) part of the work, 1 of a short prefill.
        """
        steady = self.sustained
        if steady is self:
            return self

        def mean(burst_s: FloatArray, steady_s: FloatArray) -> FloatArray:
            return steady_s + share * (burst_s - steady_s)

        pairs = zip(self.operators, steady.operators, strict=True)
        return replace(
            self,
            operators=[
                replace(burst, time_s=mean(burst.time_s, slow.time_s)) for burst, slow in pairs
            ],
            total_s=mean(self.total_s, steady.total_s),
            stage_s=mean(self.stage_s, steady.stage_s),
            host_s=mean(self.host_s, steady.host_s),
        )

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
        busy = sum((np.nan_to_num(operator.joules) for operator in self.operators), zero)
        waiting_s = np.maximum(time_s * stages - self.total_s, 0.0) + self.host_s
        return devices * (busy + self.idle_watts * waiting_s)

    def part_s(self, *parts: str) -> FloatArray:
        """Time of the operators of some parts."""
        return _part_s(self.operators, *parts)


def time_pass(
    timing: Rooflines,
    streams: Sequence[Stream],
    work: Works,
    messages: Sequence[Message],
) -> TimedPass:
    """All operators of a pass, and how long it takes through the whole pipeline.

    Layers take at least the time in which their host starts them. What it does besides, the hosts
    of all stages do at the same time.

    With overlap, collectives and operators each hide the shorter of the two; what is sent from
    stage to stage is never hidden. Operators are slower by the cores that an exchange of tokens
    takes meanwhile.
    """
    sent = []
    for message in messages:
        once_s = timing.message_s(message)
        joules = timing.message_joules(message, once_s)
        sent.append(time_message(message, timing.platform, once_s, joules))
    occupied = np.zeros_like(timing.platform.tp)
    if timing.options.overlap:
        for message, message_time in zip(messages, sent, strict=True):
            occupied = occupied + timing.occupied_share(message) * message_time.time_s
    kernels = timing.times(work)
    sent_s = _part_s(sent, "collective", "send")
    waiting_s = _timed(timing, streams, [*kernels, *sent], occupied).total_s - _part_s(
        kernels, "linear", "attention"
    )
    # A message behind operators takes neither time nor energy of its own.
    share = np.minimum(waiting_s / np.maximum(sent_s, 1e-12), 1.0)
    sent = [replace(message, joules=message.joules * share) for message in sent]
    operators = [*kernels, *sent]
    burst = _timed(timing, streams, operators, occupied)
    repeated = timing.sustained(operators, waiting_s)
    if repeated is operators:
        return burst
    return replace(burst, repeated=_timed(timing, streams, repeated, occupied))


def _timed(
    timing: Rooflines,
    streams: Sequence[Stream],
    operators: Sequence[OperatorTime],
    occupied: FloatArray,
) -> TimedPass:
    """A pass of operators and messages whose times are known.

    Args:
        occupied: (n,) time for which messages occupy all cores.
    """
    platform = timing.platform
    n_layers = timing.model.num_hidden_layers
    has_overlap = timing.options.overlap
    hidden_s = occupied if has_overlap else None
    layers = _joint([operator for operator in operators if operator.is_in_layers], hidden_s)
    nothing_s = np.zeros_like(occupied) if has_overlap else None
    ends = _joint([operator for operator in operators if not operator.is_in_layers], nothing_s)
    share = np.ceil(n_layers / platform.pp) / n_layers
    send = _part_s(operators, "send")
    started = np.maximum(layers, timing.host_starts_s(operators))
    zero = np.zeros_like(platform.tp)
    decoding = [
        stream.requests for stream in streams if stream.has_products and not stream.is_prefill
    ]
    n_decoding = sum(map(platform.own_requests, decoding), zero)
    host_s = timing.host_own_s(n_decoding, has_prompts=any(stream.is_prefill for stream in streams))
    return TimedPass(
        operators=operators,
        total_s=started + ends + send + host_s,
        stage_s=started * share + ends + send / np.maximum(platform.pp - 1, 1) + host_s,
        idle_watts=timing.idle_watts(),
        host_s=started - layers + host_s,
    )


def _part_s(operators: Sequence[OperatorTime], *parts: str) -> FloatArray:
    zero = np.zeros_like(operators[0].time_s)
    return sum((operator.time_s for operator in operators if operator.part in parts), zero)


def _joint(operators: Sequence[OperatorTime], occupied_s: FloatArray | None) -> FloatArray:
    """Operators and collectives of the layers, or of the model's ends.

    While messages occupy a share of the cores, operators lose that share of the time.

    Args:
        occupied_s: (n,) time for which messages occupy all cores; None: nothing overlaps.
    """
    busy = _part_s(operators, "linear", "attention")
    talking = _part_s(operators, "collective")
    return busy + talking if occupied_s is None else np.maximum(busy + occupied_s, talking)
