"""Under what the fronts are taken: profile, space, model and options, one changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from codesign import api
from codesign.base import resources
from codesign.base.columns import StringTuple, Value
from codesign.base.records import frozen
from codesign.evaluators.npu import NpuEvaluator
from codesign.insight.explanation import Fronts, Variation
from codesign.insight.explanation.absence import recoded
from codesign.models.workload import Request
from codesign.models.workload.lowering import Phase
from codesign.search.campaign.campaign_definition import read_definition
from codesign.search.enumeration import ExactFront
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem

Profile: TypeAlias = Literal["plain", "memexplorer"]
PROFILES: tuple[Profile, ...] = ("plain", "memexplorer")
CAP_WATTS = 700.0
"""Limit on TDP of the paper (§5.3), and of the campaigns."""
LARGEST_CAP_WATTS = 1400.0
"""Twice as much. Of a front up to here, what keeps a lower cap is the front under that cap."""


@frozen
class Setting:
    """Evaluator and space of the designs; must survive pickling.

    Attributes:
        profile: Of the evaluator; the campaigns of that profile say all that is not said here.
        label: What is different from them.
        cap_watts: Limit on TDP.
        space: Instead of the campaigns' space.
        workload: Instead of what the campaigns' workload says.
        options: Besides the evaluator's profile.
        fixed: Parameters of the space that do not vary, besides those of the campaigns.
        objectives: Instead of the campaigns' objectives.
    """

    profile: Profile
    label: str = ""
    cap_watts: float = LARGEST_CAP_WATTS
    space: str | None = None
    workload: tuple[tuple[str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    fixed: tuple[tuple[str, Value], ...] = ()
    objectives: StringTuple = ()

    def campaign(self, phase: Phase) -> str:
        """The campaign that says what the setting does not."""
        return f"osworld-{phase}" + ("" if self.profile == "plain" else f"-{self.profile}")


def problem_of(setting: Setting, phase: Phase) -> Problem:
    """The phase's problem in a setting.

    Raises:
        InputError: The setting does not fit the campaign.
    """
    _, definition = read_definition(resources.find("runs", setting.campaign(phase)))
    choice = definition.evaluator
    space = api.load_space(setting.space or definition.space)
    return build_problem(
        space.fix({**definition.fixed, **dict(setting.fixed)}),
        api.build_evaluator(
            choice.name,
            {**definition.workload, **dict(setting.workload)},
            {**choice.options, **dict(setting.options)},
        ),
        setting.objectives or definition.objectives,
        [f"tdp_watts <= {setting.cap_watts:g}"],
        choice.name,
    )


def request_of(problem: Problem) -> Request:
    """Request that the problem's machines serve."""
    evaluator = problem.evaluator
    assert isinstance(evaluator, NpuEvaluator)  # of every campaign named here
    return evaluator.workload


@dataclass
class FrontStore:
    """Problems of settings and their exact fronts, each built and found once.

    Attributes:
        folder: In which each campaign has its folder; None: fronts are not kept.
    """

    folder: Path | None = None
    workers: int = 1
    _varied: dict[tuple[Setting, Phase], Fronts] = field(default_factory=dict)
    _exact_fronts: dict[tuple[Setting, Phase, Variation], ExactFront | None] = field(
        default_factory=dict
    )

    def problem(self, setting: Setting, phase: Phase) -> Problem:
        """The phase's problem."""
        return self._fronts(setting, phase).problem

    def front(
        self, setting: Setting, phase: Phase, variation: Variation | None = None
    ) -> ExactFront | None:
        """The exact front of the phase's problem, or of a variation, as rows of the phase's space;
        None: nothing is feasible."""
        key = (setting, phase, variation or Variation())
        if key not in self._exact_fronts:
            fronts = self._fronts(setting, phase)
            front = fronts.find(key[2])
            if front is not None:
                theirs, ours = key[2].apply(fronts.problem).space, fronts.problem.space
                front = replace(front, rows=recoded(front.rows, theirs, ours))
            self._exact_fronts[key] = front
        return self._exact_fronts[key]

    def _fronts(self, setting: Setting, phase: Phase) -> Fronts:
        key = (setting, phase)
        if key not in self._varied:
            self._varied[key] = Fronts(
                problem_of(setting, phase),
                folder=(self.folder and self.folder / setting.campaign(phase) / "variations"),
                workers=self.workers,
                rebuild=partial(problem_of, setting, phase),
            )
        return self._varied[key]


_OTHER: Mapping[str, Mapping[Profile, tuple[str, str]]] = {
    "batch": {"plain": ("best", "capacity"), "memexplorer": ("capacity", "best")},
    "topology": {"plain": ("staged", "parallel"), "memexplorer": ("parallel", "staged")},
    "blocking": {"plain": ("capacity", "array"), "memexplorer": ("array", "capacity")},
}
"""Option: by profile, what it chooses and what is put in its place."""


_PUBLISHED: Mapping[str, tuple[str, StringTuple]] = {
    "P1": ("hardware of P1", ("pe_array", "vector_length", "sram_", "tier")),
    "Base": ("array and off-chip memory of Base", ("pe_array", "vector_length", "tier")),
}
"""Published design: in words what is taken from it, and how the names of these parameters begin."""


def varied(base: Setting, name: str) -> Setting:
    """The setting with one thing changed.

    Args:
        name: An option (``batch``, ``topology``, ``blocking``), ``strict`` (LPDDR takes die edge),
            ``average power``, the name of a published design, of a trace or of a model.
    """
    if name in _OTHER:
        was, now = _OTHER[name][base.profile]
        label = f"{name} `{now}` instead of `{was}`"
        return replace(base, label=label, options=(*base.options, (name, now)))
    if name in _PUBLISHED:
        label, beginnings = _PUBLISHED[name]
        space = api.load_space(base.space or "memexplorer")
        design = space.designs[name]
        taken_names = [name for name in space.names if name.startswith(beginnings)]
        fixed = tuple((taken_name, design.get(taken_name)) for taken_name in taken_names)
        return replace(base, label=label, fixed=(*base.fixed, *fixed))
    if name == "average power":
        label = "joules of average power instead of TDP"
        return replace(base, label=label, objectives=("maximize tokens_per_joule",))
    if name == "strict":
        label = "LPDDR charged to the die edge (space `memexplorer-strict`)"
        return replace(base, label=label, space="memexplorer-strict")
    key = "trace" if name == "bfcl" else "model"
    return replace(base, label=f"{key} `{name}`", workload=(*base.workload, (key, name)))
