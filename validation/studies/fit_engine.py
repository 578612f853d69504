"""Constants of TensorRT-LLM's PyTorch engine, from throughputs at saturation.

``python -m validation.studies.fit_engine`` prints those of ``tensorrt-llm.yaml``. Rows are those of
versions from 1.0 on devices with asynchronous cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from codesign.base.columns import JsonObject, design_columns
from codesign.models.machines.device.engine import load_engine
from validation.studies.kernel_families.log_fit import fit_constants
from validation.studies.measured_rows import read_rows
from validation.studies.saturation import PYTORCH_ENGINES, THROUGHPUT_FILE, read_case

FORMATS = ("fp8", "fp8-block", "nvfp4")
"""Kernels of experts in the order of the file."""
START = load_engine("tensorrt-llm")


def cycles() -> Iterator[JsonObject]:
    """Seconds of a turn of each row's batch: measured, without a host, and of experts by format."""
    for row in read_rows(THROUGHPUT_FILE, ())[0]:
        if row["left_out"] or row["engine"] not in PYTORCH_ENGINES:
            continue
        case = replace(read_case(row), engine="without a host")
        if not case.device.has_asynchronous_cores:
            continue
        serving = case.evaluator.serving(design_columns({**case.design, "batch_size": case.batch}))
        passes = [(n, timed.sustained) for n, timed in serving.prefill_passes]
        experts_s = sum(
            n * float(operator.time_s[0])
            for n, timed in [(case.generated, serving.decode_pass), *passes]
            for operator in timed.operators
            if operator.kernel == "experts"
        )
        has_blocks = case.evaluator.workload.language_model.weight_block_size is not None
        kernel = case.formats[0] + "-block" * (has_blocks and case.formats[0] == "fp8")
        tokens = float(case.batch * case.generated)
        yield {
            "groups": (case.model, case.device.key),
            "measured_s": tokens / case.tokens_per_s,
            "queued_s": tokens / float(serving.output_tokens_per_s[0]),
            "requests": tokens / case.degrees["--dp"] / case.degrees["--ep"],
            "experts_s": [experts_s * (kernel == name) for name in FORMATS],
        }


def fit(rows: Sequence[JsonObject]) -> list[float]:
    """The constants of rows: time of a request, then of experts by format.

    Rows of a model on a device weigh as the root of their number.
    """
    columns = ("queued_s", "requests", "experts_s", "measured_s")
    queued_s, requests, experts_s, measured_s = (
        np.array([row[x] for row in rows]) for x in columns
    )
    engine = fit_constants(
        START,
        lambda engine: np.asarray(
            queued_s
            + engine.host_request * requests
            + experts_s @ (np.array([*engine.expert_time.values()]) - 1.0)
        ),
        measured_s,
        groups=[" ".join(row["groups"]) for row in rows],
        free=("host_request", "expert_time"),
    )
    return [engine.host_request * 1e6, *engine.expert_time.values()]


def main() -> None:
    """Print the constants, then the lowest and highest of fits that leave a group out."""
    rows = list(cycles())
    groups = sorted({name for row in rows for name in row["groups"]})
    fits = [fit([row for row in rows if name not in row["groups"]]) for name in groups]
    print(*FORMATS, *zip(fit(rows), np.min(fits, 0), np.max(fits, 0), strict=True), sep="\n")


if __name__ == "__main__":
    main()
