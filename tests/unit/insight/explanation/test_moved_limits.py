"""Fronts under moved limits, against those of all designs of a small space."""

from itertools import permutations

import numpy as np
import pytest

from codesign import api
from codesign.insight.decisions.memory_kinds import reduced_problems
from codesign.insight.explanation import moved_limits
from codesign.insight.explanation.moved_limits import Switch, searched_limit_points
from codesign.search.enumeration import KeptFront, exact_front
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem

_FEW = {"vector_length": 128, "dataflow": "ws", "tier2_technology": "none",
        "tier3_technology": "none", "storage_priority": "equal", "bandwidth_priority": "matrix",
        "weight_format": "mxint8", "activation_format": "mxint8"}  # fmt: skip
GOALS = ["maximize throughput_tokens_per_s", "minimize tdp_watts"]
LIMITS = {
    "tdp_watts": "<= 150",
    "time_per_output_token_s": "<= 0.2",
    "accuracy_recovery": ">= 0.93",
}


@pytest.fixture(scope="module")
def space():
    return api.load_space("memexplorer").fix(_FEW)


def build(space, limits=LIMITS):
    """A decode whose batch size the evaluator chooses within the time per token."""
    workload = {"model": "llama-3.3-70b", "trace": "osworld", "phase": "decode"}
    evaluator = api.build_evaluator("npu", workload, {"profile": "plain", "accuracy": True})
    constraints = [f"{name} {limit}" for name, limit in limits.items()]
    return build_problem(space, evaluator, GOALS, constraints, "npu")


def front_by_hand(space, rows, limits):
    """(p, 2) minimized points of the front of all designs within limits."""
    problem = build(space, limits)
    rows = rows[problem.admits(rows)]
    observed = problem.evaluate(rows, problem.deciding_metrics)
    points = observed.objectives[observed.feasible]
    return np.unique(points[non_dominated(points)], axis=0)


def comparisons(space, folder):
    """(known, true, is exact) fronts at positions of one limit, and of two."""
    problem = build(space)
    front = KeptFront(problem, exact_front(problem, folder), 2)
    points = searched_limit_points(problem, front)
    rows = space.rows(np.arange(space.size))
    signs = LIMITS | {"area_mm2": "<= "}
    numbers = [i for i, x in enumerate(points.handles) if x.metric.name in signs]
    places = [{i: p} for i in numbers for p in range(len(points.handles[i].bounds))]
    places += [{i: 2, j: 0} for i, j in permutations(numbers, 2)]
    for moved in places:
        limits = dict(LIMITS)
        for i, place in moved.items():
            handle = points.handles[i]
            name = handle.metric.name
            limits[name] = f"{signs[name][:2]} {handle.objective.flipped(handle.bounds[place])!r}"
        moved = {i: p for i, p in moved.items() if p != points.handles[i].place}
        inside, is_exact = points.select(moved)
        known = points.objectives[points.front(np.flatnonzero(inside)), :2]
        yield np.unique(known, axis=0), front_by_hand(space, rows, limits), is_exact


def test_at_every_position_the_search_has_the_front_of_all_designs(space, tmp_path):
    same = [np.array_equal(known, true) for known, true, _ in comparisons(space, tmp_path)]
    assert len(same) > 30 and np.mean(same) > 0.95


def test_an_answer_that_is_called_exact_is_exact_even_if_the_search_finds_nothing(
    space, tmp_path, monkeypatch
):
    monkeypatch.setattr(moved_limits._CandidateSet, "improve", lambda *_: None)
    n_exact = n_wrong = 0
    for known, true, is_exact in comparisons(space, tmp_path):
        n_exact += is_exact
        n_wrong += not np.array_equal(known, true)
        assert not is_exact or np.array_equal(known, true)
        assert (true[:, None] <= known[None]).all(axis=2).any(axis=0).all()
    assert n_exact > 5 and n_wrong > 5


def test_a_choice_is_exact_if_its_front_is_stored_and_otherwise_known_designs(space, tmp_path):
    problem = build(space)
    without = dict(reduced_problems(problem))["HBM"]
    other = build(api.load_space("memexplorer").fix(_FEW | {"weight_format": "mxfp4"}))
    switches = [
        Switch("memories", {"all": None, "without HBM": without},
               {"without HBM": exact_front(without, tmp_path)}),
        Switch("weight format", {"mxint8": None, "mxfp4": other}, {}),
    ]  # fmt: skip
    front = KeptFront(problem, exact_front(problem, tmp_path), 2)
    points = searched_limit_points(problem, front, switches)
    names = [handle.metric.name for handle in points.handles]
    power = names.index("tdp_watts")
    place = points.handles[power].place + 3
    tighter = LIMITS | {"tdp_watts": f"<= {points.handles[power].bounds[place]!r}"}
    for i, varied in enumerate((without, other), len(names)):
        rows = varied.space.rows(np.arange(varied.space.size))
        for moved, limits in (({i: 1}, LIMITS), ({i: 1, power: place}, tighter)):
            inside, is_exact = points.select(moved)
            positions = points.front(np.flatnonzero(inside))
            known = np.unique(points.objectives[positions, :2], axis=0)
            true = front_by_hand(varied.space, rows, limits)
            assert is_exact == (varied is without)
            assert np.array_equal(known, true) or not is_exact
            assert (true[:, None] <= known[None]).all(axis=2).any(axis=0).all() and len(known)
            for design in points.designs(positions):
                assert varied.space.encode(design).shape == (1, len(space.parameters))
    area = names.index("area_mm2")
    assert not points.select({len(names): 1, area: len(points.handles[area].bounds) - 1})[1]
