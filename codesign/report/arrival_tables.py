"""Served requests for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from codesign.answers.serving import PoolInputs
from codesign.base.columns import StringMap
from codesign.base.units import format_engineering
from codesign.models.deployments.queueing import ServedRequests
from codesign.models.deployments.queueing.served_requests import PERCENTILES
from codesign.models.deployments.queueing.service_levels import LatencyLimits
from codesign.models.hardware.device import list_devices, load_device
from codesign.models.machines.device.expected_error import describe_expected_error
from codesign.report.labels import memory_words
from codesign.report.tables import Tables, pairs_table, plain_table, record_table, spaced

_TITLES = {
    "queueing_s": "wait for the first step",
    "time_to_first_token_s": "time to first token",
    "time_per_output_token_s": "time per output token",
    "request_latency_s": "latency of the request",
}


def arrivals_tables(
    question: StringMap,
    pools: Sequence[PoolInputs],
    served: ServedRequests,
    level: LatencyLimits | None,
    engine: str,
) -> Tables:
    """Served requests for the terminal.

    Args:
        engine: Serving engine, by which errors are expected.
    """
    headers = [*(f"{p} %" for p in PERCENTILES), "mean"]
    rows = (
        (_TITLES[name], *map(_time, values.values()))
        for name, values in served.percentiles().items()
    )
    times = plain_table("Times", ["time", *headers], headers, rows)
    rates = {
        "requests": f"{len(served.arrivals):,} in {_time(served.makespan_s)}",
        "rate": f"{served.requests_per_s:.4g} requests/s, {served.tokens_per_s:.4g} tokens/s",
    }
    if level is not None:
        rates["goodput"] = (
            f"{level.goodput_requests_per_s(served):.4g} requests/s within both limits, "
            f"{level.attainment(served):.1%} of the requests"
        )
    machines = [
        vars(pool)
        | {
            "load": load,
            "utilization": float(served.utilization(load).mean()),
            "device": pool.design.get("device", "a design"),
        }
        for pool, load in zip(pools, served.pools, strict=True)
    ]
    fields = "load.name=pool device machines devices cache_tokens utilization=busy"
    fields += " load.n_preempted=preempted"
    caches = [
        (memory_words(name) if i else "own cache", f"{tokens:,}", f"{share:.1%}")
        for i, (name, tokens, share) in enumerate(served.cache_rows(pools[0].cache_tokens))
    ]
    columns = ["cache", "capacity tokens", "prompt tokens found"]
    return spaced(
        pairs_table("Question", question),
        record_table("Pools", machines, fields),
        *([plain_table("Prompts found in caches", columns, columns[1:], caches)] if caches else []),
        pairs_table("Served", rates),
        times,
        (
            "Times are from the arrival; the time per output token is the mean of a request's "
            "steps after its first token. The rate counts from the first arrival to the last token."
        ),
        *(
            " ".join(describe_expected_error(load_device(key), engine))
            for key in list_devices()
            if key in [machine["device"] for machine in machines]
        ),
    )


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else format_engineering(seconds, "s", 3)
