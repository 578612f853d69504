"""Comparison files: what they resolve to, and one clear line for what is wrong."""

from pathlib import Path

import pytest

import codesign
from codesign.base.errors import CodesignError
from codesign.base.schema import read_document
from codesign.insight.comparison import load_comparison
from codesign.search.campaign import load_definition

SHIPPED = sorted(Path(codesign.__file__).parents[1].glob("runs/compare-*.yaml"))


def test_each_problem_takes_the_search_of_the_comparison_and_all_else_of_its_campaign(write):
    write()
    resolved = load_comparison("compare-toys")
    assert [item.definition.name for item in resolved.problems] == ["flat", "round"]
    for item in resolved.problems:
        own = load_definition(item.definition.name)
        assert item.problem.provenance() == own.problem.provenance()
        assert item.reference_point == own.reference_point
        assert (item.definition.budget, item.definition.labels) == (
            16,
            ("nsga2", "sobol", "random"),
        )
        assert [entry.label for entry in item.optimizers] == ["nsga2", "sobol", "random"]


def test_targets_are_shares_or_percentages(write):
    write(targets=["50 %", 0.9])
    assert load_comparison("compare-toys").definition.targets == (0.5, 0.9)


def test_problems_of_one_evaluator_and_one_space_are_of_one_kind_unless_the_file_differs(write):
    write()
    assert load_comparison("compare-toys").kinds == ("benchmark-functions/grid",) * 2
    write(kinds={"bent": ["round"]})
    assert load_comparison("compare-toys").kinds == ("benchmark-functions/grid", "bent")


def test_costs_are_times_with_units(write):
    write(evaluation_costs=["5 ms", "2 min"])
    assert load_comparison("compare-toys").definition.evaluation_costs == (0.005, 120.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problems": ["flat", "rond"]}, r"problems.1: unknown campaign 'rond'. Did you mean 'rou"),
        ({"problems": ["flat", "flat"]}, r"problems.1: 'flat' is listed twice"),
        ({"problems": []}, r"problems: "),
        ({"problems": None}, r"problems: the key is required"),
        ({"optimizers": ["nsga3"]}, r"optimizers.0: unknown optimizer 'nsga3'. Did you mean 'nsg"),
        (
            {"optimizers": [{"name": "nsga2", "populaton": 9}]},
            r"optimizers.0.populaton: unknown key 'populaton'. Did you mean 'population'",
        ),
        ({"optimizers": ["random", "random"]}, r"optimizers.1: 'random' is used twice"),
        ({"budget": 3}, r"budget: expected at least the 6 initial"),
        ({"seeds": [1, 1]}, r"seeds: expected distinct seeds"),
        ({"targets": [0.9, 0.5]}, r"targets: expected ascending shares between 0 and 1"),
        ({"targets": [2]}, r"targets: expected ascending shares between 0 and 1"),
        ({"tuned_on": {"tpe": ["flat"]}}, r"tuned_on.tpe: unknown optimizer 'tpe'"),
        ({"tuned_on": {"nsga2": ["falt"]}}, r"tuned_on.nsga2: unknown campaign 'falt'.*'flat'"),
        ({"kinds": {"k": ["rond"]}}, r"kinds.k.0: unknown problem 'rond'. Did you mean 'round'"),
        (
            {"kinds": {"k": ["flat"], "j": ["round", "flat"]}},
            r"kinds.j.1: expected one kind, but 'flat' is of 'k' too",
        ),
        ({"kinds": {"k": []}}, r"kinds.k: "),
        ({"kinds": {"a/b": ["flat"]}}, r"kinds.a/b"),
        ({"evaluation_costs": ["1 min", "1 s"]}, r"evaluation_costs: expected ascending times, g"),
        ({"evaluation_costs": ["1 W"]}, r"evaluation_costs.0: .*1 W"),
        ({"evaluation_costs": [0]}, r"evaluation_costs.0: "),
        ({"evaluation_costs": []}, r"evaluation_costs: "),
        ({"buget": 3}, r"buget: unknown key 'buget'. Did you mean 'budget'"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(write, changes, message):
    write(**changes)
    with pytest.raises(CodesignError, match=r"compare-toys.yaml:\d+: " + message):
        load_comparison("compare-toys")


def test_an_error_in_a_problem_names_the_file_of_the_problem(write, folder):
    path = folder / "runs" / "flat.yaml"
    path.write_text(path.read_text().replace("minimize f2", "minimize f9"))
    write()
    with pytest.raises(CodesignError, match=r"runs/flat.yaml:\d+: objectives.1: unknown metric"):
        load_comparison("compare-toys")


def test_the_comparison_of_fidelities_differs_in_nothing_but_the_use_of_predictions():
    resolved = load_comparison("compare-fidelity")
    corrected, alone, _ = resolved.problems[0].optimizers
    assert corrected.options.predictions
    assert alone.options == corrected.options.model_copy(update={"predictions": False})
    assert all(item.problem.is_predicted for item in resolved.problems)


def test_shipped_comparisons_agree_on_what_optimizers_were_tuned_on():
    files = [read_document(path).data for path in SHIPPED]
    tuned_on = {}
    for data in files:
        for label, names in data.get("tuned_on", {}).items():
            tuned_on.setdefault(label, set()).update(names)
    assert "problem-mw14" in tuned_on["gp-ehvi"]
    for data in files:
        labels = {
            item if isinstance(item, str) else item.get("label", item["name"])
            for item in data["optimizers"]
        }
        for label in labels & set(tuned_on):
            compared = tuned_on[label] & set(data["problems"])
            listed = set(data.get("tuned_on", {}).get(label, ()))
            assert compared <= listed, f"{data['name']}: {label} was tuned on {compared - listed}"
