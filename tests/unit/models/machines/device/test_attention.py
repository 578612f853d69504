"""The law of attention kernels: by hand, and what no device or size may break."""

import math
from dataclasses import replace

import numpy as np
import pytest

from codesign.models.hardware.device import list_devices, load_device
from codesign.models.machines.device.attention import (
    Attention,
    AttentionConstants,
    attention_time_s,
    attention_traffic_bytes,
    attention_work_flop,
    has_portable_kernels_only,
)
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.rates import DeviceRates, device_rates
from tests.laws import is_at_most, never_falls, never_rises

PLAIN = AttentionConstants(
    matrix_fraction=0.5,
    eight_bit_gain=0.5,
    synchronous_flop_per_cycle=100,
    scores_per_cycle=10,
    bandwidth_fraction=0.8,
    cache_bytes_per_cycle=100,
    start_cycles=1000,
    preparation_cycles=500,
    window_cycles=100,
    block_cycles=200,
    merge_cycles=50,
    recent_factor=0.5,
)
MACHINE = DeviceRates(
    peak_16bit_flop_per_s=1e14,
    bandwidth_bytes_per_s=1e12,
    cache_bytes=0.0,
    n_cores=100.0,
    power_watts=math.nan,
    burst_fraction=0.8,
    clock_hz=1e9,
)
DEVICES = ("a100-sxm-80gb", "l40s", "h100-sxm", "b200-sxm")
SHAPES = (
    Attention(1, 1, 16_383, 8, 1, 128, 128),
    Attention(64, 1, 2_047, 32, 8, 128, 128, kv_bits=8.0),
    Attention(4, 2_048, 0, 40, 8, 128, 128),
    Attention(2, 512, 8_192, 16, 16, 64, 64),
    Attention(16, 1, 8_191, 16, 2, 64, 64, window=128.0),
    Attention(8, 4_096, 0, 12, 12, 72, 72, is_causal=False),
    Attention(32, 1, 4_095, 128, 1, 576, 512, shares_values=True, math_bits=8.0, kv_bits=8.0),
    Attention(3, 300, 0, 24, 2, 192, 128, is_prepared=True),
    Attention(4, 2_048, 0, 40, 8, 192, 192, is_synchronous=True),
)


def rates_of(name):
    return device_rates(lambda number: number(load_device(name)))


def shipped():
    return load_constants("attention", AttentionConstants, "gpu")


def seconds(shape, rates=MACHINE, **how):
    return float(attention_time_s(shape, rates, how.pop("constants", shipped()), **how))


def test_a_prefill_by_hand():
    # 1000 heads of 128 tokens on 100 cores: ten blocks each. Its causal queries see 64.5 keys on
    # average; the half block that the mask cuts is computed too, in all 128 keys. A score costs
    # 2 * 128 FLOP of half a core's peak, 5e11 FLOP/s, and a tenth of a clock; of both the power
    # limit sustains 0.8.
    compute = 10 * 128 * 128 * (256 / 5e11 + 0.1e-9) / 0.8
    elements = 1000 * 128 * (2 * 128 + 128)  # keys and values written and read; query and result
    expected = 3000e-9 + math.hypot(compute, 2 * elements / 0.8e12)
    shape = Attention(1, 128, 0, 1000, 1000, 64, 64)
    assert seconds(shape, constants=PLAIN) == pytest.approx(expected, rel=1e-12)


def test_a_decode_by_hand_parts_its_keys():
    # One sequence, one head, 10,000 keys of 128 elements: a block of 16 rows, parted.
    score = (512 / 5e11 + 0.1e-9) / 0.8
    alone, merge = 10_000 * 16 * score, 50e-9
    parts = math.sqrt(alone / merge)
    assert 1 < parts < 100
    longest = alone / parts + merge * (parts - 1)
    traffic = 2 * (256 * 10_001 + 256)
    expected = (1000 + 200 / 100) * 1e-9 + math.hypot(longest, traffic / 0.8e12)
    shape = Attention(1, 1, 9_999, 1, 1, 128, 128)
    assert seconds(shape, constants=PLAIN) == pytest.approx(expected, rel=1e-12)


def test_a_portable_kernel_gains_nothing_from_faster_matrix_units():
    slow = Attention(4, 8_192, 0, 32, 8, 192, 192, is_synchronous=True)
    fast = replace(slow, is_synchronous=False)
    machines = [replace(MACHINE, peak_16bit_flop_per_s=peak) for peak in (1e13, 1e14, 1e15)]
    own = [float(attention_time_s(fast, machine, PLAIN)) for machine in machines]
    portable = [float(attention_time_s(slow, machine, PLAIN)) for machine in machines]
    assert portable[0] == own[0]  # 50 FLOP a clock are less than 100
    assert portable[1] == portable[2] > 3 * own[1]


def test_only_blackwell_of_data_centers_lacks_kernels_for_heads_of_192():
    names = [name for name in list_devices() if load_device(name).n_cores]
    lacking = {name for name in names if has_portable_kernels_only(192.0, rates_of(name))}
    assert {"b200-sxm", "gb200", "b300-sxm", "gb300"} <= lacking <= {
        "b200-sxm", "gb200", "b300-sxm", "gb300", "rubin"
    }  # fmt: skip
    assert not has_portable_kernels_only(128.0, rates_of("b200-sxm"))


def test_masked_scores_are_no_work():
    assert float(attention_work_flop(Attention(1, 4, 0, 1, 1, 1, 1))) == 4 * (1 + 2 + 3 + 4)
    assert float(attention_work_flop(Attention(1, 4, 2, 1, 1, 1, 1))) == 4 * (3 + 4 + 5 + 6)
    window = Attention(1, 4, 2, 1, 1, 1, 1, window=4.0)
    assert float(attention_work_flop(window)) == 4 * (3 + 4 + 4 + 4)
    encoder = Attention(1, 4, 0, 1, 1, 1, 1, is_causal=False)
    assert float(attention_work_flop(encoder)) == 4 * 16


def test_one_head_of_a_long_context_uses_many_cores():
    rates = rates_of("h100-sxm")
    shape = Attention(1, 1, 16_383, 8, 1, 128, 128)
    alone = replace(rates, n_cores=1.0, peak_16bit_flop_per_s=989.4e12 / 132)
    assert seconds(shape, rates) < 25e-6  # measured: 18.8 us
    assert seconds(shape, alone) > 2 * seconds(shape, rates)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_rate_of_a_device_slows(name, shape):
    rates = rates_of(name)
    for field in ("peak_16bit_flop_per_s", "bandwidth_bytes_per_s", "clock_hz", "cache_bytes"):
        value = getattr(rates, field) or 1e6
        faster = replace(rates, **{field: np.array([1.0, 1.3, 3.0, 100.0]) * value})
        for is_cached in (False, True):
            times = attention_time_s(shape, faster, shipped(), is_cached=is_cached)
            assert never_rises(np.atleast_1d(times)), field


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_call_beats_the_datasheet(name, shape):
    rates, time = rates_of(name), seconds(shape, rates_of(name))
    peak = float(rates.peak_16bit_flop_per_s) * 16 / float(shape.math_bits)
    assert is_at_most(attention_work_flop(shape) / time, peak)
    assert is_at_most(attention_traffic_bytes(shape) / time, rates.bandwidth_bytes_per_s)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("field", ["sequences", "new_tokens", "past_tokens", "query_heads"])
def test_more_work_never_takes_less_time(name, shape, field):
    value = getattr(shape, field)
    more = value * np.arange(1, 40) if value else np.arange(0, 40_000, 997)
    for is_cached in (False, True):
        rates = replace(rates_of(name), cache_bytes=50e6)
        times = attention_time_s(
            replace(shape, **{field: more}), rates, shipped(), is_cached=is_cached
        )
        assert never_falls(times)


def test_traffic_beyond_the_cache_comes_from_memory():
    slow = replace(rates_of("h100-sxm"), cache_bytes=50e6, bandwidth_bytes_per_s=0.5e12)
    large, small = (Attention(n, 1, 8_191, 32, 8, 128, 128) for n in (2, 1))
    assert 50e6 < float(attention_traffic_bytes(large)) < 70e6
    assert seconds(large, slow, is_cached=True) == seconds(large, slow, is_cached=False)
    assert seconds(small, slow, is_cached=True) < seconds(small, slow, is_cached=False)


def test_decode_of_recent_devices_starts_earlier():
    shape = Attention(1, 1, 15, 1, 1, 64, 64)
    ratio = seconds(shape, replace(MACHINE, has_fp4=1.0)) / seconds(shape)
    assert ratio == pytest.approx(shipped().recent_factor, rel=0.05)
    prefill = Attention(1, 16, 0, 1, 1, 64, 64)
    assert seconds(prefill, replace(MACHINE, has_fp4=1.0)) == seconds(prefill)
