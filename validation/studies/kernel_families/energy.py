"""Measured watts: the work and the traffic of a row, and what NVML shows of it.

Rows below 0.1 ms have too few samples of power. Of whole modules and of recurrences, work and
traffic are not counted here.

Watts are means of what NVML shows in a loop of a second or less, and NVML shows the mean of the
second before [NVML]_, in which the benchmark still prepared the kernel. Constants are of what an
H100 draws in a longer loop; predictions of rows are of what NVML shows.

.. [NVML] NVIDIA, NVML API Reference, nvmlDeviceGetPowerUsage: "On Ampere (except GA100) or newer
   GPUs, the API returns power averaged over 1 sec interval."
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from codesign.base.columns import BoolArray, FloatArray
from codesign.base.errors import UnknownNameError
from codesign.models.machines.device.attention import (
    attention_traffic_bytes,
    attention_work_flop,
)
from codesign.models.machines.device.energy import (
    KernelWork,
    kernel_energy_joules,
    shipped_energy,
    sustained_time_s,
)
from codesign.models.machines.device.formats import operand_format
from validation.studies.kernel_families import attention, mla
from validation.studies.kernel_families.rows import Reasons, find_reasons
from validation.studies.kernel_table import KernelTable

SHORTEST_S = 1e-4
_WINDOW_S = 1.0
"""Window of the mean that NVML shows."""
_LOOP_S, _MOST_RUNS, _LEAST_RUNS = 1.0, 3000, 6
"""Length of the timed loop, and the limits of its runs (collector/helper.py of the source)."""
_COPIES = 6
"""Copies of the weights that vLLM's products of 16 and 8 bits take in turns in a run; other kernels
are taken to run once (collector/vllm/collect_gemm.py)."""
_SETUP_S, _SEQUENCE_SETUP_S, _SETUP = 0.07, 0.007, 0.49
"""Seconds in which a kernel is prepared, those of each sequence of an attention, and the watts in
them, in parts of the power limit: fitted to all rows [ours]. What
ran before them is taken to have drawn what the kernel draws."""
_UNWRITTEN = 0.35
"""Energy of a byte of memory that nobody wrote, over that of others: fitted likewise [ours]. Zeros
switch no lines."""


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


def measured_joules(table: KernelTable) -> FloatArray:
    """Watts that NVML showed, times the measured seconds of each row, (q,)."""
    return table["power_watts"] * table["latency_s"]


def energy_joules(table: KernelTable, seconds: FloatArray) -> FloatArray:
    """(q,) joules that NVML shows of rows that take so many seconds each."""
    is_copied = (table.words("framework") == "vLLM") & (table.words("operator") == "gemm")
    is_copied &= table.words("weight_dtype") != "nvfp4"
    run_s = table["latency_s"] * np.where(is_copied, _COPIES, 1)
    loop_s = np.maximum(np.minimum(_LOOP_S, _MOST_RUNS * run_s), _LEAST_RUNS * run_s)
    setup_s = _SETUP_S + _SEQUENCE_SETUP_S * np.nan_to_num(table["batch"])
    work, rates, share = (
        _read_work(table),
        table.rates,
        _mean_overlap(loop_s / _WINDOW_S, setup_s / _WINDOW_S),
    )
    setup_joules = share * _SETUP * np.asarray(rates.power_watts) * seconds
    return np.asarray(
        (1 - share) * kernel_energy_joules(seconds, work, rates, shipped_energy()) + setup_joules
    )


def sustained_s(table: KernelTable, seconds: FloatArray) -> FloatArray:
    """(q,) seconds of the rows' long runs, of predicted ones in a burst."""
    return sustained_time_s(seconds, _read_work(table), table.rates, shipped_energy())


def _mean_overlap(loop: FloatArray, setup: FloatArray) -> FloatArray:
    """Mean over a loop of how much of the window before each moment lies in the setup before it.

    At ``x`` after its begin that is ``min(setup, 1 - x)``, all in parts of the window.
    """
    setup = np.minimum(setup, 1.0)
    constant = np.minimum(loop, 1.0 - setup)
    falling = np.minimum(loop, 1.0) - constant
    return np.asarray((setup * (constant + falling) - falling**2 / 2) / loop)


def _gemm(table: KernelTable) -> KernelWork:
    m, n, k = (table[name] for name in ("m", "n", "k"))
    weights, inputs = _bits(table, "weight_dtype"), _bits(table, "activation_dtype")
    traffic = (n * k * weights + m * k * inputs + 16 * m * n) / 8
    # A quantizing kernel reads the input in 16 bits and writes it in the product's format.
    traffic = traffic + np.where(inputs < 16, m * k * (16 + inputs) / 8, 0.0)
    return KernelWork(2 * m * n * k, traffic, np.maximum(_width(weights), _width(inputs)))


def _attention(table: KernelTable) -> KernelWork:
    shape = (mla if table.words("operator")[0].startswith("mla") else attention).shapes(table)
    flop = attention_work_flop(shape)
    return KernelWork(
        flop,
        attention_traffic_bytes(shape),
        np.where(np.isnan(_bits(table, "activation_dtype")), np.nan, 16.0),
        (flop / (2 * np.add(shape.head_dim, shape.value_head_dim))),
    )


def _experts(table: KernelTable) -> KernelWork:
    tokens, experts, top_k = (table[name] for name in ("tokens", "experts", "top_k"))
    weights, inputs = _bits(table, "weight_dtype"), _bits(table, "activation_dtype")
    matrix = table["matrices"] * table["hidden"] * table["expert_hidden"] / table["tp"]
    pairs = tokens * top_k / table["ep"]
    touched = experts / table["ep"] * (1 - (1 - top_k / experts) ** tokens)
    # Every pair reads its input and writes its output, and the layer between both.
    between = table["hidden"] + table["expert_hidden"] / table["tp"]
    traffic = (touched * matrix * weights + pairs * between * (inputs + 16)) / 8
    return KernelWork(2 * pairs * matrix, traffic, np.maximum(_width(weights), _width(inputs)))


def _quantize(table: KernelTable) -> KernelWork:
    elements = table["m"] * table["k"]
    return KernelWork(0 * elements, 3 * elements, np.full(len(table), 8.0))


_COUNTS: dict[str, Callable[[KernelTable], KernelWork]] = {
    "gemm": _gemm,
    **dict.fromkeys((*attention.OPERATORS, *mla.OPERATORS), _attention),
    "moe_experts": _experts,
    "quantize_bf16_to_fp8": _quantize,
}


def _work(table: KernelTable) -> KernelWork:
    columns = np.full((4, len(table)), np.nan)
    operators = table.words("operator")
    for operator, count in _COUNTS.items():
        rows = np.flatnonzero(operators == operator)
        if len(rows):
            work = count(table.take(rows))
            columns[:3, rows] = work.flop, work.traffic_bytes, work.multiply_bits
            columns[3, rows] = work.scores
    return KernelWork(*columns)


def _read_work(table: KernelTable) -> KernelWork:
    """The work of rows; bytes that nobody wrote count by what they take of others' energy."""
    work = _work(table)
    return replace(
        work,
        traffic_bytes=work.traffic_bytes * np.where(has_written_operands(table), 1.0, _UNWRITTEN),
    )


def _bits(table: KernelTable, column: str) -> FloatArray:
    """Stored bits of a column's formats; NaN where a format is not known."""
    words = table.words(column).tolist()
    known_words = {name: _bits_or_nan(name) for name in set(words)}
    return np.array([known_words[name] for name in words])


def _bits_or_nan(name: str) -> float:
    try:
        return operand_format(name).stored_bits
    except UnknownNameError:
        return np.nan


def _width(bits: FloatArray) -> FloatArray:
    return np.where(bits >= 16, 16.0, np.where(bits >= 8, 8.0, np.where(bits >= 4, 4.0, np.nan)))
