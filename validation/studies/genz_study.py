"""GenZ [GenZ]_ beside ours: the public tool's answers, and the numbers that the paper prints.

The tool's answers (``data/genz_cases.json``) are held to 1e-6 under profile ``genz``. The
paper's text (``data/genz_claims.yaml``) is computed under the same profile; it says what does
not come out, and why.

.. [GenZ] A. Bambhaniya et al., Demystifying Platform Requirements for Diverse LLM Inference
   Use Cases, 2024.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import yaml

from codesign.base.columns import Fields, FloatArray, JsonObject, JsonRows, column_of
from codesign.base.errors import InputError
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.requirements import Requirements, size_requirements
from codesign.evaluators.platform.scaling import AXES, REFERENCE_FILE, scale
from codesign.models.deployments.queueing.service_levels import LatencyLimits
from codesign.models.hardware.device import load_device
from codesign.models.workload.model_library import load_model
from codesign.models.workload.precision import FORMAT_KEYS
from codesign.models.workload.storage import active_parameter_count, kv_elements, parameter_count
from validation.studies.genz_cases import compare, load_cases, run_case
from validation.studies.study import DATA, Study, comparison, count_promise, model_file, summarize

TOLERANCE = 1e-6
"""Tolerance of every answer of the tool: both are double precision and add in other orders."""


def cases() -> JsonRows:
    """The tool's cases: input, and output or None where it refuses."""
    return load_cases(DATA / "genz_cases.json")


def claims() -> JsonObject:
    """The paper's printed numbers, as the file has them."""
    text = (DATA / "genz_claims.yaml").read_text(encoding="utf-8")
    document: JsonObject = yaml.safe_load(text)
    return document


def compute(claim: Fields) -> float:
    """Our number for a claim of the paper."""
    return _KINDS[claim["kind"]](claim)


def _evaluator(device: str, **workload: Any) -> PlatformEvaluator:
    request = PlatformRequest.model_validate({**workload, "model": model_file(workload["model"])})
    loaded_device = load_device(device)
    # The paper has two all-reduces a layer (Eq. 5); the third, the router's, is the tool's.
    return PlatformEvaluator(
        request,
        PlatformOptions(profile="genz", router_all_reduce=False),
        devices={loaded_device.key: loaded_device},
    )


def _gain(claim: Fields) -> float:
    evaluator = _evaluator(str(REFERENCE_FILE), model=claim["model"], use_case=claim["use_case"])
    design = {
        "device": next(iter(evaluator.devices)),
        "batch_size": 1,
        "tensor_parallel": claim["tp"],
        "pipeline_parallel": claim["pp"],
    }
    rows = scale(evaluator, design, AXES[claim["axis"]], [1, claim["factor"]]).rows()
    return float(rows[1][f"{claim['phase']}_gain"])


def _values(evaluator: PlatformEvaluator, metric: str, **varied: list[int]) -> FloatArray:
    columns = {
        "device": column_of([next(iter(evaluator.devices))] * len(next(iter(varied.values()))))
    }
    columns |= {name: column_of(list(values)) for name, values in varied.items()}
    return evaluator.evaluate(columns, [metric]).metrics[metric]


def _batching(claim: Fields) -> float:
    evaluator = _evaluator(
        "a100-sxm-80gb", model=claim["model"], prompt_tokens=2048, generated_tokens=0
    )
    values = _values(evaluator, "throughput_tokens_per_s", batch_size=[1, claim["batch"]])
    return float(values[1] / values[0])


def _pipeline(claim: Fields) -> float:
    evaluator = _evaluator(
        "h100-sxm", model=claim["model"], prompt_tokens=4000, generated_tokens=256, beams=4
    )
    values = _values(
        evaluator, "prefill_requests_per_s",
        batch_size=[8, 8], tensor_parallel=[8, 1], pipeline_parallel=[1, 8],
    )  # fmt: skip
    return float(values[1] / values[0])


def _needed(model: str, use_case: str) -> Requirements:
    evaluator = _evaluator("h100-sxm", model=model, use_case=use_case)
    case = evaluator.workload.limits
    assert case is not None  # a use case was asked for
    limits = LatencyLimits(case.time_to_first_token_s, case.time_per_output_token_s)
    return size_requirements(
        evaluator, limits, {"batch_size": 1, **dict.fromkeys(FORMAT_KEYS, "fp8")}
    )


def _retrieval(claim: Fields) -> float:
    """Addition of retrieval to a requirement of question answering."""
    more, less = (_needed(claim["model"], case) for case in ("rag-qa", "question-answering"))
    return float(getattr(more, claim["quantity"]) / getattr(less, claim["quantity"]))


def _active(claim: Fields) -> float:
    model = load_model(model_file(claim["model"]))
    return active_parameter_count(model) / parameter_count(model)


def _cache(claim: Fields) -> float:
    request = _evaluator("h100-sxm", model=claim["model"], use_case="code-generation").workload
    tokens = request.prompt + request.n_beams * request.generated
    model = request.language_model
    return kv_elements(model, tokens) / active_parameter_count(model)


def _assistant(claim: Fields) -> float:
    """The AI assistant of §VIII: 2 M tokens of context, 300 words a minute."""
    evaluator = _evaluator("h100-sxm", model=claim["model"], prompt_tokens=2_000_000,
                           generated_tokens=2000, beams=4)  # fmt: skip
    needed = size_requirements(
        evaluator,
        LatencyLimits(np.inf, 1 / (300 / 60)),
        {"batch_size": 1, **dict.fromkeys(FORMAT_KEYS, "fp8")},
    )
    if claim["quantity"] == "bandwidth":
        return needed.bandwidth_bytes_per_s / 1e12
    return needed.capacity_bytes / 1e12


_KINDS: dict[str, Callable[[Fields], float]] = {
    "gain": _gain,
    "batching": _batching,
    "pipeline": _pipeline,
    "retrieval": _retrieval,
    "active": _active,
    "cache": _cache,
    "assistant": _assistant,
}


def run() -> Study:
    """Every answer of the tool and every number of the text beside ours."""
    answered = [case for case in cases() if case["output"] is not None]
    refused = [case for case in cases() if case["output"] is None]
    tool_rows = [row for case in answered for row in compare(case)]
    document = claims()
    printed = []
    for claim in document["claims"]:
        group = "paper" if "tolerance" in claim else "paper, unmatched"
        labels = {"what": claim["what"], "group": group, "metric": claim["kind"]}
        printed.append(comparison(labels, claim["printed"], compute(claim)))
    groups = {
        "tool, prefill": [row["error"] for row in tool_rows if row["group"] == "prefill"],
        "tool, decode": [row["error"] for row in tool_rows if row["group"] == "decode"],
        "paper, numbers that come out": [r["error"] for r in printed if r["group"] == "paper"],
        "paper, numbers that do not": [
            r["error"] for r in printed if r["group"] == "paper, unmatched"
        ],
    }
    return Study(
        name="genz",
        question=(
            "What the public tool GenZ-LLM-Analyzer answers, and what GenZ prints in its text, "
            "beside the platform evaluator under profile genz."
        ),
        rows=[*printed, *tool_rows],
        summary=[summarize(name, np.array(errors)) for name, errors in groups.items()],
        targets=_targets(tool_rows, answered, refused, printed, document["claims"]),
        notes=[
            f"The tool's {len(answered)} cases: {len(tool_rows)} numbers. 17 cases were chosen, "
            "the others drawn at random over models, systems, batch, tokens, parallelism, formats "
            "and offload, and run with PyPI genz-llm 0.0.16.",
            *document["notes"],
        ],
    )


def _targets(
    tool_rows: JsonRows,
    answered: JsonRows,
    refused: JsonRows,
    printed: JsonRows,
    stated: JsonRows,
) -> JsonRows:
    within = sum(abs(row["error"]) <= TOLERANCE for row in tool_rows)
    n_refused = sum(_is_refused(case["input"]) for case in refused)
    held = [
        (claim, row) for claim, row in zip(stated, printed, strict=True) if "tolerance" in claim
    ]
    return [
        count_promise(
            f"numbers of the tool's {len(answered)} answers", "within 1e-6", within, len(tool_rows)
        ),
        count_promise(
            "cases that the tool refuses, because they do not fit",
            "refused",
            n_refused,
            len(refused),
        ),
        count_promise(
            "numbers of the paper's text that the tool's conventions explain",
            "within 1 to 7 %, each as stated",
            sum(abs(row["error"]) <= claim["tolerance"] for claim, row in held),
            len(held),
        ),
    ]


def _is_refused(case: Fields) -> bool:
    try:
        run_case(case)
    except InputError:
        return True
    return False
