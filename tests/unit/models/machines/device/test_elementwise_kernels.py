"""Laws of kernels that only move data: hand arithmetic, bounds, directions."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.models.hardware.device import load_device
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.elementwise import (
    ElementwiseConstants,
    row_time_s,
    stream_time_s,
    vector_start_s,
    vector_time_s,
)
from codesign.models.machines.device.rates import device_rates
from tests.laws import is_at_most, never_falls
from validation.studies.kernel_families.elementwise import mixing_bytes
from validation.studies.measured_card import kernel_errors

CONSTANTS = load_constants("elementwise", ElementwiseConstants, "gpu")
PLAIN = ElementwiseConstants.model_validate(
    {
        **dict.fromkeys(("stream_start", "row_start", "mixing_start", "projection_start"), "0 us"),
        **dict.fromkeys(("memory", "cache"), 1.0),
        "stream_core": "40 GB/s",
        "row_core": "8 GB/s",
    }
)


def rates_of(name, cache_bytes=40e6):
    device = load_device(name)
    return replace(device_rates(lambda number: number(device)), cache_bytes=cache_bytes)


A100 = rates_of("a100-sxm-80gb")
SIZES = np.geomspace(1e2, 1e10, 80)


def test_a_long_stream_takes_the_memory_and_a_short_one_the_cores():
    assert stream_time_s(1e10, A100, PLAIN) == pytest.approx(1e10 / 2039e9)
    assert stream_time_s(1e7, A100, PLAIN) == pytest.approx(1e7 / (40e9 * 108))
    assert stream_time_s(1e7, A100, PLAIN, is_cached=False) == pytest.approx(1e7 / 2039e9)


def test_a_row_belongs_to_a_core():
    # One row of 80 kB at 8 GB/s; 216 rows are two turns of 108 cores.
    assert row_time_s(1.0, 80e3, A100, PLAIN) == pytest.approx(10e-6)
    assert row_time_s(216.0, 80e3, A100, PLAIN) == pytest.approx(20e-6)


@pytest.mark.parametrize("width, measured_s", [(4096, 92.7e-6), (8192, 180.7e-6)])
def test_a_vectorized_norm_takes_the_time_that_others_measured(width, measured_s):
    """PyTorch's norm of 32,768 rows in 16 bits on a B200: ml-explore/mlx, pull request 3850."""
    rates = rates_of("b200-sxm", 126e6)
    seconds = vector_start_s("norm") + vector_time_s(32768.0 * width * 4, rates, CONSTANTS)
    assert seconds == pytest.approx(measured_s, rel=0.17)
    # As engines of 2023 had it.
    assert row_time_s(32768.0, width * 4.0, rates, CONSTANTS) > 4 * measured_s


@pytest.mark.parametrize("what", ["norm", "add_norm", "silu_mul", "rope", "add"])
def test_row_kernels_take_what_an_h100_needed(what):
    """Within 18 % each, 7 % in the median, with operands in the cache as behind other kernels."""
    errors = np.abs([error for name, error in kernel_errors() if name == what])
    assert len(errors) >= 3
    assert np.median(errors) < 0.07
    assert max(errors) < 0.18


def test_a_device_with_less_bandwidth_for_its_cores_uses_more_of_it():
    moved = 1e9
    shares = {
        name: moved / float(row_time_s(1e5, moved / 1e5, rates_of(name), CONSTANTS))
        / load_device(name).bandwidth
        for name in ("a100-sxm-80gb", "a40")
    }  # fmt: skip
    assert shares["a100-sxm-80gb"] < 0.5
    assert shares["a40"] > 0.8


def test_mixing_reads_or_writes_float32_streams_twice():
    assert float(mixing_bytes(10.0, 100.0, 4.0)) == 10 * 100 * (2 * 4 * 4 + 2)


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "a40", "h100-sxm", "b200-sxm", "l40s"])
@pytest.mark.parametrize("cache_bytes", [0.0, 40e6])
def test_time_grows_with_bytes_and_never_with_bandwidth(name, cache_bytes):
    rates = rates_of(name, cache_bytes)
    faster = replace(rates, bandwidth_bytes_per_s=2.0 * np.asarray(rates.bandwidth_bytes_per_s))
    for cached in (True, False):
        streams = stream_time_s(SIZES, rates, CONSTANTS, cached)
        assert never_falls(streams)
        assert is_at_most(stream_time_s(SIZES, faster, CONSTANTS, cached), streams)
    rows = row_time_s(SIZES, 8192.0, rates, CONSTANTS)
    assert never_falls(rows)
    assert is_at_most(row_time_s(SIZES, 8192.0, faster, CONSTANTS), rows)
    uncached = stream_time_s(SIZES, rates, CONSTANTS, is_cached=False)
    assert is_at_most(SIZES / uncached, rates.bandwidth_bytes_per_s)
    beyond = SIZES > 3 * 40e6  # what does not fit into a cache comes from memory
    cached = stream_time_s(SIZES, rates, CONSTANTS)
    assert is_at_most((SIZES / cached)[beyond], rates.bandwidth_bytes_per_s)
