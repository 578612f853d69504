"""Measured matrix products: what a row asks for, and the fit of the constants of products.

How they were measured is in the table's description: weights are cycled through 5 or 6 copies to
defeat the cache, but vLLM's products with block scales and NVFP4 keep one; vLLM's products with
block scales are started by the host, one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, StringList
from codesign.base.errors import UnknownNameError
from codesign.base.records import frozen
from codesign.models.hardware.device import Device
from codesign.models.machines.device.formats import ProductFormat, format_on, product_format
from codesign.models.machines.device.gemm import GemmConstants, Products, gemm_case, gemm_time_s
from codesign.models.machines.roofline import roofline_times
from validation.studies.kernel_families.family import KernelFamily
from validation.studies.kernel_families.rows import (
    Reasons,
    find_reasons,
    looped_rates,
)
from validation.studies.kernel_table import KernelTable

COPIES = 6.0
"""Copies of the weights that the benchmark cycles through."""
EAGER_S = 250e-6
"""The longest roofline of a product that the host starts slower than the device computes."""

START = GemmConstants.model_validate(
    {
        "compute": 1.05,
        "integer_core_rate": "7.5 TFLOP/s",
        "bandwidth": 0.85,
        "cache_bytes_per_cycle": 5.0,
        "overlap": 2.0,
        "ramp": "1.5 us",
        "core_rate": 1.1,
        "operand_rate": "160 GB/s",
        "synchronous_core_rate": 0.75,
        "synchronous_operand_rate": 0.6,
        "start": "2.3 us",
        "wave": 0.6,
        "split": 1.2,
        "quantize": "1.8 us",
        "quantize_rows": 0.1,
        "fine_scales": "1.5 us",
        "converted_starts": 2.3,
        "convert_rate": "6e10 1/s",
        "row_scale_starts": 7.5,
        "row_scale_operands": 0.25,
    }
)
"""Start of the fit: round numbers."""
FREE = tuple(name for name in GemmConstants.model_fields if name not in ("start", "quantize"))
"""Constants to fit; device files state the starts of all devices that were measured."""
LEAST = {"overlap": 1.0}
MOST = {"compute": 1.25, "bandwidth": 1.0, "wave": 1.0} | {
    "row_scale_operands": 1.0,
    "synchronous_core_rate": 1.0,
    "synchronous_operand_rate": 1.0,
    "quantize_rows": 1.0,
}


@frozen
class _ProductCase:
    """The kernel that rows with the same device and formats run; None if it is not known."""

    kernel: ProductFormat | None
    peak_flop_per_s: float
    problem: str


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row is not predicted; empty where it is."""
    problems = np.array([case.problem for case in _cases(table)], dtype=np.str_)
    more = {
        "another row has the same product, measured faster": table.words("fastest") == "0",
        "the host starts each product, and takes longer than its roofline": (
            (table.words("framework") == "vLLM")
            & np.asarray(table.words("weight_dtype") == "fp8_block128")
        )
        & (_roofline_s(table) < EAGER_S),
    }
    reasons = find_reasons(table, ("gemm",), ("m", "n", "k"))
    reasons = np.where(reasons == "", problems, reasons)
    return np.where(reasons == "", find_reasons(table, ("gemm",), (), more=more), reasons)


def groups(table: KernelTable) -> StringList:
    """Device and formats of each row: what errors are reported for."""
    names = zip(
        *(table.words(name).tolist() for name in ("device", "weight_dtype", "activation_dtype")),
        strict=True,
    )
    return [" ".join(words) for words in names]


def _roofline_s(table: KernelTable) -> FloatArray:
    products = _products(table)
    memory_s = (
        products.weight_bytes + products.activation_bytes
    ) / table.rates.bandwidth_bytes_per_s
    return roofline_times(products.work_flop, products.peak_flop_per_s, memory_s).time_s


def _law(table: KernelTable) -> Callable[[GemmConstants], FloatArray]:
    products = _products(table)
    rates = looped_rates(table.rates, np.where(products.is_integer, 16.0, products.activation_bits))
    return lambda constants: gemm_time_s(products, rates, constants)


def _cases(table: KernelTable) -> list[_ProductCase]:
    words = zip(
        *(
            table.words(name).tolist()
            for name in ("operator", "weight_dtype", "activation_dtype", "framework")
        ),
        strict=True,
    )
    known: dict[tuple[str, ...], _ProductCase] = {}
    cases = []
    for device, row in zip(table.devices, words, strict=True):
        key = (device.key if device else "", *row)
        if key not in known:
            known[key] = _case(device, *row)
        cases.append(known[key])
    return cases


def _case(
    device: Device | None, operator: str, weight: str, activation: str, framework: str
) -> _ProductCase:
    if operator != "gemm" or device is None:
        return _ProductCase(None, np.nan, "")  # said by others
    if (device.key, weight) == ("l40s", "fp8_block128"):
        weight, activation = "fp8", "bf16"  # so the table's description, and so do its times
    # SGLang's int8 products find a scale for every row of their input.
    scales_rows = True if (activation, framework) == ("int8", "SGLang") else None
    try:
        kernel = format_on(
            device, product_format(weight, activation, is_input_quantized=scales_rows)
        )
    except UnknownNameError as error:
        return _ProductCase(None, np.nan, f"its formats are not known: {error}")
    return _ProductCase(kernel, device.peak_flop_per_s(kernel.multiply), "")


def _products(table: KernelTable) -> Products:
    """Products of the rows; NaN peaks where the kernel is unknown."""
    cases = _cases(table)

    def column(name: str) -> FloatArray:
        return np.array([getattr(case.kernel, name, 0) for case in cases], dtype=np.float64)

    m, n, k = (table[name] for name in ("m", "n", "k"))
    bits = column("weight_bits")
    weight_bytes = n * k * bits / 8
    has_single_copy = (table.words("framework") == "vLLM") & np.isin(
        table.words("weight_dtype"), ("fp8_block128", "nvfp4")
    )
    return Products(
        m=m,
        n=n,
        k=k,
        peak_flop_per_s=np.array([case.peak_flop_per_s for case in cases]),
        weight_bits=bits,
        activation_bits=column("activation_bits"),
        is_weight_converted=column("is_weight_converted") > 0,
        is_input_quantized=column("is_input_quantized") > 0,
        is_integer=column("is_integer") > 0,
        has_fine_scales=column("has_fine_scales") > 0,
        has_block_scales=column("has_block_scales") > 0,
        cached_weight_share=np.where(
            (weight_bytes * np.where(has_single_copy, 1.0, COPIES)) <= table.rates.cache_bytes,
            1.0,
            0.0,
        ),
    )


def _corrects(table: KernelTable) -> BoolArray:
    """(q,) whether a row tells what a device's libraries do: not where two sources disagree.

    Weights in 16 bits stream at 0.70 of the bandwidth of A100 on SXM, but at 0.79 of the lower one
    on PCIe (Vidur), and requests (LMDeploy) at what the law says.
    """
    return np.asarray(
        ~(
            np.char.startswith(table.words("device"), "A100")
            & (table.words("weight_dtype") == "bf16")
        )
    )


FAMILY = KernelFamily(
    file="gemm",
    operators=("gemm",),
    target=0.08,
    left_out=left_out,
    law=_law,
    roofline=_roofline_s,
    start=START,
    most=MOST,
    free=FREE,
    least=LEAST,
    groups=groups,
    case=lambda table: gemm_case(_products(table)),
    corrects=_corrects,
    transfer=0.7,
    geometry=("n", "k"),
)
