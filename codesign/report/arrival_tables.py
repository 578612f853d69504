"""Served requests for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codesign.base.units import format_engineering
from codesign.models.deployments.queueing import ServedRequests
from codesign.models.deployments.queueing.served_requests import PERCENTILES
from codesign.models.deployments.queueing.service_levels import ServiceLevel
from codesign.report.tables import pairs_table, plain_table, spaced, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType

_TITLES = {
    "queueing_s": "wait for the first step",
    "time_to_first_token_s": "time to first token",
    "time_per_output_token_s": "time per output token",
    "request_latency_s": "latency of the request",
}


def arrivals_document(
    inputs: Mapping[str, Any],
    pools: Sequence[Mapping[str, Any]],
    served: ServedRequests,
    level: ServiceLevel | None,
) -> dict[str, Any]:
    """What was asked, the pools with what they did, and the times of the requests."""
    return {
        **inputs,
        "pools": [{**row, **load} for row, load in zip(pools, _loads(served), strict=True)],
        "requests": len(served.arrivals),
        "makespan_s": served.makespan_s,
        "requests_per_s": served.requests_per_s,
        "tokens_per_s": served.tokens_per_s,
        "times": {name: dict(values) for name, values in served.percentiles().items()},
        "service_level": None if level is None else _level(served, level),
    }


def _loads(served: ServedRequests) -> list[dict[str, Any]]:
    return [
        {
            "utilization": served.utilization(pool).tolist(),
            "steps": pool.n_steps,
            "preempted": pool.n_preempted,
        }
        for pool in served.pools
    ]


def _level(served: ServedRequests, level: ServiceLevel) -> dict[str, float]:
    return {
        "time_to_first_token_s": level.time_to_first_token_s,
        "time_per_output_token_s": level.time_per_output_token_s,
        "attainment": level.attainment(served),
        "goodput_requests_per_s": level.goodput_requests_per_s(served),
    }


def arrivals_tables(
    question: Mapping[str, str],
    pools: Sequence[Mapping[str, Any]],
    served: ServedRequests,
    level: ServiceLevel | None,
) -> list[RenderableType]:
    """The same for the terminal."""
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
    return spaced(
        pairs_table("Question", question),
        _pools_table(pools, served),
        pairs_table("Served", rates),
        times,
        text_line(
            "Times are from the arrival; the time per output token is the mean of a request's "
            "steps after its first token. The rate counts from the first arrival to the last token."
        ),
    )


def _pools_table(pools: Sequence[Mapping[str, Any]], served: ServedRequests) -> RenderableType:
    numbers = ["machines", "devices", "cache", "busy", "preempted"]
    table = plain_table("Pools", ["pool", "device", *numbers], numbers)
    for row, load in zip(pools, served.pools, strict=True):
        table.add_row(
            load.name,
            str(row["design"].get("device", "a design")),
            f"{row['machines']:,}",
            f"{row['devices']:,}",
            f"{row['cache_tokens']:,} tokens",
            f"{served.utilization(load).mean():.0%}",
            f"{load.n_preempted:,}",
        )
    return table


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else format_engineering(seconds, "s", 3)
