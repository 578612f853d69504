"""What the evaluator knows in advance: who is told, who starts from it, who is told nothing."""

import importlib

import numpy as np
import pytest

from codesign.search.campaign import Campaign, load_definition
from codesign.search.campaign.loop import search_space
from codesign.search.optimizers import initial_designs
from codesign.search.optimizers.predicted import hinted_designs
from codesign.search.pareto import hypervolume

POINT = {"gain_tokens": 0.0, "power_watts": 400.0}


@pytest.fixture
def toys(folder, monkeypatch):
    """The plug-ins, of which the evaluator has hints: features, and a model that is right."""
    module = importlib.import_module("toy_plugins")

    class Hinting(module.ToyEvaluator):
        def features(self, designs):
            return {"x": designs["x"].lookup(float)}

        def predict(self, designs, names):
            return {name: self.evaluate(designs).metrics[name] for name in names}

    monkeypatch.setattr(module, "ToyEvaluator", Hinting)
    return module


def initial(resolved, label):
    """(10, d) the first designs of the first seed of an optimizer."""
    campaign = Campaign(resolved, resolved.path.parent / "results", "toys")
    campaign.run(workers=1)
    results = campaign.results()
    index = [run.optimizer for run in results.runs].index(label)
    return results.rows[results.run_index == index][:10]


@pytest.mark.parametrize(
    ("use", "hints", "is_told"),
    [("model", "on", True), ("alone", "on", True), ("model", "off", False), (None, "on", False)],
)
def test_hints_reach_an_optimizer_that_looks_at_them_unless_they_are_off(
    toys, write, monkeypatch, use, hints, is_told
):
    if use:
        monkeypatch.setattr(toys.ToyRandom, "hint_use", use, raising=False)
    resolved = load_definition(write(optimizers=[{"name": "toy-random", "hints": hints}]))
    (configured,) = resolved.optimizers
    optimizer = configured.build(search_space(resolved.problem), 2, 0, np.zeros(2))
    given = (optimizer.space.describe, optimizer.space.predict, optimizer.space.predict_violations)
    assert [item is not None for item in given] == [is_told] * 3
    assert configured.hint_use == (use if is_told else "none")


def test_hints_off_of_a_file_are_those_of_the_optimizers_that_do_not_say(toys, write):
    optimizers = ["toy-climb", {"name": "toy-random", "hints": "on"}]
    resolved = load_definition(write(hints="off", optimizers=optimizers))
    assert [item.hints for item in resolved.optimizers] == ["off", "on"]


def test_a_start_by_hints_is_shared_by_those_that_ask_for_it(toys, write):
    hinted = {"name": "toy-random", "label": "hinted", "start": "hints"}
    optimizers = ["toy-random", hinted, {**hinted, "name": "toy-climb", "label": "hinted-too"}]
    resolved = load_definition(write(optimizers=optimizers, reference_point=POINT, budget=12))
    space = search_space(resolved.problem)
    bound = np.array([-POINT["gain_tokens"], POINT["power_watts"]])
    best = hinted_designs(space, 10, 2, 0, bound)
    spread = initial_designs(space, 10, 0)
    assert np.array_equal(initial(resolved, "toy-random"), spread)
    assert np.array_equal(initial(resolved, "hinted"), best)
    assert np.array_equal(initial(resolved, "hinted-too"), best)
    worth = [
        hypervolume(resolved.problem.evaluate(rows).objectives, bound) for rows in (spread, best)
    ]
    assert worth[1] > worth[0]
    # They keep the limit that the hints know, 300 W; half of the space does not.
    assert resolved.problem.evaluate(best).feasible.all()
    assert not resolved.problem.evaluate(spread).feasible.all()


def test_without_predictions_every_start_is_spread(write):
    optimizers = [{"name": "toy-random", "start": "hints"}]
    resolved = load_definition(write(optimizers=optimizers, reference_point=POINT, budget=12))
    spread = initial_designs(search_space(resolved.problem), 10, 0)
    assert np.array_equal(initial(resolved, "toy-random"), spread)


def test_hints_and_start_are_part_of_the_identity_only_where_they_are_unusual(write):
    def identity(**keys):
        return load_definition(write(optimizers=[{"name": "toy-random", **keys}])).identity()

    plain = identity()
    assert plain["optimizers"]["toy-random"].keys() == {"name", "population"}
    assert identity(hints="on", start="spread") == plain
    assert identity(hints="off") != plain
    assert identity(start="hints") != plain
    optimizers = [{"name": "toy-random"}]
    assert load_definition(write(optimizers=optimizers, hints="off")).identity() == identity(
        hints="off"
    )
