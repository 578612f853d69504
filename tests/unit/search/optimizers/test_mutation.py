"""Mutants: near their parents, at every scale, and never without a parent."""

import numpy as np

from codesign.search.optimizers.mutation import mutants, strides
from codesign.space import parse_space


def test_mutants_change_one_to_three_parameters_by_steps_of_every_scale(grid):
    space = grid(8, 200).space
    parent = np.full((1, 8), 100)
    rows = mutants(space, parent, 500, np.random.default_rng(0))
    changes = (rows != parent).sum(axis=1)
    assert set(changes) == {1, 2, 3}
    steps = np.abs(rows - parent)[rows != parent]
    assert (steps == 1).mean() > 0.05
    assert (steps > 50).mean() > 0.1
    assert space.contains(rows).all()


def test_half_of_the_mutants_mix_two_parents(grid):
    space = grid(8, 200).space
    parents = np.array([[20] * 8, [180] * 8])
    rows = mutants(space, parents, 400, np.random.default_rng(0))
    is_mixed = ((rows == 20).sum(axis=1) > 1) & ((rows == 180).sum(axis=1) > 1)
    assert 0.15 < is_mixed.mean() < 0.5


def test_mutants_of_conditional_designs_are_canonical(tiered):
    space = tiered.space
    parents = space.sample(np.random.default_rng(0), 5)
    rows = mutants(space, parents, 300, np.random.default_rng(1))
    assert np.array_equal(rows, space.canonical(rows))
    assert tiered.admits(rows).mean() > 0.1


def test_every_value_and_its_absence_can_come_out_of_a_mutation():
    space = parse_space(
        "parameters: {a: [1, 2, 3], b: {values: [1, 2, 4], optional: true}, c: [x, y, z]}", {}
    )
    parents = space.sample(np.random.default_rng(0), 1)
    rows = mutants(space, parents, 500, np.random.default_rng(1))
    codes = [sorted(set(column)) for column in rows.T.tolist()]
    assert codes == [[0, 1, 2], [-1, 0, 1, 2], [0, 1, 2]]


def test_without_parents_there_are_no_mutants(tiered):
    assert not len(mutants(tiered.space, tiered.no_rows, 10, np.random.default_rng(0)))


def test_strides_move_one_number_by_powers_of_two(grid):
    rows = strides(grid(2, 20).space, np.array([10, 3]))
    steps = rows - np.array([10, 3])
    assert ((steps != 0).sum(axis=1) == 1).all()
    assert sorted(steps[steps[:, 0] != 0, 0]) == [-8, -4, -2, 2, 4, 8]
    assert sorted(steps[steps[:, 1] != 0, 1]) == [-2, 2, 4, 8, 16]
