"""What the operator stage knows of modelling choices, operators, designs and results.

Every record has two lives, as the formulas have (see ``hardware/formula_operations.py``). On NumPy
arrays, what depends on the design is (n, 1), what depends on the operator is (o,), and results are
(n, o); compiled, all of them are single numbers. Options come as numbers for the same reason.
"""

from __future__ import annotations

from typing import NamedTuple

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.evaluators.npu.placement import Levels, Tails, Three, Tiers


class Modelling(NamedTuple):
    """The options that the stage depends on.

    Attributes:
        blocks_for_capacity: Blocking ``capacity``; else ``array`` (see ``calibrated.py``).
        is_series: Array and memory work one after the other: decode under ``array``.
        is_staged: Topology ``staged``; else ``parallel``.
        is_vector_serial: The vector unit works after array and memories; else beside them.
        offchip_efficiency: Share of the off-chip peak that streams can use.
        requests_in_flight: Chunks that a tier can have outstanding; 0 for no limit.
    """

    blocks_for_capacity: bool
    is_series: bool
    is_staged: bool
    is_vector_serial: bool
    offchip_efficiency: float
    requests_in_flight: float


class StageOperator(NamedTuple):
    """What a pass knows of its operators; per instance and, unless said otherwise, per request.

    Attributes:
        instances: Instances of the operator in one pass.
        k: Inner size of a product.
        n: Columns of a product.
        has_rows: Whether it is a product at all.
        is_attention: Whether each request multiplies with its own keys or values.
        inputs: Activations that it moves in, elements.
        outputs: Activations that it moves out, elements.
        kv_read: Elements read from the KV cache.
        kv_written: Elements written to it.
        state_read: Bytes of recurrent state read.
        state_written: Bytes of recurrent state written.
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
    state_read: FloatArray
    state_written: FloatArray


class Shape(NamedTuple):
    """What depends on operator, array, dataflow and batch size alone.

    Attributes:
        cycles: Of the matrix array.
        rows: Rows of each product.
        per_product: Share of the operator that one product is: 1 over the number of products.
        weights_read: Weight elements.
        slots: Columns side by side in the array's depth.
        near_stationary: Times the array streams weights or keys and values.
        near_inputs: Times it streams the input activations.
        near_spills: Times it puts partial sums back.
    """

    cycles: FloatArray
    rows: FloatArray
    per_product: FloatArray
    weights_read: FloatArray
    slots: FloatArray
    near_stationary: FloatArray
    near_inputs: FloatArray
    near_spills: FloatArray


class DesignInputs(NamedTuple):
    """What is known of a design before placement.

    Attributes:
        batch_size: Requests processed together in the pass.
        weight_bytes: Bytes of a weight, on average over layers of several formats.
        kv_bytes: Bytes of an element of the KV cache.
        dataflow: Position in ``DATAFLOWS``.
        depth: MLEN.
        width: BLEN.
        clock_hz: Clock of the array.
        matrix_share: Share of the off-chip bandwidth for weights and KV cache; 1 if shared.
        is_shared: Whether the two streams share the off-chip bandwidth freely.
        storage: Position in ``PRIORITIES``.
        sizes: Bytes of each kind of data.
        data_capacity_bytes: On-chip bytes for data that stay.
        on_chip_capacity_bytes: All of the on-chip memory.
        write_energy_ratio: Energy of a byte written over that of one read, on chip and of each
            tier.
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
    sizes: Three
    data_capacity_bytes: FloatArray
    on_chip_capacity_bytes: FloatArray
    on_chip_bandwidth_bytes_per_s: FloatArray
    on_chip_latency_s: FloatArray
    tier_capacity_bytes: Tiers
    tier_bandwidth_bytes_per_s: Tiers
    tier_latency_s: Tiers
    write_energy_ratio: Levels


class WeightGroups(NamedTuple):
    """Layers by the format of their weights; ``g`` groups at most, the same for all operators.

    Attributes:
        shares: (g, n) of the layers, 1 in sum; 0 where a design has fewer groups.
        weight_bytes: (g, n) bytes of a weight.
    """

    shares: FloatArray
    weight_bytes: FloatArray


class LeastWork(NamedTuple):
    """Sums over a pass that no choice but the batch size changes.

    Attributes:
        shared_cycles: Of the matrix array, for weights.
        own_cycles: For the keys, values or states that each request has of its own.
        weight_elements: Read.
        kv_elements: Read.
        weight_operators: Operators that read weights.
        kv_operators: Operators that read keys or values.
        weight_tiles: Elements that the array holds of the former, added up.
        kv_tiles: Of the latter.
    """

    shared_cycles: FloatArray
    own_cycles: FloatArray
    weight_elements: FloatArray
    kv_elements: FloatArray
    weight_operators: FloatArray
    kv_operators: FloatArray
    weight_tiles: FloatArray
    kv_tiles: FloatArray


class Choices(NamedTuple):
    """What ``n`` designs choose from, and what tells their choices apart.

    Attributes:
        sizes: (s,) batch sizes, ascending.
        least_size: (n,) position of the smallest allowed.
        most_size: (n,) position of the largest.
        orders: (p, t) orders of the tiers.
        allowed: (p, n) those that may be the fastest: 2, or 1 if for their latencies alone; else 0.
        kv_request_bytes: (n,) KV cache and state of one request.
        lane_rate: (n,) cycles of all lanes of the vector unit in a second.
        lane_cycles: Of one request, in a pass.
        largest_activations: Elements of one request's largest operator.
        is_prefill: Whether a pass has one request, however many are held.
        longest_pass_s: Longest pass within the limits on latency.
        message_fixed_s: Time of a pass's messages between devices, whatever their bytes.
        message_byte_s: Seconds per byte of an activation and request in the pass.
    """

    sizes: FloatArray
    least_size: IntArray
    most_size: IntArray
    orders: IntArray
    allowed: IntArray
    kv_request_bytes: FloatArray
    lane_rate: FloatArray
    lane_cycles: float
    largest_activations: float
    is_prefill: bool
    longest_pass_s: float
    message_fixed_s: float
    message_byte_s: float


class StageDesign(NamedTuple):
    """What a design brings to every operator.

    Attributes:
        held: On-chip bytes of each kind of data.
        pinned: The share of all data of each kind that this is.
        activation_tails: Share of the activations in each deeper tier and below.
        kv_tails: Of the KV cache.
        ports: How fast its ports are.
        buffer: How large its tiles can be.
        cycle_s: Seconds of a cycle of the array.
    """

    inputs: DesignInputs
    held: Three
    pinned: Three
    activation_tails: Tails
    kv_tails: Tails
    weight_tails: Tails
    ports: Ports
    buffer: Buffer
    cycle_s: FloatArray


class Buffer(NamedTuple):
    """The on-chip memory for the tiles of the running operator, as inverse sizes.

    Attributes:
        per_byte: Share of it that a byte takes.
        per_sum: Share of it that a partial sum takes.
        per_row: Share of a square tile of partial sums that one row or column takes.
    """

    per_byte: FloatArray
    per_sum: FloatArray
    per_row: FloatArray


class Ports(NamedTuple):
    """Seconds per byte; 0 where there is no such port.

    Attributes:
        on_chip: Of the on-chip memory.
        first_tier: Of the usable bandwidth of the tier that serves the first chunk: tier 1 if
            data pass from tier to tier, else the fastest.
        first_latency_s: Seconds until that chunk comes; else the least of all tiers.
        matrix: Of each tier, for weights and KV cache.
        vector: Of each tier, for activations.
    """

    on_chip: FloatArray
    first_tier: FloatArray
    first_latency_s: FloatArray
    matrix: Tiers
    vector: Tiers


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


class PassTotals(NamedTuple):
    """What a whole pass of ``n`` designs takes and moves.

    Attributes:
        time_s: (n,) of array and memories: of the operators, or longer where a memory waits for
            power.
        cycles: (n,) of the array.
        moved: (n,) bytes by kind.
        reads: (l, n) bytes read at each level's port, the tiers in the order of their use.
        writes: (l, n) bytes written there.
        kv_held: (l, n) part of the KV cache that each of these levels keeps.
    """

    time_s: FloatArray
    cycles: FloatArray
    moved: Moved
    reads: FloatArray
    writes: FloatArray
    kv_held: FloatArray


N_SUMS = 2 + len(Moved._fields)
"""Numbers of a pass that are sums over its operators; the first of :class:`PassTotals`."""


def n_totals_of(n_levels: int) -> int:
    """Numbers of :class:`PassTotals` of designs with so many memory levels."""
    return N_SUMS + 3 * n_levels


def totals_of(rows: FloatArray) -> PassTotals:
    """The totals that lie in (s, n), in the order of the record."""
    n_levels = (len(rows) - N_SUMS) // 3
    reads, writes, kv_held = (rows[i : i + n_levels] for i in range(N_SUMS, len(rows), n_levels))
    return PassTotals(rows[0], rows[1], Moved(*rows[2:N_SUMS]), reads, writes, kv_held)


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
