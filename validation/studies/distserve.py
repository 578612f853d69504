"""DistServe's profiles of OPT on A100, beside ours.

A profile is a line of three coefficients: a prefill takes ``a + b sum(tokens) + c sum(tokens^2)``,
a decode step ``a + b sum(context) + c batch``, with others from a batch of 95 on. We compare the
lines at a few batches, where the model fits.
"""

from __future__ import annotations

from collections.abc import Iterator

from codesign.base.columns import Fields, JsonObject
from codesign.evaluators.platform import PlatformOptions
from validation.studies.device_pools import Phase, claim_row, group_metrics
from validation.studies.measured_rows import read_rows
from validation.studies.study import DATA, model_file

PROFILES_FILE = DATA / "distserve.csv"
_ENGINES = {"distserve": "streams", "vllm": "eager"}
"""DistServe's own engine starts kernels from C++; vLLM of 2023 from Python."""
_PREFILLS = ((1, 128), (1, 512), (1, 1024), (1, 2048), (4, 512))
"""Prompts of a batch, and tokens of each; OPT has 2,048 positions."""
_STEPS = ((1, 512), (16, 512), (64, 256), (128, 256))
"""Requests of a decode step, and tokens in the cache of each."""


def profiled_s(row: Fields, batch: int, tokens: int) -> float:
    """Seconds of a pass by a profile's line.

    Args:
        row: Of the table of profiles.
        batch: Requests of the pass.
        tokens: Tokens of each: in its prompt, or in its cache.
    """
    constant, first, second = (
        float(row[name]) for name in ("constant_s", "first_coefficient_s", "second_coefficient_s")
    )
    squares = batch * tokens**2 if row["phase"] == "prefill" else batch
    return constant + first * batch * tokens + second * squares


def rows() -> Iterator[JsonObject]:
    """A comparison for every profile and batch that fits."""
    for row in read_rows(PROFILES_FILE)[0]:
        yield from _rows_of(row)


def _rows_of(row: Fields) -> Iterator[JsonObject]:
    phase: Phase = "prefill" if row["phase"] == "prefill" else "decode"
    low, high = int(row["batch_from"] or 1), int(row["batch_to"] or 1 << 30)
    for batch, tokens in _PREFILLS if phase == "prefill" else _STEPS:
        if not low <= batch <= high:
            continue
        # A decode step that sees the given cache generates one more token.
        metrics = group_metrics(
            phase,
            model_file(row["model"]),
            (tokens, 0 if phase == "prefill" else 1),
            {"device": "a100-sxm-80gb", "tensor_parallel": int(row["tp"])},
            [batch],
            PlatformOptions.model_validate({"engine": _ENGINES[row["engine"]]}),
        )
        if not metrics["fits"][0]:
            continue
        name = "time_to_first_token_s" if phase == "prefill" else "time_per_output_token_s"
        yield claim_row(
            f"{row['engine']} {phase}, {row['model']}, TP {row['tp']}, {batch} x {tokens} tokens",
            f"DistServe, {row['engine']}, {phase}",
            profiled_s(row, batch, tokens),
            float(metrics[name][0]),
            row["source"],
        )
