"""Time of traffic between the cores and the memory or the cache that they share."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.models.machines.device.rates import DeviceRates


def memory_time_s(
    traffic_bytes: Floats,
    rates: DeviceRates,
    bandwidth_fraction: float,
    cache_bytes_per_cycle: float,
    *,
    is_cached: bool,
) -> FloatArray:
    """Time of the traffic of a kernel.

    Limiting assumption: data that is used again lies in the cache up to three quarters of its
    capacity, and not at all beyond it.

    Args:
        traffic_bytes: Bytes; they broadcast with the rates.
        rates: Datasheet numbers of the devices.
        bandwidth_fraction: Part of the main memory's rate that a long transfer reaches.
        cache_bytes_per_cycle: Bytes that each core moves to or from the cache per clock.
        is_cached: Whether the data may lie in the cache from the run before.

    Examples:
        >>> from codesign.models.hardware.device import load_device
        >>> from codesign.models.machines.device.rates import device_rates
        >>> rates = device_rates(lambda number: number(load_device("h100-sxm")))
        >>> round(float(memory_time_s(3.35e9, rates, 0.8, 8.0, is_cached=False)), 6)
        0.00125
    """
    main_s = traffic_bytes / (bandwidth_fraction * rates.bandwidth_bytes_per_s)
    if not is_cached:
        return np.asarray(main_s)
    uncached_share = np.clip(4 - 4 * traffic_bytes / np.maximum(rates.cache_bytes, 1.0), 0.0, 1.0)
    cache_rate = cache_bytes_per_cycle * (rates.n_cores * rates.clock_hz)
    return main_s + uncached_share * (np.minimum(main_s, traffic_bytes / cache_rate) - main_s)
