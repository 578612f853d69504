"""Measured watts: the work and the traffic of a row, and the fit of the constants of energy.

Rows below 0.1 ms have too few samples of power. Of whole modules and of recurrences, work and
traffic are not counted here.

Watts are means of what NVML shows in a loop of a second or less, and NVML shows the mean of the
second before [NVML]_, in which the benchmark still prepared the kernel. Constants are of what the
device draws in the loop; predictions of rows are of what NVML shows.

.. [NVML] NVIDIA, NVML API Reference, nvmlDeviceGetPowerUsage: "On Ampere (except GA100) or newer
   GPUs, the API returns power averaged over 1 sec interval."
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codesign.columns import BoolArray, FloatArray
from codesign.errors import UnknownNameError
from codesign.machines.device.energy import EnergyConstants, kernel_energy_joules
from codesign.machines.device.formats import operand_format
from codesign.studies.validation.kernel_families.family import KernelFamily
from codesign.studies.validation.kernel_families.rows import Reasons, find_reasons
from codesign.studies.validation.kernel_table import KernelTable

SHORTEST_S = 1e-4
START = EnergyConstants.model_validate(
    {"idle": 0.2, "base": 0.45, "limit": 0.985, "byte": "100 pJ"}
    | {"flop_16bit": 1.8, "flop_8bit": 1.08, "flop_4bit": 0.72}
)
"""Where the fit starts: round numbers."""
FREE = ("base", "flop_16bit", "byte")
"""Constants to fit. The others are read off the table: ``limit`` is what large products draw; what
they take for a FLOP in 8 and in 4 bits is 0.6 and 0.4 of that in 16; ``idle`` is the least that any
row draws. Between ``base`` and ``byte`` the rows hardly decide: with 60 pJ, and another base, their
median error is one point larger."""
MOST = {"base": 1.0}
_WINDOW_S = 1.0
"""Of the mean that NVML shows."""
_LOOP_S, _MOST_RUNS, _LEAST_RUNS = 1.0, 3000, 6
"""Length of the timed loop, and the limits of its runs (collector/helper.py of the source)."""
_COPIES = 6
"""Copies of the weights that vLLM's products of 16 and 8 bits take in turns in a run; other kernels
are taken to run once (collector/vllm/collect_gemm.py)."""
_SETUP_S, _SEQUENCE_SETUP_S, _SETUP = 0.07, 0.007, 0.49
"""Seconds in which a kernel is prepared, those of each sequence of an attention, and the watts in
them, in parts of the power limit: fitted together with the free constants to all rows [ours]. What
ran before them is taken to have drawn what the kernel draws."""


@dataclass(frozen=True)
class _Work:
    """FLOP, bytes and the width of the multiplication of rows, (q,) each."""

    flop: FloatArray
    traffic_bytes: FloatArray
    multiply_bits: FloatArray


def left_out(table: KernelTable) -> Reasons:
    """(q,) why the energy of a row is not predicted; empty where it is."""
    operators, work = table.words("operator"), _work(table)
    is_eager = (table.words("framework") == "vLLM") & (operators == "gemm")
    is_eager &= table.words("weight_dtype") == "fp8_block128"
    is_uneven = (table.words("routing") != "balanced") | (table["ep"] > 1)
    more = {
        "no power limit is stated": np.isnan(np.broadcast_to(table.rates.power_watts, len(table))),
        "its power was not measured": np.isnan(table["power_watts"]),
        "the host starts each product, and the device waits": is_eager,
        "how much of its routing runs here is not counted": is_uneven
        & (operators == "moe_experts"),
        "too short to sample its power": ~(table["latency_s"] >= SHORTEST_S),
        "a size or a format is missing": np.isnan(
            work.flop + work.traffic_bytes + work.multiply_bits
        ),
    }
    return find_reasons(table, tuple(_COUNTS), (), more=more)


def has_written_operands(table: KernelTable) -> BoolArray:
    """(q,) whether the benchmark wrote what a kernel reads, not what memory happened to hold.

    It leaves the weights of vLLM's 16-bit products as they are allocated, calls vLLM's attention
    without its write of the cache, and fills no cache of TensorRT-LLM's latent attention
    (collectors of the source). Zeros draw less than numbers.
    """
    operators, frameworks = table.words("operator"), table.words("framework")
    is_product = (operators == "gemm") & (table.words("weight_dtype") == "bf16")
    has_no_values = (is_product | (operators == "attention_prefill")) & (frameworks == "vLLM")
    return np.asarray(~(has_no_values | (operators == "mla_decode")), dtype=np.bool_)


def geometries(table: KernelTable) -> NDArray[np.int64]:
    """(q,) number of each row's operator and geometry: of weights, of heads or of experts."""
    names = ("n", "k", "query_heads", "kv_heads", "head_dim", "experts", "hidden", "expert_hidden")
    columns = [table.words(name) for name in ("operator", *names)]
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)


def measured_joules(table: KernelTable) -> FloatArray:
    """Watts that NVML showed, times the measured seconds of each row, (q,)."""
    return table["power_watts"] * table["latency_s"]


def _no_roofline(table: KernelTable) -> FloatArray:
    return np.full(len(table), np.nan)


def groups(table: KernelTable) -> list[str]:
    """Device, operator and width of the multiplication of each row."""
    names = zip(table.words("device").tolist(), table.words("operator").tolist(), strict=True)
    bits = _work(table).multiply_bits.tolist()
    return [
        f"{device} {operator} {width:g} bits"
        for (device, operator), width in zip(names, bits, strict=True)
    ]


def energy_joules(
    table: KernelTable, seconds: FloatArray
) -> Callable[[EnergyConstants], FloatArray]:
    """Gives what NVML shows, times so many seconds, as a function of constants: (q,) joules."""
    work, rates, share = _work(table), table.rates, _setup_share(table)
    setup_joules = share * _SETUP * np.asarray(rates.power_watts) * seconds

    def read_joules(constants: EnergyConstants) -> FloatArray:
        drawn = kernel_energy_joules(
            seconds, work.flop, work.traffic_bytes, work.multiply_bits, rates, constants
        )
        return np.asarray((1 - share) * drawn + setup_joules)

    return read_joules


def _setup_share(table: KernelTable) -> FloatArray:
    """(q,) share of the time before the loop in the mean of what NVML shows during the loop."""
    is_copied = (table.words("framework") == "vLLM") & (table.words("operator") == "gemm")
    is_copied &= table.words("weight_dtype") != "nvfp4"
    run_s = table["latency_s"] * np.where(is_copied, _COPIES, 1)
    loop_s = np.maximum(np.minimum(_LOOP_S, _MOST_RUNS * run_s), _LEAST_RUNS * run_s)
    setup_s = _SETUP_S + _SEQUENCE_SETUP_S * np.nan_to_num(table["batch"])
    return _mean_overlap(loop_s / _WINDOW_S, setup_s / _WINDOW_S)


def _mean_overlap(loop: FloatArray, setup: FloatArray) -> FloatArray:
    """Mean over a loop of how much of the window before each moment lies in the setup before it.

    At ``x`` after its begin that is ``min(setup, 1 - x)``, all in parts of the window.
    """
    setup = np.minimum(setup, 1.0)
    constant = np.minimum(loop, 1.0 - setup)
    falling = np.minimum(loop, 1.0) - constant
    return np.asarray((setup * (constant + falling) - falling**2 / 2) / loop)


def _law(table: KernelTable) -> Callable[[EnergyConstants], FloatArray]:
    return energy_joules(table, table["latency_s"])


def _gemm(table: KernelTable) -> _Work:
    m, n, k = (table[name] for name in ("m", "n", "k"))
    weights, inputs = _bits(table, "weight_dtype"), _bits(table, "activation_dtype")
    traffic = (n * k * weights + m * k * inputs + 16 * m * n) / 8
    # A quantizing kernel reads the input in 16 bits and writes it in the product's format.
    traffic = traffic + np.where(inputs < 16, m * k * (16 + inputs) / 8, 0.0)
    return _Work(2 * m * n * k, traffic, np.maximum(_width(weights), _width(inputs)))


def _prefill(table: KernelTable) -> _Work:
    batch, heads, kv_heads = (table[name] for name in ("batch", "query_heads", "kv_heads"))
    tokens, key = table["input_tokens"], table["head_dim"]
    value = np.where(np.isnan(table["value_head_dim"]), key, table["value_head_dim"])
    window = np.where(table["window"] > 0, table["window"], np.inf)
    pairs = np.where(tokens > window, window * (tokens - window / 2), tokens**2 / 2)
    is_whole = table.words("operator") == "attention_encoder"
    pairs = np.where(is_whole, tokens**2, pairs)
    traffic = batch * tokens * (heads + kv_heads) * (key + value) * 2
    return _Work(2 * batch * heads * pairs * (key + value), traffic, _softmax_bits(table))


def _decode(table: KernelTable) -> _Work:
    batch, heads, kv_heads = (table[name] for name in ("batch", "query_heads", "kv_heads"))
    window = np.where(table["window"] > 0, table["window"], np.inf)
    keys = np.minimum(table["past_tokens"] + table["input_tokens"], window)
    size = 2 * table["head_dim"]
    traffic = batch * keys * kv_heads * size * _bits(table, "kv_dtype") / 8
    return _Work(2 * batch * heads * keys * size, traffic, _softmax_bits(table))


def _latent_prefill(table: KernelTable) -> _Work:
    batch, heads, tokens = (table[name] for name in ("batch", "query_heads", "input_tokens"))
    traffic = batch * tokens * heads * 2.0 * 2 * (192 + 128)
    return _Work(batch * heads * tokens**2 * (192 + 128), traffic, _softmax_bits(table))


def _latent_decode(table: KernelTable) -> _Work:
    batch, heads = table["batch"], table["query_heads"]
    keys = table["past_tokens"] + table["input_tokens"]
    traffic = batch * keys * 576 * _bits(table, "kv_dtype") / 8
    return _Work(2 * batch * heads * keys * (576 + 512), traffic, _softmax_bits(table))


def _experts(table: KernelTable) -> _Work:
    tokens, experts, top_k = (table[name] for name in ("tokens", "experts", "top_k"))
    weights, inputs = _bits(table, "weight_dtype"), _bits(table, "activation_dtype")
    matrix = table["matrices"] * table["hidden"] * table["expert_hidden"] / table["tp"]
    pairs = tokens * top_k / table["ep"]
    touched = experts / table["ep"] * (1 - (1 - top_k / experts) ** tokens)
    # Every pair reads its input and writes its output, and the layer between both.
    between = table["hidden"] + table["expert_hidden"] / table["tp"]
    traffic = (touched * matrix * weights + pairs * between * (inputs + 16)) / 8
    return _Work(2 * pairs * matrix, traffic, np.maximum(_width(weights), _width(inputs)))


def _quantize(table: KernelTable) -> _Work:
    elements = table["m"] * table["k"]
    return _Work(0 * elements, 3 * elements, np.full(len(table), 8.0))


_COUNTS: dict[str, Callable[[KernelTable], _Work]] = {
    "gemm": _gemm,
    "attention_prefill": _prefill,
    "attention_encoder": _prefill,
    "attention_decode": _decode,
    "mla_prefill": _latent_prefill,
    "mla_decode": _latent_decode,
    "moe_experts": _experts,
    "quantize_bf16_to_fp8": _quantize,
}


def _work(table: KernelTable) -> _Work:
    columns = np.full((3, len(table)), np.nan)
    operators = table.words("operator")
    for operator, count in _COUNTS.items():
        rows = np.flatnonzero(operators == operator)
        if len(rows):
            work = count(table.take(rows))
            columns[:, rows] = work.flop, work.traffic_bytes, work.multiply_bits
    return _Work(*columns)


def _bits(table: KernelTable, column: str) -> FloatArray:
    """Stored bits of a column's formats; NaN where a format is not known."""
    words = table.words(column).tolist()
    known = {name: _bits_or_nan(name) for name in set(words)}
    return np.array([known[name] for name in words])


def _bits_or_nan(name: str) -> float:
    try:
        return operand_format(name).stored_bits
    except UnknownNameError:
        return np.nan


def _width(bits: FloatArray) -> FloatArray:
    return np.where(bits >= 16, 16.0, np.where(bits >= 8, 8.0, np.where(bits >= 4, 4.0, np.nan)))


def _softmax_bits(table: KernelTable) -> FloatArray:
    """Attention counts as 16 bits: its exponentials, not its multipliers, make its power."""
    return np.where(np.isnan(_bits(table, "activation_dtype")), np.nan, 16.0)


FAMILY = KernelFamily(
    file="energy",
    operators=tuple(_COUNTS),
    target=np.nan,
    left_out=left_out,
    law=_law,
    roofline=_no_roofline,
    start=START,
    most=MOST,
    free=FREE,
    groups=groups,
    measured=measured_joules,
)
