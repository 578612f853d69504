"""Seen designs, uniform unseen ones, and the initial designs that all optimizers share."""

import tracemalloc

import numpy as np
import pytest

from codesign.search.optimizers import KeySet, SearchSpace, initial_designs
from codesign.search.optimizers.base import SobolSequence
from codesign.search.optimizers.sampling import RandomSearch, SobolSearch
from codesign.space import parse_space


def test_a_million_keys_take_less_than_40_megabytes_and_are_all_found():
    keys = np.random.default_rng(0).permutation(4_000_000)[:1_000_000] * 1_000_003
    seen = KeySet()
    tracemalloc.start()
    for part in np.split(keys, 1000):
        seen.add(part)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(seen) == 1_000_000
    assert seen.contains(keys).all()
    assert not seen.contains(keys + 1).any()
    assert peak < 40e6


@pytest.fixture(scope="module")
def everything(tiered):
    rows = tiered.space.rows(np.arange(tiered.space.size))
    return rows[tiered.admits(rows)]


def test_unseen_designs_are_drawn_uniformly(tiered, everything):
    from scipy.stats import chisquare

    seen = KeySet(tiered.space.keys(everything[::2]))
    left = np.sort(tiered.space.keys(everything[1::2]))
    rng = np.random.default_rng(5)
    drawn = [tiered.space.keys(tiered.sample_unseen(rng, 1, seen))[0] for _ in range(1500)]
    counts = np.bincount(np.searchsorted(left, drawn), minlength=len(left))
    assert set(drawn) <= set(left.tolist())
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("n_left", [0, 1, 5])
def test_the_last_designs_of_a_space_are_found(tiered, everything, n_left):
    seen = KeySet(tiered.space.keys(everything[n_left:]))
    rows = tiered.sample_unseen(np.random.default_rng(0), 8, seen)
    assert sorted(map(tuple, rows)) == sorted(map(tuple, everything[:n_left]))


def test_a_rare_admissible_design_among_a_million_is_found(grid):
    space = grid(6, 10).space
    rare = SearchSpace(space, lambda rows: (rows == 7).all(axis=1))
    assert rare.sample_unseen(np.random.default_rng(0), 3, KeySet()).tolist() == [[7] * 6]
    assert initial_designs(rare, 20, 0).tolist() == [[7] * 6]


def test_initial_designs_are_distinct_admissible_and_decided_by_the_seed(tiered):
    rows = initial_designs(tiered, 20, 3)
    assert len(np.unique(tiered.space.keys(rows))) == 20
    assert tiered.admits(rows).all()
    assert np.array_equal(rows, initial_designs(tiered, 20, 3))
    assert np.array_equal(rows[:7], initial_designs(tiered, 7, 3))
    assert not np.array_equal(rows, initial_designs(tiered, 20, 4))


def test_initial_designs_balance_every_level(grid):
    rows = initial_designs(grid(3, 8), 32, 0)
    for column in rows.T:
        assert np.bincount(column).tolist() == [4] * 8


def test_initial_designs_of_a_small_space_are_all_of_it(grid):
    assert sorted(initial_designs(grid(1, 3), 20, 0)[:, 0].tolist()) == [0, 1, 2]


def test_the_sobol_search_continues_the_initial_designs(tiered, tell):
    search = SobolSearch(tiered, 2, 1, SobolSearch.Options())
    first = initial_designs(tiered, 10, 1)
    tell(search, tiered, first)
    assert np.array_equal(
        np.concatenate([first, search.ask(15)]), SobolSequence(tiered, 1).first_unseen(25, KeySet())
    )


def test_a_space_without_any_freedom_has_one_design():
    space = parse_space("parameters: {size: [1]}", {}, "one.yaml")
    search = SearchSpace(space, space.contains)
    assert initial_designs(search, 5, 0).tolist() == [[0]]
    assert RandomSearch(search, 1, 0, RandomSearch.Options()).ask(2).tolist() == [[0]]


def test_random_search_is_asked_for_as_many_as_its_option_says(tiered):
    assert RandomSearch(tiered, 2, 0, RandomSearch.Options()).preferred_batch == 1
    assert RandomSearch(tiered, 2, 0, RandomSearch.Options(batch=64)).preferred_batch == 64
