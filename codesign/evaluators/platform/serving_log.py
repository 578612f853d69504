"""A device fitted to lines that a serving engine logged on it.

A line has rates: tokens of prompts and of answers in a second, of requests with so many tokens. The
predicted times of these tokens must add up to the second. Two factors of times are fitted: of
prefills, which arithmetic bounds, and of decode steps, which bandwidth bounds. A fit to the other
lines judges each line. Their mean and spread give the factors and intervals, as in a jackknife.

The formats are those of vllm-project/vllm, issue 43295, and of sgl-project/sglang, pull request
22166. Older versions of SGLang log no rates of prefills.
"""

from __future__ import annotations

import re

import numpy as np

from codesign.base.columns import Fields, JsonObject, design_columns
from codesign.base.errors import InputError
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.platform_request import PlatformRequest
from codesign.models.hardware.device import Device
from codesign.models.machines.device.calibration import LEAST_ERRORS, conformal_error
from codesign.models.workload.model_library import load_model

_CACHE = r"KV cache size: (\d[\d,]*)"
_VLLM = (
    r"prompt throughput: (\d+\.?\d*) .*throughput: (\d+\.?\d*) .*"
    r"Running: (\d+).*GPU KV.*?: (\d+\.?\d*)%"
)
_DECODE = r"running-req: (\d+), #token: (\d+).*gen throughput \(token/s\): (\d+\.?\d*)"
_PREFILL = r"new-seq: (\d+), #new-token: (\d+).*input throughput \(token/s\): (\d+\.?\d*)"
_PRIOR = np.eye(2) * 0.3
"""Weight of an equation ``factor = 1`` for each factor; a line of the log has 1 [ours]."""


def calibrate_log(
    text: str, source: str, model: str, design: Fields, device: Device, base: Fields
) -> JsonObject:
    """The file of a device, with factors of both phases of an engine's steps.

    Limiting assumption: a factor scales all of a phase, and no prefill hides decode steps.

    Args:
        source: The file of the log.
        design: Degrees and formats by the evaluator's parameters.
        base: Content of the device's file.

    Raises:
        InputError: Too few lines can be used, or a request is too long for the model.
    """
    cache = float(("0", *re.findall(_CACHE, text))[-1].replace(",", "")) / 100.0
    rows = [(p, o, n, cache * float(use)) for p, o, n, use in re.findall(_VLLM, text)]
    if rows and not cache:
        raise InputError("expected vLLM's line with 'KV cache size', which its start logs", source)
    options = PlatformOptions(engine="vllm" if rows else "sglang")
    rows += [(0, o, n, tokens) for n, tokens, o in re.findall(_DECODE, text)]
    rows += [(p, 0, n, tokens) for n, tokens, p in re.findall(_PREFILL, text)]
    context = load_model(model).context_tokens or 1_000_000_000
    shares = []
    for prompt_rate, rate, n, tokens in np.array(rows, np.float64).tolist():
        if min(n, tokens, prompt_rate + rate) > 0:
            each = max(round(tokens / n), 1)
            if each >= context:
                raise InputError(
                    f"expected requests of fewer than the {context:,} tokens of {model}, "
                    f"got {each:,}",
                    source,
                )
            request = PlatformRequest(model=model, prompt_tokens=each, generated_tokens=1)
            serving = PlatformEvaluator(request, options, devices={device.key: device}).serving(
                design_columns({**design, "device": device.key, "batch_size": n})
            )
            first = serving.time_to_first_token_s
            step = serving.time_per_output_token_s
            shares.append([prompt_rate / tokens * first[0], rate / n * step[0]])
    if (count := len(shares)) < LEAST_ERRORS:
        lines = "lines of vLLM or SGLang with running requests"
        raise InputError(f"expected {LEAST_ERRORS} or more {lines}, got {count}", source)
    table = np.array([*shares, *_PRIOR])
    without = (np.delete(table, i, 0) for i in range(count))
    sums = np.append(np.ones(count - 1), _PRIOR.sum(axis=0))
    fits = np.array([np.linalg.lstsq(rows_left, sums)[0] for rows_left in without])
    before = -np.log(table.sum(axis=1)[:count])
    after = -np.log((table[:count] * fits).sum(axis=1))
    factors = fits.mean(axis=0).round(4)
    half = 1.645 * np.sqrt(count - 1) * fits.std(axis=0)
    how = (
        f"calibrated from {count} lines of {source}; factors of prefill and decode times: "
        f"{factors}, 90 % within {half.round(3)}"
    )
    phases = zip(("prefill", "decode"), factors.tolist(), strict=True)
    changed = {name: device.time_factor(name) * factor for name, factor in phases}
    return {
        **base,
        "name": f"{device.name}, calibrated",
        "also_called": [],
        "kernels_of": device.measured_name,
        "time_factors": {**device.time_factors, **changed},
        "sources": {**device.sources, "time_factors": how},
        "calibration_error": conformal_error(before, after),
    }
