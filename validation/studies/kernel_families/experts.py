"""Measured experts of mixture-of-experts layers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import astuple
from functools import cache

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, StringArray
from codesign.base.errors import UnknownNameError
from codesign.models.hardware.device import Device
from codesign.models.machines.device.experts import (
    MULTIPLY_BITS,
    ExpertConstants,
    ExpertWork,
    expert_kernel,
    experts_case,
    experts_time_s,
)
from codesign.models.machines.device.formats import ProductFormat, product_format
from codesign.models.machines.device.links import number_by_kind
from codesign.models.machines.roofline import roofline_times
from validation.studies.kernel_families.family import KernelFamily
from validation.studies.kernel_families.routing import first_rank_load
from validation.studies.kernel_families.rows import (
    Reasons,
    find_reasons,
    looped_rates,
)
from validation.studies.kernel_table import KernelTable

OPERATORS = ("moe_experts", "moe_experts_large_ep")
_SIZES = ("tokens", "experts", "top_k", "hidden", "expert_hidden", "matrices", "tp", "ep")
START = ExpertConstants(
    start_cycles=35_000,
    routing_cycles=15_000,
    expert_cycles=40,
    memory=0.8,
    cache=0.6,
    cache_bytes_per_cycle=8,
    load_bytes_per_cycle=60,
    tile_start=3.0,
    wave=0.5,
    compute=0.85,
    core_flop_per_cycle={
        **{"bf16": 3_500, "fp8": 7_000, "mxfp8": 7_000, "nvfp4": 14_000},
        **{
            "fp8-block": 3_500,
            "fp8-deepgemm": 5_540,
            "int4-weights": 1_500,
            "mxfp4-weights": 1_500,
        },
    },
    passes=1.8,
    remote_passes=0.7,
    kept_remote_passes=6.0,
)
"""Start of the fit: round numbers. An unmeasured kernel keeps its limit: of narrower products twice
that of 16 bits for half the width, of converted weights that of older cores."""
MOST = dict.fromkeys(("memory", "cache", "compute", "wave"), 1.0)
_KEEPS_REMOTE = re.compile("^(?!.*(flashinfer|oaitriton)).*(fused_moe|marlin|triton)")
_ROUTING = re.compile(r"power_law_([0-9.]+?)(_eplb)?")


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row is not predicted; empty where it is."""
    powers = [_power(text) is None for text in table.words("routing").tolist()]
    more = {
        "the formats of the experts are not known": np.array([i is None for i in _formats(table)]),
        "the device has no peak for the format": np.isnan(_peaks(table)),
        "the routing is not understood": np.array(powers),
        "the experts do not spread evenly": table["experts"] % table["ep"] > 0,
    }
    return find_reasons(table, OPERATORS, _SIZES, more=more)


def _law(table: KernelTable) -> Callable[[ExpertConstants], FloatArray]:
    work, peaks = expert_work(table), _peaks(table)
    rates = looped_rates(table.rates, number_by_kind(work.core_limit, MULTIPLY_BITS, 16.0))
    return lambda constants: experts_time_s(work, peaks, rates, constants)


def _roofline_s(table: KernelTable) -> FloatArray:
    work, rates = expert_work(table), table.rates
    each = np.asarray(work.matrices) * work.hidden * work.expert_hidden
    traffic_bytes = np.asarray(work.active_experts) * each * work.weight_bytes
    work_flop = 2 * np.asarray(work.pairs) * each
    return roofline_times(
        work_flop, _peaks(table), traffic_bytes / rates.bandwidth_bytes_per_s
    ).time_s


def expert_work(table: KernelTable) -> ExpertWork:
    """Work of the measured device, (q,) each."""
    pairs, active, reached = _loads(table)
    formats = [product_format for product_format in _formats(table) if product_format is not None]
    keeps = np.array(
        [_KEEPS_REMOTE.search(kernel) is not None for kernel in table.words("kernel").tolist()],
        dtype=bool,
    )
    is_local, multiplies = _has_local_tokens(table), _multiplies_remote(table)
    all_pairs = np.where(is_local, reached, table["tokens"]) * table["top_k"]
    # With large expert parallelism only tokens that arrived are there.
    return ExpertWork(
        pairs=np.where(multiplies, all_pairs, pairs),
        active_experts=active,
        all_pairs=np.where(table.words("operator") == "moe_experts_large_ep", pairs, all_pairs),
        experts=np.where(is_local, table["experts"] / table["ep"], table["experts"]),
        hidden=table["hidden"],
        expert_hidden=table["expert_hidden"] / table["tp"],
        matrices=table["matrices"],
        weight_bytes=np.array([product_format.weight_bits / 8 for product_format in formats]),
        core_limit=_kernels(table),
        keeps_remote=keeps,
        is_repeated=np.ones(len(table), dtype=bool),
        is_routed=table.words("framework") == "SGLang",
    )


def _has_local_tokens(table: KernelTable) -> BoolArray:
    """(q,) whether only tokens with an expert of the device enter, as in SGLang's benchmark.

    Its benchmark of mxfp4 is of a whole layer, which all tokens enter.
    """
    is_part = (table.words("framework") == "SGLang") & (table["ep"] > 1)
    return np.asarray(is_part & (table.words("weight_dtype") != "mxfp4"))


def _multiplies_remote(table: KernelTable) -> BoolArray:
    """(q,) whether pairs of other devices are multiplied here, too.

    SGLang's benchmark gave them to the device's first expert: that of 0.5.10 with every kernel,
    that before with Marlin; later ones leave them out.
    """
    kernels, versions = table.words("kernel"), table.words("version")
    marlin = np.char.find(kernels, "marlin") >= 0
    clamped = (marlin & np.isin(versions, ("0.5.6.post2", "0.5.9", "0.5.10"))) | (
        (np.char.find(kernels, "triton") >= 0) & (versions == "0.5.10")
    )
    return np.asarray(_has_local_tokens(table) & clamped)


def _loads(table: KernelTable) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Pairs, experts with work and tokens of the measured device, (q,) each."""
    sizes = zip(*(table[name].astype(int).tolist() for name in _SIZES[:3]), strict=True)
    ranks = table["ep"].astype(int).tolist()
    powers = [_power(text) or 0.0 for text in table.words("routing").tolist()]
    loads = [
        astuple(first_rank_load(*size, ep, p))
        for size, ep, p in zip(sizes, ranks, powers, strict=True)
    ]
    pairs, active, tokens = np.array(loads).reshape(-1, 3).T
    stated, local = table["local_tokens"], table["experts"] / table["ep"]
    most = stated * np.minimum(np.maximum(local, 1.0), table["top_k"])
    of_draw = np.clip(pairs * stated / tokens, stated, most)
    return np.where(np.isnan(stated), pairs, of_draw), active, tokens


def _power(routing: str) -> float | None:
    """Exponent of the skew, 0 where it is balanced; None: not understood."""
    match = _ROUTING.fullmatch(routing)
    if match is None:
        return 0.0 if routing == "balanced" else None
    return 0.0 if match[2] else float(match[1])


def _formats(table: KernelTable) -> list[ProductFormat | None]:
    labels = zip(table.words("weight_dtype"), table.words("activation_dtype"), strict=True)
    return [_format(str(weights), str(inputs)) for weights, inputs in labels]


@cache
def _format(weights: str, inputs: str) -> ProductFormat | None:
    try:
        return product_format(weights, inputs)
    except UnknownNameError:
        return None


def _kernels(table: KernelTable) -> StringArray:
    """(q,) name of the limit of every row's kernels."""
    names = [
        "" if product_format is None else expert_kernel(product_format)
        for product_format in _formats(table)
    ]
    return np.array(names, dtype=np.str_)


def _peaks(table: KernelTable) -> FloatArray:
    """(q,) dense peak of each row's precision; NaN where device or format are unknown."""
    return np.array(
        [
            _peak(device, product_format)
            for device, product_format in zip(table.devices, _formats(table), strict=True)
        ],
        dtype=np.float64,
    )


def _peak(device: Device | None, product_format: ProductFormat | None) -> float:
    if device is None or product_format is None:
        return np.nan
    try:
        return device.peak_flop_per_s(product_format.multiply)
    except UnknownNameError:
        return np.nan


FAMILY = KernelFamily(
    file="experts",
    operators=OPERATORS,
    target=0.15,
    left_out=left_out,
    law=_law,
    roofline=_roofline_s,
    start=START,
    most=MOST,
    groups=lambda table: np.char.add(np.char.add(table.words("device"), " "), _kernels(table)),
    case=lambda table: experts_case(expert_work(table)),
    transfer=0.5,
    geometry=("experts", "top_k", "hidden", "expert_hidden"),
)
