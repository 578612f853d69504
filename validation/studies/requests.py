"""Requests that others measured beside what ``codesign size`` predicts for them.

The predictor is the one that users get: the evaluator ``platform`` under its default profile, with
the engine that a source had. Of its constants only those of the host, with ``engine=eager`` alone,
and the deviation of ranks are fitted to requests; the others are fitted to kernels, most of them on
other devices and all of them with other models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from codesign.base.columns import (
    Arrays,
    FloatArray,
    JsonObject,
    JsonRows,
    design_columns,
)
from codesign.base.errors import InputError
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.models.workload.precision import FORMAT_KEYS, bits_per_element
from codesign.models.workload.storage import (
    kv_elements_per_token,
    parameter_count,
    state_bytes_per_token,
)
from validation.studies.request_cases import (
    CALIBRATION_FILE,
    DEPLOYMENTS_FILE,
    SPLITWISE_FILE,
    LeftOut,
    RequestCase,
    read_requests,
    table_model,
)
from validation.studies.study import Study, comparison, median_promise, summarize

_REPOSITORY = Path(__file__).parents[2]
MEMORY_FRACTION = 0.9
"""Part of the memory that serving engines take for weights and KV cache (vLLM's default)."""
GENZ = {"compute_efficiency": 0.6, "memory_efficiency": 0.7, "link_efficiency": 0.75}
"""Shares of the datasheet that GenZ measured on an H100 SXM (section IV-E); its tool takes any."""
TARGETS = {"TTFT": 0.12, "TPOT": 0.10, "throughput": 0.10}
"""Median errors that are promised."""


def run() -> Study:
    """Compare every measured request of the shipped tables."""
    return compare(CALIBRATION_FILE, SPLITWISE_FILE, DEPLOYMENTS_FILE)


def compare(*paths: Path | str) -> Study:
    """Any tables of measured requests beside our predictions.

    Args:
        paths: Tables with the columns of ``measured_calibration.csv``, of ``splitwise.csv`` or of
            ``deployments.csv``.

    Raises:
        InputError: A table cannot be read.
    """
    entries = [entry for path in paths for entry in read_requests(path)]
    reasons = Counter(entry.reason for entry in entries if isinstance(entry, LeftOut))
    cases, predictions = [], []
    for case in (entry for entry in entries if isinstance(entry, RequestCase)):
        try:
            predictions.append([predict(case, profile) for profile in _PROFILES])
        except InputError as error:
            reasons[str(error)] += 1
            continue
        cases.append(case)
    measured = np.array([case.value for case in cases])
    values, bounds, genz = np.array(predictions).reshape(-1, len(_PROFILES)).T
    errors = values / measured - 1.0
    others = {"roofline": bounds / measured - 1.0, "genz": genz / measured - 1.0}
    return Study(
        name="requests",
        question="How far are predicted requests from requests that others measured?",
        rows=[
            comparison(
                {
                    "what": f"{case}, {case.source}" if is_deployment(case) else str(case),
                    "group": case.quantity,
                    "engine": case.engine,
                    "device": case.device.key,
                    "model": f"{case.device.key} {case.engine} {Path(case.model).stem}",
                    "vendor": case.device.vendor,
                },
                case.value,
                values[i],
                roofline=float(bounds[i]),
                genz=float(genz[i]),
                genz_error=float(others["genz"][i]),
                source=case.source,
                **(
                    {
                        "infersim": case.infersim,
                        "infersim_error": case.infersim and case.infersim / case.value - 1.0,
                        "command": command(case),
                        "settings": case.settings,
                    }
                    if is_deployment(case)
                    else {}
                ),
            )
            for i, case in enumerate(cases)
        ],
        summary=_summary(cases, errors, others),
        targets=_targets(cases, errors),
        notes=(*(f"{n:,} rows left out: {reason}." for reason, n in reasons.items()), *_NOTES),
    )


def predict(case: RequestCase, profile: str = "fitted") -> float:
    """The quantity of a case, as the evaluator ``platform`` gives it.

    Where the cache of all requests exceeds the memory, as many run as fit with half their output,
    and the batch is served in that many turns.

    Raises:
        InputError: The devices cannot hold the model.
    """
    if is_deployment(case):
        serving = platform_serving(case, case.prompt, case.batch, profile)
        if case.quantity == "decode tokens/s":
            return float(serving.tokens_per_s_per_device[0])
        return float((serving.prefill_requests_per_s / serving.n_devices)[0]) * case.prompt
    running = running_requests(case)
    step = float(platform_serving(case, case.prompt, running, profile).time_per_output_token_s[0])
    if case.quantity == "TPOT":
        return step
    first = _first_token_s(case, profile, step * case.batch / running)
    if case.quantity == "TTFT":
        return first
    return case.batch * case.output / (first + (case.output - 1) * step * case.batch / running)


def is_deployment(case: RequestCase) -> bool:
    """Whether the case is of one phase, whose batch was served as it was."""
    return case.quantity in ("prefill tokens/s", "decode tokens/s")


def command(case: RequestCase) -> str:
    """The command line that prints the prediction for a deployment.

    It is its throughput per device or, of a prefill, its prompts per second times their tokens
    over the devices.
    """
    weights, activations, cache = case.formats
    words = ["codesign size", relative_path(case.model), f"--on {case.device.key}"]
    words += [
        f"{flag} {degree}"
        for flag, degree in {"--tp": case.tensor_parallel, "--ep": case.expert_parallel}.items()
        if degree > 1
    ]
    words += [f"--batch {case.batch}", f"--prompt-tokens {case.prompt}"]
    words += [f"--generated-tokens {case.output}", f"--format {activations}"]
    words += [f"--weight-format {weights}"] if weights != activations else []
    words += [f"--kv-format {cache}"] if cache != activations else []
    return " ".join([*words, *(["--option overlap=true"] if case.overlap else [])])


def relative_path(path: str) -> str:
    """A path of ours from the root of the repository; a name as it is."""
    inside = Path(path)
    return (
        inside.relative_to(_REPOSITORY).as_posix() if inside.is_relative_to(_REPOSITORY) else path
    )


def _first_token_s(case: RequestCase, profile: str, steps_s: float) -> float:
    if case.engine != "streams":
        serving = platform_serving(case, case.prompt, case.batch, profile)
        return float(serving.time_to_first_token_s[0])
    if case.prompt == 1:
        return steps_s
    serving = platform_serving(case, case.prompt - 1, case.batch, profile)
    return float(serving.time_to_first_token_s[0]) + steps_s


def running_requests(case: RequestCase) -> int:
    """Requests of the batch whose cache fits, half generated on average."""
    model = table_model(case.model)
    n_devices = case.tensor_parallel * case.pipeline_parallel
    room = MEMORY_FRACTION * case.device.capacity * n_devices
    weights = parameter_count(model) * bits_per_element(case.formats[0]) / 8
    per_token = kv_elements_per_token(model) * bits_per_element(case.formats[2]) / 8
    per_token += state_bytes_per_token(model)
    if weights > case.device.capacity * n_devices:
        raise InputError(f"{model.name} does not fit {n_devices} of {case.device.name}")
    fitting = (room - weights) / (per_token * (case.prompt + case.output / 2))
    return int(min(case.batch, max(1.0, np.floor(fitting))))


_PROFILES = ("fitted", "ideal", "genz")


def platform_serving(
    case: RequestCase, prompt: int, batch: int, profile: str = "fitted"
) -> PlatformServing:
    """A case with other prompts or another batch, as the evaluator ``platform`` serves it."""
    generated = case.output if is_deployment(case) else max(case.output, 1)
    evaluator = _evaluator(
        case.model, prompt, generated, profile, case.engine, case.overlap, case.power_limit
    )
    design: JsonObject = {
        "device": case.device.key,
        "batch_size": batch,
        "tensor_parallel": case.tensor_parallel,
        "pipeline_parallel": case.pipeline_parallel,
        "expert_parallel": case.expert_parallel,
        **dict(zip(FORMAT_KEYS, case.formats, strict=True)),
    }
    return evaluator.serving(design_columns(design))


@cache
def _evaluator(
    model: str,
    prompt: int,
    output: int,
    profile: str,
    engine: str,
    overlap: bool,
    power_limit: str | None,
) -> PlatformEvaluator:
    request = PlatformRequest(model=model, prompt_tokens=prompt, generated_tokens=output)
    stated_options: JsonObject = (
        GENZ if profile == "genz" else {"engine": engine, "overlap": overlap}
    )
    if profile == "fitted" and power_limit is not None:
        stated_options = stated_options | {"power_limit": power_limit}
    return PlatformEvaluator(
        request, PlatformOptions.model_validate({"profile": profile, **stated_options})
    )


def _summary(cases: Sequence[RequestCase], errors: FloatArray, others: Arrays) -> JsonRows:
    labels = [(case.quantity, _group(case)) for case in cases]
    summary = []
    for position in range(2):
        names = [label[position] for label in labels]
        for name in sorted(set(names)):
            is_selected = np.array([label == name for label in names])
            row = summarize(name, errors[is_selected])
            for key, their_errors in others.items():
                row[f"{key}_absolute_error"] = float(np.median(np.abs(their_errors[is_selected])))
            infersim = [
                abs(case.infersim / case.value - 1.0)
                for case, is_chosen in zip(cases, is_selected, strict=True)
                if is_chosen and case.infersim is not None
            ]
            if infersim:
                row["infersim_absolute_error"] = float(np.median(infersim))
            summary.append(row)
    return summary


def _group(case: RequestCase) -> str:
    """Group of a case in the summary."""
    groups = f"EP {case.expert_parallel}" if is_deployment(case) else f"TP {case.tensor_parallel}"
    return f"{case.quantity}, {case.device.name}, {groups}"


def _targets(cases: Sequence[RequestCase], errors: np.ndarray) -> JsonRows:
    targets = []
    for quantity, limit in TARGETS.items():
        is_selected = np.array([case.quantity == quantity for case in cases])
        if is_selected.any():
            targets.append(median_promise(quantity, limit, errors[is_selected]))
    return targets


_NOTES = (
    "The roofline is the profile ideal of the same evaluator: peak rates, and nothing starts.",
    "GenZ is the profile genz, which gives what PyPI's genz-llm 0.0.16 gives (study genz), with "
    "the shares of the datasheet that its section IV-E measured on an H100: 60 % of the "
    "arithmetic, 70 % of the memory's and 75 % of the links' bandwidth. LLMCompass, the "
    "other public tool for such requests, is on no package index and was not run.",
    "LMDeploy's latencies are printed in whole milliseconds: at 9 ms that alone is 5 %. Its first "
    "version sent a prompt's last token through a decode step.",
    "Splitwise's times are of a serving engine of 2023 that started every kernel from the host, "
    "which codesign size --option engine=eager predicts: on an H100 a step takes 30 ms on 4 "
    "devices and on 8. Six constants of hosts are fitted to them: starts of a kernel from hosts "
    "with PCIe 5 and with PCIe 4, a step, a prompt, each further request of a batch, the rate of "
    "large messages. The default, engine=graphs, has none of them. Fitted to one of the devices "
    "alone, they predict the other's first tokens within 10 % and its steps within 9 %, by the "
    "median; nothing is fitted to V100 and the integrated GPU.",
    "Each further request of a batch adds some 0.3 ms to Splitwise's decode steps on every device, "
    "and a fifth of that in DistServe's profiles of the same engine (study systems). 0.15 ms lies "
    "between: batches of 64 take up to a third longer than predicted in Splitwise's table, whose "
    "first tokens of 64 prompts on two devices are sooner than arithmetic allows.",
    "On four devices LMDeploy's throughputs of Llama-2-70B with prompts of one token are 2 to 18 % "
    "below what its own times per output token allow, and ours, which are near those, too high.",
    "From 4,096 tokens in a pass on, Splitwise's first tokens take up to 2.3 times as long as "
    "kernels and links need: collectives of more than 56 MiB seem to pass the host's memory. Why "
    "is not known; engine=eager has it so, with the power of the devices at its limit meanwhile. "
    "Two A100 and four take batches of prompts that are smaller longer, too, which is not modeled.",
    "Deployments run in two micro-batches where messages are hidden: each is predicted alone, with "
    "its messages behind as many operators of the other. Experts are drawn evenly.",
    "Where requests exceed the memory, as many run as fit with half their output; preemption and "
    "recomputation are not modeled.",
)
