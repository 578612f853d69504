"""TPE: what Optuna is told, and that asking leaves no trace."""

import numpy as np
import pytest

from codesign.search.optimizers import initial_designs
from codesign.search.optimizers.tpe import Tpe

optuna = pytest.importorskip("optuna")


def told(search, n=20, limit=np.inf):
    optimizer = Tpe(search, 2, 0, Tpe.Options())
    rows = initial_designs(search, n, 0)
    points = search.space.points(rows)
    failed = np.arange(n) % 7 == 3
    objectives = np.column_stack([points.sum(axis=1), -points[:, 0]])
    violations = points[:, :1] - limit
    objectives[failed], violations[failed] = np.nan, np.nan
    optimizer.tell(rows, objectives, violations, failed)
    return optimizer, rows[~failed], objectives[~failed], violations[~failed]


def test_optuna_knows_the_results_and_nothing_else(tiered):
    optimizer, rows, objectives, violations = told(tiered, limit=0.5)
    optimizer.ask(5)
    trials = optimizer._study(tiered.no_rows, 0).get_trials()
    assert [trial.state for trial in trials] == [optuna.trial.TrialState.COMPLETE] * len(rows)
    assert np.array_equal([trial.values for trial in trials], objectives)
    assert np.array_equal([trial.constraints["0"] for trial in trials], violations[:, 0])
    assert [trial.params["ports"] for trial in trials] == rows[:, 1].tolist()
    # Absence that can be chosen is a choice; what follows from it takes the middle.
    names = tiered.space.names
    absent = rows[:, names.index("tier2_kind")] < 0
    assert absent.any()
    for i in np.flatnonzero(absent):
        assert trials[i].params["tier2_kind"] == -1
        assert trials[i].params["tier2_count"] == 1


def test_results_told_after_asking_are_learned_from(tiered):
    asked_before, *_ = told(tiered)
    rows = asked_before.ask(1)
    suggestions = []
    for optimizer, value in ((asked_before, -9.0), (told(tiered)[0], -9.0), (told(tiered)[0], 9.0)):
        values = np.full((1, 2), value)
        optimizer.tell(rows, values, np.zeros((1, 1)), np.zeros(1, dtype=bool))
        suggestions.append(optimizer.ask(3).tolist())
    assert suggestions[0] == suggestions[1]
    assert suggestions[0] != suggestions[2]


def test_infinite_violations_are_taken(tiered):
    optimizer, *_ = told(tiered)
    fresh = optimizer.ask(4)
    violations = np.array([[np.inf], [0.0], [1.0], [-np.inf]])
    optimizer.tell(fresh, np.ones((4, 2)), violations, np.zeros(4, dtype=bool))
    assert len(optimizer.ask(2)) == 2


def test_optuna_is_as_talkative_afterwards_as_before(tiered, capfd):
    before = optuna.logging.get_verbosity()
    optimizer, *_ = told(tiered)
    optimizer.ask(2)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


def test_designs_near_the_good_ones_are_proposed(grid):
    search = grid(4, 20)
    optimizer = Tpe(search, 2, 0, Tpe.Options())
    rows = initial_designs(search, 60, 0)
    points = search.space.points(rows)
    objectives = np.column_stack([((points - 0.8) ** 2).sum(axis=1)] * 2)
    optimizer.tell(rows, objectives, np.zeros((60, 0)), np.zeros(60, dtype=bool))
    proposed = search.space.points(optimizer.ask(10))
    distance = ((proposed - 0.8) ** 2).sum(axis=1)
    assert np.median(distance) < 0.5 * np.median(objectives[:, 0])
