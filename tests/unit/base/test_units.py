"""What the message about a quantity names: what was got, and a unit that would do."""

import pytest

from codesign.base.errors import InputError
from codesign.base.units import parse_quantity


@pytest.mark.parametrize(
    ("value", "expected", "message"),
    [
        ("30 apples", "s", "unknown unit 'apples' in 'apples'; expected a quantity in s"),
        ("30 gb", "GB", "unknown unit 'gb' in 'gb'; did you mean 'GB'?; expected a quantity in GB"),
        ("soon", "s", "expected a number with a unit such as s, got 'soon'"),
        ("30 GB", "s", "expected a quantity in s, got '30 GB'"),
        (30, "s", "expected a quantity in s, got 30 (no unit)"),
        (None, "", "expected a plain number, got None"),
        ("nan", "1", "expected a finite number, got 'nan'"),
        ("many", "", "expected a finite number, got 'many'"),
        ("30 s", "", "expected a plain number, got '30 s'"),
        ("30 apples", "", "unknown unit 'apples' in 'apples'; expected a plain number"),
        (float("inf"), "", "expected a finite number, got inf"),
    ],
)
def test_what_is_no_such_quantity_is_refused_with_one_that_is(value, expected, message):
    with pytest.raises(InputError) as refused:
        parse_quantity(value, expected)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(("value", "number"), [("1.5 ms", 0.0015), ("2 min", 120.0)])
def test_a_quantity_is_in_coherent_units(value, number):
    assert parse_quantity(value, "s") == number
