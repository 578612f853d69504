"""What power limits sustain of the peak, by the width of products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.models.hardware.device import list_devices, load_device
from codesign.models.machines.device.rates import device_rates
from codesign.models.machines.device.sustained import CEILING, sustained_share
from tests.laws import never_falls, never_rises

WIDTHS = np.array([16.0, 8.0, 4.5])


def rates_of(name):
    device = load_device(name)
    return device_rates(lambda number: number(device))


@pytest.mark.parametrize("name", [key for key in list_devices() if load_device(key).n_cores])
def test_narrow_products_sustain_less_of_their_peak_but_more_arithmetic(name):
    rates = rates_of(name)
    shares = sustained_share(rates, WIDTHS)
    assert shares[0] == rates.sustained_fraction
    assert never_rises(shares)
    assert (np.diff(shares * np.array([1.0, 2.0, 4.0])) > 0).all()
    assert (shares > 0.3).all()


def test_power_limits_those_that_draw_it_in_16_bits():
    h100, h20 = (sustained_share(rates_of(name), WIDTHS) for name in ("h100-sxm", "h20"))
    assert h100[1] == pytest.approx(0.803 / 1.28)
    # 400 W are three times what 148 TFLOP/s need in 16 bits, and more than what 4 bits need.
    assert (h20 == 0.952).all()
    assert h20[0] >= CEILING


def test_more_power_never_sustains_less():
    rates = replace(rates_of("h20"), power_watts=np.array([np.nan, 50.0, 130.0, 200.0, 400.0]))
    shares = sustained_share(rates, 8.0)
    assert never_falls(shares[1:])
    assert shares[1] == pytest.approx(0.952 / 1.28)
    assert shares[0] == shares[1]  # none stated: as if 16 bits drew all


def test_a_faster_multiplier_never_does_less():
    peaks = np.geomspace(5e13, 5e15, 30)
    rates = replace(rates_of("h20"), peak_16bit_flop_per_s=peaks)
    for bits in WIDTHS:
        assert never_falls(sustained_share(rates, bits) * peaks)
