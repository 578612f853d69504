"""What weights of a mixture of formats occupy, and how wide they multiply."""

import pytest

from codesign.base.errors import UnknownNameError, UnusableValueError
from codesign.models.workload import (
    FORMATS,
    bits_per_element,
    bits_per_weight,
    multiply_bits,
    weight_groups,
    weight_multiply_bits,
)
from codesign.models.workload.precision import find_format


def test_a_plain_format_is_what_it_was():
    for name in FORMATS:
        assert weight_groups(name) == ((1.0, bits_per_element(name)),)
        assert bits_per_weight(name, "plain") == bits_per_element(name, "plain")
        assert weight_multiply_bits(name) == multiply_bits(name)


def test_a_mixture_takes_its_average_and_multiplies_at_its_widest():
    name = "0.875*mxfp4+0.125*mxint8"
    assert bits_per_weight(name) == pytest.approx(0.875 * 4.25 + 0.125 * 8.25)
    assert bits_per_weight(name, "plain") == pytest.approx(4.5)
    assert weight_multiply_bits(name) == 8
    assert weight_groups("0.125*mxint8+0.875*mxfp4") == ((0.875, 4.25), (0.125, 8.25))


def test_formats_of_equal_bits_are_one_group():
    assert weight_groups("0.3*mxfp4+0.7*mxint4") == ((1.0, 4.25),)
    assert weight_groups("0.3*mxfp4+0.7*int4") == ((0.7, 4.0), (0.3, 4.25))


def test_only_weights_are_mixed():
    for function in (find_format, bits_per_element, multiply_bits):
        with pytest.raises(UnusableValueError, match="only weights of an npu may be mixed"):
            function("0.5*mxfp4+0.5*mxfp8")
    with pytest.raises(UnusableValueError, match="unknown number format 'mxfp6'"):
        bits_per_weight("0.5*mxfp4+0.5*mxfp6")
    with pytest.raises(UnknownNameError, match="number format"):
        bits_per_weight("mxfp6")
