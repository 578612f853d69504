"""Expressions: what they mean, what they refuse, and how a violation is measured."""

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.units import parse_unit
from codesign.space import parse_space
from codesign.space.expression_parser import MAX_LENGTH, parse_expression
from codesign.space.expressions import Category

UNITS = {
    "a": parse_unit(""),
    "b": parse_unit(""),
    "tdp_watts": parse_unit("W"),
    "edge_mm": parse_unit("mm"),
    "memory.bandwidth": parse_unit("B/s"),
    "memory.capacity": parse_unit("B"),
    "other.bandwidth": parse_unit("B/s"),
    "array[0]": parse_unit(""),
    "array[1]": parse_unit(""),
}
CATEGORIES = {
    "dataflow": Category(("ws", "is", "os")),
    "fixed": Category(("x",), ("x", "y")),
    "memory": Category(("hbm", "hbf")),
    "other": Category(("hbf", "hbm")),
    "array": Category(((1, 2), (3, 4))),
    "fast": Category((False, True)),
    "a": Category((1, 2)),
}
PARTS = {"tier": [{"technology": "memory"}, {"technology": "other"}]}


def parse(text):
    return parse_expression(text, UNITS, "s.yaml:7: rule", categories=CATEGORIES, parts=PARTS)


def value(text, **values):
    return parse(text).evaluate({name: np.asarray(v, float) for name, v in values.items()})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 - 3 - 4", -5),
        ("8 / 4 / 2", 1),
        ("-2 * -3", 6),
        ("--2", 2),
        ("min(3, 1, 2) + max(3, 1, 2) + abs(-5)", 9),
        ("ceil(1.2) + floor(1.8)", 3),
        ("sum(1, 2, 3)", 6),
        ("2 GB / 1 kB", 2e6),
        ("75 %", 0.75),
        ("66 mm", 0.066),
        ("819.2 GB/s", 8.192e11),
        ("17.55 W/GB", 1.755e-8),
        ("1_000 + .5e1", 1005),
        ("count(1 < 2, 2 < 1, 3 == 3)", 2),
    ],
)
def test_constants_follow_the_rules_of_arithmetic_and_units(text, expected):
    assert value(text) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a == 1 and b == 2", [True, False, False]),
        ("a == 1 or b == 2", [True, True, True]),
        ("not a == 1", [False, False, True]),
        ("a == 1 and b == 2 or a == 2", [True, False, True]),
        ("a < 2", [True, True, False]),
        ("a <= 2", [True, True, True]),
        ("a > 1", [False, False, True]),
        ("a >= 2", [False, False, True]),
        ("a != 1", [False, False, True]),
        ("1 <= a < b", [True, True, False]),
        ("a in [2, 5]", [False, False, True]),
        ("a not in [2, 5]", [True, True, False]),
        ("not not a < 2", [True, True, False]),
    ],
)
def test_conditions_hold_where_logic_says(text, holds):
    values = {"a": np.array([1.0, 1.0, 2.0]), "b": np.array([2.0, 3.0, 2.0])}
    expression = parse(text)
    assert (expression.violation(values) <= 0).tolist() == holds
    assert expression.evaluate(values).tolist() == [float(met) for met in holds]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("dataflow == ws", [True, False, False, False]),
        ("dataflow != ws", [False, True, True, True]),
        ("ws == dataflow", [True, False, False, False]),
        ('dataflow in [ws, "os"]', [True, False, True, False]),
        ("dataflow == none", [False, False, False, True]),
        ("dataflow != none", [True, True, True, False]),
        ("dataflow not in [ws, none]", [False, True, True, False]),
    ],
)
def test_words_compare_with_levels_and_none_with_absence(text, holds):
    values = {"dataflow": np.array([0.0, 1.0, 2.0, -1.0])}
    assert (parse(text).violation(values) <= 0).tolist() == holds


def test_other_comparisons_of_names():
    values = {
        "memory": np.array([0.0, 1, 0, -1]),
        "other": np.array([1.0, 1, 0, -1]),
        "array": np.array([0.0, 1, 1, -1]),
        "fast": np.array([1.0, 0, -1, 1]),
        "fixed": np.zeros(4),
        "a.present": np.array([1.0, 0, 1, 0]),
    }

    def holds(text):
        return (parse(text).violation(values) <= 0).tolist()

    assert holds("memory == other") == [True, False, False, True]
    assert holds("array == [1, 2]") == [True, False, False, False]
    assert holds("array in [[1, 2], [3, 4]]") == [True, True, True, False]
    assert holds("fast") == [True, False, False, True]
    assert holds("fast == true or fast == none") == [True, False, True, True]
    assert holds("fixed == y") == [False] * 4  # a value of the file that fixing took away
    assert holds("a == none") == [False, True, False, True]


def test_a_repeated_part_is_summed_and_counted_over_its_repetitions():
    values = {
        "memory.bandwidth": np.array([1.0, 2.0]),
        "other.bandwidth": np.array([10.0, 0.0]),
        "memory": np.array([0.0, 1.0]),
        "other": np.array([1.0, -1.0]),
    }
    total = parse("sum(tier, 2 * technology.bandwidth)")
    assert total.evaluate(values).tolist() == [22, 4]
    assert total.unit.exponents == parse_unit("B/s").exponents
    assert parse("count(tier, technology == hbm)").evaluate(values).tolist() == [2, 0]


def test_a_violation_is_the_excess_relative_to_the_written_limit():
    watts = {"tdp_watts": np.array([350.0, 700.0, 770.0])}
    for text in ("tdp_watts <= 700", "tdp_watts <= 700 W", "700 W >= tdp_watts"):
        assert parse(text).violation(watts) == pytest.approx([-0.5, 0, 0.1])


def test_equality_exceeding_by_rounding_meets_a_limit_and_fails_a_strict_one():
    edge = {"edge_mm": np.array([6 * 11.0 * (1 + 1e-15)])}
    assert parse("edge_mm <= 66 mm").violation(edge) == 0
    assert parse("edge_mm < 66 mm").violation(edge) > 0
    assert parse("not edge_mm <= 66").violation(edge) > 0


def test_and_gives_the_largest_violation_or_the_smallest_not_the_negative():
    values = {"a": np.array([15.0]), "b": np.array([30.0])}
    assert parse("a <= 10 and b <= 10").violation(values) == pytest.approx([2.0])
    assert parse("a <= 10 or b <= 10").violation(values) == pytest.approx([0.5])
    assert parse("not a <= 10").violation(values) == pytest.approx([-0.5])


def test_an_undefined_number_meets_nothing():
    values = {"a": np.zeros(1), "b": np.zeros(1)}
    assert not (parse("a / b <= 1").violation(values) <= 0).any()


def test_a_unit_has_no_spaces_so_that_names_can_divide():
    assert value("2 GB / a", a=[2.0]) == [1e9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory.bandwidth <= 3 GB", "'memory.bandwidth' is in B/s but '3 GB' is in B"),
        ("memory.bandwidth <= 5", "'memory.bandwidth' is in B/s: write '5' with its unit"),
        ("memory.bandwidth + memory.capacity > 0", "is in B/s but 'memory.capacity' is in B"),
        ("tdp_watts <= 66 mm", "'tdp_watts' is in W but '66 mm' is in m"),
        ("a <= 66 mm", "'a' is in plain numbers but '66 mm' is in m"),
        ("ceil(tdp_watts) > 1", "ceil needs a plain number, got one in W"),
        ("tdp_wats <= 700", "unknown name 'tdp_wats'. Did you mean 'tdp_watts'?"),
        ("memory.bandwith > 0", "Did you mean 'memory.bandwidth'?"),
        ("dataflow == wss", "unknown value of dataflow 'wss'. Did you mean 'ws'?"),
        ("dataflw == ws", "column 1: unknown name 'dataflw'. Did you mean 'dataflow'?"),
        ("dataflow < ws", "'<' compares numbers"),
        ("dataflow + 1 > 0", "expected a number, but 'dataflow' is a name"),
        ("array[2] > 0", "array has no entry '2'"),
        ("array == [1, 3]", r"unknown value of array '[1, 3]'"),
        ("a <= 5 furlong", "column 8: unknown unit 'furlong'"),
        ("a <= 5 gb", "did you mean 'GB'?"),
        ("a <= ", "column 6: expected a number or a name, got 'the end'"),
        ("(a <= 5", "expected ')', got 'the end'"),
        ("a <= 5 5", "unexpected '5'"),
        ("a <= 5; b", "column 7: unexpected character ';'"),
        ("a =< 5", "column 3: unexpected character '='; comparisons are <, <=, ==, !=, >=, >"),
        ("a and b == 1", "expected a condition, got 'a'"),
        ("maxi(a, 1) > 0", "unknown function 'maxi'. Did you mean 'max'?"),
        ("__import__('os') > 0", "unknown function '__import__'"),
        ("a.__class__ == 1", "unknown name 'a.__class__'"),
        ("a in []", "the list is empty"),
        ("a in 5", "expected a list"),
        ("1 / 0 > a", "not a finite number"),
        ("1e999 > a", "too large"),
        ("abs(a, b) > 0", "abs takes one argument, got 2"),
        ("memory.bandwidth == none", "is always there"),
        ("sum(tier, sum(tier, 1)) > 0", "unknown name 'tier'"),
        ("(" * 100 + "a" + ")" * 100, "levels of nesting"),
        ("not " * 500 + "a < 1", "levels of nesting"),
        ("[" * 500, "levels of nesting"),
        ("a+" * MAX_LENGTH + "a", f"at most {MAX_LENGTH}"),
        ("", "expected a number or a name, got 'the end'"),
    ],
)
def test_a_mistake_is_one_clear_line_with_its_place(text, message):
    with pytest.raises(InputError) as caught:
        parse(text)
    said = str(caught.value)
    assert said.startswith("s.yaml:7: rule: ")
    assert message in said
    assert "\n" not in said


def test_a_long_flat_expression_is_no_deep_tree():
    assert value("+".join(["1"] * 1500)) == 1500
    assert value("*".join(["1"] * 1500)) == 1
    assert value("-" * 1001 + "1") == -1
    assert parse(" and ".join(["a < 5"] * 400)).violation({"a": np.ones(1)}) == pytest.approx(-0.8)


def test_a_quantity_is_no_condition_and_says_so():
    with pytest.raises(InputError, match="expected a condition, got the number 'a \\+ b'"):
        parse("a + b").violation({"a": np.ones(1), "b": np.ones(1)})


def test_other_names_stand_only_where_a_condition_names_something():
    text = "dataflow == 'ws' and a + 2 <= b"
    renamed = parse(text).renamed({"a": "b", "b": "cost", "ws": "other"})
    assert renamed == "dataflow == 'ws' and b + 2 <= cost"


@pytest.mark.parametrize(
    ("text", "quantity", "amount"),
    [
        ("tdp_watts <= 0.7 kW", "tdp_watts", (0.7, "kW")),
        ("a < 2_000", "a", (2000.0, "")),
        ("a > b", "a", None),
    ],
)
def test_a_limit_on_one_quantity_has_its_bound_as_it_is_written(text, quantity, amount):
    limit = parse(text).limit
    assert (limit.quantity, limit.comparison) == (quantity, text.split()[1])
    assert limit.amount == amount


NAMESAKES = """
parameters:
  kind: [lanes, tiles, other]
  lanes: [1, 2, 4]
  other: [tiles, lanes]
constraints:
  - "{}"
"""


@pytest.mark.parametrize(
    ("condition", "size"),
    [
        ("kind == lanes", 6),
        ("lanes != kind", 12),
        ("kind in [lanes, other]", 12),
        ("kind == 'other'", 6),
    ],
)
def test_a_value_that_is_also_the_name_of_a_parameter_is_read_as_the_value(condition, size):
    assert parse_space(NAMESAKES.format(condition)).size == size


def test_a_value_that_is_also_the_name_of_a_category_wants_quotes():
    with pytest.raises(InputError, match=r"constraints.0: column 9: .* value in quotes"):
        parse_space(NAMESAKES.format("kind == other"))
