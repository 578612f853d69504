"""One pass of the model's operators over a batch of accelerators: an (n, o) table of times.

Arrays are (n, o) unless said otherwise; what depends on the design alone is (n, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.evaluators.npu.options import ACCUMULATOR_BYTES, MATRIX_SHARE, NpuOptions
from codesign.evaluators.npu.placement import TierShares
from codesign.evaluators.npu.traffic import (
    Passes,
    array_passes,
    blocked_passes,
    read_off_chip_bytes,
    streamed_passes,
)
from codesign.hardware.accelerator import AcceleratorBatch
from codesign.hardware.array import (
    DATAFLOWS,
    ORGANIZATIONS,
    flattened_cycles,
    flattened_score_cycles,
    ideal_cycles,
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


def sum_over_operators(values: FloatArray, count: FloatArray) -> FloatArray:
    """(n,) sums over a pass of (n, o) values of single instances.

    Not a matrix product: the order in which that adds depends on a design's position in the
    batch, and so would the last digit of its result.
    """
    return np.asarray(np.einsum("no,o->n", values, count))


@dataclass(frozen=True)
class Setup:
    """What ``n`` designs bring to a pass.

    Attributes:
        accelerators: The hardware.
        weight_bytes: (n, 1) bytes of a weight.
        activation_bytes: (n, 1) bytes of an activation.
        kv_bytes: (n, 1) bytes of an element of the KV cache.
        organization: (n, 1) positions in ``ORGANIZATIONS``.
        dataflow: (n, 1) positions in ``DATAFLOWS``.
        bandwidth_priority: (n, 1) positions in ``BANDWIDTH_PRIORITIES``.
        batch_size: (n, 1) requests processed together in the pass.
        on_chip_bytes: (3, n) what each kind of data has on chip.
        pinned: (3, n) the share of all data of each kind that this is.
        shares: Where the rest lives.
        shape: (n,) which of the ``u`` distinct combinations of array, dataflow and batch size
            each design has; what depends on those alone is computed ``u`` times.
        representative: (u,) position of one design of each.
    """

    accelerators: AcceleratorBatch
    weight_bytes: FloatArray
    activation_bytes: FloatArray
    kv_bytes: FloatArray
    organization: IntArray
    dataflow: IntArray
    bandwidth_priority: IntArray
    batch_size: FloatArray
    on_chip_bytes: FloatArray
    pinned: FloatArray
    shares: TierShares
    shape: IntArray
    representative: IntArray


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
        summed = {name: sum_over_operators(value, count) for name, value in vars(self).items()}
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


@dataclass(frozen=True)
class Shapes:
    """What depends on array, dataflow and batch size alone; arrays are (u, o).

    Attributes:
        cycles: Of the matrix array, for one instance of each operator.
        rows: Rows of each product.
        n_products: Products of one instance; at least 1.
        weights_read: Weight elements of one instance.
        near: How often the array streams each operand.
    """

    cycles: FloatArray
    rows: FloatArray
    n_products: FloatArray
    weights_read: FloatArray
    near: Passes


def is_shared_freely(setup: Setup, options: NpuOptions) -> BoolArray:
    """(n, 1) whether weights, KV cache and activations have no fixed shares of the bandwidth."""
    by_design = setup.bandwidth_priority == BANDWIDTH_PRIORITIES.index("shared")
    return np.asarray(by_design | (options.bandwidth_sharing == "shared"))


class Pass:
    """The operators of one pass, ready for any batch of designs.

    Args:
        table: All operators of the pass.
        options: Resolved options.
    """

    def __init__(self, table: OperatorTable, options: NpuOptions) -> None:
        self.all_operators = table
        self.options = options
        # Fused, an elementwise operator works on tiles that are on chip anyway; only what it
        # adds to the KV cache and its own weights move.
        moves = np.logical_or(~table.is_kind("vector"), not options.fused)
        has_traffic = moves | (table.weight_elements + table.kv_written_elements_per_request > 0)
        self.positions: IntArray = np.flatnonzero(has_traffic)
        self.table = table.take(self.positions)
        self.moves_activations = moves[self.positions]
        queries = np.maximum(self.table.m_per_request / table.tokens_per_request, 1.0)
        self.is_score = self.table.is_kind("attention_qk")
        self.heads = np.where(self.is_score, queries, 1.0)
        is_attention = self.is_score | self.table.is_kind("attention_pv")
        self.queries = np.where(is_attention, queries, 1.0)

    def vector_operations(self, batch_size: FloatArray) -> FloatArray:
        """(n,) operations of the vector unit in one pass; ``batch_size`` is (n,)."""
        table = self.all_operators
        return batch_size * float(table.vector_ops_per_request @ table.count)

    def multiply_accumulates(self, batch_size: FloatArray) -> FloatArray:
        """(n,) useful multiply-accumulates in one pass; ``batch_size`` is (n,)."""
        return batch_size * float(self.table.mac_per_request @ self.table.count)

    def cycles(self, setup: Setup) -> FloatArray:
        """(n, o) cycles of the matrix array for one instance of each operator."""
        return self.shapes(setup).cycles[setup.shape]

    def shapes(self, setup: Setup) -> Shapes:
        """Cycles and streams of every distinct array, dataflow and batch size."""
        hardware, one = setup.accelerators, setup.representative
        return self.shapes_of(
            hardware.array_depth[one, None],
            hardware.array_width[one, None],
            setup.organization[one],
            setup.dataflow[one],
            setup.batch_size[one],
        )

    def shapes_of(
        self,
        depth: FloatArray,
        width: FloatArray,
        organization: IntArray,
        dataflow: IntArray,
        batch: FloatArray,
    ) -> Shapes:
        """Cycles and streams of ``u`` arrays; every argument is (u, 1)."""
        table = self.table
        m = table.rows_per_product(batch)
        n_products = table.n_products(batch)
        cycles = self._cycles_per_product(m, depth, width, organization, dataflow)
        near = array_passes(m / self.heads, table.k, table.n, depth, width, dataflow)
        return Shapes(
            cycles=np.where(n_products > 0, cycles * n_products, 0.0),
            rows=np.broadcast_to(m, cycles.shape),
            n_products=np.broadcast_to(np.maximum(n_products, 1.0), cycles.shape),
            weights_read=np.broadcast_to(table.weights_read(batch), cycles.shape),
            near=near,
        )

    def _cycles_per_product(
        self,
        m: FloatArray,
        depth: FloatArray,
        width: FloatArray,
        organization: IntArray,
        dataflow: IntArray,
    ) -> FloatArray:
        k, n = self.table.k, self.table.n
        flattened = np.where(
            self.is_score,
            flattened_score_cycles(m, k, n, self.heads, depth, width),
            flattened_cycles(m, k, n, depth, width),
        )
        systolic = np.select(
            [dataflow == code for code in range(len(DATAFLOWS))],
            [systolic_cycles(m, k, n, depth, width, flow) for flow in DATAFLOWS],
        )
        by_organization = (flattened, systolic, ideal_cycles(m, k, n, depth, width))
        return np.select(
            [organization == code for code in range(len(ORGANIZATIONS))], by_organization
        )

    def moved(self, setup: Setup) -> Moved:
        """What one instance of each operator moves."""
        table, batch, held = self.table, setup.batch_size, setup.on_chip_bytes[:, :, None]
        shapes = self.shapes(setup)
        weights = shapes.weights_read[setup.shape] * setup.weight_bytes
        kv = table.kv_read_elements_per_request * setup.kv_bytes
        per_activation = batch * setup.activation_bytes
        inputs = (table.input_elements_per_request * self.moves_activations) * per_activation
        outputs = (table.output_elements_per_request * self.moves_activations) * per_activation
        far = self._far_passes(setup, shapes, weights + kv * batch, inputs)
        near = Passes(*(np.asarray(item)[setup.shape] for item in shapes.near))
        # Streamed anew for every tile of the array, an operand is pinned or not; only a compiler
        # that blocks for the on-chip memory keeps the operand at hand there.
        cache = held if self.options.blocking == "capacity" else np.zeros((3, 1, 1))
        pinned = setup.pinned[:, :, None]
        resident = np.minimum(1.0, held[0] / np.maximum(inputs + outputs, 1.0))
        spilled = 1.0 - resident
        sums = outputs * (ACCUMULATOR_BYTES / setup.activation_bytes) * near.spills
        far_sums = outputs * far.spills
        kv_reads = read_off_chip_bytes(kv, far.stationary, pinned[1], cache[1])
        return Moved(
            array_reads=(weights + kv * batch) * near.stationary + inputs * near.inputs + sums,
            array_writes=outputs + sums,
            weight_reads=read_off_chip_bytes(weights, far.stationary, pinned[2], cache[2]),
            kv_reads=batch * kv_reads,
            kv_writes=table.kv_written_elements_per_request
            * (batch * setup.kv_bytes * (1.0 - pinned[1])),
            activation_reads=(inputs * far.inputs + far_sums) * spilled,
            activation_writes=(outputs + far_sums) * spilled,
        )

    def _far_passes(
        self, setup: Setup, shapes: Shapes, stationary: FloatArray, inputs: FloatArray
    ) -> Passes:
        """How often what is not resident has to come from off chip."""
        table, hardware, one = self.table, setup.accelerators, setup.representative
        if self.options.blocking == "array":
            depth, width = hardware.array_depth[one, None], hardware.array_width[one, None]
            # The query heads of a group share what is streamed of their keys and values.
            rows = shapes.rows / self.queries
            passes = streamed_passes(rows, table.k, depth, width, setup.dataflow[one])
            return Passes(*(np.asarray(item)[setup.shape] for item in passes))
        per_product = 1.0 / shapes.n_products[setup.shape]
        return blocked_passes(
            shapes.rows[setup.shape],
            table.n,
            stationary * per_product,
            inputs * per_product,
            hardware.levels.capacity_bytes[0][:, None],
            setup.dataflow,
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
        is_active = on_chip > 0
        tile = self._tile_bytes(setup, chunk)
        streams = self._stream_times(setup, moved, chunk, tile)
        if options.streams == "serial":
            transfer = np.add.reduce(streams)
        else:
            transfer = np.maximum.reduce(streams)
        usable = options.offchip_efficiency or 1.0
        # The first chunk is no larger than all that comes.
        first = np.minimum(tile, moved.array_reads)
        near_fill = levels.latency_s[0][:, None] + first * port_rate
        first_tier = (
            levels.latency_s[1][:, None]
            + np.minimum(tile, from_tiers)
            * inverse(usable * levels.bandwidth_bytes_per_s[1])[:, None]
        )
        exposed = (near_fill + first_tier * (from_tiers > 0)) * is_active
        on_chip = (on_chip + levels.latency_s[0][:, None]) * is_active
        time = np.maximum(compute + exposed, np.maximum(on_chip, transfer))
        return PassTimes(compute, on_chip, transfer, time)

    def _tile_bytes(self, setup: Setup, chunk: FloatArray) -> FloatArray:
        """What the array holds of an operator's weights or of its keys or values."""
        hardware, table = setup.accelerators, self.table
        depth, width = hardware.array_depth[:, None], hardware.array_width[:, None]
        element = np.where(table.is_attention, setup.kv_bytes, setup.weight_bytes)
        clipped = np.minimum(depth, table.k) * np.minimum(width, table.n) * element
        return np.where(table.m_per_request > 0, clipped, chunk)

    def _stream_times(
        self, setup: Setup, moved: Moved, chunk: FloatArray, tile: FloatArray
    ) -> list[FloatArray]:
        """Time of the matrix stream and of the vector stream, or of both as one."""
        levels, options = setup.accelerators.levels, self.options
        tails = setup.shares.tails[..., None]
        kv = moved.kv_reads + moved.kv_writes
        activations = moved.activation_reads + moved.activation_writes
        n_tiers = tails.shape[1]
        matrix = [moved.weight_reads * tails[2, t] + kv * tails[1, t] for t in range(n_tiers)]
        vector = [activations * tails[0, t] for t in range(n_tiers)]
        matrix_reads, vector_reads = moved.weight_reads + moved.kv_reads, moved.activation_reads
        bandwidth = [levels.bandwidth_bytes_per_s[t + 1][:, None] for t in range(n_tiers)]
        usable = options.offchip_efficiency or 1.0
        if options.requests_in_flight is not None:
            latency = [levels.latency_s[t + 1][:, None] for t in range(n_tiers)]
            bandwidth = [
                in_flight_bandwidth_bytes_per_s(b, delay, chunk, options.requests_in_flight)
                for b, delay in zip(bandwidth, latency, strict=True)
            ]
        is_shared = is_shared_freely(setup, options)
        if is_shared.any():
            # Streams without shares of their own are one stream.
            matrix = [a + b * is_shared for a, b in zip(matrix, vector, strict=True)]
            vector = [b * ~is_shared for b in vector]
            matrix_reads = matrix_reads + vector_reads * is_shared
            vector_reads = vector_reads * ~is_shared
        table = np.array([MATRIX_SHARE[name] or 1.0 for name in BANDWIDTH_PRIORITIES])
        share = np.where(is_shared, 1.0, table[setup.bandwidth_priority])
        parts = [
            (matrix, matrix_reads, usable * share),
            (vector, vector_reads, usable * (1.0 - share)),
        ]
        return [
            self._stream_time(setup, crossing, reads > 0, [b * part for b in bandwidth], tile)
            for crossing, reads, part in parts
        ]

    def _stream_time(
        self,
        setup: Setup,
        crossing: list[FloatArray],
        has_reads: BoolArray,
        bandwidth: list[FloatArray],
        tile: FloatArray,
    ) -> FloatArray:
        levels = setup.accelerators.levels
        # Writes are posted: a stream of nothing else waits for no latency.
        latency = [levels.latency_s[t + 1][:, None] * has_reads for t in range(len(crossing))]
        if self.options.topology == "staged":
            time = staged_time_s(crossing, bandwidth, latency, tile)
        else:
            below = [*crossing[1:], np.zeros(())]
            owned = [a - b for a, b in zip(crossing, below, strict=True)]
            time = parallel_time_s(owned, bandwidth, latency)
        landing = np.minimum(tile, crossing[0]) * inverse(levels.bandwidth_bytes_per_s[0])[:, None]
        return np.asarray(time + landing + levels.latency_s[0][:, None] * has_reads)
