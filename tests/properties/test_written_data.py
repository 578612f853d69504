"""Storage priority ``written``: what a pass writes is kept off memories that wear."""

from functools import cache

import numpy as np
import pytest

from codesign.base.columns import column_of
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluator
from codesign.evaluators.npu import NpuEvaluator, NpuOptions, compiled
from codesign.models.machines.npu.operator_stage import resident_bytes
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.search.enumeration import enumerate_front
from codesign.search.enumeration.decomposition import Decomposition, Part
from codesign.search.problem_builder import build_problem
from codesign.space import load_space

TRACES = {"llama-3.3-70b": "osworld", "qwen3-next-80b-a3b": "bfcl"}
OBJECTIVES = ("maximize throughput_tokens_per_s", "minimize tdp_watts")
LIFE = "lifetime_years >= 5"


@cache
def space():
    return load_space("memexplorer-wear", {"memtech": load_library().catalog()})


def evaluator(model, phase, batch=None, **options):
    request = Request(model=model, phase=phase, trace=TRACES[model], batch=batch)
    return NpuEvaluator(request, NpuOptions(**options))


def designs(priority, n=400):
    columns = dict(space().columns(space().sample(np.random.default_rng(5), n)))
    columns["storage_priority"] = column_of([priority] * n)
    return columns


def results(npu, priority):
    return npu.metrics_of(npu.choose(designs(priority)))


def wears(work):
    return np.asarray(work.placed_levels("wear_per_byte")[1:] > 0)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("model", TRACES)
def test_nothing_is_written_to_tiers_that_wear_while_others_have_room(model, phase):
    work = results(evaluator(model, phase), "written")
    is_wearing = wears(work)
    capacity = work.placed_levels("capacity_bytes")[1:]
    working = work.working
    design = working.stage_design((-1,))
    activations, kv, _ = resident_bytes(design, working.pass_requests, working.batch_size)
    written_bytes = activations + kv
    has_room = written_bytes <= np.where(is_wearing, 0.0, capacity).sum(axis=0)
    rates = np.where(is_wearing, work.written_bytes_per_s[1:], 0.0).sum(axis=0)
    rates, has_room = rates[is_wearing.any(axis=0)], has_room[is_wearing.any(axis=0)]
    assert (rates[has_room] == 0).all()
    assert (rates[~has_room] > 0).all()
    assert has_room.any()


@pytest.mark.parametrize("model", TRACES)
def test_tiers_that_wear_stand_behind_all_others(model):
    work = results(evaluator(model, "decode"), "written")
    is_last = wears(work) | (work.placed_levels("capacity_bytes")[1:] == 0)
    assert (is_last[:-1] <= is_last[1:]).all()
    spread = results(evaluator(model, "decode"), "equal")
    is_last = wears(spread) | (spread.placed_levels("capacity_bytes")[1:] == 0)
    assert not (is_last[:-1] <= is_last[1:]).all()  # the fastest order is another


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_tier_that_wears_is_written_to_no_more_than_if_all_data_are_spread(phase):
    npu = evaluator("llama-3.3-70b", phase, batch=4)
    written, spread = (results(npu, priority) for priority in ("written", "equal"))
    per_pass = [
        np.where(wears(work), work.written_bytes_per_s[1:], 0.0).sum(axis=0) * work.pass_s
        for work in (written, spread)
    ]
    assert (per_pass[0] <= per_pass[1] * (1 + 1e-9)).all()
    assert (per_pass[0] < per_pass[1]).any()


class Opaque(Evaluator):
    """An evaluator that keeps its bounds to itself."""

    def __init__(self, inner):
        self.metrics, self.required_parameters = inner.metrics, inner.required_parameters
        self.optional_parameters = inner.optional_parameters
        self.known_violations, self.evaluate = inner.known_violations, inner.evaluate
        self.provenance = inner.provenance


def small_space(phase):
    design = space().designs["P1" if phase == "prefill" else "D1"]
    kept = {"tier1", "tier2", "storage_priority"}
    fixed = {k: v for k, v in design.items() if k.split("_")[0] not in kept and k not in kept}
    return space().fix(fixed | {"tier3_technology": None, "tier3_stacks": None})


@pytest.mark.parametrize("limits", [(), (LIFE,)], ids=["no limit", "a life"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_exact_front_equals_brute_force(phase, limits):
    npu = evaluator("llama-3.3-70b", phase)
    problem = build_problem(small_space(phase), npu, OBJECTIVES, limits, "npu")
    brute_force = build_problem(small_space(phase), Opaque(npu), OBJECTIVES, limits, "npu")
    pruned, brute = enumerate_front(problem), enumerate_front(brute_force)
    for name in ("objectives", "counts", "rows", "point"):
        assert np.array_equal(getattr(pruned, name), getattr(brute, name)), name
    assert len(brute) > 5


def best_rate(problem):
    return float(-enumerate_front(problem).objectives[:, 0].min())


def test_a_limit_on_the_life_is_kept_with_flash_that_nothing_is_written_to():
    flash = {"tier1_technology": "hbm4_12h", "tier2_technology": "hbf", "tier2_stacks": 1}
    few = small_space("prefill").fix(flash)
    npu = evaluator("llama-3.3-70b", "prefill")
    limits = ("lifetime_years >= 9",)
    problem = build_problem(few, npu, OBJECTIVES, limits, "npu")
    spread = few.fix({"storage_priority": "activation"})
    assert best_rate(problem) > 3000
    with pytest.raises(InputError, match="feasible"):
        enumerate_front(build_problem(spread, npu, OBJECTIVES, limits, "npu"))


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_no_design_beats_its_best_case(phase):
    npu = evaluator("llama-3.3-70b", phase)
    problem = build_problem(space(), npu, OBJECTIVES, (), "npu")
    rows = _written_rows(problem)
    metrics = problem.evaluate(rows).metrics
    tree = Decomposition(problem)
    part = Part(rows, np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.int64))
    for level in range(len(tree.undecided) + 1):
        best = npu.best_case(*tree.columns(part, level), problem.metric_names)
        for metric in npu.metrics:
            if metric.name in best:
                values = metric.flipped(metrics[metric.name])
                assert (values >= metric.flipped(best[metric.name])).all(), (metric.name, level)


def _written_rows(problem):
    written = problem.space.fix({"storage_priority": "written"})
    rows = written.sample(np.random.default_rng(3), 2_000)
    rows = np.concatenate([problem.space.encode(item) for item in written.decode(rows)])
    return rows[problem.admits(rows)]


@pytest.mark.skipif(not compiled.has_numba(), reason="numba is not installed")
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_compiled_loop_gives_the_same_bits(phase, monkeypatch):
    answers = []
    for switch in "01":
        monkeypatch.setenv(compiled.SWITCH, switch)
        answers.append(evaluator("llama-3.3-70b", phase).evaluate(designs("written")).metrics)
    for name, values in answers[0].items():
        assert values.tobytes() == answers[1][name].tobytes(), name


@pytest.mark.parametrize("options", [{"topology": "parallel"}, {"profile": "memexplorer"}], ids=str)
def test_it_is_refused_where_tiers_are_read_side_by_side(options):
    with pytest.raises(InputError, match="'written' needs topology staged and blocking capacity"):
        evaluator("llama-3.3-70b", "decode", **options).evaluate(designs("written", 2))
