"""Measured collectives: NCCL's, and the serving frameworks' own all-reduce."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.hardware.collective_times import wire_bytes
from codesign.models.machines.device.collectives import (
    COLLECTIVE_KINDS,
    CollectiveConstants,
    collective_time_s,
)
from codesign.models.machines.device.links import LinkRates, link_rates
from validation.studies.kernel_families.family import KernelFamily, device_operators
from validation.studies.kernel_families.rows import (
    Reasons,
    device_numbers,
    device_texts,
    find_reasons,
)
from validation.studies.kernel_table import KernelTable

START = CollectiveConstants.model_validate(
    {
        "start": "5 us",
        "step": "1 us",
        "peer_step": "1.5 us",
        "peer": 0.7,
        "exchange_steps": 1.5,
        "fill": "3 us",
        "link": 0.8,
        "own_copy": 0.3,
        "latency_factor": dict.fromkeys(("nvlink-3", "nvlink-4", "nvlink-5", "pcie"), 1.0),
        "custom_start": "3 us",
        "custom_peer": "0.15 us",
        "second_shot": 4.0,
        "custom_link": 0.7,
        "network": 0.9,
        "network_step": "5 us",
    }
)
"""Start of the fit: round numbers; for the unmeasured network 0.9 as for DeepEP and a step as in
NCCL's tuner, LL over InfiniBand (src/graph/tuning.cc) [ours]."""
FREE = tuple(
    name for name in CollectiveConstants.model_fields if name not in ("network", "network_step")
)
MOST = {"link": 1.0, "peer": 1.0, "own_copy": 1.0, "custom_link": 1.0}
_LATENCIES = ("start", "step", "peer_step", "fill", "custom_start", "custom_peer")


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row is not predicted; empty where it is."""
    nodes, links = table["nodes"], links_of_rows(table)
    more = {
        "nodes is not stated, and the devices do not fit in one": np.isnan(nodes)
        & ~(table["devices"] <= device_numbers(table, lambda device: float(device.n_linked))),
        "the device's file states no link": np.isnan(links.bandwidth_bytes_per_s),
        "the device's file states no network": (nodes > 1) & np.isnan(links.network_bytes_per_s),
    }
    return find_reasons(table, COLLECTIVE_KINDS, ("message_bytes", "devices"), more=more)


def _first_guess(table: KernelTable) -> CollectiveConstants:
    """The start, with a factor for each kind of link that was measured."""
    present = "".join(np.asarray(links_of_rows(table).kind).tolist())
    factors = {
        link_kind: value
        for link_kind, value in START.latency_factor.items()
        if link_kind in present
    }
    return START.model_copy(update={"latency_factor": factors})


def _centered(fitted: CollectiveConstants) -> CollectiveConstants:
    """The factors by kind of link scaled so that their product is 1, and the latencies with them.

    So a kind that is not listed has the typical latency.
    """
    mean = float(np.exp(np.mean(np.log([*fitted.latency_factor.values()] or [1.0]))))
    centered = {link_kind: value / mean for link_kind, value in fitted.latency_factor.items()}
    latencies = {name: getattr(fitted, name) * mean for name in _LATENCIES}
    return fitted.model_copy(update=latencies | {"latency_factor": centered})


def links_of_rows(table: KernelTable) -> LinkRates:
    """The links of every row's device, (q,) each.

    NCCL's rows of L40S are of a server whose cards share a path, the frameworks' of others.
    """
    link_kind = device_texts(table, lambda device: device.link_kind or "")
    card = np.where(table.words("framework") == "NCCL", "pcie-shared", "pcie-switch")
    link_kind = np.where(link_kind == "pcie", card, link_kind)
    return link_rates(lambda number: device_numbers(table, number), link_kind)


def nodes_of_rows(table: KernelTable) -> FloatArray:
    """(q,) nodes; 1 where none is stated."""
    return np.where(np.isnan(table["nodes"]), 1.0, table["nodes"])


def _law(table: KernelTable) -> Callable[[CollectiveConstants], FloatArray]:
    """The time of rows that are not left out, as a function of the constants."""
    selections = []
    for link_kind in COLLECTIVE_KINDS:
        is_selected = table.words("operator") == link_kind
        if is_selected.any():
            rows = table.take(is_selected)
            selections.append(
                (is_selected, link_kind, rows, nodes_of_rows(rows), links_of_rows(rows))
            )
    sizes = [(rows["message_bytes"], rows["devices"]) for _, _, rows, _, _ in selections]

    def times_s(constants: CollectiveConstants) -> FloatArray:
        times = table.missing()
        for (is_selected, link_kind, _, nodes, links), (size, devices) in zip(
            selections, sizes, strict=True
        ):
            times[is_selected] = collective_time_s(
                link_kind, size, devices, nodes, links, constants
            )
        return times

    return times_s


def _roofline_s(table: KernelTable) -> FloatArray:
    links, times = links_of_rows(table), table.missing()
    for link_kind in COLLECTIVE_KINDS:
        sizes = table["message_bytes"], table["devices"], nodes_of_rows(table)
        inner, outer = wire_bytes(
            "all_reduce" if link_kind == "custom_all_reduce" else link_kind, *sizes
        )
        crossing = np.where(sizes[2] > 1, outer / links.network_bytes_per_s, 0.0)
        bound = np.maximum(inner / links.bandwidth_bytes_per_s, crossing)
        times = np.where(table.words("operator") == link_kind, bound, times)
    return times


FAMILY = KernelFamily(
    file="collectives",
    operators=COLLECTIVE_KINDS,
    target=0.15,
    left_out=left_out,
    law=_law,
    roofline=_roofline_s,
    start=START,
    most=MOST,
    first_guess=_first_guess,
    free=FREE,
    groups=device_operators,
    normalized=_centered,
)
