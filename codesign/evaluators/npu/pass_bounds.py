"""Least time and energy of a pass, whatever is still undecided of a design.

A pass takes at least as long as each unit needs for the work of all operators together: the
array for its cycles, each port for the bytes that must cross it, the vector unit for its
operations. (The evaluator takes the longest unit operator by operator, so it is never below.)
What placement decides counts with the best placement:

- Pinned on chip, weights and KV cache each have all of its memory; every operand is read once
  at least, or as often as ``array`` blocking streams it.
- Every byte from off chip crosses the port of the fastest tier once at least, where bytes pass from
  tier to tier in any order; else the tiers share the bytes by their bandwidths.
- Of weights and KV cache, what exceeds the capacity of a set of tiers lives in the others, and
  crosses a port of theirs as often as the less read of the two is read.
- The first chunk of a transfer and all latencies count as nothing; activations that do not fit
  on chip likewise.
- Layers of several formats count as if every weight had their average. What a pass takes at least
  is the largest of straight lines in the bytes of a weight, so its mean over layers is never less.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.evaluators.npu.npu_options import (
    account_constants,
    link_time,
)
from codesign.evaluators.npu.operator_times import Pass
from codesign.evaluators.npu.preparation import Preparation
from codesign.models.hardware.accelerator import AcceleratorBatch, take
from codesign.models.hardware.hierarchy import inverse
from codesign.models.hardware.tier_order import worth_trying
from codesign.models.machines.npu.calibrated import (
    busiest_s,
    known_tiers,
    off_chip_passes,
    scale_bytes,
)
from codesign.models.machines.npu.operator_stage import pinned_shares
from codesign.models.machines.npu.pass_time import ROUNDING, whole_pass_s
from codesign.models.machines.npu.traffic import ACCUMULATOR_BYTES, SCORE_BYTES

_WIDEST_BYTES = 4.0
"""No number format is wider."""


class ArrayChoice(NamedTuple):
    """An array of a design, and what is open of it.

    Attributes:
        depth: Rows.
        width: Columns.
        dataflows: Positions in ``DATAFLOWS`` of those that are possible.
        organization: Position in ``ORGANIZATIONS``.
        is_local: Whether a buffer holds the tiles of scores.
    """

    depth: float
    width: float
    dataflows: IntArray
    organization: int
    is_local: bool


class _Totals(NamedTuple):
    """Sums over the operators of a pass for one array, dataflow and batch size.

    Elements, of ``near`` between array and on-chip memory, of ``far`` from off chip; states in
    bytes.
    """

    cycles: float
    active_cycles: float
    near_weights: float
    near_kv: float
    near_activations: float
    near_scores: float
    outputs: float
    written_near_kv: float
    written_near_state: float
    written_scores: float
    sums: float
    near_state: float
    far_weights: float
    far_kv: float
    far_state: float
    written_kv: float
    written_state: float


@dataclass(frozen=True)
class BestInputs:
    """The best case of ``n`` designs; every array is (n,) or (l, n).

    Attributes:
        hardware: With the longest vector that is possible, the fastest tier first.
        tdp_watts: With the shortest.
        array_watts: Of the array, at least; 0 where the TDP is stated.
        weight_bytes: Of an element, at least; likewise the others.
        smallest_batch: That the policy may choose.
        largest_batch: Likewise, with the narrowest formats.
        matrix_share: Of the off-chip bandwidth for weights and KV cache, at most.
        array: Position of each design's array, dataflow where decided, and organization.
    """

    hardware: AcceleratorBatch
    tdp_watts: FloatArray
    array_watts: FloatArray
    weight_bytes: FloatArray
    activation_bytes: FloatArray
    kv_bytes: FloatArray
    smallest_batch: FloatArray
    largest_batch: FloatArray
    matrix_share: FloatArray
    array: IntArray

    def take(self, positions: IntArray) -> BestInputs:
        """The case of some of the designs."""
        if len(positions) == len(self.array):
            return self
        taken_fields = {
            field.name: getattr(self, field.name)[positions]
            for field in fields(self)
            if field.name != "hardware"
        }
        return BestInputs(hardware=take(self.hardware, positions), **taken_fields)


class PassBounds:
    """Bounds on passes over the operators of one workload.

    Args:
        preparation: The part of the model on a device, and its largest activations.
    """

    def __init__(self, pass_: Pass, preparation: Preparation) -> None:
        options = preparation.options
        self.modelling = preparation.modelling
        self._pass = pass_
        self._part = preparation.part
        self._data_share = preparation.data_share
        self._largest_activations = preparation.largest_activations
        self._options = options
        self._link = link_time(preparation.part, options)
        self._energies = account_constants(options).operation_energies
        self._totals: dict[tuple[float | bool, ...], _Totals] = {}

    def least(
        self,
        case: BestInputs,
        arrays: list[ArrayChoice],
        in_pass: float,
        held: float,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Least time, energy and dynamic energy of a pass with so many requests in it and held."""
        hardware = case.hardware
        levels = hardware.levels
        present = np.unique(case.array)
        table = np.zeros((len(arrays), len(_Totals._fields)))
        for number in present.tolist():
            array = arrays[number]
            of_flows = [self._summed(array, flow, in_pass) for flow in array.dataflows.tolist()]
            table[number] = np.min(of_flows, axis=0)
        totals = _Totals(*table[case.array].T)
        weights, kv, written = self._off_chip_bytes(case, totals, held)
        moved = weights + kv + written
        near_reads, near_writes = self._near_bytes(case, totals)
        vector = self._pass.vector_operands
        scores = vector.scores * SCORE_BYTES
        on_port = hardware.scores_on_chip * in_pass
        vector_reads = (vector.reads * case.activation_bytes + scores) * on_port
        vector_writes = (vector.writes * case.activation_bytes + scores) * on_port
        if not self.modelling.is_vector_serial:
            near_reads, near_writes = near_reads + vector_reads, near_writes + vector_writes
        on_chip = (near_reads + near_writes + moved) * inverse(levels.bandwidth_bytes_per_s[0])
        if self.modelling.is_vector_serial:
            near_reads, near_writes = near_reads + vector_reads, near_writes + vector_writes
        compute = totals.cycles / hardware.clock_hz
        off_chip = self._off_chip_s(case, totals, moved, in_pass, held)
        matrix = busiest_s(compute, on_chip, off_chip, self.modelling)
        requests = np.full(len(case.array), in_pass)
        operations = self._pass.vector_operations(requests)
        vector_s = self._pass.vector_s(requests, hardware, case.activation_bytes)
        pass_s = whole_pass_s(matrix, vector_s, self.modelling)
        pass_s = pass_s + self._link.seconds(requests, case.activation_bytes)
        energy = near_reads * levels.read_energy_joules_per_byte[0]
        energy = energy + near_writes * levels.write_energy_joules_per_byte[0]
        exists = levels.exists[1:]
        least_read_energy = np.where(exists, levels.read_energy_joules_per_byte[1:], np.inf)
        energy = energy + (weights + kv) * least_read_energy.min(axis=0, initial=1.0)
        active_s = totals.active_cycles / hardware.clock_hz
        energy = energy + active_s * case.array_watts
        buffered = self._pass.score_buffer_bytes(requests, case.activation_bytes)
        buffered = buffered * hardware.scores_are_local
        energies = self._energies
        vector_joules = operations * energies.lane_joules
        vector_joules = vector_joules + buffered * energies.score_buffer_joules_per_byte
        energy = energy + vector_joules * energies.at_clock(hardware.clock_hz)
        sent = self._link.sent_bytes(requests, case.activation_bytes)
        dynamic = (energy + sent * self._options.link_energy) * self._part.n_devices
        at_rest = hardware.background_watts * self._part.n_devices
        energy = dynamic + at_rest * pass_s
        return pass_s * ROUNDING, energy * ROUNDING, dynamic * ROUNDING

    def _near_bytes(self, case: BestInputs, totals: _Totals) -> tuple[FloatArray, FloatArray]:
        """Bytes that the array reads from on-chip memory in a pass and writes to it."""
        sums, on_port = totals.sums * ACCUMULATOR_BYTES, case.hardware.scores_on_chip
        return (
            totals.near_weights * case.weight_bytes
            + totals.near_kv * case.kv_bytes
            + totals.near_state
            + totals.near_activations * case.activation_bytes
            + totals.near_scores * SCORE_BYTES * on_port
            + sums,
            totals.outputs * case.activation_bytes
            + totals.written_near_kv * case.kv_bytes
            + totals.written_near_state
            + totals.written_scores * SCORE_BYTES * on_port
            + sums,
        )

    def _off_chip_bytes(
        self, case: BestInputs, totals: _Totals, held: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Least bytes of weights and KV cache read, and of KV cache written, in a pass."""
        room = self._data_share * case.hardware.levels.capacity_bytes[0]
        weights, kv = self._resident_bytes(case, held)
        # Each has all of the room, so what is off chip is so in any placement.
        _, pinned_kv, pinned_weights = pinned_shares((room, room, room), (kv, kv, weights))
        loose_weights, loose_kv = 1.0 - pinned_weights, 1.0 - pinned_kv
        scale = scale_bytes(self.modelling)
        kv_read = totals.far_kv * (case.kv_bytes + scale) + totals.far_state
        kv_written = totals.written_kv * (case.kv_bytes + scale) + totals.written_state
        return (
            totals.far_weights * (case.weight_bytes + scale) * loose_weights,
            kv_read * loose_kv,
            kv_written * loose_kv,
        )

    def _resident_bytes(self, case: BestInputs, held: float) -> tuple[FloatArray, FloatArray]:
        kv = self._part.kv_elements_per_request * case.kv_bytes
        kv = (kv + self._part.state_bytes_per_request) * held
        return self._part.weight_elements * case.weight_bytes, kv

    def _off_chip_s(
        self, case: BestInputs, totals: _Totals, moved: FloatArray, in_pass: float, held: float
    ) -> FloatArray:
        """Least time of the busiest off-chip port."""
        levels, modelling = case.hardware.levels, self.modelling
        usable = (self._options.offchip_efficiency or 1.0) * case.matrix_share
        rates = usable * known_tiers(levels.bandwidth_bytes_per_s[1:], modelling)
        weights, kv = self._resident_bytes(case, held)
        beyond = np.maximum(weights + kv - levels.capacity_bytes[1], 0.0)
        if not modelling.is_staged:
            elsewhere = moved * beyond * inverse(weights + kv) * inverse(rates[1:].sum(axis=0))
            return np.asarray(np.maximum(moved * inverse(rates.sum(axis=0)), elsewhere))
        per_byte = self._least_reads(case, totals, held)
        fastest = moved * inverse(rates[0])
        others = levels.capacity_bytes[2:].sum(axis=0)
        # What exceeds all tiers lives in the last, which may be the fastest.
        activations = _WIDEST_BYTES * self._largest_activations * in_pass
        surely = np.maximum(np.minimum(beyond, others - activations), 0.0)
        in_any_order = surely * per_byte * inverse(rates[1:].sum(axis=0))
        in_this_order = np.zeros_like(beyond)
        for rate, capacity in zip(rates[1:], levels.capacity_bytes[2:], strict=True):
            in_this_order = np.maximum(in_this_order, beyond * per_byte * inverse(rate))
            beyond = np.maximum(beyond - capacity, 0.0)
        orders = worth_trying(
            levels.bandwidth_bytes_per_s[1:],
            levels.capacity_bytes[1:],
            levels.write_energy_ratio[1:],
        )
        # Few requests in flight slow down some tiers more than others.
        is_certain = ~orders[1:].any(axis=0) & (self._options.requests_in_flight is None)
        deeper = np.where(is_certain, in_this_order, in_any_order)
        return np.asarray(np.maximum(fastest, deeper))

    def _least_reads(self, case: BestInputs, totals: _Totals, held: float) -> FloatArray:
        """Least number of times that a pass reads a resident byte of weights or KV cache."""
        weights, kv, _ = self._off_chip_bytes(case, totals, held)
        resident_weights, resident_kv = self._resident_bytes(case, held)
        by_weights = weights / np.maximum(resident_weights, 1.0)
        by_kv = kv / np.maximum(resident_kv, 1.0)
        return np.where(resident_kv > 0, np.minimum(by_weights, by_kv), by_weights)

    def _summed(self, array: ArrayChoice, dataflow: int, batch: float) -> _Totals:
        key = (array.depth, array.width, array.organization, dataflow, array.is_local, batch)
        if key not in self._totals:
            self._totals[key] = self._sum(*(np.array([[value]]) for value in key))
        return self._totals[key]

    def _sum(
        self,
        d: FloatArray,
        w: FloatArray,
        kind: IntArray,
        flow: IntArray,
        is_local: BoolArray,
        b: FloatArray,
    ) -> _Totals:
        pass_, table, batch = self._pass, self._pass.table, float(b[0, 0])
        operators = pass_.operators
        shapes = pass_.shapes_of(d, w, kind, flow, is_local, b)
        far, far_kv = off_chip_passes(shapes.rows, table.m_per_request > 0, w, flow, self.modelling)
        kv, state = operators.kv_read * batch, operators.state_read * batch
        streamed = operators.inputs * shapes.near_inputs
        streamed = streamed + operators.port_activations * shapes.near_stationary
        outputs = (operators.outputs + operators.port_outputs) * batch
        stored = operators.port_kv_written * batch

        def total(values: FloatArray) -> float:
            return float((np.broadcast_to(values, (1, len(table)))[0] * table.count).sum())

        return _Totals(
            cycles=total(shapes.cycles),
            active_cycles=total(shapes.active_cycles),
            near_weights=total(shapes.weights_read * shapes.near_stationary),
            near_kv=total(operators.port_kv * batch * shapes.near_stationary),
            near_activations=total(streamed * batch),
            near_scores=total(operators.scores_in * batch * shapes.near_inputs),
            outputs=total(outputs),
            written_near_kv=total(stored),
            written_near_state=total(operators.port_state_written * batch),
            written_scores=total(operators.scores_out * batch),
            sums=total((outputs + stored) * shapes.near_spills),
            near_state=total(state * shapes.near_stationary),
            far_weights=total(shapes.weights_read * far),
            far_kv=far_kv * total(kv),
            far_state=far_kv * total(state),
            written_kv=far_kv * total(operators.kv_written * batch),
            written_state=far_kv * total(operators.state_written * batch),
        )
