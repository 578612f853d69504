"""The links of a system: where they are, and what their parameters say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from codesign.base.columns import Arrays, FloatArray
from codesign.base.errors import InputError
from codesign.base.evaluator import LinkDescription
from codesign.evaluators.system.parts import PoolLinkRates
from codesign.evaluators.system.roles import PoolTask

LINK_PARAMETERS = ("bandwidth_bytes_per_s", "latency_s", "energy_joules_per_byte")
"""Parameters of a link."""
OPTIONAL_LINK_PARAMETERS = {"ports": 1.0, "port_price_usd": 0.0}
"""Parameters that a link may have besides, with what counts if it has not."""


def link_value(link: LinkDescription, parameter: str, shared: Arrays) -> FloatArray:
    """(n,) a parameter of a link; () what counts if systems do not have it."""
    name = f"{link.name}_{parameter}"
    if name not in shared and parameter in OPTIONAL_LINK_PARAMETERS:
        return np.asarray(OPTIONAL_LINK_PARAMETERS[parameter])
    return shared[name]


def link_rates(link: LinkDescription, shared: Arrays) -> PoolLinkRates:
    """Rates of a link; ports send side by side."""
    bandwidth, latency, energy = (link_value(link, name, shared) for name in LINK_PARAMETERS)
    return PoolLinkRates(bandwidth * link_value(link, "ports", shared), latency, energy)


def ports_usd(pool: str, links: Sequence[LinkDescription], shared: Arrays) -> FloatArray:
    """() or (n,) price of the ports of all links at one machine of a pool."""
    prices = [
        link_value(link, "ports", shared) * link_value(link, "port_price_usd", shared)
        for link in links
        if pool in (link.sender, link.receiver)
    ]
    return sum(prices, np.zeros(()))


def links_in_order(
    tasks: Mapping[str, PoolTask], links: Sequence[LinkDescription]
) -> tuple[list[LinkDescription], list[LinkDescription]]:
    """The link after each stage but the last, and the links within stages that two pools share.

    Raises:
        InputError: There is none, more than one, or one between other pools.
    """
    firsts = [name for name, task in tasks.items() if task.layers != "ffn"]
    seconds = {task.stage.phase: name for name, task in tasks.items() if task.layers == "ffn"}
    ordered = [_link_between(links, *ends) for ends in pairwise(firsts)]
    exchanges = [
        _link_between(links, name, seconds[tasks[name].stage.phase])
        for name in firsts
        if tasks[name].stage.phase in seconds
    ]
    stray = [link for link in links if link not in (*ordered, *exchanges)]
    if stray:
        raise InputError(
            f"no request passes from pool {stray[0].sender!r} to pool {stray[0].receiver!r}",
            key=("links", stray[0].name),
        )
    return ordered, exchanges


def _link_between(links: Sequence[LinkDescription], sender: str, receiver: str) -> LinkDescription:
    between = [link for link in links if (link.sender, link.receiver) == (sender, receiver)]
    if len(between) != 1:
        raise InputError(
            f"expected one link from pool {sender!r} to pool {receiver!r}, got {len(between)}",
            key=("links",),
        )
    return between[0]
