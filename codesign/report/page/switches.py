"""The choices of a page beside its limits: memories, formats, length of prompts, constants."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import TypeAlias

import numpy as np

from codesign.base.columns import Fields, IntArray, Strings
from codesign.base.errors import InputError
from codesign.insight.decisions.memory_kinds import reduced_problems
from codesign.insight.explanation.moved_limits import Switch
from codesign.models.memtech import Range, Technologies
from codesign.models.memtech.technology import ACCESS_ENERGIES
from codesign.models.workload import list_traces, load_trace
from codesign.report.labels import setting_words
from codesign.search.campaign import Campaign
from codesign.search.campaign.campaign_definition import load_definition
from codesign.search.enumeration import stored_front
from codesign.search.problem import Problem

_FACTORS = {"÷ 4": 0.25, "÷ 2": 0.5, "as asked": 1.0, "× 2": 2.0, "× 4": 4.0}
_CONSTANTS = {
    "price": ("price",),
    "idle power": ("background_power",),
    "access energy": ACCESS_ENERGIES,
}
Choices: TypeAlias = dict[str, dict[str, Problem | None]]
"""Problem by the words of each position, by the title of the switch; None: as asked."""


def switches_of(campaign: Campaign, rows: IntArray) -> list[Switch]:
    """The switches of a campaign.

    A system has those positions only whose exact fronts are stored.

    Args:
        rows: (n, d) designs of the front.
    """
    problem = campaign.problem
    choices: Choices = {"memories": {"all": None}}
    choices["memories"] |= {f"without {x}": y for x, y in reduced_problems(problem)}
    if not problem.space.pools:
        choices |= _formats(campaign) | _prompts(campaign) | _constants(problem, rows)
    switches = []
    for title, problems in choices.items():
        fronts = {
            text: front
            for text, varied in problems.items()
            if varied and (front := stored_front(varied, campaign.variations))
        }
        usable = {
            text: varied
            for text, varied in problems.items()
            if varied is None or text in fronts or not problem.space.pools
        }
        if len(usable) > 1:
            switches.append(Switch(title, usable, fronts))
    return switches


def _varied(campaign: Campaign, settings: Fields) -> Problem:
    return load_definition(campaign.path, settings).problem


def _formats(campaign: Campaign) -> Choices:
    """A switch for each number format, whether the campaign fixes it or not."""
    fixed = campaign.definition.fixed
    switches: Choices = {}
    for name in (x for x in campaign.problem.space.names if x.endswith("_format")):
        rest = {key: value for key, value in fixed.items() if key != name}
        free = _varied(campaign, {"fixed": rest})
        values = next(x.values for x in free.space.parameters if x.name == name)
        problems = switches[setting_words(name, None)[0]] = {} if name in fixed else {"any": None}
        for value in values:
            varied = replace(free, space=free.space.fix({name: value}))
            problems[str(value)] = None if value == fixed.get(name) else varied
    return switches


def _prompts(campaign: Campaign) -> Choices:
    """A switch for the length of prompts, or of those of a session."""
    workload = dict(campaign.definition.workload)
    name = workload.pop("trace", None)
    if name in list_traces():
        workload |= load_trace(name).model_dump(include={"prompt_tokens", "generated_tokens"})
    key = "prompt_scale" if "session" in workload else "prompt_tokens"
    stated = workload.get(key, 1.0 if key == "prompt_scale" else None)
    if not isinstance(stated, int | float):
        return {}
    problems: dict[str, Problem | None] = {}
    for words, factor in _FACTORS.items():
        amount = type(stated)(factor * stated) or 1
        if key == "prompt_tokens":
            words = f"{amount:,} tokens"
        with suppress(InputError):  # longer than the context of the model
            problems[words] = None if factor == 1 else _varied(
                campaign, {"workload": workload | {key: amount}}
            )  # fmt: skip
    return {"prompt" if key == "prompt_tokens" else "prompts of a session": problems}


def _constants(problem: Problem, rows: IntArray) -> Choices:
    """A switch for each constant of a family of memories that moves designs of the front."""
    if not problem.evaluator.offers("replace_library"):
        return {}
    library = problem.evaluator.technologies()
    switches: Choices = {}
    values = {str(x) for design in problem.space.decode(rows) for x in design.values()}
    families = {x.family for key, x in library.items() if key in values and x.family}
    stated = problem.evaluate(rows, problem.deciding_metrics).objectives
    for family, (title, names) in product(sorted(families), _CONSTANTS.items()):
        problems = {
            text: None if factor == 1 else _scaled(problem, library, family, names, factor)
            for text, factor in _FACTORS.items()
        }
        *_, last = filter(None, problems.values())
        moved = last.evaluate(rows, problem.deciding_metrics).objectives
        if not np.array_equal(moved, stated, equal_nan=True):
            switches[f"{title} of {family}"] = problems
    return switches


def _scaled(
    problem: Problem,
    library: Technologies,
    family: str,
    names: Strings,
    factor: float,
) -> Problem:
    """The problem with quantities of a family of memories times a factor."""
    changed = {}
    for key, technology in library.items():
        if technology.family == family:
            ends = {name: getattr(technology, name) for name in names}
            changed[key] = technology.model_copy(update={
                name: Range(**{level: factor * x for level, x in dict(ranged).items()})
                for name, ranged in ends.items() if ranged is not None
            })  # fmt: skip
    evaluator = problem.evaluator.replace_library({**library, **changed})
    return replace(problem, evaluator=evaluator)
