"""The rows of an explanation: one vocabulary for every evaluator.

A row has the keys that its evaluator knows, and no other meaning of them. Every amount is of all
instances of an operator in one pass, in SI units. An evaluator may add keys of its own; whatever
draws or prints the rows of any evaluator knows these.
"""

from collections.abc import Mapping, Sequence
from typing import Required

from typing_extensions import TypedDict


class OperatorRow(TypedDict, total=False):
    """An operator, or a message between devices.

    Attributes:
        phase: ``prefill`` or ``decode``, where an explanation has both.
        kind: Computation of the operator, such as ``attention``.
        part: Unit of a platform that the operator takes: ``linear``, ``attention``, ``collective``.
        count: Instances in one pass.
        bound: Bound of its time: ``compute``, ``memory``, ``off-chip``, ``vector``, ...
        matrix_bound: Bound of the time of array and memories, also where the vector unit takes
            longer.
        time_share: Share of the time of the operators, one after the other.
        compute_s: Time of its arithmetic by itself.
        memory_s: Time of its traffic by itself.
        on_chip_s: Time of its traffic through the port of the on-chip memory by itself.
        off_chip_s: Time of its traffic to and from off-chip memories by itself.
        matrix_s: Time in which array and memories are busy.
        vector_s: Time in which the vector unit is busy.
        work_flop: Work of matrix products, 2 per multiply-accumulate.
        ops: Operations of every kind.
        traffic_bytes: Traffic by name of the crossed memory level; a number where there is one
            memory, or where the evaluator does not tell them apart.
        dispatches: Launches of kernels.
        steps: Into which a simulation cuts one instance.
    """

    name: Required[str]
    phase: str
    kind: str
    part: str
    count: float
    bound: str
    matrix_bound: str
    time_s: float
    time_share: float
    compute_s: float
    memory_s: float
    on_chip_s: float
    off_chip_s: float
    matrix_s: float
    vector_s: float
    work_flop: float
    ops: float
    ops_share: float
    traffic_bytes: Mapping[str, float] | float
    read_bytes: float
    written_bytes: float
    kv_read_bytes: float
    kv_written_bytes: float
    dispatches: float
    energy_joules: float
    steps: int


class Banks(TypedDict):
    """Devices of one technology that form a memory level, or a part of it."""

    technology: str
    count: int


class LevelRow(TypedDict, total=False):
    """A memory level.

    Attributes:
        title: The name in words.
        capacity_bytes: None: without a limit.
        shoreline_mm: Die edge that its interfaces take.
        uncharged_shoreline_mm: Die edge that they take and that no limit counts.
        package_mm2: Area that its memories take on the interposer; 0 on chip and on a board.
        read_bytes: Bytes that one pass reads.
        traffic_bytes: Read and written, where the evaluator does not tell them apart.
        utilization: Share of a pass in which its port is busy at the peak bandwidth.
        holds_share: Shares of weights, KV cache and activations.
    """

    name: Required[str]
    title: str
    banks: Sequence[Banks]
    capacity_bytes: float | None
    bandwidth_bytes_per_s: float
    latency_s: float
    shoreline_mm: float
    uncharged_shoreline_mm: float
    package_mm2: float
    read_bytes: float
    written_bytes: float
    traffic_bytes: float
    written_bytes_per_s: float
    utilization: float
    energy_joules: float
    holds_share: Mapping[str, float]
    holds_bytes: float
    weight_bytes: float
    kv_bytes: float


class PowerRow(TypedDict, total=False):
    """A component that draws power.

    Attributes:
        title: The name in words.
    """

    name: Required[str]
    title: str
    count: float
    each_watts: float
    tdp_watts: float | None
    average_watts: float | None


class FloorplanRow(TypedDict, total=False):
    """A rectangle of the floorplan, in mm from the lower left corner of the base.

    The first is the whole base. A block may have several: their areas add up to that of its cost
    row. What no block covers is the uncore, with filler and interfaces between dies.

    Attributes:
        name: Name of the block, as in its cost row; ``base`` for the whole base.
        layer: 0 on the base, 1 on the layer above it, and so on.
        stacks: Memories that stand beside it.
        w_per_mm2: Thermal design power per area, including the power that is spread over the whole
            base.
        celsius: Temperature of its hottest spot.
    """

    name: Required[str]
    layer: int
    x_mm: float
    y_mm: float
    width_mm: float
    height_mm: float
    stacks: float
    w_per_mm2: float | None
    celsius: float | None


class CostRow(TypedDict, total=False):
    """A block or part of one device; None where it has none of a quantity, or nobody knows it.

    Attributes:
        title: The part in words.
        component: The array, the vector unit or the memory level that it belongs to, by its name.
        n_dies: Dies over which it is spread.
    """

    part: Required[str]
    title: str
    component: str
    n_dies: float | None
    area_mm2: float | None
    usd: float | None
