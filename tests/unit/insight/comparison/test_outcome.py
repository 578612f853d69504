"""A comparison that was run: shares of closed-form fronts, resuming, partial reports."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from codesign.base.errors import CodesignError, InputError, JobError
from codesign.evaluators.functions import BenchmarkFunctions, exact_front
from codesign.insight.comparison import Comparison, rank_optimizers
from codesign.insight.comparison.attainment import attainment_surfaces
from codesign.insight.comparison.notes import outcome_notes
from codesign.insight.comparison.outcome import area_under, distances, measure_run
from codesign.insight.comparison.ranking import rank_on
from codesign.insight.comparison.run_time import run_time
from codesign.insight.comparison.truth import Truth
from codesign.report.comparison_document import write_files
from codesign.report.comparison_tables import write_tables
from codesign.search.pareto import hypervolume

POSITIONS = np.linspace(0, 1, 9)[:, None]


def test_the_hundred_percent_are_the_closed_form_front(finished):
    outcome = finished.outcome()
    bounds = {"zdt1": (1.1, 11.0), "dtlz2": (2.0, 2.0)}
    for problem, (function, bound) in zip(outcome.problems, bounds.items(), strict=True):
        front = exact_front(function, POSITIONS)
        assert problem.truth.kind == "exact"
        assert problem.truth.n_designs == 81
        assert np.allclose(problem.truth.objectives, front, atol=1e-12)
        assert problem.best_hypervolume == pytest.approx(hypervolume(front, np.array(bound)))


def test_the_share_is_the_hypervolume_of_what_was_evaluated(finished):
    outcome = finished.outcome()
    for problem, campaign in zip(outcome.problems, finished.campaigns, strict=True):
        results = campaign.results()
        bound = np.array(list(results.reference_point.values()))
        for index, run in enumerate(problem.runs):
            ours = results.objectives[results.run_index == index]
            for n in (1, 7, 16):
                expected = hypervolume(ours[:n], bound) / problem.best_hypervolume
                assert run.share[n - 1] == pytest.approx(expected)
            assert (run.n_evaluated, run.n_duplicates, run.n_failed) == (16, 0, 0)
            assert run.regret == pytest.approx(1 - run.share[-1])
            assert run.area == pytest.approx(run.share[6:].mean())


def test_all_optimizers_of_a_seed_begin_with_the_same_share(finished):
    for problem in finished.outcome().problems:
        starts = np.array([problem.shares(label)[:, :6] for label in ("nsga2", "sobol", "random")])
        assert (starts == starts[0]).all()


def test_a_run_that_evaluates_the_whole_space_reaches_everything(write):
    write(budget=81, optimizers=["random"], seeds=1)
    comparison = Comparison.load("compare-toys")
    comparison.run()
    for problem in comparison.outcome().problems:
        (run,) = problem.runs
        assert run.final_share == pytest.approx(1.0)
        assert run.epsilon == pytest.approx(0.0, abs=1e-12)
        assert run.igd_plus == pytest.approx(0.0, abs=1e-12)
        assert None not in run.evaluations_to.values()


def test_a_budget_above_the_space_is_padded(write):
    write(budget=100, optimizers=["random"], seeds=1)
    comparison = Comparison.load("compare-toys")
    comparison.run()
    (run,) = comparison.outcome().problems[0].runs
    assert run.n_evaluated == 81
    assert len(run.share) == 100


def test_epsilon_and_igd_plus_are_those_of_the_moocore_manual_after_scaling():
    # moocore's example, with the second objective in another unit.
    points = np.array([[3.5, 5.5], [3.6, 4.1], [4.1, 3.2], [5.5, 1.5]])
    best = np.array([[1.0, 6], [2, 5], [3, 4], [4, 3], [5, 2], [6, 1]])
    truth = Truth("exact", best * [1, 1000], 6, 6)
    epsilon, igd_plus = distances(points * [1, 1000], truth)
    # The front's ranges are 5 and 5,000.
    assert epsilon == pytest.approx(2.5 / 5)
    assert igd_plus == pytest.approx(0.9855036468106652 / 5)
    assert distances(np.empty((0, 2)), truth) == (None, None)


def test_a_run_beyond_the_exact_front_is_an_error_and_not_a_record(finished):
    results = finished.campaigns[0].results()
    truth = finished.outcome().problems[0].truth
    short = Truth("exact", truth.objectives[:1], truth.n_designs, 1)
    with pytest.raises(JobError, match="found more hypervolume than the exact front has"):
        for index in range(len(results.runs)):
            time = run_time(results, index, finished.campaigns[0].timings())
            measure_run(results, index, short, finished.definition, time)


def test_a_space_that_is_too_large_is_measured_against_the_best_known_and_says_so(write):
    write(exact_up_to=80)
    comparison = Comparison.load("compare-toys")
    comparison.run()
    outcome = comparison.outcome()
    assert {problem.truth.kind for problem in outcome.problems} == {"best known"}
    assert any(
        note.startswith("no exact front (too many designs) of flat, round")
        for note in outcome.notes
    )
    best = max(run.final_share for run in outcome.problems[0].runs)
    assert best <= 1.0
    everything = np.concatenate([run.front for run in outcome.problems[0].runs])
    bound = np.array([1.1, 11.0])
    assert outcome.problems[0].best_hypervolume == pytest.approx(hypervolume(everything, bound))


def test_problems_that_were_tuned_on_are_shown_and_not_ranked(write):
    write(tuned_on={"nsga2": ["flat"]})
    comparison = Comparison.load("compare-toys")
    comparison.run()
    outcome = comparison.outcome()
    assert [problem.tuned for problem in outcome.problems] == [("nsga2",), ()]
    assert [problem.name for problem in outcome.ranked] == ["round"]
    assert rank_optimizers(outcome).blocks == ("benchmark-functions/grid",)
    assert any("left out of ranks" in note for note in outcome.notes)


def test_problems_with_rules_that_a_peer_is_not_told_are_shown_and_not_ranked(finished):
    outcome = finished.outcome()
    first, second = outcome.problems
    uninformed = replace(first, uninformed=("smac",))
    assert replace(outcome, problems=(uninformed, second)).ranked == (second,)
    assert replace(outcome, problems=(uninformed,)).ranked == (uninformed,)
    notes = outcome_notes(outcome.definition, (uninformed, second))
    assert any("cannot express every rule of the space: flat (smac)" in note for note in notes)


def test_where_all_problems_were_tuned_on_that_is_said(write):
    write(tuned_on={"nsga2": ["flat", "round"]})
    comparison = Comparison.load("compare-toys")
    comparison.run()
    outcome = comparison.outcome()
    assert len(outcome.ranked) == 2
    assert any("none is held back" in note for note in outcome.notes)


def test_one_seed_and_one_problem_say_what_cannot_be_said(write):
    write(seeds=1, problems=["flat"])
    comparison = Comparison.load("compare-toys")
    comparison.run()
    outcome = comparison.outcome()
    assert rank_on(outcome.problems[0], outcome.labels).pairs == ()
    assert rank_optimizers(outcome).pairs == ()
    text = " ".join(outcome.notes)
    assert "one seed" in text
    assert "one problem" in text


def test_the_attainment_surface_of_half_of_two_runs_is_what_either_attained(write):
    write(seeds=2, problems=["flat"], optimizers=["random"])
    comparison = Comparison.load("compare-toys")
    comparison.run()
    (problem,) = comparison.outcome().problems
    fronts = [run.front for run in problem.runs]
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 23), np.linspace(0, 9, 29)), -1).reshape(-1, 2)

    def attained(points):
        return (points[None] <= grid[:, None]).all(axis=2).any(axis=1)

    counts = sum(attained(front).astype(int) for front in fronts)
    surfaces = attainment_surfaces(problem, "random", [50.0, 100.0])
    assert (attained(surfaces[50.0]) == (counts >= 1)).all()
    assert (attained(surfaces[100.0]) == (counts == 2)).all()


def _digest(folder):
    """Of all that a comparison stores, but for wall times."""
    from codesign.search.campaign.store_file import open_store

    digest = hashlib.sha256()
    for path in sorted(folder.rglob("campaign.sqlite")):
        with open_store(path) as store:
            stored = store.read()
            numbers = store.layout.numbers_of(stored.observations)
            rows = stored.observations.rows
            for part in (stored.run, stored.step, rows, numbers, stored.hypervolume):
                digest.update(part.tobytes())
    return digest.hexdigest()


def _report(comparison, folder):
    """Bytes of every file of a comparison that does not tell wall times."""
    outcome = comparison.outcome()
    files = [*write_files(outcome, folder), *write_tables(outcome, folder)]
    return {path.name: path.read_bytes() for path in files}


@pytest.mark.parametrize("breaks", [(2, 11), pytest.param((40,), marks=pytest.mark.slow)])
def test_a_broken_off_comparison_goes_on_to_the_same_results(write, folder, breaks, ctrl_c):
    write(kinds={"bent": ["round"]}, seeds=2)
    whole = Comparison.load("compare-toys", folder / "whole")
    whole.run()
    expected = _report(whole, folder / "report")
    for batches in breaks:
        root = folder / f"parts-{batches}"
        ctrl_c(batches)
        with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
            Comparison.load("compare-toys", root).run()
        with pytest.raises(InputError, match=r"of 12 runs are not finished; .* goes on"):
            Comparison.load("compare-toys", root).outcome()
        again = Comparison.load("compare-toys", root)
        again.run(workers=2 if batches == 40 else 1)
        assert _digest(root) == _digest(folder / "whole")
        assert _report(again, root / "report") == expected


def test_a_partial_report_takes_the_seeds_that_every_optimizer_finished(write, folder, ctrl_c):
    write(kinds={"bent": ["round"]})
    comparison = Comparison.load("compare-toys")
    ctrl_c(after=100)
    with pytest.raises(KeyboardInterrupt):
        comparison.run()
    done = {
        (status.name, item.run.optimizer, item.run.seed)
        for status in comparison.status()
        for item in status.runs
        if item.state == "complete"
    }
    expected = {
        name: [
            seed
            for seed in range(3)
            if all((name, label, seed) in done for label in comparison.definition.labels)
        ]
        for name in ("flat", "round")
    }
    outcome = comparison.outcome(partial=True)
    found = {problem.name: list(problem.seeds) for problem in outcome.problems}
    assert found == {name: seeds for name, seeds in expected.items() if seeds}
    assert outcome.notes[0].startswith("partial: ")
    # A kind of which nothing is finished is no block.
    kinds = {"flat": "benchmark-functions/grid", "round": "bent"}
    assert rank_optimizers(outcome).blocks == tuple(kinds[name] for name in found)


def test_nothing_finished_is_one_clear_line(write):
    write()
    comparison = Comparison.load("compare-toys")
    with pytest.raises(InputError, match=r"18 of 18 runs are not finished; 'codesign compare comp"):
        comparison.outcome()
    with pytest.raises(InputError, match="no seed of any problem is finished"):
        comparison.outcome(partial=True)


def test_a_changed_definition_over_old_results_is_refused(write):
    write()
    Comparison.load("compare-toys").run()
    write(budget=17)
    with pytest.raises(CodesignError, match="belongs to another definition"):
        Comparison.load("compare-toys").run()


def test_each_problem_is_a_campaign_that_other_commands_can_open(finished):
    from codesign.search.campaign import Campaign

    campaign = Campaign.load("runs/compare-toys/flat.yaml", "runs/compare-toys")
    assert len(campaign.results()) == 9 * 16
    text = (finished.folder / "flat.yaml").read_text().split("\n", 1)[1]
    assert json.loads(text)["optimizers"] == ["nsga2", "sobol", "random"]


def test_wall_time_is_of_the_suggestions_after_the_initial_designs(finished):
    for problem in finished.outcome().problems:
        for label in finished.definition.labels:
            seconds = problem.suggestion_seconds(label)
            assert len(seconds) == 3 * (16 - 6)
            assert (seconds >= 0).all()
        for run in problem.runs:
            # The first six are the sample; its batch has parts that add up to what was measured.
            assert run.time.is_chosen.tolist() == [False] * 6 + [True] * 10
            assert run.time.evaluation_seconds > 0
    for campaign, problem in zip(finished.campaigns, finished.outcome().problems, strict=True):
        measured = sum(timing.ask_seconds for timing in campaign.timings())
        ours = sum(run.time.suggestion_seconds.sum() for run in problem.runs)
        assert ours == pytest.approx(measured)


def test_a_comparison_that_another_process_is_running_is_one_clear_line(write, ctrl_c):
    from codesign.base.locks import exclusive

    write()
    comparison = Comparison.load("compare-toys")
    ctrl_c(after=2)
    with pytest.raises(KeyboardInterrupt):
        comparison.run()
    with exclusive(comparison.campaigns[0].folder / "lock"):
        with pytest.raises(InputError, match="runs are not finished; another process is running"):
            comparison.outcome()
        with pytest.raises(InputError, match="is running this campaign"):
            Comparison.load("compare-toys").run()


def test_the_area_is_the_mean_after_the_initial_designs():
    share = np.array([0.0, 0.2, 0.4, 0.8])
    assert area_under(share, 2) == pytest.approx(0.6)
    # Without a choice it is what the sample has.
    assert area_under(share, 4) == 0.8


def _bounded(folder, name, point):
    path = folder / "runs" / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "reference_point": point}))


def test_a_reference_point_beyond_every_design_names_its_place_and_the_nearest(write, folder):
    _bounded(folder, "round", {"f1": 0.0, "f2": 2.0})
    write(budget=8)
    comparison = Comparison.load("compare-toys")
    comparison.run()
    message = (
        r"runs/round.yaml:\d+: reference_point: no feasible design is better than the reference "
        r"point in every objective, so every hypervolume is 0; .* got f1 0; "
        r"nearest: worse than f1 1$"
    )
    with pytest.raises(InputError, match=message):
        comparison.outcome()


def test_a_reference_point_that_gives_everything_to_the_first_design_is_a_note(write, folder):
    _bounded(folder, "flat", {"f1": 1000, "f2": 1000})
    write(budget=8)
    comparison = Comparison.load("compare-toys")
    comparison.run()
    (note,) = [note for note in comparison.outcome().notes if note.startswith("flat: ")]
    assert "the first feasible design of a run has 99." in note
    assert "reference_point f1 1000, f2 1000 is worse than any of the 72 feasible designs" in note


def test_hints_that_solve_a_problem_are_told_of(write, monkeypatch):
    """Predictions of the first problem are its results; of the second there are none."""

    class Predicting(BenchmarkFunctions):
        def predict(self, designs, metrics):
            is_known = self.options.function == "zdt1"
            return self.evaluate(designs, metrics).metrics if is_known else {}

    monkeypatch.setattr("codesign.evaluators.functions.BenchmarkFunctions", Predicting)
    optimizers = [
        "random",
        {"name": "nsga2", "start": "hints"},
        {"name": "predicted", "label": "hints-front", "start": "hints"},
        {"name": "predicted", "label": "no-hints", "hints": "off"},
    ]
    write(optimizers=optimizers, budget=20, seeds=1)
    comparison = Comparison.load("compare-toys")
    comparison.run()
    outcome = comparison.outcome()
    first, second = outcome.problems
    uses = {"random": "none", "nsga2": "start", "hints-front": "alone", "no-hints": "none"}
    assert first.hints == second.hints == uses
    assert outcome.hinted_labels == ("nsga2", "hints-front")
    assert first.solved_by_hints == ("hints-front",)
    assert second.solved_by_hints == ()
    (note,) = [note for note in outcome.notes if "hints" in note]
    assert "flat (hints-front)" in note and "round" not in note
    some = outcome.selected_labels(outcome.hinted_labels)
    assert some.labels == outcome.hinted_labels
    assert rank_optimizers(some).labels == outcome.hinted_labels


def test_optimizers_of_an_evaluator_without_hints_use_none(write):
    write(optimizers=["random", "predicted"], budget=8, seeds=1)
    comparison = Comparison.load("compare-toys")
    comparison.run()
    outcome = comparison.outcome()
    assert {use for problem in outcome.problems for use in problem.hints.values()} == {"none"}
    assert outcome.hinted_labels == ()
