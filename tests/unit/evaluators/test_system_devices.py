"""Pools of devices that exist: closed forms by hand, and the evaluator ``platform`` itself."""

import json
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from codesign.base.columns import column_of, first_values, taken
from codesign.base.errors import InputError, UnknownNameError
from codesign.base.evaluator import LinkDescription, PoolDescription
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.device_pool import DevicePool
from codesign.evaluators.system.roles import PoolTask, StageRequest
from codesign.evaluators.system.system_options import MachineOptions, SystemOptions
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.energy import EnergyConstants
from codesign.models.memtech import load_library
from codesign.search.enumeration.composition import compose_front
from codesign.search.enumeration.enumerate import enumerate_front
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem
from codesign.space import load_space
from tests.laws import is_at_most

PROMPT = 1024
GENERATED = 128
WORKLOAD = {"model": "llama-3.3-70b", "prompt_tokens": PROMPT, "generated_tokens": GENERATED}
DESIGNS = {
    "device": ["a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm"],
    "tensor_parallel": [8, 4, 2, 1],
    "pipeline_parallel": [1, 2, 1, 1],
    "data_parallel": [1, 1, 2, 1],
    "batch_size": [4, 8, 2, 1],
    "weight_format": ["bf16", "fp8", "fp8", "bf16"],
    "activation_format": ["bf16", "fp8", "bf16", "bf16"],
    "kv_format": ["bf16", "fp8", "bf16", "fp8"],
}
DEVICES = np.array([8.0, 8.0, 4.0, 1.0])
ENGINES = ("graphs", "streams", "eager")
SHIPPED = ("system-pd-gpu", "system-mixed", "system-mixed-reverse")


def columns():
    return {name: column_of(values) for name, values in DESIGNS.items()}


@cache
def pool(phase, engine="graphs", layers="all"):
    stage = StageRequest(phase, phase, PROMPT, GENERATED)
    options = MachineOptions(platform=PlatformOptions(engine=engine))
    task = PoolTask(stage, {"model": WORKLOAD["model"], "layers": layers}, layers)
    return DevicePool(task, SystemWorkload(**WORKLOAD), options)


def platform(engine="graphs"):
    return PlatformEvaluator(PlatformRequest(**WORKLOAD), PlatformOptions(engine=engine))


def systems(phases, engine="graphs"):
    """Systems of one group of devices for each phase, which are those of ``DESIGNS``."""
    options = SystemOptions(platform=PlatformOptions(engine=engine))
    evaluator = SystemEvaluator(SystemWorkload(**WORKLOAD, phases=phases), options).join_pools(
        [PoolDescription(name, name, tuple(DESIGNS)) for name in phases],
        [LinkDescription("link", "prefill", "decode")] if len(phases) == 2 else [],
    )
    designs = {f"{name}_{key}": x for name in phases for key, x in columns().items()}
    return evaluator, designs | {f"{name}_machines": column_of([1] * 4) for name in phases}


def linked(designs, **link):
    stated = {"bandwidth_bytes_per_s": 50e9, "latency_s": 5e-6, "energy_joules_per_byte": 7e-10}
    return designs | {f"link_{key}": column_of([x] * 4) for key, x in (stated | link).items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_decode_pool_alone_is_the_platform_to_the_last_bit(engine):
    evaluator, designs = systems(("decode",), engine)
    metrics = evaluator.evaluate(designs).metrics
    expected = platform(engine).evaluate(columns()).metrics
    same = {"tdp_watts": "board_power_watts"}
    names = [
        "throughput_tokens_per_s", "time_per_output_token_s", "energy_joules_per_token",
        "tokens_per_joule", "average_power_watts", "tdp_watts", "n_devices",
    ]  # fmt: skip
    for name in names:
        np.testing.assert_array_equal(metrics[name], expected[same.get(name, name)], name)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_prefill_pool_alone_is_the_platform_to_the_last_bit(engine):
    evaluator, designs = systems(("prefill",), engine)
    metrics = evaluator.evaluate(designs).metrics
    serving = platform(engine).serving(columns())
    first_s = serving.sustained_time_to_first_token_s
    np.testing.assert_array_equal(metrics["time_to_first_token_s"], first_s)
    np.testing.assert_array_equal(
        metrics["throughput_tokens_per_s"], serving.prefill_requests_per_s * PROMPT
    )
    np.testing.assert_array_equal(
        metrics["energy_joules_per_token"], serving.prefill_energy_joules_per_token
    )
    np.testing.assert_array_equal(metrics["tdp_watts"], serving.board_power_watts)


def test_a_prefill_pool_keeps_the_cache_of_prompts_and_a_decode_pool_that_of_answers_too():
    """Of eight A100: 64 requests, 327,680 bytes a token, an eighth of them on each device."""
    designs = columns() | {"batch_size": column_of([64, 128, 64, 8])}
    prefill, decode = (pool(phase).known_violations(designs) for phase in ("prefill", "decode"))
    more = decode["memory"] - prefill["memory"]
    assert more[0] == pytest.approx(64 * GENERATED * 327_680 / 8 / 80e9)
    np.testing.assert_array_equal(decode["memory"], platform().known_violations(designs)["memory"])
    assert set(prefill) == set(decode) == set(platform().known_violations(designs))


def test_rates_are_those_of_batches_by_hand():
    prefill, decode = (pool(phase).evaluate(columns()).metrics for phase in ("prefill", "decode"))
    batch = np.array(DESIGNS["batch_size"], dtype=float)
    np.testing.assert_array_equal(prefill["batch_size"], batch)
    step = decode["time_per_output_token_s"]
    np.testing.assert_allclose(decode["throughput_tokens_per_s"], batch / step, rtol=1e-12)
    no_pipeline = np.array(DESIGNS["pipeline_parallel"]) == 1
    rate = batch * PROMPT / prefill["time_to_first_token_s"]
    np.testing.assert_allclose(
        prefill["throughput_tokens_per_s"][no_pipeline], rate[no_pipeline], rtol=1e-12
    )
    np.testing.assert_array_equal(decode["n_devices"], DEVICES)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_idle_and_dynamic_energy_add_up_to_the_energy_of_busy_devices(phase, engine):
    metrics = pool(phase, engine).evaluate(columns()).metrics
    watts = [load_device(name).power for name in DESIGNS["device"]]
    idle = load_constants("energy", EnergyConstants, "gpu").idle * np.array(watts) * DEVICES
    np.testing.assert_allclose(metrics["idle_watts"], idle, rtol=1e-12)
    waiting = idle / metrics["throughput_tokens_per_s"]
    total = metrics["dynamic_joules_per_token"] + waiting
    np.testing.assert_allclose(metrics["energy_joules_per_token"], total, rtol=1e-12)
    assert (metrics["dynamic_joules_per_token"] > 0).all()
    assert (metrics["average_power_watts"] > metrics["idle_watts"]).all()
    assert is_at_most(metrics["average_power_watts"], metrics["tdp_watts"])


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_host_that_starts_kernels_late_costs_idle_power_and_no_arithmetic(phase):
    """On one stage of devices that work in step, energy is that of kernels and of waiting.

    A prefill at the limit gains clock, and so takes more, while its device waits.
    """
    designs = taken(columns(), np.array([0, 3]))
    eager, queued = (
        pool(phase, engine).evaluate(designs).metrics for engine in ("eager", "streams")
    )
    slower = queued["throughput_tokens_per_s"] / eager["throughput_tokens_per_s"]
    assert phase == "prefill" or slower[0] > 1.2
    alone = DEVICES[[0, 3]] == 1  # several devices wait for the last of their ranks, too
    np.testing.assert_allclose(
        eager["dynamic_joules_per_token"][alone],
        queued["dynamic_joules_per_token"][alone],
        rtol=1e-9 if phase == "decode" else 0.15,
    )


def test_what_is_handed_over_is_the_cache_of_the_prompt():
    """80 layers with keys and values of 8 heads of 128; 16 bits, 8, 16 and 8."""
    per_token = 80 * 2 * 8 * 128 * np.array([2.0, 1.0, 2.0, 1.0])
    handed = pool("prefill").evaluate(columns(), ["handover_bytes"]).metrics["handover_bytes"]
    np.testing.assert_array_equal(handed, per_token * PROMPT)
    kept = pool("decode").evaluate(columns(), ["handover_bytes"]).metrics["handover_bytes"]
    np.testing.assert_array_equal(kept, per_token * (PROMPT + GENERATED))


def test_a_system_of_devices_by_hand():
    evaluator, designs = systems(("prefill", "decode"))
    metrics = evaluator.evaluate(linked(designs)).metrics
    prefill, decode = (pool(phase).evaluate(columns()).metrics for phase in ("prefill", "decode"))
    rates = [
        prefill["throughput_tokens_per_s"] / PROMPT,
        decode["throughput_tokens_per_s"] / GENERATED,
        50e9 / prefill["handover_bytes"],
    ]
    rate = np.min(rates, axis=0)
    np.testing.assert_allclose(metrics["requests_per_s"], rate, rtol=1e-12)
    joules = prefill["dynamic_joules_per_token"] * PROMPT
    joules = joules + decode["dynamic_joules_per_token"] * GENERATED
    joules = joules + (prefill["idle_watts"] + decode["idle_watts"]) / rate
    joules = joules + prefill["handover_bytes"] * 7e-10
    np.testing.assert_allclose(metrics["energy_joules_per_request"], joules, rtol=1e-12)
    np.testing.assert_allclose(metrics["tdp_watts"], prefill["tdp_watts"] * 2, rtol=1e-12)
    batch = columns()["batch_size"].lookup(float)
    np.testing.assert_array_equal(prefill["handover_requests"], batch)
    assert batch.max() > 1
    transfer_s = prefill["handover_bytes"] * batch / 50e9
    first_s = prefill["time_to_first_token_s"]
    exposed_s = np.maximum(transfer_s / 80, transfer_s - first_s * 79 / 80) + 5e-6 + 8e-3
    np.testing.assert_allclose(metrics["handover_exposed_s"], exposed_s, rtol=1e-12)


@pytest.mark.parametrize("phases", [("decode",), ("prefill", "decode")])
def test_devices_that_draft_and_devices_that_check_take_the_steps_of_both_models(phases):
    """Three drafted tokens, of which 70 % are accepted, yield 2.533 with the next one."""
    stated = {**WORKLOAD, "draft": "llama-3.1-8b", "draft_tokens": 3, "acceptance": 0.7}
    roles = [*phases, "draft"]
    evaluator = SystemEvaluator(SystemWorkload(**stated, phases=phases)).join_pools(
        [PoolDescription(name, name, tuple(DESIGNS)) for name in roles],
        [LinkDescription(f"link{i}", *ends) for i, ends in enumerate(pairwise(roles))],
    )
    designs = {f"{name}_{key}": x for name in roles for key, x in columns().items()}
    designs |= {f"{name}_machines": column_of([1] * 4) for name in roles}
    designs |= {f"link{i}{key[4:]}": x for i in (0, 1) for key, x in linked({}).items()}
    metrics = evaluator.evaluate(designs).metrics
    both = PlatformEvaluator(PlatformRequest(**stated)).serving(columns())
    step_s = both.time_per_output_token_s + 2 * 5e-6 / 2.533
    np.testing.assert_allclose(metrics["time_per_output_token_s"], step_s, rtol=1e-9)
    slowest_s = np.maximum(both.verification_s, 3 * both.draft.time_per_output_token_s)
    rate = np.array(DESIGNS["batch_size"]) * 2.533 / slowest_s
    assert is_at_most(metrics["throughput_tokens_per_s"], rate)
    if phases == ("decode",):
        np.testing.assert_allclose(metrics["throughput_tokens_per_s"], rate, rtol=1e-9)
    else:
        first_s = pool("prefill").evaluate(columns()).metrics["time_to_first_token_s"]
        both_s = metrics["time_to_first_token_s"]
        np.testing.assert_allclose(both_s / first_s, 1 + 8.03 / 70.55, rtol=1e-3)
        per_token = (80 + 32) * 2 * 8 * 128 * np.array([2.0, 1.0, 2.0, 1.0])
        np.testing.assert_array_equal(metrics["handover_bytes"], per_token * PROMPT)


def test_drafts_need_a_pool_of_their_own():
    stated = SystemWorkload(**WORKLOAD, draft="llama-3.1-8b", acceptance=0.7, phases=("decode",))
    pools = [PoolDescription("decode", "decode", tuple(DESIGNS))]
    with pytest.raises(InputError, match="expected the roles decode and draft for the decode"):
        SystemEvaluator(stated).join_pools(pools, [])
    with pytest.raises(ValueError, match="expected the vocabulary of llama"):
        SystemWorkload(**WORKLOAD, draft="qwen3-0.6b", acceptance=0.7)


def test_a_pool_is_explained_in_its_own_phase():
    design = taken(columns(), np.array([0]))
    for phase in ("prefill", "decode"):
        explanation = pool(phase).explain(design)
        metrics = pool(phase).evaluate(design).metrics
        both = pool(phase).platform.explain(design).operators
        own = [row["time_s"] for row in both if row["phase"] == phase]
        assert 0 < len(own) < len(both)
        assert [row["time_s"] for row in explanation.operators] == own
        expected = first_values(metrics)
        assert explanation.metrics == pytest.approx(expected, rel=0, abs=0, nan_ok=True)
        (power,) = explanation.power
        assert power["tdp_watts"] == 8 * 400
        assert power["average_watts"] == metrics["average_power_watts"][0]


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_attention_and_ffn_on_devices_of_their_own_take_what_whole_layers_take(phase):
    """80 layers send 8,192 numbers of 16 bits a token each way."""
    parts = [pool(phase, layers=layers) for layers in ("attention", "ffn")]
    one = taken(columns(), np.array([0, 3]))  # without pipelines, whose sends both parts have
    (step,) = {"time_to_first_token_s", "time_per_output_token_s"} & set(parts[0].metric_names)
    values = [part.evaluate(one).metrics for part in parts]
    expected = pool(phase, "graphs").platform.serving(one)
    taken_s = getattr(expected, f"sustained_{step}" if phase == "prefill" else step)
    np.testing.assert_allclose(values[0][step] + values[1][step], taken_s, rtol=0.1)
    tokens = PROMPT if phase == "prefill" else 1
    assert values[1]["exchange_bytes"].tolist() == [80 * 8192 * 2 * tokens * n for n in (4, 1)]
    kept, stored = (part.platform.serving(one).decode_footprint for part in parts)
    assert (stored.kv_bytes == 0).all()
    total = kept.weight_bytes + stored.weight_bytes
    np.testing.assert_allclose(total, expected.decode_footprint.weight_bytes, rtol=1e-12)
    if phase == "decode":
        room = kept.room_bytes - kept.weight_bytes
        held = np.floor(room / (kept.kv_bytes / np.array([4.0, 1.0])))
        np.testing.assert_array_equal(values[0]["held_requests"], held)


def test_options_of_one_pool_are_its_own():
    slow = MachineOptions(platform=PlatformOptions(engine="eager"))
    options = SystemOptions(pools={"decode": slow})
    machines = SystemEvaluator(SystemWorkload(**WORKLOAD), options).join_pools(
        [PoolDescription(name, name, tuple(DESIGNS)) for name in ("prefill", "decode")],
        [LinkDescription("link", "prefill", "decode")],
    ).machines  # fmt: skip
    assert machines["prefill"].platform.options.engine == "graphs"
    assert machines["decode"].platform.options.engine == "eager"


def test_an_unknown_metric_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'tdp_watts'"):
        pool("decode").evaluate(columns(), ["tdp_wats"])


@cache
def catalogs():
    return {"memtech": load_library().catalog()}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_systems_load_and_their_designs_can_be_built(name):
    space = load_space(name, catalogs())
    workload = SystemWorkload(model="llama-3.3-70b", trace="osworld")
    problem = build_problem(
        space, SystemEvaluator(workload), ["maximize throughput_tokens_per_s"], (), "system"
    )
    rows = np.vstack([space.encode(design) for design in space.designs.values()])
    assert len(rows) >= 2
    observations = problem.evaluate(rows)
    assert observations.feasible.all()
    assert (observations.metrics["throughput_tokens_per_s"] > 100).all()
    for row in range(len(rows)):
        explanation = problem.evaluator.explain(space.columns(rows[row : row + 1]))
        assert [item["name"] for item in explanation.timeline] == ["prefill", "handover", "decode"]
        assert json.dumps(explanation.power)


def assert_front_of_all(problem):
    """The composed front is that of every system of the space."""
    rows = problem.space.rows(np.arange(problem.space.size))
    observations = problem.evaluate(rows[problem.admits(rows)], problem.deciding_metrics)
    points = observations.objectives[observations.feasible]
    expected = {tuple(point) for point in points[non_dominated(points)].tolist()}
    front = compose_front(problem, lambda part, _: enumerate_front(part))
    assert {tuple(point) for point in front.objectives.tolist()} == expected
    assert len(front) > 5


def test_the_front_of_a_part_of_the_gpu_space_is_that_of_every_system():
    space = load_space("system-pd-gpu", catalogs()).fix(
        {
            name: value
            for role in ("prefill", "decode")
            for name, value in {
                f"{role}_weight_format": "fp8",
                f"{role}_activation_format": "fp8",
                f"{role}_tensor_parallel": 8,
            }.items()
        }
        | {"prefill_batch_size": 1, "decode_device": "h200-sxm"}
    )
    workload = SystemWorkload(model="llama-3.3-70b", trace="osworld")
    objectives = [
        "maximize throughput_tokens_per_s",
        "minimize tdp_watts",
        "minimize energy_joules_per_request",
    ]
    limits = ["tdp_watts <= 60 kW", "time_per_output_token_s <= 60 ms"]
    problem = build_problem(space, SystemEvaluator(workload), objectives, limits, "system")
    assert_front_of_all(problem)
    assert space.size == 4 * 2 * 8 * 9 * 2 * 8


@pytest.mark.parametrize(
    ("name", "design", "open_names"),
    [
        ("system-mixed", "P1-H200", ("prefill_kv_format", "decode_device", "decode_batch_size")),
        ("system-mixed-reverse", "H100-D1", ("prefill_device", "prefill_batch_size",
                                             "decode_dataflow")),
    ],
)  # fmt: skip
def test_the_front_of_npus_with_gpus_is_that_of_every_system(name, design, open_names):
    space = load_space(name, catalogs())
    fixed = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in space.designs[design].items()
        if key not in open_names and not key.endswith("_machines")
    }
    space = space.fix(fixed)
    workload = SystemWorkload(model="llama-3.3-70b", trace="osworld")
    objectives = ["maximize throughput_tokens_per_s", "minimize tdp_watts"]
    problem = build_problem(
        space, SystemEvaluator(workload), objectives, ["tdp_watts <= 8 kW"], "system"
    )
    assert_front_of_all(problem)
    assert space.size >= 4 * 4 * 2 * 64
