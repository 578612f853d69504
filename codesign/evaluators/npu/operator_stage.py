"""What one operator moves and how long it takes: the formulas of the innermost loop.

Every function here has two lives (see ``hardware/elementwise.py``). On NumPy arrays, what depends
on the design is (n, 1), what depends on the operator is (o,), and results are (n, o); compiled,
all of them are single numbers. Options come as numbers for the same reason.
"""

from __future__ import annotations

from typing import NamedTuple

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.evaluators.npu.options import ACCUMULATOR_BYTES
from codesign.evaluators.npu.placement import Three, Two, on_chip_bytes, tier_tails
from codesign.evaluators.npu.traffic import Passes, blocked_passes, read_off_chip_bytes
from codesign.hardware.elementwise import inverse, larger, smaller, where
from codesign.hardware.hierarchy import (
    in_flight_bandwidth_bytes_per_s,
    parallel_time_s_at,
    staged_time_s_at,
)


class Modelling(NamedTuple):
    """The options that the stage depends on.

    Attributes:
        blocks_for_capacity: Blocking ``capacity``; else ``array``.
        is_staged: Topology ``staged``; else ``parallel``.
        is_serial: Streams ``serial``; else ``concurrent``.
        offchip_efficiency: Share of the off-chip peak that streams can use.
        requests_in_flight: Chunks that a tier can have outstanding; 0 for no limit.
    """

    blocks_for_capacity: bool
    is_staged: bool
    is_serial: bool
    offchip_efficiency: float
    requests_in_flight: float


class Operator(NamedTuple):
    """What a pass knows of its operators; per instance and, unless said otherwise, per request.

    Attributes:
        instances: Of it in a pass.
        k: Inner size of a product.
        n: Columns of a product.
        has_rows: Whether it is a product at all.
        is_attention: Whether each request multiplies with its own keys or values.
        inputs: Activations that it moves in, elements.
        outputs: Activations that it moves out, elements.
        kv_read: Elements read from the KV cache.
        kv_written: Elements written to it.
    """

    instances: FloatArray
    k: FloatArray
    n: FloatArray
    has_rows: BoolArray
    is_attention: BoolArray
    inputs: FloatArray
    outputs: FloatArray
    kv_read: FloatArray
    kv_written: FloatArray


class Shape(NamedTuple):
    """What depends on operator, array, dataflow and batch size alone.

    Attributes:
        cycles: Of the matrix array.
        rows: Rows of each product.
        n_products: Products; at least 1.
        weights_read: Weight elements.
        slots: Columns side by side in the array's depth.
        near_stationary: Times the array streams weights or keys and values.
        near_inputs: Times it streams the input activations.
        near_spills: Times it puts partial sums back.
        far_stationary: As ``near``, from off chip; of blocking ``array`` only.
        far_inputs: Likewise.
        far_spills: Likewise.
    """

    cycles: FloatArray
    rows: FloatArray
    n_products: FloatArray
    weights_read: FloatArray
    slots: FloatArray
    near_stationary: FloatArray
    near_inputs: FloatArray
    near_spills: FloatArray
    far_stationary: FloatArray
    far_inputs: FloatArray
    far_spills: FloatArray


class DesignInputs(NamedTuple):
    """What is known of a design before placement.

    Attributes:
        batch_size: Requests processed together in the pass.
        weight_bytes: Bytes of a weight.
        activation_bytes: Bytes of an activation.
        kv_bytes: Bytes of an element of the KV cache.
        dataflow: Position in ``DATAFLOWS``.
        depth: MLEN.
        width: BLEN.
        clock_hz: Clock of the array.
        matrix_share: Share of the off-chip bandwidth for weights and KV cache; 1 if shared.
        is_shared: Whether the two streams share the off-chip bandwidth freely.
        storage: Position in ``PRIORITIES``, on chip.
        tier_priority: Position in ``PRIORITIES``, off chip.
        sizes: Bytes of each kind of data.
        data_capacity_bytes: On-chip bytes for data that stay.
        on_chip_capacity_bytes: All of the on-chip memory.
        on_chip_bandwidth_bytes_per_s: Its bandwidth.
        on_chip_latency_s: Its latency.
        tier_capacity_bytes: Of each tier.
        tier_bandwidth_bytes_per_s: Of each tier.
        tier_latency_s: Of each tier.
    """

    batch_size: FloatArray
    weight_bytes: FloatArray
    activation_bytes: FloatArray
    kv_bytes: FloatArray
    dataflow: IntArray
    depth: FloatArray
    width: FloatArray
    clock_hz: FloatArray
    matrix_share: FloatArray
    is_shared: BoolArray
    storage: IntArray
    tier_priority: IntArray
    sizes: Three
    data_capacity_bytes: FloatArray
    on_chip_capacity_bytes: FloatArray
    on_chip_bandwidth_bytes_per_s: FloatArray
    on_chip_latency_s: FloatArray
    tier_capacity_bytes: Three
    tier_bandwidth_bytes_per_s: Three
    tier_latency_s: Three


class Design(NamedTuple):
    """What a design brings to every operator.

    Attributes:
        inputs: What was known before.
        held: On-chip bytes of each kind of data.
        pinned: The share of all data of each kind that this is.
        activation_tails: Share of the activations in tier 2 or deeper, and in tier 3.
        kv_tails: Of the KV cache.
        weight_tails: Of the weights.
        ports: How fast its ports are.
    """

    inputs: DesignInputs
    held: Three
    pinned: Three
    activation_tails: Two
    kv_tails: Two
    weight_tails: Two
    ports: Ports


class Ports(NamedTuple):
    """Seconds per byte; 0 where there is no such port.

    Attributes:
        on_chip: Of the on-chip memory.
        first_tier: Of the usable bandwidth of tier 1.
        matrix: Of each tier, for weights and KV cache.
        vector: Of each tier, for activations.
    """

    on_chip: FloatArray
    first_tier: FloatArray
    matrix: Three
    vector: Three


class Moved(NamedTuple):
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


class PassTimes(NamedTuple):
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


def design_of(inputs: DesignInputs, modelling: Modelling) -> Design:
    """Placement and ports of a design."""
    held = on_chip_bytes(inputs.sizes, inputs.data_capacity_bytes, inputs.storage)
    tails = tier_tails(inputs.sizes, inputs.tier_capacity_bytes, inputs.tier_priority)
    chunk_bytes = inputs.depth * inputs.width * inputs.weight_bytes
    return Design(
        inputs=inputs,
        held=held,
        pinned=pinned_shares(held, inputs.sizes),
        activation_tails=tails[0],
        kv_tails=tails[1],
        weight_tails=tails[2],
        ports=_ports(inputs, chunk_bytes, modelling),
    )


def pinned_shares(held: Three, sizes: Three) -> Three:
    """The share of all data of each kind that on-chip memory holds."""
    return (
        smaller(held[0] / larger(sizes[0], 1.0), 1.0),
        smaller(held[1] / larger(sizes[1], 1.0), 1.0),
        smaller(held[2] / larger(sizes[2], 1.0), 1.0),
    )


def _ports(inputs: DesignInputs, chunk_bytes: FloatArray, modelling: Modelling) -> Ports:
    """How fast the ports are, for requests of one chunk, what the array takes in one cycle."""
    bandwidth, latency = inputs.tier_bandwidth_bytes_per_s, inputs.tier_latency_s
    usable = modelling.offchip_efficiency
    sustained = bandwidth
    if modelling.requests_in_flight > 0:
        many = modelling.requests_in_flight
        sustained = (
            in_flight_bandwidth_bytes_per_s(bandwidth[0], latency[0], chunk_bytes, many),
            in_flight_bandwidth_bytes_per_s(bandwidth[1], latency[1], chunk_bytes, many),
            in_flight_bandwidth_bytes_per_s(bandwidth[2], latency[2], chunk_bytes, many),
        )
    matrix, vector = usable * inputs.matrix_share, usable * (1.0 - inputs.matrix_share)
    return Ports(
        on_chip=inverse(inputs.on_chip_bandwidth_bytes_per_s),
        first_tier=inverse(usable * bandwidth[0]),
        matrix=(
            inverse(sustained[0] * matrix),
            inverse(sustained[1] * matrix),
            inverse(sustained[2] * matrix),
        ),
        vector=(
            inverse(sustained[0] * vector),
            inverse(sustained[1] * vector),
            inverse(sustained[2] * vector),
        ),
    )


def moved_bytes(operator: Operator, shape: Shape, design: Design, modelling: Modelling) -> Moved:
    """What one instance of an operator moves."""
    given = design.inputs
    batch = given.batch_size
    weights = shape.weights_read * given.weight_bytes
    kv = operator.kv_read * given.kv_bytes
    per_activation = batch * given.activation_bytes
    inputs, outputs = operator.inputs * per_activation, operator.outputs * per_activation
    stationary = weights + kv * batch
    far = _far_passes(operator, shape, design, stationary, inputs, modelling)
    # Streamed anew for every tile of the array, an operand is pinned or not; only a compiler
    # that blocks for the on-chip memory keeps the operand at hand there.
    caches = 1.0 if modelling.blocks_for_capacity else 0.0
    spilled = 1.0 - smaller(design.held[0] / larger(inputs + outputs, 1.0), 1.0)
    sums = outputs * (ACCUMULATOR_BYTES / given.activation_bytes) * shape.near_spills
    far_sums = outputs * far.spills
    kv_reads = read_off_chip_bytes(kv, far.stationary, design.pinned[1], design.held[1] * caches)
    return Moved(
        array_reads=stationary * shape.near_stationary + inputs * shape.near_inputs + sums,
        array_writes=outputs + sums,
        weight_reads=read_off_chip_bytes(
            weights, far.stationary, design.pinned[2], design.held[2] * caches
        ),
        kv_reads=batch * kv_reads,
        kv_writes=operator.kv_written * (batch * given.kv_bytes * (1.0 - design.pinned[1])),
        activation_reads=(inputs * far.inputs + far_sums) * spilled,
        activation_writes=(outputs + far_sums) * spilled,
    )


def _far_passes(
    operator: Operator,
    shape: Shape,
    design: Design,
    stationary: FloatArray,
    inputs: FloatArray,
    modelling: Modelling,
) -> Passes:
    """How often what is not resident has to come from off chip."""
    given = design.inputs
    if modelling.blocks_for_capacity:
        per_product = 1.0 / shape.n_products
        return blocked_passes(
            shape.rows,
            operator.n,
            stationary * per_product,
            inputs * per_product,
            given.on_chip_capacity_bytes,
            given.dataflow,
        )
    return Passes(shape.far_stationary, shape.far_inputs, shape.far_spills)


def operator_times(
    operator: Operator, shape: Shape, design: Design, moved: Moved, modelling: Modelling
) -> PassTimes:
    """How long one instance of an operator takes."""
    given = design.inputs
    port = design.ports.on_chip
    compute = shape.cycles / given.clock_hz
    from_tiers = moved.weight_reads + moved.kv_reads + moved.activation_reads
    off_chip = from_tiers + (moved.kv_writes + moved.activation_writes)
    on_chip = (moved.array_reads + moved.array_writes + off_chip) * port
    tile = _tile_bytes(operator, shape, design)
    matrix, vector = _stream_times(design, moved, tile, modelling)
    transfer = matrix + vector if modelling.is_serial else larger(matrix, vector)
    # The first chunk is no larger than all that comes.
    near_fill = given.on_chip_latency_s + smaller(tile, moved.array_reads) * port
    first_tier = given.tier_latency_s[0] + smaller(tile, from_tiers) * design.ports.first_tier
    exposed = near_fill + where(from_tiers > 0, first_tier, 0.0)
    is_active = on_chip > 0
    through_port = where(is_active, on_chip + given.on_chip_latency_s, 0.0)
    time = larger(compute + where(is_active, exposed, 0.0), larger(through_port, transfer))
    return PassTimes(compute, through_port, transfer, time)


def _tile_bytes(operator: Operator, shape: Shape, design: Design) -> FloatArray:
    """What the array holds of an operator's weights or of its keys or values."""
    given = design.inputs
    element = where(operator.is_attention, given.kv_bytes, given.weight_bytes)
    columns = smaller(shape.slots * given.width, operator.n)
    clipped = smaller(given.depth, operator.k) * columns * element
    chunk = given.depth * given.width * given.weight_bytes
    return where(operator.has_rows, clipped, chunk)


def _stream_times(design: Design, moved: Moved, tile: FloatArray, modelling: Modelling) -> Two:
    """Time of the matrix stream and of the vector stream; of both as one, then of nothing."""
    given = design.inputs
    kv = moved.kv_reads + moved.kv_writes
    activations = moved.activation_reads + moved.activation_writes
    vector = (
        activations,
        activations * design.activation_tails[0],
        activations * design.activation_tails[1],
    )
    matrix_reads, vector_reads = moved.weight_reads + moved.kv_reads, moved.activation_reads
    # Streams without shares of their own are one stream.
    joined, apart = where(given.is_shared, 1.0, 0.0), where(given.is_shared, 0.0, 1.0)
    matrix = (
        moved.weight_reads + kv + vector[0] * joined,
        moved.weight_reads * design.weight_tails[0] + kv * design.kv_tails[0] + vector[1] * joined,
        moved.weight_reads * design.weight_tails[1] + kv * design.kv_tails[1] + vector[2] * joined,
    )
    vector = (vector[0] * apart, vector[1] * apart, vector[2] * apart)
    matrix_reads, vector_reads = matrix_reads + vector_reads * joined, vector_reads * apart
    return (
        _stream_time(design, matrix, matrix_reads, design.ports.matrix, tile, modelling),
        _stream_time(design, vector, vector_reads, design.ports.vector, tile, modelling),
    )


def _stream_time(
    design: Design,
    crossing: Three,
    reads: FloatArray,
    seconds_per_byte: Three,
    tile: FloatArray,
    modelling: Modelling,
) -> FloatArray:
    given = design.inputs
    # Writes are posted: a stream of nothing else waits for no latency.
    waits = where(reads > 0, 1.0, 0.0)
    latency = (
        given.tier_latency_s[0] * waits,
        given.tier_latency_s[1] * waits,
        given.tier_latency_s[2] * waits,
    )
    if modelling.is_staged:
        time = staged_time_s_at(crossing, seconds_per_byte, latency, tile)
    else:
        owned = (crossing[0] - crossing[1], crossing[1] - crossing[2], crossing[2])
        time = parallel_time_s_at(owned, seconds_per_byte, latency)
    landing = smaller(tile, crossing[0]) * design.ports.on_chip
    return time + landing + given.on_chip_latency_s * waits
