"""Block formats: their arithmetic, their names, the corners of the specification."""

import ml_dtypes
import numpy as np
import pytest

from codesign.base.errors import InputError, UnknownNameError
from codesign.models.quantization import (
    SharedExponent,
    find_block_format,
    float_type,
    integer_type,
    mxfp,
    mxint,
    quantize,
    relative_noise,
)
from codesign.models.quantization.block_formats import NAMED_FORMATS
from codesign.models.quantization.element_types import rounded
from codesign.models.quantization.rounding import quantize_with_own_library
from codesign.models.workload.precision import FORMATS

TYPES = {
    (4, 3): ml_dtypes.float8_e4m3fn,
    (5, 2): ml_dtypes.float8_e5m2,
    (2, 1): ml_dtypes.float4_e2m1fn,
    (2, 3): ml_dtypes.float6_e2m3fn,
    (3, 2): ml_dtypes.float6_e3m2fn,
    (5, 10): np.float16,
}


@pytest.mark.parametrize("bits", TYPES, ids=str)
def test_every_16_bit_number_is_rounded_as_ml_dtypes_does(bits):
    codes = np.arange(1 << 16, dtype=np.uint16)
    values = np.concatenate([codes.view(kind).astype(np.float32) for kind in KINDS])
    values = values[np.isfinite(values)]
    element = float_type(*bits)
    finfo = ml_dtypes.finfo(TYPES[bits])
    assert element.largest == float(finfo.max)
    expected = values.clip(-element.largest, element.largest).astype(TYPES[bits])
    np.testing.assert_array_equal(rounded(values, element), expected.astype(np.float32))


KINDS = (np.float16, ml_dtypes.bfloat16)


@pytest.mark.parametrize("name", NAMED_FORMATS)
def test_torch_has_the_same_bits_as_numpy(name):
    torch = pytest.importorskip("torch")
    block_format = find_block_format(name)
    values = np.random.default_rng(0).standard_t(3, (8, 80)).astype(np.float32)
    values[0, :5] = [0, 1e-44, 3e38, -1e-38, 2.0**-130]
    stored = quantize(values, block_format)
    assert np.array_equal(quantize(torch.tensor(values), block_format).numpy(), stored)
    for device in ["cpu", "cuda"][: 1 + torch.cuda.is_available()]:
        if block_format.element is not None:
            tensor = torch.tensor(values, device=device)
            computed = quantize_with_own_library(tensor, block_format.element, block_format)
            assert np.array_equal(computed.cpu().numpy(), stored)


@pytest.mark.parametrize("name", NAMED_FORMATS)
def test_rounding_again_changes_nothing_but_nvfp4(name):
    block_format = find_block_format(name)
    values = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    stored = quantize(values, block_format)
    if block_format.scale == SharedExponent():
        np.testing.assert_array_equal(quantize(stored, block_format), stored)
    assert relative_noise(values, block_format) < 0.03


@pytest.mark.parametrize("name", NAMED_FORMATS)
def test_a_block_of_zeros_stays_zero(name):
    zeros = np.zeros((2, 64), np.float32)
    np.testing.assert_array_equal(quantize(zeros, find_block_format(name)), zeros)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_block_with_nan_or_infinity_is_lost_and_no_other_is(wrong):
    values = np.ones((1, 64), np.float32)
    values[0, 3] = wrong
    for name in ("mxfp4", "mxfp8", "mxint8", "nvfp4", "int4-g32"):
        block_format = find_block_format(name)
        stored = quantize(values, block_format)
        size = block_format.block_size
        assert np.isnan(stored[0, :size]).all(), name
        np.testing.assert_allclose(stored[0, size:], 1.0, rtol=0.03)


def test_large_elements_saturate():
    # The largest exponent meets 2, that of 6: 7.9 would need 8, which E2M1 has not.
    block = np.array([[7.9, 1.0, -7.9, 0.2]], np.float32)
    assert quantize(block, find_block_format("mxfp4")).tolist() == [[6.0, 1.0, -6.0, 0.0]]
    # 1.999 is nearer to 2, which a two's complement number has below zero only.
    block = np.array([[1.999, -1.999]], np.float32)
    assert quantize(block, find_block_format("mxint8")).tolist() == [[1.984375, -2.0]]


def test_subnormal_elements_are_kept():
    block = np.array([[4.0, 0.5, 0.25, 0.26]], np.float32)  # E2M1 has 0.5 below its normal 1
    assert quantize(block, find_block_format("mxfp4")).tolist() == [[4.0, 0.5, 0.0, 0.5]]


def test_a_narrow_shared_exponent_limits_the_range():
    block = np.array([[64.0, 32.0]], np.float32)
    assert quantize(block, mxint(8, scale_bits=4)).tolist() == [[64.0, 32.0]]
    assert quantize(block, mxint(8, scale_bits=3)).tolist() == [[15.875, 15.875]]  # 2**3 at most


def test_a_row_has_one_scale_and_a_group_its_own():
    values = np.array([[7.0] + [0.3] * 63], np.float32)
    assert quantize(values, find_block_format("int4"))[0, 40] == 0.0
    assert quantize(values, find_block_format("int4-g32"))[0, 40] == pytest.approx(0.3, rel=1e-3)


def test_names_and_numbers_agree():
    assert find_block_format("mxfp6-e3m2-b16") == mxfp(3, 2, 16)
    assert find_block_format("mxint5-b16-s4") == mxint(5, 16, 4)
    assert find_block_format("mxfp4").element == mxfp(2, 1).element
    assert find_block_format("int3-g64").bits_per_element == 3 + 16 / 64
    assert integer_type(4).code_unit == 0.25


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_of_the_spaces_is_known_with_its_width(name):
    assert find_block_format(name).bits_per_element == FORMATS[name].exact_bits


def test_wrong_names_and_numbers_are_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'mxfp4'"):
        find_block_format("mxpf4")
    with pytest.raises(InputError, match="expected 8 bits with the sign, got 7"):
        find_block_format("mxfp8-e4m2")
    with pytest.raises(InputError, match="'int17': expected 2 to 16 bits"):
        mxint(17)
    with pytest.raises(InputError, match="1 to 5 exponent"):
        mxfp(8, 7)
    with pytest.raises(InputError, match="blocks of 1 or more"):
        mxfp(2, 1, block_size=0)
