"""The operator stage as one compiled loop over designs and operators (numba, optional).

The loop calls the very functions of ``operator_stage.py``, which then work on single numbers:
there is no second copy of an equation. Without fused or reordered arithmetic the results have the
same bits as on NumPy arrays, so whether numba is installed or used never shows in a result.

Operators are worked on eight at a time: their values lie in blocks of eight, so that the compiler
can use the widest registers. What each of them adds is written down, and then summed in order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np

from codesign.base.columns import (
    ArrayTriple,
    FloatArray,
    Function,
    IntArray,
    IntegerTuple,
    compute_once,
)
from codesign.evaluators.npu.prepared_designs import PreparedDesigns
from codesign.models.hardware import formula_operations, hierarchy
from codesign.models.hardware.tier_order import BY_BANDWIDTH
from codesign.models.machines.npu import operator_stage as stage
from codesign.models.machines.npu import pass_time, placement, stage_records, traffic
from codesign.models.machines.npu.machine_code import (
    compile_loop,
    design_at,
    fields_at,
    functions_of,
)

LANES = 8
"""Operators that are worked on side by side: a register of the widest processors has 8 numbers."""
_N_OPERATOR = len(stage_records.StageOperator._fields) * LANES
_N_SHAPE = len(stage_records.Shape._fields) * LANES
Loop = Callable[..., None]


def choose_compiled(
    designs: PreparedDesigns, choices: stage_records.Choices
) -> tuple[FloatArray, IntArray, IntArray]:
    """The best choice of each design, and its sums over the operators of a pass.

    Returns:
        (s, n) the numbers of :class:`codesign.models.machines.npu.stage_records.PassTotals`; (n,)
        positions of the batch sizes chosen; (n,) of the orders.
    """
    pass_ = designs.preparation.pass_
    n = len(designs)
    n_tiers = len(designs.tier_order)
    pass_requests = np.ones_like(choices.sizes) if choices.is_prefill else choices.sizes
    shapes = [(array, size) for array in designs.arrays for size in pass_requests.tolist()]
    numbers = pass_.numbers(shapes).reshape(-1, len(pass_requests))
    # Operators, shapes and least work in the layout of the loop; remade when shapes are added.
    if not pass_.packed:
        padded = _padded(np.stack([np.asarray(of, np.float64) for of in pass_.operators]))
        padded[0, len(pass_.table) :] = 0.0  # no instances of what only fills a block
        pass_.packed = {
            "operators": _blocks(padded),
            "shapes": _blocks(_padded(pass_.shape_table.transpose(1, 0, 2))),
            "least_work": np.ascontiguousarray(pass_.least_work_table.T),
        }
    operators, shape_table, least_work = tuple(pass_.packed.values())
    # One array of all tiers, as a place in a tuple of arrays takes the loop long to find.
    fields: list[Any] = compute_once(
        designs.columns,
        (choose_compiled, designs.preparation.key),
        lambda: [*map(np.ascontiguousarray, designs.stage_design((-1,)))],
    )
    fields[3:6] = designs.workload_bytes
    sums = np.empty((stage_records.n_totals_of(1 + n_tiers), n))
    sizes = np.zeros(n, np.int64)
    orders = np.zeros(n, np.int64)
    loop()(
        operators,
        shape_table,
        least_work,
        numbers,
        designs.kind,
        stage_records.StageDesign(*fields),
        stage_records.WeightGroups(*map(np.ascontiguousarray, designs.weight_groups)),
        tuple(range(n_tiers)),
        choices,
        designs.preparation.modelling,
        sums,
        sizes,
        orders,
    )
    return sums, sizes, orders


def _padded(values: FloatArray) -> FloatArray:
    """(..., o) values of operators, the last one repeated up to whole blocks of ``LANES``."""
    n = values.shape[-1]
    return values[..., np.minimum(np.arange(n + -n % LANES), n - 1)]


def _blocks(values: FloatArray) -> FloatArray:
    """(..., fields, blocks * LANES) values in one row, as (..., blocks, fields, LANES)."""
    blocks = values.reshape(*values.shape[:-1], -1, LANES)
    return np.ascontiguousarray(np.moveaxis(blocks, -2, -3)).ravel()


@cache
def loop() -> Loop:
    """The loop, its machine code read from the disk if it is there."""
    loop_functions: tuple[Function, ...] = (_is_tried, _sums, _pass_sums, _physics, _fill_table)
    shared = functions_of(stage, traffic, placement, pass_time, hierarchy)
    return cast(Loop, compile_loop(_choose_over_designs, (*shared, *loop_functions)))


def _choose_over_designs(
    operators: FloatArray,
    shapes: FloatArray,
    least_work: FloatArray,
    numbers: IntArray,
    kind: IntArray,
    designs: stage_records.StageDesign,
    groups: stage_records.WeightGroups,
    places: IntegerTuple,
    choices: stage_records.Choices,
    modelling: stage_records.Modelling,
    sums: FloatArray,
    sizes: IntArray,
    orders: IntArray,
) -> None:
    """Fill (s, n) ``sums``, (n,) ``sizes`` and ``orders``, one design after the other (compiled).

    Operators and shapes come as ``_blocks``. The (k, s) ``numbers`` are positions, among the shapes
    and in ``least_work``, of each kind of array with each batch size. A choice is worked out only
    if its least time allows it to beat the best choice so far.
    """
    longest_s = choices.longest_pass_s
    fixed_s = choices.message_fixed_s
    message_byte_s = choices.message_byte_s
    table = np.empty(stage_records.N_SUMS * LANES)
    part = np.empty(stage_records.N_SUMS)
    totals = np.empty(len(sums))
    for i in range(len(kind)):
        best: Any = -np.inf
        design = design_at(designs, i, choices.orders[0], places)
        request_s = design.activation_bytes * message_byte_s
        byte_s = pass_time.fastest_byte_s(
            design.tier_bandwidth_bytes_per_s, design.matrix_share, modelling
        )
        n_sizes = choices.most_size[i] - choices.least_size[i] + 1
        visit = -1
        # Sizes that are surely too slow wait for a second round, if no size keeps the limit.
        while visit < n_sizes - 1 or (best < 0.0 and visit < 2 * n_sizes - 2):
            visit += 1
            size = choices.most_size[i] - visit % n_sizes
            held = choices.sizes[size]
            requests: Any = 1.0 if choices.is_prefill else held
            shape_of = numbers[kind[i], size]
            work = fields_at(stage_records.LeastWork, least_work[shape_of], 0, 1)
            data_bytes = stage.resident_bytes(design, requests, held)
            least_s = pass_time.least_in_any_order_s(design, data_bytes, work, byte_s)
            is_late = visit < n_sizes - 1 and least_s > longest_s
            if is_late or (best > 0.0 and requests <= best * least_s):
                continue
            message_s = fixed_s + requests * request_s
            lanes_s = requests * choices.lane_cycles / choices.lane_rate[i]
            gaining_s: Any = np.inf
            for order in range(len(choices.orders)):
                if not choices.allowed[order, i]:
                    continue
                ordered = design_at(designs, i, choices.orders[order], places)
                least_s = pass_time.least_pass_s(ordered, data_bytes, work, modelling) + message_s
                if order == 0:
                    gaining_s = least_s * (1.0 - pass_time.LEAST_GAIN)
                at_best = pass_time.score(requests, least_s, least_s, longest_s)
                if at_best <= best or not _is_tried(choices, i, order, least_s < gaining_s):
                    continue
                placed = stage.place(ordered, requests, data_bytes, modelling)
                work_of = (operators, shapes, shape_of, choices.vector_operands)
                port_s = _sums(work_of, placed, groups, i, modelling, (table, part, totals))
                vector_s = formula_operations.larger(lanes_s, port_s)
                pass_s = pass_time.whole_pass_s(totals[0], vector_s, modelling) + message_s
                value = pass_time.score(requests, totals[0] + message_s, pass_s, longest_s)
                if value > best or (value == best and size > sizes[i]):
                    best = value
                    sizes[i] = size
                    orders[i] = order
                    for which in range(len(totals)):
                        sums[which, i] = totals[which]


def _is_tried(choices: stage_records.Choices, i: int, order: int, is_gaining: bool) -> bool:
    """Whether an order counts: one that latencies alone may favour does if they do."""
    return bool(choices.allowed[order, i] == BY_BANDWIDTH or is_gaining)


def _sums(
    work: tuple[FloatArray, FloatArray, int, Any],
    placed: stage_records.PlacedDesign,
    groups: stage_records.WeightGroups,
    i: int,
    modelling: stage_records.Modelling,
    filled: ArrayTriple,
) -> Any:
    """Fill the last array, the sums over a pass of design ``i``, one group of layers at a time.

    Returns:
        Seconds of the vector unit's operands at the on-chip port.
    """
    (operators, shapes, shape_of, operands), (table, part, totals) = work, filled
    totals[:] = 0.0
    for group in range(len(groups.shares)):
        share = groups.shares[group, i]
        if share > 0.0:
            weight_bytes = groups.weight_bytes[group, i]
            _pass_sums(operators, shapes, shape_of, placed, weight_bytes, modelling, table, part)
            for which in range(stage_records.N_SUMS):
                totals[which] += share * part[which]
    moved = fields_at(stage_records.Moved, totals, 2, 1)
    vector = traffic.vector_streams(operands, placed)
    reads, writes = traffic.port_bytes(moved, vector, placed, modelling.is_staged)
    design = placed.design
    byte_s = placed.on_chip_byte_s
    port_s = pass_time.port_limited_s(reads[0], writes[0], vector, byte_s, modelling)
    totals[0] = formula_operations.larger(totals[0], port_s)
    bandwidth = (design.on_chip_bandwidth_bytes_per_s, *design.tier_bandwidth_bytes_per_s)
    write_ratio = (design.on_chip_write_ratio, *design.tier_write_ratio)
    least_s = pass_time.power_limited_s(reads, writes, bandwidth, write_ratio)
    totals[0] = formula_operations.larger(totals[0], least_s)
    held = stage.kv_held_shares(placed.pinned[1], placed.kv_tails)
    n_levels = len(held)
    for level in range(n_levels):
        totals[stage_records.N_SUMS + level] = reads[level]
        totals[stage_records.N_SUMS + n_levels + level] = writes[level]
        totals[stage_records.N_SUMS + 2 * n_levels + level] = held[level]
    return (vector[0] + vector[1]) * byte_s


def _pass_sums(
    operators: FloatArray,
    shapes: FloatArray,
    shape_of: int,
    placed: stage_records.PlacedDesign,
    weight_bytes: FloatArray,
    modelling: stage_records.Modelling,
    table: FloatArray,
    totals: FloatArray,
) -> None:
    """Fill ``totals``, the sums as if all layers were of one format, a block after the other."""
    totals[:] = 0.0
    n_blocks = len(operators) // _N_OPERATOR
    for block in range(n_blocks):
        some = operators[block * _N_OPERATOR : (block + 1) * _N_OPERATOR]
        begin = (shape_of * n_blocks + block) * _N_SHAPE
        own_shapes = shapes[begin : begin + _N_SHAPE]
        # The compiler works on all lanes at once only where it knows of every branch beforehand.
        if modelling.is_array_blocked:
            _fill_table(some, own_shapes, placed, weight_bytes, modelling, table)
        elif modelling.is_staged:
            _fill_table(some, own_shapes, placed, weight_bytes, _physics(modelling, True), table)
        else:
            _fill_table(some, own_shapes, placed, weight_bytes, _physics(modelling, False), table)
        for which in range(stage_records.N_SUMS):
            total = totals[which]
            for lane in range(LANES):
                total += table[which * LANES + lane]
            totals[which] = total


def _physics(modelling: stage_records.Modelling, is_staged: bool) -> stage_records.Modelling:
    """The modelling options for blocking by capacity, with every branch of an operator fixed."""
    return stage_records.Modelling(
        is_array_blocked=False,
        is_staged=is_staged,
        is_vector_serial=False,
        offchip_efficiency=modelling.offchip_efficiency,
        requests_in_flight=modelling.requests_in_flight,
    )


def _fill_table(
    operators: FloatArray,
    shapes: FloatArray,
    placed: stage_records.PlacedDesign,
    weight_bytes: FloatArray,
    modelling: stage_records.Modelling,
    table: FloatArray,
) -> None:
    """Contribution of each operator of a block to the sums, all its instances together."""
    # Counted from the table: of a number that it knows, the compiler would make a plain loop.
    for lane in range(len(table) // stage_records.N_SUMS):
        operator = fields_at(stage_records.StageOperator, operators, lane, LANES)
        shape = fields_at(stage_records.Shape, shapes, lane, LANES)
        moved, times = stage.operator_cost(operator, shape, placed, weight_bytes, modelling)
        n = operator.instances
        table[lane] = times.time_s * n
        table[LANES + lane] = shape.active_cycles * n
        # In the order of the record; a loop over its fields is 3 % slower.
        table[2 * LANES + lane] = moved.array_reads * n
        table[3 * LANES + lane] = moved.array_writes * n
        table[4 * LANES + lane] = moved.weight_reads * n
        table[5 * LANES + lane] = moved.kv_reads * n
        table[6 * LANES + lane] = moved.kv_writes * n
        table[7 * LANES + lane] = moved.activation_reads * n
        table[8 * LANES + lane] = moved.activation_writes * n
