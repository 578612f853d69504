"""Tighter limits as a filter of kept designs, against every design evaluated anew."""

import numpy as np
import pytest

from codesign.base.errors import InputError, JobError, StoreError, UnknownNameError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import Metric
from codesign.base.schema import Record
from codesign.search.enumeration import exact_front, kept_front, stored_kept_front
from codesign.search.enumeration.front_cache import front_path
from codesign.search.enumeration.kept import STEPS, keeping, usual_metrics
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem
from codesign.space import parse_space

SPACE = """
parameters:
  a: {low: 0, high: 9}
  b: {low: 0, high: 9}
  c: {low: 0, high: 9}
"""
METRICS = (
    Metric("speed_tokens", "maximize", "token", "how fast"),
    Metric("power_watts", "minimize", "W", "how hot"),
    Metric("area_units", "minimize", "", "how large"),
    Metric("life_years", "maximize", "year", "how long"),
)


class Drawn(Evaluator):
    """Metrics of a few values, drawn at random for every design, so that ties are frequent."""

    class Workload(Record):
        pass

    class Options(Record):
        pass

    metrics = METRICS
    required_parameters = frozenset("abc")
    optional_parameters = frozenset()

    def __init__(self, seed):
        self.seed = seed
        self.table = np.random.default_rng(seed).integers(0, 12, (1000, 4)).astype(float)
        self.table[:, 0] += self.table[:, 1]  # what is fast is hot
        self.unknown_life = False

    def known_violations(self, designs):
        return {}

    def evaluate(self, designs, metrics=None):
        a, b, c = (designs[name].lookup(float).astype(int) for name in "abc")
        columns = self.table[a * 100 + b * 10 + c].T
        values = {metric.name: x for metric, x in zip(self.metrics, columns, strict=True)}
        if self.unknown_life:
            values["life_years"] = np.where(values["power_watts"] < 2, np.nan, 1.0)
        wanted = list(values) if metrics is None else metrics
        return Evaluation({name: values[name] for name in wanted}, {})

    def provenance(self):
        return {"seed": self.seed}


OBJECTIVES = ("maximize speed_tokens", "minimize power_watts")
KEPT = ("area_units", "life_years")


def problem(seed=0, constraints=("power_watts <= 10",), evaluator=Drawn):
    return build_problem(parse_space(SPACE), evaluator(seed), OBJECTIVES, constraints, "drawn")


def front_by_hand(built):
    """(p, m) distinct objectives on the front of all designs, in lexicographic order."""
    observations = built.evaluate(built.space.rows(np.arange(built.space.size)))
    points = observations.objectives[observations.feasible]
    return np.unique(points[non_dominated(points)], axis=0)


def random_limits(rng):
    """Bounds on some of the metrics, at and between the values that there are."""
    bounds = {metric.name: float(rng.integers(0, 24)) / 2 for metric in METRICS}
    return {name: bound for name, bound in bounds.items() if rng.random() < 0.6}


def test_the_filter_is_the_front_of_every_design_within_tighter_limits(tmp_path):
    rng, n_points = np.random.default_rng(5), []
    for seed in range(4):
        kept = kept_front(problem(seed), KEPT, tmp_path / str(seed))
        for _ in range(40):
            limits = random_limits(rng)
            signs = {
                metric.name: "<=" if metric.sense == "minimize" else ">=" for metric in METRICS
            }
            texts = [f"{name} {signs[name]} {bound}" for name, bound in limits.items()]
            expected = front_by_hand(problem(seed, ("power_watts <= 10", *texts)))
            positions = kept.positions(limits)
            assert np.array_equal(kept.front.objectives[positions, :2], expected)
            n_points.append(len(expected))
    assert min(n_points) == 0 and max(n_points) > 4


def test_limits_in_whole_steps_are_exact_for_a_metric_that_counts_in_steps(tmp_path, monkeypatch):
    signs = {"area_units": "<=", "life_years": ">="}
    n_exact = len(kept_front(problem(), KEPT, tmp_path))
    for name in KEPT:
        monkeypatch.setitem(STEPS, name, 3.0)
    kept = kept_front(problem(), KEPT, tmp_path)
    assert len(kept) < n_exact
    for area, life in [(9, 3), (6, 3), (3, 0), (6, 6), (12, 9)]:
        limits = {"area_units": float(area), "life_years": float(life)}
        texts = [f"{name} {signs[name]} {bound}" for name, bound in limits.items()]
        expected = front_by_hand(problem(0, ("power_watts <= 10", *texts)))
        assert np.array_equal(kept.front.objectives[kept.positions(limits), :2], expected)
    assert len(stored_kept_front(problem(), tmp_path)) == len(kept)


def test_without_what_is_kept_the_filter_would_be_wrong(tmp_path):
    built = problem()
    front = exact_front(built, tmp_path)
    area = built.evaluate(front.representatives()).metrics["area_units"]
    limited = front_by_hand(problem(constraints=("power_watts <= 10", "area_units <= 3")))
    assert not np.array_equal(front.objectives[area <= 3], limited)


def test_of_equal_points_the_least_in_what_is_kept_comes_first(tmp_path):
    kept = kept_front(problem(), KEPT, tmp_path)
    for position in kept.positions({}).tolist():
        point = kept.front.objectives[position]
        ties = kept.front.objectives[(kept.front.objectives[:, :2] == point[:2]).all(axis=1)]
        assert tuple(point) == min(map(tuple, ties.tolist()))


def test_a_metric_that_is_not_kept_is_refused(tmp_path):
    kept = kept_front(problem(), ["area_units"], tmp_path)
    with pytest.raises(UnknownNameError, match="unknown kept metric 'life_years'"):
        kept.positions({"life_years": 3.0})


def test_the_stored_front_that_keeps_most_is_found_again_and_no_other(tmp_path):
    built = problem()
    assert stored_kept_front(built, tmp_path) is None
    exact_front(built, tmp_path)
    assert stored_kept_front(built, tmp_path) is None
    kept_front(built, ["area_units"], tmp_path)
    most = kept_front(built, ["life_years", "area_units"], tmp_path)
    found = stored_kept_front(built, tmp_path)
    assert found.kept == ("area_units", "life_years")  # in the evaluator's order
    assert np.array_equal(found.front.objectives, most.front.objectives)
    assert stored_kept_front(problem(seed=1), tmp_path) is None
    front_path(most.problem, tmp_path).write_bytes(b"cut short")
    with pytest.raises(StoreError, match=r"exact-.*\.npz: is damaged"):
        stored_kept_front(built, tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["area_unit"], "--keep: unknown metric 'area_unit'. Did you mean 'area_units'?"),
        (["power_watts"], "--keep: expected metrics that are no objectives, got none"),
    ],
)
def test_what_cannot_be_kept_is_refused(names, message):
    with pytest.raises(InputError) as caught:
        keeping(problem(), names, "--keep")
    assert message in str(caught.value)


def test_designs_that_lack_a_kept_metric_are_not_lost_in_silence(tmp_path):
    built = problem()
    built.evaluator.unknown_life = True
    with pytest.raises(JobError, match=r"life_years is not the exact one: .* no finite value"):
        kept_front(built, ["life_years"], tmp_path)


class Choosing(Drawn):
    """It chooses something so that limits on its life are kept."""

    def keep_limits(self, limits):
        return self

    def choosing_metrics(self, parameters):
        return frozenset({"life_years"}) if "a" in parameters else frozenset()


def test_a_metric_whose_limit_changes_designs_is_not_kept(tmp_path):
    built = problem(evaluator=Choosing)
    with pytest.raises(InputError, match="life_years: a tighter limit on it changes the batch"):
        keeping(built, ["life_years"])
    kept = kept_front(built, ["area_units"], tmp_path)
    assert [item.metric.name for item in kept.limitable] == [
        "speed_tokens", "power_watts", "area_units",
    ]  # fmt: skip


def test_the_usual_metrics_are_those_that_an_evaluator_has():
    sized = (*METRICS[:3], Metric("area_mm2", "minimize", "mm^2", "how large"))
    built = problem(evaluator=type("Sized", (Drawn,), {"metrics": sized}))
    assert usual_metrics(built) == ("area_mm2",)
    assert usual_metrics(problem()) == ()
    limited = build_problem(
        built.space, built.evaluator, ["minimize power_watts"], ["area_units <= 9"]
    )
    assert usual_metrics(limited) == ("area_units", "area_mm2")
