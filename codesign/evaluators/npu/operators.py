"""One pass of the model's operators over a batch of accelerators: an (n, o) table of times.

Arrays are (n, o) unless said otherwise; what depends on the design alone is (n, 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from codesign.columns import FloatArray, IntArray
from codesign.evaluators.npu.options import ACCUMULATOR_BYTES, MATRIX_SHARE, Blocking, NpuOptions
from codesign.evaluators.npu.placement import TierShares
from codesign.evaluators.npu.traffic import (
    Products,
    array_passes,
    off_chip_passes,
    read_off_chip_bytes,
)
from codesign.hardware.accelerator import AcceleratorBatch
from codesign.hardware.array import (
    DATAFLOWS,
    flattened_cycles,
    flattened_score_cycles,
    systolic_cycles,
)
from codesign.hardware.hierarchy import (
    in_flight_bandwidth_bytes_per_s,
    inverse,
    parallel_time_s,
    staged_time_s,
)
from codesign.workload.operators import OperatorTable

BANDWIDTH_PRIORITIES = tuple(MATRIX_SHARE)
"""Bandwidth priorities; a code is the position here."""


@dataclass(frozen=True)
class Setup:
    """What ``n`` designs bring to a pass.

    Attributes:
        accelerators: The hardware.
        weight_bytes: (n, 1) bytes of a weight.
        activation_bytes: (n, 1) bytes of an activation.
        kv_bytes: (n, 1) bytes of an element of the KV cache.
        dataflow: (n, 1) positions in ``DATAFLOWS``.
        bandwidth_priority: (n, 1) positions in ``BANDWIDTH_PRIORITIES``.
        batch_size: (n, 1) requests processed together in the pass.
        on_chip_bytes: (3, n) what each kind of data has on chip.
        pinned: (3, n) the share of all data of each kind that this is.
        shares: Where the rest lives.
    """

    accelerators: AcceleratorBatch
    weight_bytes: FloatArray
    activation_bytes: FloatArray
    kv_bytes: FloatArray
    dataflow: IntArray
    bandwidth_priority: IntArray
    batch_size: FloatArray
    on_chip_bytes: FloatArray
    pinned: FloatArray
    shares: TierShares


@dataclass(frozen=True)
class Moved:
    """Bytes that one instance of each operator moves.

    Attributes:
        array_reads: From on-chip memory into the array.
        array_writes: From the array into on-chip memory, partial sums included.
        weight_reads: Weights from off chip.
        kv_reads: Keys and values from off chip.
        kv_writes: Keys and values to off chip.
        activation_reads: Activations and partial sums from off chip.
        activation_writes: Activations and partial sums to off chip.
    """

    array_reads: FloatArray
    array_writes: FloatArray
    weight_reads: FloatArray
    kv_reads: FloatArray
    kv_writes: FloatArray
    activation_reads: FloatArray
    activation_writes: FloatArray

    def totals(self, count: FloatArray) -> Moved:
        """The same summed over the operators of a pass: every array is (n,)."""
        summed = {name: np.asarray(value @ count) for name, value in vars(self).items()}
        return Moved(**summed)


@dataclass(frozen=True)
class PassTimes:
    """How long one instance of each operator takes.

    Attributes:
        compute_s: On the matrix array.
        on_chip_s: Through the on-chip memory's port.
        off_chip_s: Through the off-chip tiers.
        time_s: Of the operator, its first chunk exposed.
    """

    compute_s: FloatArray
    on_chip_s: FloatArray
    off_chip_s: FloatArray
    time_s: FloatArray


class Pass:
    """The operators of one pass, ready for any batch of designs.

    Args:
        table: All operators of the pass.
        options: Resolved options.
    """

    def __init__(self, table: OperatorTable, options: NpuOptions) -> None:
        self.table = table
        self.options = options
        vector = table.is_kind("vector")
        self.is_attention = table.is_attention
        self.is_product = table.m_per_request > 0
        # Fused, an elementwise operator works on tiles that are on chip anyway; only what it
        # adds to the KV cache and its own weights move.
        own_traffic = ~vector if options.fused else np.ones(len(table), dtype=bool)
        self.moves_activations = own_traffic
        query_rows = table.m_per_request / table.tokens_per_request
        is_score = table.is_kind("attention_qk")
        self.heads = np.where(is_score, np.maximum(query_rows, 1.0), 1.0)
        self.is_score = is_score

    def vector_operations(self, batch_size: FloatArray) -> FloatArray:
        """(n,) operations of the vector unit in one pass; ``batch_size`` is (n,)."""
        return batch_size * float(self.table.vector_ops_per_request @ self.table.count)

    def multiply_accumulates(self, batch_size: FloatArray) -> FloatArray:
        """(n,) useful multiply-accumulates in one pass; ``batch_size`` is (n,)."""
        return batch_size * float(self.table.mac_per_request @ self.table.count)

    def cycles(self, setup: Setup) -> FloatArray:
        """Cycles of the matrix array for one instance of each operator."""
        table, hardware = self.table, setup.accelerators
        m = table.rows_per_product(setup.batch_size)
        depth, width = hardware.array_depth[:, None], hardware.array_width[:, None]
        if self.options.array == "flattened":
            one = np.where(
                self.is_score,
                flattened_score_cycles(m, table.k, table.n, self.heads, depth, width),
                flattened_cycles(m, table.k, table.n, depth, width),
            )
        else:
            one = np.select(
                [setup.dataflow == code for code in range(len(DATAFLOWS))],
                [systolic_cycles(m, table.k, table.n, depth, width, flow) for flow in DATAFLOWS],
            )
        return np.where(self.is_product, one * table.n_products(setup.batch_size), 0.0)

    def moved(self, setup: Setup) -> Moved:
        """What one instance of each operator moves."""
        table, batch = self.table, setup.batch_size
        hardware, moving = setup.accelerators, self.moves_activations
        depth, width = hardware.array_depth[:, None], hardware.array_width[:, None]
        is_ws, is_os = setup.dataflow == 0, setup.dataflow == 2
        weights = table.weights_read(batch) * setup.weight_bytes
        kv = table.kv_read_elements_per_request * batch * setup.kv_bytes
        inputs = table.input_elements_per_request * batch * setup.activation_bytes * moving
        outputs = table.output_elements_per_request * batch * setup.activation_bytes * moving
        n_products = np.maximum(table.n_products(batch), 1.0)
        products = Products(
            m=table.rows_per_product(batch),
            k=table.k,
            n=table.n,
            heads=self.heads,
            stationary_bytes=(weights + kv) / n_products,
            input_bytes=inputs / n_products,
            output_bytes=outputs / n_products,
        )
        near = array_passes(products, depth, width, is_ws, is_os)
        on_chip = hardware.levels.capacity_bytes[0][:, None]
        far = off_chip_passes(
            cast("Blocking", self.options.blocking), products, depth, width, on_chip, is_ws, is_os
        )
        partial = outputs * (ACCUMULATOR_BYTES / setup.activation_bytes)
        held = setup.on_chip_bytes[:, :, None]
        # Streamed anew for every tile of the array, an operand is pinned or not; only a compiler
        # that blocks for the on-chip memory keeps the operand at hand there.
        cache = held if self.options.blocking == "capacity" else np.zeros((3, 1, 1))
        resident = np.minimum(1.0, held[0] / np.maximum(inputs + outputs, 1.0))
        spilled = 1.0 - resident
        far_sums = outputs * far.spills
        per_request_kv = kv / batch
        return Moved(
            array_reads=(weights + kv) * near.stationary
            + inputs * near.inputs
            + partial * near.spills,
            array_writes=outputs + partial * near.spills,
            weight_reads=read_off_chip_bytes(
                weights, far.stationary, setup.pinned[2][:, None], cache[2]
            ),
            kv_reads=batch
            * read_off_chip_bytes(
                per_request_kv, far.stationary, setup.pinned[1][:, None], cache[1]
            ),
            kv_writes=table.kv_written_elements_per_request
            * (batch * setup.kv_bytes * (1.0 - setup.pinned[1][:, None])),
            activation_reads=(inputs * far.inputs + far_sums) * spilled,
            activation_writes=(outputs + far_sums) * spilled,
        )

    def times(self, setup: Setup, moved: Moved) -> PassTimes:
        """How long one instance of each operator takes."""
        hardware, options = setup.accelerators, self.options
        levels = hardware.levels
        compute = self.cycles(setup) / hardware.clock_hz[:, None]
        chunk = hardware.macs_per_cycle[:, None] * setup.weight_bytes
        from_tiers = moved.weight_reads + moved.kv_reads + moved.activation_reads
        to_tiers = moved.kv_writes + moved.activation_writes
        off_chip = from_tiers + to_tiers
        port_rate = inverse(levels.bandwidth_bytes_per_s[0])[:, None]
        on_chip = (moved.array_reads + moved.array_writes + off_chip) * port_rate
        near_fill = levels.latency_s[0][:, None] + chunk * port_rate
        is_active = on_chip > 0
        streams = self._stream_times(setup, moved, chunk, near_fill)
        if options.streams == "serial":
            transfer = np.add.reduce(streams)
        else:
            transfer = np.maximum.reduce(streams)
        usable = options.offchip_efficiency or 1.0
        first_tier = (
            levels.latency_s[1][:, None]
            + chunk * inverse(usable * levels.bandwidth_bytes_per_s[1])[:, None]
        )
        exposed = (near_fill + first_tier * (off_chip > 0)) * is_active
        on_chip = (on_chip + levels.latency_s[0][:, None]) * is_active
        time = np.maximum(compute + exposed, np.maximum(on_chip, transfer))
        return PassTimes(compute, on_chip, transfer, time)

    def _stream_times(
        self, setup: Setup, moved: Moved, chunk: FloatArray, near_fill: FloatArray
    ) -> list[FloatArray]:
        """Time of the matrix stream and of the vector stream, or of both as one."""
        levels, options = setup.accelerators.levels, self.options
        tails = setup.shares.tails[..., None]
        kv = moved.kv_reads + moved.kv_writes
        activations = moved.activation_reads + moved.activation_writes
        n_tiers = tails.shape[1]
        matrix = [moved.weight_reads * tails[2, t] + kv * tails[1, t] for t in range(n_tiers)]
        vector = [activations * tails[0, t] for t in range(n_tiers)]
        bandwidth = [levels.bandwidth_bytes_per_s[t + 1][:, None] for t in range(n_tiers)]
        latency = [levels.latency_s[t + 1][:, None] for t in range(n_tiers)]
        usable = options.offchip_efficiency or 1.0
        if options.requests_in_flight is not None:
            bandwidth = [
                in_flight_bandwidth_bytes_per_s(b, delay, chunk, options.requests_in_flight)
                for b, delay in zip(bandwidth, latency, strict=True)
            ]
        if options.bandwidth_sharing == "shared":
            both = [a + b for a, b in zip(matrix, vector, strict=True)]
            parts = [(both, np.asarray(usable))]
        else:
            table = np.array([MATRIX_SHARE[name] for name in BANDWIDTH_PRIORITIES])
            share = table[setup.bandwidth_priority]
            parts = [(matrix, usable * share), (vector, usable * (1.0 - share))]
        return [
            self._stream_time(crossing, [b * part for b in bandwidth], latency, chunk, near_fill)
            for crossing, part in parts
        ]

    def _stream_time(
        self,
        crossing: list[FloatArray],
        bandwidth: list[FloatArray],
        latency: list[FloatArray],
        chunk: FloatArray,
        near_fill: FloatArray,
    ) -> FloatArray:
        if self.options.topology == "staged":
            time = staged_time_s(crossing, bandwidth, latency, chunk)
        else:
            below = [*crossing[1:], np.zeros(())]
            owned = [a - b for a, b in zip(crossing, below, strict=True)]
            time = parallel_time_s(owned, bandwidth, latency)
        return time + near_fill * (crossing[0] > 0)
