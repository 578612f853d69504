"""Predictions for hardware that others measured: one product, or a request to a language model.

A request is lowered to operators as for the NPU (:mod:`codesign.workload`), and each operator
becomes kernels of :mod:`codesign.hardware.kernels`. Tensor parallelism splits heads and the
columns of the first, the rows of the second matrix of a block, with two all-reduces per layer
[Megatron]_; pipeline parallelism gives each device a part of the layers.

.. [Megatron] Shoeybi et al., "Megatron-LM: training multi-billion parameter language models
   using model parallelism" (2019), §3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from codesign.columns import FloatArray
from codesign.errors import InputError, UnknownNameError
from codesign.hardware.device import Device, load_device
from codesign.hardware.kernels import (
    Efficiency,
    Kernel,
    Kernels,
    Launch,
    collective,
    efficiency_of,
    gemm,
    join,
    kernel_times_s,
    on_device,
    repeated,
)
from codesign.workload import LanguageModel, OperatorTable, load_model, lower
from codesign.workload.model import kv_elements_per_token, weight_elements

Framework: TypeAlias = Literal["serving", "turbomind", "eager"]
FRAMEWORKS: dict[Framework, str] = {
    "serving": "fused attention, paged KV cache, kernels queued ahead",
    "turbomind": "as serving, but the last token of the prompt goes through a decode step, which "
    "gives the first token (LMDeploy 0.1)",
    "eager": "no fused attention; the KV cache is concatenated anew at every step, which reads it "
    "twice and writes it once (Hugging Face transformers)",
}
"""How a request is run, as far as it changes which kernels there are; nothing here is fitted."""

MEMORY_FRACTION = 0.9
"""Part of the memory that serving frameworks take for weights and KV cache (vLLM's default)."""

_MODELS = Path(__file__).parent / "data" / "models"
_SECOND = re.compile(r"(output|down)_projection$|^value_absorption$")
_REPLICATED = {"router", "latent_projection"}
_UNSPLIT = {"norm", "residual", "embedding", "latent_norm", "qk_norm"}
_STREAMS = {"residual", "embedding"}
_SAME_SHAPE = {
    "llama-3.1-8b": "llama-3-8b",
    "llama-3-70b": "llama-3.3-70b",
    "llama-3.1-70b": "llama-3.3-70b",
    "gpt-3": "gpt-3-175b",
}
_GROUP_SIZE = 128  # weights that share a scale and a zero point in 4-bit formats (LIFE §4)


@dataclass(frozen=True)
class Precision:
    """Bits of an element of weights, activations and KV cache, and the format of products."""

    weight_bits: float
    activation_bits: float
    kv_bits: float
    compute: str


_FORMATS = {
    "fp32": Precision(32, 32, 32, "fp32"),
    "fp16": Precision(16, 16, 16, "fp16"),
    "bf16": Precision(16, 16, 16, "bf16"),
    "fp8": Precision(8, 16, 8, "fp8"),
    "int8": Precision(8, 16, 16, "int8"),
}
_ALSO = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "w16a16": "fp16", "w8a8": "int8"}


def parse_precision(text: str) -> Precision:
    """The precision that a table of measurements names, such as ``fp16`` or ``w4 bf16``.

    A leading ``w4`` or ``w8`` is weights only: they are widened before they multiply.

    Raises:
        UnknownNameError: None of those known.
    """
    words = text.lower().replace("_", " ").split()
    name = _ALSO.get(words[-1], words[-1]) if words else ""
    if name not in _FORMATS or len(words) > 2 or (len(words) == 2 and words[0] not in ("w4", "w8")):
        raise UnknownNameError("precision", text, [*_FORMATS, *_ALSO, "w4 fp16", "w8 bf16"])
    precision = _FORMATS[name]
    if len(words) == 1:
        return precision
    bits = float(words[0][1:])
    if bits == 4:  # scale of 16 bits, zero point of 4, per group
        bits += 20 / _GROUP_SIZE
    return Precision(bits, precision.activation_bits, precision.kv_bits, precision.compute)


def find_model(name: str) -> LanguageModel:
    """A language model by the name that a table of measurements gives it, or by its file.

    Who published it and how it was tuned do not count, since they change no shape.

    Raises:
        UnknownNameError: No such model; the nearest is offered.
    """
    if name.endswith((".json", ".yaml", ".yml")):
        return load_model(name)
    folded = re.sub(r"[\s_]+", "-", name.strip().lower().rpartition("/")[2])
    folded = re.sub(r"-(hf|chat|instruct|base|v\d+(\.\d+)?)(?=-|$)", "", folded)
    folded = re.sub(r"^(llama|qwen)(\d)", r"\1-\2", folded.removeprefix("meta-"))
    folded = _SAME_SHAPE.get(folded, folded)
    own = _MODELS / f"{folded}.yaml"
    return load_model(str(own) if own.is_file() else folded)


@dataclass(frozen=True)
class RequestCase:
    """A batch of equal requests on a device or several.

    Attributes:
        device: One of them.
        model: The language model.
        precision: As :func:`parse_precision` reads it.
        batch: Requests at a time.
        prompt: Tokens of each prompt.
        output: Tokens generated for each.
        tensor_parallel: Devices that share every layer.
        pipeline_parallel: Devices, or groups of them, that share the layers out.
        framework: What runs it.
    """

    device: Device
    model: LanguageModel
    precision: Precision
    batch: int
    prompt: int
    output: int
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    framework: Framework = "serving"

    def __post_init__(self) -> None:
        counts = ("batch", "prompt", "output", "tensor_parallel", "pipeline_parallel")
        wrong = [name for name in counts if getattr(self, name) < 1]
        if wrong:
            raise InputError(f"expected at least 1 for {', '.join(wrong)}, got less")
        if self.framework not in FRAMEWORKS:
            raise UnknownNameError("framework", self.framework, FRAMEWORKS)
        if self.n_devices > 1 and self.device.link_bandwidth is None:
            raise InputError(f"{self.device.name}: no links are stated, got {self.n_devices}")

    @property
    def n_devices(self) -> int:
        """Devices that hold the model."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def running(self) -> int:
        """Requests of the batch whose KV cache fits, half generated on average; at least 1."""
        memory = MEMORY_FRACTION * self.device.capacity * self.n_devices
        weights = weight_elements(self.model) * self.precision.weight_bits / 8
        per_token = kv_elements_per_token(self.model) * self.precision.kv_bits / 8
        fitting = (memory - weights) / (per_token * (self.prompt + self.output / 2))
        return int(min(self.batch, max(1, np.floor(fitting))))


@dataclass(frozen=True)
class RequestTimes:
    """What a client sees.

    Attributes:
        time_to_first_token_s: From the request to its first token, all prompts at once.
        time_per_output_token_s: Between two tokens of one request.
        output_tokens_per_s: Of all requests together, until the last has ended.
        running: Requests that run at a time; fewer than the batch if the KV cache is full.
    """

    time_to_first_token_s: float
    time_per_output_token_s: float
    output_tokens_per_s: float
    running: int


def predict_gemm_s(
    device: str | Device,
    m: int,
    n: int,
    k: int,
    precision: str = "fp16",
    *,
    launch: Launch = "device",
    efficiency: Efficiency | None = None,
) -> float:
    """Seconds of a product of (m, k) by (k, n).

    Args:
        device: Its name (:func:`codesign.hardware.device.list_devices`) or the device.
        m: Rows.
        n: Columns.
        k: Inner size.
        precision: As :func:`parse_precision` reads it.
        launch: ``device``: timed on the device; ``host-matrix``: started and waited for.
        efficiency: Instead of the shipped ones.
    """
    loaded_device = load_device(device) if isinstance(device, str) else device
    formats = parse_precision(precision)
    bits = (formats.weight_bits, formats.activation_bits)
    kernels = on_device(loaded_device, formats.compute, [gemm(m, n, k, bits, launch=launch)])
    return float(kernel_times_s(kernels, efficiency or efficiency_of(loaded_device))[0])


def predict_request(
    device: str | Device,
    model: str | LanguageModel,
    precision: str = "fp16",
    batch: int = 1,
    prompt: int = 1,
    output: int = 128,
    *,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    framework: Framework = "serving",
    efficiency: Efficiency | None = None,
) -> RequestTimes:
    """Time to first token, time per output token and throughput of a batch of equal requests.

    Limiting assumption: all requests arrive together, and nothing but kernels takes time.

    Args:
        device: Its name or the device.
        model: Its name (:func:`find_model`), the path of its file, or the model.
        precision: As :func:`parse_precision` reads it.
        batch: Requests at a time.
        prompt: Tokens of each prompt.
        output: Tokens generated for each.
        tensor_parallel: Devices that share every layer.
        pipeline_parallel: Devices, or groups of them, that share the layers out.
        framework: See ``FRAMEWORKS``.
        efficiency: Instead of the shipped ones.

    Raises:
        UnknownNameError: An unknown device, model, precision or framework.
        InputError: A count below 1, or several devices without links.
    """
    case = RequestCase(
        device=load_device(device) if isinstance(device, str) else device,
        model=find_model(model) if isinstance(model, str) else model,
        precision=parse_precision(precision),
        batch=batch,
        prompt=prompt,
        output=output,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        framework=framework,
    )
    used = efficiency or efficiency_of(case.device)
    first = total_s(first_token_kernels(case), used)
    step = total_s(step_kernels(case), used)
    request_s = total_s(whole_kernels(case), used)
    return RequestTimes(first, step, batch * output / request_s, case.running)


def total_s(kernels: Kernels, efficiency: Efficiency) -> float:
    """Seconds of all kernels, as often as each runs, one after the other."""
    return float(np.sum(kernels.count * kernel_times_s(kernels, efficiency)))


def first_token_kernels(case: RequestCase) -> Kernels:
    """The kernels from the prompts of the whole batch to the first tokens."""
    if case.framework != "turbomind":
        return _prefill_kernels(case, case.prompt)
    step = repeated(step_kernels(case), case.batch / case.running)
    return join([_prefill_kernels(case, case.prompt - 1), step]) if case.prompt > 1 else step


def whole_kernels(case: RequestCase) -> Kernels:
    """The kernels from the prompts of the whole batch to the end of the last request."""
    steps = max(case.output - 1, 0) * case.batch / case.running
    return join([first_token_kernels(case), repeated(step_kernels(case), steps)])


def _prefill_kernels(case: RequestCase, tokens: int) -> Kernels:
    table = lower(case.model, "prefill", tokens, case.output)
    return _kernels(case, table, case.batch, tokens)


def step_kernels(case: RequestCase) -> Kernels:
    """The kernels of the mean decode step, of the requests that fit the memory."""
    table = lower(case.model, "decode", case.prompt, case.output)
    return _kernels(case, table, case.running, 1)


def _kernels(case: RequestCase, table: OperatorTable, batch: int, tokens: int) -> Kernels:
    kernels: list[Kernel] = []
    for position, kind in enumerate(table.kinds):
        operator = _Operator(case, table, position, batch)
        if kind == "gemm":
            kernels.append(operator.product())
        elif kind == "attention_qk":
            kernels += operator.attention()
        elif kind != "attention_pv" and table.names[position] != "softmax":
            kernels.append(operator.elementwise())
    return on_device(case.device, case.precision.compute, kernels + _messages(case, batch * tokens))


def _messages(case: RequestCase, tokens: int) -> list[Kernel]:
    """Two all-reduces per layer, and a message between neighbors of the pipeline."""
    size = tokens * case.model.hidden_size * case.precision.activation_bits / 8
    messages = []
    if case.tensor_parallel > 1:
        count = 2.0 * case.model.num_hidden_layers
        messages.append(collective("all_reduce", size, case.tensor_parallel, count=count))
    if case.pipeline_parallel > 1:
        messages.append(collective("send", size, 2, count=float(case.pipeline_parallel - 1)))
    return messages


@dataclass(frozen=True)
class _Operator:
    """One operator of a table, on the devices of a case."""

    case: RequestCase
    table: OperatorTable
    position: int
    batch: int

    def _value(self, column: FloatArray) -> float:
        return float(np.asarray(column)[self.position])

    @property
    def name(self) -> str:
        return self.table.names[self.position]

    @property
    def count(self) -> float:
        return self._value(self.table.count)

    @property
    def share(self) -> int:
        """Devices among which the operator is divided."""
        is_whole = self.name in _UNSPLIT or self.name in _REPLICATED
        return 1 if is_whole else self.case.tensor_parallel

    def product(self) -> Kernel:
        batch, is_second = np.array(self.batch), bool(_SECOND.search(self.name))
        k, n = self._value(self.table.k), self._value(self.table.n)
        bits = (self.case.precision.weight_bits, self.case.precision.activation_bits)
        return gemm(
            self._value(self.table.rows_per_product(batch)),
            n if is_second else n / self.share,
            k / self.share if is_second else k,
            bits,
            count=self.count,
            products=self._value(self.table.n_products(batch)),
        )

    def attention(self) -> list[Kernel]:
        """Queries, keys and values of one layer; scores stay on the chip if it is fused."""
        table, position, precision = self.table, self.position, self.case.precision
        values = position + 1 + table.kinds[position + 1 :].index("attention_pv")
        cached = float(
            table.kv_read_elements_per_request[position]
            + table.kv_read_elements_per_request[values]
        )
        moved = sum(
            float(column[i])
            for i in (position, values)
            for column in (table.input_elements_per_request, table.output_elements_per_request)
        )
        is_decode = table.tokens_per_request == 1
        copies = 3.0 if self.case.framework == "eager" and is_decode else 1.0
        share = self.batch / self.share / 8
        kv, others = cached * copies * precision.kv_bits, moved * precision.activation_bits
        kernel = Kernel(
            "attention",
            count=self.count,
            products=self._value(table.products_per_request) * self.batch / self.share,
            m=self._value(table.m_per_request),
            n=self._value(table.n),
            k=(float(table.k[position]) + float(table.n[values])) / 2,
            traffic_bytes=(kv + others) * share,
        )
        return [kernel] + ([self._scores(position)] if self.case.framework == "eager" else [])

    def _scores(self, position: int) -> Kernel:
        """Masked scores, written and read by the two products and by the softmax, in full."""
        written = 2 * float(self.table.score_written_elements_per_request[position])
        bits = self.case.precision.activation_bits
        size = 4 * written * bits / 8 * self.batch / self.share
        return Kernel("rowwise", "device-vector", count=self.count, traffic_bytes=size)

    def elementwise(self) -> Kernel:
        table, precision = self.table, self.case.precision
        activations = self._value(table.input_elements_per_request)
        activations += self._value(table.output_elements_per_request)
        activations += self._value(table.kv_written_elements_per_request)
        looked_up = self._value(table.lookup_elements_per_request)
        bits = activations * precision.activation_bits + looked_up * precision.weight_bits
        return Kernel(
            "stream" if self.name in _STREAMS else "rowwise",
            "device-vector",
            count=self.count,
            traffic_bytes=bits / 8 * self.batch / self.share,
        )
