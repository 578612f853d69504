"""Requests that arrived at real engines beside what the event simulation predicts for them.

A table has one row for each request of an experiment: when it arrived, its tokens, and the times
that the engine measured. The machine is the evaluator ``platform`` under its default profile; no
constant of it is fitted to these rows. The engine is vLLM's: chunked prefill, asynchronous
scheduling, 90 % of the memory, prefix caching within a request.

Source: casys-kaist/LLMServingSim @5daddb2 (bench/examples; vLLM 0.19.0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from codesign.base.columns import (
    Arrays,
    FieldRows,
    FloatArray,
    JsonRows,
    StringList,
    StringMap,
)
from codesign.base.errors import CodesignError, InputError
from codesign.base.records import frozen
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.serving_steps import DeviceStepTimes, cache_tokens
from codesign.models.deployments.queueing import (
    Arrivals,
    EngineLimits,
    Fleet,
    MachinePool,
    ServedRequests,
    simulate,
)
from codesign.models.hardware.device import load_device
from codesign.models.workload import load_model
from codesign.models.workload.precision import FORMAT_KEYS
from validation.studies.measured_rows import read_rows
from validation.studies.request_cases import find_model, formats_of
from validation.studies.study import DATA, Study, comparison, promise, summarize

SERVED_FILE = DATA / "served_requests.csv.gz"
MEMORY_FRACTION = 0.9
"""Part of the memory that vLLM 0.19 takes by default."""
TARGETS = {"TTFT": 0.15, "latency": 0.10}
"""Mean sizes of the errors that are promised."""
_EDITIONS = {"RTX PRO 6000": "rtx-pro-6000-server"}
"""Devices that the table names without their edition, which metadata of its source's have
(bench/examples/RTXPRO6000/Llama-3.1-8B/vllm/meta.json @0acc21b, and its change log)."""
_NUMBERS = ("arrival_s", "prompt_tokens", "output_tokens", "ttft_s", "tpot_s", "latency_s")
_SETTINGS = (
    "model", "device", "tp", "dp", "ep", "max_sequences", "max_batched_tokens", "weight_dtype",
    "kv_dtype",
)  # fmt: skip


@frozen
class Experiment:
    """Requests that one deployment served.

    Attributes:
        name: As the table calls it.
        settings: Columns of ``_SETTINGS``, as they are written.
        columns: Columns of ``_NUMBERS`` in the order of arrival, (r,) each.
    """

    name: str
    settings: StringMap
    columns: Arrays

    def degree(self, name: str) -> int:
        """A setting that is a whole number from 1."""
        return int(self.settings[name])

    @property
    def arrivals(self) -> Arrivals:
        """The requests as the simulation takes them."""
        columns = self.columns
        return Arrivals(
            columns["arrival_s"],
            columns["prompt_tokens"].astype(np.int64),
            columns["output_tokens"].astype(np.int64),
        )


def run() -> Study:
    """Compare every request of the shipped table."""
    return compare(SERVED_FILE)


def compare(path: Path | str) -> Study:
    """A table of served requests beside our predictions.

    Args:
        path: A table with the columns of ``served_requests.csv.gz``, packed or not.

    Raises:
        InputError: The table cannot be read, or has no experiment that can be predicted.
    """
    rows: JsonRows = []
    left_out = []
    for experiment in read_experiments(path):
        try:
            rows += _rows(experiment, predict(experiment))
        except CodesignError as error:
            left_out.append(f"{experiment.name} left out: {error}.")
    if not rows:
        raise InputError(left_out or "no experiments", str(path))
    return Study(
        name="arrivals",
        question="How far are predicted times of requests that arrive from those of real engines?",
        rows=rows,
        summary=[
            summarize(group, _errors(rows, group, quantity))
            for quantity in _TIMES
            for group in _groups(rows, quantity)
        ],
        targets=_targets(rows),
        notes=(*left_out, *_NOTES),
    )


def read_experiments(path: Path | str) -> list[Experiment]:
    """The experiments of a table, in its order.

    Raises:
        InputError: The file cannot be read, lacks columns, or a number is none.
    """
    groups = defaultdict(list)
    for row in read_rows(path, (*_NUMBERS, *_SETTINGS, "experiment"))[0]:
        groups[row["experiment"]].append(row)
    return [_experiment(name, rows, path) for name, rows in groups.items()]


def _experiment(name: str, rows: Sequence[StringMap], path: Path | str) -> Experiment:
    try:
        columns = {key: np.array([float(row[key]) for row in rows]) for key in _NUMBERS}
    except ValueError as error:
        raise InputError(f"{name}: expected numbers, got {error}", str(path)) from None
    order = np.argsort(columns["arrival_s"], kind="stable")
    settings = {key: rows[0][key] for key in _SETTINGS}
    return Experiment(name, settings, {key: values[order] for key, values in columns.items()})


def predict(experiment: Experiment) -> ServedRequests:
    """The requests of an experiment through the simulation.

    Raises:
        InputError: The devices cannot hold the model or a request.
        UnknownNameError: A model, device or format that is not known.
    """
    settings = experiment.settings
    model = find_model(settings["model"])
    degrees, attention, n_machines, groups = _deployment(experiment, load_model(model).is_mixture)
    evaluator = PlatformEvaluator(
        PlatformRequest(model=model, prompt_tokens=1, generated_tokens=1),
        PlatformOptions.model_validate({"attention": attention} if attention else {}),
    )
    formats = dict(zip(FORMAT_KEYS, formats_of(settings["weight_dtype"]), strict=True))
    if settings["kv_dtype"] != "auto":
        formats["kv_format"] = formats_of(settings["kv_dtype"].partition("_")[0])[2]
    device = _EDITIONS.get(settings["device"], settings["device"])
    design = {"device": load_device(device).key, **formats, **degrees}
    limits = EngineLimits(
        max_sequences=experiment.degree("max_sequences") * groups,
        max_batched_tokens=experiment.degree("max_batched_tokens") * groups,
        plans_ahead=True,
    )
    limits = replace(limits, cache_tokens=cache_tokens(evaluator, design, limits, MEMORY_FRACTION))
    arrivals = experiment.arrivals
    longest = int((arrivals.prompt_tokens + arrivals.generated_tokens).max())
    steps = DeviceStepTimes(evaluator, design, limits, longest)
    return simulate(Fleet((MachinePool("serve", n_machines, steps, limits),)), arrivals)


def _deployment(
    experiment: Experiment, is_mixture: bool
) -> tuple[dict[str, int], str | None, int, int]:
    """Degrees of a machine, what its groups do to attention, machines, and groups of a machine.

    Replicas of a model with experts spread them over all their devices, and run in step.
    """
    tp, dp, ep = (experiment.degree(name) for name in ("tp", "dp", "ep"))
    if is_mixture and dp > 1:
        return {"tensor_parallel": tp, "expert_parallel": dp}, "data", 1, dp
    if is_mixture and ep > 1:
        return {"tensor_parallel": max(tp // ep, 1), "expert_parallel": ep}, "tensor", 1, 1
    return {"tensor_parallel": tp}, None, dp, 1


_TIMES: dict[str, tuple[str, Callable[[ServedRequests], FloatArray]]] = {
    "TTFT": ("ttft_s", lambda served: served.first_token_s - served.seen_s),
    "TPOT": ("tpot_s", lambda served: served.time_per_output_token_s),
    "latency": ("latency_s", lambda served: served.last_token_s - served.seen_s),
}
"""Column of a measured time, and its prediction. The table's times start when the engine takes a
request in, between two steps: so do ours."""


def _rows(experiment: Experiment, served: ServedRequests) -> JsonRows:
    rows = []
    for quantity, (column, predicted) in _TIMES.items():
        pairs = zip(experiment.columns[column].tolist(), predicted(served).tolist(), strict=True)
        for i, (reference, ours) in enumerate(pairs):
            if reference > 0 and not np.isnan(ours):
                subject = f"{quantity}, {experiment.name}, request {i + 1}"
                rows.append(
                    comparison(
                        {"what": subject, "group": quantity, "experiment": experiment.name},
                        reference,
                        ours,
                    )
                )
    return rows


def _groups(rows: FieldRows, quantity: str) -> StringList:
    experiments = list(dict.fromkeys(str(row["experiment"]) for row in rows))
    return [quantity, *(f"{quantity}, {name}" for name in experiments)]


def _errors(rows: FieldRows, group: str, quantity: str) -> FloatArray:
    """Relative errors of a quantity: of all experiments, or of the one that the group names."""
    name = group.removeprefix(quantity).removeprefix(", ")
    chosen_rows = [row for row in rows if row["group"] == quantity]
    return np.array([row["error"] for row in chosen_rows if name in ("", row["experiment"])])


def _targets(rows: FieldRows) -> JsonRows:
    targets = []
    for quantity, limit in TARGETS.items():
        for group in _groups(rows, quantity):
            mean = float(np.mean(np.abs(_errors(rows, group, quantity))))
            subject = f"mean error over requests, {group}"
            targets.append(promise(subject, f"<= {limit:.0%}", mean, mean <= limit))
    return targets


_NOTES = (
    "A mean error is the mean over requests of |ours / measured - 1|. Times start when the engine "
    "takes a request in, which is between two steps; TTFT has the wait for a place in the batch.",
    "The engine is modeled as vLLM's V1 runs by default: chunks of prompts beside all decoding "
    "requests, the next step planned while one runs, blocks of 16 tokens, the last request "
    "preempted where blocks run out, its blocks found again unless taken. Sampling, graphs that "
    "are captured at certain batches only, and the host cost nothing.",
    "What two of these choices do, mean errors of TTFT and latency: if the next step were chosen "
    "only when one has ended, 20.0 % and 3.0 % instead of 8.7 % and 2.9 % on the RTX PRO 6000; if "
    "a preempted request found none of its blocks again, 14.1 % and 9.3 % instead of 11.3 % and "
    "6.1 % on the RTX 4090, where some 200 are preempted. The table states neither; both are "
    "vLLM's defaults, and metadata of a later run on the RTX PRO 6000 by the same source (vLLM "
    "0.28) have them.",
    "The memory for the cache is 90 % of the printed capacity, GB taken as 1e9 bytes, less the "
    "weights: that drivers report 7 % more stands for activations and graphs.",
    "First steps after a start take longer than later ones: the RTX 4090's first token came after "
    "0.69 s, where later steps of 2,048 tokens took 0.20 s. That is not modeled.",
    "The RTX 4090's last decode steps, of 20 requests and 27,500 tokens on average, took 21.5 ms; "
    "their bytes take 18.5 ms at the printed rate of the memory, and 23.1 ms by the laws, which "
    "are fitted to other devices. All requests wait for a place, so that this adds up in TTFT.",
    "The table names an RTX PRO 6000; the metadata of that later run say that it is the Server "
    "Edition, whose memory is 11 % slower than the workstation's.",
)
