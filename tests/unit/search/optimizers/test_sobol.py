"""Points of Sobol sequences, which are SciPy's."""

import numpy as np
import pytest

from codesign.search.optimizers.sobol import sobol_points


@pytest.mark.parametrize(("n", "n_directions"), [(1, 1), (41, 41), (1030, 1024)])
def test_the_points_are_those_of_scipy_and_random_without_a_direction(n, n_directions):
    from scipy.stats import qmc

    engine = qmc.Sobol(n_directions, seed=np.random.default_rng(7))
    for first in (0, 512):
        points = sobol_points(n, 7, first, 512)
        assert np.array_equal(points[:, :n_directions], engine.random(512))
        assert len(set(points[:, n_directions:].flat)) == 512 * (n - n_directions)
