"""Records of the operator stage: modelling choices, operators, designs and results.

Every record has two lives, as the formulas have (see ``hardware/formula_operations.py``). On NumPy
arrays, what depends on the design is (n, 1), what depends on the operator is (o,), and results are
(n, o); compiled, all of them are single numbers. Options come as numbers for the same reason.
"""

from __future__ import annotations

from typing import NamedTuple

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.models.machines.npu.placement import Tails, Three, Tiers


class Modelling(NamedTuple):
    """The options that the stage depends on.

    Attributes:
        is_array_blocked: Blocking ``array``; else ``capacity``.
        is_staged: Topology ``staged``; else ``parallel``.
        is_vector_serial: The vector unit works after array and memories; else beside them.
        offchip_efficiency: Share of the off-chip peak that streams can use.
        requests_in_flight: Chunks that a tier can have outstanding; 0 for no limit.
    """

    is_array_blocked: bool
    is_staged: bool
    is_vector_serial: bool
    offchip_efficiency: float
    requests_in_flight: float


class StageOperator(NamedTuple):
    """Operators of a pass; per instance and, unless stated otherwise, per request.

    Attributes:
        instances: Instances of the operator in one pass.
        k: Inner size of a product.
        n: Columns of a product.
        has_rows: Whether it is a product at all.
        is_attention: Whether each request multiplies with its own keys or values.
        is_gathered: Whether a token uses some of the weight matrices and not others.
        inputs: Activations that it moves in, elements.
        outputs: Activations that it moves out, elements.
        kv_read: Elements read from the KV cache.
        kv_written: Elements written to it.
        state_read: Bytes of recurrent state read.
        state_written: Bytes of recurrent state written.
        scores_in: Attention scores that a product reads, elements.
        scores_out: Scores that it writes.
        port_kv: Elements in the format of the KV cache that stream through the on-chip port.
        port_kv_written: Elements of that format written there.
        port_activations: Activations that stream there beside the inputs, elements.
        port_outputs: Activations written there beside the outputs, elements.
        port_state_written: Bytes of recurrent state written there.
    """

    instances: FloatArray
    k: FloatArray
    n: FloatArray
    has_rows: BoolArray
    is_attention: BoolArray
    is_gathered: BoolArray
    inputs: FloatArray
    outputs: FloatArray
    kv_read: FloatArray
    kv_written: FloatArray
    state_read: FloatArray
    state_written: FloatArray
    scores_in: FloatArray
    scores_out: FloatArray
    port_kv: FloatArray
    port_kv_written: FloatArray
    port_activations: FloatArray
    port_outputs: FloatArray
    port_state_written: FloatArray


class Shape(NamedTuple):
    """Numbers that depend on operator, array, dataflow and batch size alone.

    Attributes:
        cycles: Of the matrix array.
        active_cycles: Cycles weighted by the rows that draw power.
        rows: Rows of each product.
        per_product: Share of the operator that one product is: 1 over the number of products.
        weights_read: Weight elements.
        first_columns: Columns that the array needs before it can start.
        near_stationary: Times the array streams weights or keys and values.
        near_inputs: Times it streams the input activations.
        near_spills: Times it puts partial sums back.
    """

    cycles: FloatArray
    active_cycles: FloatArray
    rows: FloatArray
    per_product: FloatArray
    weights_read: FloatArray
    first_columns: FloatArray
    near_stationary: FloatArray
    near_inputs: FloatArray
    near_spills: FloatArray


class StageDesign(NamedTuple):
    """Properties of a design before its batch size is chosen.

    Attributes:
        weight_bytes: Bytes of a weight, on average over layers of several formats.
        activation_bytes: Bytes of an activation.
        kv_bytes: Bytes of an element of the KV cache.
        all_weight_bytes: All weights.
        kv_request_bytes: KV cache and recurrent state of one request at its end.
        activation_request_bytes: Activations of one request's largest operator, in and out.
        dataflow: Position in ``DATAFLOWS``.
        depth: MLEN.
        width: BLEN.
        clock_hz: Clock of the array.
        matrix_share: Share of the off-chip bandwidth for weights and KV cache; 1 if shared.
        is_shared: Whether the two streams share the off-chip bandwidth freely.
        storage: Position in ``PRIORITIES``.
        scores_on_chip: 1 if scores and vector operands pass the on-chip port, else 0.
        data_capacity_bytes: On-chip bytes for data that stay.
        on_chip_capacity_bytes: All of the on-chip memory.
        on_chip_write_ratio: Energy of a byte written over that of one read.
        tier_capacity_bytes: Of each tier, in the order of their use; likewise the others.
        tier_write_ratio: Energy of a byte written over that of one read.
        tier_paged: Time of a byte of the KV cache read over that of a streamed one.
        tier_gathered: The same of a weight of an expert that a token may not take.
        tier_written: The same of a byte written.
    """

    weight_bytes: FloatArray
    activation_bytes: FloatArray
    kv_bytes: FloatArray
    all_weight_bytes: FloatArray
    kv_request_bytes: FloatArray
    activation_request_bytes: FloatArray
    dataflow: IntArray
    depth: FloatArray
    width: FloatArray
    clock_hz: FloatArray
    matrix_share: FloatArray
    is_shared: BoolArray
    storage: IntArray
    scores_on_chip: FloatArray
    data_capacity_bytes: FloatArray
    on_chip_capacity_bytes: FloatArray
    on_chip_bandwidth_bytes_per_s: FloatArray
    on_chip_latency_s: FloatArray
    on_chip_write_ratio: FloatArray
    tier_capacity_bytes: Tiers
    tier_bandwidth_bytes_per_s: Tiers
    tier_latency_s: Tiers
    tier_write_ratio: Tiers
    tier_paged: Tiers
    tier_gathered: Tiers
    tier_written: Tiers


class PlacedDesign(NamedTuple):
    """A design with a batch size: where its data live, and how fast they come.

    Seconds per byte are 0 where there is no such port.

    Attributes:
        design: What it was before.
        batch_size: Requests processed together in the pass.
        held_bytes: On-chip bytes of each kind of data.
        pinned: The share of all data of each kind that this is.
        activation_tails: Share of the activations in each deeper tier and below.
        kv_tails: Of the KV cache.
        weight_tails: Of the weights.
        buffer_bytes: On-chip memory for the tiles of the running operator.
        cycle_s: Seconds of a cycle of the array.
        on_chip_byte_s: Seconds per byte of the on-chip memory.
        first_byte_s: Of the usable bandwidth of the tier that serves the first chunk: tier 1 if
            data pass from tier to tier, else the fastest.
        first_latency_s: Seconds until that chunk comes; else the least of all tiers.
        matrix_byte_s: Seconds per byte of each tier, for weights and KV cache.
        vector_byte_s: Of each tier, for activations.
    """

    design: StageDesign
    batch_size: FloatArray
    held_bytes: Three
    pinned: Three
    activation_tails: Tails
    kv_tails: Tails
    weight_tails: Tails
    buffer_bytes: FloatArray
    cycle_s: FloatArray
    on_chip_byte_s: FloatArray
    first_byte_s: FloatArray
    first_latency_s: FloatArray
    matrix_byte_s: Tiers
    vector_byte_s: Tiers


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


class VectorOperands(NamedTuple):
    """Operands of the vector unit for one request, elements: of a pass, or (o,) of operators.

    Attributes:
        reads: Activations read.
        writes: Activations written.
        scores: Scores read, and as many written.
    """

    reads: FloatArray
    writes: FloatArray
    scores: FloatArray


class Choices(NamedTuple):
    """Choices of ``n`` designs, and numbers that rank them.

    Attributes:
        sizes: (s,) batch sizes, ascending.
        least_size: (n,) position of the smallest allowed.
        most_size: (n,) position of the largest.
        orders: (p, t) orders of the tiers.
        allowed: (p, n) those that may be the fastest: 2, or 1 if for their latencies alone; else 0.
        lane_rate: (n,) cycles of all lanes of the vector unit in a second.
        lane_cycles: Of one request, in a pass.
        vector_operands: Of one request, in a pass.
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
    lane_rate: FloatArray
    lane_cycles: float
    vector_operands: VectorOperands
    is_prefill: bool
    longest_pass_s: float
    message_fixed_s: float
    message_byte_s: float


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
    """Time and traffic of a whole pass of ``n`` designs.

    Attributes:
        time_s: (n,) of array and memories: of the operators, or longer where a memory waits for
            power.
        active_cycles: (n,) cycles of the array, weighted by the rows that draw power.
        moved: (n,) bytes by kind.
        reads: (l, n) bytes read at each level's port, the tiers in the order of their use.
        writes: (l, n) bytes written there.
        kv_held: (l, n) part of the KV cache that each of these levels keeps.
    """

    time_s: FloatArray
    active_cycles: FloatArray
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
    """Times of one instance of each operator.

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
