"""The cantilever by hand, and where two families meet."""

import numpy as np
import pytest

from codesign.evaluators.functions.benchmark_functions import FUNCTIONS

CANTILEVER = FUNCTIONS["cantilever"]


def _values(*x):
    objectives, limits = CANTILEVER.compute(np.atleast_2d(np.array(x, dtype=float)), 2)
    return [float(column[0]) for column in (*objectives, *limits)]


def test_a_round_bar_of_steel_weighs_and_bends_as_by_hand():
    # 0.1 m across: area 7.854e-3 m^2, inertia 4.909e-6 m^4; 2 kN at the end of 2 m.
    mass, deflection, limit = _values(0, 0, 0.1, 0.001, 0.02, 0.001)
    assert mass == pytest.approx(7850 * np.pi / 4 * 0.01 * 2)
    assert deflection == pytest.approx(2000 * 8 / (3 * 200e9 * np.pi / 64 * 1e-4))
    assert limit == pytest.approx(2000 * 2 * 0.05 / (np.pi / 64 * 1e-4) / 340e6 - 1)


@pytest.mark.parametrize("material", [0, 1, 2])
def test_a_tube_whose_wall_fills_it_is_a_round_bar(material):
    bar = _values(0, material, 0.04, 0.001, 0.02, 0.001)
    assert _values(1, material, 0.04, 0.02, 0.02, 0.001) == pytest.approx(bar)


def test_a_box_and_an_i_beam_of_equal_walls_bend_alike_but_for_the_webs():
    # A box of two webs of thickness t is an I-beam with one web of 2 t.
    box = _values(2, 0, 0.1, 0.005, 0.08, 0.001)
    i_beam = _values(3, 0, 0.1, 0.010, 0.08, 0.005)
    assert i_beam == pytest.approx(box)
