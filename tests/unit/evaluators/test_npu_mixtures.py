"""Weights of an npu in a mixture of formats by layers: exact, bounded, on exact fronts."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from codesign.base.errors import InputError, UnusableValueError
from codesign.evaluators.conformance import check_evaluator
from codesign.evaluators.npu import NpuEvaluator, NpuOptions, compiled
from codesign.evaluators.npu.operator_times import Stage
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.simulation import SimulationEvaluator
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.machines.npu.stage_records import WeightGroups
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.search.enumeration import enumerate_front
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem
from codesign.space import load_space, parse_space
from tests.laws import is_at_most

MIXTURE = "0.75*mxfp4+0.25*mxfp8"
OPTIONS = [
    {},
    {"profile": "memexplorer"},
    {"topology": "parallel", "requests_in_flight": 16.0},
    {"array": "systolic", "bandwidth_sharing": "shared"},
]
FEW = {
    "pe_array": (512, 64),
    "sram_3d_layers": 1,
    "sram_dies": 0,
    "dataflow": "ws",
    "vector_length": 512,
    "bandwidth_priority": "equal",
    "tier2_technology": None,
    "tier3_technology": None,
}


@cache
def space():
    return load_space("memexplorer-mixed", {"memtech": load_library().catalog()})


@cache
def evaluator(phase="decode", **options):
    request = Request(model="llama-3.3-70b", trace="osworld", phase=phase)
    return NpuEvaluator(request, NpuOptions(**options))


def designs(n, **values):
    fixed = space().fix(values)
    return fixed.columns(fixed.sample(np.random.default_rng(3), n))


def with_weights(columns, name):
    mixed = columns["weight_format"]
    return {**columns, "weight_format": replace(mixed, values=(name,) * len(mixed.values))}


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_pass_is_the_sum_over_layers_with_the_format_of_each(phase, options):
    one = evaluator(phase, **options)
    working = one.choose(designs(60, weight_format=MIXTURE)).working
    n = len(working)
    assert working.weight_bytes == pytest.approx(5 / 8)  # scales left out

    def seconds(weight_bytes):
        of_layers = WeightGroups(np.ones((1, n)), np.full((1, n), weight_bytes))
        changed = replace(working)
        vars(changed)["weight_groups"] = of_layers  # as if looked up before
        stage = Stage(changed)
        return stage.times.time_s @ one.pass_.table.count

    stage = Stage(working)
    expected = 0.75 * seconds(4 / 8) + 0.25 * seconds(8 / 8)
    assert stage.times.time_s @ one.pass_.table.count == pytest.approx(expected)
    assert (stage.totals[0] >= expected * (1 - 1e-12)).all()
    if phase == "decode" and not options:  # not as if every weight had the average
        assert (seconds(5 / 8) < expected * (1 - 1e-3)).any()


@pytest.mark.skipif(not compiled.has_numba(), reason="numba is not installed")
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_compiled_loop_gives_the_same_bits(phase, options, monkeypatch):
    columns, answers = designs(400), []
    for switch in "01":
        monkeypatch.setenv(compiled.SWITCH, switch)
        answers.append(evaluator(phase, **options).evaluate(columns).metrics)
    for name, values in answers[0].items():
        assert values.tobytes() == answers[1][name].tobytes(), name


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_formats_of_equal_bits_mixed_are_one_of_them(phase):
    columns = designs(200)
    plain = evaluator(phase).evaluate(with_weights(columns, "mxfp4")).metrics
    mixed = evaluator(phase).evaluate(with_weights(columns, "0.5*mxfp4+0.5*mxint4")).metrics
    for name, values in plain.items():
        assert values.tobytes() == mixed[name].tobytes(), name


def test_mixtures_of_equal_average_and_width_are_told_apart():
    names = ["0.5*mxfp8+0.5*mxfp16", "0.25*mxfp4+0.125*mxfp8+0.625*mxfp16", "0.5*mxint8+0.5*bf16"]
    first, second, third = evaluator().interchangeable("weight_format", names)
    assert first == third != second
    columns = designs(40)
    metric = ["throughput_tokens_per_s"]
    rates = [
        evaluator().evaluate(with_weights(columns, name), metric).metrics[metric[0]]
        for name in names
    ]
    assert (rates[0] == rates[2]).all()
    assert (rates[0] != rates[1]).any()


def test_a_mixture_lies_between_its_formats():
    columns = designs(200)
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode", batch=1)
    of_one = NpuEvaluator(request, NpuOptions())
    fits = of_one.known_violations(with_weights(columns, "mxfp8"))["capacity"] <= 0
    assert fits.any()
    narrow, mixed, wide = (
        of_one.evaluate(with_weights(columns, name)).metrics for name in ("mxfp4", MIXTURE, "mxfp8")
    )
    for name in ("phase_time_s", "memory_used_bytes", "energy_joules_per_token"):
        assert is_at_most(narrow[name][fits], mixed[name][fits]), name
        assert is_at_most(mixed[name][fits], wide[name][fits]), name
    assert (mixed["tdp_watts"] == wide["tdp_watts"]).all()  # the array multiplies the widest


@pytest.mark.parametrize(
    ("phase", "options"), [*zip(("decode", "prefill", "decode"), OPTIONS, strict=False)], ids=str
)
def test_it_keeps_the_contract_of_evaluators(phase, options, monkeypatch):
    monkeypatch.setattr("codesign.evaluators.conformance_optional._N_BOXES", 6)
    check_evaluator(evaluator(phase, accuracy=True, **options), designs(24), n_single=4)


@pytest.mark.parametrize(
    ("objective", "constraints"),
    [
        ("maximize accuracy_recovery", ("tdp_watts <= 300",)),
        ("maximize tokens_per_joule", ("accuracy_recovery >= 0.985",)),
    ],
)
def test_an_exact_front_is_that_of_every_design(objective, constraints):
    objectives = ["maximize throughput_tokens_per_s", "minimize tdp_watts", objective]
    judged = evaluator(accuracy=True, quantization_algorithm="gptq")
    few = space().fix(FEW)
    problem = build_problem(few, judged, objectives, constraints)
    front = enumerate_front(problem)
    rows = few.rows(np.arange(few.size))
    rows = rows[problem.admits(rows)]
    results = problem.evaluate(rows, problem.deciding_metrics)
    points = results.objectives[results.feasible]
    every = {tuple(point) for point in points[non_dominated(points)].tolist()}
    assert {tuple(point) for point in front.objectives.tolist()} == every
    found = {str(design["weight_format"]) for design in few.decode(front.rows)}
    assert any("*" in name for name in found)


def test_an_account_says_how_it_counts_and_where_it_comes_from():
    account = evaluator(accuracy=True).explain(designs(1, weight_format=MIXTURE))
    assert any(note.startswith("weights: 75 % of layers mxfp4, 25 %") for note in account.notes)
    assert any("accuracy_recovery is estimated" in note for note in account.notes)


def test_no_memory_waits_for_power_by_rounding_alone():
    judged = evaluator()
    design = judged.metrics_of(judged.choose(with_weights(designs(200), "0.7*mxfp4+0.3*mxfp8")))
    waits = design.power_limits_s.max(axis=0) > design.operators_s
    assert ((design.matrix_s > design.operators_s) == waits).all()


def test_a_pool_of_a_system_may_have_a_mixture():
    text = {
        "based_on": "system-pd",
        "pools": {
            "prefill": {"space": "memexplorer", "machines": {"low": 1, "high": 8}},
            "decode": {"space": "memexplorer-mixed", "machines": {"low": 1, "high": 8}},
        },
    }
    pools = parse_space(json.dumps(text), {"memtech": load_library().catalog()}, "mixed-pools")
    system = SystemEvaluator(SystemWorkload(model="llama-3.3-70b", trace="osworld"))
    problem = build_problem(pools, system, ["maximize throughput_tokens_per_s"], (), "system")
    rates = []
    for name in ("mxfp4", MIXTURE, "mxfp8"):
        row = pools.encode({**pools.designs["P1-D1"], "decode_weight_format": name})
        metrics = problem.evaluate(row).metrics
        rates.append(float(metrics["throughput_tokens_per_s"][0]))
    assert rates[0] > rates[1] > rates[2]


def test_other_machines_and_other_data_have_no_mixtures():
    columns = designs(1, weight_format=MIXTURE)
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
    simulation = SimulationEvaluator(request)
    for judge in (simulation.known_violations, simulation.evaluate, simulation.explain):
        with pytest.raises(UnusableValueError, match="only weights of an npu may be mixed"):
            judge(columns)
    mixed_cache = {**columns, "kv_format": columns["weight_format"]}
    with pytest.raises(UnusableValueError, match="only weights of an npu may be mixed"):
        evaluator().evaluate(mixed_cache)
    platform = PlatformEvaluator(
        PlatformRequest(model="llama-3.3-70b", prompt_tokens=64, generated_tokens=8),
        PlatformOptions(),
    )
    devices = load_space("platform-llm", {"memtech": load_library().catalog()})
    of_device = devices.columns(devices.sample(np.random.default_rng(0), 1))
    with pytest.raises(InputError, match="only weights of an npu may be mixed"):
        platform.evaluate({**of_device, "weight_format": columns["weight_format"]})
