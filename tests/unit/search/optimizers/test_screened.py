"""A cheaper evaluator that is asked design by design: when, about what, and what is learned."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.search.optimizers import initial_designs
from codesign.search.optimizers.base import KeySet, ScreeningTerms
from codesign.search.optimizers.ehvi import GpEhvi
from codesign.search.optimizers.improvement import Scale
from codesign.search.pareto import hypervolume

pytestmark = pytest.mark.usefixtures("gp")

TERMS = ScreeningTerms(cost=0.05, share=0.2)
REFERENCE = np.array([15.0, 30.0])
QUICK = {"candidates": 32, "mutants": 8, "neighborhoods": 1, "local_search": 1, "iterations": 1}


def objectives(rows):
    """(n, 2) to minimize, rugged in every parameter; the best designs have a sum of 15."""
    mixed = (rows @ np.array([5, 3, 7, 2])) % 13
    return np.column_stack([1.0 + mixed, 14.0 - mixed + rows[:, 0]])


def limit(rows):
    """(n, 2) an own limit of the dear evaluator, and one that both know."""
    return np.column_stack([rows[:, 1] / 30.0 - 1.0, rows[:, 2] / 8.0 - 1.0])


def built(search, terms=TERMS, seed=0):
    space = replace(search, screening=terms)
    return GpEhvi(space, 2, seed, GpEhvi.Options(**QUICK), REFERENCE)


def tell(optimizer, rows):
    failed = rows[:, 0] == 9
    values, violations = objectives(rows), limit(rows)
    values[failed] = violations[failed] = np.nan
    optimizer.tell(rows, values, violations, failed)


def tell_screened(optimizer, rows, cheap=lambda rows: 2.0 * objectives(rows)):
    failed = rows[:, 0] == 7
    values, violations = cheap(rows), limit(rows)[:, 1:]
    values[failed] = violations[failed] = np.nan
    optimizer.tell_screened(rows, values, violations, failed)


def searched(search, n, cheap=None, seed=0):
    """An optimizer after n designs, with the batches of each evaluator."""
    optimizer = built(search, TERMS if cheap else None, seed)
    rows, screened = initial_designs(search, 4, seed), []
    tell(optimizer, rows)
    while len(rows) < n:
        while cheap and len(asked := optimizer.ask_screened(search.no_rows)):
            screened.append(asked)
            tell_screened(optimizer, asked, cheap)
        fresh = optimizer.ask(1)
        tell(optimizer, fresh)
        rows = np.concatenate([rows, fresh])
    return optimizer, rows, screened


def test_what_a_model_sees_is_turned_back():
    for values in (np.array([2.0, 8.0]), np.array([-2.0, -8.0]), np.array([-1.0, 5.0])):
        scale = Scale.fit(values)
        assert scale.natural(scale.modeled(values)) == pytest.approx(values)


def test_the_time_for_it_is_a_share_of_that_for_the_dear_evaluator():
    assert [TERMS.n_allowed(n) for n in (1, 5)] == [4, 20]
    assert ScreeningTerms(0.5, 0.2).n_allowed(2) == 0
    assert ScreeningTerms(0.1, 0.3).n_allowed(1) == 3, "not 2, by rounding"


def test_designs_with_a_result_are_screened_first_then_distinct_ones_within_the_time(grid):
    search = grid(4, 10)
    optimizer = built(search)
    rows = initial_designs(search, 4, 0)
    assert not len(optimizer.ask_screened(search.no_rows)), "nothing is known yet"
    tell(optimizer, rows)
    first = optimizer.ask_screened(search.no_rows)
    assert sorted(first.tolist()) == sorted(rows[rows[:, 0] != 9].tolist())
    tell_screened(optimizer, first)
    keys = KeySet(search.space.keys(rows))
    n = len(first)
    pending = optimizer.ask(1)
    while len(asked := optimizer.ask_screened(pending)):
        assert np.array_equal(asked, optimizer.ask_screened(pending)), "asking changes nothing"
        assert len(search.distinct(asked, keys)) == len(asked) <= 8
        assert not (asked == pending).all(axis=1).any()
        keys.add(search.space.keys(asked))
        tell_screened(optimizer, asked)
        n += len(asked)
    assert len(first) < n <= TERMS.n_allowed(6)


def test_the_order_in_which_the_two_took_turns_makes_no_difference(grid):
    search, nothing = grid(4, 10), grid(4, 10).no_rows
    rows, more = initial_designs(search, 6, 0), initial_designs(search, 24, 1)
    optimizer, later = built(search), built(search)
    tell(optimizer, rows)
    optimizer.ask(1)
    tell_screened(optimizer, rows)
    optimizer.ask_screened(nothing)
    tell_screened(optimizer, more[:20])
    optimizer.ask(1)
    tell_screened(optimizer, more[20:])
    tell_screened(later, np.concatenate([rows, more]))
    tell(later, rows[:3])
    tell(later, rows[3:])
    assert np.array_equal(later.ask_screened(nothing), optimizer.ask_screened(nothing))
    worths = [
        item._values(more, item._fitted(item._memory.history())) for item in (later, optimizer)
    ]
    assert np.array_equal(*worths)
    assert np.array_equal(later.ask(2), optimizer.ask(2))


def test_a_cheaper_evaluator_that_tells_nothing_is_left_out_after_five_designs(grid):
    def noise(rows):
        return 1.0 + (rows @ np.array([[911, 357], [77, 513], [631, 999], [223, 101]])) % 97

    _, _, useful = searched(grid(4, 10), 8, lambda rows: 2.0 * objectives(rows) ** 1.1)
    _, _, useless = searched(grid(4, 10), 8, noise)
    most = TERMS.n_allowed(6) + 4
    assert len(np.concatenate(useless)) <= most < len(np.concatenate(useful))


@pytest.mark.slow
def test_it_saves_dear_evaluations(grid):
    def share(cheap, seed):
        _, rows, _ = searched(grid(4, 10), 10, cheap, seed)
        rows = rows[(rows[:, 0] != 9) & (limit(rows) <= 0).all(axis=1)]
        return hypervolume(objectives(rows), REFERENCE)

    def cheap(rows):
        return 3.0 * objectives(rows) + (rows[:, :2] % 2)

    gains = [share(cheap, seed) - share(None, seed) for seed in range(3)]
    assert np.median(gains) > 0
