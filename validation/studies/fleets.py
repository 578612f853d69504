"""Published pools of fleets beside those that ``codesign size`` chooses for the same latency.

A published pool states its rate for each device, its batch, and the tokens of a prompt or of a
cache. ``size`` gets the latency that follows from these, 20,000 users, and freedom: it chooses
degrees, batch, overlap and copies of experts. Its pool may be faster than the published one, which
nobody claims to be best. Nothing is fitted to these rows.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import Fields, StringMap
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.deployments import Deployment, DeploymentSearch
from codesign.evaluators.platform.instances import Demand
from codesign.models.deployments.queueing.service_levels import LatencyLimits
from codesign.models.hardware.device import load_device
from validation.studies.measured_rows import read_rows
from validation.studies.request_cases import engine_of
from validation.studies.study import DATA, Study, comparison, count_promise, summarize

PAIRS = {
    "DeepSeek, profile": ("DP1", "DP2", 1000),
    "SGLang, 96 H100": ("SG2", "SG5", 500),
}
"""Rows of ``deployments.csv`` that prefill and decode, and tokens generated around the cache."""
_USERS = 20_000
_FORMATS = {"weight_format": "fp8", "activation_format": "fp8", "kv_format": "bf16"}


def _number(row: Fields, name: str) -> float:
    return float(row[name])


def sized(prefill: StringMap, decode: StringMap, generated: int) -> Deployment:
    """The best pools at the latencies that two published pools have.

    Args:
        generated: Tokens of an answer; its prompt is what the cache has less half of them.
    """
    rates = [_number(row, "tokens_per_s_per_device") for row in (prefill, decode)]
    pass_s = _number(prefill, "batch_per_device") * _number(prefill, "prompt_tokens") / rates[0]
    step_s = _number(decode, "batch_per_device") / rates[1]
    device = load_device(decode["device"].lower().replace(" ", "-"))
    request = PlatformRequest(
        model=decode["model"].lower().removesuffix("-288-slots"),
        prompt_tokens=int(_number(decode, "prompt_tokens")) - generated // 2,
        generated_tokens=generated,
    )
    options = PlatformOptions(engine=engine_of(prefill["source"]))
    evaluator = PlatformEvaluator(request, options, devices={device.key: device})
    # A prompt waits for the pass that runs, then for its own.
    demand = Demand(LatencyLimits(2.0 * pass_s, step_s), users=_USERS)
    # No published pool is a pipeline.
    search = DeploymentSearch(evaluator, _FORMATS, demand, ["disaggregated"], has_stages=False)
    return search.best()[0]


def run() -> Study:
    """The study of published fleets."""
    published = {row["id"]: row for row in read_rows(DATA / "deployments.csv")[0]}
    rows = []
    for name, (first, second, generated) in PAIRS.items():
        deployment = sized(published[first], published[second], generated)
        prompt = int(_number(published[second], "prompt_tokens")) - generated // 2
        pools = zip(deployment.pools, (first, second), (prompt, generated), strict=True)
        for pool, key, tokens in pools:
            rate = deployment.requests_per_s * tokens / pool.devices
            split = f"{pool.tensor_parallel}x{pool.pipeline_parallel}x{pool.expert_parallel}"
            rows.append(
                comparison(
                    {
                        "what": f"{name}, {pool.role}, tokens/s of a device",
                        "group": "pools",
                        "chosen": f"{split}, {pool.batch_size:,} requests",
                    },
                    _number(published[key], "tokens_per_s_per_device"),
                    rate,
                    source=published[key]["source"],
                )
            )
    errors = np.array([row["error"] for row in rows])
    n_near = int((np.abs(errors) <= 0.2).sum())
    return Study(
        "fleets",
        "Tokens per second of a device in published pools, and in those that codesign size chooses",
        rows,
        [summarize("pools", errors)],
        [count_promise("published fleets", "pools within 20 %", n_near, len(errors))],
    )
