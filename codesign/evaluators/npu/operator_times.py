"""One pass of the model's operators over a batch of accelerators: an (n, o) table of times.

Arrays are (n, o) unless said otherwise; what depends on the design alone is (n, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from codesign.base.columns import ArrayDict, ArrayList, BoolArray, FloatArray, IntArray
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.evaluators.npu.prepared_designs import ArrayShape, PreparedDesigns
from codesign.models.hardware.accelerator import AcceleratorBatch
from codesign.models.hardware.array import (
    DATAFLOWS,
    ORGANIZATIONS,
    column_slots,
    filled_rows,
    flattened_cycles,
    ideal_cycles,
    padded_cycles,
    systolic_cycles,
)
from codesign.models.hardware.formula_operations import inverse
from codesign.models.hardware.power import OperationEnergies
from codesign.models.machines.npu.operands import port_operands, vector_operands
from codesign.models.machines.npu.operator_stage import kv_held_shares, operator_cost
from codesign.models.machines.npu.pass_time import port_limited_s, power_limited_s
from codesign.models.machines.npu.stage_records import (
    N_SUMS,
    LeastWork,
    Moved,
    PassTimes,
    Shape,
    StageOperator,
    VectorOperands,
)
from codesign.models.machines.npu.traffic import SCORE_BYTES, array_passes, vector_streams
from codesign.models.workload.lowering import Phase
from codesign.models.workload.operators import OperatorTable

_KV = 1
"""Position of the KV cache among the kinds of data that are placed."""


def sum_over_operators(values: FloatArray, count: FloatArray) -> FloatArray:
    """(n,) sums over a pass of (n, o) values of single instances.

    One operator after the other, as the compiled loop adds them: neither a matrix product nor a
    pairwise sum, whose last digit depends on how they split the work.
    """
    total = np.zeros(len(values))
    for i, times in enumerate(count.tolist()):
        total += values[:, i] * times
    return total


class Pass:
    """The operators of one pass, ready for any batch of designs.

    Args:
        table: All operators of the pass.
        phase: ``prefill`` or ``decode``.
    """

    def __init__(self, table: OperatorTable, options: NpuOptions, phase: Phase) -> None:
        self.all_operators = table
        self.options = options
        self._is_prefill = phase == "prefill"
        self._numbers: dict[ArrayShape, int] = {}
        self.packed: ArrayDict = {}
        # Fused, an elementwise operator works on tiles that are on chip anyway; only what it
        # adds to the KV cache and its own weights move.
        moves = np.logical_or(~table.is_kind("vector"), not options.fused)
        kept = table.kv_written_elements_per_request + table.state_written_bytes_per_request
        self.positions = np.flatnonzero(moves | (table.weight_elements + kept > 0))
        self.table = table.take(self.positions)
        self.moves_activations = moves[self.positions]
        # One weight matrix per head is a set of experts that every token takes.
        n_experts = self.table.n_experts
        has_own_weights = (n_experts > 1) & (n_experts == self.table.experts_per_token)
        self.is_per_head: BoolArray = self.table.is_attention | has_own_weights

    def vector_s(
        self, batch_size: FloatArray, hardware: AcceleratorBatch, activation_bytes: FloatArray
    ) -> FloatArray:
        """(n,) time of the vector unit in one pass: of its lanes, or of its operands at the port.

        Args:
            batch_size: (n,) requests in the pass.
            activation_bytes: (n,) bytes of an activation.
        """
        lane_cycles = batch_size * self.lane_cycles_of_request
        lanes_s = lane_cycles / (hardware.vector_length * hardware.clock_hz)
        moved = batch_size * hardware.scores_on_chip * self._vector_bytes(activation_bytes)
        return np.maximum(lanes_s, moved * inverse(hardware.levels.bandwidth_bytes_per_s[0]))

    def _vector_bytes(self, activation_bytes: FloatArray) -> FloatArray:
        """(n,) bytes that the vector unit reads and writes for one request in one pass."""
        operands = self.vector_operands
        scores = 2.0 * operands.scores * SCORE_BYTES
        return (operands.reads + operands.writes) * activation_bytes + scores

    def vector_joules(
        self,
        batch_size: FloatArray,
        hardware: AcceleratorBatch,
        activation_bytes: FloatArray,
        energies: OperationEnergies,
    ) -> FloatArray:
        """(n,) energy of the vector unit and of its buffer in one pass, without the buffer's
        leakage; the arguments as of :meth:`vector_s`."""
        operators = self.operators
        scores = (operators.scores_in + operators.scores_out) @ operators.instances
        buffered = batch_size * (self._vector_bytes(activation_bytes) + scores * SCORE_BYTES)
        buffered *= hardware.scores_are_local
        table = self.all_operators
        operations = batch_size * float(table.vector_ops_per_request @ table.count)
        joules = operations * energies.lane_joules
        joules += buffered * energies.score_buffer_joules_per_byte
        return joules * energies.clock_scale(hardware.clock_hz)

    @property
    def vector_operands_by_operator(self) -> VectorOperands:
        """(o,) operands of the vector unit in one instance of each operator, for one request."""
        is_by_operation = self.options.blocking == "array"
        return vector_operands(self.all_operators, self.options.fused, is_by_operation)

    @cached_property
    def vector_operands(self) -> VectorOperands:
        """Operands of the vector unit for one request in one pass."""
        count = self.all_operators.count
        each = self.vector_operands_by_operator
        sums = [values @ count for values in each]  # numbers, as the compiled loop needs
        return VectorOperands(*sums)

    @cached_property
    def lane_cycles_of_request(self) -> float:
        """Cycles of one vector lane for one request in one pass."""
        return float(self.lane_cycles_per_request @ self.all_operators.count)

    @cached_property
    def lane_cycles_per_request(self) -> FloatArray:
        """(o,) of one instance of all operators: one per operation, or per score that goes through
        the pipeline of a softmax, as those of each head of an indexer do."""
        table = self.all_operators
        if self.options.softmax == "unpipelined":
            return table.vector_ops_per_request
        scored = table.m_per_request * table.n * table.products_per_request
        return np.select(
            [table.is_softmax, table.is_kind("attention_qk") & (table.vector_ops_per_request > 0)],
            [table.score_read_elements_per_request, scored],
            table.vector_ops_per_request,
        )

    def multiply_accumulates(self, batch_size: FloatArray) -> FloatArray:
        """(n,) useful multiply-accumulates in one pass; ``batch_size`` is (n,)."""
        return batch_size * float(self.table.mac_per_request @ self.table.count)

    @cached_property
    def operators(self) -> StageOperator:
        """(o,) what the innermost formulas need of each operator."""
        table = self.table
        return StageOperator(
            instances=table.count,
            k=table.k,
            n=table.n,
            has_rows=table.m_per_request > 0,
            is_attention=table.is_attention,
            is_gathered=table.is_routed,
            inputs=table.input_elements_per_request * self.moves_activations,
            outputs=table.output_elements_per_request * self.moves_activations,
            kv_read=table.kv_read_elements_per_request,
            kv_written=table.kv_written_elements_per_request,
            state_read=table.state_read_bytes_per_request,
            state_written=table.state_written_bytes_per_request,
            **port_operands(table, self.options.score_path != "uncharged"),
        )

    def numbers(self, shapes: Sequence[ArrayShape]) -> IntArray:
        """(u,) positions of arrays with batch sizes in ``shape_table`` and ``least_work_table``."""
        missing = [shape for shape in dict.fromkeys(shapes) if shape not in self._numbers]
        if missing:
            values = zip(*((*array, size) for array, size in missing), strict=True)
            columns = [np.array(of_column)[:, None] for of_column in values]
            every = np.stack(np.broadcast_arrays(*self.shapes_of(*columns)))
            least = np.stack(self._least_work(Shape(*every), columns[0], columns[-1][:, 0]))
            if self._numbers:
                every = np.concatenate([self.shape_table, every], axis=1)
                least = np.concatenate([self.least_work_table, least], axis=1)
            self.shape_table = every
            self.least_work_table = least
            self._numbers |= {shape: len(self._numbers) + i for i, shape in enumerate(missing)}
            self.packed = {}
        return np.array([self._numbers[shape] for shape in shapes], np.int64)

    shape_table: FloatArray
    """(9, s, o) the fields of ``Shape`` of all arrays and batch sizes so far."""
    least_work_table: FloatArray
    """(8, s) the fields of ``LeastWork``, likewise: what a pass needs wherever data live."""
    packed: ArrayDict
    """Both tables in the layout of the compiled loop, by name; emptied when a table grows."""

    def shapes(self, shapes: Sequence[ArrayShape]) -> FloatArray:
        """(9, u, o) the fields of ``Shape`` of arrays with batch sizes."""
        numbers = self.numbers(shapes)  # before the table, to which it adds
        return self.shape_table[:, numbers]

    def _least_work(self, shapes: Shape, depth: FloatArray, size: FloatArray) -> LeastWork:
        """(u,) least work of arrays with batch sizes; ``depth`` is (u, 1) and ``size`` (u,)."""
        table = self.table
        tile = np.minimum(depth, table.k) * shapes.first_columns
        kv = table.kv_read_elements_per_request
        own = table.is_attention
        multiplies = table.m_per_request > 0
        reads_weights = multiplies & ~own & (table.weights_read(np.ones((1, 1)))[0] > 0)
        reads_kv = multiplies & own & (kv > 0)

        def total(values: FloatArray, which: BoolArray) -> FloatArray:
            return np.asarray((values * table.count)[..., which].sum(axis=-1))

        everywhere = np.ones_like(own)
        return LeastWork(
            shared_cycles=total(shapes.cycles, ~own),
            own_cycles=total(shapes.cycles, own),
            weight_elements=total(shapes.weights_read, everywhere),
            kv_elements=total(kv, everywhere) * size,
            weight_operators=total(np.ones_like(tile), reads_weights),
            kv_operators=total(np.ones_like(tile), reads_kv),
            weight_tiles=total(np.minimum(tile, shapes.weights_read), reads_weights),
            kv_tiles=total(np.minimum(tile, kv), reads_kv),
        )

    def shapes_of(
        self,
        depth: FloatArray,
        width: FloatArray,
        organization: IntArray,
        dataflow: IntArray,
        is_local: BoolArray,
        batch: FloatArray,
    ) -> Shape:
        """(u, o) cycles and streams of ``u`` arrays; every argument is (u, 1).

        Args:
            is_local: Whether a buffer holds the tiles of scores.
        """
        table = self.table
        is_padded = self.options.work == "padded"
        m = table.rows_per_product(batch)
        n_products = table.n_products(batch)
        slots = column_slots(table.k, depth, organization, self.is_per_head)
        k = table.k
        n = table.n
        count = np.maximum(n_products, 1.0)
        if is_padded:
            flattened = padded_cycles(m, k, n, depth, width, slots)
        else:
            flattened = flattened_cycles(m, k, n * count, depth, width, slots) / count
        systolic = np.select(
            [dataflow == code for code in range(len(DATAFLOWS))],
            [systolic_cycles(m, k, n, depth, width, flow) for flow in DATAFLOWS],
        )
        by_organization = (flattened, systolic, ideal_cycles(m, k, n, depth, width))
        each = np.select(
            [organization == code for code in range(len(ORGANIZATIONS))], by_organization
        )
        cycles = np.where(n_products > 0, each * n_products, 0.0)
        near_stationary, near_inputs, near_spills = array_passes(
            m, k, n, depth, width, dataflow, organization, slots
        )
        # A tile of scores has BLEN rows, and the next one needs the keys and values again.
        is_scored = (self.operators.scores_in + self.operators.scores_out > 0) & is_local
        row_blocks = np.maximum(np.ceil(m / width), 1.0)
        near_stationary = np.where(
            is_scored, np.maximum(near_stationary, row_blocks), near_stationary
        )
        is_streamed = (organization == ORGANIZATIONS.index("flattened")) & (not is_padded)
        columns = np.where(is_streamed, slots, slots * width)
        is_product = table.m_per_request > 0
        return Shape(
            cycles=cycles,
            active_cycles=cycles * np.where(is_streamed, filled_rows(m, width), 1.0),
            rows=np.broadcast_to(m, cycles.shape),
            per_product=np.broadcast_to(1.0 / count, cycles.shape),
            weights_read=np.broadcast_to(table.weights_read(batch), cycles.shape),
            first_columns=np.where(is_product, np.minimum(columns, n), columns / slots),
            near_stationary=near_stationary,
            near_inputs=near_inputs,
            near_spills=near_spills,
        )


class Stage:
    """Traffic and times of the operators of a pass on ``n`` designs, computed when asked for."""

    def __init__(self, designs: PreparedDesigns) -> None:
        self._pass = designs.preparation.pass_
        self._designs = designs

    @cached_property
    def _shape(self) -> Shape:
        return Shape(*self._pass.shapes(self._designs.shapes)[:, self._designs.shape])

    @cached_property
    def _group_costs(self) -> list[tuple[FloatArray, Moved, PassTimes]]:
        """Share (n,) of each group of layers, and (n, o) traffic and times of its operators."""
        operators = self._pass.operators
        placed = self._designs.placed
        modelling = self._designs.preparation.modelling
        return [
            (share, *operator_cost(operators, self._shape, placed, width[:, None], modelling))
            for share, width in zip(*self._designs.weight_groups, strict=True)
        ]

    @property
    def moved(self) -> Moved:
        """(n, o) what one instance of each operator moves, on average over the layers."""
        return Moved(*self._averages([moved for _, moved, _ in self._group_costs]))

    @property
    def times(self) -> PassTimes:
        """(n, o) how long one instance of each operator takes, on average over the layers."""
        return PassTimes(*self._averages([times for _, _, times in self._group_costs]))

    def _averages(self, of_groups: Sequence[Sequence[FloatArray]]) -> ArrayList:
        """(n, o) means of every field over the groups, weighted by their shares."""
        if len(of_groups) == 1:
            return list(of_groups[0])
        shares = self._designs.weight_groups.shares[:, :, None]
        fields = [np.stack(np.broadcast_arrays(*values)) for values in zip(*of_groups, strict=True)]
        return [(shares * values).sum(axis=0) for values in fields]

    @property
    def active_cycles(self) -> FloatArray:
        """(n, o) cycles of the array for one instance, weighted by the rows that draw power."""
        return self._shape.active_cycles

    @cached_property
    def operator_sums(self) -> FloatArray:
        """(9, n) sums over the pass: seconds, active cycles, bytes in the order of ``Moved``."""
        count = self._pass.table.count
        sums = np.zeros((N_SUMS, len(self._designs)))
        for share, moved, times in self._group_costs:
            tables = (times.time_s, self.active_cycles, *moved)
            sums += share * np.stack([sum_over_operators(values, count) for values in tables])
        return sums

    @property
    def totals(self) -> FloatArray:
        """(s, n) the numbers of :class:`codesign.models.machines.npu.stage_records.PassTotals`.

        The seconds are longer than those of the operators where a memory is at its power limit, or
        where the vector unit's operands fill the on-chip port.
        """
        sums = self.operator_sums.copy()
        placed = self._designs.placed
        moved = Moved(*sums[2:, :, None])
        vector = vector_streams(self._pass.vector_operands, placed)
        reads, writes = (traffic[..., 0] for traffic in self._designs.port_traffic(moved, vector))
        levels = self._designs.accelerators.levels
        of_vector = (vector[0][:, 0], vector[1][:, 0])
        byte_s = placed.on_chip_byte_s[:, 0]
        modelling = self._designs.preparation.modelling
        port_s = port_limited_s(reads[0], writes[0], of_vector, byte_s, modelling)
        sums[0] = np.maximum(sums[0], port_s)
        bandwidth = levels.bandwidth_bytes_per_s
        ratio = levels.write_energy_ratio
        sums[0] = np.maximum(sums[0], power_limited_s(reads, writes, bandwidth, ratio))
        held = kv_held_shares(placed.pinned[_KV], placed.kv_tails)
        return np.concatenate([sums, reads, writes, np.stack(held)[..., 0]])
