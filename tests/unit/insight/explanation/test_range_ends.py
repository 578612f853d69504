"""Ends of ranges on a front, and the effect of one value beyond."""

import numpy as np
import pytest

from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import Metric
from codesign.insight.explanation.range_ends import range_ends
from codesign.report.front_lines import range_end_words
from codesign.search.enumeration import enumerate_front
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem
from codesign.space import parse_space

_SPACE = """
parameters:
  lanes: {values: [1, 2, 4], scale: log}
  layers: {low: 0, high: 2}
  array: [[16, 8], [32, 8], [32, 4]]
  policy: [near, far]
"""


class _Lanes(Evaluator):
    """Rate grows with everything; power grows faster with lanes than with depth."""

    metrics = (
        Metric("rate", "maximize", "token/s", "Rate."),
        Metric("watts", "minimize", "W", "Power."),
    )
    required_parameters = frozenset({"lanes", "layers", "array", "policy"})

    def evaluate(self, designs, metrics=None):
        """Rate and power."""
        lanes, layers = (designs[name].lookup(float) for name in ("lanes", "layers"))
        depth, width = (designs["array"].lookup(lambda x, k=k: float(x[k])) for k in (0, 1))
        rate = lanes * depth * (1 + layers) / (1 + designs["policy"].lookup(lambda x: x == "far"))
        return Evaluation({"rate": rate, "watts": lanes**1.5 * depth + width + 3 * layers})


def _problem(limit="watts <= 700"):
    objectives = ["maximize rate", "minimize watts"]
    return build_problem(parse_space(_SPACE), _Lanes(), objectives, [limit])


def _expected(front_rows, problem, name, change):
    """Best objectives and new points with one parameter changed in designs of the front."""
    points = []
    for design in problem.space.decode(front_rows):
        lanes, layers, (depth, width) = design["lanes"], design["layers"], design["array"]
        values = {"lanes": lanes, "layers": layers, "depth": depth, "width": width}
        if values[name] != change[0]:
            continue
        values[name] = change[1]
        lanes, layers, depth, width = values.values()
        watts = lanes**1.5 * depth + width + 3 * layers
        if watts <= 700:
            points.append((-lanes * depth * (1 + layers), watts))
    return np.array(points).reshape(-1, 2)


@pytest.mark.parametrize(
    ("parameter", "name", "change"),
    [
        ("lanes", "lanes", (4, 8)),
        ("layers", "layers", (2, 3)),
        ("array[0]", "depth", (32, 64)),
        ("array[0]", "depth", (16, 8)),
        ("array[1]", "width", (4, 2)),
    ],
)
def test_one_value_beyond_an_end_gains_what_the_moved_designs_gain(parameter, name, change):
    problem = _problem()
    front = enumerate_front(problem)
    ends = {(end.parameter, end.end): end for end in range_ends(problem, front, 0.0)}
    end = ends[parameter, change[0]]
    assert end.beyond == change[1]
    new = _expected(front.rows, problem, name, change)
    assert end.n_feasible == len(np.unique(new, axis=0)) == len(new)
    joined = np.unique(np.concatenate([front.objectives, new]), axis=0)
    joined = joined[non_dominated(joined)]
    assert end.best == pytest.approx(joined.min(axis=0))
    old = {tuple(point) for point in front.objectives.round(9)}
    assert end.n_new == sum(tuple(point) not in old for point in joined.round(9))


def test_an_end_without_a_value_beyond_is_said_and_names_have_no_ends():
    problem = _problem()
    ends = range_ends(problem, enumerate_front(problem), 0.0)
    assert {(end.parameter, end.end) for end in ends if end.beyond is None} == {
        ("lanes", 1),
        ("layers", 0),
    }
    assert not any(end.parameter == "policy" for end in ends)


def test_the_line_names_what_improves_or_says_that_nothing_does():
    problem = _problem()
    line = range_end_words(problem, enumerate_front(problem), 0.02)
    assert line.startswith("One step beyond the ends of ranges: ")
    assert "array depth 64 gives at best rate 768 token/s instead of 384 token/s" in line
    tight = _problem("watts <= 21")
    narrow = build_problem(
        tight.space.fix({"lanes": 1, "layers": 0}), _Lanes(), ["minimize watts"], ()
    )
    front = enumerate_front(narrow)
    assert "instead of" in range_end_words(narrow, front, 0.02)
    assert "gains less than 99 %" in range_end_words(narrow, front, 0.99)
