"""Devices, links, parallelism and formats from the columns of a design batch; (n,) each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from codesign.columns import Column, Columns, FloatArray
from codesign.errors import UnknownNameError
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.product_columns import ProductColumns, product_columns
from codesign.hardware.collectives import Link
from codesign.hardware.device import Device
from codesign.machines.device.links import LinkRates, link_rates
from codesign.machines.device.rates import DeviceRates, device_rates
from codesign.workload.precision import bits_per_element, multiply_bits

DEGREES = (
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "sequence_parallel",
    "data_parallel",
)
"""Parameters that say over how many devices each dimension of the work is spread."""
FORMATS = ("weight_format", "activation_format", "kv_format")
"""Parameters that say how wide each kind of data is."""
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
OPTIONAL_PARAMETERS = frozenset({*DEGREES, *FORMATS, *OVERRIDES})


@dataclass(frozen=True)
class Platform:
    """``n`` platforms.

    Attributes:
        flop_per_s: Peak arithmetic rate of a device at the width of its products.
        products: How the devices multiply the formats of weights and activations.
        rates: Datasheet numbers that the laws of kernels need.
        links: Numbers of the devices' links that the laws of messages need.
        devices: Key of each device.
        device_class: Class of each device, whose efficiencies its kernels have.
        fast_bandwidth: Peak bytes per second of a device's memory.
        fast_capacity: Capacity of a device's memory, bytes.
        slow_bandwidth: Peak bytes per second of the memory behind it; NaN where none is stated.
        slow_capacity: Capacity of the memory behind it, bytes; infinite where none is stated.
        link: Links within a node; their bandwidth is NaN where none is stated.
        network: Links between nodes; their bandwidth is NaN where none is stated.
        node_size: Devices of one node, which links join.
        power_watts: Board power limit of a device; NaN where none is stated.
        tp: Devices over which a layer's matrices are split.
        pp: Stages of the pipeline.
        ep: Groups of devices over which experts are spread.
        sp: Groups of devices over which a sequence is spread.
        dp: Replicas of the model.
        batch: Requests of one replica; not whole where the replicas do not divide the batch.
        weight_bytes: Bytes of one weight.
        activation_bytes: Bytes of one activation.
        kv_bytes: Bytes of one element of the KV cache.
        attention_groups: Groups of devices of one stage that serve requests of their own.
    """

    flop_per_s: FloatArray
    products: ProductColumns
    rates: DeviceRates
    links: LinkRates
    devices: Column
    device_class: Column
    fast_bandwidth: FloatArray
    fast_capacity: FloatArray
    slow_bandwidth: FloatArray
    slow_capacity: FloatArray
    link: Link
    network: Link
    node_size: FloatArray
    power_watts: FloatArray
    tp: FloatArray
    pp: FloatArray
    ep: FloatArray
    sp: FloatArray
    dp: FloatArray
    batch: FloatArray
    weight_bytes: FloatArray
    activation_bytes: FloatArray
    kv_bytes: FloatArray
    attention_groups: FloatArray

    @property
    def attention_ranks(self) -> FloatArray:
        """Devices over which attention heads and the vocabulary are split."""
        return self.tp * self.ep / self.attention_groups

    def own_requests(self, requests: FloatArray) -> FloatArray:
        """Of so many requests of a replica, those of the group that serves the most."""
        return np.where(
            self.attention_groups > 1, np.ceil(requests / self.attention_groups), requests
        )

    @property
    def stage_devices(self) -> FloatArray:
        """Devices of one stage of one replica."""
        return self.tp * self.ep * self.sp

    @property
    def n_devices(self) -> FloatArray:
        """Number of all devices."""
        return self.stage_devices * self.pp * self.dp

    def micro_batch(self, is_genz: bool) -> FloatArray:
        """Requests that pass through the pipeline together.

        GenZ's tool divides the batch by the stages and drops the rest.
        """
        if is_genz:
            return np.maximum(np.floor(self.batch / self.pp), 1.0)
        return np.ceil(self.batch / self.pp)


def build_platform(
    designs: Columns, devices: Mapping[str, Device], options: PlatformOptions
) -> Platform:
    """The platforms of a batch.

    Args:
        designs: Columns of the parameters above.
        devices: Devices by the names that the column ``device`` may have.
        options: Resolved options.

    Raises:
        UnknownNameError: A device or format that is not known.
    """
    chosen = _Chosen(designs, devices)
    degrees = {name: _number(designs, name, 1.0, chosen.n) for name in DEGREES}
    batch = _number(designs, "batch_size", 1.0, chosen.n)
    sizes = {name: _bytes(designs, name, chosen.n) for name in FORMATS}
    slow = chosen.number("slow_bandwidth", "slow_bandwidth_bytes_per_s", np.nan)
    if options.slow_bandwidth is not None:
        slow = np.full(chosen.n, options.slow_bandwidth)
    links, networks = _links(chosen, options)
    products = product_columns(
        chosen.column,
        chosen.find,
        _format(designs, "weight_format", chosen.n),
        _format(designs, "activation_format", chosen.n),
    )
    return Platform(
        flop_per_s=_flop_per_s(designs, chosen, products, options),
        products=products,
        rates=_rates(designs, chosen),
        links=_link_rates(chosen),
        devices=chosen.column,
        device_class=chosen.classes(),
        fast_bandwidth=chosen.number("bandwidth", "fast_bandwidth_bytes_per_s"),
        fast_capacity=chosen.number("capacity", "fast_capacity_bytes") * options.usable_memory,
        slow_bandwidth=slow,
        slow_capacity=chosen.number("slow_capacity", "slow_capacity_bytes", np.inf),
        link=links,
        network=networks,
        node_size=_node_size(chosen, options),
        power_watts=chosen.number("power", None, np.nan),
        tp=degrees["tensor_parallel"],
        pp=degrees["pipeline_parallel"],
        ep=degrees["expert_parallel"],
        sp=degrees["sequence_parallel"],
        dp=degrees["data_parallel"],
        batch=batch / degrees["data_parallel"],
        weight_bytes=sizes["weight_format"],
        activation_bytes=sizes["activation_format"],
        kv_bytes=sizes["kv_format"],
        attention_groups=(
            degrees["expert_parallel"] if options.has_data_attention else np.ones(chosen.n)
        ),
    )


class _Chosen:
    """The device of every design, looked up once per distinct device."""

    def __init__(self, designs: Columns, devices: Mapping[str, Device]) -> None:
        self.designs = designs
        self.column: Column = designs["device"]
        self.n = len(self.column)
        self._devices = devices

    def find(self, name: str) -> Device:
        if name not in self._devices:
            raise UnknownNameError("device", name, self._devices)
        return self._devices[name]

    def lookup(self, function: Callable[[Device], float]) -> FloatArray:
        return self.column.lookup(lambda name: function(self.find(name)))

    def classes(self) -> Column:
        """The class of each design's device."""
        classes = [self.find(str(name)).device_class for name in self.column.values]
        return Column(tuple(classes), self.column.codes)

    def number(self, field: str, override: str | None, absent: float | None = None) -> FloatArray:
        """A number of the device's file, or the number that the design sets instead."""

        def of(device: Device) -> float:
            value = getattr(device, field)
            if value is None:
                assert absent is not None  # the record requires the others
                return absent
            return float(value)

        stated = self.lookup(of)
        if override is None or override not in self.designs:
            return stated
        override_values = self.designs[override].lookup(float, absent=np.nan)
        return np.where(np.isnan(override_values), stated, override_values)


def _number(designs: Columns, name: str, absent: float, n: int) -> FloatArray:
    if name not in designs:
        return np.full(n, absent)
    return designs[name].lookup(float, absent=absent)


def _format(designs: Columns, name: str, n: int) -> Column:
    if name in designs:
        return designs[name]
    return Column(("bf16",), np.zeros(n, dtype=np.int64))


def _bytes(designs: Columns, name: str, n: int) -> FloatArray:
    return _format(designs, name, n).lookup(lambda item: bits_per_element(item) / 8.0)


def _flop_per_s(
    designs: Columns, chosen: _Chosen, products: ProductColumns, options: PlatformOptions
) -> FloatArray:
    """Peak rate of products; a design's own rate is that at 16 bits, narrower ones are faster."""
    rates, bits = products.peak_flop_per_s, products.multiply_bits
    if options.is_genz:
        # GenZ halves the time of a product with each halving of its width, on every device.
        bits = np.maximum(
            _format(designs, "weight_format", chosen.n).lookup(multiply_bits),
            _format(designs, "activation_format", chosen.n).lookup(multiply_bits),
        )
        rates = chosen.lookup(lambda device: device.peak_flop_per_s("bf16")) * (16.0 / bits)
    if "compute_flop_per_s" not in designs:
        return rates
    override_flop_per_s = designs["compute_flop_per_s"].lookup(float, absent=np.nan) * 16.0 / bits
    return np.where(np.isnan(override_flop_per_s), rates, override_flop_per_s)


def _rates(designs: Columns, chosen: _Chosen) -> DeviceRates:
    """Datasheet numbers that the laws of kernels need, with the numbers that the designs set."""
    rates = device_rates(chosen.lookup)
    bandwidth = chosen.number("bandwidth", "fast_bandwidth_bytes_per_s")
    link = chosen.number("link_bandwidth", "link_bandwidth_bytes_per_s", np.nan)
    peak = np.asarray(rates.peak_16bit_flop_per_s)
    if "compute_flop_per_s" in designs:
        own = designs["compute_flop_per_s"].lookup(float, absent=np.nan)
        peak = np.where(np.isnan(own), peak, own)
    return replace(
        rates,
        peak_16bit_flop_per_s=peak,
        bandwidth_bytes_per_s=bandwidth,
        link_bandwidth_bytes_per_s=link,
    )


def _link_rates(chosen: _Chosen) -> LinkRates:
    """Numbers of the links, with the bandwidth that the designs set."""
    kinds = [chosen.find(str(name)).link_kind or "" for name in chosen.column.values]
    rates = link_rates(chosen.lookup, np.array(kinds)[chosen.column.codes])
    bandwidth = chosen.number("link_bandwidth", "link_bandwidth_bytes_per_s", np.nan)
    return replace(rates, bandwidth_bytes_per_s=bandwidth)


def _links(chosen: _Chosen, options: PlatformOptions) -> tuple[Link, Link]:
    share = options.link_efficiency or 1.0
    near = chosen.number("link_bandwidth", "link_bandwidth_bytes_per_s", np.nan) * share
    far = chosen.number("network_bandwidth", None, np.nan) * share
    return (
        Link(near, chosen.number("link_latency", "link_latency_s", options.link_latency)),
        Link(far, chosen.number("network_latency", None, options.network_latency)),
    )


def _node_size(chosen: _Chosen, options: PlatformOptions) -> FloatArray:
    if not options.has_nodes:
        return np.full(chosen.n, np.inf)
    if options.node_size is not None:
        return np.full(chosen.n, float(options.node_size))
    return chosen.lookup(lambda device: float(device.n_linked))
