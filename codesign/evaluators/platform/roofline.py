"""Time of an operator of a pass: a roofline (GenZ Eqs. 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.communication import Message
from codesign.evaluators.platform.memory import Residence
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.platforms import Platform
from codesign.evaluators.platform.work import DeviceWork


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
        joules: Energy of one device; NaN where the profile has no law of energy.
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
    joules: FloatArray


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
        joules=np.full_like(compute, np.nan),
    )


def time_message(
    message: Message, platform: Platform, once_s: FloatArray, watts: FloatArray
) -> OperatorTime:
    """A message whose one instance takes ``once_s``, while a device draws ``watts``."""
    zero = np.zeros_like(message.elements)
    count = np.broadcast_to(message.count, zero.shape) * (message.ranks > 1)
    once = np.where(count > 0, once_s, 0.0)
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
        joules=count * once * watts,
    )
