"""Time of kernels that only move data: streams, kernels that work row by row, residual mixing.

Three things bound such a kernel: its start, the memory, and the cores. A core moves only so many
bytes in a second, which counts where a device has much bandwidth for its cores, where the data are
still in its cache, and where there are fewer rows than cores. So an A100 reaches 0.4 of its
2,039 GB/s in a norm, and an A40 most of its 696 GB/s.

Constants are fitted to ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0 (quantization,
hyper-connections) and to Vidur's profile of an A100 (additions, norms, activations, rotations).
That profile is of engines of 2023, whose row kernels load element by element. Later ones load
16 bytes at a time, so that a core moves rows as fast as a stream: FlashInfer's and TensorRT-LLM's,
vLLM's since its pull requests 27931 and 29512 (2025). Nothing is fitted to them. PyTorch's norm of
32,768 rows of 4,096 and of 8,192 elements takes a B200 93 and 181 us (ml-explore/mlx, pull request
3850), of which the law gives 90 and 178; at the rate of 2023 it would give 425 and 847.
Limiting assumption: a norm's two passes over a single row are no slower, which they are: one of
7,168 elements, with the addition before it, takes 5.2 to 6.9 us (vLLM, pull request 36899), of
which the law gives 2.8.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import BoolArray, FloatArray
from codesign.base.schema import Bandwidth, Record, Seconds, Share
from codesign.models.machines.device.rates import DeviceRates, Floats


class ElementwiseConstants(Record):
    """The free constants of kernels that move data on a class of devices."""

    stream_start: Seconds
    """Start and end of a stream (addition, copy, quantization)."""
    row_start: Seconds
    """Start and end of a kernel that works row by row (norm, softmax, rotation, activation)."""
    mixing_start: Seconds
    """Start and end of the mixing after a block."""
    projection_start: Seconds
    """Start and end of the mixing before a block: a norm, a small product and what it weighs."""
    memory: Share
    """Rate of long streams, in parts of the memory bandwidth."""
    cache: Share
    """Part of the cache that data of the kernel before stay in."""
    stream_core: Bandwidth
    """Bytes that a core moves in a stream."""
    row_core: Bandwidth
    """Bytes that a core moves in a row, loaded element by element."""


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
    moved = np.asarray(traffic_bytes, dtype=np.float64)
    cores = moved / (constants.stream_core * rates.n_cores)
    return constants.stream_start + np.maximum(
        cores, uncached_s(moved, rates, constants, is_cached)
    )


def row_time_s(
    rows: Floats,
    row_bytes: Floats,
    rates: DeviceRates,
    constants: ElementwiseConstants,
    *,
    is_vectorized: bool = False,
) -> FloatArray:
    """Seconds of a norm, a softmax, a rotation or a gated activation.

    Limiting assumption: one core has a row, as in the serving engines' kernels.

    Args:
        rows: Rows: tokens, or heads times tokens.
        row_bytes: Bytes of a row, read and written.
        is_vectorized: Whether the kernel loads many elements at a time, as a stream does.
    """
    moved = np.asarray(rows * row_bytes, dtype=np.float64)
    turns = np.maximum(rows / np.asarray(rates.n_cores), np.minimum(rows, 1.0))
    core = constants.stream_core if is_vectorized else constants.row_core
    cores = turns * row_bytes / core
    return constants.row_start + np.maximum(
        cores, uncached_s(moved, rates, constants, is_cached=True)
    )


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
