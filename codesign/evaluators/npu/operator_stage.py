"""What one operator moves and how long it takes: the formulas of the innermost loop.

Physics without fitted factors; ``calibrated.py`` has the reading of the paper's tables. The records
that go in and out are in ``stage_records.py``.
"""

from __future__ import annotations

from codesign.columns import FloatArray
from codesign.evaluators.npu.calibrated import calibrated_bytes, calibrated_times
from codesign.evaluators.npu.placement import (
    Levels,
    Tails,
    Three,
    Tiers,
    Two,
    balanced_tails,
    on_chip_bytes,
    own_parts,
    tier_shares,
    tier_tails,
)
from codesign.evaluators.npu.stage_records import (
    DesignInputs,
    Modelling,
    Moved,
    PassTimes,
    Ports,
    Shape,
    StageDesign,
    StageOperator,
)
from codesign.evaluators.npu.traffic import (
    array_streams,
    blocked_passes,
    buffer_of,
    read_off_chip_bytes,
    stationary_operand_bytes,
)
from codesign.hardware.formula_operations import (
    inverse,
    larger,
    place_by_place,
    products,
    smaller,
    where,
)
from codesign.hardware.hierarchy import (
    in_flight_bandwidth_bytes_per_s,
    parallel_time_s_at,
    staged_time_s_at,
)


def design_of(inputs: DesignInputs, modelling: Modelling) -> StageDesign:
    """Placement and ports of a design."""
    held = on_chip_bytes(inputs.sizes, inputs.data_capacity_bytes, inputs.storage)
    tails = tails_of(inputs, modelling)
    return StageDesign(
        inputs=inputs,
        held=held,
        pinned=pinned_shares(held, inputs.sizes),
        activation_tails=tails[0],
        kv_tails=tails[1],
        weight_tails=tails[2],
        ports=_ports(inputs, modelling),
        buffer=buffer_of(inputs.on_chip_capacity_bytes),
        cycle_s=inverse(inputs.clock_hz),
    )


def with_weight_bytes(design: StageDesign, weight_bytes: FloatArray) -> StageDesign:
    """The design as layers see it whose weights have a format of their own.

    Placement and ports stay: they are those of all layers together, and of chunks of average size.
    """
    inputs = design.inputs
    return StageDesign(
        DesignInputs(
            inputs.batch_size,
            weight_bytes,
            inputs.activation_bytes,
            inputs.kv_bytes,
            inputs.dataflow,
            inputs.depth,
            inputs.width,
            inputs.clock_hz,
            inputs.matrix_share,
            inputs.is_shared,
            inputs.storage,
            inputs.sizes,
            inputs.data_capacity_bytes,
            inputs.on_chip_capacity_bytes,
            inputs.on_chip_bandwidth_bytes_per_s,
            inputs.on_chip_latency_s,
            inputs.tier_capacity_bytes,
            inputs.tier_bandwidth_bytes_per_s,
            inputs.tier_latency_s,
            inputs.write_energy_ratio,
        ),
        design.held,
        design.pinned,
        design.activation_tails,
        design.kv_tails,
        design.weight_tails,
        design.ports,
        design.buffer,
        design.cycle_s,
    )


def tails_of(inputs: DesignInputs, modelling: Modelling) -> tuple[Tails, Tails, Tails]:
    """Share of each kind's off-chip bytes in each deeper tier and below."""
    if modelling.is_staged:
        return tier_tails(inputs.sizes, inputs.tier_capacity_bytes, inputs.storage)
    size = inputs.sizes[0] + inputs.sizes[1] + inputs.sizes[2]
    bandwidth = _sustained_bandwidth(inputs, modelling)
    of_all = balanced_tails(size, inputs.tier_capacity_bytes, bandwidth)
    # Calibrated, a prefill knows the fastest tier alone.
    counted = 1.0 if modelling.blocks_for_capacity or modelling.is_series else 0.0
    tails = products(of_all, counted)
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
    off_chip = 1.0 - pinned_share
    return (pinned_share, *products(tier_shares(tails), off_chip))


def _sustained_bandwidth(inputs: DesignInputs, modelling: Modelling) -> Tiers:
    """Of each tier, for requests of one chunk: what the array takes in one cycle."""
    bandwidth, latency = inputs.tier_bandwidth_bytes_per_s, inputs.tier_latency_s
    if not modelling.requests_in_flight > 0:
        return bandwidth
    chunk_bytes = inputs.depth * inputs.width * inputs.weight_bytes
    many = modelling.requests_in_flight
    return _in_flight_bandwidth(bandwidth, latency, chunk_bytes, many)


def _ports(inputs: DesignInputs, modelling: Modelling) -> Ports:
    """How fast the ports are."""
    usable = modelling.offchip_efficiency
    sustained = _sustained_bandwidth(inputs, modelling)
    matrix, vector = usable * inputs.matrix_share, usable * (1.0 - inputs.matrix_share)
    return Ports(
        on_chip=inverse(inputs.on_chip_bandwidth_bytes_per_s),
        first_tier=inverse(usable * inputs.tier_bandwidth_bytes_per_s[0]),
        first_latency_s=_first_latency_s(inputs, modelling),
        matrix=_inverse_product(sustained, matrix),
        vector=_inverse_product(sustained, vector),
    )


_in_flight_bandwidth = place_by_place(in_flight_bandwidth_bytes_per_s)


@place_by_place
def _inverse_product(first: FloatArray, second: FloatArray) -> FloatArray:
    return inverse(first * second)


def _first_latency_s(inputs: DesignInputs, modelling: Modelling) -> FloatArray:
    latency, bandwidth = inputs.tier_latency_s, inputs.tier_bandwidth_bytes_per_s
    if modelling.is_staged:
        return latency[0]
    least = latency[0]
    for tier in range(1, len(latency)):
        least = smaller(least, where(bandwidth[tier] > 0, latency[tier], least))
    return least


def moved_bytes(
    operator: StageOperator, shape: Shape, design: StageDesign, modelling: Modelling
) -> Moved:
    """What one instance of an operator moves with the best blocks for the on-chip memory."""
    if not modelling.blocks_for_capacity:
        return calibrated_bytes(operator, shape, design, modelling)
    resources = design.inputs
    batch = resources.batch_size
    near_reads, near_writes = array_streams(operator, shape, design)
    per_activation = batch * resources.activation_bytes
    inputs, outputs = operator.inputs * per_activation, operator.outputs * per_activation
    far = blocked_passes(
        shape.rows,
        operator.n,
        stationary_operand_bytes(operator, shape, design) * shape.per_product,
        inputs * shape.per_product,
        design.buffer,
        resources.dataflow,
    )
    spilled = 1.0 - smaller(design.held[0] / larger(inputs + outputs, 1.0), 1.0)
    kept = operator.kv_read * resources.kv_bytes + operator.state_read
    appended = operator.kv_written * resources.kv_bytes + operator.state_written
    return Moved(
        array_reads=near_reads,
        array_writes=near_writes,
        weight_reads=read_off_chip_bytes(
            shape.weights_read * resources.weight_bytes,
            far.stationary,
            design.pinned[2],
            design.held[2],
        ),
        kv_reads=batch
        * read_off_chip_bytes(kept, far.stationary, design.pinned[1], design.held[1]),
        kv_writes=appended * (batch * (1.0 - design.pinned[1])),
        activation_reads=inputs * far.inputs * spilled,
        activation_writes=outputs * spilled,
    )


def operator_times(
    operator: StageOperator, shape: Shape, design: StageDesign, moved: Moved, modelling: Modelling
) -> PassTimes:
    """How long one instance of an operator takes."""
    if not modelling.blocks_for_capacity:
        return calibrated_times(shape, design, moved, modelling)
    inputs = design.inputs
    port = design.ports.on_chip
    compute = shape.cycles * design.cycle_s
    from_tiers = moved.weight_reads + moved.kv_reads + moved.activation_reads
    off_chip = from_tiers + (moved.kv_writes + moved.activation_writes)
    on_chip = (moved.array_reads + moved.array_writes + off_chip) * port
    tile = _tile_bytes(operator, shape, design)
    matrix, vector = _stream_times(design, moved, tile, modelling)
    transfer = larger(matrix, vector)
    # The first chunk is no larger than all that comes.
    near_fill = inputs.on_chip_latency_s + smaller(tile, moved.array_reads) * port
    first_tier = design.ports.first_latency_s + smaller(tile, from_tiers) * design.ports.first_tier
    exposed = near_fill + where(from_tiers > 0, first_tier, 0.0)
    is_active = on_chip > 0
    through_port = where(is_active, on_chip + inputs.on_chip_latency_s, 0.0)
    time = larger(compute + where(is_active, exposed, 0.0), larger(through_port, transfer))
    return PassTimes(compute, through_port, transfer, time)


def _tile_bytes(operator: StageOperator, shape: Shape, design: StageDesign) -> FloatArray:
    """What the array holds of an operator's weights or of its keys or values."""
    inputs = design.inputs
    element = where(operator.is_attention, inputs.kv_bytes, inputs.weight_bytes)
    columns = smaller(shape.slots * inputs.width, operator.n)
    clipped = smaller(inputs.depth, operator.k) * columns * element
    chunk = inputs.depth * inputs.width * inputs.weight_bytes
    return where(operator.has_rows, clipped, chunk)


def _stream_times(design: StageDesign, moved: Moved, tile: FloatArray, modelling: Modelling) -> Two:
    """Time of the matrix stream and of the vector stream; of both as one, then of nothing."""
    inputs = design.inputs
    kv = moved.kv_reads + moved.kv_writes
    activations = moved.activation_reads + moved.activation_writes
    vector = (activations, *products(design.activation_tails, activations))
    matrix_reads, vector_reads = moved.weight_reads + moved.kv_reads, moved.activation_reads
    # Streams without shares of their own are one stream.
    joined, apart = where(inputs.is_shared, 1.0, 0.0), where(inputs.is_shared, 0.0, 1.0)
    weights = moved.weight_reads
    deeper = _joined(weights, design.weight_tails, kv, design.kv_tails, vector[1:], joined)
    matrix = (weights + kv + vector[0] * joined, *deeper)
    vector = products(vector, apart)
    matrix_reads, vector_reads = matrix_reads + vector_reads * joined, vector_reads * apart
    return (
        stream_time_s(design, matrix, matrix_reads, design.ports.matrix, tile, modelling),
        stream_time_s(design, vector, vector_reads, design.ports.vector, tile, modelling),
    )


@place_by_place
def _joined(
    weights: FloatArray,
    weight_tail: FloatArray,
    kv: FloatArray,
    kv_tail: FloatArray,
    activations: FloatArray,
    joined: FloatArray,
) -> FloatArray:
    """Bytes of the matrix stream that cross from a deeper tier."""
    return weights * weight_tail + kv * kv_tail + activations * joined


def stream_time_s(
    design: StageDesign,
    crossing: Tiers,
    reads: FloatArray,
    seconds_per_byte: Tiers,
    tile: FloatArray,
    modelling: Modelling,
) -> FloatArray:
    """Time of one stream through the tiers and into on-chip memory; 0 without any bytes."""
    inputs = design.inputs
    # Writes are posted: a stream of nothing else waits for no latency.
    waits = where(reads > 0, 1.0, 0.0)
    latency = products(inputs.tier_latency_s, waits)
    if modelling.is_staged:
        time = staged_time_s_at(crossing, seconds_per_byte, latency, tile)
    else:
        time = parallel_time_s_at(own_parts(crossing), seconds_per_byte, latency)
    landing = smaller(tile, crossing[0]) * design.ports.on_chip
    return time + landing + inputs.on_chip_latency_s * waits
