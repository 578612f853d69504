"""Platforms from the columns of a design batch, and the parameters that such a batch may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from codesign.base.columns import Column, Columns, FloatArray, Floats, constant_column
from codesign.base.errors import check_known
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.product_columns import ProductColumns, product_columns
from codesign.evaluators.platform.serving_rules import rules_of
from codesign.models.deployments.parallelism import DEGREES
from codesign.models.hardware.collective_times import Link
from codesign.models.hardware.device import Device
from codesign.models.machines.device.energy import burst_under, shipped_energy
from codesign.models.machines.device.rates import DeviceRates, device_rates
from codesign.models.workload.precision import DEFAULT_FORMAT, FORMAT_KEYS, bits_per_element

OVERRIDES = (
    "compute_flop_per_s",
    "fast_bandwidth_bytes_per_s",
    "fast_capacity_bytes",
    "slow_bandwidth_bytes_per_s",
    "slow_capacity_bytes",
    "link_bandwidth_bytes_per_s",
    "link_latency_s",
)
"""Parameters that replace a number of the device's file; the arithmetic rate is that at 16 bits,
and narrower formats run as much faster as they are narrower."""
REQUIRED_PARAMETERS = frozenset({"device", "batch_size"})
OPTIONAL_PARAMETERS = frozenset({*DEGREES, *FORMAT_KEYS, *OVERRIDES})


def build_platform(
    designs: Columns, devices: Mapping[str, Device], options: PlatformOptions
) -> Platform:
    """The platforms of a batch.

    Args:
        designs: Columns of the parameters above.
        devices: Devices by the names that the column ``device`` may have.

    Raises:
        UnknownNameError: A device or format that is not known.
    """
    machines = _Chosen(designs, devices)
    degrees = {name: _number(designs, name, 1.0, machines.n) for name in DEGREES}
    batch = _number(designs, "batch_size", 1.0, machines.n)
    formats = {name: _format(designs, name, machines.n) for name in FORMAT_KEYS}
    sizes = {name: _width_bytes(column) for name, column in formats.items()}
    plain = {**designs, **{name: _unquantized(column) for name, column in formats.items()}}
    slow = machines.number("slow_bandwidth", "slow_bandwidth_bytes_per_s")
    if options.slow_bandwidth is not None:
        slow = np.full(machines.n, options.slow_bandwidth)
    rates = device_rates(machines.lookup)
    if options.power_limit is not None:
        rates = _limited(rates, machines, options.power_limit)
    near = machines.number("link_bandwidth", "link_bandwidth_bytes_per_s")
    latency = machines.number("link_latency", "link_latency_s", options.link_latency)
    far = machines.number("network_bandwidth", None)
    far_latency = machines.number("network_latency", None, options.network_latency)
    node_size = np.full(machines.n, np.inf)
    if options.has_nodes:
        node_size = machines.lookup(lambda device: float(options.node_size or device.n_linked))
    return Platform(
        products=_products(designs, machines, options),
        plain_products=_products(plain, machines, options),
        # Datasheet numbers that the laws of kernels need, with those that the designs set.
        rates=replace(
            rates,
            peak_16bit_flop_per_s=machines.or_own(
                rates.peak_16bit_flop_per_s, "compute_flop_per_s"
            ),
            bandwidth_bytes_per_s=machines.number("bandwidth", "fast_bandwidth_bytes_per_s"),
        ),
        devices=machines.column,
        measured_names=machines.words(lambda device: device.measured_name),
        time_factors={
            name: machines.lookup(partial(Device.time_factor, name=name))
            for name in {name for device in devices.values() for name in device.time_factors}
        },
        device_class=machines.words(lambda device: device.device_class),
        fast_capacity=machines.number("capacity", "fast_capacity_bytes") * options.usable_memory,
        slow_bandwidth=slow,
        slow_capacity=machines.number("slow_capacity", "slow_capacity_bytes", np.inf),
        link_kind=np.array(machines.words(lambda device: device.link_kind or "").decoded()),
        link=Link(near, latency),
        network=Link(far, far_latency),
        node_size=node_size,
        tp=degrees["tensor_parallel"],
        pp=degrees["pipeline_parallel"],
        ep=degrees["expert_parallel"],
        sp=degrees["sequence_parallel"],
        dp=degrees["data_parallel"],
        batch=batch / degrees["data_parallel"],
        weight_bytes=sizes["weight_format"],
        plain_bytes=_width_bytes(plain["weight_format"]),
        activation_bytes=sizes["activation_format"],
        kv_bytes=sizes["kv_format"],
        attention_groups=(
            degrees["expert_parallel"] if options.has_data_attention else np.ones(machines.n)
        ),
    )


def _limited(rates: DeviceRates, machines: _Chosen, watts: float) -> DeviceRates:
    """Rates of devices under a power limit of the user's.

    Raises:
        InputError: A device has no such limit.
    """
    for name in dict.fromkeys(machines.column.decoded()):
        machines.find(str(name)).check_power_limit(watts)
    limited = replace(rates, power_limit_watts=np.full(machines.n, watts))
    return replace(limited, burst_fraction=burst_under(limited, shipped_energy()))


class _Chosen:
    """The device of every design, looked up once per distinct device."""

    def __init__(self, designs: Columns, devices: Mapping[str, Device]) -> None:
        self.designs = designs
        self.column = designs["device"]
        self.n = len(self.column)
        self._devices = devices

    def find(self, name: str) -> Device:
        check_known("device", name, self._devices)
        return self._devices[name]

    def lookup(self, function: Callable[[Device], float]) -> FloatArray:
        return self.column.lookup(lambda name: function(self.find(name)))

    def words(self, word: Callable[[Device], str]) -> Column:
        """A word of each design's device."""
        words = [word(self.find(str(name))) for name in self.column.values]
        return Column(tuple(words), self.column.codes)

    def number(self, field: str, override: str | None, absent: float = np.nan) -> FloatArray:
        """A number of the device's file, or the number that the design sets instead."""

        def stated_number(device: Device) -> float:
            value = getattr(device, field)
            return absent if value is None else float(value)

        stated = self.lookup(stated_number)
        return stated if override is None else self.or_own(stated, override)

    def or_own(self, stated: Floats, override: str) -> FloatArray:
        """Numbers that the devices' files state, or those that the designs set instead."""
        own_number = _number(self.designs, override, np.nan, self.n)
        return np.where(np.isnan(own_number), stated, own_number)


def _number(designs: Columns, name: str, absent: float, n: int) -> FloatArray:
    if name not in designs:
        return np.full(n, absent)
    return designs[name].lookup(float, absent=absent)


def _width_bytes(formats: Column) -> FloatArray:
    return formats.lookup(lambda word: bits_per_element(word) / 8.0)


def _unquantized(formats: Column) -> Column:
    """Formats of the parts that checkpoints do not quantize."""
    words = [
        word if bits_per_element(str(word)) >= 16 else DEFAULT_FORMAT for word in formats.values
    ]
    return Column(tuple(words), formats.codes)


def _format(designs: Columns, name: str, n: int) -> Column:
    if name in designs:
        return designs[name]
    return constant_column(DEFAULT_FORMAT, n)


def _products(designs: Columns, machines: _Chosen, options: PlatformOptions) -> ProductColumns:
    """Products of the formats on the devices, by the rules of the profile.

    A design's own rate is that at 16 bits, narrower formats are faster.
    """
    weights = _format(designs, "weight_format", machines.n)
    activations = _format(designs, "activation_format", machines.n)
    products = product_columns(machines.column, machines.find, weights, activations)
    peak = machines.lookup(lambda device: device.peak_flop_per_s("bf16"))
    products = rules_of(options).products(products, weights, activations, peak)
    own_flop_per_s = (
        _number(designs, "compute_flop_per_s", np.nan, machines.n) * 16.0 / products.multiply_bits
    )
    return replace(
        products,
        peak_flop_per_s=np.where(
            np.isnan(own_flop_per_s), products.peak_flop_per_s, own_flop_per_s
        ),
    )
