"""Time that serving engines add to their kernels, from requests that others measured.

A step of an engine that starts kernels one by one takes as long as the devices or the host need,
and what the host does before and after. Requests alone tell them apart: their decode steps on 4 or
8 devices keep the host busier than the devices, those on 2 and most prompts do not. Batches tell
what each further request takes the host, long prompts what large messages take. A collective of an
engine without graphs waits for the last of its ranks: what a step takes longer than its kernels,
over the number of collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from codesign.base.columns import FloatArray
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.models.hardware.collective_times import wire_bytes
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.engine import (
    EngineConstants,
    host_copy_s,
    host_own_s,
    host_starts_s,
    rank_wait_s,
)
from validation.studies.kernel_families.log_fit import fit_constants
from validation.studies.request_cases import (
    CALIBRATION_FILE,
    SPLITWISE_FILE,
    RequestCase,
    read_requests,
)
from validation.studies.requests import platform_serving, predict, running_requests

_START = EngineConstants.model_validate(
    {
        "host_start": "20 us", "earlier_host_start": "40 us", "host_step": "10 ms",
        "host_request": "0.2 ms", "host_prompt": "10 ms", "host_copy": 1.0,
        "rank_deviation": "8 us",
    }
)  # fmt: skip
"""Start of the fit: round numbers."""
_OTHER_HOST_REQUEST_S = 68e-6
"""Time of a further request in vLLM by DistServe's profiles, where kernels add least: OPT-66B on
eight A100 (``distserve.csv``). Splitwise's vLLM takes five times as long; the geometric mean stands
between the two [ours]."""
_HOSTED = (
    "host_start", "earlier_host_start", "host_step", "host_request", "host_prompt", "host_copy"
)  # fmt: skip


def cases() -> list[RequestCase]:
    """The measured requests from which the constants are."""
    entries = [*read_requests(CALIBRATION_FILE), *read_requests(SPLITWISE_FILE)]
    requests = [
        entry for entry in entries if isinstance(entry, RequestCase) and entry.power_limit is None
    ]
    return [case for case in requests if _is_hosted(case) or _is_waiting(case)]


def fit(requests: Sequence[RequestCase]) -> EngineConstants:
    """The constants of requests.

    Limiting assumption: hosts differ in how fast they start kernels alone. The constants of hosts
    are robust least squares over devices and quantities; ranks wait for the median time.

    Args:
        requests: Those of :func:`cases`, or some of them.
    """
    hosted = [case for case in requests if _is_hosted(case)]
    fitted = fit_constants(
        _START,
        hosted_law(hosted),
        np.array([case.value for case in hosted]),
        groups=[f"{case.device.key} {case.quantity}" for case in hosted],
        free=_HOSTED,
    )
    deviations = [_rank_deviation_s(case) for case in filter(_is_waiting, requests)]
    deviation = max(float(np.median(deviations)), 0.0)
    return fitted.model_copy(
        update={
            "rank_deviation": deviation,
            "host_request": float(np.sqrt(fitted.host_request * _OTHER_HOST_REQUEST_S)),
        }
    )


def hosted_law(requests: Sequence[RequestCase]) -> Callable[[EngineConstants], FloatArray]:
    """(n,) seconds of requests whose host starts kernels one by one, by the constants of hosts."""
    times_by_part = np.array([_parts(case) for case in requests]).T
    layers_s, ends_s, kernels, bandwidth, message_bytes, sent_bytes = times_by_part
    has_prompts = np.array([case.quantity == "TTFT" for case in requests])
    n_decoding = np.where(has_prompts, 0.0, [case.batch for case in requests])
    ranks = np.array([case.tensor_parallel for case in requests])

    def times_s(constants: EngineConstants) -> FloatArray:
        started_s = np.maximum(
            layers_s + host_copy_s(message_bytes, sent_bytes, bandwidth, constants),
            host_starts_s(kernels, bandwidth, constants),
        )
        return np.asarray(
            started_s + ends_s + host_own_s(has_prompts, n_decoding, ranks, constants)
        )

    return times_s


def _is_hosted(case: RequestCase) -> bool:
    is_eager = case.engine == "eager" and "splitwise" in case.source.lower()
    return (
        is_eager
        and case.quantity in ("TTFT", "TPOT")
        and running_requests(case) == case.batch  # others wait for memory
    )


def _is_waiting(case: RequestCase) -> bool:
    return (case.engine, case.quantity) == ("streams", "TPOT") and case.tensor_parallel > 1


def _parts(case: RequestCase) -> tuple[float, float, float, float, float, float]:
    """Terms of a pass whose kernels are queued. Seconds of layers and ends, kernels of the layers,
    rate to the host, bytes of a collective of the layers, and bytes that a device sends in all of
    them."""
    serving = _queued(case)
    timed = serving.decode_pass if case.quantity == "TPOT" else serving.prefill_passes[0][1]
    in_layers = [operator for operator in timed.operators if operator.is_in_layers]
    layers_s = sum(float(layer.time_s[0]) for layer in in_layers)
    kernels = sum(float(operator.count[0]) for operator in in_layers)
    bandwidth = float(np.ravel(serving.platform.rates.host_bandwidth_bytes_per_s)[0])
    messages = [
        in_layer for in_layer in in_layers if in_layer.part == "collective" and in_layer.count[0]
    ]
    message_bytes = max(float(message.bytes[0] / message.count[0]) for message in messages)
    held = sum(float(operator.bytes[0]) for operator in messages)
    sent, _ = wire_bytes("all_reduce", held, float(case.tensor_parallel), 1.0)
    return (
        layers_s,
        float(timed.total_s[0]) - layers_s,
        kernels,
        bandwidth,
        message_bytes,
        float(sent),
    )


def _rank_deviation_s(case: RequestCase) -> float:
    """Time of a measured step beyond its kernels, for each collective and deviation."""
    collectives = sum(
        float(operator.count[0])
        for operator in _queued(case).decode_pass.operators
        if operator.part == "collective"
    )
    waits = collectives * float(
        rank_wait_s(case.tensor_parallel, _START.model_copy(update={"rank_deviation": 1.0}))
    )
    return float(
        load_constants("engine", EngineConstants, "gpu").rank_deviation
        + (case.value - predict(case)) / waits
    )


def _queued(case: RequestCase) -> PlatformServing:
    """A case on an engine whose kernels wait in a queue."""
    return platform_serving(replace(case, engine="streams"), case.prompt, case.batch)
