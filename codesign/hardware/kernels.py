"""Time of kernels on a measured device: a roofline with a few named efficiencies.

What depends on the shape is physics and has no free constant: tiles of an output are shared
among the cores, so that the last wave may be half empty; small tiles read their operands more
often; a causal attention does half the work, in blocks. What remains are the efficiencies of
:class:`Efficiency`, one set per class of devices. They multiply the numbers of a datasheet
(:class:`~codesign.hardware.device.Device`), which is what carries them to other devices.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from codesign.columns import FloatArray
from codesign.errors import UnknownNameError
from codesign.hardware.device import Device
from codesign.schema import Record, quantity, read_document, to_record

KernelKind: TypeAlias = Literal["gemm", "attention", "stream", "rowwise", "collective"]
KINDS: tuple[KernelKind, ...] = ("gemm", "attention", "stream", "rowwise", "collective")
GEMM, ATTENTION, STREAM, ROWWISE, COLLECTIVE = range(len(KINDS))

Launch: TypeAlias = Literal[
    "device", "device-vector", "call", "host-matrix", "host-softmax", "host-vector"
]
LAUNCHES: tuple[Launch, ...] = (
    "device",
    "device-vector",
    "call",
    "host-matrix",
    "host-softmax",
    "host-vector",
)

TILES = (
    (256, 128),
    (128, 256),
    (128, 128),
    (128, 64),
    (64, 128),
    (64, 64),
    (64, 256),
    (256, 64),
    (16, 128),
    (16, 64),
    (1, 64),
)
"""Rows and columns of an output that one core computes at a time, as matrix libraries offer;
which of them [ours]."""
SPLITS = (1, 2, 4, 8)
"""Parts in which the inner size may be cut, to give every core work [ours]."""
ATTENTION_ROWS = 128
"""Queries that one core takes at a time (FlashAttention-2's block)."""

_LARGEST_TILE = 1 / 256 + 1 / 128  # of TILES: 256 x 128
_PARTIAL_BYTES = 4  # partial sums of a split product are kept in 32 bits [ours]
_OVERLAP = 4.0  # [ours] exponent of the norm that rounds the roofline's corner: 19 % at its tip

_Seconds: TypeAlias = Annotated[float, quantity("s"), Field(ge=0)]
_Positive: TypeAlias = Annotated[float, Field(gt=0)]


class Efficiency(Record):
    """The free constants of a class of devices.

    The first six describe the devices, the others how kernels are started and joined. Where a
    measurement times the device alone, those of the host do not matter.
    """

    compute: _Positive
    """Rate of a large product, in parts of the sustained peak."""
    tile_penalty: Annotated[float, Field(ge=0)]
    """Elements: a tile of a by b takes 1 + penalty (1/a + 1/b − 1/256 − 1/128) times longer."""
    bandwidth: _Positive
    """Rate of long streams, in parts of the peak bandwidth."""
    rowwise_bandwidth: _Positive
    """Rate of kernels that reduce or gather rows (norms, softmax, rotation, gated units), in parts
    of the peak bandwidth."""
    attention: _Positive
    """Rate of a long fused attention, in parts of the sustained peak."""
    attention_keys: Annotated[float, Field(ge=0)]
    """Keys that the start and the end of one block of queries cost."""
    device_overhead: _Seconds
    """Start and end of a product or an attention that is already queued."""
    device_vector_overhead: _Seconds
    """Start and end of any other kernel that is already queued."""
    call_overhead: _Seconds
    """Start and end of an attention with its auxiliary kernels, called as one."""
    host_matrix_overhead: _Seconds
    """A product started by the host and waited for."""
    host_softmax_overhead: _Seconds
    """A softmax started by the host and waited for."""
    host_vector_overhead: _Seconds
    """A norm or an activation, of several kernels each, started by the host and waited for."""
    link: _Positive
    """Rate of long messages, in parts of the link bandwidth."""
    link_latency: _Seconds
    """Time to start and end a collective."""
    link_step: _Seconds
    """Time that each step of the ring adds to a collective."""

    def launch_overheads(self) -> FloatArray:
        """(6,) seconds, in the order of ``LAUNCHES``."""
        return np.array(
            [
                self.device_overhead,
                self.device_vector_overhead,
                self.call_overhead,
                self.host_matrix_overhead,
                self.host_softmax_overhead,
                self.host_vector_overhead,
            ]
        )


class EfficiencyFile(Record):
    """The efficiencies that are shipped, and how they came about."""

    how: str
    """The command, the data and the loss of the fit."""
    classes: dict[str, Efficiency]
    """Efficiencies by class of device."""
    sources: dict[str, str] = Field(min_length=1)
    """Origin of each class's efficiencies: the number of measurements that they were fitted to, or
    the class that they were taken from."""


@cache
def load_efficiencies() -> EfficiencyFile:
    """The shipped efficiencies of every class of devices."""
    document = read_document(Path(__file__).parent / "devices" / "efficiency.yaml")
    return to_record(document, EfficiencyFile)


def efficiency_of(device: Device) -> Efficiency:
    """The shipped efficiencies of a device's class.

    Raises:
        UnknownNameError: Nothing was fitted for that class.
    """
    classes = load_efficiencies().classes
    if device.device_class not in classes:
        raise UnknownNameError("class of devices", device.device_class, classes)
    return classes[device.device_class]


@dataclass(frozen=True)
class Kernels:
    """Kernels, each with the numbers of its device: one array per property, all (q,).

    Attributes:
        kind: Position in ``KINDS``.
        launch: Position in ``LAUNCHES``.
        count: Number of times that the kernel runs.
        products: Separate matrix products, or heads times requests in attention.
        m: Rows of one product; queries in attention.
        n: Columns of one product; mean keys of a query in attention.
        k: Inner size of one product; widths of key and value together, halved, in attention.
        traffic_bytes: Bytes to and from memory, each once; the message of a collective.
        steps: Messages of a collective that wait for each other; 0 if there is none.
        wire_factor: Bytes that a device sends per byte of the message.
        peak: FLOP/s that the device sustains.
        bandwidth: Bytes per second of its memory.
        link: Bytes per second of its links.
        n_cores: Cores that share the tiles.
    """

    kind: FloatArray
    launch: FloatArray
    count: FloatArray
    products: FloatArray
    m: FloatArray
    n: FloatArray
    k: FloatArray
    traffic_bytes: FloatArray
    steps: FloatArray
    wire_factor: FloatArray
    peak: FloatArray
    bandwidth: FloatArray
    link: FloatArray
    n_cores: FloatArray

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, positions: NDArray[Any]) -> Kernels:
        """The kernels at these positions, or where a mask is true."""
        names = (item.name for item in fields(self))
        return Kernels(**{name: getattr(self, name)[positions] for name in names})

    def with_bandwidth(self, factor: float) -> Kernels:
        """The same kernels on devices whose memory is ``factor`` times as fast."""
        return replace(self, bandwidth=self.bandwidth * factor)


@dataclass(frozen=True)
class Kernel:
    """One kernel, without its device; meanings as in :class:`Kernels`."""

    kind: KernelKind
    launch: Launch = "device"
    count: float = 1.0
    products: float = 1.0
    m: float = 0.0
    n: float = 0.0
    k: float = 0.0
    traffic_bytes: float = 0.0
    steps: float = 0.0
    wire_factor: float = 0.0


def on_device(device: Device, precision: str, kernels: list[Kernel]) -> Kernels:
    """Kernels with the numbers of a device.

    Args:
        device: The device.
        precision: Number format in which the products multiply.
        kernels: Kernels in any order.

    Raises:
        UnknownNameError: The device has no peak for that precision.
    """

    def column(values: list[float]) -> FloatArray:
        return np.array(values, dtype=np.float64)

    peak = device.peak_flop_per_s(precision) * device.sustained_fraction
    same = np.ones(len(kernels))
    numbers = ("count", "products", "m", "n", "k", "traffic_bytes", "steps", "wire_factor")
    columns = {name: column([getattr(kernel, name) for kernel in kernels]) for name in numbers}
    return Kernels(
        kind=column([KINDS.index(kernel.kind) for kernel in kernels]),
        launch=column([LAUNCHES.index(kernel.launch) for kernel in kernels]),
        peak=peak * same,
        bandwidth=device.bandwidth * same,
        link=(device.link_bandwidth or np.nan) * same,
        n_cores=device.n_cores * same,
        **columns,
    )


def join(parts: list[Kernels]) -> Kernels:
    """Several tables as one, in that order."""
    names = [item.name for item in fields(Kernels)]
    return Kernels(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})


def repeated(kernels: Kernels, times: float) -> Kernels:
    """The same kernels, each run ``times`` times as often."""
    return replace(kernels, count=kernels.count * times)


def kernel_times_s(kernels: Kernels, efficiency: Efficiency) -> FloatArray:
    """Seconds of one run of each kernel, its start included.

    Limiting assumption: kernels run one after the other, and arithmetic and traffic of one
    overlap but for a rounding of the ridge (the fourth-power norm of the two times).

    Args:
        kernels: (q,) kernels.
        efficiency: Efficiencies of the class of their devices.

    Returns:
        (q,) seconds.
    """
    overhead = efficiency.launch_overheads()[kernels.launch.astype(np.int64)]
    times = np.zeros(len(kernels))
    for kind, model in enumerate((_gemm_s, _attention_s, _stream_s, _rowwise_s, _collective_s)):
        chosen = kernels.kind == kind
        if chosen.any():
            times[chosen] = model(kernels.take(chosen), efficiency)
    return times + np.where(kernels.kind == COLLECTIVE, 0.0, overhead)


def _overlapped(compute: FloatArray, memory: FloatArray) -> FloatArray:
    """The larger of two times, rounded where they meet; one may be zero."""
    larger = np.maximum(np.maximum(compute, memory), 1e-30)
    powers = (compute / larger) ** _OVERLAP + (memory / larger) ** _OVERLAP
    return np.asarray(larger * powers ** (1 / _OVERLAP))


def _gemm_s(kernels: Kernels, efficiency: Efficiency) -> FloatArray:
    memory = kernels.traffic_bytes / (efficiency.bandwidth * kernels.bandwidth)
    rate = efficiency.compute * kernels.peak / kernels.n_cores
    best = np.full(len(kernels), np.inf)
    for rows, columns in TILES:
        slowdown = 1 + efficiency.tile_penalty * (1 / rows + 1 / columns - _LARGEST_TILE)
        tiles = kernels.products * np.ceil(kernels.m / rows) * np.ceil(kernels.n / columns)
        for splits in SPLITS:
            waves = np.ceil(tiles * splits / kernels.n_cores)
            flop = 2 * rows * columns * np.ceil(kernels.k / splits)
            partial = 2 * _PARTIAL_BYTES * splits * kernels.products
            partial = partial * kernels.m * kernels.n * (splits > 1)
            time = waves * flop * slowdown / rate + partial / kernels.bandwidth
            best = np.minimum(best, time)
    return _overlapped(best, memory)


def _attention_s(kernels: Kernels, efficiency: Efficiency) -> FloatArray:
    memory = kernels.traffic_bytes / (efficiency.bandwidth * kernels.bandwidth)
    rate = efficiency.attention * kernels.peak / kernels.n_cores
    # Blocks of few queries are not filled up: a decode step is bound by traffic.
    rows = np.minimum(kernels.m, ATTENTION_ROWS)
    blocks = kernels.products * np.ceil(kernels.m / ATTENTION_ROWS)
    keys = kernels.n + efficiency.attention_keys
    shared = np.maximum(blocks / kernels.n_cores, 1.0)
    return _overlapped(shared * 4 * rows * keys * kernels.k / rate, memory)


def _stream_s(kernels: Kernels, efficiency: Efficiency) -> FloatArray:
    return np.asarray(kernels.traffic_bytes / (efficiency.bandwidth * kernels.bandwidth))


def _rowwise_s(kernels: Kernels, efficiency: Efficiency) -> FloatArray:
    return np.asarray(kernels.traffic_bytes / (efficiency.rowwise_bandwidth * kernels.bandwidth))


def _collective_s(kernels: Kernels, efficiency: Efficiency) -> FloatArray:
    waiting = efficiency.link_latency + efficiency.link_step * kernels.steps
    sent = kernels.wire_factor * kernels.traffic_bytes
    return np.asarray(waiting + sent / (efficiency.link * kernels.link))


def gemm(m: float, n: float, k: float, bits: tuple[float, float], **how: Any) -> Kernel:
    """A product of (m, k) by (k, n).

    Args:
        m: Rows of the result.
        n: Columns of the result.
        k: Inner size.
        bits: Bits of an element of the second operand (weights), and of the two others.
        how: Further fields of :class:`Kernel`; ``products`` multiplies the traffic, too.
    """
    weights, others = bits[0] / 8 * k * n, bits[1] / 8 * (m * k + m * n)
    traffic = how.get("products", 1.0) * (weights + others)
    return Kernel("gemm", m=m, n=n, k=k, traffic_bytes=traffic, **how)


CollectiveName: TypeAlias = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "send"
]


def collective(name: CollectiveName, message_bytes: float, n_ranks: int, **how: Any) -> Kernel:
    """A collective among the devices of one node, in a ring.

    Args:
        name: ``all_reduce`` is a reduce-scatter and an all-gather.
        message_bytes: The whole message, of which each device holds or gets its part.
        n_ranks: Devices, at least 2.
        how: Further fields of :class:`Kernel`.
    """
    rounds = 2 if name == "all_reduce" else 1
    steps = 1 if name == "send" else rounds * (n_ranks - 1)
    factor = 1.0 if name == "send" else steps / n_ranks
    return Kernel("collective", traffic_bytes=message_bytes, steps=steps, wire_factor=factor, **how)
