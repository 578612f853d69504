"""Measured experts of mixture-of-experts layers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.columns import BoolArray, FloatArray
from codesign.errors import UnknownNameError
from codesign.machines.device.experts import (
    EXPERT_FORMATS,
    ExpertConstants,
    ExpertFormat,
    ExpertWork,
    experts_time_s,
)
from codesign.studies.validation.kernel_families.log_least_squares import fit_constants
from codesign.studies.validation.kernel_families.routing import first_rank_load
from codesign.studies.validation.kernel_families.rows import (
    basic_reasons,
    first_reason,
    predict_rows_s,
)
from codesign.studies.validation.kernel_table import KernelTable

FAMILY = "experts"
OPERATORS = ("moe_experts", "moe_experts_large_ep")
_SIZES = ("tokens", "experts", "top_k", "hidden", "expert_hidden", "matrices", "tp", "ep")
_LIMITS = sorted({item.core_limit for item in EXPERT_FORMATS.values()})
_START = {
    "start": 20e-6,
    "routing_start": 8e-6,
    "expert_start": 2e-8,
    "memory": 0.8,
    "cache": 0.6,
    "core_load": 1e11,
    "tile_start": 3.0,
    "compute": 0.65,
    "passes": 1.8,
    "remote_passes": 0.7,
    "kept_remote_passes": 6.0,
    **dict.fromkeys(_LIMITS, 6e12),
}
_MOST = {"memory": 1.0, "cache": 1.0, "compute": 1.0}
_KEEPS_REMOTE = re.compile("^(?!.*(flashinfer|oaitriton)).*(fused_moe|marlin|triton)")
_ROUTING = re.compile(r"power_law_([0-9.]+?)(_eplb)?")


def left_out(table: KernelTable) -> NDArray[np.str_]:
    """(q,) why a row is not predicted; empty where it is."""
    reasons = basic_reasons(table, OPERATORS, _SIZES)
    formats = _formats(table)
    reasons["no such format of experts"] = np.array([item is None for item in formats])
    reasons["the device has no peak for the format"] = np.isnan(_peaks(table))
    reasons["the routing is not understood"] = np.array(
        [_power(text) is None for text in table.words("routing").tolist()]
    )
    with np.errstate(invalid="ignore"):
        reasons["the experts do not spread evenly"] = table["experts"] % table["ep"] > 0
    return first_reason(reasons)


def predict_s(table: KernelTable, constants: ExpertConstants | None = None) -> FloatArray:
    """(q,) seconds; NaN where a row is left out.

    Args:
        table: (q,) rows.
        constants: For all rows; None: those shipped for each device's class.
    """
    kept = left_out(table) == ""
    return predict_rows_s(table, kept, _law, FAMILY, ExpertConstants, constants)


def roofline_s(table: KernelTable) -> FloatArray:
    """(q,) the longer of reading the active experts once and multiplying; NaN where left out."""
    kept = left_out(table) == ""
    times, rows = np.full(len(table), np.nan), table.take(kept)
    work = _work(rows)
    each = np.asarray(work.matrices) * work.hidden * work.expert_hidden
    memory = np.asarray(work.active_experts) * each * work.weight_bytes
    compute = 2 * np.asarray(work.pairs) * each / _peaks(rows)
    times[kept] = np.maximum(memory / rows.rates.bandwidth_bytes_per_s, compute)
    return times


def fit(table: KernelTable) -> ExpertConstants:
    """The constants that fit the rows best, of those that :func:`is_fitted` says."""
    table = table.take(is_fitted(table))
    group = np.array(
        [
            f"{device} {item.core_limit if item else ''}"
            for device, item in zip(table.words("device"), _formats(table), strict=True)
        ]
    )
    times_s = _law(table)
    fitted = fit_constants(
        lambda numbers: times_s(_constants(numbers)), _START, _MOST, table["latency_s"], group
    )
    return _constants(fitted)


def is_fitted(table: KernelTable) -> BoolArray:
    """(q,) whether a row counts in the fit.

    SGLang's rows count only where one device has all experts: with more devices its benchmark
    gives the first one other tokens than it records.
    """
    alone = (table.words("framework") != "SGLang") | (table["ep"] == 1)
    return np.asarray((left_out(table) == "") & alone)


def _constants(numbers: Mapping[str, float]) -> ExpertConstants:
    values: dict[str, Any] = {name: v for name, v in numbers.items() if name not in _LIMITS}
    # Numbers are in SI units already, while the record's file has them with a unit.
    limits = {name: numbers[name] for name in _LIMITS if name in numbers}
    return ExpertConstants.model_construct(**values, core_limits=limits)


def _law(table: KernelTable) -> Callable[[ExpertConstants], FloatArray]:
    work, peaks, rates = _work(table), _peaks(table), table.rates
    return lambda constants: experts_time_s(work, peaks, rates, constants)


def _work(table: KernelTable) -> ExpertWork:
    pairs, active = _loads(table)
    formats = [item for item in _formats(table) if item is not None]
    kernels = table.words("kernel").tolist()
    keeps = [_KEEPS_REMOTE.search(kernel) is not None for kernel in kernels]
    return ExpertWork(
        pairs=pairs,
        active_experts=active,
        all_pairs=_all_pairs(table, pairs),
        experts=table["experts"],
        hidden=table["hidden"],
        expert_hidden=table["expert_hidden"] / table["tp"],
        matrices=table["matrices"],
        weight_bytes=np.array([item.weight_bytes for item in formats]),
        core_limit=np.array([item.core_limit for item in formats]),
        keeps_remote=np.array(keeps, dtype=bool),
        is_repeated=np.ones(len(table), dtype=bool),
        is_routed=table.words("framework") == "SGLang",
    )


def _all_pairs(table: KernelTable, pairs: FloatArray) -> FloatArray:
    """Pairs of the group; with large expert parallelism only those of tokens that arrived."""
    arrived = table.words("operator") == "moe_experts_large_ep"
    return np.where(arrived, pairs, table["tokens"] * table["top_k"])


def _loads(table: KernelTable) -> tuple[FloatArray, FloatArray]:
    sizes = zip(*(table[name].astype(int).tolist() for name in _SIZES[:3]), strict=True)
    ranks = table["ep"].astype(int).tolist()
    powers = [_power(text) or 0.0 for text in table.words("routing").tolist()]
    loads = [
        first_rank_load(*size, ep, p) for size, ep, p in zip(sizes, ranks, powers, strict=True)
    ]
    pairs, active = np.array(loads).reshape(-1, 2).T
    return pairs, active


def _power(routing: str) -> float | None:
    """Exponent of the skew, 0 where it is balanced; None: not understood."""
    match = _ROUTING.fullmatch(routing)
    if match is None:
        return 0.0 if routing == "balanced" else None
    return 0.0 if match[2] else float(match[1])


def _formats(table: KernelTable) -> list[ExpertFormat | None]:
    labels = zip(table.words("weight_dtype"), table.words("activation_dtype"), strict=True)
    return [EXPERT_FORMATS.get((str(weights), str(inputs))) for weights, inputs in labels]


def _peaks(table: KernelTable) -> FloatArray:
    """(q,) dense peak of each row's precision; NaN where device or format are unknown."""

    def peak(position: int) -> float:
        device, item = table.devices[position], formats[position]
        if device is None or item is None:
            return np.nan
        try:
            return device.peak_flop_per_s(item.math)
        except UnknownNameError:
            return np.nan

    formats = _formats(table)
    return np.array([peak(position) for position in range(len(table))])
