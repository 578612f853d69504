"""What a device multiplies in, for every pair of formats that users and measurements name."""

import pytest

from codesign.base.errors import UnknownNameError
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.formats import (
    OPERANDS,
    format_on,
    operand_format,
    product_format,
)
from codesign.models.workload.precision import FORMATS


@pytest.mark.parametrize(
    ("weight", "activation", "multiply", "is_converted", "is_quantized"),
    [
        ("bf16", "bf16", "bf16", False, False),
        ("fp16", "fp16", "bf16", False, False),
        ("fp8", "fp8", "fp8", False, True),
        ("fp8", "fp8_static", "fp8", False, False),
        ("fp8_block128", "fp8_group128", "fp8", False, True),
        ("nvfp4", "nvfp4", "fp4", False, True),
        ("mxfp4", "mxfp8", "fp8", True, True),
        ("int8", "bf16", "bf16", True, False),
        ("int4", "bf16", "bf16", True, False),
        ("int8", "int8", "int8", False, False),
        ("mxint4", "mxint8", "int8", True, False),
        ("mxint8", "mxint8", "int8", False, False),
        ("bf16", "fp8", "bf16", False, False),
        ("mxint16", "mxint16", "bf16", False, False),
    ],
)
def test_a_pair_of_formats_says_how_its_kernel_multiplies(
    weight, activation, multiply, is_converted, is_quantized
):
    kernel = product_format(weight, activation)
    assert kernel.multiply == multiply
    assert kernel.is_weight_converted is is_converted
    assert kernel.is_input_quantized is is_quantized
    assert kernel.has_fine_scales is (multiply == "fp4")
    assert kernel.has_block_scales is (weight == "fp8_block128" and multiply == "fp8")


def test_every_format_of_a_workload_is_known_with_the_bits_it_has_there():
    for name, number_format in FORMATS.items():
        assert operand_format(name).stored_bits == number_format.exact_bits


def test_an_unknown_format_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="fp8"):
        product_format("fp9", "bf16")


@pytest.mark.parametrize(
    ("device", "precision", "expected"),
    [
        ("a100-sxm-80gb", "fp8", "bf16"),
        ("a100-sxm-80gb", "int8", "int8"),
        ("a100-sxm-80gb", "mxint4", "int8"),
        ("tpu-v5e", "fp8", "bf16"),
        ("v100-sxm", "bf16", "fp16"),
        ("h100-sxm", "mxfp8", "fp8"),
        ("h100-sxm", "nvfp4", "fp8"),
        ("b200-sxm", "mxfp4", "fp4"),
        ("rubin", "int8", "bf16"),
    ],
)
def test_a_device_multiplies_in_the_next_wider_format_it_has(device, precision, expected):
    chosen = load_device(device)
    name = chosen.multiply_format(precision)
    assert chosen.peak[name] == chosen.peak_flop_per_s(expected)


def test_a_device_never_multiplies_in_a_narrower_format():
    only_fp8 = load_device("h100-sxm").model_copy(update={"peak": {"fp8": 1e15}})
    for precision in ("bf16", "fp16", "int8", "fp32"):
        with pytest.raises(UnknownNameError, match="precision"):
            only_fp8.peak_flop_per_s(precision)
    with pytest.raises(UnknownNameError, match="precision"):
        only_fp8.peak_flop_per_s("fp7")


def test_a_device_without_the_multiplier_converts_the_weights():
    kernel = format_on(load_device("a100-sxm-80gb"), product_format("fp8", "fp8"))
    assert kernel.multiply == "bf16"
    assert kernel.is_weight_converted
    assert not kernel.is_input_quantized
    assert (kernel.weight_bits, kernel.activation_bits) == (8, 16)
    assert not format_on(
        load_device("a100-sxm-80gb"), product_format("fp8_block128", "fp8")
    ).has_block_scales
    native = product_format("fp8", "fp8")
    assert format_on(load_device("h100-sxm"), native) == native


def test_every_pair_runs_on_every_measured_device():
    for name in ("a100-sxm-80gb", "l40s", "h200-sxm", "b200-sxm"):
        device = load_device(name)
        for weight in OPERANDS:
            for activation in OPERANDS:
                kernel = format_on(device, product_format(weight, activation))
                assert kernel.multiply in device.peak or device.peak_flop_per_s(kernel.multiply)
