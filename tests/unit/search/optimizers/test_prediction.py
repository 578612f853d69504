"""What a cheaper model predicts: learned from, followed, left alone."""

from itertools import pairwise

import numpy as np
import pytest

from codesign.search.observations import Observations
from codesign.search.optimizers import SearchSpace, initial_designs
from codesign.search.optimizers.ehvi import GpEhvi
from codesign.search.optimizers.improvement import Scale
from codesign.search.optimizers.modeling import Modeling
from codesign.search.optimizers.predicted import Predicted
from codesign.search.optimizers.prediction import QueryPoints, error_scale, expected
from codesign.search.optimizers.training_data import TrainingData
from codesign.search.pareto import hypervolume, non_dominated

REFERENCE = np.array([15.0, 30.0])
QUICK = {"candidates": 256, "mutants": 64, "iterations": 10, "local_search": 1}


def objectives(rows):
    """(n, 2) to minimize, rugged in every parameter; the best designs have a sum of 15."""
    mixed = (rows @ np.array([5, 3, 7, 2])) % 13
    return np.column_stack([1.0 + mixed, 14.0 - mixed + rows[:, 0]])


def predicting(search, predict):
    return SearchSpace(search.space, search.admits, None, predict)


def tell(optimizer, rows):
    nothing = np.zeros((len(rows), 0))
    optimizer.tell(rows, objectives(rows), nothing, np.zeros(len(rows), dtype=bool))


@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_the_error_of_what_has_one_sign_is_a_ratio(sense):
    values = sense * np.array([2.0, 8.0, 3.0, 5.0])
    ratios = np.array([1.0, 2.0, 1.0, 2.0])
    scale = error_scale(values, values / ratios, logarithmic=True)
    # Half of the logarithms of the ratios are 0, half log 2: their deviation is half of it.
    assert scale.slope == pytest.approx(np.log(2) / 2)
    error = scale.modeled(values) - expected(scale, values / ratios)
    assert error == pytest.approx(sense * 2 * np.log2(ratios))


def test_the_error_of_what_changes_sign_is_a_difference():
    values, gaps = np.array([-2.0, 8.0, 3.0]), np.array([1.0, -1.0, 3.0])
    scale = error_scale(values, values - gaps, logarithmic=True)
    assert scale.modeled(values) - expected(scale, values - gaps) == pytest.approx(
        gaps / gaps.std()
    )


def test_predictions_of_another_sign_than_the_results_are_near_zero():
    scale = Scale(-1, 0.0, 1.0)
    assert expected(scale, np.array([3.0, 0.0])) == pytest.approx(-np.log(np.finfo(float).tiny))


def test_an_objective_that_is_not_predicted_is_learned_as_if_there_were_no_model():
    values, nothing = np.array([2.0, 8.0, 3.0]), np.full(3, np.nan)
    assert error_scale(values, nothing, logarithmic=True) == Scale.fit(values, True)
    assert expected(Scale(1, 0.5, 2.0), nothing).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.usefixtures("gp")
def test_a_constant_factor_is_learned_from_two_results(grid):
    search = grid(4, 12)
    rows = initial_designs(search, 40, 0)
    values = objectives(rows)
    guesses = values * np.array([3.0, 0.5])
    history = Observations(rows[:2], values[:2], np.zeros((2, 0)))
    data = TrainingData(history, QueryPoints(search.features(rows[:2]), guesses[:2]))
    acquisition = Modeling(True, 20, 100).acquisition_function(
        data, REFERENCE, True, np.random.default_rng(0)
    )
    for j, model in enumerate(acquisition.objectives):
        mean, _ = model.predict(QueryPoints(search.features(rows), guesses))
        found = np.exp(model.target.scale.slope * mean)
        assert found == pytest.approx(values[:, j], rel=1e-9)


@pytest.mark.usefixtures("gp")
def test_with_predictions_two_results_are_enough_to_go_to_the_front(grid):
    search = grid(4, 12)
    rows = initial_designs(search, 2, 0)
    sums = {}
    for name, predict in (
        ("right but for a factor", lambda rows: 1.3 * objectives(rows)),
        ("none", None),
    ):
        optimizer = GpEhvi(
            predicting(search, predict), 2, 0, GpEhvi.Options(**QUICK), REFERENCE
        )  # fmt: skip
        tell(optimizer, rows)
        sums[name] = objectives(optimizer.ask(4)).sum(axis=1)
    assert (sums["right but for a factor"] == 15.0).all()
    assert (sums["none"] > 15.0).any()


@pytest.mark.usefixtures("gp")
def test_predictions_that_mislead_are_found_out(grid):
    search = grid(2, 12)

    def truth(rows):
        return np.column_stack([1.0 + rows[:, 0] + rows[:, 1], 23.0 - rows[:, 0] + rows[:, 1]])

    def opposite(rows):
        return np.column_stack([1.0 + rows[:, 0], 34.0 - rows[:, 0] - rows[:, 1]])

    bound = np.array([25.0, 36.0])
    options = GpEhvi.Options(**QUICK | {"candidates": 100})
    optimizer = GpEhvi(predicting(search, opposite), 2, 0, options, bound)
    told = initial_designs(search, 4, 0)
    rows = told
    for _ in range(26):
        values = truth(rows)
        optimizer.tell(rows, values, np.zeros((len(rows), 0)), np.zeros(len(rows), dtype=bool))
        rows = optimizer.ask(1)
        told = np.concatenate([told, rows])
    everything = truth(search.space.rows(np.arange(144)))
    assert hypervolume(truth(told), bound) > 0.97 * hypervolume(everything, bound)


@pytest.mark.usefixtures("gp")
def test_predictions_that_are_switched_off_change_nothing(grid):
    search = grid(4, 12)
    rows = initial_designs(search, 12, 0)
    suggested = []
    for space, options in (
        (search, {}),
        (predicting(search, objectives), {"predictions": False}),
    ):
        optimizer = GpEhvi(space, 2, 0, GpEhvi.Options(**QUICK, **options), REFERENCE)
        tell(optimizer, rows)
        suggested.append(optimizer.ask(3))
    assert np.array_equal(*suggested)


def test_the_predicted_front_is_followed_best_first(grid):
    search = grid(4, 6)
    everything = search.space.rows(np.arange(6**4))
    guesses = objectives(everything)
    # Designs of the same prediction gain nothing more, so one of each comes first.
    inside = (guesses < REFERENCE).all(axis=1)
    front = np.unique(guesses[inside & non_dominated(guesses)], axis=0)
    optimizer = Predicted(
        predicting(search, objectives), 2, 0, Predicted.Options(), REFERENCE
    )  # fmt: skip
    asked = objectives(optimizer.ask(len(front)))
    assert np.array_equal(np.unique(asked, axis=0), front)
    gains = [hypervolume(one[None, :], REFERENCE) for one in guesses]
    assert hypervolume(asked[:1], REFERENCE) == max(gains)


@pytest.mark.usefixtures("gp")
@pytest.mark.parametrize(
    ("factory", "options"),
    [
        (GpEhvi, {"candidates": 64, "iterations": 4, "neighborhoods": 2, "local_search": 1}),
        (Predicted, {}),
    ],
)
def test_a_fresh_one_that_is_told_the_same_goes_on_the_same(grid, factory, options):
    search = predicting(grid(3, 8), lambda rows: 1.0 + rows[:, :2])
    rows = initial_designs(search, 12, 0)
    values = (2.0 + rows[:, :2]) * (1.0 + rows[:, 2:])
    limits, failed = rows[:, 1:] - 4.0, rows[:, 0] == 3
    values[failed], limits[failed] = np.nan, np.nan
    suggested = []
    for cuts in ([0, 12], [0, 5, 12]):
        optimizer = factory(search, 2, 0, factory.Options(**options), np.array([80.0, 80.0]))
        for start, stop in pairwise(cuts):
            part = slice(start, stop)
            optimizer.tell(rows[part], values[part], limits[part], failed[part])
        suggested += [optimizer.ask(3), optimizer.ask(3)]
    assert all(np.array_equal(suggested[0], other) for other in suggested)
    assert len(np.unique(np.concatenate([rows, suggested[0]]), axis=0)) == 15


def test_where_nothing_is_predicted_designs_are_random(grid):
    search = grid(3, 8)
    optimizer = Predicted(search, 2, 0, Predicted.Options())
    rows = optimizer.ask(5)
    assert search.admits(rows).all()
    assert len(np.unique(rows, axis=0)) == 5


def predicted(search, predict, limits=None, **options):
    space = SearchSpace(search.space, search.admits, None, predict, limits)
    return Predicted(space, 2, 0, Predicted.Options(**options), REFERENCE)


@pytest.mark.parametrize("greedy", [False, True])
def test_what_is_predicted_to_break_a_limit_comes_last(grid, greedy):
    search = grid(3, 6)
    everything = search.space.rows(np.arange(6**3))

    def limits(rows):
        return rows[:, :1] - 1.0

    n_within = int((everything[:, 0] <= 1).sum())

    def guess(rows):
        return 1.0 + rows[:, :2]

    rows = predicted(search, guess, limits, greedy=greedy).ask(len(everything))
    assert len(rows) == len(everything)
    assert (rows[:n_within, 0] <= 1).all()


def test_the_greedy_one_goes_where_results_fell_short(grid):
    """Half of the front comes out as predicted, the other half far worse."""
    search = grid(2, 8)

    def guess(rows):
        return np.column_stack([1.0 + rows[:, 0], 8.0 - rows[:, 0] + rows[:, 1]])

    front = np.column_stack([np.arange(8), np.zeros(8, dtype=np.int64)])
    truth = guess(front)
    truth[:4] += 20.0
    asked = {}
    for greedy in (False, True):
        optimizer = predicted(search, guess, greedy=greedy)
        optimizer.tell(front, truth, np.zeros((8, 0)), np.zeros(8, dtype=bool))
        asked[greedy] = optimizer.ask(1)[0].tolist()
    # By the predictions nothing is left to gain: the first of the next front, as they were drawn.
    assert asked[False] == [7, 1]
    # By the results what is left of the good half still gains.
    best = max(
        (row for row in search.space.rows(np.arange(64)).tolist() if row not in front.tolist()),
        key=lambda row: hypervolume(np.vstack([truth, guess(np.array([row]))]), REFERENCE),
    )
    assert asked[True] == best
    assert asked[True][0] < 4


def test_what_is_pending_counts_as_predicted(grid):
    search = grid(4, 6)
    first = predicted(search, objectives, greedy=True).ask(3)
    again = predicted(search, objectives, greedy=True).ask(2, first[:1])
    assert np.array_equal(first[1:], again)


def test_an_objective_that_is_not_predicted_is_ignored(grid):
    search = grid(3, 6)

    def guess(rows):
        return np.column_stack([1.0 + rows[:, 0], np.full(len(rows), np.nan)])

    rows = predicted(search, guess).ask(36)
    assert (rows[:, 0] == 0).all()

    def nothing(rows):
        return np.full((len(rows), 2), np.nan)

    assert len(np.unique(predicted(search, nothing).ask(5), axis=0)) == 5


@pytest.mark.parametrize("is_refuted", [False, True])
def test_what_was_never_beaten_bounds_what_is_hoped_for(grid, is_refuted):
    def excess(values):
        return values[:, :1] / 7.0 - 1.0

    space = grid(4, 20)
    search = SearchSpace(
        space.space, space.admits, None, objectives, lambda rows: excess(objectives(rows))
    )
    optimizer = GpEhvi(search, 2, 0, GpEhvi.Options(), np.array([30.0, 60.0]))
    rows = initial_designs(search, 12, 0)
    results = objectives(rows) * np.where(np.arange(12) % 2, 1.0, 2.0)[:, None]
    results[0] /= 4.0 if is_refuted else 1.0
    optimizer.tell(rows, results, excess(results), np.zeros(12, dtype=bool))
    acquisition = optimizer._acquisition(optimizer._memory.history(), np.random.default_rng(0))
    bounded = [model.target.is_bounded for model in acquisition.objectives]
    assert bounded == [not is_refuted] * 2

    others = search.space.sample(np.random.default_rng(1), 400)
    predicted = objectives(others)
    is_hopeless = (
        (predicted[:, None, :] > 1.01 * acquisition.front[None, :, :]).all(axis=2).any(axis=1)
    )
    is_hopeless |= excess(predicted)[:, 0] > 0
    worth = optimizer._values(others, acquisition, 64.0)
    assert worth[~is_hopeless].max() > 0
    assert (worth[is_hopeless] > 0).any() == is_refuted
