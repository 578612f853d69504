"""Systems of machines that are all alike are those of two equal pools, and no bound is beaten."""

import itertools
import json
from functools import cache

import numpy as np
import pytest

from codesign.base.columns import Column
from codesign.base.errors import InputError
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.uniform_system import UniformSystem
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.memtech import load_library
from codesign.search.enumeration.decomposition import Decomposition, Part
from codesign.search.enumeration.enumerate import enumerate_front
from codesign.search.pareto import non_dominated
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem, with_pools_of
from codesign.space import load_space, parse_space

OBJECTIVES = ("maximize throughput_tokens_per_s", "minimize tdp_watts")
OPEN = ("pe_array", "sram_3d_layers", "vector_length", "tier1_stacks", "tier1_technology")
SOFTWARE = ("storage_priority", "dataflow", "bandwidth_priority")
MOST = 3


@cache
def catalogs():
    return {"memtech": load_library().catalog()}


@cache
def system_space():
    return load_space("system-pd", catalogs())


@cache
def system_evaluator(trace="osworld"):
    workload = SystemWorkload(model="llama-3.3-70b", trace=trace)
    return with_pools_of(system_space(), SystemEvaluator(workload), "system")


def links(bandwidth):
    return {
        "handover_bandwidth_bytes_per_s": bandwidth,
        "handover_latency_s": 1e-6,
        "handover_energy_joules_per_byte": 0.0,
    }


@cache
def uniform_space(most=MOST):
    machines = {"machines": {"low": 1, "high": 2 * most}}
    text = json.dumps({"based_on": "memexplorer", "parameters": machines})
    return parse_space(text, catalogs(), "uniform")


def small_problem(seed, is_of_hardware, takes_turns=False):
    """A machine of two open parameters, that of software open or chosen by each role."""
    rng = np.random.default_rng(seed)
    space, evaluator = uniform_space(), system_evaluator()
    probe = UniformSystem(evaluator, links(450e9), MOST, {})
    rows = space.sample(rng, 300)
    limits = {**probe.known_violations(space.columns(rows))}
    del limits["roles"]
    holds = np.max(list(limits.values()), axis=0) <= 0
    (design,) = space.decode(rows[np.flatnonzero(holds)[:1]])
    open_names = {*rng.choice(OPEN, size=2, replace=False).tolist(), "machines", *SOFTWARE[:2]}
    levels = {item.name: item.values for item in space.parameters}
    software = {name: levels[name][:3] for name in SOFTWARE[:2]} if is_of_hardware else {}
    fixed = {name: x for name, x in design.items() if name not in open_names - set(software)}
    bandwidth = (450e9, 2e6)[seed % 2]
    uniform = UniformSystem(evaluator, links(bandwidth), MOST, software, takes_turns)
    limit = [] if seed % 3 else ["tdp_watts <= 1500"]
    return build_problem(space.fix(fixed), uniform, OBJECTIVES, limit, "uniform"), bandwidth


def points_of_pools(problem, bandwidth, takes_turns):
    """Every machine with every software in each role, and every split of the machines."""
    evaluator, uniform = system_evaluator(), problem.evaluator
    rows = problem.space.rows(np.arange(problem.space.size))
    rows = rows[problem.admits(rows)]
    columns = {**problem.space.columns(rows)}
    machines = columns.pop("machines").lookup(float)
    metrics = {
        name: [
            pool.evaluate({**columns, **constant(uniform.software_of(item), len(rows))})
            for item in range(len(uniform.software))
        ]
        for name, pool in evaluator.machines.items()
    }
    points = []
    for first, second in itertools.product(metrics["prefill"], metrics["decode"]):
        for n in range(1, MOST + 1):
            shared = {name: np.full(len(rows), x) for name, x in links(bandwidth).items()}
            shared |= {"prefill_machines": np.full(len(rows), n), "decode_machines": machines - n}
            values = {"prefill": first.metrics, "decode": second.metrics}
            tdp = machines * first.metrics["tdp_watts"]
            if takes_turns:
                seconds = 90_000 / first.metrics["throughput_tokens_per_s"]
                seconds = seconds + 8_000 / second.metrics["throughput_tokens_per_s"]
                points.append(np.column_stack([-machines / seconds * 8_000, tdp]))
                continue
            is_split = (machines - n >= 1) & (machines - n <= MOST)
            name = "throughput_tokens_per_s"
            with np.errstate(divide="ignore"):
                rate = evaluator.compose(values, shared, [name])[name]
            points.append(np.column_stack([-rate, tdp])[is_split])
    points = np.concatenate(points)
    return points[points[:, 1] <= 1500] if problem.constraints else points


def constant(values, n):
    return {name: Column((x,), np.zeros(n, dtype=np.int64)) for name, x in values.items()}


@pytest.mark.parametrize("takes_turns", [False, True])
@pytest.mark.parametrize("is_of_hardware", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_front_of_alike_machines_is_that_of_every_split_and_software(
    seed, is_of_hardware, takes_turns
):
    problem, bandwidth = small_problem(seed, is_of_hardware, takes_turns)
    points = points_of_pools(problem, bandwidth, takes_turns)
    expected = points[non_dominated(points)]
    front = enumerate_front(problem)
    np.testing.assert_array_equal(front.objectives, np.unique(expected, axis=0))


@pytest.mark.parametrize("takes_turns", [False, True])
def test_no_system_of_alike_machines_beats_its_best_case(takes_turns):
    space = uniform_space(8)
    levels = {item.name: item.values for item in space.parameters}
    software = {"dataflow": levels["dataflow"]}
    uniform = UniformSystem(system_evaluator("gsm8k"), links(450e9), 8, software, takes_turns)
    problem = Problem(space.fix({"dataflow": "ws"}), uniform, (), ())
    problem = build_problem(problem.space, uniform, OBJECTIVES, (), "uniform")
    rows = problem.space.sample(np.random.default_rng(3), 300)
    rows = rows[problem.admits(rows)]
    metrics = problem.evaluate(rows).metrics
    tree = Decomposition(problem)
    part = Part(rows, np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.int64))
    for level in range(len(tree.undecided) + 1):
        best = uniform.best_case(*tree.columns(part, level), problem.deciding_metrics)
        for objective in problem.objectives:
            metric, name = objective.metric, objective.metric.name
            value, bound = metric.flipped(metrics[name]), metric.flipped(best[name])
            assert (value >= bound).all(), (name, level)


def test_a_uniform_system_is_the_system_of_two_equal_pools():
    """What the evaluator says is what ``system`` says of the same machine in both pools."""
    space = uniform_space(8)
    uniform = UniformSystem(system_evaluator(), links(450e9), 8, {})
    problem = build_problem(space, uniform, OBJECTIVES, (), "uniform")
    rows = space.sample(np.random.default_rng(7), 400)
    rows = rows[problem.admits(rows)]
    columns = space.columns(rows)
    shares = uniform.shares(columns)
    machine = space.decode(rows)
    designs = [
        {
            f"{pool}_{name}": value
            for pool in shares
            for name, value in design.items()
            if name != "machines"
        }
        | {f"{pool}_machines": int(share.machines[i]) for pool, share in shares.items()}
        | {"handover_bandwidth_bytes_per_s": 450e9, "handover_latency_s": 1e-6}
        for i, design in enumerate(machine)
    ]
    fixed = {"handover_energy_joules_per_byte": 1.3e-12 * 8}
    system = build_problem(system_space(), system_evaluator(), OBJECTIVES, (), "system")
    both = np.concatenate([system.space.encode({**design, **fixed}) for design in designs])
    expected, metrics = system.evaluate(both).metrics, problem.evaluate(rows).metrics
    rate = "throughput_tokens_per_s"
    np.testing.assert_array_equal(metrics[rate], expected[rate])
    # Machines that are all alike are built for the phase that draws more.
    assert (metrics["tdp_watts"] >= expected["tdp_watts"] * (1 - 1e-14)).all()


def test_a_uniform_system_needs_a_pool_of_each_role():
    evaluator = SystemEvaluator(SystemWorkload(model="llama-3.3-70b", trace="osworld"))
    with pytest.raises(InputError, match="a pool of npu that prefills and one that decodes"):
        UniformSystem(evaluator, {}, MOST, {})
