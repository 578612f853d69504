"""Functions with limits against pymoo's."""

import numpy as np
import pytest

from codesign.evaluators.functions.constrained import CONSTRAINED


@pytest.mark.parametrize(
    ("name", "n_variables", "m"), [("osy", 6, 2), ("mw1", 7, 2), ("mw7", 7, 2), ("mw14", 7, 3)]
)
def test_objectives_and_limits_are_those_of_pymoo(name, n_variables, m):
    from pymoo.problems import get_problem

    function = CONSTRAINED[name]
    low, high = function.box(n_variables)
    x = low + (high - low) * np.random.default_rng(2).uniform(size=(300, n_variables))
    objectives, limits = function.compute(x, m)
    theirs = get_problem(name, **({} if name == "osy" else {"n_var": n_variables}))
    expected = theirs.evaluate(x, return_as_dictionary=True)
    assert np.allclose(np.stack(objectives, 1), expected["F"], rtol=1e-12, atol=1e-12)
    # MW7 bounds squares where pymoo, too, has squares; signs and sizes are the same.
    ours, others = np.stack(limits, 1), expected["G"]
    order = np.lexsort(np.abs(others[:3]))
    assert sorted(map(tuple, np.round(ours[:, order].T, 9).tolist())) == sorted(
        map(tuple, np.round(others[:, order].T, 9).tolist())
    )
