"""Time of a pass: a roofline for every operator, and the collectives (GenZ Eqs. 1, 2, 5, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.communication import Message, message_time_s
from codesign.evaluators.platform.memory import Residence
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.platforms import Platform
from codesign.evaluators.platform.work import DeviceWork
from codesign.workload.model import LanguageModel


@dataclass(frozen=True)
class OperatorTime:
    """One operator, or one collective, of a pass; arrays are (n,), for all its instances.

    Attributes:
        name: Name of the operator or message.
        part: ``linear``, ``attention``, ``collective`` or ``send``.
        is_in_layers: Whether every layer has the operator; otherwise an end of the model has it.
        count: Instances of the operator in one pass.
        time_s: Time of all instances, all stages of the pipeline one after the other.
        compute_s: Time that the arithmetic alone would take.
        memory_s: Time that the memory alone would take.
        mac: Multiply-accumulates of one device.
        bytes: Bytes that pass the device's memory, or that a message holds.
    """

    name: str
    part: str
    is_in_layers: bool
    count: FloatArray
    time_s: FloatArray
    compute_s: FloatArray
    memory_s: FloatArray
    mac: FloatArray
    bytes: FloatArray


@dataclass(frozen=True)
class TimedPass:
    """A pass of a micro-batch; (n,) each.

    Attributes:
        operators: Operators in the order in which they first run, then the messages.
        total_s: Time through all stages, one after the other.
        stage_s: Time of the slowest stage alone.
    """

    operators: Sequence[OperatorTime]
    total_s: FloatArray
    stage_s: FloatArray

    def part_s(self, *parts: str) -> FloatArray:
        """Time of the operators of some parts."""
        zero = np.zeros_like(self.total_s)
        return sum((item.time_s for item in self.operators if item.part in parts), zero)


def time_operator(
    work: DeviceWork, platform: Platform, residence: Residence, options: PlatformOptions
) -> OperatorTime:
    """The roofline of one operator: the longer of arithmetic and memory (Eq. 2)."""
    rate = platform.flop_per_s * (options.compute_efficiency or 1.0)
    compute = 2.0 * work.mac / rate
    kept = work.weight_bytes + work.kv_bytes
    near = residence.fast_s_per_byte
    streamed = residence.kept_s_per_byte if options.is_genz else near
    onchip = work.onchip_bytes / (options.onchip_bandwidth * (options.memory_efficiency or 1.0))
    memory = kept * residence.kept_s_per_byte + work.activation_bytes * streamed + onchip
    if options.is_genz:
        memory = np.where(work.mac > 0, memory, 0.0)
    return OperatorTime(
        name=work.name,
        part="attention" if work.kernel == "attention" else "linear",
        is_in_layers=work.block == "layers",
        count=np.full_like(compute, work.count),
        time_s=work.count * np.maximum(compute, memory),
        compute_s=work.count * compute,
        memory_s=work.count * memory,
        mac=work.count * work.mac,
        bytes=work.count * (kept + work.activation_bytes),
    )


def _time_message(message: Message, platform: Platform, options: PlatformOptions) -> OperatorTime:
    zero = np.zeros_like(message.elements)
    count = np.broadcast_to(message.count, zero.shape) * (message.ranks > 1)
    once = np.where(count > 0, message_time_s(message, platform, options), 0.0)
    return OperatorTime(
        name=message.name,
        part="send" if message.kind == "send" else "collective",
        is_in_layers=message.is_in_layers,
        count=count.astype(np.float64),
        time_s=count * once,
        compute_s=zero,
        memory_s=zero,
        mac=zero,
        bytes=count * message.elements * platform.activation_bytes,
    )


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
    timed = [time_operator(item, platform, residence, options) for item in work]
    timed += [_time_message(item, platform, options) for item in messages]
    pass_without_totals = TimedPass(timed, platform.tp, platform.tp)
    layers = _joint(pass_without_totals, options, in_layers=True)
    ends = _joint(pass_without_totals, options, in_layers=False)
    share = np.ceil(model.num_hidden_layers / platform.pp) / model.num_hidden_layers
    send = pass_without_totals.part_s("send")
    one_send = send / np.maximum(platform.pp - 1, 1)
    return TimedPass(timed, layers + ends + send, layers * share + ends + one_send)


def _joint(times: TimedPass, options: PlatformOptions, in_layers: bool) -> FloatArray:
    """Operators and collectives of the layers, or of the model's ends."""
    zero = np.zeros_like(times.total_s)
    chosen = [item for item in times.operators if item.is_in_layers == in_layers]
    busy = sum((i.time_s for i in chosen if i.part in ("linear", "attention")), zero)
    talking = sum((i.time_s for i in chosen if i.part == "collective"), zero)
    return np.maximum(busy, talking) if options.overlap else busy + talking
