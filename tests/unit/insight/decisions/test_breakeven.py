"""Values that a memory must reach, against paper and all designs of a sub-space."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from codesign import api
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.workload import SystemWorkload
from codesign.insight.decisions.breakeven import PRECISION, breakeven
from codesign.insight.decisions.recommendation import recommended_point
from codesign.models.memtech import Range, load_library, load_technology
from codesign.models.memtech.technology_library import TechnologyLibrary
from codesign.models.workload import Request
from codesign.report.decisions import quantity_text
from codesign.search.enumeration import enumerate_front
from codesign.search.pareto import fold, non_dominated
from codesign.search.problem_builder import build_problem
from codesign.space import load_space, parse_space
from tests.unit.insight.decisions.test_decide import _Watts

_STORED = Path(__file__).parents[3] / "golden/breakevens"
"""Answers of ``codesign explain breakeven osworld-prefill --technology T --free F --json``."""
_LIBRARY = load_library()
_FIXED = {
    "weight_format": "mxint8", "activation_format": "mxint8", "kv_format": "mxint8",
    "vector_length": 128, "storage_priority": "equal", "dataflow": "ws",
    "bandwidth_priority": "matrix", "tier3_technology": None, "tier3_stacks": None,
    "sram_dies": 1, "sram_3d_layers": 0, "tier2_technology": None, "tier2_stacks": None,
}  # fmt: skip


def _find(problem, wanted):
    return enumerate_front(problem, wanted=wanted)


class _Idle(_Watts):
    """The power is the idle power of the memory, in mW/GB; more lanes cost and give alike."""

    required_parameters = frozenset({"memory", "lanes"})

    def evaluate(self, designs, metrics=None):
        """Power by the memory that a design names."""
        lanes = designs["lanes"].lookup(float)
        idle = designs["memory"].lookup(lambda x: self._library[x].background_power.typical)
        return Evaluation({"rate": lanes, "watts": 1e12 * idle * lanes**1.5})

    def replace_library(self, library):
        """The evaluator of other memories."""
        return _Idle(library)


def _planted(values):
    text = f"parameters:\n  memory: {{from: memtech, values: [{values}]}}\n  lanes: [1, 2]\n"
    space = parse_space(text, {"memtech": _LIBRARY.catalog()})
    return build_problem(space, _Idle(), ["maximize rate", "minimize watts"], ())


@pytest.mark.parametrize("values", ["hbm3e_8h, hbf", "hbm3e_8h"])
def test_a_memory_breaks_even_on_paper_where_it_idles_like_its_only_rival(values):
    # HBM3E idles at 75 mW/GB; flash, in the space or new to it, is stated with 300.
    result = breakeven(_planted(values), _LIBRARY["hbf"], "idle-power", _find)
    assert result.is_monotone
    for reach in result.reaches:
        ((low, high),) = reach.intervals
        assert low is result.values[0]
        assert 75 / (1 + PRECISION) < high.value * 1e12 < 75
        assert (high.n_points, high.n_with, high.share) == (2, 2, 1.0)


def _problem(library):
    catalogs = {"memtech": TechnologyLibrary(library).catalog()}
    space = load_space("memexplorer", catalogs)
    space = space.with_values("pe_array", [[512, 64], [2048, 128], [128, 128]]).fix(_FIXED)
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
    evaluator = NpuEvaluator(request, NpuOptions(profile="plain"), library=library)
    objectives = ["maximize throughput_tokens_per_s", "minimize tdp_watts"]
    return build_problem(space, evaluator, objectives, ["tdp_watts <= 700"])


@pytest.mark.parametrize(
    ("key", "free", "is_monotone"),
    [("hbf", "idle-power", True), ("hbm4_12h", "bandwidth", False)],
)
def test_every_front_is_that_of_all_designs_at_the_value(key, free, is_monotone):
    result = breakeven(_problem(_LIBRARY), _LIBRARY[key], free, _find)
    assert result.is_monotone == is_monotone
    assert any(low.value > result.values[0].value or high.value < result.values[-1].value
               for reach in result.reaches for low, high in reach.intervals)  # fmt: skip
    for front in result.values[::4]:
        exact = Range(low=front.value, typical=front.value, high=front.value)
        technology = _LIBRARY[key].model_copy(update={result.quantity: exact})
        problem = _problem({**_LIBRARY, key: technology})
        rows = problem.space.rows(np.arange(problem.space.size))
        observed = problem.evaluate(rows[problem.admits(rows)])
        rows, points = observed.rows[observed.feasible], observed.objectives[observed.feasible]
        best = non_dominated(points)
        column = problem.space.names.index("tier1_technology")
        has = rows[best][:, column] == problem.space.parameters[column].values.index(key)
        distinct = np.unique(points[best], axis=0)
        incumbents = {tuple(point) for point in points[best][~has]}
        is_new = np.array([tuple(point) not in incumbents for point in distinct])
        assert (front.n_points, front.n_with) == (len(distinct), is_new.sum())
        listed = fold(distinct, 1) == np.arange(len(distinct))
        assert front.share == pytest.approx(is_new[listed].mean())
        assert front.is_recommended == is_new[recommended_point(problem, distinct, 0.02)]


@pytest.mark.parametrize(
    ("key", "free", "message"),
    [
        ("hbf", "endurance", "depends on the endurance of hbf; expected idle-power"),
        ("hbf", "idlepower", "unknown quantity 'idlepower'. Did you mean 'idle-power'"),
        ("ddr5_rdimm", "endurance", "ddr5_rdimm states no endurance above 0; expected a quantity"),
        ("sram", "latency", "no on-chip memories that sram could replace"),
    ],
)
def test_a_quantity_that_cannot_be_freed_is_refused(key, free, message):
    with pytest.raises(InputError, match=message):
        breakeven(_planted("hbm3e_8h, hbf"), load_technology(key), free, _find)


def system_problem(library=_LIBRARY, memories=("hbm3e_8h", "hbf", "lpddr6")):
    """A system of two pools of 12 machines each, up to two of each."""
    technology = {"from": "memtech", "values": list(memories)}
    pool = {
        "space": "memexplorer",
        "fixed": {**_FIXED, "pe_array": [512, 64]},
        "machines": [1, 2],
        "repeated": {"tier": {"parameters": {"technology": technology, "stacks": [1, 2, 4, 8]}}},
    }
    link = {"from": "prefill", "to": "decode", "bandwidth": "450 GB/s", "latency": "1 us"}
    text = {"pools": {"prefill": pool, "decode": pool},
            "links": {"handover": {**link, "energy": "1.3 pJ/bit"}}}  # fmt: skip
    catalogs = {"memtech": TechnologyLibrary(library).catalog()}
    space = parse_space(json.dumps(text), catalogs, "small")
    evaluator = SystemEvaluator(SystemWorkload(model="llama-3.3-70b", trace="osworld"))
    objectives = ["maximize throughput_tokens_per_s", "minimize tdp_watts"]
    problem = build_problem(space, evaluator, objectives, ["tdp_watts <= 2800"], "system")
    return replace(problem, evaluator=problem.evaluator.replace_library(library))


def every_system(problem):
    """All systems that keep the limits."""
    rows = problem.space.rows(np.arange(problem.space.size))
    observed = problem.evaluate(rows[problem.admits(rows)], problem.deciding_metrics)
    return observed.rows[observed.feasible], observed.objectives[observed.feasible]


def test_the_front_of_systems_is_that_of_all_systems_at_the_value():
    result = breakeven(system_problem(), _LIBRARY["hbf"], "idle-power", _find)
    assert any(low.value < high.value for reach in result.reaches for low, high in reach.intervals)
    for front in result.values[::7]:
        exact = Range(low=front.value, typical=front.value, high=front.value)
        technology = _LIBRARY["hbf"].model_copy(update={"background_power": exact})
        problem = system_problem({**_LIBRARY, "hbf": technology})
        rows, points = every_system(problem)
        best = np.flatnonzero(non_dominated(points))
        tiers = [i for i, name in enumerate(problem.space.names) if name.endswith("1_technology")]
        has = (rows[:, tiers] == problem.space.parameters[tiers[0]].values.index("hbf")).any(axis=1)
        without = {tuple(point) for point in points[best[~has[best]]]}
        every = {tuple(point) for point in points[best]}
        assert (front.n_points, front.n_with) == (len(every), len(every - without))


def test_a_technology_without_a_place_is_refused():
    fixed = {"tier1_technology": "hbm3e_8h", "tier2_technology": None, "tier2_stacks": None}
    problem = _problem(_LIBRARY)
    narrow = build_problem(problem.space.fix(fixed), problem.evaluator, ["minimize tdp_watts"], ())
    with pytest.raises(InputError, match="may have hbf; expected a campaign whose fixed"):
        breakeven(narrow, _LIBRARY["hbf"], "latency", _find)
    with pytest.raises(InputError, match="has no memory technologies to compete with"):
        breakeven(api.load_campaign("system-pd-gpu").problem, _LIBRARY["hbf"], "latency", _find)
    flat = api.load_campaign("problem-zdt1").problem
    with pytest.raises(InputError, match="has no memory technologies to compete with"):
        breakeven(flat, _LIBRARY["hbf"], "latency", _find)


@pytest.mark.parametrize("path", sorted(_STORED.glob("*.json")), ids=lambda path: path.stem)
def test_the_page_states_the_stored_break_even(path):
    answer = json.loads(path.read_text())
    amount = partial(quantity_text, answer["quantity"], typical=answer["stated"])
    cells = [f"`{answer['technology']}`", answer["quantity"].replace("_", " ")]
    cells.append(amount(answer["stated"]))
    first, last = (answer["values"][end]["value"] for end in (0, -1))
    for reach in answer["reaches"]:
        intervals = [
            "at every value" if (low, high) == (first, last)
            else f"from {amount(low)} up" if high == last
            else f"at most {amount(high)}" if low == first
            else f"from {amount(low)} to {amount(high)}"
            for low, high in reach["intervals"]
        ]  # fmt: skip
        cells.append(" and ".join(intervals) or "at no value")
    page = Path("docs/how-to/decide.md").read_text()
    assert f"| {' | '.join(cells)} |" in page
    stated = load_technology(answer["technology"])
    assert getattr(stated, answer["quantity"]).typical == answer["stated"]
