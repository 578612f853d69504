"""Designs on their way through the evaluator, from their parameters to the operators."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.columns import (
    ArrayPair,
    Arrays,
    ArrayTriple,
    BoolArray,
    FloatArray,
    IntArray,
    IntegerTuple,
    SharedColumns,
    combined,
    compute_once,
    distinct,
    n_designs,
    shared_part,
)
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.evaluators.npu.format_widths import (
    element_bytes,
    groups_of_weights,
    widths_of_operands,
)
from codesign.evaluators.phase_machine import BATCH_SIZE
from codesign.models.hardware.accelerator import (
    AcceleratorBatch,
    positions_of,
    reordered_tiers,
    take,
)
from codesign.models.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.models.hardware.hierarchy import inflight_bandwidth_bytes_per_s
from codesign.models.hardware.tier_order import (
    BY_BANDWIDTH,
    fastest_first,
    keeps_last,
    orders_of,
    worth_trying,
)
from codesign.models.machines.npu.operator_stage import place, resident_bytes
from codesign.models.machines.npu.placement import PRIORITIES, WRITTEN, Two
from codesign.models.machines.npu.stage_records import (
    Moved,
    PlacedDesign,
    StageDesign,
    WeightGroups,
)
from codesign.models.machines.npu.traffic import port_bytes

if TYPE_CHECKING:
    from codesign.evaluators.npu.preparation import Preparation

NOTHING = np.zeros(())
"""No bytes."""

if TYPE_CHECKING:
    hardware_property = cached_property
else:

    class hardware_property(cached_property):  # noqa: N801 # used like its base
        """A property of designs that does not depend on the workload."""

        def __get__(self, designs: PreparedDesigns, owner: type | None = None) -> Any:
            key = self.attrname, designs.preparation.key
            return compute_once(designs.columns, key, partial(self.func, designs))


ArrayKind = tuple[float, float, int, int, bool]
"""Depth, width, organization and dataflow of an array, and whether a buffer holds its scores."""
ArrayShape = tuple[ArrayKind, float]
"""An array with a batch size."""


@frozen
class PreparedDesigns:
    """``n`` designs with a batch size and an order of their tiers.

    What follows from these is worked out when it is first asked for; arrays are (n,) unless said
    otherwise.

    Attributes:
        preparation: What all designs have in common.
        columns: Their parameters.
        listed: Their hardware, the tiers in the order in which the designs list them, so that a sum
            over them does not depend on the order in which they are used.
        chosen_order: (t, n) ``tier_order``, where it has been chosen.
        chosen_size: (n,) ``batch_size``, where it has been chosen.
    """

    preparation: Preparation
    columns: SharedColumns
    listed: AcceleratorBatch
    chosen_order: IntArray | None = None
    chosen_size: FloatArray | None = None

    def __len__(self) -> int:
        return n_designs(self.columns)

    def working(
        self, sizes: FloatArray, order: IntArray, positions: IntArray | None = None
    ) -> PreparedDesigns:
        """The designs with other batch sizes and other orders of their tiers.

        Args:
            sizes: (p,) requests held.
            order: (t, p) which of the tiers, as they stand here, comes at each place.
            positions: (p,) the designs wanted; all of them if None.
        """
        columns = self.columns
        listed = self.listed
        tier_order = self.tier_order
        if positions is not None:
            columns = shared_part(columns, positions)
            listed = take(listed, positions)
            tier_order = tier_order[:, positions]
        elif (order != np.arange(len(order))[:, None]).any():
            columns = SharedColumns(columns)
        tier_order = np.take_along_axis(tier_order, order, axis=0)
        return PreparedDesigns(self.preparation, columns, listed, tier_order, sizes)

    # --- hardware ----------------------------------------------------------------------------

    @hardware_property
    def tier_order(self) -> IntArray:
        """(t, n) which tier of the design, from 0, stands at each place; the fastest comes first.

        Raises:
            InputError: Tiers that wear shall stand last, and bytes do not pass from tier to tier.
        """
        if self.chosen_order is not None:
            return self.chosen_order
        levels = self.listed.levels
        spares = self._spares_wear()
        wearing = (levels.wear_per_byte[1:] > 0) & spares if spares.any() else None
        sustained = self._sustained(self.listed)
        order = fastest_first(sustained, levels.capacity_bytes[1:], wearing)
        if order is None:
            return np.repeat(np.arange(len(sustained))[:, None], len(self), axis=1)
        return order

    @hardware_property
    def accelerators(self) -> AcceleratorBatch:
        """The hardware, the tiers in the order in which they are used."""
        order = self.tier_order
        is_as_listed = (order == np.arange(len(order))[:, None]).all()
        return self.listed if is_as_listed else reordered_tiers(self.listed, order)

    @property
    def tier_bytes_per_s(self) -> FloatArray:
        """(t, n) what each tier sustains."""
        return self._sustained(self.accelerators)

    def _sustained(self, accelerators: AcceleratorBatch) -> FloatArray:
        """(t, n) of each tier: the peak, unless requests in flight are limited."""
        levels = accelerators.levels
        many = self.preparation.modelling.requests_in_flight
        if not many > 0:
            return levels.bandwidth_bytes_per_s[1:]
        chunk_bytes = accelerators.macs_per_cycle * self.weight_bytes
        return inflight_bandwidth_bytes_per_s(
            levels.bandwidth_bytes_per_s[1:], levels.latency_s[1:], chunk_bytes, many
        )

    def _spares_wear(self) -> BoolArray:
        """Whether tiers that wear stand behind all others; a partial design has no say yet."""
        if "storage_priority" not in self.columns:
            return np.zeros(len(self), bool)
        spares = self.storage == WRITTEN
        options = self.preparation.options
        if spares.any() and (options.topology, options.blocking) != ("staged", "capacity"):
            raise InputError(
                "storage_priority 'written' needs topology staged and blocking capacity, as of "
                f"profile plain; got {options.topology} and {options.blocking}. "
                "Nearest: kv"
            )
        return np.asarray(spares)

    @hardware_property
    def allowed_orders(self) -> IntArray:
        """(p, n) True for orders of the tiers that may be the fastest; see ``worth_trying``."""
        levels = self.accelerators.levels
        if not self.preparation.modelling.is_staged:
            only_first = np.zeros((len(orders_of(len(self.tier_order))), len(self)), np.int64)
            only_first[0] = BY_BANDWIDTH
            return only_first
        orders = worth_trying(
            self.tier_bytes_per_s,
            levels.capacity_bytes[1:],
            levels.write_energy_ratio[1:],
            levels.latency_s[1:],
        )
        if (self.storage == WRITTEN).any():
            is_last = (levels.wear_per_byte[1:] > 0) | ~levels.exists[1:]
            orders[(self.storage == WRITTEN) & ~keeps_last(is_last)] = 0
        return orders

    # --- formats and strategies --------------------------------------------------------------

    def _bytes(self, parameter: str) -> FloatArray:
        return self.columns[parameter].lookup(element_bytes(parameter, self.preparation.convention))

    @hardware_property
    def weight_bytes(self) -> FloatArray:
        """Bytes of a weight, on average over layers of several formats."""
        return self._bytes("weight_format")

    @hardware_property
    def weight_groups(self) -> WeightGroups:
        """Layers by the format of their weights."""
        return groups_of_weights(self.columns["weight_format"], self.preparation.convention)

    @hardware_property
    def activation_bytes(self) -> FloatArray:
        """Bytes of an activation."""
        return self._bytes("activation_format")

    @hardware_property
    def kv_bytes(self) -> FloatArray:
        """Bytes of an element of the KV cache."""
        return self._bytes("kv_format")

    @hardware_property
    def operand_bits(self) -> FloatArray:
        """(2, n) widths of the array's two operands: activations, and the wider of the others."""
        return widths_of_operands(self.columns)

    @hardware_property
    def storage(self) -> IntArray:
        """Positions in ``PRIORITIES``."""
        return positions_of(self.columns, "storage_priority", PRIORITIES)

    @hardware_property
    def dataflow(self) -> IntArray:
        """Positions in ``DATAFLOWS``."""
        return positions_of(self.columns, "dataflow", DATAFLOWS)

    @hardware_property
    def organization(self) -> IntArray:
        """Positions in ``ORGANIZATIONS``; a space may state it, else the option holds."""
        if "array_organization" in self.columns:
            return positions_of(self.columns, "array_organization", ORGANIZATIONS)
        code = ORGANIZATIONS.index(self.preparation.options.array)
        return np.full(len(self), code, np.int64)

    @hardware_property
    def is_shared_freely(self) -> BoolArray:
        """Whether weights, KV cache and activations have no fixed shares of bandwidth."""
        return np.asarray(self.matrix_share == 1.0)

    @property
    def matrix_share(self) -> FloatArray:
        """Share of the off-chip bandwidth for weights and KV cache; 1 if they share it freely."""
        return self.columns["bandwidth_priority"].lookup(self.preparation.matrix_share)

    # --- memory and batch size ---------------------------------------------------------------

    @cached_property
    def all_weight_bytes(self) -> FloatArray:
        """All weights of one device."""
        return self.preparation.part.weight_elements * self.weight_bytes

    @cached_property
    def kv_request_bytes(self) -> FloatArray:
        """KV cache and recurrent state of one request at its end."""
        return self.preparation.request_bytes(self.kv_bytes)

    @hardware_property
    def capacity_bytes(self) -> FloatArray:
        """Capacity of all memory levels."""
        return np.asarray(self.listed.levels.capacity_bytes.sum(axis=0))

    @cached_property
    def sizes(self) -> FloatArray:
        """(s,) batch sizes, ascending."""
        if BATCH_SIZE in self.columns:
            return np.unique(self.columns[BATCH_SIZE].lookup(float))
        fixed = self.preparation.fixed_batches
        return self.preparation.powers_of_two if fixed is None else fixed

    @property
    def least_size(self) -> IntArray:
        """Position of the smallest that each may choose."""
        is_stated = BATCH_SIZE in self.columns or self.preparation.batch_policy == "capacity"
        return self.most_size if is_stated else np.zeros(len(self), np.int64)

    @cached_property
    def most_size(self) -> IntArray:
        """Position of the largest, with which the choice begins."""
        if BATCH_SIZE in self.columns:
            return np.searchsorted(self.sizes, self.columns[BATCH_SIZE].lookup(float))
        needs = (self.capacity_bytes, self.all_weight_bytes, self.kv_request_bytes)
        return self.preparation.largest_size(self.sizes, *needs)

    @cached_property
    def filled_rows(self) -> FloatArray:
        """Share of the array's rows that the largest batch fills in some operator."""
        rows = self.preparation.most_rows(self.sizes)[self.most_size]
        filled = self.preparation.filled_rows(rows, self.listed.array_width)
        return np.where(self.organization == ORGANIZATIONS.index("flattened"), filled, 1.0)

    @cached_property
    def batch_size(self) -> FloatArray:
        """Requests whose KV cache is held; the largest allowed, until it is chosen."""
        return self.sizes[self.most_size] if self.chosen_size is None else self.chosen_size

    @cached_property
    def pass_requests(self) -> FloatArray:
        """Requests processed together in the pass."""
        is_decode = self.preparation.phase == "decode"
        return self.batch_size if is_decode else np.ones_like(self.batch_size)

    @cached_property
    def violations(self) -> Arrays:
        """``capacity``, ``shoreline`` and ``levels``, as relative excess."""
        levels = self.listed.levels
        needed = self.all_weight_bytes + self.sizes[self.least_size] * self.kv_request_bytes
        edge_m = self.preparation.options.memory_edge_m
        missing = ~(levels.exists[0] & levels.exists[1])
        return {
            "capacity": needed / np.maximum(self.capacity_bytes, 1.0) - 1.0,
            "shoreline": levels.shoreline_m.sum(axis=0) / edge_m - 1.0,
            # Without memory on chip or off chip there is no port to stream through.
            "levels": np.where(missing, 1.0, 0.0),
        }

    # --- what the operators see --------------------------------------------------------------

    @hardware_property
    def arrays(self) -> tuple[ArrayKind, ...]:
        """(k,) the distinct combinations of array and dataflow."""
        hardware = self.listed
        few = self._kinds[1]
        columns = (
            hardware.array_depth[few],
            hardware.array_width[few],
            self.organization[few],
            self.dataflow[few],
            hardware.scores_are_local[few] > 0,
        )
        return tuple(zip(*(column.tolist() for column in columns), strict=True))

    @property
    def kind(self) -> IntArray:
        """Position of each design's array in ``arrays``."""
        return self._kinds[0]

    @hardware_property
    def _kinds(self) -> tuple[IntArray, IntArray]:
        flow = self.dataflow * len(ORGANIZATIONS) + self.organization
        is_local = (self.listed.scores_are_local > 0).astype(np.int64)
        return distinct(*combined(self.columns["pe_array"].codes, flow * 2 + is_local))

    @property
    def shapes(self) -> tuple[ArrayShape, ...]:
        """(u,) the distinct combinations of array, dataflow and batch size."""
        return self._shapes[1]

    @property
    def shape(self) -> IntArray:
        """Position of each design's shape in ``shapes``."""
        return self._shapes[0]

    @cached_property
    def _shapes(self) -> tuple[IntArray, tuple[ArrayShape, ...]]:
        number, first = distinct(*combined(self.kind, self.pass_requests.astype(np.int64)))
        kinds = self.kind[first].tolist()
        sizes = self.pass_requests[first].tolist()
        return number, tuple((self.arrays[kind], of) for kind, of in zip(kinds, sizes, strict=True))

    @property
    def workload_bytes(self) -> ArrayTriple:
        """All weights, cache and state of a request, and activations of the largest operator."""
        largest = self.preparation.largest_activations
        return self.all_weight_bytes, self.kv_request_bytes, largest * self.activation_bytes

    def stage_design(self, shape: IntegerTuple) -> StageDesign:
        """Inputs of the formulas; every array in this shape, (n,) or (n, 1)."""
        hardware = self.accelerators
        levels = self.accelerators.levels
        of_design: Iterable[Any] = (
            self.weight_bytes, self.activation_bytes, self.kv_bytes, *self.workload_bytes,
            self.dataflow, hardware.array_depth, hardware.array_width, hardware.clock_hz,
            self.matrix_share, self.is_shared_freely, self.storage, hardware.scores_on_chip,
            self.preparation.data_share * levels.capacity_bytes[0], levels.capacity_bytes[0],
            levels.bandwidth_bytes_per_s[0], levels.latency_s[0], levels.write_energy_ratio[0],
        )  # fmt: skip
        of_tiers = (
            levels.capacity_bytes, levels.bandwidth_bytes_per_s, levels.latency_s,
            levels.write_energy_ratio, levels.paged_slowdown, levels.gathered_slowdown,
            levels.written_slowdown,
        )  # fmt: skip
        return StageDesign(
            *(values.reshape(shape) for values in of_design),
            *(tuple(tier.reshape(shape) for tier in values[1:]) for values in of_tiers),
        )

    @cached_property
    def placed(self) -> PlacedDesign:
        """Placement and speed of the data; every array is (n, 1)."""
        design = self.stage_design((-1, 1))
        shape = (-1, 1)
        pass_requests = self.pass_requests.reshape(shape)
        sizes = resident_bytes(design, pass_requests, self.batch_size.reshape(shape))
        return place(design, pass_requests, sizes, self.preparation.modelling)

    @property
    def onchip_bytes(self) -> FloatArray:
        """(3, n) what each kind of data has on chip."""
        return np.stack(self.placed.held_bytes)[..., 0]

    @property
    def pinned(self) -> FloatArray:
        """(3, n) the share of all data of each kind that this is."""
        return np.stack(self.placed.pinned)[..., 0]

    @property
    def tails(self) -> FloatArray:
        """(3, t, n) share of each kind's off-chip bytes in tier t or deeper; the first is 1."""
        placed = self.placed
        all_bytes = np.ones((len(self), 1))
        return np.stack(
            [
                np.stack(np.broadcast_arrays(all_bytes, *of_kind))[..., 0]
                for of_kind in (placed.activation_tails, placed.kv_tails, placed.weight_tails)
            ]
        )

    def port_traffic(self, moved: Moved, vector: Two = (NOTHING, NOTHING)) -> ArrayPair:
        """(l, n, ...) bytes read and written at every level's port, of (n, ...) moved bytes.

        Args:
            vector: Bytes that the vector unit reads and writes on chip.
        """
        reads, writes = port_bytes(moved, vector, self.placed, self.preparation.modelling.is_staged)
        return np.stack(reads), np.stack(writes)
