"""Published pools of fleets beside those that ``codesign size`` chooses for the same latency.

A published pool states its rate for each device, its batch, and the tokens of a prompt or of a
cache. ``size`` gets the latency that follows from these, 20,000 users, and freedom: it chooses
degrees, batch, overlap and copies of experts. Its pool may be faster than the published one, which
nobody claims to be best. Nothing is fitted to these rows.
"""

from __future__ import annotations

from codesign.base.columns import Fields, StringMap
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.deployments import Deployment, DeploymentSearch
from codesign.evaluators.platform.instances import Demand
from codesign.models.deployments.queueing.service_levels import LatencyLimits
from codesign.models.hardware.device import load_device
from validation.studies.measured_rows import read_rows
from validation.studies.request_cases import engine_of
from validation.studies.study import DATA, Study, comparison, count_promise, errors_of, summarize

PAIRS = {
    "DeepSeek, profile": ("DP1", "DP2", 1000),
    "SGLang, 96 H100": ("SG2", "SG5", 500),
}
"""Rows of ``deployments.csv`` that prefill and decode, and tokens generated around the cache."""
_USERS = 20_000
_FORMATS = {"weight_format": "fp8", "activation_format": "fp8", "kv_format": "bf16"}


def _number(row: Fields, name: str) -> float:
    return float(row[name])


def sized(prefill: StringMap, decode: StringMap, prompt: int, generated: int) -> Deployment:
    """The best pools at the latencies that two published pools have.

    Args:
        prompt: Tokens of the cache less half of those generated.
    """
    rates = [_number(row, "tokens_per_s_per_device") for row in (prefill, decode)]
    pass_s = _number(prefill, "batch_per_device") * _number(prefill, "prompt_tokens") / rates[0]
    step_s = _number(decode, "batch_per_device") / rates[1]
    device = load_device(decode["device"].lower().replace(" ", "-"))
    request = PlatformRequest(
        model=decode["model"].lower().removesuffix("-288-slots"),
        prompt_tokens=prompt,
        generated_tokens=generated,
    )
    evaluator = PlatformEvaluator(
        request, PlatformOptions(engine=engine_of(prefill["source"])), devices={device.key: device}
    )
    # A prompt waits for the pass that runs, then for its own.
    demand = Demand(LatencyLimits(2.0 * pass_s, step_s), users=_USERS)
    # No published pool is a pipeline.
    return DeploymentSearch(
        evaluator, _FORMATS, demand, ["disaggregated"], has_stages=False
    ).best()[0]


def run() -> Study:
    """The study of published fleets."""
    published = {row["id"]: row for row in read_rows(DATA / "deployments.csv")[0]}
    rows = []
    for name, (first, second, generated) in PAIRS.items():
        prompt = int(_number(published[second], "prompt_tokens")) - generated // 2
        deployment = sized(published[first], published[second], prompt, generated)
        pools = zip(deployment.pools, (first, second), (prompt, generated), strict=True)
        for pool, key, tokens in pools:
            split = f"{pool.tensor_parallel}x{pool.pipeline_parallel}x{pool.expert_parallel}"
            rows.append(
                comparison(
                    {
                        "what": f"{name}, {pool.role}, tokens/s of a device",
                        "group": "pools",
                        "chosen": f"{split}, {pool.batch_size:,} requests",
                    },
                    _number(published[key], "tokens_per_s_per_device"),
                    deployment.requests_per_s * tokens / pool.devices,
                    source=published[key]["source"],
                )
            )
    errors = errors_of(rows)
    return Study(
        "fleets",
        "Tokens per second of a device in published pools, and in those that codesign size chooses",
        rows,
        [summarize("pools", errors)],
        [
            count_promise(
                "published fleets", "pools within 20 %", sum(abs(errors) <= 0.2), len(errors)
            )
        ],
    )
