"""Epoch's economics: passes by hand, speculation, prices, the frontier, the contract."""

import math
from dataclasses import replace

import numpy as np
import pytest

from codesign.base.columns import column_of, taken
from codesign.base.errors import InputError, UnknownNameError
from codesign.evaluators.economics import EconomicsEvaluator
from codesign.evaluators.economics.buildable import buildable_systems
from codesign.evaluators.economics.decoding import Speculation
from codesign.evaluators.economics.economics_options import EconomicsOptions, EconomicsWorkload
from codesign.evaluators.economics.frontier import Grid, feasible_points, split_of
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import ElementBytes, Fixed, Load
from codesign.evaluators.economics.nccl import Fabric
from codesign.evaluators.economics.serving_offer import device_offer, serve
from codesign.evaluators.economics.shape import shape_of
from codesign.evaluators.economics.sustained_device import SustainedDevice, device_machine
from codesign.models.accounts.ownership import owned_usd_per_hour
from codesign.models.workload import list_models, load_model
from codesign.models.workload.model import describe_unlike_attention
from codesign.search.pareto import non_dominated
from codesign.space import load_space
from codesign.testing import check_evaluator
from tests.laws import is_at_most

H100 = SustainedDevice("H100", 0.7e15, 0.75 * 3.3e12, 80e9, Fabric(225e9, 25e9, 8), 1e15)
LLAMA = shape_of(load_model("llama-3.3-70b"))
DECODERS = [
    name
    for name in list_models()
    if not load_model(name).is_diffusion and describe_unlike_attention(load_model(name)) is None
]
SPACE = load_space("economics-llm", {})


OFFER = device_offer("h100", EconomicsOptions())


def serving(model="llama-3.3-70b", speculates=True):
    return serve(EconomicsWorkload(model=model), OFFER, {"weight_format": "int8"}, speculates)


def one(value):
    return np.array([float(value)])


# --- one pass --------------------------------------------------------------------------------


def test_a_pass_of_one_node_is_what_the_equations_give_by_hand():
    # Llama 3 70B in 16 bit on one node of 8 in one dimension, 16 requests, no context.
    fixed = Fixed(layout=1.0, pipeline=one(1), attention=one(8))
    (time,) = ForwardPass(LLAMA, H100, ElementBytes(), fixed).best_times(Load(one(8), one(16)))
    d = 8192
    ff = 28672
    qkv = 10240
    layers = 80
    n = 16
    parameters = layers * (d * qkv + d * d + 3 * d * ff) + 128256 * d

    def slices(m, k):  # bytes of inputs and sums over all devices
        cut = min(max(math.sqrt(m * 8 / k), 1), 8)
        return 2 * n * (cut * k + 8 / cut * m)

    activations = slices(qkv, d) + slices(d, d) + 2 * slices(ff, d) + slices(d, ff)
    read = (2 * parameters + layers * activations) / (8 * 0.75 * 3.3e12)
    arithmetic = 2 * parameters * n / (8 * 0.7e15)
    message = 2 * d * n * 7 / (8 * 225e9)
    reduce = min(6.8e-6 + 1.2e-6 * 7 + message / 0.5, 14e-6 + 2.5e-6 * 7 + message / 0.95)
    network = layers * (2 * reduce + 4 * 4e-6)
    assert float(time[0]) == pytest.approx(network + max(read, arithmetic), rel=1e-12)


def test_arithmetic_bounds_a_pass_with_many_requests():
    load = Load(one(1), one(4000))
    (time,) = ForwardPass(LLAMA, H100, ElementBytes(), Fixed(pipeline=one(1))).best_times(load)
    work = LLAMA.active_flop_per_token * 4000 / 0.7e15
    assert float(time[0]) == pytest.approx(work + 80 * 16e-6, rel=1e-12)


def test_two_dimensions_have_four_reductions_of_square_root_groups():
    # Epoch Eqs. 39 to 42 for 64 devices on 8 nodes; the longer network counts, not their sum.
    fixed = Fixed(layout=2.0, pipeline=one(1), attention=one(64))
    (time,) = ForwardPass(LLAMA, H100, ElementBytes(), fixed).best_times(Load(one(64), one(1)))
    latency = 6.8e-6 + 1.2e-6 * (8 / math.sqrt(8) - 1) + 10e-6 * math.log2(math.sqrt(8))
    reduced = 2 * (10240 + 8192 + 2 * 28672 + 8192)  # Eq. 43, SwiGLU with both up projections
    within = math.sqrt(8) * (8 / math.sqrt(8) - 1) * reduced / (64 * 225e9 * 0.5)
    between = (math.sqrt(8) - 1) * reduced / (64 * 25e9 * 0.5)
    parameters = LLAMA.stored_parameters
    network = 80 * (4 * latency + max(within, between) + 16e-6)
    # Activations of one request add little to the reads.
    assert float(time[0]) == pytest.approx(
        network + 2 * parameters / (64 * 0.75 * 3.3e12), rel=2e-3
    )


def test_a_mixture_reads_the_expected_share_of_its_experts():
    shape = shape_of(load_model("mixtral-8x22b"))
    fixed = Fixed(pipeline=one(1))
    slow = replace(H100, bytes_per_s=1e9)  # reads alone count
    times = [
        float(
            ForwardPass(shape, slow, ElementBytes(), fixed).best_times(Load(one(1), one(b)))[0][0]
        )
        for b in (1, 2)
    ]
    met = [1 - 0.75**b for b in (1, 2)]  # Eq. 22 with s = 4
    experts = shape.n_layers * shape.routed_parameters
    assert times[1] - times[0] == pytest.approx(2 * experts * (met[1] - met[0]) / 1e9, rel=1e-3)


def test_the_cache_is_read_once_for_all_queries_of_a_request():
    slow = replace(H100, bytes_per_s=1e9)
    passes = ForwardPass(LLAMA, slow, ElementBytes(), Fixed(pipeline=one(1)))
    load = Load(one(1), one(1), 1e6, (1, 5))
    single, several = (float(time[0]) for time in passes.best_times(load))
    cache = 80 * 2 * 1024 * 1e6 * 2 / 1e9
    assert single > cache
    assert several - single < 0.01 * cache


def test_points_in_a_grid_are_the_points_one_by_one():
    for model in ("llama-3.3-70b", "mixtral-8x22b", "deepseek-v3"):
        made = serving(model)
        points = feasible_points(made, 2.0, Grid(12))
        some = points.chosen(slice(0, len(points), 7))
        load = Load(some.n_devices, some.batch)
        times, lengths = made.token_times(load)
        np.testing.assert_allclose(some.token_time_s, times, rtol=1e-12)
        assert (some.draft_length == lengths).all()


def test_the_split_that_is_named_gives_the_time_that_is_found():
    made = serving("mixtral-8x22b", speculates=False)
    points = feasible_points(made, 2.0, Grid(15)).frontier()
    for position in range(0, len(points), 5):
        cut = split_of(made, points, position, 0.0)
        fixed = Fixed(
            layout=1.0 + ("1d", "2d").index(cut.layout),
            pipeline=one(cut.pipeline),
            experts=one(cut.experts),
            attention=one(cut.attention),
        )
        again = ForwardPass(made.target.shape, made.target.machine, made.target.precision, fixed)
        load = Load(one(points.n_devices[position]), one(points.batch[position]))
        assert float(again.best_times(load)[0][0]) == pytest.approx(points.token_time_s[position])


@pytest.mark.parametrize("field", ["flop_per_s", "bytes_per_s"])
def test_faster_devices_never_slow_a_token(field):
    load = Load(np.geomspace(1, 300, 9)[:, None], np.geomspace(1, 500, 9)[None, :], 1000.0)
    for model in ("llama-3.3-70b", "deepseek-v3"):
        shape = shape_of(load_model(model))
        better = replace(H100, **{field: 2 * getattr(H100, field)})
        before, after = (
            ForwardPass(shape, machine, ElementBytes()).best_times(load)[0]
            for machine in (H100, better)
        )
        assert is_at_most(after, before)


# --- models ----------------------------------------------------------------------------------


def test_epochs_deepseek_has_58_layers_and_a_sparsity_of_28():
    shape = shape_of(load_model("deepseek-v3"))
    assert (shape.n_layers, shape.sparsity, shape.n_active_experts) == (58, 28, 9)
    assert shape.n_layers * shape.kv_elements * 2 == pytest.approx(60e3, rel=0.02)  # section 4.3


def test_a_diffusion_model_is_refused():
    with pytest.raises(InputError, match="got a diffusion model"):
        shape_of(load_model("llada-8b"))


# --- speculation, price, closed form -----------------------------------------------------------


def test_an_iteration_yields_the_truncated_geometric_mean_of_equation_46():
    made = serving()
    speculation = made.speculation
    assert isinstance(speculation, Speculation)
    for length in (2, 3, 4, 5):
        expected = (1 - 0.8**length) / (1 - 0.8)
        assert speculation.tokens_per_iteration(length) == pytest.approx(expected)


def test_speculation_is_a_check_and_its_drafts_over_what_they_yield():
    made = serving()
    speculation = made.speculation
    assert speculation is not None
    load = Load(one(8), one(50), 0.0, (1, 2, 3, 4, 5))
    plain, *checks = (float(t[0]) for t in made.target.best_times(load))
    draft = float(speculation.draft.best_times(Load(one(8), one(50)))[0][0])
    ways = [(c + g * draft) * 0.2 / (1 - 0.8**g) for g, c in enumerate(checks, start=2)]
    time, length = made.token_times(load)
    assert float(time[0]) == pytest.approx(min(plain, *ways))
    assert int(length[0]) == 2 + int(np.argmin(ways))


def test_the_draft_takes_memory_too():
    load = Load(one(1), one(1))
    both, alone = serving(), serving(speculates=False)
    draft = shape_of(load_model("llama-3-8b")).stored_parameters
    extra = float(both.stored_bytes(load)[0] - alone.stored_bytes(load)[0])
    assert extra == pytest.approx(2 * draft)


def test_a_bought_device_costs_its_share_of_life_and_its_power():
    usd_per_hour = owned_usd_per_hour(2 * 8766.0, 500.0, 4.0, 0.5, 0.2, 1.5)
    assert usd_per_hour == pytest.approx(2 / 4 / 0.5 + 0.5 * 1.5 * 0.2)


# --- frontier ----------------------------------------------------------------------------------


def test_the_frontier_is_what_no_point_beats_slowest_first():
    points = feasible_points(serving(), 2.1, Grid(40))
    front = points.frontier()
    both = np.column_stack([points.token_time_s, points.usd_per_million_tokens])
    assert len(front) == len(np.unique(both[non_dominated(both)], axis=0))
    assert (np.diff(front.tokens_per_s) > 0).all()
    assert (np.diff(front.usd_per_million_tokens) > 0).all()


def test_the_valued_point_maximizes_equation_45():
    points = feasible_points(serving(), 2.1, Grid(20))
    value = points.tokens_per_s**3 / points.usd_per_million_tokens
    assert points.most_valued(3.0) == int(value.argmax())
    assert points.tokens_per_s[points.fastest()] == points.tokens_per_s.max()


def test_demand_bounds_what_an_instance_generates():
    made = serving()
    points = feasible_points(made, 2.1, Grid(30), demand_tokens_per_s=500.0)
    assert is_at_most(points.batch / points.token_time_s, 500.0)
    with pytest.raises(InputError, match="expected a demand of at least"):
        feasible_points(made, 2.1, Grid(30), demand_tokens_per_s=1.0)


@pytest.mark.parametrize("model", ["llama-3.3-70b", "mixtral-8x22b", "deepseek-v3"])
def test_a_buildable_system_has_whole_degrees_that_divide_the_model(model):
    shape = shape_of(load_model(model))
    for system in buildable_systems(shape, 300.0):
        stages, tensor, attention, experts = (
            system.pipeline, system.tensor, system.attention, system.experts
        )  # fmt: skip
        for whole, degree in (
            (shape.n_layers, stages),
            (tensor, attention),
            (shape.n_heads, attention),
            (tensor, experts),
            (shape.n_experts, experts),
            (shape.feedforward_width, tensor / experts),
            (max(shape.n_kv_heads, attention), min(shape.n_kv_heads, attention)),
        ):
            assert whole % degree == 0
        assert stages * tensor == system.n_devices <= 300


def test_a_model_that_does_not_fit_says_by_how_much_and_what_would_hold_it():
    with pytest.raises(InputError, match=r"does not fit 2 devices.*6 devices would hold it"):
        feasible_points(serving("llama-3.1-405b"), 2.0, Grid(10, most_devices=2.0))


# --- the evaluator -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llama-3.3-70b", {}),
        ("llama-3.3-70b", {"continuous": True}),
        ("deepseek-v3", {"price_usd_per_hour": 2.0, "demand_tokens_per_s": 5000.0}),
    ],
)
def test_the_evaluator_keeps_the_contract(model, options):
    workload = EconomicsWorkload(model=model, context_tokens=1000.0)
    evaluator = EconomicsEvaluator(workload, EconomicsOptions.model_validate(options))
    designs = SPACE.columns(SPACE.sample(np.random.default_rng(0), 8))
    check_evaluator(evaluator, designs, n_single=3)


def test_the_evaluator_gives_what_the_study_gives():
    made = serving()
    designs = {
        "device": column_of(["h100-sxm"]),
        "n_devices": column_of([8]),
        "batch_size": column_of([64]),
        "weight_format": column_of(["int8"]),
        "speculation": column_of(["auto"]),
    }
    time = made.token_times(Load(one(8), one(64)))[0]
    for continuous, relative in ((True, 1e-6), (False, 0.05)):
        options = EconomicsOptions(continuous=continuous)
        evaluator = EconomicsEvaluator(EconomicsWorkload(model="llama-3.3-70b"), options)
        metrics = evaluator.evaluate(designs).metrics
        assert metrics["time_per_output_token_s"] == pytest.approx(time, rel=relative)
        price = metrics["time_per_output_token_s"] * 8 / 64 * 3.0 / 3600 * 1e6
        assert metrics["usd_per_million_tokens"] == pytest.approx(price)


def test_designs_that_nobody_could_build_are_infeasible():
    designs = {
        "device": column_of(["h100-sxm"] * 5),
        "n_devices": column_of([16, 512, 512, 13, 16]),
        "batch_size": column_of([64, 64, 64, 64, 3]),
        "pipeline_parallel": column_of(["auto", 1, 8, "auto", 2]),
        "speculation": column_of(["auto", "none", 3, "auto", 2]),
    }
    evaluator = EconomicsEvaluator(EconomicsWorkload(model="llama-3.3-70b"))
    # 64 heads do not divide over 512 devices of one stage, nor 3 requests over two stages.
    found = evaluator.evaluate(designs)
    assert (found.violations["split"] > 0).tolist() == [False, True, False, True, True]
    assert np.isfinite(found.metrics["time_per_output_token_s"]).all()
    for row in range(5):
        alone = taken(designs, [row])
        times = evaluator.evaluate(alone).metrics["time_per_output_token_s"]
        assert times == found.metrics["time_per_output_token_s"][[row]]


def test_a_design_that_fixes_the_split_is_no_faster_and_must_divide():
    designs = {
        "device": column_of(["h100-sxm"] * 3),
        "n_devices": column_of([12, 12, 12]),
        "batch_size": column_of([8, 8, 8]),
        "pipeline_parallel": column_of(["auto", 3, 5]),
    }
    options = EconomicsOptions(continuous=True)
    evaluator = EconomicsEvaluator(EconomicsWorkload(model="llama-3.3-70b"), options)
    found = evaluator.evaluate(designs)
    best, fixed, _ = found.metrics["time_per_output_token_s"]
    assert fixed >= best
    assert found.violations["split"].tolist() == [0.0, 0.0, 2.0]


def test_names_that_are_not_known_are_refused_with_the_nearest():
    designs = {
        "device": column_of(["h100-sxm"]),
        "n_devices": column_of([8]),
        "batch_size": column_of([8]),
    }
    evaluator = EconomicsEvaluator(EconomicsWorkload(model="llama-3-8b"))
    with pytest.raises(UnknownNameError, match="Did you mean 'usd_per_million_tokens'"):
        evaluator.evaluate(designs, ["usd_per_million_token"])
    with pytest.raises(UnknownNameError, match="Did you mean '2d'"):
        evaluator.evaluate({**designs, "tensor_layout": column_of(["3d"])})
    with pytest.raises(InputError, match="no rent is known for it"):
        evaluator.evaluate({**designs, "device": column_of(["mi210"])})


# --- rates of formats ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "weight_format", "peak", "noted"),
    [
        ("a100", "fp8", 312e12, "states no fp8 rate: fp8 weights take 8 bits in memory"),
        ("v100-sxm", "fp8", 100e12, "multiply in fp16"),
        ("tpu-v5e", "fp8", 197e12, "multiply in bf16"),
        ("tpu-v5e", "int8", 393e12, ""),
        ("gaudi-3", "int8", 1835e12, "states no int8 rate"),
        ("b200", "fp4", 9000e12, ""),
        ("b200", "mxfp4", 9000e12, ""),
        ("h200", "fp4", 1978.9e12, "multiply in fp8"),
        ("h200", "bf16", 989.4e12, ""),
    ],
)
def test_weights_multiply_at_a_rate_that_the_device_states(device, weight_format, peak, noted):
    made = device_machine(device, weight_format, EconomicsOptions(link_bandwidth="100 GB/s"))
    assert made.peak_flop_per_s == peak
    assert noted in " ".join(made.notes)
    assert bool(noted) or not any("multiply" in note for note in made.notes)


def test_the_paper_has_no_8_bit_floats_on_an_a100_either():
    rates = {
        name: device_machine("a100", name, EconomicsOptions()).peak_flop_per_s
        for name in ("bf16", "fp8", "int8", "int4")
    }
    assert rates == {"bf16": 312e12, "fp8": 312e12, "int8": 624e12, "int4": 624e12}


def test_a_campaign_has_the_same_rates():
    designs = {
        "device": column_of(["a100", "a100", "h100"]),
        "n_devices": column_of([4, 4, 4]),
        "batch_size": column_of([4000, 4000, 4000]),
        "weight_format": column_of(["fp8", "int8", "fp4"]),
    }
    evaluator = EconomicsEvaluator(EconomicsWorkload(model="llama-3-8b"))
    fp8, int8, fp4 = evaluator.evaluate(designs).metrics["throughput_tokens_per_s"]
    assert fp8 < 0.6 * int8 < fp4


def test_a_device_with_8_bit_floats_alone_cannot_multiply_wider_ones(tmp_path):
    file = tmp_path / "narrow.yaml"
    text = "name: narrow\nvendor: us\ndevice_class: npu\npeak: {fp8: 100 TFLOP/s}\nn_cores: 1\n"
    text += "bandwidth: 1000 GB/s\ncapacity: 80 GB\nsources: {peak: here, n_cores: here, "
    file.write_text(text + "bandwidth: here, capacity: here}\n")
    assert device_machine(str(file), "fp8", EconomicsOptions()).peak_flop_per_s == 1e14
    with pytest.raises(InputError, match="device narrow: unknown precision 'bf16'"):
        device_machine(str(file), "bf16", EconomicsOptions())
