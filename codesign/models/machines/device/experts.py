"""Time of the experts of a mixture-of-experts layer on one device.

A layer is a routing, a gathering of the tokens by expert, a grouped product with the first matrices
(gate and up), an activation, a grouped product with the last matrix (down), and a weighted sum. A
grouped product reads each matrix of the experts that have work once, and computes rows in tiles
that no two experts share. Each core computes one tile at a time and loads that tile's weights
alone, so that few tiles keep neither the cores nor the memory busy. What a core does, and what
starts its kernels, takes clocks.

Constants are fitted to ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0, whose rows are the
fastest of TensorRT-LLM, vLLM and SGLang; these differ by a factor of 2 and more at equal shapes.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import ArrayPair, BoolArray, FloatArray, Floats
from codesign.base.records import frozen
from codesign.base.schema import Amount, Record, Share, quantity
from codesign.models.machines.device.clock import product_share
from codesign.models.machines.device.corrections import KernelCase
from codesign.models.machines.device.formats import ProductFormat
from codesign.models.machines.device.links import Texts, number_by_kind
from codesign.models.machines.device.memory import memory_time_s
from codesign.models.machines.device.rates import DeviceRates

TILE_ROWS = (16, 32, 64, 128, 256)
"""Rows of an expert's tokens that a core computes at a time, as grouped products offer."""
TILE_COLUMNS = 128
"""Columns of a tile [ours]; libraries use 64 to 256."""

_Cycles = Annotated[float, quantity("1"), Field(ge=0)]
_PerCycle = Annotated[float, quantity("1"), Field(gt=0)]

DEEP_GEMM = "fp8-deepgemm"
"""DeepGEMM's kernels of ``fp8-block`` on Hopper, behind an exchange that sorts tokens by expert.
aiconfigurator has no row of them. Their limit is fitted to ten grouped products on an H800 in the
README of deepseek-ai/DeepGEMM (2025), by least squares of logarithms: 12 % off in the median."""
MULTIPLY_BITS = {"fp8": 8.0, "fp8-block": 8.0, DEEP_GEMM: 8.0, "mxfp8": 8.0, "nvfp4": 4.0}
"""Width at which those multiply that do not in 16 bits."""
_SYNCHRONOUS = "int4-weights"
"""Kernels that use the matrix instructions of cores before Hopper on all devices; on devices with
such cores all kernels do, at twice the rate with half the width."""


def expert_kernel(kernel: ProductFormat) -> str:
    """Kernel of grouped products that multiplies some formats.

    Limiting assumption: formats that nobody measured have the limit of the nearest that somebody
    did: weights with shared scales that are converted to 16 bits that of mxfp4, others that of
    int4; integers that of floats of the same width.

    Examples:
        >>> from codesign.models.machines.device.formats import product_format
        >>> expert_kernel(product_format("mxfp4", "bf16"))
        'mxfp4-weights'
    """
    if kernel.is_weight_converted:
        has_scales = kernel.weight_bits % 1 > 0
        if kernel.multiply in ("bf16", "fp16"):
            return "mxfp4-weights" if has_scales else "int4-weights"
        return "mxfp8" if has_scales else "fp8"
    if kernel.has_block_scales:
        return "fp8-block"
    names = {"fp4": "nvfp4", "fp8": "fp8", "int8": "fp8", "int4": "nvfp4"}
    return names.get(kernel.multiply, "bf16")


class ExpertConstants(Record):
    """The free constants of experts on a class of devices.

    Attributes:
        start_cycles: Clocks to start and end the kernels from the gathering to the weighted sum.
        routing_cycles: Cycles to choose the experts and sort the tokens by them, in addition.
        expert_cycles: Cycles that one more expert of the whole layer adds to sorting the tokens.
        memory: Rate of weights from memory, in parts of the memory bandwidth.
        cache: Part of the cache that weights of a repeated call stay in.
        cache_bytes_per_cycle: Bytes that each core moves to or from the cache per clock, of
            activations that fit in it.
        load_bytes_per_cycle: Bytes of weights that a core loads for its tile per clock.
        tile_start: Rows: a tile of a rows takes 1 + start (1/a - 1/256) times longer per row.
        wave: Rounds of tiles for which cores wait in the last of them, in which few have a tile.
        compute: Rate of large products, in parts of what the power limit sustains at their width.
        core_flop_per_cycle: Arithmetic per clock of a core that the kernels of a format reach,
            whatever its peak: those for mixed or blockwise formats use instructions of older
            devices.
        passes: Times that the activations of a pair of token and expert pass memory, each element
            written and read once being 1.
        remote_passes: The same for pairs of other devices, where kernels skip them.
        kept_remote_passes: The same where kernels keep rows of all pairs (Triton and Marlin).
    """

    start_cycles: _Cycles
    routing_cycles: _Cycles
    expert_cycles: _Cycles
    memory: Share
    cache: Share
    cache_bytes_per_cycle: _PerCycle
    load_bytes_per_cycle: _PerCycle
    tile_start: Amount
    wave: Annotated[float, Field(ge=0, le=1)]
    compute: Share
    core_flop_per_cycle: dict[str, _PerCycle]
    passes: Amount
    remote_passes: Amount
    kept_remote_passes: Amount


@frozen
class ExpertWork:
    """Work of one device in a layer; fields broadcast with the devices.

    Attributes:
        pairs: Pairs of a token and an expert on this device.
        active_experts: Experts of this device that have a token.
        all_pairs: Pairs of the whole expert-parallel group.
        experts: Experts of the whole layer.
        hidden: Elements of a token.
        expert_hidden: Inner size of an expert on this device, after tensor parallelism.
        matrices: Matrices of an expert: 3 with a gate, else 2.
        weight_bytes: Bytes of a weight, its scales included.
        core_limit: Which of the limits of a core applies, by name.
        keeps_remote: Whether kernels keep rows of pairs of other devices.
        is_repeated: Whether the same weights were just read, as when one layer is measured alone.
        is_routed: Whether the experts of each token are chosen already.
    """

    pairs: Floats
    active_experts: Floats
    all_pairs: Floats
    experts: Floats
    hidden: Floats
    expert_hidden: Floats
    matrices: Floats
    weight_bytes: Floats
    core_limit: Texts
    keeps_remote: BoolArray | bool = False
    is_repeated: BoolArray | bool = False
    is_routed: BoolArray | bool = False


def experts_time_s(
    work: ExpertWork, peak_flop_per_s: Floats, rates: DeviceRates, constants: ExpertConstants
) -> FloatArray:
    """Seconds of the experts of one layer on one device, the start of their kernels included.

    Limiting assumption: experts with work share it evenly, and arithmetic and traffic of a product
    overlap but for the root of their squares at the ridge. What the power limit sustains bounds the
    whole product, not the cores that fill and drain tiles.

    Args:
        peak_flop_per_s: Dense peak of the precision in which the weights multiply.
    """
    bits = number_by_kind(work.core_limit, MULTIPLY_BITS, 16.0)
    sustained = constants.compute * product_share(rates, bits) * peak_flop_per_s
    limits = constants.core_flop_per_cycle
    limit = number_by_kind(work.core_limit, limits, np.inf)
    synchronous = limits.get(_SYNCHRONOUS, np.inf) * 16.0 / bits
    core = np.minimum(
        np.where(rates.has_asynchronous_cores, limit, np.minimum(limit, synchronous))
        * rates.clock_hz,
        peak_flop_per_s / rates.n_cores,
    )
    weights = work.weight_bytes * work.active_experts * work.matrices * work.hidden
    cached_bytes = constants.cache * np.maximum(rates.cache_bytes, 1.0)
    uncached_share = np.clip(weights * work.expert_hidden / cached_bytes - 1, 0.0, 1.0)
    missed = np.where(work.is_repeated, uncached_share, 1.0)
    inner = work.expert_hidden
    first = _grouped_s(
        work, (work.matrices - 1) * inner, work.hidden, core, sustained, missed, rates, constants
    )
    last = _grouped_s(work, work.hidden, inner, core, sustained, missed, rates, constants)
    # Gathered tokens, the outputs of both products and the activation between them, in 16 bits.
    pair_bytes = 2.0 * (3 * work.hidden + 2 * work.matrices * inner)
    remote = np.maximum(work.all_pairs - work.pairs, 0.0) * 2.0 * work.hidden
    remote = remote * np.where(
        work.keeps_remote, constants.kept_remote_passes, constants.remote_passes
    )
    # The kernel before has just written them, whether the call is repeated or not.
    moved = memory_time_s(
        constants.passes * work.pairs * pair_bytes + remote,
        rates,
        1.0,
        constants.cache_bytes_per_cycle,
        is_cached=True,
    )
    start = constants.start_cycles + np.where(work.is_routed, 0.0, constants.routing_cycles)
    start = start + constants.expert_cycles * work.experts
    return start / rates.clock_hz + first + last + moved


def _grouped_s(
    work: ExpertWork,
    columns: Floats,
    inner: Floats,
    core_flop_per_s: Floats,
    sustained_flop_per_s: Floats,
    missed: FloatArray,
    rates: DeviceRates,
    constants: ExpertConstants,
) -> FloatArray:
    """A grouped product; the best height of tiles counts."""
    weights = work.weight_bytes * work.active_experts * columns * inner
    memory = weights * missed / (constants.memory * rates.bandwidth_bytes_per_s)
    across = np.maximum(columns / TILE_COLUMNS, 1.0)
    load_rate = constants.load_bytes_per_cycle * rates.clock_hz
    load = TILE_COLUMNS * inner * work.weight_bytes / load_rate
    best = np.full(np.broadcast_shapes(np.shape(memory), np.shape(core_flop_per_s)), np.inf)
    for rows in TILE_ROWS:
        tiles = (work.pairs / rows + work.active_experts) * across
        slowdown = 1 + constants.tile_start * (1 / rows - 1 / TILE_ROWS[-1])
        product = 2.0 * rows * TILE_COLUMNS * inner * slowdown / core_flop_per_s
        rounds = np.maximum(tiles / rates.n_cores + constants.wave, 1.0)
        best = np.minimum(best, rounds * np.maximum(product, load))
    least = 2.0 * work.pairs * columns * inner / sustained_flop_per_s
    return np.asarray(np.hypot(memory, np.maximum(best, least)))


def rank_load(tokens: Floats, experts: Floats, top_k: Floats, ep: Floats) -> ArrayPair:
    """Expected pairs and experts with work on a device of an expert-parallel group.

    Limiting assumption: every token draws its experts evenly.

    Args:
        tokens: Tokens that enter the group.
        top_k: Experts of a token.
        ep: Devices over which the experts are spread.

    Examples:
        >>> [round(float(part), 2) for part in rank_load(1.0, 8.0, 2.0, 4.0)]
        [0.5, 0.5]
    """
    tokens, experts, top_k, ep = map(np.asarray, (tokens, experts, top_k, ep))
    pairs = tokens * top_k / ep
    return pairs, np.minimum(experts / ep * (1 - (1 - top_k / experts) ** tokens), pairs)


def experts_case(work: ExpertWork) -> KernelCase:
    """Features of this work on which corrections depend."""
    active = work.active_experts
    pairs = work.pairs
    sizes = (pairs / active, active, work.all_pairs / pairs, work.experts, work.hidden)
    return KernelCase((work.core_limit,), tuple(map(np.log2, (*sizes, work.expert_hidden))))
