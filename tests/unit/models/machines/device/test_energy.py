"""Energy of kernels and the clock that a power limit leaves: hand arithmetic, and an H100."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.models.hardware.device import list_devices, load_device
from codesign.models.machines.device.clock import CEILING, product_share
from codesign.models.machines.device.energy import (
    EnergyConstants,
    KernelWork,
    burst_under,
    idle_watts,
    kernel_energy_joules,
    shipped_energy,
    sustained_time_s,
)
from codesign.models.machines.device.rates import DeviceRates, device_rates
from tests.laws import never_falls, never_rises
from validation.studies.measured_card import card_rates, card_rows, work_of

CONSTANTS = EnergyConstants.model_validate(
    {"idle": 0.1, "base": 0.2, "static": 0.2, "limit": 0.9, "byte": "62.5 pJ", "score": "100 pJ"}
    | {"flop_8bit": 0.5, "flop_4bit": 0.25}
)
RATES = DeviceRates(
    peak_16bit_flop_per_s=1e15,
    bandwidth_bytes_per_s=4e12,
    cache_bytes=0.0,
    n_cores=100.0,
    power_watts=500.0,
    power_limit_watts=500.0,
    burst_fraction=0.6,
    sustained_fraction=0.5,
)
WIDTHS = np.array([16.0, 8.0, 4.5])
PJ = 0.66 * 1.9**1.5
"""Of a FLOP at the highest clock, 1.9: at a clock of 1, 5e14 a second draw (0.86 - 0.2) x 500 W."""


def joules(flop, traffic, bits=16, scores=0):
    work = KernelWork(flop, traffic, bits, scores)
    return float(kernel_energy_joules(1e-3, work, RATES, CONSTANTS))


def sustained(flop, traffic, bits=16, rates=RATES):
    return float(sustained_time_s(1e-3, KernelWork(flop, traffic, bits), rates, CONSTANTS))


def test_energy_adds_base_arithmetic_and_traffic():
    # 500 W x 1 ms x 0.2 = 0.1 J; 62.5 pJ/byte x 1e9.
    assert joules(0, 0) == pytest.approx(0.1)
    assert joules(5e10, 0) == pytest.approx(0.1 + 0.05 * PJ)
    assert joules(0, 1e9) == pytest.approx(0.1 + 0.0625)
    assert joules(0, 0, scores=1e8) == pytest.approx(0.1 + 0.01 * 1.9**1.5)  # 100 pJ each


@pytest.mark.parametrize(("bits", "expected"), [(32, 1.0), (16, 1.0), (8, 0.5), (4, 0.25)])
def test_narrow_arithmetic_takes_less(bits, expected):
    assert joules(5e10, 0, bits) - joules(0, 0) == pytest.approx(0.05 * PJ * expected)


def test_no_kernel_draws_more_than_the_limit():
    assert joules(1e13, 1e11) == pytest.approx(500 * 1e-3 * 0.9)


def test_a_waiting_device_draws_its_idle_power_and_one_without_a_limit_none():
    assert idle_watts(RATES, CONSTANTS) == pytest.approx(50)
    unknown = replace(RATES, power_watts=np.nan, power_limit_watts=np.nan)
    assert np.isnan(kernel_energy_joules(1e-3, KernelWork(1e9, 1e9, 16), unknown, CONSTANTS))
    assert sustained(1e13, 1e9, rates=unknown) == 1e-3


def test_at_the_power_limit_arithmetic_slows_until_the_clock_draws_what_is_left():
    # A product of a burst, at a clock of 1.2; 450 - 100 W are left of 330 W at a clock of 1.
    clock = (350 / 330) ** (1 / 2.5)
    assert sustained(6e11, 0) == pytest.approx(1e-3 * 1.2 / clock)
    drawn = kernel_energy_joules(1e-3 * 1.2 / clock, KernelWork(6e11, 0, 16), RATES, CONSTANTS)
    assert drawn == pytest.approx(450 * 1e-3 * 1.2 / clock)
    assert sustained(6e10, 0) == pytest.approx(1e-3)
    # 2 GB take 0.125 J at any clock.
    seconds = sustained(6e11, 2e9)
    core = 0.66e-12 * 6e11 * (1.2e-3 / seconds) ** 1.5
    assert core + 0.125 + 100 * seconds == pytest.approx(450 * seconds)


def test_a_lower_limit_never_runs_faster_and_narrow_products_lose_as_others():
    watts = np.linspace(200.0, 700.0, 11)
    rates = replace(rates_of("h100-sxm"), power_limit_watts=watts)
    bursts = burst_under(rates, shipped_energy())
    assert never_falls(bursts)
    assert bursts[-1] == rates.burst_fraction
    for work in (KernelWork(1e12, 4e8, 16), KernelWork(2e12, 3e8, 8), KernelWork(0, 4e9, 16)):
        seconds = sustained_time_s(1.3e-3, work, rates, shipped_energy())
        assert never_rises(seconds)
        drawn = kernel_energy_joules(seconds, work, rates, shipped_energy())
        assert (drawn <= watts * seconds * (1 + 1e-9)).all()


def test_a_die_of_an_earlier_process_takes_more_for_a_byte_but_its_stacks_do_not():
    earlier = replace(RATES, process_power=2.0)
    drawn = kernel_energy_joules(1e-3, KernelWork(0, 1e9, 16), earlier, CONSTANTS)
    assert drawn == pytest.approx(0.1 + 0.031 + 2 * 0.0315)


def test_narrower_arithmetic_never_takes_more_and_idle_is_least():
    shipped = shipped_energy()
    assert shipped.flop_4bit <= shipped.flop_8bit <= 1
    assert shipped.static <= shipped.idle <= shipped.base <= shipped.limit <= 1


def rates_of(name):
    device = load_device(name)
    return device_rates(lambda number: number(device))


@pytest.mark.parametrize("name", [key for key in list_devices() if load_device(key).n_cores])
def test_narrow_products_reach_less_of_their_peak_but_more_arithmetic(name):
    rates = rates_of(name)
    shares = product_share(rates, WIDTHS)
    assert shares[0] == rates.burst_fraction >= rates.sustained_fraction
    assert never_rises(shares)
    assert (np.diff(shares * np.array([1.0, 2.0, 4.0])) > 0).all()
    assert (shares > 0.3).all()


def test_a_device_whose_limit_binds_no_product_never_slows():
    """An H20 is an H100 with a seventh of its peak at 400 W."""
    rates = rates_of("h20")
    assert (product_share(rates, WIDTHS) == 0.952).all()
    assert rates.burst_fraction >= CEILING
    flop = 0.952 * 148e12
    assert sustained_time_s(1.0, KernelWork(flop, 0, 16), rates, shipped_energy()) == 1.0


def test_what_an_h100_sustains_after_a_burst_is_predicted():
    """Of ten kernels, of which one was fitted: 3.4 % in the median, at most 11 %."""
    rates, errors, bursts = card_rates(), [], card_rows("burst")
    for first in (row for row in bursts if " 0-0.01 s" in row["device_state"]):
        last = [row for row in bursts if row["what"] == first["what"]][-1]
        seconds = sustained_time_s(
            float(first["median_us"]) * 1e-6, work_of(first["what"]), rates, shipped_energy()
        )
        errors.append(abs(np.ravel(seconds)[0] / float(last["median_us"]) * 1e6 - 1))
    assert len(errors) == 10
    assert np.median(errors) < 0.04
    assert max(errors) < 0.12


@pytest.mark.parametrize(
    "row", [row for row in card_rows("power") if row["joules"] and "decode" not in row["what"]]
)
def test_the_joules_of_an_h100_are_predicted(row):
    seconds = float(row["median_us"]) * 1e-6
    energy = kernel_energy_joules(seconds, work_of(row["what"]), card_rates(), shipped_energy())
    assert np.ravel(energy)[0] == pytest.approx(float(row["joules"]), rel=0.03)
