"""Each peer uses its model or its population, by the account of its own library."""

import json
from functools import cache
from typing import get_args

import numpy as np
import pytest

from codesign.base.errors import MissingExtraError
from codesign.search.optimizers.peer import Peer, PeerMethod
from codesign.search.optimizers.peer_process import PeerProcess
from codesign.search.optimizers.peer_worker.task import Task

ORIGINS = {
    "optuna-tpe": "3 of 3 parameters by the model",
    "optuna-gp": "3 of 3 parameters by the model",
    "optuna-nsga2": "generation 1",
    "optuna-nsga3": "generation 1",
    "botorch-qlognehvi": "acquisition over 24 results",
    "ax": "node MBM",
    "smac-parego": "Acquisition Function Maximizer",
    "hebo": "model ",
    "pymoo-nsga3": "generation 2, offspring of 20",
    "pymoo-agemoea": "generation 2, offspring of 20",
    "pymoo-smsemoa": "generation 2, offspring of 20",
}
"""Where a proposal after 24 results is from; one generation of a population of 20 is complete."""
QUICK = ("optuna-tpe", "optuna-nsga2", "optuna-nsga3", "pymoo-nsga3", "pymoo-smsemoa")


def methods(quick):
    """All methods; those that are not quick are slow tests."""
    return [
        name if name in quick else pytest.param(name, marks=pytest.mark.slow)
        for name in get_args(PeerMethod)
    ]


LEVELS = [9, 8, 4]


def results(n, seed=0):
    """Random designs of a convex problem with a limit, the last design failed."""
    designs = np.random.default_rng(seed).integers(LEVELS, size=(n, 3))
    points = designs / (np.array(LEVELS) - 1)
    first, second = points[:, 0], 1 - np.sqrt(points[:, 0]) + points[:, 1:].sum(axis=1)
    items = [
        {"design": d.tolist(), "objectives": [f, g], "violations": [g - 2.0]}
        for d, f, g in zip(designs, first.tolist(), second.tolist(), strict=True)
    ]
    items[-1] |= {"objectives": None, "violations": []}
    return items


@cache
def process(method):
    """One process for each method: it is asked with all that is known every time."""
    return PeerProcess(json.loads(setup(method)))


def setup(method):
    return json.dumps(
        {
            "method": method,
            "levels": LEVELS,
            "is_ordered": [True, True, False],
            "conditions": [None, None, None],
            "linear": [],
            "forbidden": [],
            "n_objectives": 2,
            "reference_point": [1.1, 3.1],
            "run_seed": 7,
        }
    )


def question(items, **changed):
    return {"results": items, "rejected": [], "attempt": 0, "seed": 3} | changed


def proposal(method, items, **changed):
    try:
        return process(method).propose(question(items, **changed))
    except MissingExtraError as error:
        pytest.skip(str(error))  # the library of this peer is an optional one


@pytest.mark.parametrize("method", methods(QUICK))
def test_a_proposal_comes_from_the_model_or_the_population(method):
    if method == "smac-parego":
        # A fifth of its proposals are random by its own default.
        origins = [proposal(method, results(25), seed=seed).origin for seed in range(4)]
        assert sum(origin.startswith(ORIGINS[method]) for origin in origins) >= 2, origins
    else:
        assert proposal(method, results(25)).origin.startswith(ORIGINS[method])


@pytest.mark.parametrize("method", ["optuna-tpe", "optuna-nsga2", "pymoo-nsga3"])
def test_without_enough_results_a_proposal_is_not_said_to_be_from_the_model(method):
    origin = proposal(method, results(6)).origin
    assert origin in ("0 of 3 parameters by the model", "generation 0", "at random")


@pytest.mark.parametrize("method", methods(("optuna-nsga2", "pymoo-nsga3")))
def test_another_process_proposes_the_same(method):
    expected = proposal(method, results(25))
    fresh = PeerProcess(json.loads(setup(method)))
    assert fresh.propose(question(results(25))).designs == expected.designs


@pytest.mark.parametrize("method", methods(QUICK))
def test_designs_lie_in_the_box_and_settings_name_the_version(method):
    answer = proposal(method, results(25))
    assert answer.designs
    assert all(0 <= level < n for d in answer.designs for level, n in zip(d, LEVELS, strict=True))
    assert {"library", "method", "limits", "reference_point"} <= set(answer.settings)
    assert answer.settings["library"].split()[1][0].isdigit()
    assert not [name for name in answer.settings if "seed" in name]


@pytest.mark.parametrize("method", ["pymoo-nsga3"])
def test_offspring_are_the_same_until_their_generation_is_complete(method):
    items = [item for item in results(46) if item["objectives"] is not None]
    bred = [proposal(method, items[:n], seed=n).designs for n in (20, 21, 39, 40)]
    assert bred[0] == bred[1] == bred[2]
    assert bred[3] != bred[0]
    more = proposal(method, items[:20], attempt=1).designs
    assert more != bred[0]


@pytest.mark.parametrize("method", ["pymoo-nsga3", "pymoo-smsemoa"])
def test_where_all_violate_a_limit_equally_proposals_are_the_same_again(method):
    """NSGA-III's own tournament draws without a seed here (pymoo 0.6.2)."""
    items = [item | {"violations": [1.0]} for item in results(26)[:25]]
    assert len({str(proposal(method, items).designs) for _ in range(3)}) == 1


def test_a_population_of_nsga2_descends_from_the_best_of_all_generations():
    """20 good designs, then 20 bad ones: children are still mixed from levels of the good."""
    good = [
        {"design": [i % 3, i % 2, 0], "objectives": [i / 20, 1 - i / 20], "violations": []}
        for i in range(20)
    ]
    bad = [
        {"design": [8, 7, 3], "objectives": [9.0 + i, 9.0 + i], "violations": []} for i in range(20)
    ]
    answers = [proposal("optuna-nsga2", good + bad, seed=seed) for seed in range(8)]
    assert {answer.origin for answer in answers} == {"generation 2"}
    first = [answer.designs[0][0] for answer in answers]
    # A mutation, one parameter in three, draws any level.
    assert sum(level < 3 for level in first) >= 4, first


def test_a_parameter_that_does_not_exist_is_neither_told_nor_drawn():
    # The second parameter exists at the levels 1 and 2 of the third.
    rules = {**json.loads(setup("optuna-tpe")), "conditions": [None, [2, [1, 2]], None]}
    task = Task.read({**rules, **question(results(25))})
    assert task.varying == [0, 2, 1]
    assert all(("x1" in task.values_of(r)) == (r.design[2] in (1, 2)) for r in task.results)
    conditional = PeerProcess(rules)
    try:
        answers = [conditional.propose(question(results(25), seed=seed)) for seed in range(6)]
    except MissingExtraError as error:
        pytest.skip(str(error))  # the library of this peer is an optional one
    origins = {answer.designs[0][2] in (1, 2): answer.origin for answer in answers}
    expected = {True: "3 of 3 parameters by the model", False: "2 of 2 parameters by the model"}
    assert origins.items() <= expected.items()
    assert all(a.designs[0][1] == 0 for a in answers if a.designs[0][2] not in (1, 2))


def test_infinite_violations_become_finite_and_larger_than_any():
    items = results(4)
    items[0]["violations"], items[1]["violations"] = [float("inf")], [30.0]
    task = Task.read({**json.loads(setup("ax")), **question(items)} | {"method": None})
    assert [item.violations for item in task.results][:2] == [[300.0], [30.0]]


def test_settings_are_those_of_the_objects_and_tell_the_origin():
    settings = Peer.provenance(Peer.Options(method="optuna-tpe"))
    assert settings["method"] == "TPESampler"
    assert settings["n_startup_trials"] == 10
    assert settings["proposal"] == "3 of 3 parameters by the model"
