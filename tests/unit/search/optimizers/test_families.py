"""Every optimizer searches a space of five families, each with parameters of its own."""

from pathlib import Path

import numpy as np
import pytest

from codesign.base import plugins
from codesign.search.optimizers import SearchSpace, initial_designs
from codesign.space import parse_space

FILE = Path(__file__).parents[2] / "space" / "families.yaml"
QUICK = {
    "gp-ehvi": {
        "candidates": 16,
        "mutants": 8,
        "iterations": 1,
        "neighborhoods": 1,
        "local_search": 1,
    },
    "gp-ehvi-paper": {"candidates": 16, "iterations": 1},
    "nsga2": {"population": 10},
}
PROPOSALS = {"gp-ehvi": 3, "gp-ehvi-paper": 3}
"""Fewer where each proposal fits Gaussian processes."""


@pytest.fixture(scope="module")
def search():
    space = parse_space(FILE.read_text("utf-8"))
    return SearchSpace(space, space.contains)


@pytest.mark.usefixtures("gp")
@pytest.mark.parametrize("name", sorted({*plugins.names("optimizers")} - {"peer"}))
def test_an_optimizer_makes_new_proposals_in_a_space_of_families(search, name):
    n = 10 + PROPOSALS.get(name, 30)
    factory = plugins.load("optimizers", name)
    optimizer = factory(search, 2, 0, factory.Options(**QUICK.get(name, {})))
    proposed, rows = search.no_rows, initial_designs(search, 10, 0)
    while len(rows):
        points = search.space.points(rows)
        objectives = np.column_stack([points.sum(axis=1) + rows[:, 0], (1 - points).prod(axis=1)])
        optimizer.tell(rows, objectives, points[:, 1:2] - 0.7, np.zeros(len(rows), dtype=bool))
        proposed = np.concatenate([proposed, rows])
        rows = optimizer.ask(min(optimizer.preferred_batch, n - len(proposed)))
    assert len(np.unique(proposed, axis=0)) == len(proposed) == n
    assert search.space.contains(proposed).all()
    assert len(np.unique(proposed[:, 0])) >= 4
