"""Proofs that list fewer designs give what the enumeration of all gives."""

import numpy as np
import pytest

from codesign.api import build_evaluator, load_space
from codesign.search.enumeration import enumerate_front
from codesign.search.problem_builder import build_problem
from codesign.search.problems import proof


def _problem(space, **options):
    evaluator = build_evaluator("benchmark-functions", {}, options)
    return build_problem(load_space(space), evaluator, ["minimize f1", "minimize f2"])


@pytest.mark.parametrize(
    ("kind", "space", "options"),
    [
        ("reduction", "grid-7x5", {"function": "welded-beam", "steps": 4, "unused": 3}),
        ("closed form", "zdt", {"function": "zdt3"}),
    ],
)
def test_a_proof_gives_the_front_of_the_enumeration(kind, space, options, tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "_MOST_ENUMERATED", 1000)
    problem = _problem(space, **options)
    proven, front = proof.prove(problem, tmp_path, lambda: problem), enumerate_front(problem)
    assert proven.proof == kind
    assert (proven.objectives == front.objectives).all()
    assert list(proven.counts) == front.counts.tolist()
    assert (problem.evaluate(proven.rows).objectives == front.objectives).all()
    rows = problem.space.rows(np.arange(problem.space.size))
    assert proven.n_feasible == problem.evaluate(rows).feasible.sum()
    assert proven.feasible_share == pytest.approx(proven.n_feasible / problem.space.size)
