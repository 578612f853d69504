"""Energy of kernels: hand arithmetic, the power limit, and what the shipped constants say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.models.hardware.device import load_device
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.energy import (
    EnergyConstants,
    KernelWork,
    idle_watts,
    kernel_energy_joules,
    sustained_time_s,
)
from codesign.models.machines.device.rates import DeviceRates, device_rates

CONSTANTS = EnergyConstants.model_validate(
    {"idle": 0.1, "base": 0.2, "limit": 0.9, "byte": "62.5 pJ", "score": "100 pJ"}
    | {"flop_16bit": 1.0, "flop_8bit": 0.5, "flop_4bit": 0.25}
)
RATES = DeviceRates(
    peak_16bit_flop_per_s=1e15,
    bandwidth_bytes_per_s=4e12,
    cache_bytes=0.0,
    n_cores=100.0,
    power_watts=500.0,
    sustained_fraction=1.0,
)


def joules(flop, traffic, bits=16, scores=0):
    work = KernelWork(flop, traffic, bits, scores)
    return float(kernel_energy_joules(1e-3, work, RATES, CONSTANTS))


def sustained(flop, traffic, bits=16):
    return float(sustained_time_s(1e-3, KernelWork(flop, traffic, bits), RATES, CONSTANTS))


def test_energy_adds_base_arithmetic_and_traffic():
    # 500 W x 1 ms x 0.2 = 0.1 J; 0.5 pJ/FLOP x 2e11; 62.5 pJ/byte x 1e9.
    assert joules(0, 0) == pytest.approx(0.1)
    assert joules(2e11, 0) == pytest.approx(0.1 + 0.1)
    assert joules(0, 1e9) == pytest.approx(0.1 + 0.0625)
    assert joules(0, 0, scores=1e9) == pytest.approx(0.1 + 0.1)  # 100 pJ each


@pytest.mark.parametrize(("bits", "expected"), [(32, 1.0), (16, 1.0), (8, 0.5), (4, 0.25)])
def test_narrow_arithmetic_takes_less(bits, expected):
    assert joules(2e11, 0, bits) - joules(0, 0) == pytest.approx(0.1 * expected)


def test_no_kernel_draws_more_than_the_limit():
    assert joules(1e13, 1e11) == pytest.approx(500 * 1e-3 * 0.9)


def test_a_waiting_device_draws_its_idle_power_and_one_without_a_limit_none():
    assert idle_watts(RATES, CONSTANTS) == pytest.approx(50)
    unknown = replace(RATES, power_watts=np.nan)
    assert np.isnan(kernel_energy_joules(1e-3, KernelWork(1e9, 1e9, 16), unknown, CONSTANTS))
    assert sustained_time_s(1e-3, KernelWork(1e13, 1e9, 16), unknown, CONSTANTS) == 1e-3


def test_at_the_power_limit_a_kernel_takes_longer_by_the_cube_root_of_what_is_beyond():
    # 0.9 - 0.2 of 500 W are left to 1 ms: 0.35 J. At 0.5 pJ/FLOP, 8 times that is 5.6e12 FLOP.
    assert sustained(5.6e12, 0) == pytest.approx(2e-3)
    assert sustained(0.7e12, 0) == pytest.approx(1e-3)
    # Memory keeps its clock: with as much of its own the exponent is a half.
    assert sustained(2.8e12, 1.4 / 62.5e-12) == pytest.approx(1e-3 * 8 ** (1 / 6))
    assert sustained(0, 1e12) == pytest.approx(1e-3)
    longer = KernelWork(5.6e12, 0, 16)
    drawn = kernel_energy_joules(2e-3, longer, RATES, CONSTANTS)
    assert float(drawn) == pytest.approx(0.9 * 500 * 2e-3)


@pytest.mark.parametrize("name", ["gpu", "tpu", "igpu", "npu", "cpu"])
def test_narrower_arithmetic_never_takes_more_and_idle_is_least(name):
    shipped = load_constants("energy", EnergyConstants, name)
    assert shipped.flop_4bit <= shipped.flop_8bit <= shipped.flop_16bit
    assert shipped.idle <= shipped.base <= shipped.limit <= 1


@pytest.mark.parametrize(
    ("name", "sustained", "bits", "expected_pj"),
    [("h200-sxm", 0.7, 16, 0.99), ("b200-sxm", 0.62, 16, 0.71), ("b200-sxm", 0.42, 4, 0.26)],
)
def test_large_products_take_the_picojoules_that_the_table_shows(
    name, sustained, bits, expected_pj
):
    # Whole board, median of products of at least 4096 each way in ai-dynamo/aiconfigurator.
    device = load_device(name)
    rates = device_rates(lambda number: number(device))
    peak = device.peak_flop_per_s("bf16" if bits == 16 else "fp4")
    shipped = load_constants("energy", EnergyConstants, "gpu")
    energy = kernel_energy_joules(1.0, KernelWork(sustained * peak, 0.0, bits), rates, shipped)
    assert energy / (sustained * peak) * 1e12 == pytest.approx(expected_pj, rel=0.1)


def rates_of(name):
    device = load_device(name)
    return device_rates(lambda number: number(device))


def test_a_flop_takes_on_a_throttled_chip_what_it_takes_on_the_whole_one():
    """An H20 is an H100 with a seventh of its peak at 400 W: its limit binds no product."""
    switched = []
    for name in ("h100-sxm", "h20"):
        rates = rates_of(name)
        work, idle = KernelWork(1e12, 0, 16), KernelWork(0, 0, 16)
        switched.append(
            float(kernel_energy_joules(1e-2, work, rates, CONSTANTS))
            - float(kernel_energy_joules(1e-2, idle, rates, CONSTANTS))
        )
        assert sustained_time_s(1e-2, work, rates, CONSTANTS) == 1e-2
    assert switched[1] == pytest.approx(switched[0])
    assert switched[0] == pytest.approx(1e12 * 700 / 989.4e12)
