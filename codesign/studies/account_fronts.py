"""What the accounts change in the advice: exact fronts with and without each of them.

For both phases of OSWorld the exact front is found for throughput against TDP, against every
account in its place, and against TDP within limits. A memory appears on a front if a point of it
has a design with that memory. MemExplorer's designs are priced at both ends of all ranges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from codesign import api
from codesign.accounts.heat import DENSITY_LIMITS_W_PER_MM2
from codesign.enumeration import enumerate_front
from codesign.evaluators.npu.cost_metrics import COST_METRICS
from codesign.memtech import Level
from codesign.metrics import ALL_METRICS
from codesign.problem import Problem, build_problem
from codesign.report.labels import axis_label
from codesign.report.tables import plain_table, text_line
from codesign.studies.conclusions.setting import CAP_WATTS, Setting, problem_of
from codesign.text import markdown_table
from codesign.workload.lowering import Phase

if TYPE_CHECKING:
    from rich.console import RenderableType

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
    """What a front is asked for.

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


QUESTIONS: tuple[AccountQuestion, ...] = (
    AccountQuestion("TDP, no account", (_RATE, _TDP)),
    AccountQuestion("price of a unit", (_RATE, "minimize unit_cost_usd")),
    AccountQuestion("price, all low", (_RATE, "minimize unit_cost_usd"), level="low"),
    AccountQuestion("price, all high", (_RATE, "minimize unit_cost_usd"), level="high"),
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
        phase: Of the requests.
        question: What it is the front of.
        n_points: Points on it.
        fastest: Tokens per second of its fastest point.
        memories: Part of the points that have a design with each memory technology.
        layers: Likewise with 3D-stacked SRAM.
    """

    phase: Phase
    question: AccountQuestion
    n_points: int
    fastest: float
    memories: dict[str, float]
    layers: float


def account_fronts(
    phases: Sequence[Phase] = PHASES,
    questions: Sequence[AccountQuestion] = QUESTIONS,
    fixed: tuple[tuple[str, Any], ...] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> list[AccountFront]:
    """The fronts of the campaigns ``osworld-prefill`` and ``osworld-decode``.

    Args:
        phases: Of the requests.
        questions: What to ask.
        fixed: Parameters that do not vary, besides those of the campaigns.
        progress: Told what is asked next.
    """
    fronts = []
    for phase in phases:
        for question in questions:
            progress(f"{phase}: {question.label}")
            fronts.append(_front(phase, question, fixed))
    return fronts


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
    phase: Phase, question: AccountQuestion, fixed: tuple[tuple[str, Any], ...]
) -> AccountFront:
    problem = _problem(phase, question, fixed)
    front = enumerate_front(problem)
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


def document(fronts: Sequence[AccountFront], designs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Everything, as plain values."""
    return {"fronts": [asdict(front) for front in fronts], "designs": list(designs)}


_FRONT_HEADER = ["against", "points", "fastest, token/s", "memories: part of the points", "3D SRAM"]


def _front_cells(front: AccountFront) -> list[str]:
    memories = ", ".join(f"{name} {share:.0%}" for name, share in front.memories.items())
    return [
        front.question.label, f"{front.n_points:,}", f"{front.fastest:,.4g}", memories,
        f"{front.layers:.0%}",
    ]  # fmt: skip


def _design_cells(row: dict[str, Any], metrics: Sequence[str]) -> list[str]:
    cells = [str(row["design"])]
    for name in metrics:
        values = row["metrics"][name]
        ends = sorted(values.values())
        low, typical, high = (
            f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
            for value in (ends[0], values["typical"], ends[-1])
        )
        cells.append(typical if low == high else f"{typical} ({low} to {high})")
    return cells


_PRICED = COST_METRICS[:2] + COST_METRICS[3:7]
_PRICED_HEADER = ["design", *(axis_label(ALL_METRICS[name]) for name in _PRICED)]


def tables(
    fronts: Sequence[AccountFront], designs: Sequence[dict[str, Any]]
) -> list[RenderableType]:
    """The fronts and the designs for people."""
    parts: list[RenderableType] = []
    for phase in dict.fromkeys(front.phase for front in fronts):
        table = plain_table(f"Exact fronts of throughput, {phase}", _FRONT_HEADER)
        for front in fronts:
            if front.phase == phase:
                table.add_row(*_front_cells(front))
        parts.append(table)
    table = plain_table("MemExplorer's designs: typical (all low to all high)", _PRICED_HEADER)
    for row in designs:
        table.add_row(*_design_cells(row, _PRICED))
    return [*parts, table, text_line("Every range has all constants at one end at once.")]


def markdown(
    fronts: Sequence[AccountFront], designs: Sequence[dict[str, Any]], command: str
) -> str:
    """The page ``docs/costs.md``."""
    parts = [
        "# What the accounts change",
        "The exact front of throughput for OSWorld (Llama-3.3-70B, 8-bit formats, profile `plain`, "
        f"TDP at most {CAP_WATTS:g} W) against TDP, and against each account in its place or as a "
        "limit. A memory counts at a point if one of the point's designs has it. [Accounts]"
        f"(accounts.md) says what is counted. This page is made by `{command}`.",
    ]
    for phase in dict.fromkeys(front.phase for front in fronts):
        rows = [_front_cells(front) for front in fronts if front.phase == phase]
        parts += [f"## {phase.capitalize()}", markdown_table(_FRONT_HEADER, rows)]
    for phase in _DESIGNS:
        rows = [_design_cells(row, _PRICED) for row in designs if row["phase"] == phase]
        if rows:
            parts += [
                f"## MemExplorer's designs, {phase}",
                "Typical, and in parentheses the least and the largest of all constants low, "
                "typical and high at once: wider than likely.",
                markdown_table(_PRICED_HEADER, rows),
            ]
    return "\n\n".join(parts) + "\n"
