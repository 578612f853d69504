"""What is maximized is negated in one place of the package."""

import ast
from pathlib import Path

import numpy as np
import pytest

import codesign
from codesign.base.metrics import METRICS, flipped, flipped_columns

ROOT = Path(codesign.__file__).parent
OWNER = "base/metrics.py"
"""The module that flips signs."""
OF_SOMETHING_ELSE = {
    "insight/uncertainty/uncertainty.py": "either end of a range, of every metric",
    "search/optimizers/improvement.py": "of all values of an objective, before their logarithm",
    "search/optimizers/prediction.py": "of all values of an objective, before their logarithm",
    "models/quantization/transformations.py": "random, of a matrix",
    "search/derived_metrics.py": "of the change of a metric, which gets better or worse",
    "space/nodes.py": "of an addend in an expression",
    "answers/accuracy.py": "of what a score measures: accuracy, or perplexity",
}
"""Where a sign that multiplies is not that of an objective, and of what it is."""
SENSES = {"minimize", "maximize"}


def multiplies_by_sign(node):
    """``x * item.sign``, ``signs[j] * x`` and the like."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Mult) and is_sign(node.value)
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult | ast.Div)
        and (is_sign(node.left) or is_sign(node.right))
    )


def is_sign(node):
    if isinstance(node, ast.Subscript):
        return is_sign(node.value)
    if isinstance(node, ast.Call):  # np.asarray(signs), self._sign(name)
        return is_sign(node.func) or any(map(is_sign, node.args))
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    of_numpy = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "np"
    return not of_numpy and name.strip("_") in ("sign", "signs")


def chooses_sign(node):
    """``1.0 if sense == "minimize" else -1.0`` and the like."""
    if isinstance(node, ast.Dict):
        keys = {getattr(key, "value", None) for key in node.keys}
        return keys == SENSES and all(map(is_unit, node.values))
    if not isinstance(node, ast.IfExp) or not (is_unit(node.body) and is_unit(node.orelse)):
        return False
    words = {getattr(item, "value", None) for item in ast.walk(node.test)}
    return bool(words & SENSES)


def is_unit(node):
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant) and value.value in (1, 1.0)


def flips(text):
    """Lines on which a sign is flipped."""
    for node in ast.walk(ast.parse(text)):
        if multiplies_by_sign(node) or chooses_sign(node):
            yield node.lineno


def test_signs_are_flipped_in_one_module_of_the_package():
    places = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sorted(ROOT.rglob("*.py"))
        if (lines := list(flips(path.read_text("utf-8"))))
    }
    assert places.keys() == {OWNER, *OF_SOMETHING_ELSE}, places


@pytest.mark.parametrize(
    "fault",
    [
        "x = item.sign * value",
        "x = values * signs",
        "x = signs[0] * values[:, 0]",
        "x = values * np.asarray(self.signs)",
        "x = self._sign(name) * values",
        "values *= metric.sign",
        "x = 1.0 if item.sense == 'minimize' else -1.0",
        "x = -1 if sense == 'maximize' else 1",
        "x = {'minimize': 1, 'maximize': -1}[sense]",
    ],
)
def test_a_sign_that_is_flipped_elsewhere_is_noticed(fault):
    assert list(flips(fault))


def test_flipping_twice_changes_nothing():
    power, speed = METRICS["tdp_watts"], METRICS["throughput_tokens_per_s"]
    assert power.flipped(700.0) == 700.0
    assert speed.flipped(50.0) == -50.0 and speed.flipped(-50.0) == 50.0
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    columns = flipped_columns(values, ("minimize", "maximize"))
    assert columns.tolist() == [[1.0, -2.0], [3.0, -4.0]]
    assert flipped_columns(columns, ("minimize", "maximize")).tolist() == values.tolist()
    assert flipped(values, "maximize").tolist() == (-values).tolist()
