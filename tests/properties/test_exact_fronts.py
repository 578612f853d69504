"""The pruned front of npu problems is that of every design evaluated, and no bound is beaten.

Sub-spaces are drawn at random: some parameters are fixed, so that the rest has a few thousand to a
million designs, which are all evaluated.
"""

import itertools
import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluator
from codesign.base.metrics import AMOUNTS, FOR_POOLS, POOL_METRICS
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.evaluators.npu.cost_metrics import COST_METRICS
from codesign.insight.uncertainty.sweep import Sweep
from codesign.models.accounts.account_constants import PROCESSES
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.search.derived_metrics import MetricDefinition
from codesign.search.enumeration import enumerate_front, kept_front
from codesign.search.enumeration.decomposition import Decomposition, Part
from codesign.search.enumeration.kept import keeping
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem, read_constraint
from codesign.space import load_space, parse_space
from tests.laws import in_turn


@pytest.fixture(autouse=True)
def _one_block(monkeypatch):
    """Brute force in one block: 256 of them cost more than the few designs that each has."""
    monkeypatch.setattr("codesign.search.enumeration.enumerate._BLOCKS", 1)


MODELS = {
    "llama-3.3-70b": "osworld",
    "mixtral-8x7b": "gsm8k",
    "deepseek-v3.2": "bfcl",
    "qwen3-next-80b-a3b": "osworld",
}
THROUGHPUT, TDP = "maximize throughput_tokens_per_s", "minimize tdp_watts"
OBJECTIVES = {
    2: (THROUGHPUT, TDP),
    3: (THROUGHPUT, TDP, "minimize energy_joules_per_token"),
    4: (THROUGHPUT, TDP, "maximize tokens_per_joule", "minimize memory_capacity_bytes"),
    "cost": (THROUGHPUT, "minimize unit_cost_usd", "minimize area_mm2"),
    "heat": (THROUGHPUT, "minimize junction_temperature_celsius", "minimize embodied_kgco2e"),
    "tokens": (THROUGHPUT, "minimize usd_per_million_tokens", "maximize lifetime_years"),
    "density": ("maximize density", TDP),
    "work": ("minimize work", "minimize shoreline_mm"),
    "net": ("maximize net", "minimize area_mm2"),
    "share": ("minimize share", THROUGHPUT),
}
DERIVED = {
    "density": ("throughput_tokens_per_s / area_mm2", "maximize", "token/s/mm^2"),
    "work": ("(tdp_watts + 20 W) * unit_cost_usd / throughput_tokens_per_s", "minimize",
             "J*USD/token"),
    "net": ("throughput_tokens_per_s - 0.1 token/J * tdp_watts", "maximize", "token/s"),
    "share": ("average_power_watts / tdp_watts", "minimize", ""),
}  # fmt: skip
"""Derived metrics: all have bounds but the last one, of which only 0 is known."""
OPTIONS = (
    {"profile": "plain"},
    {"profile": "memexplorer"},
    {"profile": "plain", "topology": "parallel", "array": "systolic", "softmax": "unpipelined"},
    {"profile": "memexplorer", "batch": "best", "vector": "serial", "fused": False},
    {"profile": "plain", "batch": "capacity", "bandwidth_sharing": "shared", "array": "ideal"},
    {"profile": "plain", "blocking": "array", "softmax": "unpipelined"},
    {"profile": "plain", "vector": "serial", "requests_in_flight": 1.0, "fused": False},
)
BATCHES = (None, 12, (3, 10, 48))
"""What a workload says of its batch: nothing, so that the options hold; a number; several."""


@cache
def evaluator(model, phase, options=(("profile", "plain"),), batch=None):
    request = Request(model=model, phase=phase, trace=MODELS.get(model, "gsm8k"), batch=batch)
    return NpuEvaluator(request, NpuOptions(**dict(options)))


@cache
def whole_space():
    return load_space("memexplorer", {"memtech": load_library().catalog()})


@cache
def accelerators():
    return load_space("accelerator", {"memtech": load_library().catalog()})


@cache
def space_of_batches():
    """The same with the batch size as a parameter."""
    overlay = {
        "based_on": "memexplorer",
        "parameters": {"batch_size": {"values": [1, 4, 6, 32]}},
        "designs": dict.fromkeys(whole_space().designs),  # they say no batch size
    }
    return parse_space(json.dumps(overlay), {"memtech": load_library().catalog()}, "batches")


@cache
def space_of_deployments(name):
    return load_space(name, {"memtech": load_library().catalog()})


KEPT = ("batch_size", "tensor_parallel", "pipeline_parallel", "expert_parallel")
"""Parameters that sub-spaces leave open."""


@cache
def sub_space(space, seed, smallest, largest):
    """A space with parameters fixed, as in a random design, until it is small enough."""
    rng = np.random.default_rng(seed)
    design = space.decode(space.sample(rng, 1))[0]
    for name in rng.permutation([name for name in design if name not in KEPT]):
        if space.size <= largest:
            break
        # A tier stays or goes as a whole, so that its technology and stacks can vary.
        fixed = space.fix({str(name): design[str(name)]})
        space = fixed if fixed.size >= smallest else space
    return space


class Opaque(Evaluator):
    """An evaluator that keeps its bounds to itself."""

    def __init__(self, inner):
        self._inner = inner
        self.metrics = inner.metrics
        self.required_parameters = inner.required_parameters
        self.optional_parameters = inner.optional_parameters

    def known_violations(self, designs):
        return self._inner.known_violations(designs)

    def evaluate(self, designs, metrics=None):
        return self._inner.evaluate(designs, metrics)

    def provenance(self):
        return self._inner.provenance()


def both(
    model,
    phase,
    m,
    seed,
    options=OPTIONS[0],
    largest=10_000,
    constraints=("tdp_watts <= 700",),
    batch=None,
    space=None,
    metrics=None,
):
    problem = build_problem(
        sub_space(space or whole_space(), seed, largest // 20, largest),
        evaluator(model, phase, tuple(options.items()), batch),
        OBJECTIVES[m],
        constraints,
        "npu",
        metrics=metrics,
    )
    return problem, replace(problem, evaluator=Opaque(problem.evaluator))


def assert_same_front(pruned, brute):
    for name in ("objectives", "counts", "rows", "point"):
        assert np.array_equal(getattr(pruned, name), getattr(brute, name)), name


def front_of(problem):
    """The front, or what is said of a space in which nothing is feasible."""
    try:
        return enumerate_front(problem)
    except InputError as error:
        return str(error)


def assert_pruning_is_exact(*case, **more):
    """Returns the size of the front."""
    problem, opaque = both(*case, **more)
    pruned, brute = front_of(problem), front_of(opaque)
    if isinstance(brute, str):
        assert pruned == brute
        return 0
    assert_same_front(pruned, brute)
    assert brute.n_repeated == 0
    assert pruned.n_evaluated + pruned.n_repeated + pruned.n_excluded == problem.space.size
    return len(brute)


def cases_of_brute_force():
    """Every model and phase; of the numbers of objectives one each, in turn, the others slow."""
    for i, (model, phase) in enumerate(itertools.product(MODELS, ["prefill", "decode"])):
        for m in (2, 3, 4):
            is_slow = m != 2 + i % 3
            yield pytest.param(model, phase, m, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize(("model", "phase", "m"), list(cases_of_brute_force()))
def test_the_pruned_front_equals_brute_force(model, phase, m):
    assert assert_pruning_is_exact(model, phase, m, m + 21, largest=25_000) > 1


@pytest.mark.parametrize(
    ("deployed", "phase"),
    in_turn(
        [
            *itertools.product(MODELS, ["memexplorer-parallel"]),
            ("deepseek-v3.2", "memexplorer-experts"),
        ],
        ["prefill", "decode"],
    ),
)
def test_it_does_so_where_the_degrees_of_parallelism_vary(deployed, phase):
    space = space_of_deployments(deployed[1])
    limits = ("tdp_watts <= 3000",)
    size = assert_pruning_is_exact(deployed[0], phase, 3, 5, constraints=limits, space=space)
    assert size > 1


@pytest.mark.parametrize("options", OPTIONS[1:], ids=str)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_it_does_so_whatever_the_model_of_the_hardware(phase, options):
    assert assert_pruning_is_exact("llama-3.3-70b", phase, 2, 12, options) > 1


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize(
    ("accounts", "limit"),
    [
        ("cost", "unit_cost_usd <= 6000"),
        ("heat", "power_density_w_per_mm2 <= 0.6"),
        ("heat", "block_density_w_per_mm2 <= 1.8"),
        ("tokens", "kgco2e_per_million_tokens <= 3"),
    ],
)
def test_it_does_so_for_what_designs_cost(accounts, limit, phase):
    limits = ("tdp_watts <= 700", limit)
    size = assert_pruning_is_exact("llama-3.3-70b", phase, accounts, 14, constraints=limits)
    assert size > 1


@pytest.mark.parametrize(("m", "phase"), in_turn([2, "cost"], ["prefill", "decode"]))
def test_it_does_so_where_clock_process_topology_and_banks_vary(m, phase):
    limit = {"prefill": "time_to_first_token_s <= 60", "decode": "time_per_output_token_s <= 0.1"}
    sizes = [
        assert_pruning_is_exact(
            "llama-3.3-70b", phase, m, seed, {"memory_edge_m": "132 mm"},
            constraints=("tdp_watts <= 700", limit[phase]), space=accelerators(),
        )
        for seed in range(8)
    ]  # fmt: skip
    assert sum(size > 1 for size in sizes) > 1


def derived_metrics():
    return {
        name: MetricDefinition(value=value, sense=sense, unit=unit)
        for name, (value, sense, unit) in DERIVED.items()
    }


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize(
    ("derived", "limit"),
    [
        ("density", "work <= 2e5 J*USD/token"),
        ("work", "density >= 0.02 token/s/mm^2"),
        ("net", "net >= -60 token/s"),
        ("share", "share >= 0.2"),
    ],
)
def test_it_does_so_for_derived_metrics_with_and_without_a_bound(derived, limit, phase):
    case = ("llama-3.3-70b", phase, derived, 14)
    limits = ("tdp_watts <= 700", limit)
    pruned, brute = map(enumerate_front, both(*case, constraints=limits, metrics=derived_metrics()))
    assert_same_front(pruned, brute)
    assert len(brute) > 1
    assert derived == "share" or pruned.n_evaluated < brute.n_evaluated / 2


@pytest.mark.parametrize("batch", BATCHES[1:], ids=str)
@pytest.mark.parametrize("profile", ["plain", "memexplorer"])
def test_it_does_so_whatever_the_workload_says_of_its_batch(profile, batch):
    case = ("llama-3.3-70b", "decode", 3, 13, {"profile": profile})
    assert assert_pruning_is_exact(*case, batch=batch) > 1


@pytest.mark.parametrize("profile", ["plain", "memexplorer"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_it_does_so_if_the_batch_size_is_a_parameter(profile, phase):
    problem, opaque = both(
        "qwen3-next-80b-a3b", phase, 2, 3, {"profile": profile}, space=space_of_batches()
    )
    pruned = enumerate_front(problem)
    assert_same_front(pruned, enumerate_front(opaque))
    seen = problem.evaluate(pruned.rows).metrics["batch_size"]
    assert np.array_equal(seen, problem.space.columns(pruned.rows)["batch_size"].lookup(float))


def test_limits_on_times_and_parameters_are_kept():
    limits = ("tdp_watts <= 500", "time_per_output_token_s <= 0.5", "weight_format != mxint4")
    assert assert_pruning_is_exact("mixtral-8x7b", "decode", 2, 12, constraints=limits) > 1


@pytest.mark.parametrize("profile", ["plain", "memexplorer"])
@pytest.mark.parametrize("limit", [0.03, 0.1])
def test_the_best_batch_within_a_limit_on_latency_is_found(profile, limit):
    options = {"profile": profile, "batch": "best"}
    case = ("qwen3-next-80b-a3b", "decode", 3, 5, options)
    problem, opaque = both(*case, constraints=[f"time_per_output_token_s <= {limit}"])
    pruned = enumerate_front(problem)
    assert_same_front(pruned, enumerate_front(opaque))
    without_limit = evaluator("qwen3-next-80b-a3b", "decode", tuple(options.items()))
    larger = replace(problem, evaluator=without_limit).evaluate(pruned.rows).metrics
    assert (problem.evaluate(pruned.rows).metrics["batch_size"] < larger["batch_size"]).any()


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize(("model", "phase"), list(itertools.product(MODELS, ["prefill", "decode"])))
@pytest.mark.parametrize("options", OPTIONS[:2], ids=str)
def test_the_pruned_front_equals_brute_force_on_a_million_designs(model, phase, m, options):
    for seed in range(4):
        assert_pruning_is_exact(model, phase, m, seed, options, largest=1_000_000)


@pytest.mark.parametrize("phase", [pytest.param("prefill", marks=pytest.mark.slow), "decode"])
def test_no_random_design_of_the_whole_space_is_beyond_its_front(phase):
    eight_bits = dict.fromkeys(("weight_format", "activation_format", "kv_format"), "mxint8")
    space = whole_space().fix(eight_bits)
    problem = build_problem(
        space, evaluator("llama-3.3-70b", phase), OBJECTIVES[2], ["tdp_watts <= 700"], "npu"
    )
    front = enumerate_front(problem)
    rows = problem.space.sample(np.random.default_rng(7), 15_000)
    rows = rows[problem.admits(rows)]
    found = problem.evaluate(rows, problem.deciding_metrics)
    points = found.objectives[found.feasible]
    union = np.concatenate([front.objectives, points])
    on_front = {tuple(point) for point in front.objectives.tolist()}
    assert {tuple(point) for point in union[non_dominated(union)].tolist()} == on_front
    assert front.n_designs == 51_373_440


def cases_of_bounds():
    """Models, phases and options in turn, each with one of the batches; all with all slow."""
    cells = itertools.product(MODELS, ["prefill", "decode"], OPTIONS)
    for i, (model, phase, options) in enumerate(cells):
        batch = BATCHES[i % len(BATCHES)]
        if i % 2 == 0:
            yield pytest.param(model, phase, options, 200, (batch,))
        yield pytest.param(model, phase, options, 5_000, BATCHES, marks=pytest.mark.slow)


def with_drawn_constants(npu, seed):
    """The evaluator with every number of technologies and accounts somewhere in its range.

    A third of the numbers lie at either end of their ranges.
    """
    metric = npu.metrics[0]
    objectives = [f"{metric.sense} {metric.name}"]
    sweep = Sweep(build_problem(whole_space(), npu, objectives, (), "npu"), list(COST_METRICS))
    rng = np.random.default_rng(seed)
    along = np.clip(rng.uniform(-1.0, 2.0, len(sweep.numbers)), 0.0, 1.0)
    return sweep.evaluator_at(sweep.low + along * (sweep.high - sweep.low))


def assert_no_bound_is_beaten(space, npu, n):
    """Returns the metrics that have a bound."""
    problem = build_problem(space, npu, OBJECTIVES[2], (), "npu", metrics=derived_metrics())
    rows = problem.space.sample(np.random.default_rng(3), n)
    rows = rows[problem.admits(rows)]
    pool_metrics = [POOL_METRICS[name] for name in sorted(FOR_POOLS)]
    names = [*problem.metric_names, *sorted(FOR_POOLS)]
    values = problem.evaluate(rows).metrics
    values = npu.evaluate(problem.space.columns(rows), sorted(FOR_POOLS)).metrics | values
    amounts = [values[metric.name] for metric in npu.metrics if metric in AMOUNTS]
    assert amounts and not any((item < 0).any() for item in amounts)
    tree = Decomposition(problem)
    ones = np.ones(len(rows), dtype=np.int64)
    part = Part(rows, np.zeros_like(ones), ones)
    bounded = set()
    for level in range(len(tree.undecided) + 1):
        best = problem.best_case(*tree.columns(part, level), names)
        bounded |= set(best)
        for least in npu.least_violations(*tree.columns(part, level)).values():
            assert (least <= 0).all()  # each of these designs is admitted
        for metric in (*problem.metrics, *pool_metrics):
            if metric.name in best:
                lead = metric.flipped(best[metric.name]) - metric.flipped(values[metric.name])
                assert not (lead > 0).any(), (metric.name, level, lead.max())
    return bounded


@pytest.mark.parametrize(("model", "phase", "options", "n", "batches"), list(cases_of_bounds()))
def test_no_design_beats_its_best_case_at_any_level(model, phase, options, n, batches):
    for seed, batch in enumerate(batches):
        npu = with_drawn_constants(evaluator(model, phase, tuple(options.items()), batch), seed)
        space = space_of_batches() if batch is None else whole_space()
        bounded = assert_no_bound_is_beaten(space, npu, n)
        assert {"throughput_tokens_per_s", "tdp_watts", "energy_joules_per_token"} <= bounded
        assert {*COST_METRICS, *DERIVED} <= bounded


SPACES = ("accelerator", "memexplorer", "memexplorer-experts", "memexplorer-mixed",
          "memexplorer-parallel", "memexplorer-strict", "memexplorer-table2",
          "memexplorer-wear")  # fmt: skip
"""Shipped spaces of accelerators whose area and price are known."""


def cases_of_spaces():
    """Every space with a process and a phase in turn; with all of them and more draws slow."""
    phases = ("prefill", "decode")
    for i, name in enumerate(SPACES):
        yield pytest.param(name, PROCESSES[i % len(PROCESSES)], 150, (5 + i,), phases[i % 2 :][:1])
        for process in PROCESSES:
            yield pytest.param(name, process, 2_000, range(12), phases, marks=pytest.mark.slow)


@pytest.mark.parametrize(("name", "process", "n", "seeds", "phases"), list(cases_of_spaces()))
def test_no_design_of_a_shipped_space_beats_its_best_case_whatever_the_constants(
    name, process, n, seeds, phases
):
    options = (("profile", "plain"), ("process", process))
    for seed, phase in itertools.product(seeds, phases):
        npu = with_drawn_constants(evaluator("llama-3-8b", phase, options), seed)
        assert_no_bound_is_beaten(space_of_deployments(name), npu, n)


def test_a_design_with_more_transistors_may_emit_less_and_none_is_lost():
    """At all high constants a larger base is cut into more dies, of which fewer fail."""
    tiers = {"sram_dies": 1, "sram_3d_layers": 0, "tier1_technology": "hbm4_12h",
             "tier2_technology": "lpddr6", "tier2_stacks": 8, "tier3_technology": "gddr7",
             "tier3_stacks": 2, "dataflow": "ws", "bandwidth_priority": "matrix"}  # fmt: skip
    npu = evaluator("llama-3-8b", "prefill", (("profile", "plain"), ("technology_level", "high")))
    goals = ("minimize embodied_kgco2e", THROUGHPUT)
    problem = build_problem(whole_space().fix(tiers), npu, goals, (), "npu")
    opaque = replace(problem, evaluator=Opaque(problem.evaluator))
    assert_same_front(enumerate_front(problem), enumerate_front(opaque))


KEPT_METRICS = ("shoreline_mm", "area_mm2", "unit_cost_usd", "time_to_first_token_s")


def texts_of(limits):
    """Constraints that say the same; every kept metric is better if it is less."""
    sign = {"throughput_tokens_per_s": ">="}
    return tuple(f"{name} {sign.get(name, '<=')} {bound!r}" for name, bound in limits.items())


@pytest.mark.parametrize("seed", [31, 32])
def test_the_front_under_random_tighter_limits_is_a_filter_of_kept_designs(seed, tmp_path):
    problem, opaque = both("llama-3.3-70b", "prefill", 2, seed, largest=6_000)
    kept = kept_front(problem, KEPT_METRICS, tmp_path)
    rng, sizes = np.random.default_rng(seed), []
    values = {
        item.metric.name: item.flipped(kept.front.objectives[:, column])
        for column, item in enumerate(kept.problem.objectives)
    }
    for _ in range(8):
        names = rng.permutation(list(values))[: rng.integers(1, 4)].tolist()
        # Values that differ by their rounding are on one side of a limit.
        limits = {name: float(rng.choice(values[name])) * (1 + 1e-9) for name in names}
        positions = kept.positions(limits)
        sizes.append(len(positions))
        constraints = ("tdp_watts <= 700", *texts_of(limits))
        brute = replace(
            opaque,
            constraints=tuple(
                read_constraint(text, problem.space, problem.metrics) for text in constraints
            ),
        )
        front = front_of(brute)
        expected = np.empty((0, 2)) if isinstance(front, str) else front.objectives
        assert np.array_equal(kept.front.objectives[positions, :2], expected), limits
    assert max(sizes) > 3


def test_a_latency_within_which_the_batch_is_chosen_is_not_kept():
    problem, _ = both("llama-3.3-70b", "decode", 2, 3, {"profile": "plain", "batch": "best"})
    with pytest.raises(InputError, match="time_per_output_token_s: a tighter limit on it changes"):
        keeping(problem, ["time_per_output_token_s"])
    stated, _ = both("llama-3.3-70b", "decode", 2, 3, batch=12)
    assert len(keeping(stated, ["time_per_output_token_s"]).objectives) == 3


def test_limits_that_are_said_to_choose_nothing_do_not_change_a_design():
    for phase, batch in (("prefill", None), ("decode", 12)):
        npu = evaluator("llama-3.3-70b", phase, (("profile", "plain"),), batch)
        assert npu.choosing_metrics(whole_space().names) == frozenset()
        problem = build_problem(whole_space(), npu, OBJECTIVES[2], (), "npu")
        rows = problem.space.sample(np.random.default_rng(3), 400)
        rows = rows[problem.admits(rows)]
        free = problem.evaluate(rows)
        median = float(np.median(free.metrics["phase_time_s"]))
        limited = replace(problem, evaluator=npu.keep_limits({"phase_time_s": median}))
        inside = free.metrics["phase_time_s"] <= median
        found = limited.evaluate(rows)
        for name in problem.metric_names:
            assert np.array_equal(free.metrics[name][inside], found.metrics[name][inside])
