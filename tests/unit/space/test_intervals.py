"""No value of an expression is beyond the interval that is computed for it, to the last bit."""

import numpy as np
import pytest

from codesign.base.units import parse_unit
from codesign.space import parse_expression
from codesign.space.intervals import interval_of, trend_of

NAMES = ("a", "b", "c")
OPERATORS = np.array(["+", "-", "*", "/"])
ANYTHING = (-np.inf, np.inf)


def random_expression(rng, depth=3):
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice([*NAMES, "3", "0.1", "-b"]))
    left, right = (random_expression(rng, depth - 1) for _ in range(2))
    if rng.random() < 0.15:
        return f"{rng.choice(['min', 'max'])}({left}, {right})"
    return f"({left} {rng.choice(OPERATORS)} {right})"


def parsed(text):
    return parse_expression(text, dict.fromkeys(NAMES, parse_unit("")))


@pytest.mark.parametrize("seed", range(40))
def test_no_finite_value_is_beyond_the_interval(seed):
    rng = np.random.default_rng(seed)
    expression = parsed(random_expression(rng))
    # Points with zeros, tiny and large numbers; of some names an end of the interval is unknown.
    shift = rng.choice([0.0, 1.0, 5.0], len(NAMES))
    points = {
        name: rng.choice([0.0, 1e-300, 0.3, 1.0, 7.0, 1e200, -2.0], 400) + shift[i]
        for i, name in enumerate(NAMES)
    }
    ends = {
        name: (
            np.asarray(-np.inf if rng.random() < 0.3 else values.min()),
            np.asarray(np.inf if rng.random() < 0.3 else values.max()),
        )
        for name, values in points.items()
    }
    low, high = interval_of(expression.node, ends)
    assert not np.isnan(low) and not np.isnan(high)
    values = expression.evaluate(points)
    finite = values[np.isfinite(values)]
    assert (low <= finite).all() and (finite <= high).all()


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("a / b", (0.5, 4.0)),
        ("a * b - 3", (1.0, 29.0)),
        ("-a", (-8.0, -2.0)),
        ("c / a", (0.0, np.inf)),
        ("c * c", (0.0, np.inf)),
        ("a / c", (0.0, np.inf)),
        ("a / (b - 3)", ANYTHING),
        ("a / (b - 4)", ANYTHING),
        ("a / (b - 2)", (1.0, np.inf)),
        ("max(a, 3) + min(b, 1)", (4.0, 9.0)),
        ("abs(a)", ANYTHING),
    ],
)
def test_intervals_are_as_narrow_as_those_of_the_names_say(text, ends):
    names = {
        "a": (np.asarray(2.0), np.asarray(8.0)),
        "b": (np.asarray(2.0), np.asarray(4.0)),
        "c": (np.asarray(0.0), np.asarray(np.inf)),
    }
    assert tuple(float(end) for end in interval_of(parsed(text).node, names)) == ends


@pytest.mark.parametrize("seed", range(60))
def test_a_value_follows_the_trend_of_its_expression(seed):
    rng = np.random.default_rng(seed)
    expression = parsed(random_expression(rng))
    directions = dict(zip(NAMES, rng.choice([-1, 1], len(NAMES)).tolist(), strict=True))
    trend, is_amount = trend_of(expression.node, {k: (v, True) for k, v in directions.items()})
    first = {name: rng.uniform(0.5, 2.0, 200) for name in NAMES}
    steps = {name: directions[name] * rng.uniform(0.0, 0.4, 200) for name in NAMES}
    before = np.broadcast_to(expression.evaluate(first), 200)
    after = expression.evaluate({name: first[name] + steps[name] for name in NAMES})
    assert not is_amount or (before >= 0).all()
    change = 0.0 if trend is None else trend * (after - before)
    assert np.min(change) >= 0.0
    assert trend != 0 or (after == before).all()


@pytest.mark.parametrize(
    ("text", "trend"),
    [("a / b", 1), ("a * 2 - b", 1), ("a + b", None), ("max(a, 3) / b", 1), ("3 * 2", 0),
     ("(a - b) * a", None), ("b / a", -1)],
)  # fmt: skip
def test_the_trend_of_simple_expressions_is_found(text, trend):
    assert trend_of(parsed(text).node, {"a": (1, True), "b": (-1, True)})[0] == trend
