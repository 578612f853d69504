"""Published measurements, row by row, as the kernels whose times they add up to.

Every row of the table becomes a :class:`Measurement`: either with kernels, whose weighted sum
of times is to be compared with the measured time, or with the reason why it is left out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codesign.errors import CodesignError, InputError, UnknownNameError
from codesign.hardware.device import Device, load_device
from codesign.hardware.kernels import (
    CollectiveName,
    Kernel,
    Kernels,
    Launch,
    collective,
    gemm,
    on_device,
)
from codesign.studies.validation.prediction import (
    Framework,
    RequestCase,
    find_model,
    first_token_kernels,
    parse_precision,
    step_kernels,
    whole_kernels,
)
from codesign.workload import LanguageModel

MEASURED_FILE = Path(__file__).parent / "data" / "measured_calibration.csv"
"""Measurements that others published; every row names its source."""

_TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_BYTES = 2.0  # every operator row is in 16 bits
_BITS = (16.0, 16.0)

Row = Mapping[str, str]


@dataclass(frozen=True)
class Measurement:
    """One row of a table of measurements.

    Attributes:
        line: Line of the row in its file.
        description: What was measured, for people.
        group: The operator, or for whole requests ``TTFT``, ``TPOT`` or ``throughput``.
        family: The language model, if it belongs to one; rows of one are held out together.
        shape: What one shape has in common; rows of one are held out together.
        source: Who published it.
        value: As published.
        unit: Of ``value``.
        seconds: The time that it says.
        is_rate: Whether ``value`` is work per time, not time.
        device: On which.
        kernels: Whose counted times add up to ``seconds``; None if left out.
        reason: Why it is left out, else empty.
    """

    line: int
    description: str
    group: str
    family: str
    shape: str
    source: str
    value: float
    unit: str
    seconds: float
    is_rate: bool
    device: Device | None
    kernels: Kernels | None
    reason: str = ""

    @property
    def device_class(self) -> str:
        """Class of its device; empty if the device is unknown."""
        return self.device.device_class if self.device else ""

    @property
    def flop(self) -> float:
        """Floating-point operations of its matrix products."""
        if self.kernels is None:
            return 0.0
        kernels = self.kernels
        return float(
            (kernels.count * 2 * kernels.products * kernels.m * kernels.n * kernels.k).sum()
        )


class _LeftOut(Exception):  # noqa: N818 - not an error: a row that says why it cannot be compared
    """The row cannot be compared; the message says why."""


def read_measurements(path: Path | str = MEASURED_FILE) -> list[Measurement]:
    """Every row of a table of measurements, those left out included.

    Raises:
        InputError: The file cannot be read or lacks a column.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot be read as UTF-8 text", str(path)) from error
    reader = csv.DictReader(text.splitlines())
    needed = {"kind", "device", "model", "precision", "metric", "value", "unit", "source"}
    missing = needed - set(reader.fieldnames or ())
    if missing:
        raise InputError(f"columns are missing: {', '.join(sorted(missing))}", str(path))
    return [read_measurement(row, line) for line, row in enumerate(reader, start=2)]


def read_measurement(row: Row, line: int = 0) -> Measurement:
    """One row, as ``csv.DictReader`` gives it."""
    readers: dict[str, Callable[[Row], _Read]] = {
        "e2e": _request,
        "op": _operator,
        "collective": _collective,
    }
    device, read, reason = None, _Read(row["metric"]), ""
    try:
        device = load_device(row["device"])
        if row["kind"] not in readers:
            raise _LeftOut(f"kind {row['kind']!r} is not modeled")
        read = readers[row["kind"]](row)
    except UnknownNameError as error:
        reason = re.sub(r"\.? (Did you mean|Known).*", "", str(error))
    except (_LeftOut, CodesignError) as error:
        reason = str(error)
    kernels = None
    if device is not None and not reason:
        kernels, reason = _placed(device, row, read)
    value = _value(row)
    if not value > 0:
        kernels, reason = None, reason or f"expected a value above 0, got {row['value']!r}"
    seconds = read.amount / value if read.amount else value * _TIME_UNITS.get(row["unit"], 1.0)
    return Measurement(
        line=line,
        description=_describe(row),
        group=read.group,
        family=read.family,
        shape=read.shape,
        source=row["source"],
        value=value,
        unit=row["unit"],
        seconds=seconds,
        is_rate=read.amount > 0,
        device=device,
        kernels=kernels,
        reason=reason,
    )


@dataclass(frozen=True)
class _Read:
    """What a row asks for; ``amount`` over the value is the time, where a rate is given."""

    group: str
    kernels: Sequence[Kernel] | Kernels = ()
    amount: float = 0.0
    family: str = ""
    shape: str = ""


def _value(row: Row) -> float:
    try:
        return float(row["value"])
    except ValueError:
        return float("nan")


def _placed(device: Device, row: Row, read: _Read) -> tuple[Kernels | None, str]:
    if not read.amount and row["unit"] not in _TIME_UNITS:
        return None, f"unit {row['unit']!r} is not understood"
    if isinstance(read.kernels, Kernels):
        return read.kernels, ""
    compute = parse_precision(row["precision"]).compute
    return on_device(device, compute, list(read.kernels)), ""


def _describe(row: Row) -> str:
    keys = (
        *("parallelism", "batch", "prompt", "output", "tokens", "gemm_m", "gemm_n", "gemm_k"),
        *("heads", "kv_heads", "rows", "cols", "message_bytes", "message_size"),
    )
    settings = [f"{key} {row[key].removesuffix('.0')}" for key in keys if row.get(key)]
    return ", ".join([row["device"], row["model"], row["precision"], row["metric"], *settings])


def _number(row: Row, key: str, default: float | None = None) -> float:
    text = (row.get(key) or "").strip()
    if not text and default is None:
        raise _LeftOut(f"{key} is not stated")
    try:
        return float(text) if text else float(default or 0.0)
    except ValueError:
        raise _LeftOut(f"{key}: expected a number, got {text!r}") from None


# Whole requests


def _request(row: Row) -> _Read:
    metric, case = row["metric"].lower(), _case(row)
    shape = f"{case.prompt}/{case.output}/{case.batch}"
    family = case.model.name
    if "ttft" in metric or "first token" in metric:
        return _Read("TTFT", first_token_kernels(case), family=family, shape=shape)
    if "tpot" in metric or "inter-token" in metric or "per output token" in metric:
        return _Read("TPOT", step_kernels(case), family=family, shape=shape)
    if "throughput" in metric and row["unit"] in ("tok/s", "tokens/s"):
        amount = float(case.batch * case.output)
        return _Read("throughput", whole_kernels(case), amount, family, shape)
    raise _LeftOut(f"metric {row['metric']!r} of whole requests is not modeled")


def _case(row: Row) -> RequestCase:
    parallelism, devices = row.get("parallelism") or "", int(_number(row, "n_devices", 1))
    tensor, pipeline = _degree(parallelism, "TP"), _degree(parallelism, "PP") or 1
    return RequestCase(
        device=load_device(row["device"]),
        model=find_model(row["model"]),
        precision=parse_precision(row["precision"]),
        batch=int(_number(row, "batch", 1)),
        prompt=int(_number(row, "prompt")),
        output=int(_number(row, "output", 1)),
        tensor_parallel=tensor or max(1, devices // pipeline),
        pipeline_parallel=pipeline,
        framework=framework_of(f"{row.get('framework') or ''} {row['source']}"),
    )


def _degree(text: str, parallelism: str) -> int:
    match = re.search(rf"{parallelism}\s*=?\s*(\d+)", text, re.IGNORECASE)
    return int(match[1]) if match else 0


def framework_of(text: str) -> Framework:
    """How requests are run, from the name of a framework or of a source."""
    folded = text.lower()
    if "turbomind" in folded and "0.1" in folded:
        return "turbomind"
    if "transformers" in folded or "life paper" in folded:
        return "eager"
    return "serving"


# Single operators


def _operator(row: Row) -> _Read:
    model = row["model"]
    if model == "GEMM":
        return _plain_gemm(row)
    if model.startswith("flash attention"):
        return _flash_attention(row)
    if model in ("softmax", "layernorm"):
        return _normalization(row)
    if model.startswith("GPT-3"):
        return _gpt3_layer(row)
    if row.get("tokens"):
        return _layer_operator(row)
    raise _LeftOut(f"operator {model!r} is not modeled")


def _is_host_timed(row: Row) -> bool:
    """LLMCompass times operators of PyTorch from the host, one at a time (its §III)."""
    return "LLMCompass" in row["source"]


def _plain_gemm(row: Row) -> _Read:
    m, n, k = (_number(row, f"gemm_{size}") for size in "mnk")
    launch = "host-matrix" if _is_host_timed(row) else "device"
    precision = parse_precision(row["precision"])
    bits = (precision.weight_bits, precision.activation_bits)
    return _Read("GEMM", [gemm(m, n, k, bits, launch=launch)], shape=f"{n:g}x{k:g}")


def _flash_attention(row: Row) -> _Read:
    batch, tokens = _number(row, "batch"), _number(row, "prompt")
    heads, kv_heads = _number(row, "heads"), _number(row, "kv_heads")
    width = _number(row, "head_dim")
    shape = f"{heads:g}/{kv_heads:g}/{tokens:g}"
    if "prefill" in row["model"]:
        kernel = Kernel(
            "attention",
            "call",
            products=batch * heads,
            m=tokens,
            n=(tokens + 1) / 2,
            k=width,
            traffic_bytes=_BYTES * batch * tokens * width * 2 * (heads + kv_heads),
        )
        return _Read("attention prefill", [kernel], shape=shape)
    kernel = Kernel(
        "attention",
        "call",
        products=batch * kv_heads,
        m=heads / kv_heads,
        n=tokens + 1,
        k=width,
        traffic_bytes=_BYTES * batch * width * 2 * ((tokens + 1) * kv_heads + heads),
    )
    return _Read("attention decode", [kernel], shape=shape)


def _normalization(row: Row) -> _Read:
    elements, model = _number(row, "rows") * _number(row, "cols"), row["model"]
    launch: Launch = "host-softmax" if model == "softmax" else "host-vector"
    if row["unit"] != "Gelem/s":
        raise _LeftOut(f"unit {row['unit']!r} is not understood")
    kernel = Kernel("rowwise", launch, traffic_bytes=2 * _BYTES * elements)
    shape = f"{row['rows']}x{row['cols']}"
    return _Read("norm and softmax", [kernel], amount=elements / 1e9, shape=shape)


def _layer_operator(row: Row) -> _Read:
    """Operators of one layer of one tensor-parallel rank, as Vidur profiles them."""
    name, _, operator = row["model"].rpartition(" ")
    model, tokens, share = find_model(name), _number(row, "tokens"), _number(row, "tp", 1)
    shape = f"{tokens:g}/{share:g}"
    queries = model.num_attention_heads * model.head_dim
    keys = model.num_key_value_heads * model.head_dim
    products = {
        "attn_pre_proj": ((queries + 2 * keys) / share, model.hidden_size),
        "attn_post_proj": (model.hidden_size, queries / share),
        "mlp_up_proj": (model.n_up_matrices * model.intermediate_size / share, model.hidden_size),
        "mlp_down_proj": (model.hidden_size, model.intermediate_size / share),
    }
    if operator in products:
        return _Read("GEMM", [gemm(tokens, *products[operator], _BITS)], 0.0, model.name, shape)
    moved = {
        "add": 3 * model.hidden_size,
        "input_layernorm": 2 * model.hidden_size,
        "mlp_act": (model.n_up_matrices + 1) * model.intermediate_size / share,
        "attn_rope": 2 * (queries + keys) / share,
    }
    if operator not in moved:
        raise _LeftOut(f"operator {operator!r} is not modeled")
    kernel = Kernel(
        "stream" if operator == "add" else "rowwise",
        "device-vector",
        traffic_bytes=_BYTES * tokens * moved[operator],
    )
    return _Read("elementwise", [kernel], 0.0, model.name, shape)


def _gpt3_layer(row: Row) -> _Read:
    """Operators of one GPT-3 layer under tensor parallelism, as LLMCompass measured them."""
    phase, _, operator = row["metric"].partition(": ")
    share = _degree(row.get("parallelism") or "", "TP") or 1
    model, batch, context = find_model("gpt-3-175b"), _number(row, "batch"), _number(row, "prompt")
    tokens = 1.0 if "decode" in phase else context
    parts = _gpt3_kernels(model, batch, tokens, context, share)
    if operator not in (*parts, "total"):
        raise _LeftOut(f"operator {operator!r} is not modeled")
    kernels = list(parts.values()) if operator == "total" else [parts[operator]]
    groups = {"Q_mul_K": "GEMM", "A_mul_V": "GEMM", "Softmax": "norm and softmax"}
    groups |= dict.fromkeys(("Q_K_V", "Wo_proj", "W1_proj", "W2_proj"), "GEMM")
    groups |= {"LayerNorm_MHA": "norm and softmax", "LayerNorm_FFN": "norm and softmax"}
    groups |= {"GeLU": "elementwise", "total": "layer"}
    return _Read(groups.get(operator, "collective"), kernels, 0.0, model.name, phase)


def _gpt3_kernels(
    model: LanguageModel, batch: float, tokens: float, context: float, share: int
) -> dict[str, Kernel]:
    width, heads = model.head_dim, model.num_attention_heads / share
    hidden, inner = model.hidden_size, model.intermediate_size / share
    rows, products = batch * tokens, batch * heads
    norm = Kernel("rowwise", "host-vector", traffic_bytes=2 * _BYTES * rows * hidden)
    message = collective("all_reduce", _BYTES * rows * hidden, share)

    def product(n: float, k: float, count: float = 1.0) -> Kernel:
        return gemm(rows, n, k, _BITS, launch="host-matrix", count=count)

    def per_head(n: float, k: float) -> Kernel:
        return gemm(tokens, n, k, _BITS, launch="host-matrix", products=products)

    scores, wide = products * tokens * context, rows * inner
    return {
        "LayerNorm_MHA": norm,
        "Q_K_V": product(heads * width, hidden, count=3.0),
        "Q_mul_K": per_head(context, width),
        "Softmax": Kernel("rowwise", "host-softmax", traffic_bytes=2 * _BYTES * scores),
        "A_mul_V": per_head(width, context),
        "Wo_proj": product(hidden, heads * width),
        "AllReduce_MHA": message,
        "LayerNorm_FFN": norm,
        "W1_proj": product(inner, hidden),
        "GeLU": Kernel("stream", "host-vector", traffic_bytes=2 * _BYTES * wide),
        "W2_proj": product(hidden, inner),
        "AllReduce_FFN": message,
    }


# Collectives


def _collective(row: Row) -> _Read:
    ranks, device = int(_number(row, "n_devices")), load_device(row["device"])
    if ranks > device.n_linked:
        raise _LeftOut("the message crosses nodes, and the network between them is not stated")
    if device.link_bandwidth is None:
        raise _LeftOut("no links are stated for the device")
    names: dict[str, CollectiveName] = {
        "all_reduce": "all_reduce",
        "all_gather": "all_gather",
        "reduce_scatter": "reduce_scatter",
        "alltoall": "alltoall",
    }
    name = row["metric"].split()[0]
    if name not in names:
        raise _LeftOut(f"collective {name!r} is not modeled")
    size = _number(row, "message_bytes", 0.0) or _number(row, "message_size")
    shape = f"{ranks}/{size:g}"
    return _Read("collective", [collective(names[name], size, ranks)], shape=shape)
