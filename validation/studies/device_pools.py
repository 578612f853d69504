"""Groups of devices of one phase, evaluated as the pools of systems are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
import yaml

from codesign.base.columns import ArrayDict, Arrays, Fields, JsonObject, column_of
from codesign.evaluators.platform import PlatformOptions
from codesign.evaluators.system.device_pool import DevicePool
from codesign.evaluators.system.roles import PoolTask, StageRequest
from codesign.evaluators.system.system_options import MachineOptions
from codesign.evaluators.system.workload import SystemWorkload
from validation.studies.study import DATA, comparison

CLAIMS_FILE = DATA / "systems.yaml"
DEVICE_FILES = tuple(str(path) for path in sorted((DATA / "devices").glob("*.yaml")))
Phase = Literal["prefill", "decode"]


@cache
def claims() -> Fields:
    """Published numbers of systems, as the file has them."""
    document: JsonObject = yaml.safe_load(CLAIMS_FILE.read_text(encoding="utf-8"))
    return document


def group_metrics(
    phase: Phase,
    model: str,
    tokens: tuple[int, int],
    design: Fields,
    batches: Sequence[int],
    options: PlatformOptions | None = None,
) -> ArrayDict:
    """(n,) metrics of a group of devices at ``n`` batch sizes; ``fits`` is 1 where they hold all.

    Args:
        phase: Whether it prefills or decodes.
        model: Name or file of the language model, in 16 bits.
        tokens: Of the prompt, and generated after it.
        design: The device and the degrees of its parallelism.
        batches: Requests that are served together.
        options: How the devices are read.
    """
    pool = DevicePool(
        PoolTask(StageRequest(phase, phase, *tokens), {"model": model}),
        SystemWorkload(model=model, prompt_tokens=tokens[0], generated_tokens=max(tokens[1], 1)),
        MachineOptions(platform=options or PlatformOptions(device_files=DEVICE_FILES)),
    )
    columns = {name: column_of([value] * len(batches)) for name, value in design.items()}
    evaluation = pool.evaluate({**columns, "batch_size": column_of(list(batches))})
    excess = np.max(list(evaluation.violations.values()), axis=0)
    return {**evaluation.metrics, "fits": (excess <= 0) * 1.0}


def fastest_batch(metrics: Arrays, longest_step_s: float) -> int:
    """Position of the batch with the largest throughput that fits and keeps a time per token.

    Raises:
        ValueError: No batch does.
    """
    is_within = (metrics["fits"] > 0) & (metrics["time_per_output_token_s"] <= longest_step_s)
    rates = np.where(is_within, metrics["throughput_tokens_per_s"], -np.inf)
    if not is_within.any():
        raise ValueError("no batch fits and keeps the time per token")
    return int(np.argmax(rates))


def claim_row(
    subject: str, group: str, reference: float, ours: float, source: str, explained: str = ""
) -> JsonObject:
    """A row of the study; ``explained`` says where a residual comes from."""
    return comparison(
        {"what": subject, "group": group}, reference, ours, explained=explained, source=source
    )
