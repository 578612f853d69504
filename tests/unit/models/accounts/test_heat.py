"""Heat against closed forms and a network that is solved; wear and carbon by hand."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.models.accounts.account_constants import constants_at
from codesign.models.accounts.carbon import operational_kgco2e_per_joule
from codesign.models.accounts.heat import Heat
from codesign.models.accounts.wear import LONGEST_LIFE_YEARS, lifetime_years

N7 = constants_at("n7")


def heat(base: float, layers: float, mm2: float, n: int) -> Heat:
    return Heat(*(np.array([float(value)]) for value in (base, layers, mm2, n)))


def test_a_bare_die_is_one_resistance_above_the_ambient() -> None:
    stack = heat(400, 0, 500, 0)
    assert stack.density_w_per_mm2[0] == pytest.approx(0.8)
    assert stack.junction_celsius(N7, "liquid")[0] == pytest.approx(35 + 0.8 * 40)
    assert stack.junction_celsius(N7, "air")[0] == pytest.approx(35 + 0.8 * 90)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_the_chain_equals_a_network_that_is_solved(n: int) -> None:
    base, layers, mm2 = 300.0, 70.0, 600.0
    between, outside = mm2 / N7.layer_kelvin_mm2_per_watt, mm2 / N7.liquid_kelvin_mm2_per_watt
    conductance, watts = np.zeros((n + 1, n + 1)), np.full(n + 1, layers / n)
    watts[0] = base  # node 0 is the base, node n the top layer, which meets the cold plate
    for lower in range(n):
        conductance[lower : lower + 2, lower : lower + 2] += between * np.array([[1, -1], [-1, 1]])
    conductance[n, n] += outside
    rise = np.linalg.solve(conductance, watts)
    celsius = heat(base, layers, mm2, n).junction_celsius(N7, "liquid")[0]
    assert celsius == pytest.approx(N7.ambient_celsius + rise[0])


def test_twelve_layers_of_dram_on_a_gpu_are_as_hot_as_imec_found() -> None:
    # IEDM 2025: 141.7 degC below twelve layers, 69.1 degC beside them, with the same cooling. The
    # latter gives the power over the area; the layers' own power is left out.
    found = []
    for end in ("low", "typical", "high"):
        of_layers = constants_at("n7", end).layer_kelvin_mm2_per_watt
        constants = replace(N7, layer_kelvin_mm2_per_watt=of_layers)
        density = (69.1 - N7.ambient_celsius) / N7.liquid_kelvin_mm2_per_watt
        stack = heat(density * 800, 0, 800, 12)
        found.append(float(stack.junction_celsius(constants, "liquid")[0]))
    assert found[0] < 141.7 < found[2]
    assert found[1] == pytest.approx(69.1 + 12 * 5 * 0.8525)  # 120.3 degC


def test_more_power_or_less_area_is_never_cooler() -> None:
    start = {"base": 300.0, "layers": 50.0, "mm2": 600.0, "n": 2}
    coolest = heat(**start).junction_celsius(N7, "air")
    for change in ({"base": 301.0}, {"layers": 51.0}, {"mm2": 599.0}, {"n": 3}):
        assert heat(**{**start, **change}).junction_celsius(N7, "air") > coolest


def test_p1_wears_its_flash_out_in_a_month_or_in_years() -> None:
    rate = np.array([[0.0], [0.46e9]])
    worn = [
        float(lifetime_years(rate, np.array([[0.0], [1 / (384e9 * cycles)]]))[0])
        for cycles in (3_000, 100_000)
    ]
    assert worn[0] * 365.25 == pytest.approx(29, abs=0.1)
    assert worn[1] == pytest.approx(2.65, abs=0.01)


def test_what_does_not_wear_has_the_longest_life() -> None:
    assert lifetime_years(np.array([[1e12]]), np.array([[0.0]]))[0] == LONGEST_LIFE_YEARS


def test_a_kilowatt_hour_has_the_carbon_of_the_grid_and_the_data_center() -> None:
    assert operational_kgco2e_per_joule(N7) * 3.6e6 == pytest.approx(1.58 * 0.38)
