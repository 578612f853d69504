"""Tiles of an operator: the array's visits, and the off-chip blocks around them.

A product is cut into the array's tiles, and the tiles are visited in the order that the dataflow
says. A visit takes what it needs from on-chip memory: the array itself keeps nothing but its
stationary operand. Around that, the largest blocks that the on-chip memory holds come from off
chip; a block's bytes are asked for at an even pace while the visits
that use it go on. Visits are gathered into steps, the unit that the simulation moves: the first
and the last are single visits, those between as large as the wanted number of steps allows.

Limiting assumption: the order of the array's visits and that of the off-chip blocks keep pace
with each other but are not woven into one loop nest. A single nest has to re-read a panel of
the stationary operand, or to spill sums, once per panel of the streamed operand that fits.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    ArrayTuple,
    FloatArray,
    FloatList,
    FloatSequence,
    IntegerPair,
    StringTuple,
)
from codesign.base.records import frozen
from codesign.models.hardware.array import Dataflow, Organization
from codesign.models.machines.npu.operator_stage import TILE_BUFFER_SHARE
from codesign.models.machines.npu.traffic import ACCUMULATOR_BYTES

MOST_VISITS = 1 << 18
"""Visits of one product that are told apart; beyond, the innermost loop is taken as one visit."""
_GROWTH = 1.5
"""Factor by which steps grow from single visits to full size [ours]."""


@frozen
class OperatorWork:
    """One instance of an operator on one design.

    Attributes:
        n_products: Products of the same size; 0 if the operator only moves data.
        rows: Rows of a product, those of all its query heads.
        is_per_head: Whether the product belongs to one head, whose operands are stored so that
            columns share the array's depth.
        inner: Inner size of a product.
        columns: Columns of a product.
        weight_bytes: Bytes of the weights of all products.
        kv_bytes: Bytes of keys or values read for all requests.
        n_requests: Requests to which these keys and values belong.
        input_bytes: Bytes of the input activations.
        output_bytes: Bytes of the output activations.
        kv_written_bytes: Bytes appended to the KV cache.
        sum_bytes: Bytes of one activation, or of one partial sum off chip.
        port_stationary_bytes: Bytes of keys, values, states and activations that stream through the
            on-chip port as the operand that stays in the array.
        port_output_bytes: Bytes of further results.
        port_written_bytes: Bytes of keys, values and states written on chip.
        kv_written_elements: Elements of the first two.
        score_in_bytes: Bytes of scores read through the on-chip port.
        score_out_bytes: Bytes of scores written through it.
        is_scored: Whether the operator reads or writes scores.
    """

    n_products: float
    rows: float
    is_per_head: bool
    inner: float
    columns: float
    weight_bytes: float
    kv_bytes: float
    n_requests: float
    input_bytes: float
    output_bytes: float
    kv_written_bytes: float
    sum_bytes: float
    port_stationary_bytes: float
    port_output_bytes: float
    port_written_bytes: float
    kv_written_elements: float
    score_in_bytes: float
    score_out_bytes: float
    is_scored: bool


@frozen
class Tiling:
    """Cuts of the work on a design.

    Attributes:
        depth: Depth of the array (MLEN).
        width: Width of the array (BLEN).
        dataflow: Operand that stays in the array.
        on_chip_bytes: Capacity of the on-chip memory.
        held_bytes: On-chip bytes for activations, KV cache and weights.
        pinned: Shares of all activations, KV cache and weights that these bytes hold.
        tile_bytes: Weights that the array holds; the piece in which what needs no array moves.
        is_padded: Whether instructions work on whole blocks.
        is_local: Whether a buffer holds the tiles of scores.
        is_paced: Whether an operand that several sweeps of the array use comes from off chip
            spread over all of them, or during the first one.
    """

    depth: float
    width: float
    dataflow: Dataflow
    organization: Organization
    on_chip_bytes: float
    held_bytes: FloatSequence
    pinned: FloatSequence
    tile_bytes: float
    is_padded: bool
    is_local: bool
    is_paced: bool = True


@frozen
class Steps:
    """An operator as a sequence of steps; every array is (s,).

    Attributes:
        cycles: Cycles of the array.
        active_cycles: Cycles weighted by the rows that hold data.
        array_reads: Bytes that the array takes from on-chip memory.
        array_writes: Bytes that the array puts into on-chip memory.
        weight_reads: Bytes of weights from off chip.
        kv_reads: Bytes of keys and values from off chip.
        activation_reads: Bytes of activations and partial sums from off chip.
        kv_writes: Bytes of keys and values to off chip.
        activation_writes: Bytes of activations and partial sums to off chip.
    """

    cycles: FloatArray
    active_cycles: FloatArray
    array_reads: FloatArray
    array_writes: FloatArray
    weight_reads: FloatArray
    kv_reads: FloatArray
    activation_reads: FloatArray
    kv_writes: FloatArray
    activation_writes: FloatArray


def steps(work: OperatorWork, tiling: Tiling, most_steps: int) -> Steps:
    """The operator cut into about ``most_steps`` steps at most."""
    near = _visits(work, tiling) if work.n_products else _copy(work, tiling)
    n_repeats = work.n_products or 1.0
    n_visits = len(near[0]) * n_repeats
    ends = step_ends(n_visits, most_steps, _first_step(work, tiling))
    visits = np.concatenate([[0.0], ends])
    far = {
        name: _interval_sums(visits * (len(passes) / len(near[0])), passes)
        for name, passes in _far_passes(work, tiling).items()
    }
    return Steps(*(_interval_sums(visits, values, n_repeats) for values in near), **far)


def score_tile_elements(rows: float, keys: float, tiling: Tiling) -> FloatArray:
    """(t,) scores in each tile of one product that the vector unit works on, row by row."""
    row_tiles = tiles(rows, tiling.width)
    key_tiles = tiles(keys, tiling.depth)
    if len(row_tiles) * len(key_tiles) > MOST_VISITS:
        return row_tiles * keys
    return np.multiply.outer(row_tiles, key_tiles).ravel()


def _first_step(work: OperatorWork, tiling: Tiling) -> float:
    """Part of a visit with which the array can start: a column, where it streams columns."""
    if tiling.organization != "flattened" or tiling.is_padded:
        return 1.0
    columns = work.columns / _slots(work, tiling) if work.n_products else tiling.width
    return 1.0 / max(min(tiling.width, columns), 1.0)


def step_ends(n_visits: float, most_steps: int, first: float = 1.0) -> FloatArray:
    """(s,) visits done at the end of each step: small steps first and last, full ones between.

    Args:
        first: Size of the first step.
    """
    if first == 1.0 and n_visits <= most_steps:
        visit_ends = np.arange(1.0, math.ceil(n_visits))
        return np.append(visit_ends, n_visits)
    full = max(n_visits / (0.75 * most_steps), first)
    if n_visits <= most_steps:
        full = max(full, min(1.0, n_visits / 4.0))
    ramp: FloatList = []
    size = first
    while size < full and 2.0 * (sum(ramp) + size) < n_visits:
        ramp.append(size)
        size *= _GROWTH
    middle = n_visits - 2.0 * sum(ramp)
    n_middle = max(1, round(middle / full))
    sizes = [*ramp, *[middle / n_middle] * n_middle, *reversed(ramp)]
    ends = np.cumsum(sizes)
    ends[-1] = n_visits
    return ends


def n_tiles(size: float, tile: float) -> int:
    """Number of tiles that cover ``size``."""
    return max(1, math.ceil(size / tile))


def tiles(size: float, tile: float) -> FloatArray:
    """Sizes of the tiles that cover ``size``, the last one as small as need be."""
    n = n_tiles(size, tile)
    cut = np.full(n, tile)
    cut[-1] = size - tile * (n - 1)
    return cut


_ORDER: dict[Dataflow, StringTuple] = {
    "ws": ("column", "inner", "row"),
    "is": ("row", "inner", "column"),
    "os": ("row", "column", "inner"),
}
"""The loops over the tiles, outermost first: what the stationary operand has not is innermost."""
_Factors = ArrayDict
"""Factors by loop; each depends on the position in its loop, and they are multiplied."""


def _axes(work: OperatorWork, tiling: Tiling) -> _Factors:
    """Sizes of the tiles along each loop of one product."""
    row_tile = tiling.width
    column_tile = tiling.width
    if tiling.organization == "systolic":
        if tiling.dataflow == "os":
            row_tile = tiling.depth  # the sums fill the grid
    else:
        column_tile *= _slots(work, tiling)
    return {
        "row": tiles(work.rows, row_tile),
        "column": tiles(work.columns, column_tile),
        "inner": tiles(work.inner, tiling.depth),
    }


def _slots(work: OperatorWork, tiling: Tiling) -> int:
    """Columns that stand side by side in the array's depth."""
    if tiling.organization == "systolic" or not (work.is_per_head and work.inner):
        return 1
    return max(1, int(tiling.depth // work.inner))


def _visits(work: OperatorWork, tiling: Tiling) -> ArrayTuple:
    """Cycles, active cycles, bytes read and bytes written of visits of one product, in order."""
    sizes = _axes(work, tiling)
    share = {axis: values / values.sum() for axis, values in sizes.items()}
    ones = {axis: np.ones_like(values) for axis, values in share.items()}
    first = {axis: _only(values, 0) for axis, values in share.items()}
    last_inner = _only(share["inner"], -1)
    stationary = (work.weight_bytes + work.port_stationary_bytes) / work.n_products
    inputs = (work.input_bytes + work.score_in_bytes) / work.n_products
    summed = (work.output_bytes + work.port_output_bytes) / work.sum_bytes
    summed = (summed + work.kv_written_elements) / work.n_products
    outputs = work.output_bytes + work.port_output_bytes + work.score_out_bytes
    outputs = (outputs + work.port_written_bytes) / work.n_products
    sums = summed * ACCUMULATOR_BYTES
    # What depends on an axis varies along it; what is kept is taken at the first tile of the
    # axis along which it is kept, what streams past is taken anew at every visit.
    of_weights = ones | {"inner": share["inner"], "column": share["column"]}
    of_inputs = ones | {axis: share[axis] for axis in ("row", "inner")}
    of_sums = ones | {axis: share[axis] for axis in ("row", "column")}
    # A tile of scores has the rows of one block: the next block needs the keys or values again.
    is_tiled = tiling.is_local and work.is_scored
    if tiling.dataflow == "ws" and not is_tiled:
        of_weights |= {"row": first["row"]}
    if tiling.dataflow == "is":
        of_inputs |= {"column": first["column"]}
    reads = [(stationary, of_weights), (inputs, of_inputs)]
    writes = [(outputs, of_sums | {"inner": last_inner})]
    if tiling.dataflow != "os":
        reads.append((sums, of_sums | {"inner": 1.0 - first["inner"]}))
        writes.append((sums, of_sums | {"inner": 1.0 - last_inner}))
    order = _ORDER[tiling.dataflow]
    cycles = _cycles(sizes, work, tiling)
    filled = sizes["row"] / tiling.width
    active = cycles
    if tiling.organization == "flattened" and not tiling.is_padded:
        active = [(scale, factors | {"row": filled}) for scale, factors in cycles]
    return tuple(_grid(terms, order) for terms in (cycles, active, reads, writes))


def _cycles(sizes: _Factors, work: OperatorWork, tiling: Tiling) -> list[tuple[float, _Factors]]:
    """Terms of the cycles that the array needs for visits of tiles of these sizes."""
    ones = {axis: np.ones_like(values) for axis, values in sizes.items()}
    if tiling.organization == "flattened" and tiling.is_padded:
        # A cycle for each column of the block; a block that sticks out takes as long as any.
        return [(tiling.width, ones)]
    if tiling.organization == "flattened":
        # A cycle for the columns that stand side by side; the slots that a head leaves are taken
        # by the next head, and only the last cycle of all heads may have some idle.
        slots = _slots(work, tiling)
        columns = work.columns * work.n_products
        full = math.ceil(columns / slots) / (columns / slots)
        return [(full / slots, ones | {"column": sizes["column"]})]
    if tiling.organization == "ideal":
        return [(1.0 / (tiling.depth * tiling.width), sizes)]
    # A systolic fold is all visits of what stays in the grid. It loads that, if anything; then
    # the stream crosses the grid, and sums leave as they are finished (SCALE-Sim 3).
    streamed = _ORDER[tiling.dataflow][-1]
    loading = 0.0 if tiling.dataflow == "os" else tiling.depth
    crossing = loading + tiling.depth + tiling.width - 2.0
    return [
        (1.0, ones | {streamed: sizes[streamed]}),
        (crossing, ones | {streamed: _only(sizes[streamed], 0)}),
    ]


def _only(values: FloatArray, position: int) -> FloatArray:
    selected = np.zeros_like(values)
    selected[position] = 1.0
    return selected


def _grid(terms: list[tuple[float, _Factors]], order: StringTuple) -> FloatArray:
    """Sum of products of one factor per loop, in the order of the loops."""
    lengths = [len(terms[0][1][axis]) for axis in order]
    n_kept = len(order)
    while n_kept > 1 and math.prod(lengths[:n_kept]) > MOST_VISITS:
        n_kept -= 1
    total = np.zeros(math.prod(lengths[:n_kept]))
    for scale, factors in terms:
        inner = math.prod(float(factors[axis].sum()) for axis in order[n_kept:])
        kept_factors = [factors[axis] for axis in order[:n_kept]]
        total += scale * inner * reduce(lambda a, b: np.multiply.outer(a, b).ravel(), kept_factors)
    return total


def _copy(work: OperatorWork, tiling: Tiling) -> ArrayTuple:
    """The visits of an operator without a product: its bytes in pieces of the array's tile."""
    moved_in = work.weight_bytes + work.port_stationary_bytes + work.input_bytes
    moved_out = work.output_bytes + work.port_written_bytes
    most = max(moved_in, work.output_bytes, work.kv_written_bytes)
    n = min(max(1, math.ceil(most / tiling.tile_bytes)), MOST_VISITS)
    share = np.full(n, 1.0 / n)
    return np.zeros(n), np.zeros(n), moved_in * share, moved_out * share


def _interval_sums(
    positions: FloatArray, values: FloatArray, n_products: float = 1.0
) -> FloatArray:
    """(s,) sums between positions along the values of a product, which are repeated in turn.

    The last product may be a fraction (experts touched on average); all its bytes come.

    Args:
        n_products: How many times the values are the total.
    """
    done = np.concatenate([[0.0], np.cumsum(values)])
    n_whole_products, rest = np.divmod(positions, len(values))
    inside = np.interp(rest, np.arange(len(done)), done)
    steps = np.diff(n_whole_products * done[-1] + inside)
    return np.asarray(steps * (done[-1] * n_products / (steps.sum() or 1.0)))


def _far_passes(work: OperatorWork, tiling: Tiling) -> ArrayDict:
    """Bytes that each pass over an operand brings from off chip or takes there, by the names of
    :class:`Steps`; one element for each time that the operand is streamed."""
    n = work.n_products or 1.0
    pinned = tiling.pinned
    held = tiling.held_bytes
    stationary = (work.weight_bytes + work.kv_bytes) / n
    n_stationary, n_inputs = _capacity_blocks(work, tiling, stationary, work.input_bytes / n)
    n_weight_sweeps, n_input_sweeps = _sweeps(work, tiling)
    weights = _resident(work.weight_bytes, n_stationary, pinned[2], held[2])
    requests = max(work.n_requests, 1.0)
    kv = requests * _resident(work.kv_bytes / requests, n_stationary, pinned[1], held[1])
    through = work.input_bytes + work.output_bytes
    stays = min(1.0, held[0] / through) if through else 1.0
    away = 1.0 - stays
    inputs = np.full(n_inputs, work.input_bytes * away)
    return {
        "weight_reads": _swept_passes(weights, n_weight_sweeps),
        "kv_reads": _swept_passes(kv, n_weight_sweeps),
        "activation_reads": _swept_passes(inputs, n_input_sweeps),
        "kv_writes": np.array([work.kv_written_bytes * (1.0 - pinned[1])]),
        "activation_writes": np.array([work.output_bytes * away]),
    }


def _sweeps(work: OperatorWork, tiling: Tiling) -> IntegerPair:
    """Sweeps of the array over weights and inputs as far as bytes come at their first use."""
    if tiling.is_paced or not work.n_products:
        return 1, 1
    axes = _axes(work, tiling)
    return (1, len(axes["column"])) if tiling.dataflow == "ws" else (len(axes["row"]), 1)


def _swept_passes(passes: FloatArray, n_sweeps: int) -> FloatArray:
    """Every pass serves an equal number of sweeps, the first of which needs all of its bytes."""
    n_each = max(1, n_sweeps // len(passes))
    swept = np.zeros((len(passes), n_each))
    swept[:, 0] = passes
    return swept.ravel()


def _capacity_blocks(
    work: OperatorWork, tiling: Tiling, stationary_bytes: float, input_bytes: float
) -> IntegerPair:
    """Times that weights and inputs are streamed if blocks fill half of the on-chip memory."""
    buffer = max(TILE_BUFFER_SHARE * tiling.on_chip_bytes, 1.0)
    n_stationary = n_tiles(stationary_bytes, buffer)
    n_inputs = n_tiles(input_bytes, buffer)
    if n_stationary == 1 or n_inputs == 1:
        return 1, 1
    if tiling.dataflow != "os":
        return (1, n_stationary) if tiling.dataflow == "ws" else (n_inputs, 1)
    sums = buffer / ACCUMULATOR_BYTES
    side = math.sqrt(sums)
    return (
        n_tiles(work.rows, max(side, sums / work.columns)),
        n_tiles(work.columns, max(side, sums / work.rows)),
    )


def _resident(operand: float, n_passes: int, pinned: float, cache: float) -> FloatArray:
    """Bytes from off chip in each pass over an operand, kept by whichever rule moves less."""
    pinning = np.full(n_passes, operand * (1.0 - pinned))
    cached = min(operand, cache)
    caching = np.full(n_passes, operand - cached)
    caching[0] = operand
    return pinning if pinning.sum() <= caching.sum() else caching
