"""Numbers of a device's datasheet, as the laws of its kernels need them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import Floats
from codesign.base.records import frozen
from codesign.models.hardware.device import Device

TYPICAL_CLOCK_HZ = 1.8e9
"""Clock of the cores where a device file states none [ours]: the middle of NVIDIA's data center
devices, 1.41 GHz (A100) to 2.49 GHz (L40S)."""


@frozen
class DeviceRates:
    """Datasheet numbers of the devices on which kernels run.

    Each field is one number, or an array that broadcasts with the sizes of the kernels: (n,) for
    one kernel on n devices, (q,) for q kernels that each have their device.

    Attributes:
        peak_16bit_flop_per_s: Dense peak of products of 16-bit floating point.
        bandwidth_bytes_per_s: Peak rate of the main memory.
        cache_bytes: Capacity of the last cache that all cores share; 0 where none is stated.
        n_cores: Cores that share the tiles of a kernel.
        power_watts: Board power limit of the datasheet; NaN where none is stated.
        power_limit_watts: The limit in force; NaN likewise.
        burst_fraction: Part of the peak that large products reach for some 30 ms after idling.
        sustained_fraction: Part of the peak that ``power_watts`` lets them sustain.
        process_power: Power of the die over that of an H100's process at the same speed.
        kernel_start_s: Seconds of a queued kernel with next to nothing to do; NaN if not
            measured.
        quantize_start_s: Seconds more where its input is quantized first; NaN likewise.
        clock_hz: Clock of the cores, to which the start of a kernel and the special functions are
            bound.
        has_fp4: 1 where the matrix units multiply 4-bit floats, else 0. Such devices are recent:
            their kernels start while the one before ends.
        has_fp8: 1 where the matrix units multiply 8-bit floats, else 0.
        has_asynchronous_cores: 1 where matrix units fetch operands while threads do other work.
        host_bandwidth_bytes_per_s: Rate to the memory of its host, each way; NaN where none is
            stated.
        step_latency_s: Seconds of a dependent step of a scheduled chip besides its stream.
        stream_fraction: Part of its bandwidth at which weights reach its matrix units.
    """

    peak_16bit_flop_per_s: Floats
    bandwidth_bytes_per_s: Floats
    cache_bytes: Floats
    n_cores: Floats
    power_watts: Floats
    burst_fraction: Floats
    sustained_fraction: Floats = np.nan
    power_limit_watts: Floats = np.nan
    process_power: Floats = 1.0
    kernel_start_s: Floats = np.nan
    quantize_start_s: Floats = np.nan
    clock_hz: Floats = TYPICAL_CLOCK_HZ
    has_fp4: Floats = 0.0
    has_fp8: Floats = 0.0
    has_asynchronous_cores: Floats = 0.0
    host_bandwidth_bytes_per_s: Floats = np.nan
    step_latency_s: Floats = 0.0
    stream_fraction: Floats = 1.0


def device_rates(lookup: Callable[[Callable[[Device], float]], Floats]) -> DeviceRates:
    """The rates of devices.

    Args:
        lookup: Gives a number of every device: called with a function of one device, it answers
            with one number or an array.

    Examples:
        >>> from codesign.models.hardware.device import load_device
        >>> device_rates(lambda number: number(load_device("h100-sxm"))).n_cores
        132.0
    """

    def stated(key: str, absent: float) -> Floats:
        def number(device: Device) -> float:
            value = getattr(device, key)
            return absent if value is None else float(value)

        return lookup(number)

    return DeviceRates(
        sustained_fraction=lookup(lambda device: device.sustained_share),
        power_limit_watts=stated("power", np.nan),
        peak_16bit_flop_per_s=lookup(lambda device: device.peak_flop_per_s("bf16")),
        has_fp4=lookup(lambda device: float("fp4" in device.peak)),
        has_fp8=lookup(lambda device: float("fp8" in device.peak)),
        **{name: stated(*place) for name, place in _STATED.items()},
    )


_STATED = {
    "bandwidth_bytes_per_s": ("bandwidth", np.nan),
    "cache_bytes": ("cache", 0.0),
    "n_cores": ("n_cores", np.nan),
    "power_watts": ("power", np.nan),
    "burst_fraction": ("burst_fraction", np.nan),
    "process_power": ("process_power", 1.0),
    "kernel_start_s": ("kernel_start", np.nan),
    "quantize_start_s": ("quantize_start", np.nan),
    "clock_hz": ("clock", TYPICAL_CLOCK_HZ),
    "has_asynchronous_cores": ("has_asynchronous_cores", 0.0),
    "host_bandwidth_bytes_per_s": ("slow_bandwidth", np.nan),
    "step_latency_s": ("step_latency", 0.0),
    "stream_fraction": ("stream_fraction", 1.0),
}
"""Key of each rate in a device's file, and what stands for one that is not stated."""
