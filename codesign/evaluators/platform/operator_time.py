"""Time of an operator of a pass: a roofline (GenZ Eqs. 1 and 2), or another's law."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.evaluators.platform.communication import Message, direct_message_s, message_time_s
from codesign.evaluators.platform.device_memory import Residence
from codesign.evaluators.platform.device_work import DeviceWork, Works
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.product_columns import ProductColumns
from codesign.models.machines.device.clock import KernelDraw
from codesign.models.machines.device.indexing import eight_bit_peak
from codesign.models.machines.roofline import roofline_times
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operator_rules import Kernel, Scope


@frozen
class OperatorTime:
    """One operator, or one collective, of a pass; arrays are (n,), for all its instances.

    Attributes:
        name: Name of the operator or message.
        part: ``linear``, ``attention``, ``collective`` or ``send``.
        kernel: Kernel of the operator; None of a message.
        scope: Which tokens of a pass go through it together.
        is_in_layers: Whether every layer has the operator; otherwise an end of the model has it.
        count: Instances of the operator in one pass.
        time_s: Time of all instances, all stages of the pipeline one after the other.
        compute_s: Time that the arithmetic alone would take.
        memory_s: Time that the memory alone would take.
        mac: Multiply-accumulates of one device.
        bytes: Bytes that pass the device's memory, or that a message holds.
        joules: Energy of one device; NaN where the profile has no law of energy, and of kernels
            in a burst.
        draw: Energy of a kernel by the clock; None where there is no law of it.
    """

    name: str
    part: str
    kernel: Kernel | None
    scope: Scope
    is_in_layers: bool
    count: FloatArray
    time_s: FloatArray
    compute_s: FloatArray
    memory_s: FloatArray
    mac: FloatArray
    bytes: FloatArray
    joules: FloatArray
    draw: KernelDraw | None = None


@frozen
class Rooflines:
    """The time of a pass's operators, each as long as arithmetic or memory alone, and messages.

    Attributes:
        residence: Where weights and KV cache lie.
    """

    model: LanguageModel
    platform: Platform
    options: PlatformOptions
    residence: Residence

    def times(self, work: Works) -> list[OperatorTime]:
        """The operators of a pass, in the order in which they first run."""
        return [self.bound(operator) for operator in work]

    def bound(self, work: DeviceWork) -> OperatorTime:
        """The roofline of one operator: the longer of arithmetic and memory (Eq. 2)."""
        rate = self.products(work).peak_flop_per_s
        if work.kernel == "index":
            # Indexers multiply in 8 bits where devices do, whatever the format of the weights.
            rate = np.maximum(rate, eight_bit_peak(self.platform.rates))
        rate = rate * (self.options.compute_efficiency or 1.0)
        times = roofline_times(2.0 * work.mac, rate, self.memory_s(work))
        return OperatorTime(
            name=work.name,
            part=work.part,
            kernel=work.kernel,
            scope=work.rule.scope,
            is_in_layers=work.is_in_layers,
            count=np.full_like(times.compute_s, work.count),
            time_s=work.count * times.time_s,
            compute_s=work.count * times.compute_s,
            memory_s=work.count * times.memory_s,
            mac=work.count * work.mac,
            bytes=work.count * (work.weight_bytes + work.kv_bytes + work.activation_bytes),
            joules=np.full_like(times.compute_s, np.nan),
        )

    def products(self, work: DeviceWork) -> ProductColumns:
        """Products with the weights of an operator."""
        return self.platform.plain_products if work.is_plain else self.platform.products

    def memory_s(self, work: DeviceWork) -> FloatArray:
        """(n,) time that the memory alone takes; what stays on chip takes none."""
        stored = work.weight_bytes + work.kv_bytes
        moved = work.activation_bytes * self.residence.fast_s_per_byte
        return stored * self.residence.kept_s_per_byte + moved

    @property
    def send_warm_up_s(self) -> float:
        """Time to start a message from stage to stage."""
        return self.options.warm_up or 0.0

    def message_s(self, message: Message) -> FloatArray:
        """(n,) time of one instance of a message."""
        time_s = message_time_s(message, self.platform, self.options, self.send_warm_up_s)
        direct_s = direct_message_s(message, self.platform, self.platform.activation_bytes)
        return np.where(self.platform.is_scheduled, direct_s, time_s)

    def message_joules(self, message: Message, once_s: FloatArray) -> FloatArray:
        """(n,) energy of a device in one instance of a message, in which it waits."""
        return once_s * self.idle_watts()

    def occupied_share(self, message: Message) -> FloatArray:
        """(n,) share of a device's cores that a message keeps from operators that hide it."""
        return np.zeros_like(message.elements)

    def idle_watts(self) -> FloatArray:
        """(n,) power of a device that waits for others; NaN, since there is no law of energy."""
        return np.full_like(self.platform.tp, np.nan)

    def sustained(
        self, operators: Sequence[OperatorTime], waiting_s: FloatArray
    ) -> Sequence[OperatorTime]:
        """The operators of a pass that repeats, at the clock that the power limit leaves it.

        Args:
            waiting_s: (n,) time of the pass in which no operator runs.
        """
        return operators

    def host_starts_s(self, operators: Sequence[OperatorTime]) -> FloatArray:
        """(n,) time in which a host starts the operators of the layers: nothing."""
        return np.zeros_like(self.platform.tp)

    def host_own_s(self, n_decoding: FloatArray, *, has_prompts: bool) -> FloatArray:
        """(n,) time of a host in a pass of so many decoding requests that no operator hides."""
        return np.zeros_like(self.platform.tp)


def time_message(
    message: Message, platform: Platform, once_s: FloatArray, once_joules: FloatArray
) -> OperatorTime:
    """A message whose one instance takes ``once_s`` and ``once_joules`` of a device."""
    zero = np.zeros_like(message.elements)
    count = np.broadcast_to(message.count, zero.shape) * (message.ranks > 1)
    return OperatorTime(
        name=message.name,
        part="send" if message.collective == "send" else "collective",
        kernel=None,
        scope=message.scope,
        is_in_layers=message.is_in_layers,
        count=count.astype(np.float64),
        time_s=count * np.where(count > 0, once_s, 0.0),
        compute_s=zero,
        memory_s=zero,
        mac=zero,
        bytes=count * message.elements * platform.activation_bytes,
        joules=count * np.where(count > 0, once_joules, 0.0),
    )
