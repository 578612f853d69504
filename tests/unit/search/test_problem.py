"""A problem joins designs and evaluator, minimizes, and takes whatever an evaluator does."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from codesign.base.errors import InputError, JobError
from codesign.base.failures import Failure
from codesign.base.metrics import METRICS
from codesign.base.units import parse_unit
from codesign.search.problem import Objective, bound_on, cost_column
from codesign.search.problem_builder import build_problem
from codesign.space import parse_expression, parse_space

SPACE = """
parameters:
  x: {low: 0, high: 29}
  y: {low: 0, high: 29}
derived:
  area: x * y
constraints: [x + y <= 56]
"""
OBJECTIVES = ("maximize gain_tokens", "minimize power_watts")


def _toys():
    path = Path(__file__).parent / "campaign" / "plugins" / "toy_plugins.py"
    specification = importlib.util.spec_from_file_location("toys_of_test_problem", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


ToyEvaluator = _toys().ToyEvaluator


def problem(constraints=(), objectives=OBJECTIVES, space=SPACE, **options):
    evaluator = ToyEvaluator(ToyEvaluator.Workload(), ToyEvaluator.Options(**options))
    return build_problem(parse_space(space), evaluator, objectives, constraints, "toy")


def every(built):
    return built.space.rows(np.arange(built.space.size))


def values(built, rows):
    return (built.space.columns(rows)[name].lookup(float) for name in ("x", "y"))


def test_what_is_maximized_is_negated_and_nothing_else():
    built = problem()
    seen = built.evaluate(every(built))
    assert np.array_equal(seen.objectives[:, 0], -seen.metrics["gain_tokens"])
    assert np.array_equal(seen.objectives[:, 1], seen.metrics["power_watts"])
    contrary = problem(objectives=("minimize gain_tokens", "maximize power_watts"))
    again = contrary.evaluate(every(contrary))
    assert np.array_equal(again.objectives, -seen.objectives)


def test_constraints_on_metrics_are_violations_and_others_are_known_before():
    built = problem(["power_watts <= 300 W", "area <= 100", "x >= 2 or gain_tokens > 30"])
    assert [item.is_known for item in built.constraints] == [False, True, False]
    rows = every(built)
    x, y = values(built, rows)
    assert np.array_equal(built.admits(rows), (x * y <= 100) & (x + y <= 55))
    seen = built.evaluate(rows)
    assert seen.violation_names == ("heat", "power_watts <= 300 W", "x >= 2 or gain_tokens > 30")
    power, gain = seen.metrics["power_watts"], seen.metrics["gain_tokens"]
    assert np.array_equal(seen.violations[:, 1] <= 0, power <= 300)
    assert np.array_equal(seen.feasible, (power <= 300) & ((x >= 2) | (gain > 30)))


@pytest.mark.parametrize(
    ("objectives", "cost"),
    [
        (["+throughput_tokens_per_s", "-tdp_watts"], 1),
        (["-tdp_watts", "+throughput_tokens_per_s"], 0),
        (["+throughput_tokens_per_s", "-time_to_first_token_s", "-tdp_watts"], 2),
        (["+throughput_tokens_per_s", "+tokens_per_joule"], 1),
        (["-tdp_watts"], 0),
        (["-energy_joules_per_token", "-time_per_output_token_s"], 0),
        (["-time_to_first_token_s", "-time_per_output_token_s"], 1),
    ],
)
def test_the_cost_is_the_last_objective_to_minimize_that_is_no_time(objectives, cost):
    senses = {"+": "maximize", "-": "minimize"}
    listed = [Objective(METRICS[name[1:]], senses[name[0]]) for name in objectives]
    assert cost_column(listed) == cost


def test_a_row_outside_the_space_is_not_admitted():
    built = problem()
    rows = np.array([[3, 3], [30, 3], [-1, 3], [29, 29]])
    assert built.admits(rows).tolist() == [True, False, False, False]
    assert built.admits(rows[:0]).tolist() == []


def test_a_batch_is_its_designs_one_by_one_also_where_the_evaluator_fails():
    built = problem(["power_watts <= 300"], raise_on=[3, 17], nan_on=[5], inf_on=[6, 7])
    rows = every(built)[::7]
    together = built.evaluate(rows)
    x, _ = values(built, rows)
    assert np.array_equal(together.failed, np.isin(x, [3, 17, 5, 6, 7]))
    for i, row in enumerate(rows):
        alone = built.evaluate(row[None, :])
        np.testing.assert_array_equal(alone.objectives[0], together.objectives[i])
        np.testing.assert_array_equal(alone.metrics["spare"][0], together.metrics["spare"][i])
        assert alone.failures.get(0) == together.failures.get(i)
        if i not in together.failures:
            np.testing.assert_array_equal(alone.violations[0], together.violations[i])


def test_an_evaluator_that_fails_on_no_designs_ends(monkeypatch):
    built = problem()
    monkeypatch.setattr(type(built.evaluator), "evaluate", lambda *_: 1 / 0)
    assert built.evaluate(every(built)[:0]).failures == {}


def test_failed_designs_have_a_reason_and_no_numbers():
    built = problem(raise_on=[3], nan_on=[5], inf_on=[6], give_up_on=[7])
    rows = np.array([[x, 2] for x in (2, 3, 5, 6, 7)])
    seen = built.evaluate(rows)
    assert seen.failures == {
        1: Failure("failed", "ZeroDivisionError: the toy broke (toy_plugins.py:60)"),
        2: Failure("bad-output", "metric gain_tokens is nan"),
        3: Failure("bad-output", "metric power_watts is inf"),
        4: Failure("failed", "gave up on 7"),
    }
    assert seen.feasible.tolist() == [True, False, False, False, False]
    assert np.isnan(seen.objectives[1:]).all()
    assert np.isnan(seen.violations[1:]).all()
    assert all(np.isnan(numbers[1:]).all() for numbers in seen.metrics.values())


def test_finding_one_design_that_raises_takes_few_calls():
    built = problem(raise_on=[3])
    rows = np.array([[x, y] for y in range(1) for x in range(30)])
    built.evaluate(rows)
    assert len(built.evaluator.calls) <= 1 + 2 * np.ceil(np.log2(30))
    assert all(built.evaluate(np.full((4, 2), 3)).failed)


def test_a_metric_that_is_no_objective_may_be_missing():
    seen = problem().evaluate(np.array([[2, 2], [3, 2]]))
    assert not seen.failed.any()
    assert np.isnan(seen.metrics["spare"]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("misbehave", "message"),
    [
        ("shape", r"'toy' returned power_watts with shape \(4,\), but expected \(5,\) numbers"),
        ("absent", "'toy' did not report power_watts"),
        ("unknown", "'toy' reported an unknown metric 'powr_watts'. Did you mean 'power_watts'"),
    ],
)
def test_an_answer_of_the_wrong_form_is_a_failed_job(misbehave, message):
    built = problem(misbehave=misbehave)
    with pytest.raises(JobError, match=message):
        built.evaluate(np.full((5, 2), 3))


def test_an_evaluator_that_cannot_tell_its_known_violations_is_a_failed_job(monkeypatch):
    built = problem()
    monkeypatch.setattr(built.evaluator, "known_violations", lambda designs: 1 / 0)
    with pytest.raises(JobError, match="'toy' failed on known_violations: ZeroDivisionError"):
        built.admits(every(built))


def test_what_the_evaluator_tells_in_advance_is_handed_on(monkeypatch):
    built = problem()
    assert built.features(every(built)) == {}

    def tell(self, designs):
        return {"x": designs["x"].lookup(float)}

    monkeypatch.setattr(ToyEvaluator, "features", tell, raising=False)
    x, _ = values(built, every(built))
    assert np.array_equal(built.features(every(built))["x"], x)


@pytest.mark.parametrize(
    ("tell", "message"),
    [
        (lambda self, designs: 1 / 0, "'toy' failed on features: ZeroDivisionError"),
        (lambda self, designs: {"x": 1.0}, r"returned x with shape \(\), but expected"),
        (lambda self, designs: {"x": ["a"]}, "returned x, but not as numbers: .* 'a'"),
    ],
)
def test_an_evaluator_that_tells_nonsense_in_advance_is_a_failed_job(tell, message, monkeypatch):
    built = problem()
    monkeypatch.setattr(ToyEvaluator, "features", tell, raising=False)
    with pytest.raises(JobError, match=message):
        built.features(every(built))


def test_what_a_cheaper_model_predicts_is_to_be_minimized(monkeypatch):
    built = problem()
    rows = every(built)
    assert not built.is_predicted
    with pytest.raises(JobError, match="'toy' predicts nothing"):
        built.predictions(rows)
    names = [objective.metric.name for objective in built.objectives]

    def predict(self, designs, metrics):
        assert list(metrics) == names
        return dict.fromkeys(metrics, designs["x"].lookup(float))

    monkeypatch.setattr(ToyEvaluator, "predict", predict, raising=False)
    x, _ = values(built, rows)
    signs = [{"minimize": 1, "maximize": -1}[objective.sense] for objective in built.objectives]
    assert built.is_predicted
    assert len(set(signs)) == 2
    assert np.array_equal(built.predictions(rows), x[:, None] * signs)


@pytest.mark.parametrize(
    ("tell", "message"),
    [
        (lambda self, designs, names: 1 / 0, "'toy' failed on predict: ZeroDivisionError"),
        (lambda self, designs, names: dict.fromkeys(names, 1.0), r"shape \(\), but expected"),
        (
            lambda self, designs, names: dict.fromkeys(names, np.full(len(designs["x"]), np.nan)),
            "'toy' predicted what is not finite",
        ),
    ],
)
def test_a_cheaper_model_that_predicts_nonsense_is_a_failed_job(tell, message, monkeypatch):
    built = problem()
    monkeypatch.setattr(ToyEvaluator, "predict", tell, raising=False)
    with pytest.raises(JobError, match=message):
        built.predictions(every(built))


def test_an_objective_that_is_not_predicted_is_nan(monkeypatch):
    built = problem()
    x, _ = values(built, every(built))

    def predict(self, designs, names):
        return {"power_watts": designs["x"].lookup(float)}

    monkeypatch.setattr(ToyEvaluator, "predict", predict, raising=False)
    gain, power = built.predictions(every(built)).T
    assert np.isnan(gain).all()
    assert np.array_equal(power, x)


def test_only_limits_whose_metrics_are_all_predicted_are_predicted(monkeypatch):
    limits = ["power_watts <= 9", "gain_tokens <= 4", "x <= 20"]
    built = problem(limits)
    rows = every(built)
    x, _ = values(built, rows)

    def predict(self, designs, names):
        return {"power_watts": designs["x"].lookup(float)}

    monkeypatch.setattr(ToyEvaluator, "predict", predict, raising=False)
    power_limit, gain_limit = built.predicted_violations(rows).T
    assert np.isnan(gain_limit).all()
    assert np.array_equal(power_limit <= 0, x <= 9)
    assert problem(["x <= 20"]).predicted_violations(rows).shape == (len(rows), 0)


def test_a_large_batch_is_one_call_of_the_evaluator():
    built = problem(["power_watts <= 300"])
    rows = np.repeat(every(built), 75, axis=0)[:65_536]
    assert len(built.evaluate(rows).objectives) == 65_536
    assert built.evaluator.calls == [65_536]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objectives": ["maximise gain_tokens"]}, "sense 'maximise'. Did you mean 'maximize'"),
        ({"objectives": ["maximize gain_token"]}, "'gain_token'. Did you mean 'gain_tokens'"),
        ({"objectives": ["gain_tokens"]}, "expected 'minimize METRIC' or 'maximize METRIC', got"),
        ({"objectives": []}, "at least one objective"),
        ({"objectives": ["maximize spare"] * 2}, "'spare' is an objective more than once"),
        ({"constraints": ["power_wats <= 3"]}, "power_wats.*Did you mean 'power_watts'"),
        ({"constraints": ["power_watts <= 3 GB"]}, "GB"),
        ({"constraints": ["power_watts + 1"]}, "expected a condition"),
        ({"constraints": ["power_watts <="]}, "column 15: expected a number"),
        ({"space": "parameters: {x: [1, 2]}"}, "lacks parameter 'y', which evaluator 'toy' req"),
        ({"space": "parameters: {x: [1], y: [2], kinds: [3]}"}, "Did you mean 'kind'"),
        ({"space": "parameters: {x: [1], y: [2], spare: [3]}"}, "the name of a metric"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        problem(**changes)


def test_a_parameter_that_the_evaluator_reads_may_have_the_name_of_a_metric(monkeypatch):
    monkeypatch.setattr(ToyEvaluator, "optional_parameters", frozenset({"spare"}))
    built = problem(space="parameters: {x: [1], y: [2], spare: [3]}")
    assert built.evaluate(every(built)).feasible.all()


def test_all_problems_are_reported_together_with_their_places():
    evaluator = ToyEvaluator(ToyEvaluator.Workload(), ToyEvaluator.Options())
    with pytest.raises(InputError) as caught:
        build_problem(
            parse_space("parameters: {x: [1]}"), evaluator, ["maximize gain"], ["watts < 1"], "toy",
            lambda key, *_: f"a:{key}",
        )  # fmt: skip
    places = [line.split(": ")[0] for line in caught.value.problems]
    assert places == ["a:space", "a:objectives", "a:constraints"]


def test_the_provenance_says_what_the_numbers_depend_on():
    said = problem(["power_watts <= 300"]).provenance()
    assert said["objectives"] == list(OBJECTIVES)
    assert said["constraints"] == ["power_watts <= 300"]
    assert said["evaluator"]["name"] == "toy"
    assert said["evaluator"]["scale"] == 1.0
    assert said["space"] == parse_space(SPACE).provenance()


@pytest.mark.parametrize("bound", ["800", "800 mm^2", "8 cm^2"])
def test_a_bound_is_in_the_unit_of_its_metric_whatever_unit_the_limit_has(bound):
    area = METRICS["area_mm2"]
    limit = parse_expression(f"area_mm2 <= {bound}", {"area_mm2": parse_unit("mm^2")})
    assert bound_on(area, "minimize", limit) == pytest.approx(800.0)
    assert bound_on(area, "maximize", limit) is None
