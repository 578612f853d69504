"""Measured collectives: NCCL's, and the serving frameworks' own all-reduce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.columns import FloatArray
from codesign.machines.device.collectives import (
    COLLECTIVE_KINDS,
    CollectiveConstants,
    collective_time_s,
    wire_bytes,
)
from codesign.machines.device.links import LinkRates, link_rates
from codesign.studies.validation.kernel_families.log_least_squares import fit_constants
from codesign.studies.validation.kernel_families.rows import (
    basic_reasons,
    device_numbers,
    device_texts,
    first_reason,
    predict_rows_s,
)
from codesign.studies.validation.kernel_table import KernelTable

FAMILY = "collectives"
_KINDS = ("nvlink-3", "nvlink-4", "nvlink-5", "pcie")
_START = {
    "start": 5e-6,
    "step": 1e-6,
    "exchange_steps": 1.5,
    "fill": 3e-6,
    "link": 0.8,
    "own_copy": 0.3,
    "custom_start": 3e-6,
    "custom_peer": 0.15e-6,
    "hosted_peer": 3e-6,
    "second_shot": 4.0,
    "custom_link": 0.7,
    **dict.fromkeys(_KINDS, 1.0),
}
_MOST = {"link": 1.0, "own_copy": 1.0, "custom_link": 1.0}
_UNMEASURED = {"network": 0.9, "network_step": 5e-6}
"""[ours] 0.9: as measured for DeepEP; a step: NCCL's tuner, LL over InfiniBand
(src/graph/tuning.cc, 5 us)."""


def left_out(table: KernelTable) -> NDArray[np.str_]:
    """(q,) why a row is not predicted; empty where it is."""
    reasons = basic_reasons(table, COLLECTIVE_KINDS, ("message_bytes", "devices"))
    nodes, links = table["nodes"], links_of_rows(table)
    linked = device_numbers(table, lambda device: float(device.n_linked))
    reasons["nodes is not stated, and the devices do not fit in one"] = np.isnan(nodes) & ~(
        table["devices"] <= linked
    )
    reasons["the device's file states no link"] = np.isnan(links.bandwidth_bytes_per_s)
    reasons["the device's file states no network"] = (nodes > 1) & np.isnan(
        links.network_bytes_per_s
    )
    return first_reason(reasons)


def predict_s(table: KernelTable, constants: CollectiveConstants | None = None) -> FloatArray:
    """(q,) seconds; NaN where a row is left out.

    Args:
        table: (q,) rows.
        constants: For all rows; None: those shipped for each device's class.
    """
    kept = left_out(table) == ""
    return predict_rows_s(table, kept, _law, FAMILY, CollectiveConstants, constants)


def roofline_s(table: KernelTable) -> FloatArray:
    """(q,) bytes over the links' datasheet rate, nothing else; NaN where a row is left out."""
    return np.where(left_out(table) == "", _bytes_over_links_s(table), np.nan)


def fit(table: KernelTable) -> CollectiveConstants:
    """The constants that fit the rows best; those between nodes are not measured.

    The factors by kind of link are scaled so that their product is 1, the latencies with them: a
    kind that is not listed has the typical latency.
    """
    table = table.take(left_out(table) == "")
    group = np.char.add(table.words("device"), table.words("operator"))

    times_s = _law(table)

    def predicted(numbers: Mapping[str, float]) -> FloatArray:
        return times_s(_constants(numbers))

    present = set(links_of_rows(table).kind)
    start = {name: value for name, value in _START.items() if name not in _KINDS or name in present}
    fitted = fit_constants(predicted, start, _MOST, table["latency_s"], group)
    return _constants(_centered(fitted))


def links_of_rows(table: KernelTable) -> LinkRates:
    """The links of every row's device, (q,) each."""
    kind = device_texts(table, lambda device: device.link_kind or "")
    return link_rates(lambda number: device_numbers(table, number), kind)


def nodes_of_rows(table: KernelTable) -> FloatArray:
    """(q,) nodes; 1 where none is stated."""
    return np.where(np.isnan(table["nodes"]), 1.0, table["nodes"])


def _law(table: KernelTable) -> Callable[[CollectiveConstants], FloatArray]:
    """The time of rows that are not left out, as a function of the constants."""
    parts = []
    for kind in COLLECTIVE_KINDS:
        chosen = table.words("operator") == kind
        if chosen.any():
            rows = table.take(chosen)
            parts.append((chosen, kind, rows, nodes_of_rows(rows), links_of_rows(rows)))
    sizes = [(rows["message_bytes"], rows["devices"]) for _, _, rows, _, _ in parts]

    def times_s(constants: CollectiveConstants) -> FloatArray:
        times = np.full(len(table), np.nan)
        for (chosen, kind, _, nodes, links), (size, devices) in zip(parts, sizes, strict=True):
            times[chosen] = collective_time_s(kind, size, devices, nodes, links, constants)
        return times

    return times_s


def _bytes_over_links_s(table: KernelTable) -> FloatArray:
    links, times = links_of_rows(table), np.full(len(table), np.nan)
    for kind in COLLECTIVE_KINDS:
        sizes = table["message_bytes"], table["devices"], nodes_of_rows(table)
        inner, outer = wire_bytes(kind, *sizes)
        crossing = np.where(sizes[2] > 1, outer / links.network_bytes_per_s, 0.0)
        bound = np.maximum(inner / links.bandwidth_bytes_per_s, crossing)
        times = np.where(table.words("operator") == kind, bound, times)
    return times


def _constants(numbers: Mapping[str, float]) -> CollectiveConstants:
    values: dict[str, Any] = {name: v for name, v in numbers.items() if name not in _KINDS}
    values |= _UNMEASURED
    values["latency_factor"] = {kind: numbers[kind] for kind in _KINDS if kind in numbers}
    # Numbers are in SI units already, while the record's file has them with a unit.
    return CollectiveConstants.model_construct(**values)


def _centered(numbers: Mapping[str, float]) -> dict[str, float]:
    kinds = [kind for kind in _KINDS if kind in numbers]
    mean = float(np.exp(np.mean(np.log([numbers[kind] for kind in kinds]))))
    latencies = ("start", "step", "fill", "custom_start", "custom_peer", "hosted_peer")
    scale = dict.fromkeys(latencies, mean) | dict.fromkeys(kinds, 1 / mean)
    return {name: value * scale.get(name, 1.0) for name, value in numbers.items()}
