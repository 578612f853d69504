"""Tokens per second at saturation that others published beside what ``codesign size`` predicts.

A benchmark queues all its requests, all alike, and an engine serves as many at a time as memory
holds. The predictor is what users get: ``codesign size --batch max``, its metric
``output_tokens_per_s``; of some rows also ``codesign serve-model --at-once``, from step to
step. Nothing is fitted to these rows. That norms and activations of engines with graphs are
vectorized was found on those of TensorRT-LLM 1.0; that of 0.17 and MLPerf were not looked at then.

Sources: NVIDIA/TensorRT-LLM (Apache-2.0), performance overviews at three commits;
mlcommons/inference_results_v4.1, offline results; each row of ``throughput.csv`` names its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np

from codesign.base.columns import (
    FieldRows,
    Fields,
    JsonObject,
    JsonRows,
    design_columns,
)
from codesign.base.errors import CodesignError, InputError
from codesign.base.records import frozen
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.models.hardware.device import Device, load_device
from codesign.models.workload import load_model
from codesign.models.workload.precision import FORMAT_KEYS
from validation.studies.measured_rows import read_rows
from validation.studies.request_cases import (
    LeftOutError,
    Row,
    find_model,
    number_of,
)
from validation.studies.requests import GENZ, relative_path
from validation.studies.study import (
    DATA,
    Study,
    comparison,
    errors_of,
    median_promise,
    promise,
    summarize,
)

THROUGHPUT_FILE = DATA / "throughput.csv"
PEER_FILE = DATA / "aisimulate.csv"
"""Answers of AISimulate 0.13 to ``aisimulate_questions.csv``; ``make validate`` asks them anew."""
GROUP = "output tokens/s"
TARGET = 0.10
"""Median error that is promised, and the largest bias of a degree of tensor parallelism."""
MOST_REQUESTS = 4096
"""Requests that TensorRT-LLM's benchmark runs at a time at most (bench/build/tuning.py)."""
_FORMATS = {
    "fp16": ("bf16", "bf16", "bf16"),
    "fp8": ("fp8", "fp8", "fp8"),
    "fp4": ("nvfp4", "nvfp4", "fp8"),
}
"""Formats of weights, activations and KV cache of TensorRT-LLM's checkpoints."""
PYTORCH_ENGINES = ("TensorRT-LLM 1.0", "TensorRT-LLM after 1.0")
"""Engines whose record is ``tensorrt-llm``; its constants are fitted to their rows."""
_DEGREES = {
    "tensor_parallel": "--tp",
    "pipeline_parallel": "--pp",
    "expert_parallel": "--ep",
    "replicas": "--dp",
}
_NEEDED = (
    "engine", "model", "device", "format", *_DEGREES, "prompt_tokens", "generated_tokens",
    "requests", "tokens_per_s", "left_out", "source",
)  # fmt: skip


@frozen
class SaturatedCase:
    """Requests that were all queued at once.

    Attributes:
        model: Name or file of the language model.
        degrees: By the flags of ``codesign size``; groups that share experts serve requests
            of their own.
        requests: How many were queued; None: more than run at a time.
        tokens_per_s: Generated tokens per second of all devices, as published.
    """

    engine: str
    model: str
    device: Device
    formats: tuple[str, str, str]
    degrees: Mapping[str, int]
    prompt: int
    generated: int
    requests: int | None
    tokens_per_s: float
    source: str

    def __str__(self) -> str:
        model = Path(self.model).name.removesuffix(".yaml")
        split = ", ".join(f"{flag[2:].upper()} {n}" for flag, n in self.degrees.items() if n > 1)
        devices = f"{self.device.name}, {split}" if split else self.device.name
        tokens = f"{self.prompt}:{self.generated} tokens"
        return f"{self.engine}, {devices}, {model}, {self.formats[0]}, {tokens}"

    @property
    def record(self) -> str:
        """Name of the engine's record."""
        return "tensorrt-llm" if self.engine in PYTORCH_ENGINES else "graphs"

    @cached_property
    def evaluator(self) -> PlatformEvaluator:
        """The predictor that users get."""
        return self._evaluator("fitted")

    @cached_property
    def design(self) -> JsonObject:
        """The platform, but for its batch."""
        degrees = dict(
            zip(
                ("tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel"),
                self.degrees.values(),
                strict=True,
            )
        )
        return {
            "device": self.device.key,
            **degrees,
            **dict(zip(FORMAT_KEYS, self.formats, strict=True)),
        }

    @cached_property
    def batch(self) -> int:
        """Requests that run at a time: what memory holds, as far as so many are queued.

        Raises:
            InputError: Memory does not hold one request of each group.
        """
        most = self.evaluator.most_requests(self.design)
        if not most:
            raise InputError(f"no request fits {self.device.name}")
        replicas = self.degrees["--dp"]
        queued = min(most, self.requests or most, MOST_REQUESTS * replicas)
        return max(queued // replicas, 1) * replicas

    @property
    def kind(self) -> str:
        """Whether the model has experts."""
        return "mixtures" if load_model(self.model).is_mixture else "dense"

    def predict(self, profile: str = "fitted") -> float:
        """Generated tokens per second, with prompts in between."""
        evaluator = self.evaluator if profile == "fitted" else self._evaluator(profile)
        serving = evaluator.serving(design_columns({**self.design, "batch_size": self.batch}))
        return float(serving.output_tokens_per_s[0])

    def command(self) -> str:
        """The command line that prints the prediction as its steady throughput."""
        weights, _, cache = self.formats
        words = ["codesign size", relative_path(self.model)]
        device = DATA / "devices" / f"{self.device.key}.yaml"
        words.append(f"--on {relative_path(str(device)) if device.is_file() else self.device.key}")
        words += [f"{flag} {degree}" for flag, degree in self.degrees.items() if degree > 1]
        words += [f"--batch {self.batch}", f"--prompt-tokens {self.prompt}"]
        words += [f"--generated-tokens {self.generated}", f"--format {weights}"]
        words += [f"--option engine={self.record}"] * (self.record != "graphs")
        words.append("--option usable_memory=1")
        return " ".join([*words, f"--kv-format {cache}"])

    def _evaluator(self, profile: str) -> PlatformEvaluator:
        request = PlatformRequest(
            model=self.model, prompt_tokens=self.prompt, generated_tokens=self.generated
        )
        options = PlatformOptions.model_validate(
            {"profile": profile, **(GENZ if profile == "genz" else {"engine": self.record})}
        )
        return PlatformEvaluator(request, options, devices={self.device.key: self.device})


def run() -> Study:
    """Compare every row of the shipped table."""
    return compare(THROUGHPUT_FILE)


def compare(path: Path | str) -> Study:
    """A table of throughputs at saturation beside our predictions.

    Args:
        path: A table with the columns of ``throughput.csv``.

    Raises:
        InputError: The table cannot be read, or has no row that can be predicted.
    """
    rows: JsonRows = []
    reasons: Counter[str] = Counter()
    answers = read_rows(PEER_FILE)[0] if path == THROUGHPUT_FILE else []
    peers = {row["id"]: row["tokens_per_s"] for row in answers}
    for row in read_rows(path, _NEEDED)[0]:
        try:
            rows.append(_compared(read_case(row), float(peers.get(row.get("id", "")) or "nan")))
        except (LeftOutError, CodesignError) as error:
            reasons[str(error)] += 1
    left_out = [f"{n:,} rows left out: {reason}." for reason, n in reasons.items()]
    if not rows:
        raise InputError(left_out or "no rows", str(path))
    return Study(
        name="throughput",
        question="How far is predicted throughput at saturation from what others published?",
        rows=rows,
        summary=list(_summary(rows)),
        targets=_targets(rows),
        notes=(*left_out, *_NOTES),
    )


def read_case(row: Row) -> SaturatedCase:
    """A row of a table.

    Raises:
        LeftOutError: The row says why it is left out, or does not state a number.
        CodesignError: A model, device or format that is not known.
    """
    if row["left_out"]:
        raise LeftOutError(row["left_out"])
    if row["format"] not in _FORMATS:
        raise LeftOutError(f"format {row['format']!r} is not one of {', '.join(_FORMATS)}")
    own_file = DATA / "devices" / f"{row['device']}.yaml"
    return SaturatedCase(
        engine=row["engine"],
        model=find_model(row["model"]),
        device=load_device(str(own_file) if own_file.is_file() else row["device"]),
        formats=_FORMATS[row["format"]],
        degrees={flag: int(number_of(row, name)) for name, flag in _DEGREES.items()},
        prompt=int(number_of(row, "prompt_tokens")),
        generated=int(number_of(row, "generated_tokens")),
        requests=int(number_of(row, "requests", 0.0)) or None,
        tokens_per_s=number_of(row, "tokens_per_s"),
        source=row["source"],
    )


def _compared(case: SaturatedCase, aisimulate: float) -> JsonObject:
    ours, bound = case.predict(), case.predict("ideal")
    return comparison(
        {
            "what": str(case),
            "group": f"{GROUP}, {case.kind}",
            "engine": case.record,
            "release": case.engine,
            "kind": case.kind,
            "device": case.device.key,
            "model": f"{case.device.key} {case.record} {Path(case.model).stem}",
            "vendor": case.device.vendor,
            "split": ", ".join(f"{flag[2:].upper()} {n}" for flag, n in case.degrees.items()),
        },
        case.tokens_per_s,
        ours,
        roofline=bound,
        genz_error=case.predict("genz") / case.tokens_per_s - 1.0,
        aisimulate_error=aisimulate / case.tokens_per_s - 1.0 if aisimulate > 0 else None,
        command=case.command(),
        source=case.source,
    )


Rows = FieldRows


def _dense(rows: Rows) -> Rows:
    return [row for row in rows if row["kind"] == "dense"]


def _parallel_label(row: Fields) -> str:
    return str(row["split"]).partition(",")[0]


def _summary(rows: Rows) -> JsonRows:
    shared = [row for row in rows if row["aisimulate_error"] is not None]
    kinds: list[tuple[Rows, Callable[[Fields], str]]] = [
        (shared, lambda row: "rows of all three"),
        (shared, lambda row: f"rows of all three, {row['kind']}, {row['release']}"),
        (rows, lambda row: "all"),
        (rows, lambda row: f"{row['kind']}, {row['release']}"),
        (_dense(rows), lambda row: f"dense, {_parallel_label(row)}"),
        (rows, lambda row: f"{row['kind']}, {row['release']}, {row['device']}"),
    ]
    summary = []
    for selected_rows, name_of in kinds:
        for name in dict.fromkeys(map(name_of, selected_rows)):
            members = [row for row in selected_rows if name_of(row) == name]
            line = summarize(name, errors_of(members))
            bounds = np.array([row["roofline"] / row["reference"] - 1.0 for row in members])
            line["roofline_absolute_error"] = float(np.median(np.abs(bounds)))
            for peer in ("genz", "aisimulate") if selected_rows is shared else ():
                errors = np.abs([row[f"{peer}_error"] for row in members])
                line[f"{peer}_absolute_error"] = float(np.median(errors))
            summary.append(line)
    return summary


def _targets(rows: Rows) -> JsonRows:
    targets = [
        median_promise(name, TARGET, errors_of([row for row in rows if row["kind"] == name]))
        for name in dict.fromkeys(row["kind"] for row in rows)
    ]
    for degree in sorted({_parallel_label(row) for row in _dense(rows)}):
        errors = errors_of([row for row in _dense(rows) if _parallel_label(row) == degree])
        bias = float(np.median(errors))
        subject = f"median bias, dense, {degree}"
        targets.append(promise(subject, f"within {TARGET:.0%}", bias, abs(bias) <= TARGET))
    return targets


_NOTES = (
    "Rows of all three are every fifth of TensorRT-LLM's on devices and models that NVIDIA's "
    "AISimulate 0.13 (PyPI, Apache-2.0) has; GenZ is profile genz with the shares of study "
    "requests. AISimulate is asked at our batch, with 8,192 tokens of prompts in a pass; of 139 "
    "rows 12 have no answer, 11 of them because it does not fit the model there. It looks kernels "
    "up in the table that our laws are fitted to, so that kernels by themselves are no comparison. "
    "From 1.0 on, our engine's constants have seen the rows: only those of 0.17 are predictions.",
    "A prediction is the steady throughput of codesign size with --batch: as many requests as "
    "memory holds to their last tokens, if so many were queued, at most 4,096 of a replica, which "
    "is TensorRT-LLM's own bound. Each row has its command. The roofline is profile ideal at the "
    "same batch, which no published number beats.",
    "Memory is the printed capacity less the weights. Drivers report 7 % more, of which an engine "
    "takes 90 to 95 % of what weights and activations leave: about the same, so the commands state "
    "usable_memory=1. The default of codesign size, 0.9, lowers rates of dense "
    "models by 2 to 4 % and refuses 7 of the rows. A request runs only where its whole answer has "
    "room, as TensorRT-LLM does by default.",
    "TensorRT-LLM 0.17 runs compiled engines; from 1.0 on its tables are of its PyTorch engine, at "
    "default options. Requests per row, lengths, KV cache in 8 bits beside 8-bit and 4-bit weights "
    "are read in the same overviews. Tokens per second after 1.0 are printed for one device and "
    "multiplied by the devices here.",
    "TensorRT-LLM from 1.0 is the engine tensorrt-llm: its times of a request and of experts are "
    "fitted to these rows on Hopper and Blackwell (fit_engine), and their error is not one of "
    "predictions. Those of mixtures by a fit without their model are 9 % off in the median, of "
    "Qwen3-235B too; without such constants they are 39 % too fast. A GB200, whose host is slower, "
    "prints up to 39 % less than a B200 with many requests at a time. Llama 3.1 8B, with thousands "
    "at a time, is 15 to 26 % too slow. Experts of RTX PRO have their laws alone: 17 % too slow on "
    "one, 28 % too fast on eight.",
    "Dense models with longer answers than prompts are 19 % too fast on B200 and 12 % on GB200 "
    "with the PyTorch engine, and within 2 % with longer prompts. MLPerf's B200 is 13 % too slow, "
    "of which the power limit makes 5: its tokens take 4.1 PFLOP/s of products. In loops of a "
    "second at 985 W the measured ones in 4 bits reach 3.3 to 4.2; the prediction is 4.0. A GB200 "
    "prints up to 18 % more than a B200, where their memories differ by 4 %.",
    "The 70B in 8 bits leaves 7 of the 80 GB of one H100, which is 13 to 27 % too slow at so few "
    "requests. TensorRT-LLM's rule, 0.9 of what weights and activations leave of 80 GiB, would "
    "give it 6 %, but make two A100s up to 29 % too fast. Prompts of 20,000 tokens of 7B and 8B "
    "are 20 % too slow. Answers of 2,000 tokens and more on four and eight H100s are up to 34 % "
    "too fast, of which the last turn of requests makes 1 to 7.",
    "Prompts of Llama 3.1 405B on eight H100 and H200 are 6 to 14 % too slow. No all-reduce beyond "
    "17 MB is among the kernels measured on eight of them; the law takes 1.5 ms for 268 MB, and "
    "0.6 of that would fit.",
    "Pipelines of eight RTX PRO 6000 are 26 % too fast in the median, of four 16 %: eight "
    "micro-batches are in step here, and nothing else is on their links.",
    "MLPerf's requests of Llama-2-70B have different lengths: all have the mean here, 294 tokens "
    "of a prompt of its data set, and tokens per second over samples per second generated.",
)
