"""What one more dollar, square millimetre, kelvin and year buys, against all designs."""

import re
from functools import cache

import numpy as np
import pytest

from codesign import api
from codesign.base.records import drop_keys
from codesign.insight.explanation import Fronts, explain_front
from codesign.insight.explanation.absence import Absences
from codesign.report.front_explanation import sections
from codesign.report.limit_lines import limit_titles
from codesign.search.enumeration import enumerate_front
from codesign.search.problem_builder import build_problem

STEP = 0.2
LIMITS = {
    "unit_cost_usd <= 3000": "USD",
    "area_mm2 <= 275": "mm²",
    "junction_temperature_celsius <= 56": "K",
    "lifetime_years >= 3": "year",
}
OBJECTIVES = ("maximize throughput_tokens_per_s", "minimize tdp_watts")


def problem(limit):
    space = api.load_space("memexplorer")
    design = space.designs["D1"]
    open_ones = ("tier1_technology", "tier1_stacks", "tier2_technology", "tier2_stacks")
    fixed = drop_keys(design, open_ones)
    fixed |= {"tier3_technology": None, "tier3_stacks": None}
    work = {"model": "llama-3.3-70b", "trace": "osworld", "phase": "decode"}
    npu = api.build_evaluator("npu", work)
    return build_problem(space.fix(fixed), npu, OBJECTIVES, [limit, "tdp_watts <= 700"], "npu")


@cache
def section(limit):
    asked = problem(limit)
    front = enumerate_front(asked)
    with pytest.MonkeyPatch.context() as patch:  # what no price needs takes half of the time
        patch.setattr(Absences, "explain", lambda _, listed: (listed, []))
        explanation = explain_front(Fronts(asked), front, np.array([0.0, 700.0]), STEP, 0.0)
    (section,) = (item for item in sections(explanation) if item.title == "Shadow prices of limits")
    return section


def best_rate(limit):
    """Of all designs within the limit, one by one."""
    asked = problem(limit)
    observed = asked.evaluate(asked.space.rows(np.arange(asked.space.size)))
    return float(-observed.objectives[observed.feasible, 0].min())


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_has_its_price_in_its_own_unit(limit):
    name, comparison, number = limit.split()
    moved = float(number) * (1 + STEP if comparison == "<=" else 1 - STEP)
    gain = best_rate(f"{name} {comparison} {moved!r}") - best_rate(limit)
    assert gain > 0
    words = limit_titles(problem(limit))[limit]
    (line,) = (line for line in section(limit).lines if line.startswith(words))
    looser = line.partition("Looser")[2].partition("Tighter")[0]
    price = re.search(rf"\(.*?([\d.]+) token/s throughput per {re.escape(LIMITS[limit])}", looser)
    assert price is not None, line
    assert float(price[1]) == pytest.approx(gain / abs(moved - float(number)), rel=5e-3)


def test_the_prices_write_units_as_numbers_do():
    lines = section("area_mm2 <= 275").lines
    assert lines and not any("^2" in line or "degC" in line for line in lines)
