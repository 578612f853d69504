"""The law of matrix products: its bounds, its monotony and a hand calculation."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.base.errors import UnknownNameError
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.gemm import GemmConstants, Products, gemm_time_s
from codesign.models.machines.device.rates import DeviceRates, device_rates
from tests.laws import is_at_most

DEVICES = ("a100-sxm-80gb", "l40s", "h100-sxm", "b200-sxm", "mi300x", "tpu-v5e", "gaudi-3")
IDEAL = GemmConstants.model_validate(
    {
        "compute": 1.0,
        "integer_core_rate": "1e18 FLOP/s",
        "bandwidth": 1.0,
        "cache_bytes_per_cycle": 1e18,
        "overlap": 1e3,
        "ramp": "0 s",
        "core_rate": 1.0,
        "operand_rate": "1e18 B/s",
        "synchronous_core_rate": 1.0,
        "synchronous_operand_rate": 1.0,
        "start": "3 us",
        "wave": 1e-12,
        "split": 0.0,
        "quantize": "2 us",
        "quantize_rows": 0.0,
        "fine_scales": "1 us",
        "converted_starts": 2.0,
        "convert_rate": "1e30 1/s",
        "row_scale_starts": 5.0,
        "row_scale_operands": 1.0,
    }
)
"""Nothing but tiles, waves, starts and traffic."""
PLAIN = DeviceRates(
    peak_16bit_flop_per_s=100e12,
    bandwidth_bytes_per_s=1e12,
    cache_bytes=0.0,
    n_cores=100.0,
    power_watts=np.nan,
    burst_fraction=1.0,
)


def rates_of(name):
    return device_rates(lambda number: number(load_device(name)))


def shipped(name):
    return load_constants("gemm", GemmConstants, load_device(name).device_class)


def sizes(n_products=400):
    """Products of all kinds, the same in every run."""
    rng = np.random.default_rng(7)
    m, n, k = (np.ceil(2 ** rng.uniform(0, 15, n_products)) for _ in range(3))
    kind = rng.integers(0, 5, n_products)
    return Products(
        m=m,
        n=n,
        k=k,
        peak_flop_per_s=100e12,
        weight_bits=np.choose(kind, (16.0, 8.0, 4.5, 4.0, 8.0)),
        activation_bits=np.choose(kind, (16.0, 8.0, 4.5, 16.0, 8.0)),
        is_weight_converted=kind == 3,
        is_input_quantized=(kind == 1) | (kind == 2),
        is_integer=kind == 4,
        has_fine_scales=kind == 2,
    )


def test_a_full_wave_takes_its_tiles_at_the_peak_plus_a_start():
    # 100 tiles of 128 x 128 on 100 cores of 1 TFLOP/s: 2 x 128 x 128 x 4096 FLOP each.
    products = Products(m=1280.0, n=1280.0, k=4096.0, peak_flop_per_s=100e12)
    expected = 2 * 128 * 128 * 4096 / 1e12 + 3e-6
    assert gemm_time_s(products, PLAIN, IDEAL) == pytest.approx(expected)


def test_one_tile_more_than_the_cores_costs_another_wave():
    # No tile is smaller than 16 x 128, and operands of 8 bits are not split.
    full = Products(m=16.0, n=128.0 * 100, k=65536.0, peak_flop_per_s=1e12, weight_bits=8.0)
    more = replace(full, n=128.0 * 100 + 1)
    waves = [float(gemm_time_s(products, PLAIN, IDEAL)) - 3e-6 for products in (full, more)]
    assert waves[1] == pytest.approx(2 * waves[0])


def test_one_row_takes_the_weights_at_the_bandwidth():
    products = Products(m=1.0, n=8192.0, k=8192.0, peak_flop_per_s=1e18, weight_bits=8.0)
    traffic = 8192**2 + 2 * (8192 + 8192)
    assert gemm_time_s(products, PLAIN, IDEAL) == pytest.approx(traffic / 1e12 + 3e-6, rel=1e-3)


def test_weights_that_the_cache_holds_come_faster():
    products = Products(m=1.0, n=8192.0, k=8192.0, peak_flop_per_s=1e18)
    held = replace(products, cached_weight_share=1.0)
    assert gemm_time_s(held, PLAIN, IDEAL) < 0.1 * gemm_time_s(products, PLAIN, IDEAL)


def test_the_cache_delivers_what_cores_take_of_it_in_a_clock():
    products = Products(m=1.0, n=8192.0, k=8192.0, peak_flop_per_s=1e18, cached_weight_share=1.0)
    constants = IDEAL.model_copy(update={"cache_bytes_per_cycle": 10.0})
    rates = replace(PLAIN, clock_hz=2e9)  # 100 cores of 10 bytes: 2 TB/s
    traffic = 2 * 8192**2
    assert gemm_time_s(products, rates, constants) == pytest.approx(traffic / 2e12 + 3e-6, rel=1e-3)
    # Memory that is faster than that delivers them itself.
    faster = replace(rates, bandwidth_bytes_per_s=4e12)
    assert gemm_time_s(products, faster, constants) == pytest.approx(
        traffic / 4e12 + 3e-6, rel=1e-3
    )


def test_other_formats_start_later_by_what_their_constants_say():
    plain = Products(m=1.0, n=16.0, k=16.0, peak_flop_per_s=100e12)
    base = float(gemm_time_s(plain, PLAIN, IDEAL))

    def later_s(**fields):
        return float(gemm_time_s(replace(plain, **fields), PLAIN, IDEAL)) - base

    assert later_s(is_input_quantized=True) == pytest.approx(2e-6, rel=1e-2)
    assert later_s(is_input_quantized=True, has_fine_scales=True) == pytest.approx(3e-6, rel=1e-2)
    assert later_s(is_weight_converted=True) == pytest.approx(6e-6, rel=1e-2)
    assert later_s(is_integer=True) == pytest.approx(6e-6, rel=1e-2)
    assert later_s(is_integer=True, is_input_quantized=True) == pytest.approx(15e-6, rel=1e-2)


def test_cores_that_load_their_own_operands_are_slower_and_so_are_converted_weights():
    slow = IDEAL.model_copy(update={"synchronous_core_rate": 0.5})
    products = Products(m=1280.0, n=1280.0, k=65536.0, peak_flop_per_s=100e12)
    fast_device = replace(PLAIN, has_asynchronous_cores=1.0)
    fast = gemm_time_s(products, fast_device, slow)
    assert gemm_time_s(products, PLAIN, slow) == pytest.approx(2 * fast, rel=1e-2)
    for kind in ("is_weight_converted", "is_integer"):
        changed = replace(products, **{kind: True})
        assert gemm_time_s(changed, fast_device, slow) == pytest.approx(2 * fast, rel=1e-2)


def test_a_device_that_states_its_starts_has_them():
    plain = Products(m=1.0, n=16.0, k=16.0, peak_flop_per_s=100e12, is_input_quantized=True)
    stated = replace(PLAIN, kernel_start_s=1e-6, quantize_start_s=0.5e-6)
    assert gemm_time_s(plain, stated, IDEAL) == pytest.approx(1.5e-6, rel=1e-2)


@pytest.mark.parametrize("name", DEVICES)
def test_no_product_passes_the_peak_or_the_bandwidth(name):
    products, rates = sizes(), rates_of(name)
    time = gemm_time_s(products, rates, shipped(name))
    assert is_at_most(products.work_flop, time * 100e12)
    traffic = products.weight_bytes + products.activation_bytes
    assert is_at_most(traffic - rates.cache_bytes, time * rates.bandwidth_bytes_per_s)
    assert np.all(time > 0)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("size", ["m", "n", "k", "count"])
def test_more_work_never_takes_less_time(name, size):
    products, rates, constants = sizes(), rates_of(name), shipped(name)
    before = gemm_time_s(products, rates, constants)
    for factor in (1.01, 1.5, 2.0, 3.0):
        more = replace(products, **{size: np.ceil(getattr(products, size) * factor)})
        assert is_at_most(before, gemm_time_s(more, rates, constants))


@pytest.mark.parametrize("name", DEVICES)
def test_a_faster_device_never_takes_more_time(name):
    products, rates, constants = sizes(), rates_of(name), shipped(name)
    before = gemm_time_s(products, rates, constants)
    faster = [
        (replace(products, peak_flop_per_s=150e12), rates),
        (products, replace(rates, bandwidth_bytes_per_s=1.5 * rates.bandwidth_bytes_per_s)),
        (products, replace(rates, cache_bytes=2 * rates.cache_bytes + 1e6)),
        (products, replace(rates, burst_fraction=1.0)),
        (products, replace(rates, peak_16bit_flop_per_s=2 * rates.peak_16bit_flop_per_s)),
    ]
    for changed, better in faster:
        assert is_at_most(gemm_time_s(changed, better, constants), before)


def test_cores_added_at_their_own_rate_never_take_more_time():
    products, rates, constants = sizes(), rates_of("h100-sxm"), shipped("h100-sxm")
    before = gemm_time_s(products, rates, constants)
    more = replace(rates, n_cores=1.5 * rates.n_cores)
    time = gemm_time_s(replace(products, peak_flop_per_s=150e12), more, constants)
    assert is_at_most(time, before)


def test_an_unknown_class_of_devices_has_no_constants():
    with pytest.raises(UnknownNameError, match="class of devices"):
        load_constants("gemm", GemmConstants, "abacus")
