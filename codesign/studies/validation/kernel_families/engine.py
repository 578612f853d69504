"""What serving engines add to their kernels, from requests that others measured.

A step of an engine that starts kernels one by one takes as long as the host needs: time over the
number of kernels. A collective of an engine without graphs waits for the last of its ranks: what a
step takes longer than its kernels, over the number of collectives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from codesign.columns import column_of
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.pass_time import TimedPass
from codesign.machines.device.constants import load_constants
from codesign.machines.device.engine import EngineConstants, rank_wait_s
from codesign.studies.validation.request_cases import (
    CALIBRATION_FILE,
    SPLITWISE_FILE,
    RequestCase,
    read_requests,
)
from codesign.studies.validation.requests import predict


def cases() -> list[RequestCase]:
    """The measured requests from which the constants are."""
    entries = [*read_requests(CALIBRATION_FILE), *read_requests(SPLITWISE_FILE)]
    requests = [entry for entry in entries if isinstance(entry, RequestCase)]
    return [case for case in requests if _is_hosted(case) or _is_waiting(case)]


def fit(requests: Sequence[RequestCase]) -> EngineConstants:
    """The constants of requests, in closed form.

    Limiting assumption: in a batch of one request, the host takes longer than the device.

    Args:
        requests: Those of :func:`cases`, or some of them.
    """
    starts = defaultdict(list)
    for case in filter(_is_hosted, requests):
        starts[case.device.key].append(_host_start_s(case))
    # Machines differ in their hosts: the geometric middle of the devices' medians.
    host_start = np.exp(np.mean([np.log(np.median(values)) for values in starts.values()]))
    deviations = [_rank_deviation_s(case) for case in filter(_is_waiting, requests)]
    values: dict[str, Any] = {
        "host_start": float(host_start),
        "rank_deviation": max(float(np.median(deviations)), 0.0),
    }
    return EngineConstants.model_construct(**values)


def _is_hosted(case: RequestCase) -> bool:
    return (case.engine, case.quantity, case.batch) == ("eager", "TPOT", 1) and (
        "splitwise" in case.source.lower()
    )


def _is_waiting(case: RequestCase) -> bool:
    return (case.engine, case.quantity) == ("turbomind", "TPOT") and case.tensor_parallel > 1


def _host_start_s(case: RequestCase) -> float:
    """What the layers of a measured step take, over the number of their kernels."""
    step = _decode_pass(case, "eager")
    kernels = sum(float(item.count[0]) for item in step.operators if item.is_in_layers)
    ends = sum(float(item.time_s[0]) for item in step.operators if not item.is_in_layers)
    return (case.value - ends) / kernels


def _rank_deviation_s(case: RequestCase) -> float:
    """What a measured step takes longer than its kernels, for each collective and deviation."""
    operators = _decode_pass(case, "streams").operators
    collectives = sum(float(item.count[0]) for item in operators if item.part == "collective")
    per_deviation = EngineConstants.model_construct(host_start=0.0, rank_deviation=1.0)
    waits = collectives * float(rank_wait_s(case.tensor_parallel, per_deviation))
    shipped = load_constants("engine", EngineConstants, "gpu")
    return float(shipped.rank_deviation + (case.value - predict(case)) / waits)


def _decode_pass(case: RequestCase, engine: str) -> TimedPass:
    request = PlatformRequest(
        model=case.model, prompt_tokens=case.prompt, generated_tokens=max(case.output, 1)
    )
    evaluator = PlatformEvaluator(request, PlatformOptions.model_validate({"engine": engine}))
    design: dict[str, Any] = {
        "device": case.device.key,
        "batch_size": case.batch,
        "tensor_parallel": case.tensor_parallel,
        "pipeline_parallel": case.pipeline_parallel,
        **dict(zip(("weight_format", "activation_format", "kv_format"), case.formats, strict=True)),
    }
    return evaluator.serving({n: column_of([v]) for n, v in design.items()}).decode_pass
