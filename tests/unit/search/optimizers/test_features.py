"""What models look at: the space's features and what is told of designs in advance."""

import numpy as np
import pytest

from codesign.search.optimizers import SearchSpace, initial_designs
from codesign.search.optimizers.ehvi import GpEhvi


def described(search, describe):
    return SearchSpace(search.space, search.admits, describe)


def test_described_numbers_are_added_on_a_scale_from_0_to_1(grid):
    search = grid(2, 30)
    rows = search.space.rows(np.arange(900))
    both = described(search, lambda rows: {"rate": 10.0 ** rows[:, 0], "gap": rows[:, 1] - 9.0})
    features = both.features(rows)
    assert np.array_equal(features[:, :2], search.features(rows))
    # The logarithm of what is positive, and what has both signs as it is.
    assert features[:, 2:] == pytest.approx(rows / 29)


def test_one_design_is_described_as_in_company(grid):
    search = described(
        grid(2, 30), lambda rows: {"some": rows[:, 0] - 3.0, "other": rows[:, 1] * 1.0}
    )
    rows = initial_designs(search, 20, 0)
    alone = np.concatenate([search.features(row[None, :]) for row in rows])
    assert np.array_equal(alone, search.features(rows))


@pytest.mark.parametrize("value", [3.0, np.nan, np.inf])
def test_numbers_that_tell_nothing_are_left_out(grid, value):
    search = described(grid(2, 30), lambda rows: {"same": np.full(len(rows), value)})
    rows = initial_designs(search, 20, 0)
    assert np.array_equal(search.features(rows), grid(2, 30).features(rows))


@pytest.mark.usefixtures("gp")
def test_a_description_that_gives_the_objectives_away_is_used(grid):
    search = grid(4, 12)

    def objectives(rows):
        mixed = (rows @ np.array([5, 3, 7, 2])) % 13
        return np.column_stack([1.0 + mixed, 14.0 - mixed + rows[:, 0]])

    def hints(rows):
        values = objectives(rows)
        return {"first": values[:, 0], "second": values[:, 1]}

    found = {}
    for name, space in (("with", described(search, hints)), ("without", search)):
        options = GpEhvi.Options(candidates=256, mutants=64, iterations=15, local_search=1)
        optimizer = GpEhvi(space, 2, 0, options, np.array([15.0, 30.0]))
        rows = initial_designs(space, 12, 0)
        optimizer.tell(rows, objectives(rows), np.zeros((12, 0)), np.zeros(12, dtype=bool))
        found[name] = objectives(optimizer.ask(6)).sum(axis=1).mean()
    # The best designs have a sum of 15.
    assert found["with"] < min(15.5, found["without"])


def test_the_values_of_one_category_are_one_group_and_all_else_is_by_itself(tiered):
    names = tiered.space.feature_names
    groups = described(tiered, lambda rows: {"size": rows[:, 0] + 1.0}).feature_groups
    assert len(groups) == len(names) + 1
    is_policy = np.array([name.startswith("policy ") for name in names] + [False])
    assert is_policy.sum() == 3
    assert len(set(groups[is_policy])) == 1
    assert len(set(groups)) == (~is_policy).sum() + 1
    assert sorted(set(groups)) == list(range(len(set(groups))))
