"""Traffic and time of one operator: the formulas of the innermost loop.

The records that go in and out are in ``stage_records.py``.
"""

from __future__ import annotations

from codesign.base.columns import BoolArray, FloatArray
from codesign.models.hardware.formula_operations import (
    inverse,
    inverses,
    larger,
    place_by_place,
    products,
    smaller,
    sum_of,
    where,
)
from codesign.models.hardware.hierarchy import (
    inflight_bandwidth_bytes_per_s,
    parallel_time_s_at,
    staged_time_s_at,
)
from codesign.models.machines.npu.placement import (
    ALL,
    Levels,
    Tails,
    Three,
    Tiers,
    Two,
    balanced_tails,
    onchip_bytes,
    tier_shares,
    tier_tails,
)
from codesign.models.machines.npu.stage_records import (
    Modelling,
    Moved,
    PassTimes,
    PlacedDesign,
    Shape,
    StageDesign,
    StageOperator,
)
from codesign.models.machines.npu.traffic import (
    array_blocked_passes,
    array_streams,
    blocked_passes,
    read_off_chip_bytes,
    stationary_operand_bytes,
)

TILE_BUFFER_SHARE = 0.5
"""Share of the on-chip memory that holds the tiles of the running operator, unless operands are
streamed anew for every tile of the array. The rest holds what stays resident [our choice: an even
split]."""


def resident_bytes(design: StageDesign, pass_requests: FloatArray, held: FloatArray) -> Three:
    """Bytes of each kind of data that a pass needs in memory.

    Args:
        pass_requests: Requests processed together.
        held: Requests whose KV cache is in memory.
    """
    return (
        design.activation_request_bytes * pass_requests,
        design.kv_request_bytes * held,
        design.all_weight_bytes,
    )


def place(
    design: StageDesign, batch_size: FloatArray, sizes: Three, modelling: Modelling
) -> PlacedDesign:
    """Place the data of a pass of ``batch_size`` requests: ``sizes`` bytes by type of data."""
    held_bytes = onchip_bytes(sizes, design.data_capacity_bytes, design.storage)
    tails = tails_of(design, sizes, modelling)
    usable = modelling.offchip_efficiency
    sustained = _sustained_bandwidth(design, modelling)
    return PlacedDesign(
        design=design,
        batch_size=batch_size,
        held_bytes=held_bytes,
        pinned=pinned_shares(held_bytes, sizes),
        activation_tails=tails[0],
        kv_tails=tails[1],
        weight_tails=tails[2],
        buffer_bytes=larger(TILE_BUFFER_SHARE * design.on_chip_capacity_bytes, 1.0),
        cycle_s=inverse(design.clock_hz),
        on_chip_byte_s=inverse(design.on_chip_bandwidth_bytes_per_s),
        first_byte_s=inverse(usable * design.tier_bandwidth_bytes_per_s[0]),
        first_latency_s=_first_latency_s(design, modelling),
        matrix_byte_s=inverses(products(sustained, usable * design.matrix_share)),
        vector_byte_s=inverses(products(sustained, usable * (1.0 - design.matrix_share))),
    )


def tails_of(design: StageDesign, sizes: Three, modelling: Modelling) -> tuple[Tails, Tails, Tails]:
    """Share of each kind's off-chip bytes in each deeper tier and below."""
    if modelling.is_staged:
        return tier_tails(sizes, design.tier_capacity_bytes, design.storage)
    size = sizes[0] + sizes[1] + sizes[2]
    bandwidth = _sustained_bandwidth(design, modelling)
    tails = balanced_tails(size, design.tier_capacity_bytes, bandwidth)
    return tails, tails, tails


def pinned_shares(held: Three, sizes: Three) -> Three:
    """The share of all data of each kind that on-chip memory holds."""
    return (
        smaller(held[0] / larger(sizes[0], 1.0), 1.0),
        smaller(held[1] / larger(sizes[1], 1.0), 1.0),
        smaller(held[2] / larger(sizes[2], 1.0), 1.0),
    )


def kv_held_shares(pinned_share: FloatArray, tails: Tails) -> Levels:
    """Part of the KV cache that each level keeps.

    Args:
        pinned_share: Part of it that is on chip.
        tails: Share of the rest in each deeper tier and below.
    """
    return (pinned_share, *products(tier_shares(tails), 1.0 - pinned_share))


def _sustained_bandwidth(design: StageDesign, modelling: Modelling) -> Tiers:
    """Sustained bandwidth of each tier for requests of one chunk, the operands of a cycle."""
    bandwidth = design.tier_bandwidth_bytes_per_s
    latency = design.tier_latency_s
    if not modelling.requests_in_flight > 0:
        return bandwidth
    chunk_bytes = design.depth * design.width * design.weight_bytes
    return _sustained_tiers(bandwidth, latency, chunk_bytes, modelling.requests_in_flight)


_sustained_tiers = place_by_place(inflight_bandwidth_bytes_per_s)


def _first_latency_s(design: StageDesign, modelling: Modelling) -> FloatArray:
    latency = design.tier_latency_s
    bandwidth = design.tier_bandwidth_bytes_per_s
    if modelling.is_staged:
        return latency[0]
    least = latency[0]
    for tier in range(1, len(latency)):
        least = smaller(least, where(bandwidth[tier] > 0, latency[tier], least))
    return least


def operator_cost(
    operator: StageOperator,
    shape: Shape,
    placed: PlacedDesign,
    weight_bytes: FloatArray,
    modelling: Modelling,
) -> tuple[Moved, PassTimes]:
    """Traffic and times of one instance of an operator.

    Args:
        weight_bytes: Of a weight in the layers at hand; placement, ports and chunks are those of
            all layers together.
    """
    design = placed.design
    batch = placed.batch_size
    per_activation = batch * design.activation_bytes
    near_reads, near_writes = array_streams(operator, shape, placed, weight_bytes)
    inputs = operator.inputs * per_activation
    outputs = operator.outputs * per_activation
    held = placed.held_bytes
    pinned = placed.pinned
    if modelling.is_array_blocked:
        re_read, re_read_inputs = array_blocked_passes(
            operator, shape.rows, design.width, design.dataflow
        )
        # What is not pinned is streamed; of the activations, an operator's inputs stay on chip.
        cache = 0.0 * held[2]
        staying = inputs
    else:
        re_read, re_read_inputs = blocked_passes(
            shape.rows,
            operator.n,
            stationary_operand_bytes(operator, shape, placed, weight_bytes) * shape.per_product,
            inputs * shape.per_product,
            placed.buffer_bytes,
            design.dataflow,
        )
        cache = held[2]
        staying = inputs + outputs
    spilled = 1.0 - smaller(held[0] / larger(staying, 1.0), 1.0)
    kept_kv_read = operator.kv_read * design.kv_bytes + operator.state_read
    appended = operator.kv_written * design.kv_bytes + operator.state_written
    weights = shape.weights_read * weight_bytes
    moved = Moved(
        array_reads=near_reads,
        array_writes=near_writes,
        weight_reads=read_off_chip_bytes(weights, re_read, pinned[2], cache),
        kv_reads=batch * read_off_chip_bytes(kept_kv_read, re_read, pinned[1], held[1]),
        kv_writes=appended * (batch * (1.0 - pinned[1])),
        activation_reads=inputs * re_read_inputs * spilled,
        activation_writes=outputs * spilled,
    )
    # Of an operator's weights, or of its keys or values, the bytes with which the array starts.
    element = where(operator.is_attention, design.kv_bytes, weight_bytes)
    depth = where(operator.has_rows, smaller(design.depth, operator.k), design.depth)
    tile = depth * shape.first_columns * element
    port = placed.on_chip_byte_s
    compute = shape.cycles * placed.cycle_s
    from_tiers = moved.weight_reads + moved.kv_reads + moved.activation_reads
    off_chip = from_tiers + (moved.kv_writes + moved.activation_writes)
    on_chip = (moved.array_reads + moved.array_writes + off_chip) * port
    matrix, vector = _stream_times(operator, placed, moved, tile, modelling)
    # Blocked by the array, a tile's weights and inputs come one after the other.
    transfer = matrix + vector if modelling.is_array_blocked else larger(matrix, vector)
    # The first chunk is no larger than all that comes.
    near_fill = design.on_chip_latency_s + smaller(tile, moved.array_reads) * port
    first_tier = placed.first_latency_s + smaller(tile, from_tiers) * placed.first_byte_s
    exposed = near_fill + where(from_tiers > 0, first_tier, 0.0)
    is_active = on_chip > 0
    through_port = where(is_active, on_chip + design.on_chip_latency_s, 0.0)
    time = larger(compute + where(is_active, exposed, 0.0), larger(through_port, transfer))
    return moved, PassTimes(compute, through_port, transfer, time)


def _stream_times(
    operator: StageOperator,
    placed: PlacedDesign,
    moved: Moved,
    tile: FloatArray,
    modelling: Modelling,
) -> Two:
    """Time of the matrix stream and of the vector stream; of both as one, then of nothing.

    A byte counts as many streamed ones as take its time in the tier that keeps it.
    """
    design = placed.design
    written = (moved.activation_writes, design.tier_written)
    vector = _slowed_activations(
        moved.activation_reads, *written, _parts(placed.activation_tails, modelling)
    )
    matrix_reads = moved.weight_reads + moved.kv_reads
    vector_reads = moved.activation_reads
    # Streams without shares of their own are one stream.
    is_shared = design.is_shared
    joined = where(is_shared, 1.0, 0.0)
    apart = where(is_shared, 0.0, 1.0)
    matrix = _joined(
        moved.weight_reads,
        operator.is_gathered,
        design.tier_gathered,
        _parts(placed.weight_tails, modelling),
        moved.kv_reads,
        design.tier_paged,
        moved.kv_writes,
        design.tier_written,
        _parts(placed.kv_tails, modelling),
        vector,
        joined,
    )
    vector = products(vector, apart)
    matrix_reads = matrix_reads + vector_reads * joined
    vector_reads = vector_reads * apart
    return (
        stream_time_s(placed, matrix, matrix_reads, placed.matrix_byte_s, tile, modelling),
        stream_time_s(placed, vector, vector_reads, placed.vector_byte_s, tile, modelling),
    )


def _parts(tails: Tails, modelling: Modelling) -> Tiers:
    """Share of some bytes that crosses from each tier, staged, or that each tier keeps."""
    return (ALL, *tails) if modelling.is_staged else tier_shares(tails)


@place_by_place
def _slowed_activations(
    reads: FloatArray, writes: FloatArray, written: FloatArray, part: FloatArray
) -> FloatArray:
    """Bytes of the vector stream in a tier."""
    return (reads + writes * written) * part


@place_by_place
def _joined(
    weights: FloatArray,
    is_gathered: BoolArray,
    gathered: FloatArray,
    weight_part: FloatArray,
    kv_reads: FloatArray,
    paged: FloatArray,
    kv_writes: FloatArray,
    written: FloatArray,
    kv_part: FloatArray,
    activations: FloatArray,
    joined: FloatArray,
) -> FloatArray:
    """Bytes of the matrix stream in a tier."""
    of_weights = weights * where(is_gathered, gathered, 1.0) * weight_part
    return of_weights + (kv_reads * paged + kv_writes * written) * kv_part + activations * joined


def stream_time_s(
    placed: PlacedDesign,
    parts: Tiers,
    reads: FloatArray,
    seconds_per_byte: Tiers,
    tile: FloatArray,
    modelling: Modelling,
) -> FloatArray:
    """Time of one stream through the tiers and into on-chip memory; 0 without any bytes.

    Args:
        parts: Bytes that cross from each tier, staged, or that each tier keeps.
    """
    design = placed.design
    # Writes are posted: a stream of nothing else waits for no latency.
    waits = where(reads > 0, 1.0, 0.0)
    latency = products(design.tier_latency_s, waits)
    if modelling.is_staged:
        time = staged_time_s_at(parts, seconds_per_byte, latency, tile)
        landed = parts[0]
    else:
        time = parallel_time_s_at(parts, seconds_per_byte, latency)
        landed = sum_of(parts)
    return time + smaller(tile, landed) * placed.on_chip_byte_s + design.on_chip_latency_s * waits
