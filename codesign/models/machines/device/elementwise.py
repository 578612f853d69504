"""Time of kernels that only move data: streams, kernels that work row by row, residual mixing.

Three things bound such a kernel: its start, the memory, and the cores. A core moves only so many
bytes in a second, which counts where a device has much bandwidth for its cores, where the data are
still in its cache, and where there are fewer rows than cores. So an A100 reaches 0.4 of its
2,039 GB/s in a norm, and an A40 most of its 696 GB/s.

Constants are fitted to ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0 (quantization,
hyper-connections) and to Vidur's profile of an A100 (additions, norms, activations, rotations).
That profile is of engines of 2023, whose row kernels load element by element. Later ones load
16 bytes at a time, and all cores share a row: FlashInfer's and TensorRT-LLM's, vLLM's since its
pull requests 27931 and 29512 (2025). Their constants are of Triton kernels on an H100 whose
operands lie in its cache (``h100_measured.csv``): norms are 1 %, gated activations 3, additions
with a norm 5, rotations 5 % off in the median, at most 18 %. PyTorch's norm of 32,768 rows of 4,096
and of 8,192 elements takes a B200 93 and 181 us (ml-explore/mlx, pull request 3850), of which the
law gives 78 and 154. One row of 7,168 elements, with the addition before it, takes 5.2 to 6.9 us
(vLLM, pull request 36899), of which it gives 1.9.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, Floats
from codesign.base.schema import Bandwidth, Record, Seconds, Share
from codesign.models.machines.device.rates import DeviceRates

VECTOR_START, NORM_SUM = 1.42e-6, 0.43e-6
"""Start of a vectorized kernel, and what the sum of a norm adds: 1.42 us of SiLU and product of a
row, 1.85 us of a norm (``validation/studies/data/h100_measured.csv``)."""
VECTOR_CORE, VECTOR_CACHE = 55.3e9, 0.55
"""Bytes per second that a core moves from the last cache and to it, and the part of that cache up
to whose size it holds all. On an H100 12 to 28 MB move at 7.3 TB/s (likewise)."""
VECTOR_MEMORY = 1.07
"""Rate of the main memory in such kernels, over that of long streams: 2.95 TB/s (likewise)."""
ROTATION = 4.0 / 3.0
"""Bytes that a rotation takes the time of, over those that it reads and writes (likewise)."""


class ElementwiseConstants(Record):
    """The free constants of kernels that move data on a class of devices.

    Attributes:
        stream_start: Start and end of a stream (addition, copy, quantization).
        row_start: Start and end of a kernel that works row by row (norm, softmax, rotation,
            activation).
        mixing_start: Start and end of the mixing after a block.
        projection_start: Start and end of the mixing before a block: a norm, a small product and
            what it weighs.
        memory: Rate of long streams, in parts of the memory bandwidth.
        cache: Part of the cache that data of the kernel before stay in.
        stream_core: Bytes that a core moves in a stream.
        row_core: Bytes that a core moves in a row, loaded element by element.
    """

    stream_start: Seconds
    row_start: Seconds
    mixing_start: Seconds
    projection_start: Seconds
    memory: Share
    cache: Share
    stream_core: Bandwidth
    row_core: Bandwidth


def stream_time_s(
    traffic_bytes: Floats,
    rates: DeviceRates,
    constants: ElementwiseConstants,
    is_cached: BoolArray | bool = True,
) -> FloatArray:
    """Seconds of an addition, a copy, a look-up or a quantization.

    Limiting assumption: all cores share the bytes evenly. All arguments broadcast.

    Args:
        traffic_bytes: Bytes read and written.
        is_cached: Whether the kernel before wrote or read the same data.
    """
    moved = np.asarray(traffic_bytes, np.float64)
    cores = moved / (constants.stream_core * rates.n_cores)
    return constants.stream_start + np.maximum(
        cores, uncached_s(moved, rates, constants, is_cached)
    )


def row_time_s(
    rows: Floats, row_bytes: Floats, rates: DeviceRates, constants: ElementwiseConstants
) -> FloatArray:
    """Seconds of a norm, a softmax, a rotation or a gated activation, loaded element by element.

    Limiting assumption: one core has a row, as in the serving engines' kernels of 2023.

    Args:
        rows: Rows: tokens, or heads times tokens.
        row_bytes: Bytes of a row, read and written.
    """
    moved = np.asarray(rows * row_bytes, np.float64)
    turns = np.maximum(rows / rates.n_cores, np.minimum(rows, 1.0))
    return constants.row_start + np.maximum(
        turns * row_bytes / constants.row_core, uncached_s(moved, rates, constants, is_cached=True)
    )


def vector_time_s(
    moved_bytes: Floats, rates: DeviceRates, constants: ElementwiseConstants, role: str = ""
) -> FloatArray:
    """Seconds of such a kernel that loads many elements at a time, its start not included.

    All cores share the bytes, whatever the rows. What the last cache holds comes from there.

    Args:
        moved_bytes: Bytes read and written.
        role: Role of the operator, such as ``rope``.
    """
    moved = np.asarray(moved_bytes, np.float64) * (ROTATION if role == "rope" else 1.0)
    memory = np.minimum(VECTOR_MEMORY * constants.memory, 1.0)
    memory_rate = memory * rates.bandwidth_bytes_per_s
    core = np.maximum(constants.stream_core, VECTOR_CORE) * rates.n_cores
    missed = np.clip(moved / (VECTOR_CACHE * np.maximum(rates.cache_bytes, 1.0)) - 1, 0.0, 1.0)
    cached_s = (1.0 - missed) / np.maximum(core, memory_rate)
    return np.asarray(moved * (cached_s + missed / memory_rate))


def vector_start_s(role: str) -> float:
    """Start and end of such a kernel; a norm has a sum to wait for."""
    return VECTOR_START + (NORM_SUM if "norm" in role else 0.0)


def uncached_s(
    moved: FloatArray,
    rates: DeviceRates,
    constants: ElementwiseConstants,
    is_cached: BoolArray | bool,
) -> FloatArray:
    """Time of the bytes that are not in the cache: all of them from twice its size on."""
    cached_bytes = constants.cache * np.maximum(rates.cache_bytes, 1.0)
    missed = np.where(is_cached, np.clip(moved / cached_bytes - 1, 0.0, 1.0), 1.0)
    return moved * missed / (constants.memory * rates.bandwidth_bytes_per_s)
