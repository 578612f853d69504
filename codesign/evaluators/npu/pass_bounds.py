"""Least time and energy of a pass, whatever is still undecided of a design.

A pass takes at least as long as each unit needs for the work of all operators together: the
array for its cycles, each port for the bytes that must cross it, the vector unit for its
operations. (The evaluator takes the longest unit operator by operator, so it is never below.)
Groups of operators follow one another, so their least times add up; see ``_Totals``. What placement
decides counts with the best placement:

- Weights and KV cache pinned on chip each have the whole on-chip memory. Every operand is read at
  least once, or as often as ``array`` blocking streams it.
- Where bytes pass from tier to tier, in any order, each off-chip byte crosses the port of the front
  tier once, and twice if it lives in another tier. Elsewhere the tiers share the bytes by their
  bandwidths.
- Of weights and KV cache, what exceeds the capacity of a set of tiers lives in the others, and
  crosses a port of theirs as often as the less read of the two is read.
- A first tile and a latency are those of the quickest memory. Activations that do not fit on chip
  count as nothing.
- Layers of several formats count as if every weight had their average. The least time of a
  pass is convex in the bytes of a weight, so its value at the average is at most its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from codesign.base.columns import (
    ArrayPair,
    ArrayTriple,
    BoolArray,
    FloatArray,
    IntArray,
    IntegerSequence,
)
from codesign.base.records import frozen
from codesign.evaluators.npu.preparation import Preparation
from codesign.models.hardware.accelerator import AcceleratorBatch, take
from codesign.models.hardware.formula_operations import inverse
from codesign.models.hardware.tier_order import worth_trying
from codesign.models.machines.npu.operator_stage import pinned_shares
from codesign.models.machines.npu.pass_time import ROUNDING, whole_pass_s
from codesign.models.machines.npu.traffic import (
    ACCUMULATOR_BYTES,
    SCORE_BYTES,
    array_blocked_passes,
)

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
    dataflows: IntegerSequence
    organization: int
    is_local: bool


class _Totals(NamedTuple):
    """Sums over operators of a pass for an array, dataflow and batch size, by group: (g, ...).

    The groups are products with weights that requests share, products with keys and values of each
    request, and operators without a product: they differ in the unit that is busiest. ``reads`` and
    ``writes`` are elements between array and on-chip memory, (w, g, ...) by their width:
    of weights, KV cache, state, activations, scores and partial sums. Elements of ``far`` come from
    off chip; states are bytes. ``active`` are operators that use the on-chip port,
    ``weight_operators`` and ``kv_operators`` those that wait for a first tile of one of the two,
    ``weight_tiles`` and ``kv_tiles`` these tiles.
    """

    reads: FloatArray
    writes: FloatArray
    cycles: FloatArray
    active_cycles: FloatArray
    far_weights: FloatArray
    far_kv: FloatArray
    far_state: FloatArray
    written_kv: FloatArray
    written_state: FloatArray
    active: FloatArray
    weight_operators: FloatArray
    kv_operators: FloatArray
    weight_tiles: FloatArray
    kv_tiles: FloatArray


_N_WIDTHS = 6
"""Sums of bytes by the width of operands."""
_N_TOTALS = 2 * _N_WIDTHS + len(_Totals._fields) - 2
"""Rows of the tables of totals."""


class _OffChip(NamedTuple):
    """Off-chip bytes read and written, by group (g, n), and (n,) shares that are not on chip."""

    weights: FloatArray
    kv: FloatArray
    written_kv: FloatArray
    loose_weights: FloatArray
    loose_kv: FloatArray


@frozen
class BestInputs:
    """The best case of ``n`` designs; every array is (n,) or (l, n).

    Attributes:
        hardware: Fastest possible hardware, the fastest tier first.
        tdp_watts: Least TDP.
        cycle_joules: Least energy of a cycle of the array with data in all rows; 0 where the TDP
            is stated.
        slowest_hz: Slowest clock.
        weight_bytes: Least bytes of a weight; likewise ``activation_bytes`` and ``kv_bytes``.
        smallest_batch: Smallest batch that the policy may choose.
        largest_batch: Largest batch that the policy may choose, with the narrowest formats.
        matrix_share: Largest share of the off-chip bandwidth for weights and KV cache.
        array: Position of each design's array, dataflow where decided, and organization.
    """

    hardware: AcceleratorBatch
    tdp_watts: FloatArray
    cycle_joules: FloatArray
    slowest_hz: FloatArray
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

    def __init__(self, preparation: Preparation) -> None:
        self.modelling = preparation.modelling
        self._preparation = preparation
        self._pass = preparation.pass_
        self._part = preparation.part
        self._options = preparation.options
        table = self._pass.table
        is_product = table.m_per_request > 0
        is_own = table.is_attention
        self._groups = (is_product & ~is_own, is_product & is_own, ~is_product)
        self._totals: dict[tuple[float | bool, ...], FloatArray] = {}

    def least(
        self,
        case: BestInputs,
        arrays: list[ArrayChoice],
        pass_requests: float,
        held: float,
        has_energy: bool = True,
    ) -> ArrayTriple:
        """Least time, energy and dynamic energy of a pass with so many requests in it and held.

        Args:
            has_energy: False gives 0 for both energies, which nobody asks for.
        """
        hardware = case.hardware
        levels = hardware.levels
        present = np.unique(case.array)
        table = np.zeros((_N_TOTALS, len(self._groups), len(arrays)))
        if len(present):
            table[..., present] = self._summed(
                [arrays[number] for number in present], pass_requests
            )
        rows = table[..., case.array]
        end = 2 * _N_WIDTHS
        totals = _Totals(rows[:_N_WIDTHS], rows[_N_WIDTHS:end], *rows[end:])
        on_port = hardware.scores_on_chip
        fixed = np.ones_like(on_port)
        widths = np.stack([
            case.weight_bytes, case.kv_bytes, fixed, case.activation_bytes, SCORE_BYTES * on_port,
            ACCUMULATOR_BYTES * fixed,
        ])[:, None]  # fmt: skip
        near = [(moved * widths).sum(axis=0) for moved in (totals.reads, totals.writes)]
        off_chip_bytes = self._off_chip_bytes(case, totals, held)
        groups_s = self._groups_s(case, totals, near[0] + near[1], off_chip_bytes, held)
        weights, kv, written = (of_groups.sum(axis=0) for of_groups in off_chip_bytes[:3])
        moved = weights + kv + written
        near_reads, near_writes = (moved.sum(axis=0) for moved in near)
        vector = self._pass.vector_operands
        scores = vector.scores * SCORE_BYTES
        on_port = on_port * pass_requests
        vector_reads = (vector.reads * case.activation_bytes + scores) * on_port
        vector_writes = (vector.writes * case.activation_bytes + scores) * on_port
        near = near_reads + near_writes
        near_reads = near_reads + vector_reads
        near_writes = near_writes + vector_writes
        if not self.modelling.is_vector_serial:
            near = near_reads + near_writes
        on_chip = (near + moved) * inverse(levels.bandwidth_bytes_per_s[0])
        off_chip = self._off_chip_s(case, (weights, kv, written), pass_requests, held)
        matrix = np.maximum(groups_s.sum(axis=0), np.maximum(on_chip, off_chip))
        requests = np.full(len(case.array), pass_requests)
        vector_s = self._pass.vector_s(requests, hardware, case.activation_bytes)
        pass_s = whole_pass_s(matrix, vector_s, self.modelling)
        pass_s += self._preparation.link.seconds(requests, case.activation_bytes)
        if not has_energy:
            return pass_s * ROUNDING, np.zeros_like(pass_s), np.zeros_like(pass_s)
        energy = near_reads * levels.read_energy_joules_per_byte[0]
        energy += near_writes * levels.write_energy_joules_per_byte[0]
        exists = levels.exists[1:]
        least_read_energy = np.where(exists, levels.read_energy_joules_per_byte[1:], np.inf)
        energy += (weights + kv) * least_read_energy.min(axis=0, initial=1.0)
        energy += totals.active_cycles.sum(axis=0) * case.cycle_joules
        slowest = replace(hardware, clock_hz=case.slowest_hz)
        energy += self._pass.vector_joules(
            requests, slowest, case.activation_bytes, self._preparation.energies
        )
        sent = self._preparation.link.sent_bytes(requests, case.activation_bytes)
        dynamic = (energy + sent * self._options.link_energy) * self._part.n_devices
        energy = dynamic + hardware.background_watts * self._part.n_devices * pass_s
        return pass_s * ROUNDING, energy * ROUNDING, dynamic * ROUNDING

    def _groups_s(
        self,
        case: BestInputs,
        totals: _Totals,
        near: FloatArray,
        off_chip_bytes: _OffChip,
        held: float,
    ) -> FloatArray:
        """(g, n) least time of each group of operators.

        Args:
            near: (g, n) bytes between array and on-chip memory.
            off_chip_bytes: Off-chip bytes by group.
        """
        levels = case.hardware.levels
        weights, kv, written, loose_weights, loose_kv = off_chip_bytes
        port_s = inverse(levels.bandwidth_bytes_per_s[0])
        on_chip = (near + weights + kv + written) * port_s
        compute = totals.cycles / case.hardware.clock_hz
        kv_s, written_s = self._slowdowns(case)
        off_chip = (weights + kv * kv_s + written * written_s) * self._byte_s(case, held)
        tiles_weights = totals.weight_tiles * case.weight_bytes
        tiles_kv = totals.kv_tiles * case.kv_bytes
        loose_tiles = tiles_weights * loose_weights + tiles_kv * loose_kv
        latency = np.where(levels.exists[1:], levels.latency_s[1:], np.inf).min(axis=0)
        waiting = totals.weight_operators * (loose_weights > 0)
        waiting = waiting + totals.kv_operators * (loose_kv > 0)
        near_s = levels.latency_s[0]
        rate = (self._options.offchip_efficiency or 1.0) * levels.bandwidth_bytes_per_s[1]
        exposed = totals.active * near_s + (tiles_weights + tiles_kv) * port_s
        exposed = exposed + waiting * latency + loose_tiles * inverse(rate)
        off_chip = off_chip + waiting * (latency + near_s) + loose_tiles * port_s
        on_chip = on_chip + totals.active * near_s
        return np.asarray(np.maximum(compute + exposed, np.maximum(on_chip, off_chip)))

    def _slowdowns(self, case: BestInputs) -> ArrayPair:
        """Least time of a byte of the KV cache, read and written, relative to a streamed byte."""
        levels = case.hardware.levels
        paged, written = (
            np.where(levels.exists[1:], slowdown[1:], np.inf).min(axis=0)
            for slowdown in (levels.paged_slowdown, levels.written_slowdown)
        )
        return paged, written

    def _off_chip_bytes(self, case: BestInputs, totals: _Totals, held: float) -> _OffChip:
        """Least bytes of weights and KV cache read, and of KV cache written, in a pass."""
        room = self._preparation.data_share * case.hardware.levels.capacity_bytes[0]
        weights, kv = self._resident_bytes(case, held)
        # Each has all of the room, so what is off chip is so in any placement.
        _, pinned_kv, pinned_weights = pinned_shares((room, room, room), (kv, kv, weights))
        loose_weights = 1.0 - pinned_weights
        loose_kv = 1.0 - pinned_kv
        return _OffChip(
            totals.far_weights * case.weight_bytes * loose_weights,
            (totals.far_kv * case.kv_bytes + totals.far_state) * loose_kv,
            (totals.written_kv * case.kv_bytes + totals.written_state) * loose_kv,
            loose_weights,
            loose_kv,
        )

    def _resident_bytes(self, case: BestInputs, held: float) -> ArrayPair:
        kv = self._preparation.request_bytes(case.kv_bytes) * held
        return self._part.weight_elements * case.weight_bytes, kv

    def _rates(self, case: BestInputs) -> FloatArray:
        """(t, n) largest rate of each tier for weights and KV cache, in bytes per second."""
        usable = (self._options.offchip_efficiency or 1.0) * case.matrix_share
        return usable * case.hardware.levels.bandwidth_bytes_per_s[1:]

    def _byte_s(self, case: BestInputs, held: float) -> FloatArray:
        """(n,) least seconds of a byte from off chip."""
        rates = self._rates(case)
        if self.modelling.is_staged:
            return inverse(rates[0])
        resident = np.add(*self._resident_bytes(case, held))
        beyond = np.maximum(resident - case.hardware.levels.capacity_bytes[1], 0.0)
        elsewhere = beyond * inverse(resident) * inverse(rates[1:].sum(axis=0))
        return np.asarray(np.maximum(inverse(rates.sum(axis=0)), elsewhere))

    def _off_chip_s(
        self,
        case: BestInputs,
        moved: ArrayTriple,
        pass_requests: float,
        held: float,
    ) -> FloatArray:
        """(n,) least time of the busiest off-chip port.

        Args:
            moved: Bytes of weights and KV cache read, and of KV cache written.
        """
        levels = case.hardware.levels
        rates = self._rates(case)
        weights, kv, written = moved
        kv_s, written_s = self._slowdowns(case)
        slowed = weights + kv * kv_s + written * written_s
        if not self.modelling.is_staged:
            return slowed * self._byte_s(case, held)
        resident_weights, resident_kv = self._resident_bytes(case, held)
        resident = resident_weights + resident_kv
        per_byte = weights / np.maximum(resident_weights, 1.0)
        by_kv = kv / np.maximum(resident_kv, 1.0)
        per_byte = np.where(resident_kv > 0, np.minimum(per_byte, by_kv), per_byte)
        capacity = levels.capacity_bytes[1:]
        # The tier that comes first passes on what lives in all others.
        behind = np.where((capacity > 0).sum(axis=0) > 1, np.maximum(resident - capacity, 0.0), 0.0)
        through = (slowed + behind * per_byte) * inverse(rates)
        fastest = np.where(rates > 0, through, np.inf).min(axis=0)
        beyond = np.maximum(resident - capacity[0], 0.0)
        others = capacity[1:].sum(axis=0)
        # What exceeds all tiers lives in the last, which may be the fastest.
        activations = _WIDEST_BYTES * self._preparation.largest_activations * pass_requests
        surely = np.maximum(np.minimum(beyond, others - activations), 0.0)
        in_any_order = surely * per_byte * inverse(rates[1:].sum(axis=0))
        in_this_order = np.zeros_like(beyond)
        for rate, of_tier in zip(rates[1:], capacity[1:], strict=True):
            in_this_order = np.maximum(in_this_order, beyond * per_byte * inverse(rate))
            beyond = np.maximum(beyond - of_tier, 0.0)
        orders = worth_trying(
            levels.bandwidth_bytes_per_s[1:], capacity, levels.write_energy_ratio[1:]
        )
        # Few requests in flight slow down some tiers more than others.
        is_certain = ~orders[1:].any(axis=0) & (self._options.requests_in_flight is None)
        return np.asarray(np.maximum(fastest, np.where(is_certain, in_this_order, in_any_order)))

    def _summed(self, arrays: Sequence[ArrayChoice], batch: float) -> FloatArray:
        """(t, g, a) least totals of arrays for a batch size, over the dataflows possible."""
        flows = [(array, flow) for array in arrays for flow in array.dataflows]
        keys = [(a.depth, a.width, a.organization, flow, a.is_local, batch) for a, flow in flows]
        missing = [key for key in dict.fromkeys(keys) if key not in self._totals]
        if missing:
            sums = self._sums(*(np.array(values)[:, None] for values in zip(*missing, strict=True)))
            self._totals |= dict(zip(missing, np.moveaxis(sums, -1, 0), strict=True))
        begins = np.cumsum([0, *(len(array.dataflows) for array in arrays)])[:-1]
        every = np.stack([self._totals[key] for key in keys], axis=-1)
        return np.minimum.reduceat(every, begins, axis=-1)

    def _sums(
        self,
        d: FloatArray,
        w: FloatArray,
        kind: IntArray,
        flow: IntArray,
        is_local: BoolArray,
        b: FloatArray,
    ) -> FloatArray:
        """(t, g, a) totals of (a, 1) arrays."""
        table = self._pass.table
        operators = self._pass.operators
        batch = b
        shapes = self._pass.shapes_of(d, w, kind, flow, is_local, b)
        far = np.ones((1, 1))
        if self.modelling.is_array_blocked:
            far, _ = array_blocked_passes(operators, shapes.rows, w, flow)
        kv = operators.kv_read * batch
        state = operators.state_read * batch
        streamed = operators.inputs * shapes.near_inputs
        streamed = streamed + operators.port_activations * shapes.near_stationary
        outputs = (operators.outputs + operators.port_outputs) * batch
        stored = operators.port_kv_written * batch

        shape = shapes.cycles.shape
        groups = [np.where(is_of_group, table.count, 0.0) for is_of_group in self._groups]

        def total(values: FloatArray) -> FloatArray:
            every = np.broadcast_to(values, shape)
            return np.stack([(every * count).sum(axis=1) for count in groups])

        first_tile = np.minimum(d, table.k) * shapes.first_columns
        has_rows = table.m_per_request > 0
        first_tile = np.where(has_rows, first_tile, d * shapes.first_columns)
        weight_tile = np.where(table.is_attention, 0.0, first_tile)
        weight_tile = np.minimum(weight_tile, shapes.weights_read)
        kv_tile = np.where(has_rows & table.is_attention, first_tile, 0.0)
        kv_tile = np.minimum(kv_tile, np.minimum(operators.port_kv * batch, kv))
        near = shapes.near_stationary
        nothing = np.zeros_like(shapes.cycles)
        sums = (outputs + stored) * shapes.near_spills
        rows = [
            shapes.weights_read * near, operators.port_kv * batch * near, state * near,
            streamed * batch, operators.scores_in * batch * shapes.near_inputs, sums,
            nothing, stored, operators.port_state_written * batch, outputs,
            operators.scores_out * batch, sums,
            shapes.cycles, shapes.active_cycles, shapes.weights_read * far, kv, state,
            operators.kv_written * batch, operators.state_written * batch,
            np.sign(shapes.weights_read + streamed + operators.port_kv),
            np.sign(weight_tile), np.sign(kv_tile), weight_tile, kv_tile,
        ]  # fmt: skip
        return np.stack([total(values) for values in rows])
