"""Regret of each kind of memory: the exact front of the designs without it."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain

import numpy as np

from codesign.base.columns import Domains, FloatArray, IntArray, IntegerList
from codesign.base.errors import InfeasibleError, InputError
from codesign.base.records import frozen
from codesign.insight.decisions.box import product_of
from codesign.insight.decisions.recommendation import recommended_point
from codesign.search.enumeration.within import FrontFinder
from codesign.search.pareto import TOLERANCE
from codesign.search.problem import Problem
from codesign.space import DesignSpace

_STACKED = "sram_3d_layers"


@frozen
class KindRegret:
    """The front without a kind of memory.

    Attributes:
        memory_kind: Family of the technologies, or ``stacked SRAM``; empty for the front with all.
        n_points: Points of the front without it.
        row: (d,) the recommended design without it, as a row of the space of all kinds; None if no
            design without it is feasible.
        objectives: (m,) minimized objectives of that design.
        best: (m,) best value of each objective without it, minimized.
        regret: Relative loss of the recommended design against the one with all kinds.
    """

    memory_kind: str
    n_points: int
    row: IntArray | None
    objectives: FloatArray
    best: FloatArray
    regret: float


def kind_regrets(
    problem: Problem, find: FrontFinder, tolerance: float = TOLERANCE
) -> list[KindRegret]:
    """The exact front with all kinds of memory, then without each, the largest regret first.

    Args:
        find: Function that returns the exact front of a problem.
        tolerance: Share within which points are folded, and equal by the rule.

    Raises:
        InputError: The space has no choice of a kind of memory.
    """
    problems = dict(reduced_problems(problem))
    if not problems:
        raise InputError(
            f"space {problem.space.name!r} has one kind of memory; expected technologies of two "
            f"families, or {_STACKED} with 0 among its values"
        )

    def find_regret(family: str, reduced: Problem) -> KindRegret:
        """Find a front; the regret is the product of its recommended design's burdens."""
        try:
            front = find(reduced)
        except InfeasibleError:
            nothing = np.full(len(problem.objectives), np.inf)
            return KindRegret(family, 0, None, nothing, nothing, np.inf)
        points = front.objectives
        place = recommended_point(problem, points, tolerance)
        row = front.representatives()[place]
        (design,) = reduced.space.decode(row[None])
        return KindRegret(
            family,
            len(front),
            problem.space.encode(design)[0],
            points[place],
            points.min(axis=0),
            float(product_of(problem, points[[place]])[0]),
        )

    every = find_regret("", problem)
    fronts = [find_regret(*reduced) for reduced in problems.items()]
    others = [replace(front, regret=front.regret / every.regret - 1.0) for front in fronts]
    return [replace(every, regret=0.0), *sorted(others, key=lambda front: -front.regret)]


def technology_columns(space: DesignSpace, library: Container[str]) -> dict[str, IntegerList]:
    """Columns of each choice of a technology, by the parameter's name or ``tier technology``."""
    places = [
        (f"{repeated.name} {member}", repeated.columns[:, place].tolist())
        for repeated in space.structure.parts
        for place, member in enumerate(repeated.members)
    ]
    places += [(parameter.name, [k]) for k, parameter in enumerate(space.parameters)]
    return {
        name: columns
        for name, columns in places
        if all(str(value) in library for k in columns for value in space.parameters[k].values)
    }


def reduced_problems(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """The problem without each kind, by its name."""
    space = problem.space
    library = problem.evaluator.technologies()
    if space.with_values is None:
        return
    choices = {
        f"{component.name} {component.members[0]}": space.parameters[component.columns[0, 0]].values
        for component in space.structure.parts
    }
    families = {
        name: library[str(name)].family or name
        for name in chain.from_iterable(choices.values())
        if str(name) in library
    }
    choices_by_family: dict[str, Domains] = {
        str(family): {
            name: [value for value in values if families.get(value) != family]
            for name, values in choices.items()
        }
        for family in families.values()
    }
    layers = {x.name: [0] for x in space.parameters if x.name.endswith(_STACKED) and 0 in x.values}
    if any(len(x.values) > 1 for x in space.parameters if x.name in layers):
        choices_by_family["stacked SRAM"] = layers
    for family, remaining in choices_by_family.items():
        reduced = space
        # A pool may fix a memory that would be missing, or have no other.
        with suppress(InputError):
            for name, listed in remaining.items():
                assert reduced.with_values is not None
                reduced = reduced.with_values(name, listed)
            yield family, replace(problem, space=reduced)
