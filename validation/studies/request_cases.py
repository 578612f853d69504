"""Requests that others measured, row by row: what ran where, and what came out.

Three tables have them: ``measured_calibration.csv`` (LMDeploy's and LIFE's), ``splitwise.csv`` and
``deployments.csv`` (tokens per second of one device in a phase); each row names its source. A row
becomes a :class:`RequestCase`, or a reason why it cannot be predicted: a size that is not stated
has no default.

Sources: InternLM/lmdeploy, static inference of TurboMind 0.1; LIFE (AMD), Tables 6 and 10;
Mutinifni/splitwise-sim @8f99e7d, data/perf_model.csv (MIT), of Patel et al., Splitwise, ISCA 2024;
alibaba/InferSim @f2293da, README (Apache-2.0); deepseek-ai/profile-data @ae7fc07, README; SGLang
Team, Deploying DeepSeek with PD Disaggregation and Large-scale Expert Parallelism on 96 H100 GPUs
(2025).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from codesign.base.columns import StringMap, StringTuple
from codesign.base.errors import CodesignError, InputError, UnknownNameError
from codesign.base.records import frozen
from codesign.models.hardware.device import Device, load_device
from codesign.models.workload import list_models, load_model
from codesign.models.workload.precision import find_format
from validation.studies.measured_rows import read_rows
from validation.studies.study import DATA

Quantity: TypeAlias = Literal[
    "TTFT", "TPOT", "throughput", "prefill tokens/s", "decode tokens/s"
]  # fmt: skip
Engine: TypeAlias = Literal["graphs", "eager", "streams", "sglang"]
"""Engines: CUDA graphs; the host, one by one; streams, where the prompt's last token goes through a
decode step, which gives the first token (LMDeploy 0.1); uneven loads of experts."""

CALIBRATION_FILE = DATA / "measured_calibration.csv"
SPLITWISE_FILE = DATA / "splitwise.csv"
DEPLOYMENTS_FILE = DATA / "deployments.csv"

_MODELS = DATA / "models"
_SAME_SHAPE = {
    "llama-3.1-8b": "llama-3-8b",
    "llama-3-70b": "llama-3.3-70b",
    "llama-3.1-70b": "llama-3.3-70b",
    "gpt-3": "gpt-3-175b",
}
_PRECISIONS = {
    name: tuple(formats.split())
    for name, _, formats in (
        line.partition(": ")
        for line in """\
fp16: bf16 bf16 bf16
bf16: bf16 bf16 bf16
fp8: fp8 fp8 fp8
int8: int8 int8 bf16
w4 bf16: int4 bf16 bf16
w8 bf16: int8 bf16 bf16
w4 fp16: int4 bf16 bf16
w8 fp16: int8 bf16 bf16
fp4: mxfp4 mxfp4 fp8""".splitlines()
    )
}
"""Formats of weights, activations and KV cache by what tables call them."""
_DGX = {"A100 80GB": "A100 SXM 80GB", "H100 80GB": "H100 SXM"}
"""Splitwise measured on DGX machines, whose devices are SXM modules (its section 5)."""
_ALSO = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "w16a16": "fp16", "w8a8": "int8",
         "nvfp4": "fp4"}  # fmt: skip
_TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}

Row: TypeAlias = StringMap


@frozen
class RequestCase:
    """One measured quantity of a batch of equal requests.

    Attributes:
        quantity: Time to the first token of the whole batch, time per output token, generated
            tokens per second from the start of the prefill to the last token, or tokens of a phase
            per second and device.
        value: As measured, in seconds or tokens per second.
        model: Name or file of the language model.
        formats: Number formats of weights, activations and KV cache.
        batch: Requests at a time; of a deployment, those of all devices in one micro-batch.
        prompt: Tokens of each prompt.
        output: Tokens generated for each.
        tensor_parallel: Devices that share every layer.
        pipeline_parallel: Stages of the pipeline.
        engine: What starts the kernels.
        expert_parallel: Groups of devices that share experts and serve requests of their own.
        power_limit: Limit of the devices; None: their boards'.
        overlap: Whether the messages of a micro-batch hide behind the operators of another.
        infersim: What InferSim predicts; None if it does not say.
        settings: What each setting was read in, or assumed from.
    """

    quantity: Quantity
    value: float
    device: Device
    model: str
    formats: StringTuple
    batch: int
    prompt: int
    output: int
    tensor_parallel: int
    pipeline_parallel: int
    engine: Engine
    source: str
    expert_parallel: int = 1
    power_limit: str | None = None
    overlap: bool = False
    infersim: float | None = None
    settings: str = ""

    def __str__(self) -> str:
        model = Path(self.model).name.removesuffix(".yaml")
        experts = f"EP {self.expert_parallel}, " if self.expert_parallel > 1 else ""
        return (
            f"{self.quantity}, {self.device.name}, TP {self.tensor_parallel}, {experts}"
            f"{model}, {self.formats[0]}, batch {self.batch}, "
            f"{self.prompt}:{self.output} tokens"
            f"{f', {self.power_limit}' if self.power_limit else ''}"
        )


@frozen
class LeftOut:
    """A row that cannot be predicted."""

    line: int
    reason: str


class LeftOutError(Exception):
    """The row cannot be predicted; the message says why."""


def read_requests(path: Path | str) -> list[RequestCase | LeftOut]:
    """The measured quantities of a table, and the rows that are left out.

    Args:
        path: A table with the columns of ``measured_calibration.csv``, of ``splitwise.csv`` or of
            ``deployments.csv``.

    Raises:
        InputError: The file cannot be read or has the columns of no such table.
    """
    rows, names = read_rows(path)
    for needed, read in _TABLES:
        if needed <= set(names):
            entries: list[RequestCase | LeftOut] = []
            for line, row in enumerate(rows, start=2):
                try:
                    entries += read(row)
                except UnknownNameError as error:
                    entries.append(LeftOut(line, f"unknown {error.kind} {error.got!r}"))
                except (LeftOutError, CodesignError) as error:
                    entries.append(LeftOut(line, str(error)))
            return entries
    missing = ", ".join(sorted(_TABLES[0][0] - set(names)))
    raise InputError(f"columns are missing: {missing}", str(path))


def _calibration(row: Row) -> Iterator[RequestCase]:
    """A row of ``measured_calibration.csv``; those of single operators are no requests."""
    if row["kind"] != "e2e":
        return
    metric, unit = row["metric"].lower(), row["unit"]
    value = number_of(row, "value")
    if "ttft" in metric or "first token" in metric:
        quantity: Quantity = "TTFT"
    elif "tpot" in metric or "inter-token" in metric or "per output token" in metric:
        quantity = "TPOT"
    elif "throughput" in metric and unit in ("tok/s", "tokens/s"):
        quantity = "throughput"
    else:
        raise LeftOutError(f"metric {row['metric']!r} of whole requests is not modeled")
    if quantity != "throughput":
        if unit not in _TIME_UNITS:
            raise LeftOutError(f"unit {unit!r} is not understood")
        value *= _TIME_UNITS[unit]
    parallelism = row.get("parallelism") or ""
    pipeline = _degree(parallelism, "PP") or 1
    tensor = _degree(parallelism, "TP") or max(1, int(number_of(row, "n_devices")) // pipeline)
    yield RequestCase(
        quantity=quantity,
        value=_positive(value),
        device=load_device(row["device"]),
        model=find_model(row["model"]),
        formats=formats_of(row["precision"]),
        batch=int(number_of(row, "batch")),
        prompt=int(number_of(row, "prompt")),
        output=int(number_of(row, "output", None if quantity == "throughput" else 1)),
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        engine=engine_of(f"{row.get('framework') or ''} {row['source']}"),
        source=row["source"],
    )


_CAPPED = "350 W"
"""Half of an H100's limit: Splitwise, section 5.2, of its machines with capped GPUs."""


def _splitwise(row: Row) -> Iterator[RequestCase]:
    """The two times of a row of ``splitwise.csv``."""
    quantities: dict[Quantity, str] = {"TTFT": "prefill_s", "TPOT": "token_s"}
    for quantity, column in quantities.items():
        yield RequestCase(
            quantity=quantity,
            value=_positive(number_of(row, column)),
            device=load_device(_DGX.get(row["device"], row["device"])),
            model=find_model(row["model"]),
            formats=formats_of("fp16"),
            batch=int(number_of(row, "batch")),
            prompt=int(number_of(row, "prompt_tokens")),
            output=int(number_of(row, "output_tokens")),
            tensor_parallel=int(number_of(row, "tp")),
            pipeline_parallel=1,
            engine="eager",
            source=row["source"],
            power_limit=_CAPPED if row["power_capped"] != "0" else None,
        )


def _deployment(row: Row) -> Iterator[RequestCase]:
    """A row of ``deployments.csv``: tokens per second of one device in one phase."""
    if row["left_out"]:
        raise LeftOutError(row["left_out"])
    phases: dict[str, Quantity] = {"prefill": "prefill tokens/s", "decode": "decode tokens/s"}
    if row["phase"] not in phases:
        raise LeftOutError(f"phase {row['phase']!r} is not modeled")
    tensor, expert = (
        int(number_of(row, "tensor_parallel")),
        int(number_of(row, "expert_parallel")),
    )
    batch = number_of(row, "batch_per_device") * tensor * expert / number_of(row, "micro_batches")
    if batch != int(batch):
        raise LeftOutError(f"{batch:g} requests of a micro-batch are no whole number")
    words = (row["weight_format"], row["activation_format"], row["kv_format"])
    for word in words:
        find_format(word)
    yield RequestCase(
        quantity=phases[row["phase"]],
        value=_positive(number_of(row, "tokens_per_s_per_device")),
        device=load_device(row["device"]),
        model=find_model(row["model"]),
        formats=words,
        batch=int(batch),
        prompt=int(number_of(row, "prompt_tokens")),
        output=int(number_of(row, "generated_tokens")),
        tensor_parallel=tensor,
        pipeline_parallel=1,
        engine=engine_of(row["source"]),
        source=row["source"],
        expert_parallel=expert,
        overlap=row["overlap"] == "yes",
        infersim=number_of(row, "infersim_tokens_per_s_per_device", 0.0) or None,
        settings=row["settings"],
    )


_TABLES: tuple[tuple[set[str], Callable[[Row], Iterator[RequestCase]]], ...] = (
    ({"kind", "device", "model", "precision", "metric", "value", "unit", "source"}, _calibration),
    ({"device", "model", "tp", "batch", "prompt_tokens", "prefill_s", "token_s"}, _splitwise),
    ({"phase", "expert_parallel", "batch_per_device", "tokens_per_s_per_device"}, _deployment),
)


def number_of(row: Row, key: str, absent: float | None = None) -> float:
    """A number of a row of text; ``absent``, if it is passed, where none is stated.

    Raises:
        LeftOutError: No number is stated.
    """
    text = (row.get(key) or "").strip()
    if not text and absent is not None:
        return absent
    if not text:
        raise LeftOutError(f"{key} is not stated")
    try:
        return float(text)
    except ValueError:
        raise LeftOutError(f"{key}: expected a number, got {text!r}") from None


def _positive(value: float) -> float:
    if not value > 0:
        raise LeftOutError(f"expected a value above 0, got {value:g}")
    return value


def _degree(text: str, parallelism: str) -> int:
    match = re.search(rf"{parallelism}\s*=?\s*(\d+)", text, re.IGNORECASE)
    return int(match[1]) if match else 0


def engine_of(text: str) -> Engine:
    """Starter of the kernels, from the name of a framework or of a source."""
    folded = text.lower()
    if "turbomind" in folded and "0.1" in folded:
        return "streams"
    if "transformers" in folded or "life paper" in folded or "splitwise" in folded:
        return "eager"
    # Requests load experts unevenly, unless they are drawn evenly.
    return "sglang" if "sglang team" in folded and "even load" not in folded else "graphs"


def formats_of(text: str) -> StringTuple:
    """Formats of weights, activations and KV cache of a precision such as ``fp16`` or ``w4 bf16``.

    A leading ``w4`` or ``w8`` is weights only: they are widened before they multiply.

    Raises:
        UnknownNameError: None of those known.
    """
    words = text.lower().replace("_", " ").split()
    if words:
        words[-1] = _ALSO.get(words[-1], words[-1])
    name = " ".join(words)
    if name not in _PRECISIONS:
        raise UnknownNameError("precision", text, [*_PRECISIONS, *_ALSO])
    return _PRECISIONS[name]


table_model = cache(load_model)
"""The language model of a row; its file is read once."""


@cache
def find_model(name: str) -> str:
    """A bundled language model, or the file of one, by the name that a table gives it.

    Who published it and how it was tuned do not count, since they change no shape.

    Raises:
        UnknownNameError: No such model; the nearest is offered.
    """
    if name.endswith((".json", ".yaml", ".yml")):
        return name
    folded = re.sub(r"[\s_]+", "-", name.strip().lower().rpartition("/")[2])
    own_file = _MODELS / f"{folded}.yaml"
    if folded in list_models() or own_file.is_file():
        return str(own_file) if own_file.is_file() else folded
    folded = re.sub(r"-(hf|chat|instruct|base|\d{4}|v\d+(\.\d+)?)(?=-|$)", "", folded)
    folded = re.sub(r"^(llama|qwen(?!3))(\d)", r"\1-\2", folded.removeprefix("meta-"))
    folded = _SAME_SHAPE.get(folded, folded)
    own_file = _MODELS / f"{folded}.yaml"
    if own_file.is_file():
        return str(own_file)
    load_model(folded)
    return folded
