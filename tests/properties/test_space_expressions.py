"""Laws of expressions: any text is read or refused, and what is read means what Python means."""

import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codesign.base.errors import InputError
from codesign.base.units import parse_unit
from codesign.space.expression_parser import parse_expression
from codesign.space.expressions import Category

UNITS = {"a": parse_unit(""), "b": parse_unit(""), "m.w": parse_unit("B"), "t[0]": parse_unit("")}
CATEGORIES = {"m": Category(("x", "y")), "t": Category(((1,), (2,))), "f": Category((True, False))}
PARTS = {"part": [{"k": "m"}, {"k": "m"}]}
VALUES = {
    "a": np.array([2.0, -1.0]),
    "b": np.array([0.0, 3.0]),
    "m": np.array([0.0, -1.0]),
    "m.w": np.array([8.0, 0.0]),
    "t": np.array([1.0, 0.0]),
    "t[0]": np.array([2.0, 1.0]),
    "f": np.array([0.0, 1.0]),
}

WORDS = [
    *"ab()[],+-*/<>", "m", "m.w", "t", "t[0]", "f", "k", "k.w", "part", "x", "y", "none", "true",
    "and", "or", "not", "in", "<=", ">=", "==", "!=", "1", "2.5", "3 GB", "75 %", "1e400", "0",
    "min", "max", "abs", "sum", "count", "ceil", "floor", "'x'", '"', "1 B", "5 mm", "§", "\n",
]  # fmt: skip


def read(text):
    return parse_expression(text, UNITS, categories=CATEGORIES, parts=PARTS)


def read_or_refused(text):
    try:
        expression = read(text)
    except InputError:
        return
    result = expression.evaluate(VALUES)
    assert result.dtype == np.float64
    np.broadcast_to(result, (2,))


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
@example("a in [a, [b]]")
@example("m == [x]")
@example("t == [none]")
@example("sum(part, k) > 1")
@example("[a] == [b]")
@example("- none")
@example("a[0] in t")
@example("count(m)")
@example("none == a")
@example("1 < none")
@example("m == 1")
@example("0/0 < 1")
@example("a == x")
@example("t == [" + "9" * 400 + "]")
def test_words_of_the_grammar_in_any_order_are_read_or_refused(text):
    read_or_refused(text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    read_or_refused(text)


def numbers():
    leaves = st.sampled_from(["a", "b", "1", "2.5", "0.125", "(a)", "7"])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from([" + ", " - ", " * "]), inner).map("".join),
            inner.map(lambda text: f"({text})"),
            inner.map(lambda text: f"-({text})"),
            st.tuples(inner, inner).map(lambda pair: f"max({pair[0]}, {pair[1]})"),
            inner.map(lambda text: f"abs({text})"),
        ),
        max_leaves=8,
    )


FUNCTIONS = {"max": max, "abs": abs, "min": min}


@settings(max_examples=200, deadline=None)
@given(numbers())
def test_arithmetic_means_what_python_means(text):
    got = np.broadcast_to(read(text).evaluate(VALUES), (2,))
    for position in range(2):
        names = {name: float(VALUES[name][position]) for name in "ab"}
        expected = eval(text, {"__builtins__": {}}, FUNCTIONS | names)
        assert math.isclose(got[position], expected, rel_tol=1e-9, abs_tol=1e-9)


COMPARISONS = st.builds(
    lambda left, operator, right: f"{left} {operator} {right}",
    st.sampled_from(["a", "b"]),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.sampled_from(["-1", "0", "2", "a", "b"]),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map("".join),
        inner.map(lambda text: f"not ({text})"),
        inner.map(lambda text: f"({text})"),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(CONDITIONS)
def test_conditions_mean_what_python_means(text):
    expression = read(text)
    met = np.broadcast_to(expression.violation(VALUES) <= 0, (2,))
    opposite = np.broadcast_to(read(f"not ({text})").violation(VALUES) <= 0, (2,))
    for position in range(2):
        names = {name: float(VALUES[name][position]) for name in "ab"}
        assert met[position] == eval(text, {"__builtins__": {}}, names)
        assert opposite[position] != met[position]
