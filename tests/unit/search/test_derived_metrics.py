"""Metrics that a campaign derives: values, bounds, failures, and what is no definition of one."""

import re

import numpy as np
import pytest

from codesign.base.errors import InputError, JobError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.failures import Failure
from codesign.base.metrics import METRICS, Metric
from codesign.base.schema import Record
from codesign.search.derived_metrics import (
    MetricDefinition,
    default_place,
    definitions_of,
    read_metrics,
)
from codesign.search.enumeration import enumerate_front
from codesign.search.execution.answers import answers_of, observed_answers
from codesign.search.problem_builder import build_problem
from codesign.space import parse_space

SPACE = "parameters: {x: {low: 0, high: 9}, y: {low: 1, high: 10}}\nderived: {sum: x + y}"
RATE, AREA = METRICS["throughput_tokens_per_s"], METRICS["area_mm2"]
MARGIN = Metric("margin_watts", "maximize", "W", "may be negative")
DENSITY = {"value": f"{RATE.name} / {AREA.name}", "sense": "maximize", "unit": "token/s/mm^2"}


class Rates(Evaluator):
    """A rate and an area of two integers, with whatever protocols a test adds."""

    Workload = Options = Record
    metrics = (RATE, AREA, MARGIN)
    required_parameters = frozenset({"x", "y"})
    optional_parameters = frozenset()
    asked = None

    def known_violations(self, designs):
        return {}

    def evaluate(self, designs, metrics=None):
        self.asked = metrics
        x, y = (designs[name].lookup(float) for name in ("x", "y"))
        values = {RATE.name: 100.0 * y, AREA.name: 2.0 * x, MARGIN.name: x - y}
        return Evaluation({k: v for k, v in values.items() if metrics is None or k in metrics})

    def provenance(self):
        return {}


def problem(objectives=("maximize density",), constraints=(), evaluator=None, **metrics):
    definitions = {name: MetricDefinition(**item) for name, item in metrics.items()}
    definitions = definitions or {"density": MetricDefinition(**DENSITY, description="rate")}
    return build_problem(
        parse_space(SPACE), evaluator or Rates(), objectives, constraints, "rates",
        lambda *path: f"a:1: {path[-1]}", definitions,
    )  # fmt: skip


def every(built):
    return built.space.rows(np.arange(built.space.size))


def test_a_derived_metric_is_one_of_the_problem_with_its_unit():
    built = problem(["minimize area_mm2", "maximize density"], ["density >= 50 token/s/mm^2"])
    assert built.metrics[-1] == Metric("density", "maximize", "token/s/mm^2", "rate")
    seen = built.evaluate(every(built), built.deciding_metrics)
    assert built.evaluator.asked == (AREA.name, RATE.name)
    x, y = (built.space.columns(every(built))[name].lookup(float) for name in ("x", "y"))
    kept = x > 0
    np.testing.assert_allclose(seen.metrics["density"][kept], 50.0 * y[kept] / x[kept], rtol=1e-14)
    assert np.array_equal(seen.objectives[kept, 1], -seen.metrics["density"][kept])
    assert np.array_equal(seen.feasible, kept & (y >= x))
    assert built.constraints[0].is_limit and not built.evaluator_limits


def test_a_quantity_may_stand_beside_a_metric_as_that_of_a_baseline():
    built = problem(
        ["maximize speedup"], speedup={"value": f"{RATE.name} / 200 token/s", "sense": "maximize"}
    )
    seen = built.evaluate(every(built))
    assert np.array_equal(seen.metrics["speedup"], seen.metrics[RATE.name] / 200.0)


def test_a_value_that_is_not_finite_is_a_failed_design_with_its_reason():
    built = problem(["maximize density"])
    seen = built.evaluate(np.array([[0, 3], [1, 3]]))
    expression = "throughput_tokens_per_s / area_mm2"
    reason = f"{expression} with area_mm2 0, throughput_tokens_per_s 400"
    assert seen.failures == {0: Failure("bad-output", f"metric density is nan: {reason}")}
    limited = problem(["maximize throughput_tokens_per_s"], ["density >= 1"])
    assert limited.evaluate(np.array([[0, 3], [1, 3]])).failures == seen.failures
    free = problem(["maximize throughput_tokens_per_s"])
    seen = free.evaluate(np.array([[0, 3]]))
    assert not seen.failed.any() and np.isnan(seen.metrics["density"]).all()


def test_an_evaluator_that_lacks_a_source_is_a_failed_job(monkeypatch):
    built = problem()
    answer = Evaluation({RATE.name: np.ones(1)})
    monkeypatch.setattr(built.evaluator, "evaluate", lambda designs: answer)
    with pytest.raises(JobError, match="'rates' did not report area_mm2"):
        built.evaluate(np.array([[1, 3]]))


def test_an_answer_that_is_kept_has_the_evaluators_metrics_alone():
    built = problem(["maximize throughput_tokens_per_s"], ["density <= 70"])
    seen = built.evaluate(every(built)[10:])
    answers = answers_of(built, seen)
    assert set(answers[0]["metrics"]) == {metric.name for metric in Rates.metrics}
    again = observed_answers(built, seen.rows, answers)
    assert again.objectives.tobytes() == seen.objectives.tobytes()
    assert again.metrics["density"].tobytes() == seen.metrics["density"].tobytes()
    assert np.array_equal(again.feasible, seen.feasible)


class KeepsLimits(Rates):
    limits = None

    def keep_limits(self, limits):
        kept = KeepsLimits()
        kept.limits = dict(limits)
        return kept

    def choosing_metrics(self, parameters):
        return frozenset({AREA.name})


def test_an_evaluator_that_chooses_within_limits_hears_of_its_own_alone():
    limits = ["density >= 1", "area_mm2 <= 12"]
    built = problem(constraints=limits, evaluator=KeepsLimits())
    assert built.evaluator.limits == {"area_mm2": 12.0}
    assert problem(constraints=limits[:1], evaluator=KeepsLimits()).evaluator.limits is None


class Predicting(Rates):
    predicted = (RATE.name, AREA.name)

    def predict(self, designs, metrics):
        assert set(metrics) <= {metric.name for metric in self.metrics}
        exact = self.evaluate(designs, metrics).metrics
        return {name: exact[name] + 1.0 for name in metrics if name in self.predicted}


def test_what_is_predicted_of_its_sources_predicts_it(monkeypatch):
    built = problem(["maximize density"], ["density >= 70"], Predicting())
    rows = every(built)
    x, y = (built.space.columns(rows)[name].lookup(float) for name in ("x", "y"))
    predicted = (100.0 * y + 1.0) / (2.0 * x + 1.0)
    np.testing.assert_allclose(built.predictions(rows)[:, 0], -predicted, rtol=1e-14)
    assert np.array_equal(built.predicted_violations(rows)[:, 0] <= 0, predicted >= 70)
    monkeypatch.setattr(Predicting, "predicted", (RATE.name,))
    assert np.isnan(built.predictions(rows)).all()
    assert np.isnan(built.predicted_violations(rows)).all()


class Bounded(Rates):
    """Of ``x`` undecided, the least area and the largest margin are known."""

    undecided_parameters = ("x",)

    def interchangeable(self, parameter, values):
        return list(values)

    def best_case(self, designs, undecided, metrics):
        assert set(metrics) <= {metric.name for metric in self.metrics}
        y = designs["y"].lookup(float)
        x = np.array(undecided["x"], dtype=float)
        best = {RATE.name: 100.0 * y, AREA.name: 2.0 * x.min() + 0 * y, MARGIN.name: x.max() - y}
        return {name: best[name] for name in metrics}


@pytest.mark.parametrize(
    ("value", "unit", "sense", "expected"),
    [
        (f"{RATE.name} / ({AREA.name} + 2)", "token/s/mm^2", "maximize", [25.0, 50.0]),
        (f"{AREA.name} / {RATE.name}", "mm^2*s/token", "minimize", [0.02, 0.01]),
        (f"{RATE.name} / {AREA.name}", "token/s/mm^2", "minimize", [0.0, 0.0]),
        (f"-{RATE.name} * {AREA.name}", "token*mm^2/s", "minimize", [-1e300, -1e300]),
        (f"{MARGIN.name} * {AREA.name}", "W*mm^2", "maximize", [1e300, 1e300]),
        (f"{MARGIN.name} / {AREA.name}", "W/mm^2", "maximize", [4.0, 3.5]),
        (f"{AREA.name} / {MARGIN.name}", "mm^2/W", "minimize", [-1e300, -1e300]),
    ],
)
def test_a_bound_follows_from_those_of_the_sources_where_it_is_sound(value, unit, sense, expected):
    metric = {"value": value, "unit": unit, "sense": sense}
    built = problem([f"{sense} own"], evaluator=Bounded(), own=metric)
    columns = built.space.columns(np.array([[0, 0], [0, 1]]))
    undecided = {"x": [1, 9]}
    best = built.best_case({"y": columns["y"]}, undecided, ["own"])
    np.testing.assert_allclose(best["own"], expected, rtol=1e-12)


def test_no_bound_is_no_limit_broken():
    limits = ["own >= 0", "own <= 1e9 W*mm^2"]
    metric = {"value": f"{MARGIN.name} * {AREA.name}", "unit": "W*mm^2", "sense": "maximize"}
    built = problem(["maximize own"], limits, Bounded(), own=metric)
    columns = built.space.columns(np.array([[0, 0], [0, 1]]))
    best = built.best_case({"y": columns["y"]}, {"x": [1, 9]}, ["own"])
    assert (built.constraints[0].expression.violation(best) <= 0).all()


class Superseding(Rates):
    """A larger ``x`` is a larger margin, and changes nothing else."""

    undecided_parameters = ("x",)

    def interchangeable(self, parameter, values):
        return list(values)

    def best_case(self, designs, undecided, metrics):
        return {}

    def superseded(self, values, objectives):
        has_margin = MARGIN.name in objectives
        return {"x": [x < max(values["x"]) for x in values["x"]]} if has_margin else {}

    def evaluate(self, designs, metrics=None):
        x, y = (designs[name].lookup(float) for name in ("x", "y"))
        return Evaluation({RATE.name: 100.0 * y, AREA.name: 2.0 + 0 * x, MARGIN.name: x})


def test_a_value_that_is_superseded_for_the_evaluator_may_be_best_for_a_derived_metric():
    metric = {"value": f"{MARGIN.name} / {RATE.name}", "sense": "minimize", "unit": "W*s/token"}
    front = enumerate_front(
        problem(["maximize margin_watts", "minimize own"], evaluator=Superseding(), own=metric)
    )
    assert len(front) == 10
    goals = ["maximize margin_watts", "maximize throughput_tokens_per_s"]
    assert enumerate_front(problem(goals, evaluator=Superseding())).n_evaluated == 10


class FasterToo(Superseding):
    """A larger ``x`` is a larger margin and a higher rate."""

    def evaluate(self, designs, metrics=None):
        x = designs["x"].lookup(float)
        return Evaluation({RATE.name: 100.0 * x, AREA.name: 2.0 + 0 * x, MARGIN.name: x})


def test_a_value_that_is_superseded_may_be_best_where_an_objective_goes_the_other_way():
    goals = ["maximize margin_watts", "minimize throughput_tokens_per_s"]
    front = enumerate_front(problem(goals, evaluator=FasterToo()))
    assert len(front) == len({*front.objectives[:, 0].tolist()}) > 1


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("own", {"value": "throughput_token / area_mm2"}, "a:1: value: column 1: unknown name "
         "'throughput_token'. Did you mean 'throughput_tokens_per_s'?"),
        ("own", {"value": "x * area_mm2"}, "unknown name 'x'"),
        ("own", {"value": "throughput_tokens_per_s /"}, "column 26: expected a number or a name"),
        ("own", {"value": "3"}, "expected a number computed from metrics, got '3'"),
        ("own", {"value": "area_mm2 <= 3"}, "expected a number computed from metrics"),
        ("own", {"value": "area_mm2 + margin_watts"}, "they cannot be compared or added"),
        ("own", {"unit": "token/s"}, "is in token/s/m^2, got the unit 'token/s'"),
        ("own", {"unit": "token/s/mm2"}, "cannot read the unit 'token/s/mm2'; a power"),
        ("area_mm2", {}, "the evaluator has a metric 'area_mm2'; expected another name"),
        ("x", {}, "the space has a quantity 'x'; expected another name"),
        ("sum", {}, "the space has a quantity 'sum'; expected another name"),
        ("and", {}, "expected a name of letters, digits and '_' that is no word of expressions"),
        ("a-b", {}, "expected a name of letters, digits and '_'"),
        ("größe", {}, "expected a name of letters, digits and '_'"),
    ],
)  # fmt: skip
def test_what_is_no_definition_of_a_metric_is_refused(name, changes, message):
    with pytest.raises(InputError) as caught:
        problem([f"maximize {name}"], **{name: DENSITY | changes})
    assert len(caught.value.problems) == 1
    assert re.search(message.replace("^", r"\^"), caught.value.problems[0])


class WithoutArea(Rates):
    def absent_metrics(self, values):
        return {AREA.name: "nobody knows it"}


def test_what_is_derived_from_a_metric_that_designs_lack_is_refused():
    with pytest.raises(InputError, match="'maximize density': area_mm2 has no value for some"):
        problem(evaluator=WithoutArea())


def test_definitions_come_back_and_the_description_is_no_part_of_what_values_depend_on():
    built = problem()
    assert definitions_of(built.derived) == {
        "density": MetricDefinition(**DENSITY, description="rate")
    }
    assert built.provenance()["metrics"] == {"density": DENSITY}
    assert (
        "metrics"
        not in build_problem(parse_space(SPACE), Rates(), ["minimize area_mm2"]).provenance()
    )
    assert read_metrics({}, Rates.metrics, (), default_place) == ()
