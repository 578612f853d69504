"""Mixtures of formats are read from their names, and refused where they are none."""

import pytest

from codesign.base.errors import UnusableValueError
from codesign.models.format_mixture import (
    FormatShare,
    format_shares,
    is_mixed,
    mixture_name,
    mixture_words,
)


def test_a_name_says_the_groups_and_a_plain_format_is_one_group():
    assert format_shares(" 0.5 * mxfp4 + 0.5*mxfp8") == (
        FormatShare(0.5, "mxfp4"),
        FormatShare(0.5, "mxfp8"),
    )
    assert format_shares("0.3*a+0.3*b+0.4*c")[2].share == 0.4
    assert format_shares("unheard-of") == (FormatShare(1.0, "unheard-of"),)
    assert is_mixed("0.5*mxfp4+0.5*mxfp8")
    assert not is_mixed("int4-g128")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("0.5*mxfp4+0.4*mxfp8", "expected shares that sum to 1, got 0.9"),
        ("0.5*mxfp4+0.5*mxfp5", "unknown number format 'mxfp5'. Did you mean 'mxfp8'"),
        ("0.5*mxfp4+", "such as 0.75*mxfp4+0.25*mxfp8, got the group ''"),
        ("0.5*+0.5*mxfp4", "got the group '0.5*'"),
        ("0.5*mxfp4+mxfp8", "got the group 'mxfp8'"),
        ("0.0*mxfp4+1.0*mxfp8", "expected a share above 0 and below 1, got '0.0'"),
        ("nan*mxfp4+0.5*mxfp8", "expected a share above 0 and below 1, got 'nan'"),
        ("half*mxfp4+half*mxfp8", "expected a share above 0 and below 1, got 'half'"),
        ("-0.5*mxfp4+1.5*mxfp8", "got '-0.5'"),
        ("0.5*mxfp4+0.5*mxfp4", "expected each format once, got 'mxfp4' twice"),
    ],
)
def test_what_is_no_mixture_is_refused(name, problem):
    with pytest.raises(UnusableValueError) as refused:
        format_shares(name, ["mxfp4", "mxfp8"])
    assert str(refused.value).startswith(f"mixture {name!r}: ")
    assert problem in str(refused.value)
    assert refused.value.got == name


def test_the_name_of_shares_gives_the_shares_back():
    thirds = [(1 / 3, "mxfp4"), (1 / 3, "mxfp8"), (1 / 3, "mxfp4")]
    name = mixture_name(thirds)
    assert name == "0.666667*mxfp4+0.333333*mxfp8"
    assert [group.format for group in format_shares(name)] == ["mxfp4", "mxfp8"]
    assert mixture_name([(0.4, "mxfp8"), (0.6, "mxfp8")]) == "mxfp8"
    assert mixture_words(name) == "66.6667 % of layers mxfp4, 33.3333 % mxfp8"
