"""Composed fronts of systems are those of every system evaluated, and systems obey their laws."""

import itertools
import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from codesign.base.errors import InfeasibleError, InputError
from codesign.base.evaluator import PoolDescription
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.system_options import SystemOptions
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.search.derived_metrics import MetricDefinition
from codesign.search.enumeration.composition import compose_front, pool_problem
from codesign.search.enumeration.decomposition import Decomposition, Part
from codesign.search.enumeration.enumerate import enumerate_front
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem
from codesign.space import load_space, parse_space
from tests.laws import in_turn

THROUGHPUT, TDP = "maximize throughput_tokens_per_s", "minimize tdp_watts"
PRICE = "minimize usd_per_million_tokens"
CARBON = "minimize kgco2e_per_million_tokens"
OBJECTIVES = (
    (THROUGHPUT, TDP),
    (THROUGHPUT, TDP, "minimize energy_joules_per_request"),
    (THROUGHPUT, "minimize time_to_second_token_s", "minimize n_machines"),
    (THROUGHPUT, TDP, "minimize request_latency_s", "minimize energy_joules_per_token"),
    ("maximize tokens_per_joule", "minimize time_per_output_token_s"),
    (THROUGHPUT, "minimize unit_cost_usd", "minimize area_mm2"),
    ("maximize tokens_per_joule_tdp", "minimize time_to_first_token_s", "maximize requests_per_s"),
    (THROUGHPUT, PRICE),
    (PRICE, TDP, "minimize time_to_second_token_s"),
    (THROUGHPUT, CARBON),
    (CARBON, "minimize embodied_kgco2e", TDP),
    ("maximize efficiency", THROUGHPUT),
)
LIMITED = (
    (),
    ("tdp_watts",),
    ("time_per_output_token_s", "n_machines"),
    ("energy_joules_per_request",),
    ("time_to_second_token_s", "tdp_watts"),
    ("usd_per_million_tokens",),
    ("kgco2e_per_million_tokens", "embodied_kgco2e"),
    ("work",),
)
"""Metrics of which the better half is allowed."""
DERIVED = {
    "efficiency": MetricDefinition(
        value="throughput_tokens_per_s / tdp_watts", sense="maximize", unit="token/J"
    ),
    "work": MetricDefinition(
        value="request_latency_s * (unit_cost_usd + 1000 USD)", sense="minimize", unit="s*USD"
    ),
}
OPEN = ("vector_length", "sram_3d_layers", "kv_format", "dataflow", "tier1_stacks", "pe_array")
LINKS = {"fast": ["20 MB/s", "450 GB/s"], "slow": ["5 MB/s", "20 MB/s"]}
PORTS = {"fast": {}, "slow": {"ports": [1, 2], "port_price": "900 USD"}}
"""Up to NVLink, and those that take longer than a prefill, are exposed and set the rate."""


@cache
def catalogs():
    return {"memtech": load_library().catalog()}


@cache
def machine_space():
    return load_space("memexplorer", catalogs())


@cache
def one_machine():
    return NpuEvaluator(Request(model="llama-3.3-70b", trace="osworld", phase="decode"))


def random_pool(rng, n_open=2):
    """A design of memexplorer with some parameters left open, as a pool."""
    space = machine_space()
    rows = space.sample(rng, 20)
    holds = np.max(list(one_machine().known_violations(space.columns(rows)).values()), axis=0) <= 0
    (design,) = space.decode(rows[np.flatnonzero(holds)[:1]])
    open_names = rng.choice(OPEN if n_open > 1 else OPEN[:5], size=n_open, replace=False).tolist()
    fixed = {name: value for name, value in design.items() if name not in open_names}
    counts = sorted(rng.choice([1, 2, 3, 5], size=2, replace=False).tolist())
    return {
        "space": "memexplorer",
        "fixed": {key: list(x) if isinstance(x, tuple) else x for key, x in fixed.items()},
        "machines": counts,
    }


def joined(roles):
    """The pools between which a link is: parts of a layer, and stages that follow one another."""
    firsts = [role for role in roles if not role.endswith("_ffn")]
    pairs = list(itertools.pairwise(firsts))
    return pairs + [(role.replace("_ffn", "_attention"), role) for role in set(roles) - set(firsts)]


def random_system(rng, roles=("prefill", "decode"), link="fast"):
    """A small system."""
    pools = {role: random_pool(rng, n_open=4 - len(roles)) for role in roles}
    for role in roles[2:]:
        pools[role]["machines"] = 2
    text = {
        "pools": pools,
        "links": {
            f"link{i}": {
                "from": sender,
                "to": receiver,
                "bandwidth": LINKS[link][i:],
                "latency": "1 us",
                "energy": "1.3 pJ/bit",
                **PORTS[link],
            }
            for i, (sender, receiver) in enumerate(joined(roles))
        },
    }
    return parse_space(json.dumps(text), catalogs(), "random")


@cache
def evaluator(first_token="prefill", phases=("prefill", "decode"), setup_s=0.008):
    workload = SystemWorkload(model="llama-3.3-70b", trace="osworld", phases=phases)
    options = SystemOptions(first_token=first_token, handover_setup=f"{setup_s} s")
    return SystemEvaluator(workload, options)


def every_system(problem):
    rows = problem.space.rows(np.arange(problem.space.size))
    return rows[problem.admits(rows)]


def brute_force_front(problem):
    """Every system evaluated: the distinct points of the front."""
    observations = problem.evaluate(every_system(problem), problem.deciding_metrics)
    points = observations.objectives[observations.feasible]
    return {tuple(point) for point in points[non_dominated(points)].tolist()} if len(points) else {}


def composed_front(problem):
    return compose_front(problem, lambda pool, _: enumerate_front(pool))


def assert_composition_is_exact(seed, roles=("prefill", "decode")):
    rng = np.random.default_rng(seed)
    space = random_system(rng, roles, "slow" if seed % 2 else "fast")
    objectives = OBJECTIVES[seed % len(OBJECTIVES)]
    limited = LIMITED[seed % len(LIMITED)]
    token = ("prefill", "decode")[seed // 2 % 2]
    case = (space, evaluator(token), objectives)
    problem = build_problem(*case, (), "system", metrics=DERIVED)
    rows = every_system(problem)
    if limited and len(rows):
        metrics = problem.evaluate(rows).metrics
        limits = [f"{name} <= {float(np.median(metrics[name]))!r}" for name in limited]
        limits += [f"{roles[0]}_machines + 2 <= 5"] if seed % 3 == 0 else []
        problem = build_problem(*case, limits, "system", metrics=DERIVED)
    expected = brute_force_front(problem)
    try:
        front = composed_front(problem)
    except InfeasibleError:
        assert not expected
        return 0
    assert {tuple(point) for point in front.objectives.tolist()} == expected
    assert (problem.space.contains(front.rows)).all()
    return len(front)


@pytest.mark.parametrize("seed", range(12))
def test_the_composed_front_is_that_of_every_system_evaluated(seed):
    assert_composition_is_exact(seed)


@pytest.mark.parametrize(
    ("seed", "roles"),
    in_turn(
        range(6),
        [
            ("prefill", "early", "late"),
            ("prefill_attention", "prefill_ffn", "decode"),
            ("prefill", "decode_attention", "decode_ffn"),
        ],
    ),
)
def test_the_same_with_three_pools(seed, roles):
    assert_composition_is_exact(seed, roles)


@pytest.mark.parametrize(
    ("roles", "limited"),
    [(("prefill", "decode"), {"prefill", "decode"}), (("prefill", "early", "late"), {"prefill"})],
)
def test_pools_of_some_steps_have_no_limit_on_latency(roles, limited):
    space = random_system(np.random.default_rng(0), roles)
    problem = build_problem(space, evaluator(), OBJECTIVES[0], (), "system")
    limits = {"time_to_first_token_s": 1.0, "time_per_output_token_s": 0.05}
    pools = problem.evaluator.pool_limits(limits)
    assert {name for name, bounds in pools.items() if bounds} == limited


def session_problem(objectives, session="coding-agent"):
    """Systems whose machines that prefill keep contexts, in caches of several kinds."""
    machine = {
        "pe_array": [4096, 128], "clock_hz": 1.4e9, "process": "n3e", "vector_length": 16384,
        "score_path": "local", "sram_technology": "sram_bank_512k", "sram_dies": 512,
        "sram_3d_layers": 0, "topology": "staged", "weight_format": "mxfp8",
        "activation_format": "mxfp8", "kv_format": "mxfp8", "storage_priority": "kv",
        "dataflow": "ws", "bandwidth_priority": "shared", "tier1_technology": "hbm3e_12h",
        "tier2_technology": "none", "cache2_technology": "none",
    }  # fmt: skip
    prefill = {"space": "mix-caches", "fixed": machine, "machines": [1, 2]}
    pools = {"prefill": prefill, "decode": random_pool(np.random.default_rng(1))}
    ends = {"from": "prefill", "to": "decode", **{"bandwidth": "50 GB/s", "latency": "1 us"}}
    text = {"pools": pools, "links": {"link": {**ends, "energy": "1.3 pJ/bit"}}}
    space = parse_space(json.dumps(text), catalogs(), "sessions")
    workload = SystemWorkload(model="llama-3.3-70b", session=session, concurrent_sessions=64)
    options = SystemOptions(npu=NpuOptions(memory_edge_m="132 mm"))
    return build_problem(space, SystemEvaluator(workload, options), objectives, (), "system")


def test_devices_that_prefill_keep_no_contexts_yet():
    workload = SystemWorkload(model="llama-3.3-70b", session="coding-agent", phases=("prefill",))
    pools = [PoolDescription("prefill", "prefill", ("device",), {})]
    with pytest.raises(InputError, match="needs a prefill pool of designs with all layers"):
        SystemEvaluator(workload).join_pools(pools, [])
    workload = SystemWorkload(model="llama-3-8b", trace="gsm8k", phases=("prefill",))
    pools = [PoolDescription(name, name, ("device",), {}) for name in ("prefill", "decode")]
    with pytest.raises(InputError, match="the workload has nothing for the role 'decode'"):
        SystemEvaluator(workload).join_pools(pools, [])
    with pytest.raises(ValueError, match="expected trace, session, or both"):
        SystemWorkload(model="llama-3.3-70b", session="chat", trace="osworld")
    with pytest.raises(ValueError, match=r"session: expected at most the 8,192 tokens"):
        SystemWorkload(model="llama-3-8b", session="coding-agent")


@pytest.mark.parametrize("objectives", [OBJECTIVES[0], (THROUGHPUT, PRICE), OBJECTIVES[3]])
def test_the_same_with_sessions_whose_contexts_the_prefill_pool_keeps(objectives):
    problem = session_problem(objectives)
    expected = brute_force_front(problem)
    assert {tuple(point) for point in composed_front(problem).objectives.tolist()} == expected
    rows = every_system(problem)
    columns = problem.space.columns(rows)
    metrics = problem.evaluator.evaluate(columns).metrics
    units = columns["prefill_cache1_units"].lookup(float, 0.0)
    for name in ("time_to_first_token_s", "computed_tokens_per_asked_token"):
        none, most = (metrics[name][units == n].min() for n in (0, units.max()))
        assert most < none  # contexts that are found are not computed anew
    assert (metrics["cache1_hit_share"] == metrics["outer_hit_share"]).all()
    assert (metrics["cache2_hit_share"] == 0).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_limit", [True, False], ids=["as a limit", "as an objective"])
def test_the_same_with_queues_at_a_stated_rate(seed, is_limit):
    space = random_system(np.random.default_rng(seed))
    rates = build_problem(space, evaluator(), OBJECTIVES[0], (), "system")
    rows = every_system(rates)
    names = [*rates.deciding_metrics, "requests_per_s"]
    rate = np.median(rates.evaluate(rows, names).metrics["requests_per_s"])
    workload = SystemWorkload(model="llama-3.3-70b", trace="osworld", requests_per_s=0.7 * rate)
    queued = SystemEvaluator(workload)
    first = "time_to_first_token_p90_s"
    goals = [TDP, THROUGHPUT if is_limit else f"minimize {first}"]
    problem = build_problem(space, queued, goals, (), "system")
    names = [*problem.deciding_metrics, first, "time_to_first_token_s", "queue_wait_s"]
    metrics = problem.evaluate(rows, names).metrics
    keeps_up = np.isfinite(metrics[first])
    assert (metrics[first] >= metrics["time_to_first_token_s"])[keeps_up].all()
    assert 0 < keeps_up.sum() < len(rows)
    if is_limit:
        limit = float(np.median(metrics[first][keeps_up]))
        problem = build_problem(space, queued, goals, [f"{first} <= {limit!r}"], "system")
    expected = brute_force_front(problem)
    assert expected
    assert {tuple(point) for point in composed_front(problem).objectives.tolist()} == expected


FORMATS = ("weight_format", "activation_format", "kv_format")


@pytest.mark.parametrize(("seed", "is_limit"), in_turn(range(4), [True, False]))
def test_the_same_with_formats_that_cost_accuracy(seed, is_limit):
    rng = np.random.default_rng(seed)
    pools = {role: random_pool(rng, n_open=1) for role in ("prefill", "decode")}
    for pool in pools.values():
        pool["machines"] = [1, 3][seed % 2 - 1 :]
        pool["fixed"] = {k: v for k, v in pool["fixed"].items() if k not in FORMATS[seed % 2 :]}
    link = {"from": "prefill", "to": "decode", "bandwidth": "450 GB/s", "latency": "1 us"}
    text = {"pools": pools, "links": {"link": link | {"energy": "1.3 pJ/bit"}}}
    space = parse_space(json.dumps(text), catalogs(), "random")
    objectives = [THROUGHPUT, TDP, *([] if is_limit else ["maximize accuracy_recovery"])]
    workload = SystemWorkload(model="llama-3.3-70b", trace="osworld")
    judged = SystemEvaluator(workload, SystemOptions(npu=NpuOptions(accuracy=True)))
    problem = build_problem(space, judged, objectives, [], "system")
    if is_limit:
        metrics = problem.evaluate(every_system(problem)).metrics
        names = ("accuracy_recovery", "accuracy_recovery_low")
        limits = [f"{name} >= {float(np.median(metrics[name]))!r}" for name in names]
        problem = build_problem(space, judged, objectives, limits, "system")
    expected = brute_force_front(problem)
    assert expected
    assert {tuple(point) for point in composed_front(problem).objectives.tolist()} == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(12, 24), *range(100, 600)])
def test_the_composed_front_is_that_of_every_system_evaluated_for_hundreds(seed):
    assert_composition_is_exact(seed)


@pytest.mark.parametrize("role", ["prefill", "decode"])
@pytest.mark.parametrize(
    "objectives", [OBJECTIVES[3], OBJECTIVES[8], OBJECTIVES[10]], ids=["energy", "price", "carbon"]
)
def test_no_machine_of_a_pool_beats_its_best_case(role, objectives):
    space = load_space("system-pd", catalogs())
    problem = build_problem(space, evaluator(), objectives, (), "system")
    pool = pool_problem(problem, role)
    assert {"dynamic_joules_per_token", "idle_watts", "throughput_tokens_per_s"} <= {
        item.metric.name for item in pool.objectives
    }
    rows = pool.space.sample(np.random.default_rng(3), 400)
    rows = rows[pool.admits(rows)]
    metrics = pool.evaluate(rows, pool.deciding_metrics).metrics
    tree = Decomposition(pool)
    part = Part(rows, np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.int64))
    for level in range(len(tree.undecided) + 1):
        best = pool.evaluator.best_case(*tree.columns(part, level), pool.deciding_metrics)
        assert set(best) == set(pool.deciding_metrics)
        for objective in pool.objectives:
            metric, name = objective.metric, objective.metric.name
            value, bound = metric.flipped(metrics[name]), metric.flipped(best[name])
            assert (value >= bound).all(), (name, level)


def systems(n=200, **options):
    space = load_space("system-pd", catalogs())
    problem = build_problem(space, evaluator(**options), OBJECTIVES[0], (), "system")
    rows = space.sample(np.random.default_rng(5), 20 * n)
    rows = rows[problem.admits(rows)][:n]
    return problem, rows


def test_a_system_is_predicted_no_worse_than_it_is_and_its_power_exactly():
    problem, rows = systems()
    names = ["throughput_tokens_per_s", "tdp_watts", "energy_joules_per_token", "request_latency_s"]
    columns = problem.space.columns(rows)
    results = problem.evaluator.evaluate(columns, names).metrics
    predicted = problem.evaluator.predict(columns, names)
    assert list(predicted) == names
    np.testing.assert_array_equal(predicted["tdp_watts"], results["tdp_watts"])
    for metric in problem.evaluator.metrics:
        if metric.name in names:
            value, bound = results[metric.name], predicted[metric.name]
            assert (metric.flipped(bound) <= metric.flipped(value) + 1e-9 * value).all()
    by_rank = np.argsort(np.argsort([results[names[0]], predicted[names[0]]], axis=1), axis=1)
    assert np.corrcoef(by_rank)[0, 1] > 0.95  # [ours] an informative prediction


def test_twice_the_machines_have_twice_the_rate():
    problem, rows = systems()
    columns = [problem.space.names.index(f"{pool}_machines") for pool in ("prefill", "decode")]
    rows[:, columns] = rows[:, columns] // 2  # of one to four machines each
    doubled = rows.copy()
    doubled[:, columns] = 2 * rows[:, columns] + 1  # codes count from one machine
    few, many = (problem.evaluate(x).metrics for x in (rows, doubled))
    for name in ("throughput_tokens_per_s", "requests_per_s", "tdp_watts", "n_machines"):
        np.testing.assert_allclose(many[name], 2 * few[name], rtol=1e-12)
    for name in ("time_per_output_token_s", "request_latency_s", "energy_joules_per_request"):
        np.testing.assert_allclose(many[name], few[name], rtol=1e-12)


def test_an_infinite_link_without_a_setup_is_no_hand_over():
    problem, rows = systems(50, setup_s=0)
    columns = dict(problem.space.columns(rows))
    shared = problem.evaluator.shared_values(columns)
    names = [metric.name for metric in problem.evaluator.metrics]
    pools = {
        name: machine.evaluate(
            problem.evaluator.pool_columns(columns, name),
            problem.evaluator.pool_metrics(names)[name],
        ).metrics
        for name, machine in problem.evaluator.machines.items()
    }
    free = {name: np.full_like(x, np.inf if "bandwidth" in name else 0.0)
            if name.startswith("handover") else x for name, x in shared.items()}  # fmt: skip
    metrics = problem.evaluator.compose(pools, free, names)
    assert (metrics["handover_exposed_s"] == 0).all()
    wait_s = pools["prefill"]["time_to_first_token_s"] + pools["decode"]["time_per_output_token_s"]
    np.testing.assert_array_equal(metrics["time_to_second_token_s"], wait_s)
    rates = [
        shared[f"{pool}_machines"] * pools[pool]["throughput_tokens_per_s"] / tokens
        for pool, tokens in (("prefill", 90_000), ("decode", 8_000))
    ]
    np.testing.assert_allclose(metrics["requests_per_s"], np.minimum(*rates), rtol=1e-12)
    assert (metrics["handover_utilization"] == 0).all()


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_system_of_one_machine_is_that_machine_to_the_last_bit(phase):
    text = {"pools": {phase: {"space": "memexplorer"}}}
    space = parse_space(json.dumps(text), catalogs(), "alone")
    problem = build_problem(space, evaluator(phases=(phase,)), OBJECTIVES[0], (), "system")
    rows = space.sample(np.random.default_rng(5), 500)
    rows = rows[problem.admits(rows)]
    alone = NpuEvaluator(Request(model="llama-3.3-70b", trace="osworld", phase=phase))
    machine = machine_space()
    columns = [space.names.index(f"{phase}_{name}") for name in machine.names]
    expected = alone.evaluate(machine.columns(rows[:, columns])).metrics
    metrics = problem.evaluate(rows).metrics
    names = set(metrics) & set(expected)
    assert {"throughput_tokens_per_s", "tdp_watts", "energy_joules_per_token"} <= names
    assert {"kgco2e_per_million_tokens", "embodied_kgco2e"} <= names
    for name in names:
        np.testing.assert_array_equal(metrics[name], expected[name], name)


def test_the_exposed_part_of_a_hand_over_is_that_of_layers_sent_one_by_one():
    """An event for each layer: it leaves when it is computed and the link is free."""
    problem, rows = systems(50)
    explained = problem.evaluator.flow(
        *_pools_of(problem, rows, ["handover_exposed_s", "request_latency_s"])
    )
    link = explained.links[0]
    for bandwidth in (450e9, 1e9, 1e7):
        rates = replace(link.rates, bandwidth_bytes_per_s=np.full(len(rows), bandwidth))
        slow = replace(link, rates=rates)
        layers = link.n_layers
        for i in range(5):
            prefill_s = float(link.sender.stage_s[i])
            part_s = float(link.request_bytes[i]) / layers / bandwidth
            free_s = 0.0
            for layer in range(1, layers + 1):
                free_s = max(free_s, prefill_s * layer / layers) + part_s
            expected = free_s - prefill_s + float(link.fixed_s[i])
            assert float(slow.exposed_s[i]) == pytest.approx(expected, rel=1e-9)


def _pools_of(problem, rows, names):
    columns = problem.space.columns(rows)
    needed = problem.evaluator.pool_metrics(names)
    pools = {
        name: machine.evaluate(problem.evaluator.pool_columns(columns, name), needed[name]).metrics
        for name, machine in problem.evaluator.machines.items()
    }
    return pools, problem.evaluator.shared_values(columns)


@pytest.mark.parametrize(("name", "design"), [("system-pd", "P1-D1"), ("system-mixed", "P1-H200")])
def test_a_metric_that_is_wanted_alone_is_that_among_all(name, design):
    space = load_space(name, catalogs())
    system = build_problem(space, evaluator(), (THROUGHPUT,), (), "system").evaluator
    columns = space.columns(space.encode(space.designs[design]))
    for metric, values in system.evaluate(columns).metrics.items():
        alone = system.evaluate(columns, [metric]).metrics
        np.testing.assert_array_equal(alone[metric], values, metric)
