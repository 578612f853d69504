"""Laws of the experts of one device: hand arithmetic, bounds, directions."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.models.hardware.device import load_device
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.experts import (
    ExpertConstants,
    ExpertWork,
    expert_kernel,
    experts_time_s,
    rank_load,
)
from codesign.models.machines.device.formats import product_format
from codesign.models.machines.device.rates import device_rates
from tests.laws import is_at_most, never_falls

CONSTANTS = load_constants("experts", ExpertConstants, "gpu")
PLAIN = ExpertConstants.model_validate(
    {
        **dict.fromkeys(("start_cycles", "routing_cycles", "expert_cycles", "wave"), 0.0),
        **dict.fromkeys(("memory", "cache", "compute"), 1.0),
        **dict.fromkeys(("passes", "remote_passes", "kept_remote_passes", "tile_start"), 0.0),
        **dict.fromkeys(("load_bytes_per_cycle", "cache_bytes_per_cycle"), 1e9),
        "core_flop_per_cycle": {"slow": 0.5},
    }
)


def rates_of(name):
    device = load_device(name)
    rates = device_rates(lambda number: number(device))
    return replace(rates, cache_bytes=40e6, burst_fraction=1.0)


RATES = rates_of("h100-sxm")
WORK = ExpertWork(
    pairs=1.0, active_experts=1.0, all_pairs=1.0, experts=8.0, hidden=4096.0,
    expert_hidden=14336.0, matrices=3.0, weight_bytes=2.0, core_limit="bf16",
)  # fmt: skip


def time_s(constants=CONSTANTS, **changed):
    return experts_time_s(replace(WORK, **changed), 989.4e12, RATES, constants)


def test_one_token_reads_its_experts_once():
    # 3 x 4096 x 14336 weights of 2 bytes over 3,350 GB/s; the arithmetic is negligible.
    assert time_s(PLAIN) == pytest.approx(3 * 4096 * 14336 * 2 / 3350e9, rel=0.01)


def test_many_tokens_multiply_at_the_peak():
    pairs = 1e6
    flop = 2 * pairs * 3 * 4096 * 14336
    # One further tile of 16 rows at most, and the weights in the root of the squares.
    assert time_s(PLAIN, pairs=pairs, all_pairs=pairs) == pytest.approx(flop / 989.4e12, rel=1e-3)


def test_a_limit_of_a_core_holds_whatever_the_peak():
    slow = time_s(PLAIN, pairs=1e6, all_pairs=1e6, core_limit="slow")
    core = 0.5 * np.asarray(RATES.clock_hz)
    assert slow == pytest.approx(2 * 1e6 * 3 * 4096 * 14336 / (132 * core), rel=1e-3)


def test_cores_before_hopper_have_the_instructions_of_converted_weights():
    limits = {"bf16": 4000.0, "fp8": 8000.0, "int4-weights": 1000.0}
    constants = PLAIN.model_copy(update={"core_flop_per_cycle": limits})
    older = replace(RATES, has_asynchronous_cores=0.0)
    many = replace(WORK, pairs=1e6, all_pairs=1e6)
    flop, clock_hz = 2 * 1e6 * 3 * 4096 * 14336, np.asarray(RATES.clock_hz)
    for limit, per_cycle in {"bf16": 1000.0, "fp8": 2000.0, "int4-weights": 1000.0}.items():
        time = experts_time_s(replace(many, core_limit=limit), 4e15, older, constants)
        assert time == pytest.approx(flop / (132 * per_cycle * clock_hz), rel=1e-3), limit


def test_the_power_limit_bounds_a_product_and_not_its_tiles():
    constants = PLAIN.model_copy(update={"tile_start": 100.0})
    limited = replace(RATES, burst_fraction=0.5)
    few, many = (replace(WORK, pairs=pairs, all_pairs=pairs) for pairs in (1.0, 1e6))
    # A tile of 16 rows takes 7.3 times the clocks that its arithmetic needs, at any power.
    alone = experts_time_s(few, 989.4e12, limited, constants)
    assert alone == pytest.approx(float(experts_time_s(few, 989.4e12, RATES, constants)))
    flop = 2 * 1e6 * 3 * 4096 * 14336
    busy = experts_time_s(many, 989.4e12, limited, constants)
    assert busy == pytest.approx(flop / (0.5 * 989.4e12), rel=1e-3)


def test_cores_wait_in_a_last_round_of_tiles_that_few_have():
    waiting = PLAIN.model_copy(update={"wave": 0.5})
    # One pair a tile of 16 rows: 32 experts have 224 tiles each in the first product, 32 in the
    # last, on 132 cores; half a round more of each, whose tiles sum over 4,096 and 14,336.
    busy = {"pairs": 32.0, "all_pairs": 32.0, "active_experts": 32.0, "core_limit": "slow"}
    more = time_s(waiting, **busy) - time_s(PLAIN, **busy)
    tile_s = 2 * 16 * 128 * (4096 + 14336) / (0.5 * np.asarray(RATES.clock_hz))
    assert more == pytest.approx(0.5 * tile_s, rel=1e-3)


def test_what_starts_kernels_takes_clocks():
    slower = replace(RATES, clock_hz=0.5 * np.asarray(RATES.clock_hz))
    constants = PLAIN.model_copy(update={"start_cycles": 30_000.0})
    start_s = 30_000.0 / np.asarray(RATES.clock_hz)
    assert time_s(constants) - time_s(PLAIN) == pytest.approx(start_s)
    alone = experts_time_s(WORK, 989.4e12, slower, PLAIN)
    assert experts_time_s(WORK, 989.4e12, slower, constants) - alone == pytest.approx(2 * start_s)


def test_activations_that_fit_in_the_cache_do_not_pass_memory():
    constants = PLAIN.model_copy(update={"passes": 2.0})
    pair_bytes = 2 * (3 * 4096 + 2 * 3 * 14336)
    # 0.2 MB of one pair are cached; 200 GB of a million pass memory.
    small = time_s(constants) - time_s(PLAIN)
    assert small < 0.01 * 2 * pair_bytes / 3350e9
    large = time_s(constants, pairs=1e6, all_pairs=1e6) - time_s(PLAIN, pairs=1e6, all_pairs=1e6)
    assert large == pytest.approx(2 * 1e6 * pair_bytes / 3350e9)


def test_experts_share_no_tile():
    # 128 pairs: 8 tiles of 16 rows and one begun for each expert, of 1 or of 64.
    shared = time_s(PLAIN, pairs=128.0, core_limit="slow")
    apart = time_s(PLAIN, pairs=128.0, active_experts=64.0, core_limit="slow")
    assert apart / shared == pytest.approx((128 / 16 + 64) / (128 / 16 + 1), rel=1e-3)


def test_remote_pairs_pass_memory_only_where_kernels_keep_them():
    constants = PLAIN.model_copy(update={"remote_passes": 1.0, "kept_remote_passes": 4.0})
    base = time_s(constants)
    skipped = time_s(constants, all_pairs=1e6 + 1)
    kept = time_s(constants, all_pairs=1e6 + 1, keeps_remote=True)
    assert skipped - base == pytest.approx(1e6 * 2 * 4096 / 3350e9)
    assert kept - base == pytest.approx(4 * 1e6 * 2 * 4096 / 3350e9)


def test_weights_of_a_repeated_call_stay_in_the_cache_while_they_fit():
    # 31 MB of a cache of 40 MB; what is left is the time of one tile a core.
    fits = {"expert_hidden": 1280.0}
    assert time_s(PLAIN, is_repeated=True, **fits) < 0.5 * time_s(PLAIN, **fits)
    assert time_s(PLAIN, is_repeated=True) == pytest.approx(float(time_s(PLAIN)))


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm", "b200-sxm", "l40s"])
@pytest.mark.parametrize("limit", CONSTANTS.core_flop_per_cycle)
def test_time_grows_with_the_work_and_stays_below_the_peaks(name, limit):
    rates, peak = rates_of(name), load_device(name).peak_flop_per_s("bf16")
    pairs = np.geomspace(1, 1e6, 40)
    active = np.minimum(pairs, 32.0)
    work = replace(WORK, pairs=pairs, all_pairs=8 * pairs, active_experts=active, core_limit=limit)
    times = experts_time_s(work, peak, rates, CONSTANTS)
    assert never_falls(times)
    each = 3 * 4096 * 14336
    assert is_at_most(2 * pairs * each / times, peak)
    assert is_at_most(active * each * 2.0 / times, rates.bandwidth_bytes_per_s)
    faster = replace(rates, bandwidth_bytes_per_s=2.0 * np.asarray(rates.bandwidth_bytes_per_s))
    assert is_at_most(experts_time_s(work, 2 * peak, faster, CONSTANTS), times)
    wider = replace(work, expert_hidden=2 * 14336.0)
    assert (experts_time_s(wider, peak, rates, CONSTANTS) > times).all()


@pytest.mark.parametrize(
    ("weight", "activation", "kernel"),
    [
        ("bf16", "bf16", "bf16"),
        ("fp8", "fp8", "fp8"),
        ("fp8_block128", "fp8_block128", "fp8-block"),
        ("fp8_block128", "fp8", "fp8-block"),
        ("fp8_block128", "bf16", "int4-weights"),
        ("int8", "int8", "fp8"),
        ("int4", "bf16", "int4-weights"),
        ("int4", "fp8", "fp8"),
        ("mxfp4", "bf16", "mxfp4-weights"),
        ("mxfp4", "mxfp8", "mxfp8"),
        ("nvfp4", "nvfp4", "nvfp4"),
        ("int4", "int4", "nvfp4"),
    ],
)
def test_formats_have_the_kernel_that_somebody_measured_with_its_limit(weight, activation, kernel):
    assert expert_kernel(product_format(weight, activation)) == kernel
    assert kernel in CONSTANTS.core_flop_per_cycle


def test_an_even_draw_leaves_some_experts_idle():
    pairs, active = rank_load(1.0, 8.0, 2.0, 1.0)
    assert (float(pairs), float(active)) == (2.0, 2.0)
    pairs, active = rank_load(4.0, 8.0, 2.0, 2.0)
    # 4 x 2 / 2 pairs; each of 4 experts misses all tokens with chance (3/4)**4.
    assert (float(pairs), float(active)) == pytest.approx((4.0, 4 * (1 - 0.75**4)))
