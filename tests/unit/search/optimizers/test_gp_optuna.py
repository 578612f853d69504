"""Optuna's Gaussian processes: what they are told, and that proposals are repaired."""

import numpy as np
import pytest

from codesign.search.optimizers import initial_designs
from codesign.search.optimizers.gp_optuna import GpOptuna

optuna = pytest.importorskip("optuna")
pytestmark = [
    pytest.mark.usefixtures("gp"),
    # Of its argument ``deterministic_objective``; within ``ask`` the optimizer hides it.
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]


def told(search, n, **options):
    optimizer = GpOptuna(search, 2, 0, GpOptuna.Options(**options))
    rows = initial_designs(search, n, 0)
    points = search.space.to_unit(rows)
    distance = ((points - 0.8) ** 2).sum(axis=1)
    objectives = np.column_stack([distance, 1.0 + distance])
    violations = np.column_stack([points[:, 0] - 0.9, np.full(n, -1.0)])
    failed = np.arange(n) == 3
    objectives[failed], violations[failed] = np.nan, np.nan
    optimizer.tell(rows, objectives, violations, failed)
    return optimizer, rows[~failed], objectives[~failed], violations[~failed]


def test_optuna_knows_the_results_the_limits_that_bind_and_what_runs(tiered):
    optimizer, rows, objectives, violations = told(tiered, 20)
    study = optimizer._study(optimizer._memory.history(), rows[:2], 0)
    trials = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    assert np.array_equal([trial.values for trial in trials], objectives)
    binding = [j for j in range(2) if (violations[:, j] > 0).any()]
    assert [sorted(trial.constraints) for trial in trials] == [
        [str(i) for i in range(len(binding))]
    ] * len(rows)
    assert [trial.params["ports"] for trial in trials] == rows[:, 1].tolist()
    running = study.get_trials(states=[optuna.trial.TrialState.RUNNING])
    assert [trial.params["ports"] for trial in running] == rows[:2, 1].tolist()


def test_designs_near_the_good_ones_are_proposed(grid):
    search = grid(3, 20)
    optimizer, *_ = told(search, 25)
    proposed = search.space.to_unit(optimizer.ask(1))
    assert ((proposed - 0.8) ** 2).sum() < 0.1


def test_asking_again_or_told_one_by_one_it_suggests_the_same_new_designs(tiered):
    optimizer, *_ = told(tiered, 14, attempts=1)
    proposed = optimizer.ask(2)
    history = optimizer._memory.history()
    assert np.array_equal(optimizer.ask(2), proposed)
    fresh = GpOptuna(tiered, 2, 0, GpOptuna.Options(attempts=1))
    for i in range(14):
        fresh.tell(
            history.rows[[i]], history.objectives[[i]], history.violations[[i]],
            history.failed[[i]],
        )  # fmt: skip
    assert np.array_equal(fresh.ask(2), proposed)
    assert tiered.admits(proposed).all()
    assert len(tiered.unseen(proposed, optimizer._seen)) == 2


def test_only_the_latest_results_are_told_beyond_the_cap(grid):
    optimizer, rows, *_ = told(grid(2, 20), 40, training=12)
    study = optimizer._study(optimizer._memory.history(), rows[:0], 0)
    assert [trial.params["x0"] for trial in study.get_trials()] == rows[-12:, 0].tolist()


def test_optuna_is_as_talkative_afterwards_as_before(tiered, capfd):
    before = optuna.logging.get_verbosity()
    told(tiered, 15)[0].ask(1)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")
