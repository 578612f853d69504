"""Reference points that tell nothing are named with the nearest value that does."""

import json
from dataclasses import replace

import pytest

from codesign.cli import main
from codesign.report.result_tables import reference_text
from codesign.search.campaign import Campaign
from codesign.search.campaign.reference_range import reference_warnings
from codesign.search.pareto import non_dominated

FAR = {"gain_tokens": -1e6, "power_watts": 1e6}
RARE = ["power_watts * 1 <= 102", "gain_tokens * 1 >= 48"]
"""Limits that hardly any design keeps, in a form from which no bound is read."""


@pytest.fixture
def ran(write):
    """A campaign of a few random designs, run."""

    def ran(**changes):
        write(optimizers=["toy-random"], budget=12, **changes)
        campaign = Campaign.load("toys")
        campaign.run(workers=1)
        return campaign

    return ran


def test_a_point_among_the_feasible_designs_is_no_warning(ran):
    results = ran(reference_point={"gain_tokens": 0, "power_watts": 300}).results()
    assert reference_warnings(results) == []
    assert "Warning" not in reference_text(results)


def test_a_point_that_was_not_stated_is_no_warning(ran):
    assert reference_warnings(ran().results()) == []


def test_a_point_beyond_every_feasible_design_is_named_with_the_nearest(ran):
    results = ran(reference_point={"gain_tokens": 0, "power_watts": 1}).results()
    assert not results.hypervolume.any()
    (warning,) = reference_warnings(results)
    front = results.metrics["power_watts"][results.front()]
    assert "so every hypervolume is 0" in warning
    assert warning.endswith(
        f"got power_watts 1 W; nearest: worse than power_watts {max(front):g} W"
    )
    assert warning in reference_text(results)


def test_designs_that_are_each_the_worst_in_something_ask_for_a_stated_point(ran):
    results = ran().results()
    points = results.objectives[results.feasible]
    of_extremes = replace(
        results,
        reference_point=dict(zip(results.problem.objective_names, (0.0, 1.0), strict=True)),
    )
    (warning,) = reference_warnings(of_extremes)
    worst = points[non_dominated(points)].max(axis=0)
    assert warning.startswith("every hypervolume is 0, for no feasible design is better in every")
    assert warning.endswith(
        f"worse than gain_tokens {-worst[0]:g} token, power_watts {worst[1]:g} W"
    )


def test_a_document_comes_with_the_warning_on_stderr(ran, capsys):
    ran(reference_point={"gain_tokens": 0, "power_watts": 1})
    assert main(["status", "front", "toys", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["schema"] == "codesign/pareto/1"
    assert "Warning: " in printed.err
    assert "so every hypervolume is 0" in printed.err


def test_a_point_far_behind_every_feasible_design_is_named_with_its_figure(ran):
    results = ran(reference_point=FAR).results()
    (warning,) = reference_warnings(results)
    assert warning.startswith("the first feasible design of a run has 100.0 % of the best hyperv")
    assert "(median of 2 runs)" in warning
    slowest = results.metrics["gain_tokens"][results.feasible].min()
    assert f"nearest: gain_tokens {slowest:g}" in warning


def test_without_a_feasible_design_there_is_nothing_to_compare_a_point_with(ran):
    assert (
        reference_warnings(ran(reference_point=FAR, constraints=["power_watts <= 1"]).results())
        == []
    )


def test_where_only_the_exact_front_is_feasible_it_gives_the_point(ran):
    campaign = ran(constraints=RARE, initial=4, reference_sample=4)
    before = campaign.results()
    assert not before.feasible.any()
    front = campaign.exact_front(workers=1)
    slowest = -front.objectives[:, 0].max()
    assert before.reference_point["gain_tokens"] < slowest  # of designs that break a limit
    for results in (campaign.exact_results(front), campaign.results()):
        assert results.reference_point["gain_tokens"] == slowest
    campaign.store_path.unlink()
    assert Campaign.load("toys").exact_results(front).reference_point["gain_tokens"] == slowest
