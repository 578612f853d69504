"""An H100 that we measured: watts and times of its kernels beside what is predicted of them.

``h100_measured.csv`` has one row for each kernel, shape and state of the device: one H100 SXM,
700 W, driver 580.159, torch 2.11 with CUDA 13.0, on 27 November 2026. Power is a mean of a loop
after 0.8 s. Four of the thirteen rows with joules set constants of energy, none a constant of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from codesign.base.columns import FloatArray, StringList, column_of
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.attention import (
    Attention,
    AttentionConstants,
    attention_case,
    attention_time_s,
    attention_traffic_bytes,
    attention_work_flop,
)
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.corrections import correction
from codesign.models.machines.device.elementwise import (
    ElementwiseConstants,
    stream_time_s,
    vector_start_s,
    vector_time_s,
)
from codesign.models.machines.device.energy import (
    KernelWork,
    kernel_energy_joules,
    shipped_energy,
    sustained_time_s,
)
from codesign.models.machines.device.gemm import GemmConstants, Products, gemm_case, gemm_time_s
from codesign.models.machines.device.rates import DeviceRates, device_rates
from validation.studies.measured_rows import read_rows
from validation.studies.study import DATA

CARD_FILE = DATA / "h100_measured.csv"
DEVICE = "h100-sxm"
ROW_BYTES = {"norm": 4, "add_norm": 8, "silu_mul": 6, "rope": 512, "add": 6}
"""Bytes of kernels that only move data, for an element of their width; a head has 128."""
_ADD_NORM_BYTES = 8.0 * 6000 * 4096


def card_rates() -> DeviceRates:
    """Rates of the device that was measured."""
    return device_rates(lambda number: number(load_device(DEVICE)))


def card_rows(family: str) -> list[dict[str, str]]:
    """Rows of a family of the table."""
    return [row for row in read_rows(CARD_FILE)[0] if row["family"] == family]


def work_of(what: str) -> KernelWork:
    """Work of a kernel, from its name in the table."""
    words = what.split()
    if words[0] == "gemm":
        products = _products(words)
        return KernelWork(
            products.work_flop,
            np.add(products.weight_bytes, products.activation_bytes),
            products.activation_bits,
        )
    if "attention" in words:
        shape = _attention(words)
        flop = attention_work_flop(shape)
        return KernelWork(flop, attention_traffic_bytes(shape), 16.0, flop / 512)
    return KernelWork(0.0, _ADD_NORM_BYTES if words[0] == "add_norm" else 2.0**32, 16.0)


def kernel_errors() -> Iterator[tuple[str, float]]:
    """Kernels by name, and relative errors of their predicted times.

    Five constants of kernels that only move data are of these rows; products saw none of them.
    """
    rates, constants = card_rates(), shipped_energy()
    for row in card_rows("gemm"):
        if row["format"] in ("bf16", "fp8"):
            words = ["gemm", row["format"], *(f"{name}{row[name]}" for name in "mnk")]
            work = work_of(" ".join(words))
            seconds = _predicted_s(words, work, rates)
            if row["device_state"].startswith("hot"):
                seconds = sustained_time_s(seconds, work, rates, constants)
            yield "gemm", float(seconds[0]) / float(row["median_us"]) * 1e6 - 1.0
    stream = load_constants("elementwise", ElementwiseConstants, "gpu")
    for row in card_rows("elementwise"):
        if row["what"] in ROW_BYTES and row["device_state"] == "operands in L2":
            role = "norm" if "norm" in row["what"] else row["what"]
            moved = float(row["tokens"]) * float(row["width"]) * ROW_BYTES[row["what"]]
            row_s = vector_start_s(role) + float(vector_time_s(moved, rates, stream, role))
            yield row["what"], row_s / float(row["median_us"]) * 1e6 - 1.0


def energy_errors() -> Iterator[float]:
    """Relative errors of joules at predicted times, of each loop whose power was measured."""
    rates, constants = card_rates(), shipped_energy()
    for row in card_rows("power"):
        if row["joules"]:
            work = work_of(row["what"])
            burst_s = _predicted_s(row["what"].split(), work, rates)
            joules = kernel_energy_joules(
                sustained_time_s(burst_s, work, rates, constants), work, rates, constants
            )
            yield float(np.ravel(joules)[0]) / float(row["joules"]) - 1.0


def _predicted_s(words: StringList, work: KernelWork, rates: DeviceRates) -> FloatArray:
    chip = column_of([load_device(DEVICE).measured_name])
    if words[0] == "gemm":
        products = _products(words)
        law_s = gemm_time_s(products, rates, load_constants("gemm", GemmConstants, "gpu"))
        return law_s * correction("gemm", chip, gemm_case(products))
    if "attention" in words:
        shape = _attention(words)
        law_s = attention_time_s(
            shape, rates, load_constants("attention", AttentionConstants, "gpu")
        )
        return law_s * correction("attention", chip, attention_case(shape))
    return stream_time_s(
        work.traffic_bytes,
        rates,
        load_constants("elementwise", ElementwiseConstants, "gpu"),
        is_cached=False,
    )


def _products(words: StringList) -> Products:
    m, n, k = (np.array([float(word[1:])]) for word in words[-3:])
    is_narrow = words[1] == "fp8"
    bits = 8.0 if is_narrow else 16.0
    return Products(
        m,
        n,
        k,
        load_device(DEVICE).peak_flop_per_s("fp8" if is_narrow else "bf16"),
        weight_bits=bits,
        activation_bits=bits,
    )


def _attention(words: StringList) -> Attention:
    """Llama-3-8B's heads: a prefill of 16,384 tokens, or 48 requests after 6,000."""
    sizes: Mapping[str, tuple[float, float, float]] = {
        "prefill": (1.0, 16384.0, 0.0), "decode": (48.0, 1.0, 5999.0)
    }  # fmt: skip
    sequences, new, past = sizes[words[0]]
    return Attention(np.array([sequences]), new, past, 32.0, 8.0, 128.0, 128.0)
