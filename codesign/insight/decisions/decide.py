"""Decisions of the recommended design over the ranges of all constants.

A decision is a value of a parameter, or the kinds and the counts of a repeated part such as the
memory tiers. At some values of the constants it *flips* if a design without it is preferred to
every design that has it, by more than a tolerance (see :mod:`.recommendation`). Else it holds.

The list of rivals is complete over the box (see :mod:`.box`), so everything here is arithmetic on
that list. Products of burdens are linear in the constants and add up over them, which is checked by
evaluating designs at random points of the box. A decision holds in the whole box if, for every
rival without it, some design with it matches the rival there within the tolerance. A match keeps
all limits in the box. The recommended design need not: the limits that it breaks are reported
separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Literal

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray, Value
from codesign.base.loop_progress import counted
from codesign.insight.decisions.box import RivalList, box_of, rivals_over
from codesign.insight.decisions.recommendation import check_listable, recommended_point
from codesign.insight.uncertainty.sweep import Sweep
from codesign.insight.uncertainty.uncertainty_results import RangedNumber
from codesign.search.enumeration import ExactFront
from codesign.search.pareto import TOLERANCE
from codesign.search.problem import Problem

Verdict = Literal[
    "holds everywhere", "holds as checked", "flips by one", "flips by two", "flips by several"
]
"""*holds everywhere* is proven. *holds as checked* is not proven, but no flip was
found: along any constant, at the ends of any two, or at the best corner of the nearest rivals."""

_SAMPLE, _POINTS, _SEED = 200, 6, 0
_LINEAR = 1e-6
_NEAR = 1e-9
_ROUNDING = 1e-13
_STEPS = 32
"""Steps of the search for a flip along a way, before bisection. [ours]"""
_BISECTIONS = 30
_MOST_CORNERS = 300
"""Number of rivals whose best corners are checked, the nearest first. [ours]"""
_MOST_TIES = 40
_MOST_MATCHES = 400
"""Rounds of trying designs as matches; rivals still unmatched stay unproven. [ours]"""

Way = tuple[tuple[int, int], ...]
"""A way from the typical constants: position and end (0 low, 1 high) of each moving constant."""


@dataclass(frozen=True)
class Change:
    """A constant moved from its typical value."""

    number: RangedNumber
    value: float


@dataclass(frozen=True)
class Flip:
    """The smallest change of constants at which a rival takes over.

    Attributes:
        changes: The constants that move.
        share: Distance that the constants move; 1 is the ends of their ranges.
        row: (d,) the rival that is preferred there.
        objectives: (m,) minimized objectives of the rival there.
        beaten: (m,) minimized objectives of the recommended design there.
    """

    changes: tuple[Change, ...]
    share: float
    row: IntArray
    objectives: FloatArray
    beaten: FloatArray


@dataclass(frozen=True)
class Decision:
    """A decision of the design.

    Attributes:
        name: The parameter; of a repeated part ``tier technology``.
        value: Its value; of a repeated part, one per repetition.
        as_good: Other values with which some design is as good at the typical constants.
        flip: The smallest change that flips it; None if it holds.
        breaks: Constants that flip it alone, the smallest change first.
        n_rivals: Rivals without it in the list.
        beyond: The smallest change of one constant that flips it among the listed designs, beyond
            the box of the list; no other design is compared there.
    """

    name: str
    value: tuple[Value, ...]
    as_good: tuple[tuple[Value, ...], ...]
    verdict: Verdict
    flip: Flip | None
    breaks: tuple[Flip, ...]
    n_rivals: int
    beyond: Flip | None = None


@dataclass(frozen=True)
class LimitBreak:
    """The smallest change of one constant at which the design breaks a limit."""

    limit: str
    change: Change
    share: float


@dataclass(frozen=True)
class DecidedDesign:
    """A design with its decisions.

    Attributes:
        row: (d,) the design.
        objectives: (m,) minimized, at the typical constants.
        rivals: The list over the box.
        is_linear: True if products were linear and additive wherever that was checked.
        limits: Limits that the design breaks within the box.
    """

    problem: Problem
    row: IntArray
    objectives: FloatArray
    tolerance: float
    rivals: RivalList
    is_linear: bool
    decisions: tuple[Decision, ...]
    limits: tuple[LimitBreak, ...]


def check_decidable(problem: Problem) -> None:
    """Check that decisions of a problem can be proven, before its front is looked for.

    Raises:
        InputError: The space has pools, or the evaluator has no technologies.
    """
    check_listable(problem)
    Sweep(problem, problem.deciding_metrics)


def decide_front(
    problem: Problem, front: ExactFront, tolerance: float = TOLERANCE, folder: Path | None = None
) -> DecidedDesign:
    """The decisions of the recommended design of an exact front.

    Args:
        tolerance: Share by which a rival must be preferred, and below which points are folded.
        folder: Folder that stores the designs that bounds could not exclude, for the next call.

    Raises:
        InputError: No constant with a range matters, an objective is not positive, or the designs
            of the space cannot be listed.
    """
    point = recommended_point(problem, front.objectives, tolerance)
    box = box_of(problem, front.representatives())
    return decide(rivals_over(box, front.representatives()[[point]], folder), tolerance)


@dataclass(frozen=True)
class Trait:
    """A decision as columns of a design's row."""

    name: str
    columns: IntArray

    def has(self, rows: IntArray, row: IntArray) -> BoolArray:
        """(n,) True for designs with the values of ``row`` in these columns."""
        return np.asarray((rows[:, self.columns] == row[self.columns]).all(axis=1))

    def value(self, problem: Problem, row: IntArray) -> tuple[Value, ...]:
        """The values of a design, without absent repetitions."""
        (design,) = problem.space.decode(row[None, :])
        names = [problem.space.names[column] for column in self.columns.tolist()]
        return tuple(design[name] for name in names if design[name] is not None)


def traits_of(problem: Problem) -> list[Trait]:
    """Every parameter that varies; of a repeated part, its members over all repetitions."""
    structure = problem.space.structure
    repeated = {int(column) for part in structure.parts for column in part.columns.ravel()}
    singles = [
        Trait(parameter.name, np.array([column]))
        for column, parameter in enumerate(problem.space.parameters)
        if column not in repeated and len(parameter.values) > 1
    ]
    members = [
        Trait(f"{part.name} {member}", part.columns[:, place])
        for part in structure.parts
        for place, member in enumerate(part.members)
        if len(problem.space.parameters[int(part.columns[0, place])].values) > 1
    ]
    return [*singles, *members]


def decide(
    rivals: RivalList, tolerance: float, traits: Sequence[Trait] | None = None
) -> DecidedDesign:
    """Decide over a box which decisions of a design hold.

    Args:
        rivals: The complete list, the design first.
        tolerance: Share by which a rival must be preferred.
        traits: The decisions; all of :func:`traits_of` if None.
    """
    leads = _Leads(rivals, tolerance)
    problem, row = rivals.box.problem, rivals.rows[0]
    traits = traits_of(problem) if traits is None else traits
    decisions = [_decision(leads, trait) for trait in counted(traits, "decisions")]
    if rivals.share < 1.0:
        wide = _Leads(replace(rivals, box=rivals.stated), tolerance)
        for i, trait in enumerate(traits):
            if decisions[i].flip is None:
                flips = _flips_by_one(wide, trait.has(wide.rows, row))
                decisions[i] = replace(decisions[i], beyond=flips[0] if flips else None)
    observed = problem.evaluate(rivals.rows[:1], problem.deciding_metrics)
    return DecidedDesign(
        problem,
        row,
        observed.objectives[0],
        tolerance,
        rivals,
        leads.is_linear,
        tuple(decisions),
        tuple(leads.limits(observed.violation_names)),
    )


class _Leads:
    """Products of burdens of the rivals, as linear functions of the constants.

    Designs with the same numbers at three values of the constants are one group of ``g``; the
    recommended design is in group 0. Tables have the product first, then the excess over limits.
    """

    def __init__(self, rivals: RivalList, tolerance: float) -> None:
        box = self.box = rivals.box
        self.tolerance = tolerance
        self._group(rivals.rows)
        self._shared = self._shared_constants()
        corner = np.where(self._shared, box.typical, box.corner(is_good=True))
        best = box.burdens(self.rows[self.first_row], corner)
        self.moved = np.zeros((len(box), 2, *self.base.shape))
        self._move(np.flatnonzero(self._shared))
        reach = best[:, 0] - self.base[0, 0]
        for k in np.flatnonzero(self._shared):
            lead = self.moved[k, :, :, 0] - self.moved[k, :, :1, 0]
            reach += np.minimum(lead.min(axis=0), 0.0)
        near = reach <= (box.slack + _NEAR) * self.base[0, 0]
        near[0] = True
        self._keep(np.flatnonzero(near))
        self._move(np.flatnonzero(~self._shared))
        self.is_linear = self._is_linear(corner, best[near])

    def _group(self, rows: IntArray) -> None:
        box = self.box
        rng = np.random.default_rng(_SEED)
        base = box.burdens(rows, box.typical)
        tables = [base, box.burdens(rows, box.corner(is_good=True))]
        tables.append(box.burdens(rows, box.low + rng.random(len(box)) * (box.high - box.low)))
        is_finite = np.isfinite(base).all(axis=1)
        self.rows = rows[is_finite]
        _, first, group = np.unique(
            np.hstack(tables)[is_finite], axis=0, return_index=True, return_inverse=True
        )
        order = np.argsort(first, kind="stable")
        self.first_row = first[order]
        self.group = np.argsort(order)[group.ravel()]
        self.base = base[is_finite][self.first_row]

    def _keep(self, groups: IntArray) -> None:
        """Leave out all other groups, and their designs."""
        number = np.full(len(self.base), -1)
        number[groups] = np.arange(len(groups))
        group = number[self.group]
        self.rows, self.group = self.rows[group >= 0], group[group >= 0]
        self.base, self.moved = self.base[groups], self.moved[:, :, groups]
        self.first_row = np.unique(self.group, return_index=True)[1]

    def _shared_constants(self) -> BoolArray:
        """(k,) True for constants on which the recommended design depends."""
        box, row = self.box, self.rows[:1]
        return np.array(
            [
                any(
                    (box.burdens(row, box.ends_at(k, side)) != self.base[0]).any()
                    for side in (0, 1)
                )
                for k in range(len(box))
            ]
        )

    def _move(self, constants: IntArray) -> None:
        """Fill the (k, 2, g, 1 + c) changes as one constant goes to an end."""
        places = list(product(constants.tolist(), (0, 1)))
        for k, side in counted(places, "ends of constants"):
            burdens = self.box.burdens(self.rows[self.first_row], self.box.ends_at(k, side))
            self.moved[k, side] = np.where(np.isfinite(burdens), burdens - self.base, np.inf)

    def _is_linear(self, corner: FloatArray, best: FloatArray) -> bool:
        """True if products are linear in the shared constants, the others at their good ends."""
        rng = np.random.default_rng(_SEED)
        some = np.unique(np.linspace(0, len(self.base) - 1, _SAMPLE).round().astype(np.int64))
        for _ in range(_POINTS):
            values, predicted = corner.copy(), best[some, 0]
            for k in np.flatnonzero(self._shared).tolist():
                side, along = int(rng.integers(0, 2)), float(rng.random())
                values[k] += along * (self.box.ends[k, side] - values[k])
                predicted = predicted + along * self.moved[k, side, some, 0]
            products = self.box.burdens(self.rows[self.first_row[some]], values)[:, 0]
            if (np.abs(predicted - products) > _LINEAR * products).any():
                return False
        return True

    def count_groups(self, has: BoolArray) -> tuple[BoolArray, BoolArray]:
        """(g,) groups that have a design with a decision, and that have one without it."""
        n = len(self.base)
        return np.bincount(self.group[has], minlength=n) > 0, np.bincount(
            self.group[~has], minlength=n
        ) > 0

    def products(self, way: Way, shares: FloatArray) -> FloatArray:
        """(s, g) products at shares of a way; infinite where a limit is broken."""
        change = sum((self.moved[k, side] for k, side in way), np.zeros(self.base.shape))
        tables = self.base + shares[:, None, None] * change
        is_kept = (tables[:, :, 1:] <= _ROUNDING).all(axis=2)
        return np.where(is_kept, tables[:, :, 0], np.inf)

    def margin(self, products: FloatArray, has: BoolArray, lacks: BoolArray) -> FloatArray:
        """(s,) relative lead of the best design without a decision, less the tolerance."""
        best = products[:, has].min(axis=1, initial=np.inf)
        rival = products[:, lacks].min(axis=1, initial=np.inf) * (1.0 + self.tolerance)
        with np.errstate(invalid="ignore"):
            margin = (best - rival) / self.base[0, 0]
        return np.where(np.isnan(margin), -np.inf, margin)

    def flip(self, way: Way, has: BoolArray, lacks: BoolArray, row_has: BoolArray) -> Flip | None:
        """The first flip along a way."""
        shares = np.linspace(0.0, 1.0, _STEPS + 1)
        flipped = np.flatnonzero(self.margin(self.products(way, shares), has, lacks) > _NEAR)
        if not len(flipped):
            return None
        high = float(shares[flipped[0]])
        low = float(shares[max(flipped[0] - 1, 0)])
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            products = self.products(way, np.array([middle]))
            if self.margin(products, has, lacks)[0] > _NEAR:
                high = middle
            else:
                low = middle
        products = np.where(lacks, self.products(way, np.array([high]))[0], np.inf)
        rival = np.flatnonzero((self.group == products.argmin()) & ~row_has)[0]
        return self._evaluated(way, high, self.rows[rival])

    def _evaluated(self, way: Way, share: float, row: IntArray) -> Flip:
        """A flip with its two designs evaluated."""
        values, numbers = self.box.typical, self.box.numbers
        for k, side in way:
            values[k] += share * (self.box.ends[k, side] - values[k])
        problem = self.box.problem_at(values)
        rows = np.stack([row, self.rows[0]])
        observed = problem.evaluate(rows, problem.deciding_metrics).objectives
        changes = tuple(Change(numbers[k], float(values[k])) for k, _ in way)
        return Flip(changes, share, row, observed[0], observed[1])

    def unmatched(self, has: BoolArray, lacks: BoolArray) -> IntArray:
        """Rivals without a decision for which no match in the whole box is proven.

        A match has the decision. Its lead at the typical constants outweighs all that it may lose
        over their ranges, and it keeps all limits that the rival keeps. The design itself matches
        wherever it keeps its limits; elsewhere :meth:`limits` tells.
        """
        rest, unproven = np.flatnonzero(lacks), []
        theirs = np.flatnonzero(has)
        rows = self.rows[self.first_row]
        rest = rest[~self._is_matched(rest, 0)]
        for _ in range(_MOST_MATCHES):
            if not len(rest):
                break
            hardest = int(rest[0])
            best = self.products(self.best_corner(hardest), np.ones(1))[0, theirs].argmin()
            most_alike = (rows[theirs] != rows[hardest]).sum(axis=1).argmin()
            for match in theirs[[best, most_alike]].tolist():
                rest = rest[~self._is_matched(rest, match)]
            if len(rest) and rest[0] == hardest:
                unproven.append(hardest)
                rest = rest[1:]
        return np.array([*unproven, *rest.tolist()], dtype=np.int64)

    def _is_matched(self, rivals: IntArray, match: int) -> BoolArray:
        """(r,) True for rivals that a group matches in the whole box."""
        scales = np.array([1.0 + self.tolerance, *np.ones(self.base.shape[1] - 1)])
        lead = scales * self.base[rivals] - self.base[match]
        change = scales * self.moved[:, :, rivals] - self.moved[:, :, [match]]
        lead += np.minimum(change.min(axis=1), 0.0).sum(axis=0)
        rise = np.maximum(self.moved[:, :, match, 1:].max(axis=1), 0.0).sum(axis=0)
        keeps = (lead[:, 1:] >= -_NEAR) | (self.base[match, 1:] + rise <= _ROUNDING)
        is_ahead = lead[:, 0] >= -_NEAR * self.base[0, 0]
        return np.asarray(is_ahead & (keeps.all(axis=1) | (match == 0)))

    def best_corner(self, group: int) -> Way:
        """The corner of the box at which a group has the largest lead over the design."""
        lead = self.moved[:, :, group, 0] - self.moved[:, :, 0, 0]
        sides = lead.argmin(axis=1)
        return tuple((k, int(side)) for k, side in enumerate(sides) if lead[k, side] < 0)

    def limits(self, names: Sequence[str]) -> Iterator[LimitBreak]:
        """The limits that the design breaks as one constant moves, the smallest change first."""
        excess, slopes = self.base[0, 1:], self.moved[:, :, 0, 1:]
        breaks = []
        for k, side, c in np.argwhere((excess <= 0) & (excess + slopes > _NEAR)).tolist():
            share = float(-excess[c] / slopes[k, side, c])
            typical = float(self.box.typical[k])
            value = typical + share * (float(self.box.ends[k, side]) - typical)
            breaks.append(LimitBreak(names[c], Change(self.box.numbers[k], value), share))
        yield from sorted(breaks, key=lambda limit_break: limit_break.share)


def _decision(leads: _Leads, trait: Trait) -> Decision:
    """A decision with the smallest change that flips it."""
    problem, row = leads.box.problem, leads.rows[0]
    row_has = trait.has(leads.rows, row)
    has, lacks = leads.count_groups(row_has)
    ties = leads.rows[(leads.group == 0) & ~row_has][:_MOST_TIES]
    breaks = _flips_by_one(leads, row_has)
    flip: Flip | None = breaks[0] if breaks else None
    verdict: Verdict = "flips by one"
    if flip is None:
        rest = leads.unmatched(has, lacks)
        flip, verdict = _flip_by_two(leads, has, lacks, row_has, rest), "flips by two"
        if flip is None:
            flip, verdict = _flip_by_several(leads, has, lacks, row_has, rest), "flips by several"
        if flip is None:
            is_proven = leads.is_linear and not len(rest)
            verdict = "holds everywhere" if is_proven else "holds as checked"
    return Decision(
        trait.name,
        trait.value(problem, row),
        tuple(dict.fromkeys(trait.value(problem, tie) for tie in ties)),
        verdict,
        flip,
        tuple(breaks),
        int((~row_has).sum()),
    )


def _flips_by_one(leads: _Leads, row_has: BoolArray) -> list[Flip]:
    """The flips along every constant, the smallest change first."""
    has, lacks = leads.count_groups(row_has)
    ways = product(range(len(leads.box)), (0, 1))
    flips = [leads.flip((way,), has, lacks, row_has) for way in ways]
    return sorted(filter(None, flips), key=lambda flip: flip.share)


def _flip_by_two(
    leads: _Leads, has: BoolArray, lacks: BoolArray, row_has: BoolArray, rest: IntArray
) -> Flip | None:
    """The smallest change of two constants, by equal shares of their ranges."""
    if not len(rest):
        return None
    end = np.ones(1)
    flips = []
    for (k, a), (j, b) in combinations(product(range(len(leads.box)), (0, 1)), 2):
        way = ((k, a), (j, b))
        if k != j and leads.margin(leads.products(way, end), has, lacks)[0] > _NEAR:
            flips.append(leads.flip(way, has, lacks, row_has))
    return min(filter(None, flips), key=lambda flip: flip.share, default=None)


def _flip_by_several(
    leads: _Leads, has: BoolArray, lacks: BoolArray, row_has: BoolArray, rest: IntArray
) -> Flip | None:
    """The flip nearest to the typical constants, on the way to the best corner of a rival."""
    lead = leads.moved[:, :, rest, 0] - leads.moved[:, :, :1, 0]
    nearest = np.argsort(leads.base[rest, 0] + lead.min(axis=1).clip(max=0).sum(axis=0))
    flips = []
    for group in rest[nearest[:_MOST_CORNERS]].tolist():
        way = leads.best_corner(group)
        if way and leads.margin(leads.products(way, np.ones(1)), has, lacks)[0] > _NEAR:
            flips.append(leads.flip(way, has, lacks, row_has))
    return min(filter(None, flips), key=lambda flip: flip.share, default=None)
