"""NSGA-II: pymoo's selection, generations at fixed counts, and its speed."""

import numpy as np
import pytest

from codesign.search.optimizers import initial_designs
from codesign.search.optimizers.nsga2 import Nsga2
from codesign.search.optimizers.sampling import RandomSearch
from codesign.search.pareto import hypervolume

pytest.importorskip("pymoo")


def told(search, rows, objectives, violations=None, failed=None, population=20):
    optimizer = Nsga2(search, objectives.shape[1], 0, Nsga2.Options(population=population))
    nothing = np.zeros((len(rows), 0))
    optimizer.tell(
        rows,
        objectives,
        nothing if violations is None else violations,
        np.zeros(len(rows), dtype=bool) if failed is None else failed,
    )
    return optimizer


@pytest.mark.parametrize("m", [2, 3])
def test_the_same_designs_survive_as_in_pymoo(grid, m):
    from pymoo.core.population import Population
    from pymoo.core.problem import Problem
    from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

    search = grid(2, 40)
    rows = initial_designs(search, 80, 0)
    rng = np.random.default_rng(m)
    objectives = rng.random((80, m))
    violations = rng.normal(size=(80, 1))
    ours = told(search, rows, objectives, violations)

    # Generation by generation, as pymoo would be told.
    population = Population.new("X", np.empty((0, 2)))
    problem = Problem(n_var=2, n_obj=m, n_ieq_constr=1)
    for start in range(0, 80, 20):
        part = slice(start, start + 20)
        new = Population.new("X", rows[part], "F", objectives[part], "G", violations[part])
        population = Population.merge(population, new)
        survival = RankAndCrowding()
        population = survival.do(problem, population, n_survive=20, random_state=rng)
    expected = sorted(map(tuple, population.get("X").astype(int)))
    assert sorted(map(tuple, ours._population.rows)) == expected


def test_a_generation_ends_after_as_many_results_as_the_population(tiered, tell):
    optimizer = Nsga2(tiered, 2, 0, Nsga2.Options(population=8))
    tell(optimizer, tiered, initial_designs(tiered, 5, 0))
    assert len(optimizer.ask(100)) == 3
    tell(optimizer, tiered, optimizer.ask(3))
    generation = optimizer.ask(100)
    assert len(generation) == 8
    tell(optimizer, tiered, generation[:2])
    assert np.array_equal(optimizer.ask(100), generation[2:])


def test_designs_that_somebody_else_evaluated_are_not_proposed_again(tiered, tell):
    optimizer = Nsga2(tiered, 2, 0, Nsga2.Options(population=6))
    tell(optimizer, tiered, initial_designs(tiered, 6, 0))
    generation = optimizer.ask(6)
    tell(optimizer, tiered, generation[3:])
    assert np.array_equal(optimizer.ask(6), generation[:3])


def test_feasible_designs_survive_first_then_those_that_violate_least(grid):
    search = grid(1, 30)
    rows = np.arange(20)[:, None]
    objectives = np.column_stack([np.arange(20.0), -np.arange(20.0)])  # no design dominates
    violations = np.where(np.arange(20) % 5 == 0, 0.0, np.arange(20.0))[:, None]
    failed = np.arange(20) == 1
    objectives[failed] = np.nan
    optimizer = told(
        search, np.vstack([rows[10:], rows[:10]]),
        np.vstack([objectives[10:], objectives[:10]]),
        np.vstack([violations[10:], violations[:10]]),
        np.concatenate([failed[10:], failed[:10]]),
        population=10,
    )  # fmt: skip
    # 0, 5, 10, 15 are feasible; 1 failed, so 2, 3, 4, 6, ... violate least.
    assert sorted(optimizer._population.rows[:, 0]) == [0, 2, 3, 4, 5, 6, 7, 8, 10, 15]


def test_it_comes_closer_to_a_known_front_than_chance(grid, bowls, tell):
    search = grid(6, 9)
    reference = np.array([2.0, 2.0])
    # The nearest to both targets lie on the diagonal.
    best = hypervolume(bowls(search, np.repeat(np.arange(9)[:, None], 6, axis=1)), reference)
    lost = {}
    for factory in (Nsga2, RandomSearch):
        optimizer = factory(search, 2, 0, factory.Options())
        rows = initial_designs(search, 20, 0)
        values = []
        for _ in range(20):
            tell(optimizer, search, rows)
            values.append(bowls(search, rows))
            rows = optimizer.ask(20)
        lost[factory] = best - hypervolume(np.concatenate(values), reference)
    assert lost[Nsga2] < 0.4 * lost[RandomSearch]


def test_a_large_population_is_asked_for_in_full_in_every_generation(grid, tell):
    search = grid(12, 8)
    optimizer = Nsga2(search, 2, 0, Nsga2.Options(population=1000))
    rows = initial_designs(search, 1000, 0)
    for _ in range(3):
        tell(optimizer, search, rows)
        rows = optimizer.ask(1000)
        assert len(np.unique(rows, axis=0)) == 1000
