"""Served requests for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from codesign.base.units import format_engineering
from codesign.models.deployments.queueing import ServedRequests
from codesign.models.deployments.queueing.served_requests import PERCENTILES
from codesign.models.deployments.queueing.service_levels import ServiceLevel
from codesign.report.labels import memory_words
from codesign.report.tables import pairs_table, plain_table, spaced, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.answers.serving import PoolInputs

_TITLES = {
    "queueing_s": "wait for the first step",
    "time_to_first_token_s": "time to first token",
    "time_per_output_token_s": "time per output token",
    "request_latency_s": "latency of the request",
}


def arrivals_tables(
    question: Mapping[str, str],
    pools: Sequence[PoolInputs],
    served: ServedRequests,
    level: ServiceLevel | None,
) -> list[RenderableType]:
    """Served requests for the terminal."""
    headers = [f"{p} %" for p in PERCENTILES]
    times = plain_table("Times", ["time", *headers, "mean"], [*headers, "mean"])
    for name, values in served.percentiles().items():
        times.add_row(_TITLES[name], *(_time(value) for value in values.values()))
    rates = {
        "requests": f"{len(served.arrivals):,} in {_time(served.makespan_s)}",
        "rate": f"{served.requests_per_s:.4g} requests/s, {served.tokens_per_s:.4g} tokens/s",
    }
    if level is not None:
        rates["goodput"] = (
            f"{level.goodput_requests_per_s(served):.4g} requests/s within both limits, "
            f"{level.attainment(served):.1%} of the requests"
        )
    numbers = ["machines", "devices", "cache", "busy", "preempted"]
    table = plain_table("Pools", ["pool", "device", *numbers], numbers)
    for pool, load in zip(pools, served.pools, strict=True):
        table.add_row(
            load.name,
            str(pool.design.get("device", "a design")),
            f"{pool.machines:,}",
            f"{pool.devices:,}",
            f"{pool.cache_tokens:,} tokens",
            f"{served.utilization(load).mean():.0%}",
            f"{load.n_preempted:,}",
        )
    caches = plain_table("Prompts found", ["in", "tokens", "share"], ["tokens", "share"])
    rows = served.cache_rows(pools[0].cache_tokens)
    for i, (name, tokens, share) in enumerate(rows):
        caches.add_row(memory_words(name) if i else "own cache", f"{tokens:,}", f"{share:.1%}")
    return spaced(
        pairs_table("Question", question),
        table,
        *([caches] if rows else []),
        pairs_table("Served", rates),
        times,
        text_line(
            "Times are from the arrival; the time per output token is the mean of a request's "
            "steps after its first token. The rate counts from the first arrival to the last token."
        ),
    )


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else format_engineering(seconds, "s", 3)
