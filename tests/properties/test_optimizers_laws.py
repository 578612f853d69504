"""Laws of optimizers over random histories."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.search.optimizers import KeySet, SearchSpace
from codesign.search.optimizers.improvement import Scale, expected_hypervolume_improvement
from codesign.search.optimizers.local_search import ParetoLocalSearch
from codesign.search.optimizers.nsga2 import Nsga2
from codesign.search.optimizers.sampling import RandomSearch, SobolSearch
from codesign.space import parse_space
from tests.laws import never_falls

SPACE = parse_space(
    "parameters: {a: {low: 0, high: 9}, b: {low: 0, high: 9}, c: [x, y, z]}", {}, "laws.yaml"
)
SEARCH = SearchSpace(SPACE, lambda rows: SPACE.contains(rows) & (rows[:, 0] + rows[:, 1] != 5))

keys = st.lists(st.lists(st.integers(-(2**62), 2**62), max_size=30), max_size=12)


@given(keys, st.lists(st.integers(-(2**62), 2**62), max_size=10))
@settings(deadline=None)
def test_a_key_set_is_a_set(parts, others):
    ours, theirs = KeySet(), set()
    for part in parts:
        ours.add(np.array(part, dtype=np.int64))
        theirs |= set(part)
    asked = np.array([*others, *theirs], dtype=np.int64)
    assert len(ours) == len(theirs)
    assert ours.contains(asked).tolist() == [key in theirs for key in asked.tolist()]


@given(
    st.sampled_from([RandomSearch, SobolSearch, Nsga2, ParetoLocalSearch]),
    st.integers(0, 5),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.floats(0, 1),
)
@settings(deadline=None, max_examples=40)
def test_suggestions_do_not_depend_on_the_pieces_of_the_history(
    factory, seed, asked, pieces, share_failing
):
    pytest.importorskip("pymoo")
    options = Nsga2.Options(population=5) if factory is Nsga2 else factory.Options()
    optimizer, fresh = (factory(SEARCH, 2, seed, options) for _ in range(2))
    history = []
    for n in asked:
        results = evaluated(optimizer.ask(n), share_failing)
        optimizer.tell(*results)
        history.append(results)
    whole = [np.concatenate(parts) for parts in zip(*history, strict=True)]
    start, i = 0, 0
    while start < len(whole[0]):
        end = start + pieces[i % len(pieces)]
        fresh.tell(*(array[start:end] for array in whole))
        start, i = end, i + 1
    assert np.array_equal(optimizer.ask(7), fresh.ask(7))


def evaluated(rows, share_failing):
    values = np.column_stack([rows[:, 0] - rows[:, 2], rows[:, 1] * 1.0])
    failed = SPACE.keys(rows) * 7919 % 100 < 100 * share_failing
    values[failed] = np.nan
    return rows, values, values[:, :1] - 4, failed


@given(st.floats(-3, 3), st.floats(0.01, 3), st.sampled_from([-1, 0, 1]), st.floats(0, 2))
def test_improvement_is_never_negative_and_grows_with_uncertainty(mean, deviation, sign, more):
    scale = Scale(sign, 0.2, 0.7)
    bounds = np.array([-np.inf, -2.0, -0.3, 0.4, 3.0])

    def improvement(spread):
        return expected_hypervolume_improvement(
            np.array([[mean]]), np.array([[spread]]), [scale], bounds[:1, None], bounds[3:4, None]
        )[0]

    assert improvement(deviation) >= 0
    # Of a log-normal belief the mean grows with the spread, which need not help a positive one.
    if sign < 1:
        assert improvement(deviation + more) >= improvement(deviation) * (1 - 1e-9) - 1e-12
    shortfall = scale.expected_shortfall(np.array([mean]), np.array([deviation]), bounds)[0]
    assert never_falls(shortfall)
