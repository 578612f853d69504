"""Laws of sessions with caches: limits, monotone answers, and exact fronts."""

from functools import cache

import numpy as np
import pytest

from codesign.base.columns import column_of, taken
from codesign.base.records import drop_keys
from codesign.evaluators.npu import NpuEvaluator, NpuOptions, compiled
from codesign.evaluators.sessions import MixEvaluator, SessionsEvaluator
from codesign.evaluators.sessions.mix_evaluator import MixWorkload
from codesign.evaluators.sessions.session_workload import SessionsOptions, SessionWorkload
from codesign.models.memtech import Range, load_library
from codesign.models.memtech.technology import ACCOUNT_NUMBERS, NUMBERS
from codesign.models.workload import Request
from codesign.search.enumeration import enumerate_front
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem
from codesign.space import load_space
from tests.laws import is_at_most, never_falls, never_rises

MACHINE = {"memory_edge_m": "132 mm"}
FASTER_IS_LESS = ("first_turn_time_to_first_token_s", "later_turn_time_to_first_token_s",
                  "loaded_time_per_output_token_s", "computed_tokens_per_asked_token")  # fmt: skip
MORE_IS_BETTER = ("sessions_per_s", "prompt_hit_share", "later_turn_hit_share")


@pytest.fixture(autouse=True)
def _one_block(monkeypatch):
    monkeypatch.setattr("codesign.search.enumeration.enumerate._BLOCKS", 1)


@cache
def space():
    return load_space("agent-caches", {"memtech": load_library().catalog()})


@cache
def evaluator(model="llama-3.3-70b", session="coding-agent", batch=1):
    workload = SessionWorkload(model=model, session=session, batch=batch)
    return SessionsEvaluator(workload, SessionsOptions(machine=MACHINE))


def machine_of(**changes):
    design = {
        "pe_array": (2048, 128), "clock_hz": 1.2e9, "process": "n5", "vector_length": 4096,
        "score_path": "local", "sram_technology": "sram_bank_512k", "sram_dies": 128,
        "sram_3d_layers": 0, "topology": "staged", "weight_format": "mxfp8",
        "activation_format": "mxfp8", "kv_format": "mxfp8", "storage_priority": "kv",
        "dataflow": "os", "bandwidth_priority": "shared", "tier1_technology": "hbm3e_12h",
        "tier1_stacks": 6,
    }  # fmt: skip
    return design | changes


def columns(designs):
    return {name: column_of([design[name] for design in designs]) for name in designs[0]}


def single_turn(tmp_path):
    path = tmp_path / "alone.yaml"
    path.write_text(
        "description: one turn\n"
        "turns: [{turn: 1, new_tokens: 3000, generated_tokens: 400}]\n"
        "sources: {all: invented}\n"
    )
    return str(path)


def test_without_reuse_the_answers_are_those_of_the_machine_to_the_last_digit(tmp_path):
    designs = columns([machine_of(tier1_stacks=stacks) for stacks in (4, 6, 8)])
    workload = SessionWorkload(model="llama-3-8b", session=single_turn(tmp_path), batch=8)
    alone = SessionsEvaluator(workload, SessionsOptions(machine=MACHINE), True).evaluate(designs)
    request = {"model": "llama-3-8b", "prompt_tokens": 3000, "generated_tokens": 400}
    options = NpuOptions(memory_edge_m="132 mm")
    prefill, decode = (
        NpuEvaluator(Request(phase=phase, batch=batch, **request), options).evaluate(designs)
        for phase, batch in (("prefill", 1), ("decode", 8))
    )
    ttft, tpot = (
        prefill.metrics["time_to_first_token_s"],
        decode.metrics["time_per_output_token_s"],
    )
    assert (alone.metrics["first_turn_time_to_first_token_s"] == ttft).all()
    assert (alone.metrics["time_per_output_token_s"] == tpot).all()
    assert (alone.metrics["prompt_hit_share"] == 0).all()
    assert (alone.metrics["sessions_per_s"] == 1 / (400 * tpot / 8 + ttft)).all()
    assert (alone.metrics["loaded_time_per_output_token_s"] == (400 * tpot / 8 + ttft) * 8 / 400
            ).all()  # fmt: skip


def test_with_all_contexts_in_the_fastest_memory_only_the_new_tokens_are_prefilled():
    design = columns([machine_of(tier1_stacks=12, concurrent_sessions=1)])
    sessions = evaluator("llama-3-8b", "chat")
    later = sessions.evaluate(design).metrics["later_turn_time_to_first_token_s"][0]
    turns = [
        NpuEvaluator(
            Request(model="llama-3-8b", phase="prefill", cached_tokens=1000 + 442 * k,
                    prompt_tokens=94, generated_tokens=348, batch=1),
            NpuOptions(memory_edge_m="132 mm"),
        ).evaluate(design_of_machine(design)).metrics["time_to_first_token_s"][0]
        for k in (1, 2, 3)
    ]  # fmt: skip
    assert later == pytest.approx(np.mean(turns), rel=1e-6)


def design_of_machine(design):
    return {name: column for name, column in design.items() if name != "concurrent_sessions"}


@pytest.mark.parametrize("technology", ["ddr5_rdimm", "cxl_ddr5", "nvme_gen5"])
def test_no_answer_gets_worse_with_a_larger_cache(technology):
    units, rng = [1, 2, 3, 5, 8, 13, 21, 34, 55, 200], np.random.default_rng(3)
    for session in ("coding-agent", "chat", "rag"):
        for second in (None, "nvme_gen5"):
            designs = columns([
                machine_of(cache1_technology=technology, cache1_units=n, cache2_technology=second,
                           cache2_units=4, concurrent_sessions=int(count), batch_size=4)
                for count in rng.choice([4, 32, 256, 2048], 2, replace=False) for n in units
            ])  # fmt: skip
            metrics = evaluator(session=session).evaluate(designs).metrics
            for name in MORE_IS_BETTER:
                assert never_falls(metrics[name].reshape(2, -1)), (session, name)
            for name in FASTER_IS_LESS:
                assert never_rises(metrics[name].reshape(2, -1)), (session, name)


def test_bounds_are_never_beaten_whatever_is_undecided():
    rng = np.random.default_rng(5)
    sessions = evaluator()
    designs = space().columns(space().sample(rng, 40))
    metrics = [metric.name for metric in sessions.metrics]
    actual = sessions.evaluate(designs).metrics
    values = {parameter.name: parameter.values for parameter in space().parameters}
    caches = [name for name in designs if name.startswith("cache")]
    assert "concurrent_sessions" not in sessions.undecided_parameters
    for names in ([], caches, [*caches, "kv_format", "weight_format"]):
        decided = drop_keys(designs, names)
        best = sessions.best_case(decided, {name: values[name] for name in names}, metrics)
        for metric in sessions.metrics:
            if metric.name in best:
                worse, better = actual[metric.name], best[metric.name]
                pair = (worse, better) if metric.sense == "maximize" else (better, worse)
                assert is_at_most(*pair), (metric.name, names)


def brute_front(problem):
    rows = problem.space.rows(np.arange(problem.space.size))
    results = problem.evaluate(rows, problem.deciding_metrics)
    known = problem.known_violations(rows)
    is_feasible = results.feasible & np.all([x <= 0 for x in known.values()], axis=0)
    points = np.unique(results.objectives[is_feasible], axis=0)
    return points[non_dominated(points)]


def part_of(space, seed, open_ones):
    design = space.decode(space.sample(np.random.default_rng(seed), 1))[0]
    fixed = drop_keys(design, open_ones)
    return space.fix(fixed)


@pytest.mark.parametrize("seed", range(3))
def test_the_front_of_machine_and_caches_is_that_of_all_designs(seed):
    open_ones = {"cache1_technology", "cache1_units", "cache2_technology", "cache2_units",
                 "concurrent_sessions", "pe_array"}  # fmt: skip
    problem = build_problem(
        part_of(space(), seed, open_ones),
        evaluator(session=["coding-agent", "chat", "osworld"][seed]),
        ["maximize sessions_per_s", "minimize tdp_watts", "minimize usd_per_million_asked_tokens"],
        ["later_turn_time_to_first_token_s <= 60"],
    )
    front = enumerate_front(problem)
    np.testing.assert_array_equal(np.unique(front.objectives, axis=0), brute_front(problem))
    assert front.n_excluded > 0


def mixed(**limits):
    chat = {"model": "llama-3-8b", "session": "chat", "batch": 4, "share": 0.75,
            "concurrent_sessions": 16, "best_usd_per_million_asked_tokens": 1e-4}  # fmt: skip
    agent = {"model": "llama-3.3-70b", "session": "osworld", "share": "25 %", "name": "os_agent",
             "concurrent_sessions": 32, "best_usd_per_million_asked_tokens": 1e-3,
             "limits": limits}  # fmt: skip
    return MixEvaluator(MixWorkload(mix=[chat, agent]), SessionsOptions(machine=MACHINE))


@cache
def space_of_mixes():
    return load_space("mix-caches", {"memtech": load_library().catalog()})


def test_a_mix_is_the_sum_of_its_workloads_by_their_shares():
    designs = space_of_mixes().columns(space_of_mixes().sample(np.random.default_rng(2), 12))
    evaluation = mixed(time_per_output_token_s=0.05).evaluate(designs)
    assert evaluation.violations.keys() > {"shoreline", "chat_capacity", "os_agent_capacity"}
    both = evaluation.metrics
    seconds = 0.75 / both["chat_sessions_per_s"] + 0.25 / both["os_agent_sessions_per_s"]
    np.testing.assert_allclose(both["sessions_per_s"], 1 / seconds)
    worst = np.maximum(
        both["chat_usd_per_million_asked_tokens"] / 1e-4,
        both["os_agent_usd_per_million_asked_tokens"] / 1e-3,
    )
    np.testing.assert_allclose(both["regret"], worst - 1)
    rows = mixed().explain(taken(designs, slice(1))).operators
    assert sum(row["time_s"] for row in rows) == pytest.approx(seconds[0])
    assert rows[1]["name"] == "os agent"
    alone = evaluator(session="osworld").evaluate(designs).metrics
    np.testing.assert_allclose(
        both["worst_limit_excess"], alone["time_per_output_token_s"] / 0.05 - 1
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_front_of_a_mix_is_that_of_all_designs(seed):
    open_ones = {"cache1_technology", "cache1_units", "cache2_technology", "cache2_units",
                 "pe_array", "dataflow"}  # fmt: skip
    problem = build_problem(
        part_of(space_of_mixes(), seed, open_ones),
        mixed(later_turn_time_to_first_token_s=9),
        ["minimize usd_per_million_asked_tokens", "minimize regret", "maximize sessions_per_s"],
        ["worst_limit_excess <= 0"],
    )
    front = enumerate_front(problem)
    np.testing.assert_array_equal(np.unique(front.objectives, axis=0), brute_front(problem))


@pytest.mark.skipif(not compiled.has_numba(), reason="numba is not installed")
def test_the_compiled_loop_gives_the_same_bits(monkeypatch):
    designs = space_of_mixes().columns(space_of_mixes().sample(np.random.default_rng(6), 50))
    metrics = ["sessions_per_s", "regret", "worst_limit_excess"]
    answers = []
    for switch in "01":
        monkeypatch.setenv(compiled.SWITCH, switch)
        mix = mixed(later_turn_time_to_first_token_s=9, time_per_output_token_s=0.05)
        answers.append([x.tobytes() for x in mix.evaluate(designs, metrics).metrics.values()])
    assert answers[0] == answers[1]


def test_moved_numbers_give_the_answers_of_evaluators_that_remember_nothing(monkeypatch):
    memories, constants = evaluator().technologies(), evaluator().constant_ranges(["tdp_watts"])
    designs = columns([machine_of(tier1_stacks=stacks) for stacks in (4, 6)])
    memory = memories["hbm3e_12h"]
    evaluator().evaluate(designs)

    def moved(base, change):
        name, (low, typical) = change
        if name in constants:
            return base.replace_constants({name: typical * 1.1})
        number = Range(low=low, typical=typical * 1.1, high=typical * 1.2)
        return base.replace_library(
            {**memories, memory.key: memory.model_copy(update={name: number})}
        )

    ranges = {name: getattr(memory, name) for name in (*NUMBERS, *ACCOUNT_NUMBERS)}
    ranges = {name: x for name, x in {**ranges, **constants}.items() if x and x.typical}
    changes = [(name, (x.low, x.typical)) for name, x in ranges.items()][::2]
    remembered = [moved(evaluator(), change).evaluate(designs).metrics for change in changes]
    monkeypatch.setattr("codesign.evaluators.sessions.sessions_evaluator._SMALL", 0)
    for change, metrics in zip(changes, remembered, strict=True):
        for name, values in moved(evaluator(), change).evaluate(designs).metrics.items():
            np.testing.assert_array_equal(metrics[name], values, err_msg=f"{change[0]}: {name}")
