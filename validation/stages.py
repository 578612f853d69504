"""Machines that the stages of a system choose, and why: exact fronts of campaigns of systems.

For each campaign the exact front is found. Systems of it are shown at parts of the limit on TDP,
with what each pool's machines wait for; and it is counted at how many points of the front two pools
choose alike, which says whether stages converge or want machines of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from codesign.base.columns import IntArray, Value
from codesign.base.errors import InputError
from codesign.report.labels import design_words
from codesign.report.text_table import TextTable
from codesign.search.campaign.campaign_definition import load_problem
from codesign.search.enumeration import ExactFront, exact_front
from codesign.search.problem import Problem
from validation.findings import Part
from validation.study_report import StudyReport

CAMPAIGNS = (
    "system-llada",
    "system-moe",
    "system-afd",
    "system-afd-decode",
    "system-early-late",
)
"""Campaigns of systems, in the order of MemExplorer's sections 5.4 and 5.5."""
_PARTS = (0.25, 0.5, 1.0)
"""Parts of the front's largest power at which a system is shown [ours]."""
_TRAITS: dict[str, tuple[str, ...]] = {
    "array": ("pe_array",),
    "on-chip memory": ("sram_dies", "sram_3d_layers"),
    "off-chip memory": tuple(
        f"tier{n}_{quantity}" for n in (1, 2, 3) for quantity in ("technology", "stacks")
    ),
}
"""Traits in which two pools may be alike, by the parameters that define them."""


@dataclass(frozen=True)
class PoolChoice:
    """The machines of a pool in one system.

    Attributes:
        words: Their design in words.
        utilization: Part of the time in which they are busy.
        waits_for: Part of their time by what bounds the operators: compute, a memory port, vectors.
    """

    pool: str
    machines: int
    words: str
    utilization: float
    waits_for: Mapping[str, float]


@dataclass(frozen=True)
class StageSystem:
    """A system of the front: its rate, its power and its pools."""

    tokens_per_s: float
    tdp_watts: float
    pools: Sequence[PoolChoice]


@dataclass(frozen=True)
class StageAnswer:
    """Answer of the exact front of one campaign.

    Attributes:
        campaign: Its name.
        alike: Part of the points at which the pools choose alike, by what they choose.
        systems: Fastest systems of the front within parts of its largest power.
    """

    campaign: str
    description: str
    n_systems: int
    n_points: int
    alike: Mapping[str, float]
    systems: Sequence[StageSystem]


def stage_answers(
    campaigns: Sequence[str] = CAMPAIGNS,
    workers: int = 1,
    progress: Callable[[str], None] = lambda text: None,
) -> list[StageAnswer]:
    """The answers of campaigns of systems with throughput and TDP as objectives.

    Exact fronts are kept in the working folder's ``runs/stages``.

    Args:
        campaigns: Names or files.
        progress: Told what is asked next.

    Raises:
        InputError: A campaign cannot be read, is not one of systems, or its front cannot be
            composed.
    """
    problems = {campaign: load_problem(campaign) for campaign in campaigns}
    for campaign, problem in problems.items():
        if not problem.space.pools:
            raise InputError(
                f"{campaign}: expected a campaign of systems, got space {problem.space.name!r} "
                "without pools"
            )
    folder = Path("runs") / "stages"
    folder.mkdir(parents=True, exist_ok=True)
    answers = []
    for campaign, problem in problems.items():
        progress(campaign)
        front = exact_front(
            problem, folder, workers=workers, rebuild=partial(load_problem, campaign)
        )
        answers.append(stage_answer(campaign, problem, front))
    return answers


def stage_answer(campaign: str, problem: Problem, front: ExactFront) -> StageAnswer:
    """Answer of one exact front of systems."""
    rows = front.representatives()
    designs = _designs_of_pools(problem, rows)
    metrics = problem.evaluate(rows).metrics
    watts, rate = metrics["tdp_watts"], metrics["throughput_tokens_per_s"]
    positions = []
    for share in _PARTS:
        within = np.flatnonzero(watts <= share * watts.max())
        if len(within):
            positions.append(int(within[np.argmax(rate[within])]))
    return StageAnswer(
        campaign=campaign,
        description=problem.space.description,
        n_systems=problem.space.size,
        n_points=len(front),
        alike={
            trait: float(
                np.mean(
                    [
                        len({tuple(map(pool.get, names)) for pool in design.values()}) == 1
                        for design in designs
                    ]
                )
            )
            for trait, names in _TRAITS.items()
        },
        systems=[
            StageSystem(float(rate[i]), float(watts[i]), _choices(problem, rows[i : i + 1]))
            for i in dict.fromkeys(positions)
        ],
    )


def _designs_of_pools(problem: Problem, rows: IntArray) -> list[dict[str, dict[str, Value]]]:
    """Each system as the designs of its pools, by the pools' own names."""
    pools = problem.space.pools.values()
    return [
        {
            pool.name: {name: design[pool.full_name(name)] for name in pool.parameter_names}
            for pool in pools
        }
        for design in problem.space.decode(rows)
    ]


def _choices(problem: Problem, row: IntArray) -> list[PoolChoice]:
    """The pools of one system."""
    columns = problem.space.columns(row)
    explanation = problem.evaluator.explain(columns)
    assert explanation is not None  # the evaluator of systems has one
    (designs,) = _designs_of_pools(problem, row)
    choices = []
    for name, pool in problem.space.pools.items():
        (words,) = design_words(pool.space, [designs[name]])
        seconds: dict[str, float] = {}
        for operator in explanation.operators:
            if str(operator["name"]).startswith(f"{name} "):
                bound = str(operator["bound"])
                seconds[bound] = seconds.get(bound, 0.0) + float(operator["time_s"])
        total = sum(seconds.values()) or 1.0
        choices.append(
            PoolChoice(
                pool=name,
                machines=int(columns[f"{name}_machines"].lookup(float)[0]),
                words=words,
                utilization=explanation.metrics[f"{name}_utilization"],
                waits_for={bound: time / total for bound, time in seconds.items() if time > 0},
            )
        )
    return choices


_HEADER = ["token/s", "TDP, W", "pool", "machines", "design", "busy", "time goes to"]


def reading(answer: StageAnswer) -> str:
    """The answer in a sentence."""
    shares = ", ".join(f"{trait} at {share:.0%}" for trait, share in answer.alike.items())
    if answer.alike["off-chip memory"] >= 0.5:
        verdict = "The pools mostly choose the same memory"
    elif answer.alike["off-chip memory"] > 0:
        verdict = "The pools mostly choose different memory"
    else:
        verdict = "The pools never choose the same memory"
    return f"{verdict}: alike are {shares} of the front's {answer.n_points:,} points."


def study_report(answers: Sequence[StageAnswer]) -> StudyReport:
    """The answers for people; the finding is ``results/stages.json``."""
    page: list[Part] = []
    terminal: list[Part] = []
    for answer in answers:
        rows = []
        for system in answer.systems:
            for position, choice in enumerate(system.pools):
                head = [f"{system.tokens_per_s:,.4g}", f"{system.tdp_watts:,.0f}"]
                waits = sorted(choice.waits_for.items(), key=lambda quantity: -quantity[1])
                causes = ", ".join(
                    f"{bound} {share:.0%}" for bound, share in waits if share >= 0.05
                )
                pool_cells = [
                    choice.pool,
                    str(choice.machines),
                    choice.words,
                    f"{choice.utilization:.0%}",
                ]
                rows.append([*(["", ""] if position else head), *pool_cells, causes])
        read: list[Part] = [
            (
                TextTable(
                    f"{answer.campaign}: {answer.n_systems:.3g} systems", _HEADER, rows, numbers=()
                )
            ),
            reading(answer),
        ]
        described = f"{answer.description} {answer.n_systems:.3g} systems."
        page += [f"## {answer.campaign}", described, *read]
        terminal += read
    return StudyReport(
        title="Machines for stages",
        introduction=(
            "Exact fronts of throughput against TDP of systems whose stages have machines of "
            "their own (profile `plain`, 8-bit formats, at most 2.8 kW and eight machines of "
            "each role). Shown are the fastest systems within a quarter, a half and all of the "
            "front's largest power. Two pools are alike at a point if the listed design of each "
            "has the same array, on-chip memory or off-chip memory; where several designs share "
            "a point, one is looked at. [Systems](systems.md) has the model."
        ),
        page=page,
        terminal=terminal,
    )
