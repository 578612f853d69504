"""Systems that others built, measured or simulated, beside the evaluator ``system``.

Splitwise's machines and clusters, DistServe's profiles, SGLang's deployment and SPAD's chips, each
read as pools of devices. Phases alone are the study ``requests``.
"""

from __future__ import annotations

from collections.abc import Iterator

from codesign.base.columns import JsonObject
from codesign.evaluators.platform import PlatformOptions
from validation.studies import distserve, spad, splitwise
from validation.studies.device_pools import claim_row, claims, group_metrics
from validation.studies.request_cases import DEPLOYMENTS_FILE, RequestCase, read_requests
from validation.studies.requests import predict
from validation.studies.study import Study, grouped_errors, model_file, summarize


def run() -> Study:
    """Compare every number of others about systems."""
    rows = [
        *splitwise.budget_rows(),
        *splitwise.cluster_rows(),
        *splitwise.handover_rows(),
        *sglang_rows(),
        *spad.speed_rows(),
        *spad.cluster_rows(),
        *splitwise.time_rows(),
        *splitwise.power_rows(),
        *distserve.rows(),
        *scheduled_rows(),
    ]
    return Study(
        name="systems",
        question="How far are pools of devices from systems that others built or simulated?",
        rows=rows,
        summary=[summarize(name, errors) for name, errors in grouped_errors(rows).items()],
        notes=_NOTES,
    )


def sglang_rows() -> Iterator[JsonObject]:
    """Prompt tokens per second of a node of SGLang's prefill pool."""
    stated = claims()["sglang"]
    (case,) = (
        case
        for case in read_requests(DEPLOYMENTS_FILE)
        if isinstance(case, RequestCase)
        and case.source == "SGLang Team (2025), 96 H100"
        and (case.quantity, case.prompt) == ("prefill tokens/s", stated["prompt_tokens"])
    )
    yield claim_row(
        f"DeepSeek-V3, EP {case.expert_parallel} on H100, tokens/s of a node that prefills",
        "SGLang, prefill pool",
        stated["tokens_per_s_of_node"],
        predict(case) * stated["devices_of_node"],
        stated["source"],
        "imbalance of experts from its rates with even and with uneven loads (sglang.yaml)",
    )


def scheduled_rows() -> Iterator[JsonObject]:
    """Output tokens per second of chips that a compiler schedules."""
    stated = claims()["scheduled"]
    for claim in stated["rows"]:
        metrics = group_metrics(
            "decode", model_file(claim["model"]), stated["tokens"], claim["design"],
            [claim["batch"]], PlatformOptions(attention="tensor"),
        )  # fmt: skip
        ours = float(metrics["throughput_tokens_per_s"][0])
        name = f"{claim['model']} on {claim['design']['device']}, output tokens/s"
        yield claim_row(
            name, claim["group"], claim["tokens_per_s"], ours, claim["source"], claim["explained"]
        )


_NOTES = (
    "DeepSeek's profile on H800 and the other rates of SGLang's 96 H100, its 22,282 generated "
    "tokens/s of a node among them, are in the study requests.",
    "Splitwise, power: mean over a request of the devices' power, in parts of their limits; its "
    "H100 have none. Requests of 8,192 prompt tokens print 17 to 18 % on 2, 4 and 8 devices, less "
    "than any other, which their prefill of seconds at the limit excludes. Peaks are of samples: "
    "they miss short prefills, and exceed the limit, which ours never do.",
    "Splitwise, clusters: BLOOM-176B in 16 bits on machines of eight devices, mean requests of the "
    "two traces; the most requests/s of all splits within the budget, decode batches within 1.25 "
    "times the token time of one request on A100 (its Table 6, median). HHcap has power-capped "
    "machines, which are not modeled.",
    "Splitwise's 2.15 times (AA) the throughput of Baseline-A100 is not compared: the baseline "
    "mixes prompts and tokens in one pool, and throughput is what nine percentiles allow under "
    "Poisson arrivals.",
    "Splitwise, times: by device in the study requests, with what explains them.",
    "DistServe: the lines that its simulator uses, at the batches named, where the model fits; the "
    "batches to which they were fitted are not published. Its engine queues kernels from C++ "
    "(engine streams); vLLM of 2023 starts them from Python (eager), of whose lines the fit takes "
    "one number: what a further request takes the host. For OPT-13B on one A100 the line adds "
    "18.1 ms, of which reading the weights takes 12.6, to the time of the arithmetic; ours takes "
    "the longer of both.",
    "SPAD: its Table 3 as device files; the H100's starts, links and sustained share. Its mean is "
    "over batches and lengths of a figure whose axes are not printed, ours over powers of two that "
    "fit. Vector units and caches of cores, which it cuts, are not in our laws.",
)
