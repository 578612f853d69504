"""Measured exchanges of tokens between the devices of a mixture of experts (DeepEP)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.machines.device.collectives import CollectiveConstants
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.expert_exchange import (
    COMBINE_BYTES,
    DISPATCH_BYTES,
    EXCHANGE_KINDS,
    ExchangeConstants,
    expert_exchange_time_s,
)
from codesign.models.workload.expert_routing import partners
from validation.studies.kernel_families.collectives import links_of_rows
from validation.studies.kernel_families.family import KernelFamily, device_operators
from validation.studies.kernel_families.rows import (
    Reasons,
    find_reasons,
)
from validation.studies.kernel_table import KernelTable

_SIZES = ("tokens", "experts", "top_k", "hidden", "devices", "nodes")
START = ExchangeConstants.model_validate(
    {
        "normal_start": "25 us",
        "normal_hop": "25 us",
        "low_latency_start": "15 us",
        "low_latency_hop": "23 us",
        "core_copy": "2 GB/s",
        "expert_copy": "4 GB/s",
        "token_copy": "0.5 GB/s",
        "link": 0.6,
        "network": 0.9,
        "latency_factor": {},
    }
)
"""Start of the fit: round numbers. The factors are those of collectives."""
MOST = {"link": 1.0, "network": 1.0}


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row is not predicted; empty where it is."""
    links = links_of_rows(table)
    more = {
        "the device's file states no link": np.isnan(links.bandwidth_bytes_per_s),
        "the device's file states no network": (table["nodes"] > 1)
        & np.isnan(links.network_bytes_per_s),
    }
    return find_reasons(table, EXCHANGE_KINDS, _SIZES, more=more)


def _law(table: KernelTable) -> Callable[[ExchangeConstants], FloatArray]:
    """The time of rows that are not left out, as a function of the constants."""
    selections = []
    for exchange in EXCHANGE_KINDS:
        is_selected = table.words("operator") == exchange
        if is_selected.any():
            rows = table.take(is_selected)
            selections.append(
                (is_selected, exchange, [rows[name] for name in _SIZES], links_of_rows(rows))
            )

    def times_s(constants: ExchangeConstants) -> FloatArray:
        times = table.missing()
        for is_selected, exchange, (
            tokens,
            experts,
            top_k,
            hidden,
            devices,
            nodes,
        ), links in selections:
            times[is_selected] = expert_exchange_time_s(
                exchange, tokens, experts, top_k, hidden, devices, nodes, links, constants
            )
        return times

    return times_s


def _roofline_s(table: KernelTable) -> FloatArray:
    """(q,) bytes that leave a device, or its node, over the datasheet rate.

    Low-latency tokens count once for every partner, too: more need not be sent.
    """
    links = links_of_rows(table)
    tokens, experts, top_k, hidden, devices, nodes = (table[name] for name in _SIZES)
    dispatched = np.char.find(table.words("operator"), "dispatch") >= 0
    token_bytes = hidden * np.where(dispatched, DISPATCH_BYTES, COMBINE_BYTES)
    groups = np.where(nodes > 1, nodes, devices)
    rate = np.where(nodes > 1, links.network_bytes_per_s, links.bandwidth_bytes_per_s)
    return np.asarray(tokens * token_bytes * partners(groups, experts, top_k) / rate)


FAMILY = KernelFamily(
    file="expert_exchange",
    operators=EXCHANGE_KINDS,
    target=0.15,
    left_out=left_out,
    law=_law,
    roofline=_roofline_s,
    start=START,
    most=MOST,
    # The start, with the factors on latencies of collectives.
    first_guess=lambda _: START.model_copy(
        update={
            "latency_factor": load_constants(
                "collectives", CollectiveConstants, "gpu"
            ).latency_factor
        }
    ),
    free=[name for name in ExchangeConstants.model_fields if name != "latency_factor"],
    groups=device_operators,
)
