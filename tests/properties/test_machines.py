"""Every machine in every deployment: alone, on several devices, in pools, for requests that arrive.

The machines are designs by ``npu`` and by ``simulation``, devices of a datasheet, and the roofline
of the example package, which comes by its entry point as a stranger's does.
"""

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from codesign.base.columns import column_of
from codesign.base.errors import InputError
from codesign.base.evaluator import LinkDescription, PoolDescription
from codesign.evaluators.design_machine import design_machine
from codesign.evaluators.npu import NpuOptions
from codesign.evaluators.phase_machine import machine_class, machine_for
from codesign.evaluators.platform import PlatformEvaluator, PlatformRequest
from codesign.evaluators.platform.machine_pools import serving_machine
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.system_options import SystemOptions
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.deployments.queueing import Arrivals, EngineLimits, Fleet, simulate
from codesign.models.deployments.queueing.step_times import EngineStep, PromptChunk
from codesign.models.memtech import load_library
from codesign.search.execution.result_cache import evaluator_modules
from codesign.space import load_space
from codesign.testing import check_evaluator

PACKAGE = Path(__file__).parents[2] / "docs" / "example-plugin"
PROMPT, GENERATED = 512, 16
TOKENS = {"model": "llama-3-8b", "prompt_tokens": PROMPT, "generated_tokens": GENERATED}
NPU = load_space("memexplorer", {"memtech": load_library().catalog()}).designs["D1"]
DESIGNS = {
    "npu": {**NPU, "batch_size": 8},
    "simulation": {**NPU, "batch_size": 8},
    "platform": {"device": "h100-sxm", "batch_size": 8, "tensor_parallel": 1},
    "roofline": {"tflop_per_s": 1000, "gb_per_s": 4000, "gb": 96},
}
LINK = {"bandwidth_bytes_per_s": 450e9, "latency_s": 1e-6, "energy_joules_per_byte": 1e-11}
RATE, FIRST, NEXT = "throughput_tokens_per_s", "time_to_first_token_s", "time_per_output_token_s"
CACHE_BYTES = 2 * 32 * 8 * 128 * 2
"""Of a token of Llama 3 8B: keys and values of 32 layers, 8 heads of 128, in bf16."""


@pytest.fixture(autouse=True)
def _installed(tmp_path, monkeypatch):
    """The example package's machine, as installers leave it."""
    shutil.copy(PACKAGE / "codesign_roofline.py", tmp_path)
    folder = tmp_path / "strange-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: strange\nVersion: 1.0\n")
    entries = "[codesign.evaluators]\nroofline = codesign_roofline:Roofline\n"
    (folder / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(str(tmp_path))


def columns(design):
    return {name: column_of([value]) for name, value in design.items()}


def evaluator(name, phase):
    factory = machine_class(name)
    return machine_for(factory, TOKENS | {"phase": phase}, factory.Options())


def by_itself(name, phase, design):
    """Rate in tokens of the phase, and seconds until the first or for each next token."""
    if name == "platform":
        serving = PlatformEvaluator(PlatformRequest(**TOKENS)).serving(columns(design))
        if phase == "prefill":
            first_s = serving.sustained_time_to_first_token_s[0]
            return serving.prefill_requests_per_s[0] * PROMPT, first_s
        return serving.throughput_tokens_per_s[0], serving.time_per_output_token_s[0]
    metrics = evaluator(name, phase).evaluate(columns(design)).metrics
    return metrics[RATE][0], metrics[FIRST if phase == "prefill" else NEXT][0]


def system(machines, designs):
    """A system of one machine for each role, and its metrics."""
    phases = dict.fromkeys(role.partition("_")[0] for role in machines)
    options = SystemOptions(pools={role: {"machine": name} for role, name in machines.items()})
    built = SystemEvaluator(SystemWorkload(**TOKENS, phases=tuple(phases)), options).join_pools(
        [PoolDescription(role, role, tuple(designs[role])) for role in machines],
        [LinkDescription("link", *machines)] if len(machines) == 2 else [],
    )
    result = built.evaluate(joined(machines, designs))
    return built, {name: x[0] for name, x in result.metrics.items()}


def joined(machines, designs):
    values = {f"{role}_{key}": x for role in machines for key, x in designs[role].items()}
    values |= {f"{role}_machines": 1 for role in machines}
    values |= {f"link_{key}": x for key, x in LINK.items()} if len(machines) == 2 else {}
    return columns(values)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("name", DESIGNS)
def test_a_machine_alone_in_a_pool_is_that_machine(name, phase):
    built, metrics = system({phase: name}, {phase: DESIGNS[name]})
    if name != "platform":  # stored results are of this code
        assert type(evaluator(name, phase)).__module__ in evaluator_modules(built)
    time = metrics[FIRST if phase == "prefill" else NEXT]
    assert (metrics[RATE], time) == by_itself(name, phase, DESIGNS[name])


def test_a_strangers_machine_has_the_times_of_its_closed_form():
    """Llama 3 8B has 6.979e9 weights in layers and 0.525e9 each in embedding and head."""
    _, prefill = system({"prefill": "roofline"}, {"prefill": DESIGNS["roofline"]})
    _, decode = system({"decode": "roofline"}, {"decode": DESIGNS["roofline"]})
    attention = 2 * 32 * 4096 * PROMPT**2 / 2
    by_hand = 2 * (6.979e9 * PROMPT + 0.525e9 + attention) / 1000e12
    assert prefill[FIRST] == pytest.approx(by_hand, rel=1e-3)
    moved = 2 * 8.030e9 + CACHE_BYTES * (PROMPT + GENERATED)
    assert decode[NEXT] == pytest.approx(moved / 4000e9, rel=1e-3)


@pytest.mark.parametrize("name", ["npu", "simulation", "platform"])
def test_several_devices_with_tensor_parallelism_are_a_machine_of_a_pool(name):
    four = {**DESIGNS[name], "tensor_parallel": 4}
    _, metrics = system({"decode": name}, {"decode": four})
    assert metrics["n_devices"] == 4
    assert (metrics[RATE], metrics[NEXT]) == by_itself(name, "decode", four)
    assert 1 < by_itself(name, "decode", DESIGNS[name])[1] / metrics[NEXT] < 4
    if name == "simulation":
        of_npu = by_itself("npu", "decode", four)
        assert (metrics[RATE], metrics[NEXT]) == pytest.approx(of_npu, rel=0.05)


@pytest.mark.parametrize("first", DESIGNS)
@pytest.mark.parametrize("second", DESIGNS)
def test_any_two_machines_are_a_system(first, second):
    """The slower pool or the link sets the rate; caches are in the format of the first pool."""
    machines = {"prefill": first, "decode": second}
    designs = {phase: DESIGNS[name] for phase, name in machines.items()}
    built, metrics = system(machines, designs)
    (prefill, first_s), (decode, next_s) = (
        by_itself(name, phase, DESIGNS[name]) for phase, name in machines.items()
    )
    sent = CACHE_BYTES * PROMPT * (8.25 / 16 if "kv_format" in designs["prefill"] else 1)
    assert metrics["handover_bytes"] == pytest.approx(sent, rel=1e-9)
    rates = (prefill / PROMPT, decode / GENERATED, LINK["bandwidth_bytes_per_s"] / sent)
    assert metrics["requests_per_s"] == pytest.approx(min(rates), rel=1e-9)
    assert (metrics[FIRST], metrics[NEXT]) == (first_s, next_s)
    has_energy = "roofline" not in machines.values()
    assert ("energy_joules_per_request" in metrics) == has_energy
    assert ("lifetime_years" in metrics) == (set(machines.values()) <= {"npu", "simulation"})
    assert np.isfinite([metrics[RATE], metrics["request_latency_s"]]).all()
    # Bounds of machines bound the system where all of them have some.
    assert all(x.offers("best_case") for x in built.machines.values()) == (machines == {
        "prefill": "npu", "decode": "npu"})  # fmt: skip


def test_a_system_of_machines_of_two_kinds_keeps_the_contract_of_evaluators():
    machines = {"prefill": "roofline", "decode": "simulation"}
    designs = {phase: DESIGNS[name] for phase, name in machines.items()}
    built, _ = system(machines, designs)
    counts = {"prefill_machines": column_of([1, 2, 3]), "decode_machines": column_of([2, 2, 1])}
    alike = {name: column_of(x.decoded() * 3) for name, x in joined(machines, designs).items()}
    check_evaluator(built, alike | counts, n_single=1)


@pytest.mark.parametrize("roles", [("prefill", "decode"), ("decode_attention", "decode_ffn")])
def test_two_simulated_pools_are_near_those_of_npu(roles):
    designs = dict.fromkeys(roles, DESIGNS["npu"])
    _, closed = system(dict.fromkeys(designs, "npu"), designs)
    _, simulated = system(dict.fromkeys(designs, "simulation"), designs)
    assert simulated.keys() == closed.keys()
    for name, value in closed.items():
        assert simulated[name] == pytest.approx(value, rel=0.05), name


def test_a_simulated_pool_chooses_a_batch_within_the_limits():
    designs = {"decode": NPU}
    built, free = system({"decode": "simulation"}, designs)
    limit = 0.5 * free[NEXT]
    assert built.choosing_metrics(["decode_pe_array"]) == {NEXT}
    limited = built.keep_limits({NEXT: limit}).evaluate(joined(designs, designs))
    assert limited.metrics[NEXT][0] <= 1.05 * limit


def test_a_design_that_a_machine_gives_up_on_has_failed():
    bare = {**NPU, "sram_dies": 0, "sram_3d_layers": 0}
    machines = {"prefill": "npu", "decode": "simulation"}
    designs = {"prefill": NPU, "decode": bare}
    built, _ = system(machines, {"prefill": NPU, "decode": NPU})
    reason = built.evaluate(joined(machines, designs)).failures[0]
    assert str(reason).startswith("decode: there is no on-chip")


# --- requests that arrive ------------------------------------------------------------------------


def machine(name, arrivals, **design):
    limits = EngineLimits(max_sequences=8, max_batched_tokens=1024)
    if name == "platform":
        platform = PlatformEvaluator(PlatformRequest(**TOKENS))
        return serving_machine(platform, DESIGNS[name] | design, limits, arrivals, 0.9)
    own = evaluator(name, "decode")
    return design_machine(own, DESIGNS[name] | design, limits, arrivals, 0.9)


def served(name, n_requests=1, **design):
    """Requests that come at once."""
    counts = (np.full(n_requests, PROMPT), np.full(n_requests, GENERATED))
    arrivals = Arrivals(np.zeros(n_requests), *counts)
    return simulate(Fleet((machine(name, arrivals, **design).pool("serve", 1),)), arrivals)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_request_that_arrives_alone_takes_its_passes(name):
    """Prefill and decode steps of one request, which a machine alone takes too."""
    result = served(name)
    design = DESIGNS[name] if name == "roofline" else DESIGNS[name] | {"batch_size": 1}
    first_s, next_s = (by_itself(name, phase, design)[1] for phase in ("prefill", "decode"))
    # Steps of devices are of tables, each at the clock of its own pass.
    assert result.time_to_first_token_s[0] == pytest.approx(first_s, rel=0.07)
    assert result.time_per_output_token_s[0] == pytest.approx(next_s, rel=0.02)
    busy = served(name, 16)
    assert 1 < busy.makespan_s / result.makespan_s < 16  # they share the steps


def test_a_strangers_requests_take_the_time_of_the_closed_form():
    """Steps of the second to the last token of eight requests, each with one more in its cache."""
    machine_ = machine("roofline", Arrivals(np.zeros(1), np.array([PROMPT]), np.array([GENERATED])))
    for context in (PROMPT + 1, PROMPT + GENERATED - 1):
        step_s = machine_.step_times.step_s(EngineStep([], 8, 8 * context))
        moved = 2 * 8.030e9 + 8 * CACHE_BYTES * context
        assert step_s == pytest.approx(moved / 4000e9, rel=0.005)
    free = 0.9 * 96e9 - 2 * 8.030e9
    assert machine_.limits.cache_tokens == pytest.approx(free / CACHE_BYTES, rel=1e-3)
    assert np.isnan(machine_.power_watts)  # it reports none


@pytest.mark.parametrize("degree", [1, 4])
def test_simulated_machines_serve_as_those_of_npu(degree):
    results = [served(name, 12, tensor_parallel=degree) for name in ("npu", "simulation")]
    closed, simulated = ((x.request_latency_s, x.time_to_first_token_s) for x in results)
    np.testing.assert_allclose(simulated, closed, rtol=0.05)


def test_step_times_of_few_simulated_passes_are_near_whole_passes():
    arrivals = Arrivals(np.zeros(1), np.array([900]), np.array([100]))
    step_times = machine("simulation", arrivals).step_times
    for n, context in ((1, 3), (5, 333), (7, 950)):
        exact = step_times._pass_s("decode", context, [n])[0]
        step = EngineStep([], n, n * context)
        assert step_times.step_s(step) == pytest.approx(exact, rel=0.005)
    for tokens in (50, 333, 900):
        exact = step_times._pass_s("prefill", tokens, [1])[0]
        step = EngineStep([PromptChunk(tokens, 0)], 0, 0)
        assert step_times.step_s(step) == pytest.approx(exact, rel=0.05)


def test_more_context_takes_no_less_time_on_any_machine():
    arrivals = Arrivals(np.zeros(1), np.array([PROMPT]), np.array([GENERATED]))
    for name in DESIGNS:
        step_times = machine(name, arrivals).step_times
        steps = [step_times.step_s(EngineStep([], 4, 4 * n)) for n in (16, 128, PROMPT)]
        assert all(low <= high * 1.001 for low, high in pairwise(steps)), name


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("simulatoin", "unknown machine 'simulatoin'. Did you mean 'simulation'?"),
        ("economics", "'economics' has no machines that serve one phase"),
        ("forecast", "expected one of: npu, platform, roofline, simulation"),
        ({"name": "roofline", "speed": 1}, "speed: unknown key 'speed'"),
        ({"name": "npu", "profile": "plain"}, "expected the options of npu under 'npu'"),
        (3, "expected a name or a mapping with 'name', got 3"),
    ],
)
def test_a_machine_that_no_pool_can_have_is_refused(choice, words):
    with pytest.raises(ValueError, match=words.split(".")[0].replace("(", r"\(")) as error:
        SystemOptions(pools={"decode": {"machine": choice}})
    assert words in str(error.value)
    assert "pools.decode.machine" in str(error.value)


def test_a_machine_whose_parameters_the_pool_lacks_is_refused():
    with pytest.raises(InputError, match="evaluator: pools: decode: machine: evaluator 'roofline'"):
        system({"decode": "roofline"}, {"decode": DESIGNS["npu"]})
    degrees = {**DESIGNS["roofline"], "tensor_parallel": 4}
    with pytest.raises(InputError, match="unknown parameter 'tensor_parallel'"):
        system({"decode": "roofline"}, {"decode": degrees})
    with pytest.raises(InputError, match="'platform' requires what pool 'decode' lacks: device"):
        system({"decode": "platform"}, {"decode": DESIGNS["npu"]})


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("decode_attention", "decode_attention: machine: expected a machine for all layers"),
        ("decode_ffn", "expected a machine for all layers, got ffn"),
    ],
)
def test_a_stranger_may_refuse_a_part_of_the_layers(role, words):
    machines = dict.fromkeys(("decode_attention", "decode_ffn"), "npu") | {role: "roofline"}
    with pytest.raises(InputError, match=words):
        system(machines, {name: DESIGNS[x] for name, x in machines.items()})


def test_the_options_of_a_machine_are_its_own():
    designs = {"decode": DESIGNS["roofline"]}
    _, whole = system({"decode": "roofline"}, designs)
    _, half = system({"decode": {"name": "roofline", "efficiency": 0.5}}, designs)
    assert half[NEXT] == pytest.approx(2 * whole[NEXT])


def test_a_stored_definition_names_a_machine_only_where_one_is_stated():
    assert "machine" not in SystemOptions().model_dump()
    stated = SystemOptions(machine="simulation", npu=NpuOptions()).model_dump()
    assert stated["machine"] == {"name": "simulation", "options": {}}
