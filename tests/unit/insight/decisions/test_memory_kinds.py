"""Fronts without each kind of memory, against the designs that are left."""

from functools import partial

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.insight.decisions.box import product_of
from codesign.insight.decisions.memory_kinds import kind_regrets
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.search.enumeration import enumerate_front, exact_front
from codesign.search.problem_builder import build_problem
from codesign.space import load_space
from tests.unit.insight.decisions.test_breakeven import every_system, system_problem

_LIBRARY = load_library()
_FIXED = {
    "weight_format": "mxint8", "activation_format": "mxint8", "kv_format": "mxint8",
    "vector_length": 128, "storage_priority": "equal", "dataflow": "ws",
    "bandwidth_priority": "matrix", "tier2_technology": None, "tier2_stacks": None,
    "tier3_technology": None, "tier3_stacks": None,
}  # fmt: skip


def _problem(fixed):
    space = load_space("memexplorer", {"memtech": _LIBRARY.catalog()}).fix(fixed)
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
    objectives = ["maximize throughput_tokens_per_s", "minimize tdp_watts"]
    evaluator = NpuEvaluator(request, NpuOptions(profile="plain"))
    return build_problem(space, evaluator, objectives, ["tdp_watts <= 700"])


def test_the_regret_of_a_kind_is_that_of_all_designs_without_it():
    problem = _problem(_FIXED)
    every, *others = kind_regrets(problem, enumerate_front, tolerance=0.0)
    assert {kind.memory_kind for kind in others} >= {"HBM", "LPDDR", "stacked SRAM"}
    rows = problem.space.rows(np.arange(problem.space.size))
    observed = problem.evaluate(rows[problem.admits(rows)])
    rows, products = observed.rows, product_of(problem, observed.objectives)
    technology = problem.space.names.index("tier1_technology")
    values = problem.space.parameters[technology].values
    for kind in others:
        if kind.memory_kind == "stacked SRAM":
            lacks = rows[:, problem.space.names.index("sram_3d_layers")] == 0
        else:
            families = np.array([_LIBRARY[name].family or name for name in values])
            lacks = families[rows[:, technology]] != kind.memory_kind
        best = products[lacks & observed.feasible].min()
        expected = best / products[observed.feasible].min() - 1.0
        assert kind.regret == pytest.approx(expected, rel=1e-9, abs=1e-12), kind.memory_kind
    assert every.regret == 0.0
    assert all(kind.regret >= -1e-12 for kind in others)


def test_a_space_with_one_kind_of_memory_is_refused():
    problem = _problem({**_FIXED, "sram_3d_layers": 0})
    space = problem.space.with_values("tier technology", ["hbf"])
    one = build_problem(space, problem.evaluator, ["minimize tdp_watts"], ())
    with pytest.raises(InputError, match="has one kind of memory; expected technologies of two"):
        kind_regrets(one, enumerate_front)


def test_the_regret_in_a_system_is_that_of_all_systems_without_the_kind_in_any_pool(tmp_path):
    problem = system_problem()
    every, *others = kind_regrets(problem, partial(exact_front, folder=tmp_path), tolerance=0.0)
    rows, points = every_system(problem)
    products = product_of(problem, points)
    tiers = [i for i, name in enumerate(problem.space.names) if name.endswith("1_technology")]
    values = problem.space.parameters[tiers[0]].values
    families = np.array([_LIBRARY[name].family or name for name in values])
    assert {kind.memory_kind for kind in others} == set(families)
    for kind in others:
        lacks = (families[rows[:, tiers]] != kind.memory_kind).all(axis=1)
        expected = products[lacks].min() / products.min() - 1.0
        assert kind.regret == pytest.approx(expected, rel=1e-9, abs=1e-12), kind.memory_kind
    assert every.n_points > 1
