"""Platforms as arrays: devices, links, parallelism and formats of a batch of designs."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import Arrays, BoolArray, Column, FloatArray
from codesign.base.records import frozen
from codesign.evaluators.platform.product_columns import ProductColumns
from codesign.models.hardware.collective_times import Link
from codesign.models.machines.device.links import LinkRates, Texts
from codesign.models.machines.device.rates import DeviceRates


@frozen
class Platform:
    """``n`` platforms.

    Attributes:
        products: How fast the devices multiply the formats of weights and activations, and how.
        rates: Datasheet numbers that the laws of kernels need.
        devices: Key of each device.
        measured_names: Name under which kernels were measured that correct each device's laws.
        time_factors: Calibrated factors of each device, by kernel or phase; 1 where absent.
        device_class: Class of each device, whose efficiencies its kernels have.
        fast_capacity: Capacity of a device's memory, bytes.
        slow_bandwidth: Peak bytes per second of the memory behind it; NaN where none is stated.
        slow_capacity: Capacity of the memory behind it, bytes; infinite where none is stated.
        plain_products: Products of the parts whose weights stay in 16 bits.
        plain_bytes: Bytes of one of their weights.
        link_kind: Kind of the links within a node; empty where none is stated.
        link: Links within a node, at their peak; their bandwidth is NaN where none is stated.
        network: Links between nodes; their bandwidth is NaN where none is stated.
        node_size: Devices of one node, which links join.
        tp: Devices over which a layer's matrices are split.
        pp: Stages of the pipeline.
        ep: Groups of devices over which experts are spread.
        sp: Groups of devices over which a sequence is spread.
        dp: Replicas of the model.
        batch: Requests of one replica; not whole where the replicas do not divide the batch.
        kv_bytes: Bytes of one element of the KV cache.
        attention_groups: Groups of devices of one stage that serve requests of their own.
    """

    products: ProductColumns
    plain_products: ProductColumns
    rates: DeviceRates
    devices: Column
    measured_names: Column
    time_factors: Arrays
    device_class: Column
    fast_capacity: FloatArray
    slow_bandwidth: FloatArray
    slow_capacity: FloatArray
    link_kind: Texts
    link: Link
    network: Link
    node_size: FloatArray
    tp: FloatArray
    pp: FloatArray
    ep: FloatArray
    sp: FloatArray
    dp: FloatArray
    batch: FloatArray
    weight_bytes: FloatArray
    plain_bytes: FloatArray
    activation_bytes: FloatArray
    kv_bytes: FloatArray
    attention_groups: FloatArray

    @property
    def fast_bandwidth(self) -> FloatArray:
        """Peak bytes per second of a device's memory."""
        return np.asarray(self.rates.bandwidth_bytes_per_s)

    @property
    def is_scheduled(self) -> BoolArray:
        """(n,) whether a compiler schedules each cycle of the device."""
        return np.equal(self.device_class.lookup(lambda name: name == "scheduled"), 1.0)

    @property
    def power_watts(self) -> FloatArray:
        """Power limit of a device that is in force; NaN where none is stated."""
        return np.asarray(self.rates.power_limit_watts)

    @property
    def links(self) -> LinkRates:
        """Numbers of the devices' links that the laws of messages need."""
        return LinkRates(
            self.link_kind,
            self.link.bandwidth_bytes_per_s,
            self.network.bandwidth_bytes_per_s,
            self.rates.n_cores,
            self.rates.clock_hz,
            self.node_size,
        )

    @property
    def attention_ranks(self) -> FloatArray:
        """Devices over which attention heads and the vocabulary are split."""
        return self.tp * self.ep / self.attention_groups

    def own_requests(self, requests: FloatArray) -> FloatArray:
        """Requests of the busiest group, of so many requests of a replica."""
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
