"""Heat against closed forms and a network that is solved; wear and carbon by hand."""

import numpy as np
import pytest

from codesign.base.records import drop_none
from codesign.models.accounts.account_constants import PROCESSES, constants_at
from codesign.models.accounts.area import floorplan
from codesign.models.accounts.carbon import operational_kgco2e_per_joule
from codesign.models.accounts.heat import (
    Sources,
    sources_of,
    temperatures,
)
from codesign.models.accounts.placement import Placement
from codesign.models.accounts.wear import LONGEST_LIFE_YEARS, lifetime_years
from codesign.models.hardware.accelerator import build_accelerators
from codesign.models.hardware.power import thermal_design_watts
from codesign.models.memtech import load_library
from codesign.space import load_space
from tests.laws import never_falls

N7 = constants_at("n7")


def sources(base, layers=0.0, n=0, array=0.0, dram=0.0):
    watts = [np.array([float(value)]) for value in (base - array, layers, n, dram, dram > 0)]
    return Sources({"array": np.array([array])}, *watts)


def mean(of, mm2, cooling="liquid"):
    return float(of.mean_celsius(np.array([mm2]), N7, cooling)[0])


def square_with_a_band(mm2, band_mm):
    """A base whose array is a band across its middle."""
    side = mm2**0.5
    x, y, width, height, none = (
        np.array([[value]]) for value in (0.0, (side - band_mm) / 2, side, band_mm, 0.0)
    )
    sides = np.full((2, 1), side)
    layers = np.concatenate([np.zeros((2, 1)), sides])
    return Placement(("array",), x, y, width, height, none, sides, np.ones((2, 1)), layers)


def hottest(of, place, cooling="liquid"):
    return float(temperatures(of, place, N7, cooling).hottest_celsius[0])


def test_a_bare_die_is_its_resistances_above_the_ambient():
    silicon = 0.775 / 0.12
    assert sources(400).density_w_per_mm2(np.array([500.0]))[0] == pytest.approx(0.8)
    assert mean(sources(400), 500) == pytest.approx(35 + 0.8 * (40 + silicon))
    assert mean(sources(400), 500, "air") == pytest.approx(35 + 0.8 * (90 + silicon))


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_the_mean_equals_a_network_that_is_solved(n):
    base = 300.0
    layers = 70.0
    dram = 20.0
    mm2 = 600.0
    silicon, bond = 0.05 / 0.12, N7.layer_kelvin_mm2_per_watt
    conductance, watts = np.zeros((n + 2, n + 2)), np.full(n + 2, layers / n)
    watts[0], watts[-1] = base, dram  # node 0 is the base, the last the DRAM on top
    for lower in range(n + 1):
        between = mm2 / (bond + (0.1 / 0.12 if lower == 0 else silicon))
        conductance[lower : lower + 2, lower : lower + 2] += between * np.array([[1, -1], [-1, 1]])
    conductance[-1, -1] += mm2 / (N7.liquid_kelvin_mm2_per_watt + silicon)
    rise = np.linalg.solve(conductance, watts)
    stack = sources(base, layers, n, dram=dram)
    assert mean(stack, mm2) == pytest.approx(N7.ambient_celsius + rise[0])
    assert stack.limit_celsius[0] == 95.0 and sources(1).limit_celsius[0] == 105.0


def test_heat_of_the_whole_base_has_no_hot_spot():
    stack = sources(300, 60, 3, array=300)
    assert hottest(stack, square_with_a_band(400, 20.0)) == pytest.approx(mean(stack, 400))


@pytest.mark.parametrize("n", [0, 2])
def test_a_narrower_band_is_hotter(n):
    stack = sources(200, 30, n, array=150)
    celsius = [hottest(stack, square_with_a_band(400, band)) for band in (20.0, 8.0, 4.0, 2.0)]
    assert never_falls(celsius) and celsius[-1] > celsius[0] + 20


def test_temperatures_add_up_over_the_sources():
    place = square_with_a_band(400, 4.0)
    parts = sources(100), sources(150, array=150), sources(0, 40, 3)
    base = [sources(100, n=3), sources(150, n=3, array=150), parts[2]]
    stack = sources(250, 40, 3, array=150)
    rises = [temperatures(part, place, N7, "liquid").celsius for part in base]
    means = [mean(part, 400) - N7.ambient_celsius for part in base]
    band = float(np.nansum(rises[1]))
    total = band + means[0] + means[2]
    # The array stands in the middle of the layers, which warm it evenly.
    assert float(temperatures(stack, place, N7, "liquid").celsius[0, 0]) == pytest.approx(total)


def test_more_power_or_less_area_is_never_cooler():
    start = hottest(sources(300, 50, 2, array=100), square_with_a_band(600, 3.0), "air")
    for change in (
        hottest(sources(301, 50, 2, array=100), square_with_a_band(600, 3.0), "air"),
        hottest(sources(300, 51, 2, array=100), square_with_a_band(600, 3.0), "air"),
        hottest(sources(300, 50, 2, array=100), square_with_a_band(599, 3.0), "air"),
        hottest(sources(300, 50, 3, array=100), square_with_a_band(600, 3.0), "air"),
    ):
        assert change > start


def test_the_units_of_an_array_have_the_density_of_published_blocks_in_every_format():
    library = load_library()
    space = load_space("memexplorer", {"memtech": library.catalog()})
    row = space.encode(drop_none(space.designs["Base"]))
    hardware = build_accelerators(space.columns(row), library)
    for process in PROCESSES:
        constants = constants_at(process)
        for width in (4.0, 8.0, 16.0):
            bits = np.full((2, 1), width)
            watts = thermal_design_watts(hardware, *bits, constants.operation_energies)
            heat = sources_of(hardware, watts, bits, np.ones(1), constants)
            area = floorplan(hardware, *bits, constants).blocks.array
            assert (
                0.9 < heat.blocks["array"][0] / area[0] < 2.0
            )  # near the largest published of a block
            assert heat.blocks["array"] + heat.spread == pytest.approx(watts["array"])


def test_p1_wears_its_flash_out_in_a_month_or_in_years():
    rate = np.array([[0.0], [0.46e9]])
    worn = [
        float(lifetime_years(rate, np.array([[0.0], [1 / (384e9 * cycles)]]))[0])
        for cycles in (3_000, 100_000)
    ]
    assert worn[0] * 365.25 == pytest.approx(29, abs=0.1)
    assert worn[1] == pytest.approx(2.65, abs=0.01)


def test_what_does_not_wear_has_the_longest_life():
    assert lifetime_years(np.array([[1e12]]), np.array([[0.0]]))[0] == LONGEST_LIFE_YEARS


def test_a_kilowatt_hour_has_the_carbon_of_the_grid_and_the_data_center():
    assert operational_kgco2e_per_joule(N7) * 3.6e6 == pytest.approx(1.58 * 0.38)
