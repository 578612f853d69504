"""The laws of linear attention and of absorbing products: by hand, and what nothing may break."""

import math
from dataclasses import replace

import numpy as np
import pytest

from codesign.models.hardware.device import load_device
from codesign.models.machines.device.absorbing import (
    Absorbing,
    AbsorbingConstants,
    absorbing_time_s,
    absorbing_traffic_bytes,
)
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.rates import device_rates
from codesign.models.machines.device.scan import (
    Convolution,
    Scan,
    ScanConstants,
    convolution_time_s,
    convolution_traffic_bytes,
    scan_time_s,
    scan_traffic_bytes,
)
from tests.laws import is_at_most, never_falls, never_rises
from validation.studies.kernel_families.mla_bmm import absorbing_work_flop
from validation.studies.kernel_families.scan import scan_work_flop

DEVICES = ("a100-sxm-80gb", "l40s", "h100-sxm", "b200-sxm")
SHAPES = (
    Convolution(64, 1, 8192),
    Convolution(4, 1024, 4608, launches=3.0, is_prefill=True),
    Convolution(32, 16, 10240, is_prefill=True, takes_sequences=True),
    Scan(128, 1, 16, 32, 128, 128),
    Scan(16, 4, 48, 48, 128, 128, keeps_states=True),
    Scan(2, 4096, 16, 64, 128, 128, is_prefill=True),
    Scan(8, 100, 24, 24, 128, 128, is_prefill=True, has_channel_gates=True),
    Scan(4, 2048, 8, 128, 128, 64, is_prefill=True, is_fused=False, chunk_tokens=256.0),
    Absorbing(256, 128, 128, 512),
    Absorbing(2048, 16, 512, 128, weight_bits=8.0, math_bits=8.0),
)


def rates_of(name):
    return device_rates(lambda number: number(load_device(name)))


def times_s(shape, rates, **how):
    laws = {
        Convolution: (convolution_time_s, "scan", ScanConstants),
        Scan: (scan_time_s, "scan", ScanConstants),
        Absorbing: (absorbing_time_s, "absorbing", AbsorbingConstants),
    }
    law, family, record = laws[type(shape)]
    return law(shape, rates, load_constants(family, record, "gpu"), **how)


def traffic_bytes(shape):
    if isinstance(shape, Convolution):
        return float(convolution_traffic_bytes(shape))
    return float(
        scan_traffic_bytes(shape) if isinstance(shape, Scan) else absorbing_traffic_bytes(shape)
    )


def work_flop(shape):
    if isinstance(shape, Convolution):
        return 0.0
    return float(scan_work_flop(shape) if isinstance(shape, Scan) else absorbing_work_flop(shape))


def test_a_decode_step_by_hand_streams_states():
    rates, constants = rates_of("h100-sxm"), load_constants("scan", ScanConstants, "gpu")
    shape = Scan(100, 1, 2, 4, 128, 64)
    states = 100 * 4 * 128 * 64 * 4 * 2
    tokens = 100 * 2 * (2 * 128 + 4 * 64) * 2
    assert traffic_bytes(shape) == states + tokens
    memory = (states + tokens) / (constants.bandwidth_fraction * 3350e9)
    expected = constants.step_start_cycles / 1.83e9 + memory
    assert float(times_s(shape, rates)) == pytest.approx(expected, rel=1e-12)


def test_verification_writes_the_state_of_every_token():
    step = Scan(8, 1, 16, 16, 128, 128)
    drafts = replace(step, tokens=4.0, keeps_states=True)
    state = 8 * 16 * 128 * 128 * 4
    assert traffic_bytes(step) - 8 * 2 * 16 * 256 * 2 == 2 * state
    assert traffic_bytes(drafts) - 8 * 4 * 2 * 16 * 256 * 2 == 5 * state


def test_a_fused_prefill_by_hand():
    rates, constants = rates_of("h100-sxm"), load_constants("scan", ScanConstants, "gpu")
    shape = Scan(1, 64 * 100, 1, 1, 128, 128, is_prefill=True)  # one head: one chunk after another
    memory = traffic_bytes(shape) / (constants.bandwidth_fraction * 3350e9)
    serial = 100 * constants.serial_chunk_cycles / 1.83e9
    expected = constants.fused_start_cycles / 1.83e9 + math.hypot(serial, memory)
    assert float(times_s(shape, rates)) == pytest.approx(expected, rel=1e-12)


def test_few_tokens_cost_a_chunk():
    rates = rates_of("h100-sxm")
    short = Scan(64, 1, 16, 32, 128, 128, is_prefill=True)
    longer = replace(short, tokens=64.0)
    assert float(times_s(longer, rates)) < 1.2 * float(times_s(short, rates))
    assert float(times_s(replace(short, tokens=1024.0), rates)) > 5 * float(times_s(short, rates))


def test_three_convolutions_start_once_and_two_halves():
    rates, constants = rates_of("h100-sxm"), load_constants("scan", ScanConstants, "gpu")
    shape = Convolution(1, 1, 4608)
    more = times_s(replace(shape, launches=3.0), rates) - times_s(shape, rates)
    assert float(more) == pytest.approx(constants.convolution_start_cycles / 1.83e9)


def test_cores_bound_a_convolution_where_memory_is_faster_than_they_are():
    constants = load_constants("scan", ScanConstants, "gpu")
    shape = Convolution(64, 4096, 8192, is_prefill=True)
    rates = replace(rates_of("b200-sxm"), bandwidth_bytes_per_s=1e15)
    per_clock = 148 * constants.convolution_bytes_per_cycle * 1.86e9
    begun = (constants.convolution_start_cycles + constants.tiling_cycles) / 1.86e9
    expected = begun + traffic_bytes(shape) / per_clock
    assert float(times_s(shape, rates)) == pytest.approx(expected, rel=1e-9)


def test_products_of_8_bits_convert_their_input_first():
    constants = load_constants("absorbing", AbsorbingConstants, "gpu")
    rates = replace(rates_of("h100-sxm"), bandwidth_bytes_per_s=1e15)
    shape = Absorbing(8192, 128, 512, 128, weight_bits=8.0)
    more = times_s(replace(shape, math_bits=8.0), rates) - times_s(shape, rates)
    # 3 bytes an element at the cores' rate, a start, and products in half the time.
    converted = 3 * 8192 * 128 * 512 / (132 * constants.convert_bytes_per_cycle)
    product_s = work_flop(shape) / 989.4e12
    expected = (constants.convert_cycles + converted) / 1.83e9 - product_s / 2
    assert float(more) == pytest.approx(expected, rel=1e-2)


def test_few_tokens_of_a_head_take_a_tile_of_64_rows():
    rates = rates_of("l40s")
    few, most, more = (
        float(times_s(Absorbing(tokens, 8, 512, 128), rates)) for tokens in (1.0, 64.0, 128.0)
    )
    tile_s = 2 * 64 * 128 * 512 * 142 / 362.05e12
    assert most - few < 0.2 * tile_s
    assert more - most > 0.8 * tile_s


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_rate_slows_and_no_call_beats_the_datasheet(name, shape):
    rates = replace(rates_of(name), cache_bytes=50e6)
    time = float(times_s(shape, rates))
    assert is_at_most(traffic_bytes(shape) / time, rates.bandwidth_bytes_per_s)
    assert is_at_most(work_flop(shape) / time, 2 * float(rates.peak_16bit_flop_per_s))
    for field in ("peak_16bit_flop_per_s", "bandwidth_bytes_per_s", "clock_hz"):
        faster = replace(rates, **{field: np.array([1.0, 1.3, 3.0, 100.0]) * getattr(rates, field)})
        for is_cached in (False, True):
            times = np.atleast_1d(times_s(shape, faster, is_cached=is_cached))
            assert never_rises(times), field


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_more_tokens_or_sequences_never_take_less(name, shape):
    rates = replace(rates_of(name), cache_bytes=50e6)
    for field in ("sequences", "tokens", "value_heads", "channels", "heads"):
        if hasattr(shape, field):
            more = replace(shape, **{field: getattr(shape, field) * np.arange(1, 40)})
            for is_cached in (False, True):
                times = times_s(more, rates, is_cached=is_cached)
                assert never_falls(times), field


@pytest.mark.parametrize("name", ["gpu", "tpu", "igpu", "npu", "cpu"])
def test_every_class_of_devices_has_constants_of_scans(name):
    for family, record in (("scan", ScanConstants), ("absorbing", AbsorbingConstants)):
        constants = load_constants(family, record, name)
        assert all(value > 0 for value in constants.model_dump().values())
