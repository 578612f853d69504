"""What a campaign's results come to, against sums done by hand."""

import math

import pytest

from codesign.insight.summary import convergence, optimizer_names, summarize


def test_the_summary_counts_and_averages_over_the_seeds(results):
    best, other = summarize(results)
    assert (best.optimizer, other.optimizer) == ("tpe", "random")
    # The last hypervolumes are 14 and 18 of tpe, 4 and 5 of random.
    assert best.hypervolume_mean == 16.0
    assert best.hypervolume_std == pytest.approx(math.sqrt(8.0))
    assert other.hypervolume_mean == 4.5
    assert other.hypervolume_std == pytest.approx(math.sqrt(0.5))
    assert (other.n_runs, other.n_evaluated, other.n_failed) == (2, 8, 1)
    assert best.n_feasible + other.n_feasible == results.feasible.sum()


def test_the_optimizers_keep_the_order_of_the_definition(results):
    assert optimizer_names(results) == ["random", "tpe"]


def test_convergence_is_mean_and_sample_deviation_at_each_evaluation(results):
    curve = convergence(results, "random")
    assert curve.evaluations.tolist() == [1, 2, 3, 4]
    assert curve.mean.tolist() == [1.5, 2.5, 2.5, 4.5]
    assert curve.std == pytest.approx([math.sqrt(0.5)] * 4)


def test_convergence_goes_as_far_as_every_seed_has_come(results):
    from dataclasses import replace

    cut = 6  # the second seed of random has made two observations, tpe none
    shorter = replace(
        results,
        run_index=results.run_index[:cut],
        step=results.step[:cut],
        observations=results.observations.part(slice(cut)),
        hypervolume=results.hypervolume[:cut],
    )
    assert convergence(shorter, "random").evaluations.tolist() == [1, 2]
    assert len(convergence(shorter, "tpe").evaluations) == 0
    assert summarize(shorter)[-1].n_evaluated == 0


def test_a_long_curve_is_thinned_and_keeps_its_ends(results):
    curve = convergence(results, "random", most_points=2)
    assert curve.evaluations.tolist() == [1, 4]
    assert curve.mean.tolist() == [1.5, 4.5]


def test_one_seed_has_no_deviation(results):
    from dataclasses import replace

    one = replace(
        results,
        runs=results.runs[:1],
        **{name: getattr(results, name)[:4] for name in ("run_index", "step", "hypervolume")},
        observations=results.observations.part(slice(4)),
    )
    (record,) = summarize(one)
    assert record.hypervolume_std is None
    assert convergence(one, "random").std.tolist() == [0.0] * 4
