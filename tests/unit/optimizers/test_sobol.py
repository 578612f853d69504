"""Our Sobol points are those of SciPy, to the last bit, without its statistics."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import qmc

from codesign.optimizers import sobol


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("n_dimensions", [1, 2, 17, sobol.MOST_DIMENSIONS])
def test_points_are_those_of_scipy_to_the_last_bit(n_dimensions, seed):
    theirs = qmc.Sobol(n_dimensions, scramble=True, seed=np.random.default_rng(seed))
    ours = sobol.sobol_points(n_dimensions, seed)
    for n in (64, 64, 256):
        np.testing.assert_array_equal(ours(n), theirs.random(n))


def test_the_directions_of_every_dimension_are_those_of_scipy():
    theirs = qmc.Sobol(sobol.MOST_DIMENSIONS, scramble=False)
    np.testing.assert_array_equal(sobol._directions(sobol.MOST_DIMENSIONS), theirs._sv)


def test_more_dimensions_than_the_file_has_are_left_to_scipy(monkeypatch):
    ours = sobol.sobol_points(3, 1)(64)
    monkeypatch.setattr(sobol, "MOST_DIMENSIONS", 2)
    np.testing.assert_array_equal(sobol.sobol_points(3, 1)(64), ours)


def test_initial_designs_load_no_statistics_of_scipy():
    code = (
        "import sys; from codesign import api; from codesign.optimizers import *\n"
        "space = api.load_space('memexplorer')\n"
        "print(len(initial_designs(SearchSpace(space, space.contains), 8, 0)))\n"
        "print('scipy.stats' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8", "False"]
