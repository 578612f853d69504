"""Kernels that were measured on one card, and their predicted times.

``codesign size calibrate --script`` writes the program that measures them. It imports nothing of
this package, so that it runs on machines with PyTorch alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatArray, JsonObject, constant_column
from codesign.base.schema import PositiveAmount, Record
from codesign.models.hardware.device import Device
from codesign.models.machines.device.attention import (
    Attention,
    AttentionConstants,
    attention_case,
    attention_time_s,
)
from codesign.models.machines.device.collectives import CollectiveConstants, collective_time_s
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.corrections import KernelCase, correction
from codesign.models.machines.device.elementwise import (
    ElementwiseConstants,
    stream_time_s,
    vector_start_s,
    vector_time_s,
)
from codesign.models.machines.device.energy import KernelWork, shipped_energy, sustained_time_s
from codesign.models.machines.device.gemm import GemmConstants, Products, gemm_case, gemm_time_s
from codesign.models.machines.device.links import link_rates
from codesign.models.machines.device.rates import DeviceRates, device_rates

SCRIPT = Path(__file__).with_name("calibrate_gpu.py")
"""The program that measures a card."""

SIZES = {"gemm": 3, "attention": 6, "rowwise": 1, "stream": 1, "message": 2}
"""Numbers that state the shape of a kernel."""


class MeasuredKernel(Record):
    """One kernel.

    Attributes:
        family: Stream: a copy or addition of more bytes than caches hold. Message: an all-reduce.
        sizes: ``[m, n, k]`` of a product; sequences, new tokens and all tokens of each, query
            heads, KV heads and their width of attention; bytes of the others, and devices of a
            message.
        role: Role of a kernel that works row by row, such as ``norm``.
        format: Format of the factors of a product, and whether its time includes quantizing its
            input.
        is_hot: True if it ran in a loop for more than half a second, False if the card was rested.
        median_us: Median time; 0: timed together with the kernel before, as one of a layer.
    """

    family: Literal["gemm", "attention", "rowwise", "stream", "message"]
    sizes: tuple[PositiveAmount, ...]
    role: str = ""
    format: Literal["bf16", "fp8", "fp8+quantize"] = "bf16"
    is_hot: bool = False
    median_us: Annotated[float, Field(ge=0, le=1e7)]

    def check_fields(self) -> None:
        if len(self.sizes) != (count := SIZES[self.family]):
            raise ValueError(f"sizes: expected {count} numbers for {self.family}")


class MeasuredCard(Record):
    """Kernels of one card.

    Attributes:
        card: Name of the card, as its driver has it.
        day: Day of the measurements, and versions of the software.
        device: Numbers that the driver states, by keys of device files.
    """

    card: str
    day: str
    device: JsonObject
    kernels: tuple[MeasuredKernel, ...]

    def predicted_us(self, device: Device) -> FloatArray:
        """(q,) predicted times of what was timed."""
        rates = device_rates(lambda number: number(device))
        times = np.zeros(len(self.kernels))
        for family in {kernel.family for kernel in self.kernels}:
            rows = {i: row for i, row in enumerate(self.kernels) if row.family == family}
            times[[*rows]] = _KERNEL_MODELS.get(family, _moving_s)([*rows.values()], device, rates)
        starts = [i for i, kernel in enumerate(self.kernels) if kernel.median_us]
        return np.add.reduceat(times, starts) * 1e6


Rows = Sequence[MeasuredKernel]


def _sizes(rows: Rows) -> FloatArray:
    return np.transpose([row.sizes for row in rows])


def _corrected(family: str, raw_s: FloatArray, device: Device, case: KernelCase) -> FloatArray:
    chips = constant_column(device.measured_name, len(raw_s))
    return raw_s * correction(family, chips, case)


def _gemm_s(rows: Rows, device: Device, rates: DeviceRates) -> FloatArray:
    is_narrow = np.array([row.format != "bf16" for row in rows])
    bits = np.where(is_narrow, 8.0, 16.0)
    m, n, k = _sizes(rows)
    products = Products(
        m,
        n,
        k,
        np.where(is_narrow, *map(device.peak_flop_per_s, ("fp8", "bf16"))),
        weight_bits=bits,
        activation_bits=bits,
        is_input_quantized=np.array([row.format == "fp8+quantize" for row in rows]),
    )
    raw_s = gemm_time_s(products, rates, load_constants("gemm", GemmConstants, device.device_class))
    burst_s = _corrected("gemm", raw_s, device, gemm_case(products)) * device.time_factor("gemm")
    traffic = products.weight_bytes + products.activation_bytes
    work = KernelWork(products.work_flop, traffic, bits)
    hot_s = sustained_time_s(burst_s, work, rates, shipped_energy())
    return np.where([row.is_hot for row in rows], hot_s, burst_s)


def _attention_s(rows: Rows, device: Device, rates: DeviceRates) -> FloatArray:
    sequences, new, tokens, heads, kv_heads, width = _sizes(rows)
    shape = Attention(sequences, new, tokens - new, heads, kv_heads, width, width)
    constants = load_constants("attention", AttentionConstants, device.device_class)
    raw_s = attention_time_s(shape, rates, constants)
    factors = map(device.time_factor, ("attention decode", "attention prefill"))
    corrected_s = _corrected("attention", raw_s, device, attention_case(shape))
    return corrected_s * np.where(new == 1, *factors)


def _moving_s(rows: Rows, device: Device, rates: DeviceRates) -> FloatArray:
    """(q,) times of kernels that only move data: within a device, or between devices."""
    constants = load_constants("elementwise", ElementwiseConstants, device.device_class)
    links = link_rates(lambda number: number(device), device.link_kind or "")
    message = load_constants("collectives", CollectiveConstants, device.device_class)
    times = []
    for row in rows:
        if row.family == "message":
            size, devices = row.sizes
            time_s = collective_time_s("all_reduce", size, devices, 1.0, links, message)
        elif row.family == "stream":
            time_s = stream_time_s(row.sizes[0], rates, constants, is_cached=False)
        else:
            moved_s = vector_time_s(row.sizes[0], rates, constants, row.role)
            time_s = vector_start_s(row.role) + moved_s
        times.append(time_s * device.time_factor(row.family))
    return np.array(times)


_KERNEL_MODELS = {"gemm": _gemm_s, "attention": _attention_s}
"""Kernel models by family; :func:`_moving_s` models the others."""
