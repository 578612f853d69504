"""Pareto local search: whose neighbors it proposes, and what it does when there are none."""

import numpy as np

from codesign.search.optimizers import SearchSpace, initial_designs
from codesign.search.optimizers.local_search import ParetoLocalSearch
from codesign.search.optimizers.sampling import RandomSearch
from codesign.search.pareto import hypervolume


def told(search, rows, objectives, violations=None):
    optimizer = ParetoLocalSearch(search, objectives.shape[1], 0, ParetoLocalSearch.Options())
    limits = np.zeros((len(rows), 0)) if violations is None else violations
    optimizer.tell(rows, objectives, limits, np.isnan(objectives).any(axis=1))
    return optimizer


def is_neighbor(search, row, of):
    return (search.space.neighbors(of) == row).all(axis=1).any()


def test_it_proposes_neighbors_of_the_front_in_turn(grid):
    search = grid(2, 30)
    rows = np.array([[5, 5], [20, 20], [25, 3]])
    optimizer = told(search, rows, np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]))
    proposed = optimizer.ask(2)
    starts = {i for row in proposed for i in range(3) if is_neighbor(search, row, rows[i])}
    assert starts == {0, 1}


def test_without_anything_feasible_it_starts_from_what_violates_least(grid):
    search = grid(2, 30)
    rows = np.array([[5, 5], [20, 20], [12, 3]])
    values = np.array([[0.0, 0.0], [9.0, 9.0], [np.nan, np.nan]])
    optimizer = told(search, rows, values, np.array([[2.0], [1.0], [np.nan]]))
    assert is_neighbor(search, optimizer.ask(1)[0], rows[1])


def test_once_the_neighbors_are_exhausted_it_starts_again_from_the_next_best(grid):
    search = grid(1, 50)
    rows = np.array([[10], [9], [11], [40]])
    optimizer = told(search, rows, np.array([[0.0], [2.0], [2.0], [1.0]]))
    assert optimizer.ask(1)[0, 0] in (39, 41)
    # At last there is nothing but chance.
    isolated = SearchSpace(search.space, lambda rows: rows[:, 0] % 7 == 0)
    optimizer = told(isolated, np.array([[0], [7]]), np.array([[0.0], [1.0]]))
    assert optimizer.ask(1)[0, 0] in range(14, 50, 7)


def test_it_comes_closer_to_a_known_front_than_chance(grid, bowls, tell):
    search = grid(5, 9)
    reference = np.array([2.0, 2.0])
    best = hypervolume(bowls(search, np.repeat(np.arange(9)[:, None], 5, axis=1)), reference)
    lost = {}
    for factory in (ParetoLocalSearch, RandomSearch):
        optimizer = factory(search, 2, 0, factory.Options())
        rows = initial_designs(search, 20, 0)
        values = []
        for _ in range(150):
            tell(optimizer, search, rows)
            values.append(bowls(search, rows))
            rows = optimizer.ask(1)
        lost[factory] = best - hypervolume(np.concatenate(values), reference)
    assert lost[ParetoLocalSearch] < 0.5 * lost[RandomSearch]
