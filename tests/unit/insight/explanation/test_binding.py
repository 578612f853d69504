"""What binds a design, by the rows of its explanation."""

from codesign import api
from codesign.insight.explanation.binding import binding_shares
from codesign.models.memtech import load_library
from codesign.search.problem_builder import build_problem
from codesign.space import load_space


def _problem(limit):
    workload = {"model": "llama-3.3-70b", "trace": "osworld", "phase": "prefill"}
    evaluator = api.build_evaluator("npu", workload, {"profile": "plain"})
    space = load_space("memexplorer", {"memtech": load_library().catalog()})
    return build_problem(space, evaluator, ["minimize tdp_watts"], [limit])


def _shares(limit):
    problem = _problem(limit)
    return binding_shares(problem, problem.space.encode(problem.space.designs["Base"])[0])


def test_no_resource_is_busy_for_longer_than_the_pass_and_the_busiest_is_first():
    shares = list(_shares("tdp_watts <= 10000").values())
    assert shares == sorted(shares, reverse=True)
    assert 0.5 < shares[0] <= 1.0 + 1e-9
    assert {"array", "vector unit", "on-chip port"} <= set(_shares("tdp_watts <= 10000"))


def test_a_limit_binds_from_98_percent_on():
    problem = _problem("tdp_watts <= 10000")
    row = problem.space.encode(problem.space.designs["Base"])
    watts = float(problem.evaluate(row).metrics["tdp_watts"][0])
    assert not any("tdp" in name for name in _shares(f"tdp_watts <= {watts * 1.1!r}"))
    (used,) = (x for name, x in _shares(f"tdp_watts <= {watts * 1.01!r}").items() if "tdp" in name)
    assert 0.98 <= used <= 1.0
