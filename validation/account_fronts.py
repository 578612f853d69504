"""Effect of the accounts on the advice: exact fronts with and without each of them, as ranges.

For both phases of OSWorld the exact front is found for throughput against TDP, against every
account in its place, and against TDP within limits: with every constant typical, all of them low
and all of them high. A memory appears on a front if a point of it has a design with that memory. A
point of the typical front stays if one of its designs is on the other two fronts; it keeps its
limits if one of its designs does with every constant at the end that is worst for it
(``insight.uncertainty``). Of a point with more designs than a front lists, only those
that are listed count. MemExplorer's designs are priced at both ends of all ranges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codesign import api
from codesign.base.columns import BoolArray, IntArray
from codesign.base.metrics import ALL_METRICS
from codesign.evaluators.npu.cost_metrics import COST_METRICS
from codesign.insight.uncertainty.limits_over_ranges import worst_excess
from codesign.models.accounts.heat import DENSITY_LIMITS_W_PER_MM2
from codesign.models.memtech import Level
from codesign.models.workload.lowering import Phase
from codesign.report.labels import axis_label
from codesign.report.text_table import TextTable
from codesign.search.enumeration import ExactFront, enumerate_front
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem
from validation.conclusions.setting import CAP_WATTS, Setting, problem_of
from validation.findings import Part
from validation.study_report import StudyReport

PHASES: tuple[Phase, ...] = ("prefill", "decode")
LEVELS: tuple[Level, ...] = ("low", "typical", "high")
_RATE, _TDP = "maximize throughput_tokens_per_s", "minimize tdp_watts"
_CAP = f"tdp_watts <= {CAP_WATTS:g}"
_LIFE_YEARS = 5
"""Life that a buyer asks for [ours]."""
_DESIGNS: dict[Phase, tuple[str, ...]] = {
    "prefill": ("Base", "H1", "H2", "H3", "P1", "P2"),
    "decode": ("Base", "D1", "D2"),
}
"""MemExplorer's designs, by the phase for which it publishes them."""


@dataclass(frozen=True)
class AccountQuestion:
    """A question to an exact front.

    Attributes:
        label: In words.
        objectives: Of the front.
        limits: It keeps.
        level: End of the ranges of all constants.
    """

    label: str
    objectives: tuple[str, ...]
    limits: tuple[str, ...] = (_CAP,)
    level: Level = "typical"

    def with_level(self, level: Level) -> AccountQuestion:
        """The same at another end of the ranges."""
        return replace(self, level=level)


QUESTIONS: tuple[AccountQuestion, ...] = (
    AccountQuestion("TDP, no account", (_RATE, _TDP)),
    AccountQuestion("price of a unit", (_RATE, "minimize unit_cost_usd")),
    AccountQuestion("area", (_RATE, "minimize area_mm2")),
    AccountQuestion("price of tokens", (_RATE, "minimize usd_per_million_tokens")),
    AccountQuestion("carbon of tokens", (_RATE, "minimize kgco2e_per_million_tokens")),
    AccountQuestion(
        f"TDP, life of {_LIFE_YEARS} years",
        (_RATE, _TDP),
        (_CAP, f"lifetime_years >= {_LIFE_YEARS}"),
    ),
    AccountQuestion(
        "TDP, heat that air carries",
        (_RATE, _TDP),
        (_CAP, f"power_density_w_per_mm2 <= {DENSITY_LIMITS_W_PER_MM2['air']:g}"),
    ),
)


@dataclass(frozen=True)
class AccountFront:
    """One exact front.

    Attributes:
        question: What it is the front of.
        fastest: Tokens per second of its fastest point.
        memories: Part of the points that have a design with each memory technology.
        layers: Likewise with 3D-stacked SRAM.
        n_staying: Points with a design that is also on the fronts with all constants low and all
            high; None at these ends.
        n_keeping: Points with a design that keeps the limits over all ranges; None at the ends.
    """

    phase: Phase
    question: AccountQuestion
    n_points: int
    fastest: float
    memories: dict[str, float]
    layers: float
    n_staying: int | None = None
    n_keeping: int | None = None


def account_fronts(
    phases: Sequence[Phase] = PHASES,
    questions: Sequence[AccountQuestion] = QUESTIONS,
    fixed: tuple[tuple[str, Any], ...] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> list[AccountFront]:
    """The fronts of the campaigns ``osworld-prefill`` and ``osworld-decode``.

    Args:
        questions: What to ask, each at both ends of all ranges and in the middle.
        fixed: Parameters that do not vary, besides those of the campaigns.
        progress: Told what is asked next.
    """
    fronts = []
    for phase in phases:
        for question in questions:
            problems, exact = {}, {}
            for level in LEVELS:
                progress(f"{phase}: {question.label}, {level}")
                problems[level] = _problem(phase, question.with_level(level), fixed)
                exact[level] = enumerate_front(problems[level])
            typical = exact["typical"]
            is_staying = np.ones(len(typical.rows), dtype=bool)
            for level in ("low", "high"):
                is_staying &= _is_on(typical.rows, problems[level], exact[level])
            is_keeping = worst_excess(problems["typical"], typical.rows).excess <= 0
            for level in LEVELS:
                front = _front(phase, question.with_level(level), problems[level], exact[level])
                if level == "typical":
                    front = replace(
                        front,
                        n_staying=len(np.unique(typical.point[is_staying])),
                        n_keeping=len(np.unique(typical.point[is_keeping])),
                    )
                fronts.append(front)
    return fronts


def _is_on(rows: IntArray, problem: Problem, front: ExactFront) -> BoolArray:
    """(n,) whether (n, d) designs are on the front of a problem, listed there or not."""
    observed = problem.evaluate(rows, problem.deciding_metrics)
    points = {tuple(point) for point in front.objectives.tolist()}
    return np.array(
        [
            is_feasible and tuple(point) in points
            for is_feasible, point in zip(
                observed.feasible.tolist(), observed.objectives.tolist(), strict=True
            )
        ]
    )


def _problem(
    phase: Phase, question: AccountQuestion, fixed: tuple[tuple[str, Any], ...]
) -> Problem:
    options = (("technology_level", question.level),)
    setting = Setting("plain", options=options, fixed=fixed, objectives=question.objectives)
    known = problem_of(setting, phase)
    return build_problem(
        known.space, known.evaluator, question.objectives, question.limits, known.evaluator_name
    )


def _front(
    phase: Phase, question: AccountQuestion, problem: Problem, front: ExactFront
) -> AccountFront:
    points: Counter[str] = Counter()
    seen: set[tuple[int, str]] = set()
    for point, design in zip(front.point.tolist(), problem.space.decode(front.rows), strict=True):
        names = {str(v) for k, v in design.items() if k.endswith("_technology") and v is not None}
        if design["sram_3d_layers"]:
            names.add("")
        seen |= {(point, name) for name in names}
    points.update(name for _, name in seen)
    shares = {name: count / len(front) for name, count in sorted(points.items())}
    return AccountFront(
        phase=phase,
        question=question,
        n_points=len(front),
        fastest=float(-front.objectives[:, 0].min()),
        memories={name: share for name, share in shares.items() if name},
        layers=shares.get("", 0.0),
    )


def priced_designs() -> list[dict[str, Any]]:
    """MemExplorer's designs with every account, at both ends of all ranges and in the middle."""
    rows = []
    for phase, names in _DESIGNS.items():
        space = api.load_space("memexplorer")
        workload = {"model": "llama-3.3-70b", "trace": "osworld", "phase": phase}
        for name in names:
            metrics: dict[str, dict[str, float]] = {}
            for level in LEVELS:
                options = {"technology_level": level}
                evaluated = api.evaluate(
                    space=space, design=space.designs[name], workload=workload, options=options
                )
                for metric in COST_METRICS:
                    value = evaluated.explanation.metrics[metric]
                    metrics.setdefault(metric, {})[level] = value
            rows.append({"design": name, "phase": phase, "metrics": metrics})
    return rows


_ENDS = (
    "Numbers are with every constant typical, and in parentheses the least and the largest of "
    "three cases: all constants low, typical and high at once. That is wider than likely."
)
_STAYING = (
    "Points stay if one of their designs is also on the fronts with all constants low and all "
    "high. They keep limits if one of their designs does so over all ranges, with each constant at "
    "the end that is worst for it."
)
_FRONT_HEADER = [
    "against", "points", "stay", "keep limits", "fastest, token/s", "memories: % of the points",
    "3D SRAM, %",
]  # fmt: skip


def _front_cells(ends: Mapping[Level, AccountFront]) -> list[str]:
    """A line of the table, from the fronts of a question at all ends."""
    typical = ends["typical"]
    names = sorted({name for front in ends.values() for name in front.memories})

    def over_ends(value: Callable[[AccountFront], float], form: str) -> str:
        return _over_ends({level: value(front) for level, front in ends.items()}, form)

    def share_of(name: str) -> str:
        return f"{name} {over_ends(lambda front: 100 * front.memories.get(name, 0.0), '.0f')}"

    return [
        typical.question.label,
        over_ends(lambda front: front.n_points, ",d"),
        f"{typical.n_staying:,}",
        f"{typical.n_keeping:,}",
        over_ends(lambda front: front.fastest, ",.4g"),
        ", ".join(map(share_of, names)),
        over_ends(lambda front: 100 * front.layers, ".0f"),
    ]


def _over_ends(values: Mapping[Level, float], form: str) -> str:
    """Typical, and the least and the largest over the ends where they differ."""
    typical, *ends = (
        format(value, form)
        for value in (values["typical"], min(values.values()), max(values.values()))
    )
    return typical if set(ends) == {typical} else f"{typical} ({ends[0]} to {ends[1]})"


def _front_tables(fronts: Sequence[AccountFront]) -> dict[Phase, TextTable]:
    """A table for each phase."""
    ends: dict[tuple[Phase, str], dict[Level, AccountFront]] = {}
    for front in fronts:
        ends.setdefault((front.phase, front.question.label), {})[front.question.level] = front
    lines: dict[Phase, list[list[str]]] = {}
    for (phase, _), by_level in ends.items():
        lines.setdefault(phase, []).append(_front_cells(by_level))
    return {
        phase: TextTable(f"Exact fronts of throughput, {phase}", _FRONT_HEADER, rows, numbers=())
        for phase, rows in lines.items()
    }


def _design_cells(row: dict[str, Any], metrics: Sequence[str]) -> list[str]:
    cells = [str(row["design"])]
    for name in metrics:
        values = row["metrics"][name]
        cells.append(_over_ends(values, ",.3g" if max(values.values()) < 1000 else ",.0f"))
    return cells


_PRICED = COST_METRICS[:2] + COST_METRICS[3:7]
_PRICED_HEADER = ["design", *(axis_label(ALL_METRICS[name]) for name in _PRICED)]


def _design_table(designs: Sequence[dict[str, Any]]) -> TextTable:
    rows = [_design_cells(row, _PRICED) for row in designs]
    title = "MemExplorer's designs: typical (all low to all high)"
    return TextTable(title, _PRICED_HEADER, rows, numbers=())


def study_report(fronts: Sequence[AccountFront], designs: Sequence[dict[str, Any]]) -> StudyReport:
    """The fronts and the designs for people; the finding is ``results/costs.json``."""
    front_tables = _front_tables(fronts)
    page: list[Part] = [f"{_ENDS} {_STAYING}"]
    for phase, table in front_tables.items():
        page += [f"## {phase.capitalize()}", table]
    for phase in _DESIGNS:
        own_designs = [row for row in designs if row["phase"] == phase]
        if own_designs:
            page += [f"## MemExplorer's designs, {phase}", _design_table(own_designs)]
    return StudyReport(
        title="What the accounts change",
        introduction=(
            "The exact front of throughput for OSWorld (Llama-3.3-70B, 8-bit formats, profile "
            f"`plain`, TDP at most {CAP_WATTS:g} W) against TDP, and against each account in its "
            "place or as a limit. A memory counts at a point if one of the point's designs has "
            "it. [Accounts](accounts.md) says what is counted."
        ),
        page=page,
        terminal=[*front_tables.values(), _design_table(designs), _ENDS, _STAYING],
    )
