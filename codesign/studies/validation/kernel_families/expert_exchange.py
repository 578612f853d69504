"""Measured exchanges of tokens between the devices of a mixture of experts (DeepEP)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.columns import FloatArray
from codesign.machines.device.collectives import CollectiveConstants
from codesign.machines.device.constants import load_constants
from codesign.machines.device.expert_exchange import (
    COMBINE_BYTES,
    DISPATCH_BYTES,
    EXCHANGE_KINDS,
    ExchangeConstants,
    expert_exchange_time_s,
    partners,
)
from codesign.studies.validation.kernel_families.collectives import links_of_rows
from codesign.studies.validation.kernel_families.log_least_squares import fit_constants
from codesign.studies.validation.kernel_families.rows import (
    basic_reasons,
    first_reason,
    predict_rows_s,
)
from codesign.studies.validation.kernel_table import KernelTable

FAMILY = "expert_exchange"
_SIZES = ("tokens", "experts", "top_k", "hidden", "devices", "nodes")
_START = {
    "normal_start": 25e-6,
    "normal_hop": 25e-6,
    "low_latency_start": 15e-6,
    "low_latency_hop": 23e-6,
    "core_copy": 2e9,
    "expert_copy": 4e9,
    "token_copy": 0.5e9,
    "link": 0.6,
    "network": 0.9,
}
_MOST = {"link": 1.0, "network": 1.0}


def left_out(table: KernelTable) -> NDArray[np.str_]:
    """(q,) why a row is not predicted; empty where it is."""
    reasons = basic_reasons(table, EXCHANGE_KINDS, _SIZES)
    links = links_of_rows(table)
    reasons["the device's file states no link"] = np.isnan(links.bandwidth_bytes_per_s)
    reasons["the device's file states no network"] = (table["nodes"] > 1) & np.isnan(
        links.network_bytes_per_s
    )
    return first_reason(reasons)


def predict_s(table: KernelTable, constants: ExchangeConstants | None = None) -> FloatArray:
    """(q,) seconds; NaN where a row is left out.

    Args:
        table: (q,) rows.
        constants: For all rows; None: those shipped for each device's class.
    """
    kept = left_out(table) == ""
    return predict_rows_s(table, kept, _law, FAMILY, ExchangeConstants, constants)


def roofline_s(table: KernelTable) -> FloatArray:
    """(q,) bytes that leave a device, or its node, over the datasheet rate; NaN where left out.

    Low-latency tokens count once for every partner, too: more need not be sent.
    """
    kept = left_out(table) == ""
    times, rows = np.full(len(table), np.nan), table.take(kept)
    links = links_of_rows(rows)
    tokens, experts, top_k, hidden, devices, nodes = (rows[name] for name in _SIZES)
    dispatched = np.char.find(rows.words("operator"), "dispatch") >= 0
    token_bytes = hidden * np.where(dispatched, DISPATCH_BYTES, COMBINE_BYTES)
    groups = np.where(nodes > 1, nodes, devices)
    rate = np.where(nodes > 1, links.network_bytes_per_s, links.bandwidth_bytes_per_s)
    times[kept] = tokens * token_bytes * partners(groups, experts, top_k) / rate
    return times


def fit(table: KernelTable, latency_factor: Mapping[str, float] | None = None) -> ExchangeConstants:
    """The constants that fit the rows best.

    Args:
        table: (q,) rows.
        latency_factor: By kind of link, as collectives have it; None: the shipped ones.
    """
    table = table.take(left_out(table) == "")
    group = np.char.add(table.words("device"), table.words("operator"))
    factors = dict(
        latency_factor or load_constants("collectives", CollectiveConstants, "gpu").latency_factor
    )
    times_s = _law(table)

    def constants(numbers: Mapping[str, float]) -> ExchangeConstants:
        values: dict[str, Any] = dict(numbers)
        return ExchangeConstants.model_construct(**values, latency_factor=factors)

    return constants(
        fit_constants(
            lambda numbers: times_s(constants(numbers)), _START, _MOST, table["latency_s"], group
        )
    )


def _law(table: KernelTable) -> Callable[[ExchangeConstants], FloatArray]:
    """The time of rows that are not left out, as a function of the constants."""
    parts = []
    for kind in EXCHANGE_KINDS:
        chosen = table.words("operator") == kind
        if chosen.any():
            rows = table.take(chosen)
            parts.append((chosen, kind, [rows[name] for name in _SIZES], links_of_rows(rows)))

    def times_s(constants: ExchangeConstants) -> FloatArray:
        times = np.full(len(table), np.nan)
        for chosen, kind, (tokens, experts, top_k, hidden, devices, nodes), links in parts:
            times[chosen] = expert_exchange_time_s(
                kind, tokens, experts, top_k, hidden, devices, nodes, links, constants
            )
        return times

    return times_s
