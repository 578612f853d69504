"""Decisions of the recommended design over the ranges of all constants.

A decision is a value of a parameter, or the kinds and the counts of a repeated part such as the
memory tiers. At some values of the constants it *flips* if keeping it costs more than a regret: a
design without it is preferred to every design that has it, by more than that share (see
:mod:`.recommendation`). Else it holds: near-ties change nothing that is worth a new decision.

The list of rivals is complete over a box (see :mod:`.box`), so everything here is arithmetic on
lists. As one constant moves over its range, the list is complete too, so flips by one constant are
those of the whole space. A decision holds in the whole box if, for every rival without it, some
design with it matches the rival there within the regret. Constants in which products are linear and
additive have the same value for both designs, so the smallest lead is at an end of each. As any
other constant moves, the rival counts with its best value and the match with its worst. A match
keeps all limits in the box. The recommended design need not: the limits that it breaks are reported
separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import Literal

import numpy as np

from codesign.base.columns import (
    ArrayPair,
    BoolArray,
    FloatArray,
    IntArray,
    IntegerPair,
    Strings,
    ValueTuple,
)
from codesign.base.loop_progress import counted
from codesign.base.records import frozen
from codesign.insight.decisions.box import MOST_RIVALS, Box, RivalList, box_of, rivals_over
from codesign.insight.decisions.recommendation import recommended_point
from codesign.insight.uncertainty.sweep import Sweep
from codesign.insight.uncertainty.uncertainty_results import RangedNumber
from codesign.search.enumeration import ExactFront
from codesign.search.enumeration.front_cache import front_path
from codesign.search.enumeration.within import Trait
from codesign.search.execution.executors import opened
from codesign.search.pareto import TOLERANCE
from codesign.search.problem import Problem

Verdict = Literal["holds everywhere", "holds in part", "flips by one", "flips by two"]
"""*holds everywhere* is proven. *holds in part* is proven for a share of all ranges, and no flip
was found along any constant, or at the ends of any two."""

REGRET = 0.05
"""Share that keeping a decision must cost before it flips: beyond near-ties. [ours]"""
_SEED = 0
_NEAR = 1e-9
_ROUNDING = 1e-13
_SHARES = np.linspace(0.0, 1.0, 33)
"""Shares of a way at which flips are searched for, before bisection. [ours]"""
_BISECTIONS = 30
_BESIDE = 1.05
"""Largest ratio to the design's product of the designs that are evaluated along a curve. [ours]"""
_MOST_BESIDE = 2000
"""Most such designs; if there are more, none is evaluated. [ours]"""
_MOST_TRIED = 12
"""Most ways of two constants that are searched for a flip, the nearest first. [ours]"""
_MOST_TIES = 40
_HALVES = 8
"""Boxes, each half of that before, in which a proof is tried with all rivals. [ours]"""
_MOST_MATCHES = 400
"""Designs tried as matches of rivals, each for the rival that is the hardest to match. [ours]"""

Way = tuple[IntegerPair, ...]
"""A way from the typical constants: position and end (0 low, 1 high) of each moving constant."""


@frozen
class Change:
    """A constant moved from its typical value."""

    number: RangedNumber
    value: float


@frozen
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


@frozen
class Decision:
    """A decision of the design.

    Attributes:
        name: The parameter; of a repeated part ``tier technology``.
        value: Its value; of a repeated part, one per repetition.
        as_good: Other values with which some design is as good at the typical constants.
        share: Share of all ranges around the typical values over which it is proven to hold.
        flip: The smallest change that flips it; None if none was found. A change of two constants
            compares listed designs: others may flip it sooner, or keep it.
        breaks: Constants that flip it alone, the smallest change first.
        n_rivals: Rivals without it in the list.
    """

    name: str
    value: ValueTuple
    as_good: tuple[ValueTuple, ...]
    verdict: Verdict
    share: float
    flip: Flip | None
    breaks: tuple[Flip, ...]
    n_rivals: int


@frozen
class LimitBreak:
    """The smallest change of one constant at which the design breaks a limit."""

    limit: str
    change: Change
    share: float


@frozen
class DecidedDesign:
    """A design with its decisions.

    Attributes:
        row: (d,) the design.
        objectives: (m,) minimized, at the typical constants.
        regret: Share by which a rival must be preferred.
        rivals: The list over the box.
        limits: Limits that the design breaks within the box.
    """

    problem: Problem
    row: IntArray
    objectives: FloatArray
    regret: float
    rivals: RivalList
    decisions: tuple[Decision, ...]
    limits: tuple[LimitBreak, ...]


def check_decidable(problem: Problem) -> None:
    """Check that decisions of a problem can be proven, before its front is looked for.

    Raises:
        InputError: The evaluator has no technologies.
    """
    Sweep(problem, problem.deciding_metrics)


def decisions_path(problem: Problem, tolerance: float, folder: Path) -> Path:
    """The file that stores the answer about the decisions of a problem."""
    return front_path(problem, folder, f"decisions by {tolerance}").with_suffix(".json")


def decide_front(
    problem: Problem,
    front: ExactFront,
    tolerance: float = TOLERANCE,
    folder: Path | None = None,
    regret: float = REGRET,
    workers: int = 1,
) -> DecidedDesign:
    """The decisions of the recommended design of an exact front.

    Args:
        tolerance: Share below which points are folded, or equal to the recommended one.
        regret: Share by which a rival must be preferred.
        folder: Folder that stores the designs that bounds could not exclude, for the next call.
        workers: Processes.

    Raises:
        InputError: No constant with a range matters, an objective is not positive, or the designs
            of the space cannot be listed.
    """
    rows = front.representatives()
    row = rows[[recommended_point(problem, front.objectives, tolerance)]]
    with opened(None, workers) as executor:
        box = box_of(problem, rows)
        traits = traits_of(problem)
        rivals = rivals_over(box, row, folder, MOST_RIVALS, traits, regret, executor)
        return decide(rivals, regret)


def _value(problem: Problem, trait: Trait, row: IntArray) -> ValueTuple:
    """The values of a trait of a design, without absent repetitions."""
    (design,) = problem.space.decode(row[None, :])
    names = [problem.space.names[column] for column in trait.columns.tolist()]
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
        if len(problem.space.parameters[part.columns[0, place]].values) > 1
    ]
    return [*singles, *members]


def decide(rivals: RivalList, regret: float) -> DecidedDesign:
    """Decide over a box which decisions of a design hold.

    Args:
        rivals: The complete list, the design first.
        regret: Share by which a rival must be preferred.
    """
    leads = _Leads(rivals.box, rivals.rows, regret)
    problem = rivals.box.problem
    row = rivals.rows[0]
    traits = traits_of(problem)
    shares = np.zeros(len(traits))
    halves = [rivals.share / 2**i for i in range(_HALVES)]
    boxes = [*rivals.wider[::-1], *((share, np.arange(len(traits)), row[None]) for share in halves)]
    for share, alive, rows in boxes:
        if not len(alive := alive[shares[alive] < share]):
            continue
        every = np.concatenate([rivals.rows, rows])
        bounds = _Leads(rivals.box.shrunk(share), every, regret, regret)
        for i in alive.tolist():
            proven = share * bounds.proven_share(traits[i].has(bounds.rows, row))
            shares[i] = max(shares[i], proven)
    leads.has = [trait.has(leads.rows, row) for trait in traits]
    leads.masks = list(map(leads.count_groups, leads.has))
    flips: list[list[Flip | None]] = [[] for _ in traits]
    for way in counted(list(product(range(len(leads.box)), (0, 1))), "ends of constants"):
        along = leads.products((way,), _SHARES)
        for i, breaks in enumerate(flips):
            breaks.append(leads.flip((way,), i, along=along))
    decisions = [
        _decision(leads, i, traits[i], shares.tolist()[i], list(filter(None, flips[i])))
        for i in counted(list(range(len(traits))), "decisions")
    ]
    observed = problem.evaluate(rivals.rows[:1], problem.deciding_metrics)
    return DecidedDesign(
        problem,
        row,
        observed.objectives[0],
        regret,
        rivals,
        tuple(decisions),
        tuple(leads.limits(observed.violation_names)),
    )


class _Leads:
    """Products of burdens of designs, and their changes as constants move.

    Designs with the same numbers at three values of the constants are one group of ``g``; the
    recommended design is in group 0. Tables have the product first, then the excess over limits.

    Args:
        lead: Share by which a group must be preferred to the design somewhere in the box.

    Attributes:
        has: For each decision, (n,) True for designs with it.
        masks: For each decision, groups that have a design with it, and that have one without it.
    """

    has: Sequence[BoolArray] = ()
    masks: Sequence[tuple[BoolArray, BoolArray]] = ()

    def __init__(self, box: Box, rows: IntArray, tolerance: float, lead: float = 0.0) -> None:
        self.box = box
        self.tolerance = tolerance
        self._exact: dict[tuple[Way, bytes], tuple[BoolArray, FloatArray]] = {}
        self._group(rows)
        self._group(self.rows[self._can_lead(lead)[self.group]])

    @cached_property
    def moved(self) -> FloatArray:
        """(k, 2, g, 1 + c) changes as one constant goes to an end, all others typical."""
        burdens = self.box.burdens_at_ends(self.rows[self.first_row])
        return np.where(np.isfinite(burdens), burdens - self.base, np.inf)

    def _group(self, rows: IntArray) -> None:
        box = self.box
        along = np.random.default_rng(_SEED).random((2, len(box)))
        points = box.low + along * (box.high - box.low)
        base, *tables = (box.burdens(rows, values) for values in (box.typical, *points))
        is_finite = np.isfinite(base).all(axis=1)
        self.rows = rows[is_finite]
        _, first, group = np.unique(
            np.hstack([base, *tables])[is_finite], axis=0, return_index=True, return_inverse=True
        )
        order = np.argsort(first, kind="stable")
        self.first_row = first[order]
        self.group = np.argsort(order)[group.ravel()]
        self.base = base[is_finite][self.first_row]

    def _can_lead(self, lead: float) -> BoolArray:
        """(g,) False for groups to which the design is preferred in the whole box."""
        box = self.box
        rows = self.rows[self.first_row]
        is_shared = (box.burdens_at_ends(rows[:1]) != self.base[0]).any(axis=(1, 2, 3))
        tied = np.flatnonzero(box.is_linear & is_shared)
        best, best_moved = self._bounds(rows, tied, is_good=True)
        worst, worst_moved = self._bounds(rows[:1], tied, is_good=False)
        reach = (1.0 + lead) * best[:, 0] - worst[0, 0]
        change = (1.0 + lead) * best_moved[..., 0] - worst_moved[..., 0]
        reach += change.min(axis=1).sum(axis=0)
        can_lead = reach <= (box.slack + _NEAR) * self.base[0, 0]
        can_lead[0] = True
        return np.asarray(can_lead)

    def _bounds(self, rows: IntArray, tied: IntArray, is_good: bool) -> ArrayPair:
        """(n, 1 + c) extremes, and (t, 2, n, 1 + c) changes as one tied constant goes to an end."""
        box = self.box
        fixed = np.full(len(box), np.nan)
        fixed[tied] = box.typical[tied]
        base = box.extremes(rows, is_good, fixed)
        moved = np.zeros((len(tied), 2, *base.shape))
        for i, k in enumerate(counted(tied.tolist(), "bounds of constants")):
            reach = box.ends[k] - fixed[k]
            values = fixed.copy()
            farthest = reach[np.abs(reach).argmax()]
            values[k] += farthest
            change = box.extremes(rows, is_good, values) - base
            moved[i] = np.nan_to_num(change, nan=0.0) * (reach / farthest)[:, None, None]
        return base, moved

    def count_groups(self, has: BoolArray) -> tuple[BoolArray, BoolArray]:
        """(g,) groups that have a design with a decision, and that have one without it."""
        n = len(self.base)
        return np.bincount(self.group[has], minlength=n) > 0, np.bincount(
            self.group[~has], minlength=n
        ) > 0

    def values_at(self, way: Way, share: float) -> FloatArray:
        """(k,) constants at a share of a way."""
        values = self.box.typical
        for k, side in way:
            values[k] += share * (self.box.ends[k, side] - values[k])
        return values

    @cached_property
    def pair_leads(self) -> dict[Way, FloatArray]:
        """(t,) lead of rivals for each decision at the end of each way of two constants."""
        ways = product(range(len(self.box)), (0, 1))
        pairs = ((way, then) for way, then in combinations(ways, 2) if way[0] != then[0])
        ends = ((pair, self.products(pair, np.ones(1), is_exact=False)) for pair in pairs)
        return {
            pair: np.concatenate([self.margin(end, *mask) for mask in self.masks])
            for pair, end in ends
        }

    def products(self, way: Way, shares: FloatArray, is_exact: bool = True) -> FloatArray:
        """(s, g) products at shares of a way; infinite where a limit is broken.

        The recommended design keeps its product: designs with larger products are not listed.

        Args:
            is_exact: False if changes by constants shall be linear and add up.
        """
        change = sum((self.moved[k, side] for k, side in way), np.zeros(self.base.shape))
        tables = self.base + shares[:, None, None] * change
        near = np.any(tables[:, :, 0] <= _BESIDE * tables[:, :1, 0], axis=0)
        is_curve = is_exact and not self.box.is_linear[[k for k, _ in way]].all()
        keeps = (tables[:, 0, 1:] <= _ROUNDING).all()
        if is_curve and keeps and near.sum() <= _MOST_BESIDE:
            key = way, shares.tobytes()
            if key not in self._exact:
                rows = self.rows[self.first_row[near]]
                points = (self.values_at(way, share) for share in shares.tolist())
                self._exact[key] = near, np.stack([self.box.burdens(rows, x) for x in points])
            near, exact = self._exact[key]
            tables[:] = np.inf
            tables[:, near] = exact
        is_kept = np.asarray((tables[:, :, 1:] <= _ROUNDING).all(axis=2))
        is_kept[:, 0] = True
        return np.where(is_kept, tables[:, :, 0], np.inf)

    def margin(self, products: FloatArray, has: BoolArray, lacks: BoolArray) -> FloatArray:
        """(s,) relative lead of the best design without a decision, less the tolerance."""
        # The design has the decision, so no group matters that is worse throughout.
        close = np.flatnonzero(products.min(axis=0) <= products[:, 0].max())
        products = products[:, close]
        has = has[close]
        lacks = lacks[close]
        best = products[:, has].min(axis=1, initial=np.inf)
        rival = products[:, lacks].min(axis=1, initial=np.inf) * (1.0 + self.tolerance)
        with np.errstate(invalid="ignore"):
            margin = (best - rival) / self.base[0, 0]
        return np.where(np.isnan(margin), -np.inf, margin)

    def flip(
        self, way: Way, trait: int, is_exact: bool = True, along: FloatArray | None = None
    ) -> Flip | None:
        """The first flip of a decision along a way.

        Args:
            along: (s, g) products at ``_SHARES`` of the way; computed if None.
        """
        has, lacks = self.masks[trait]
        along = self.products(way, _SHARES, is_exact) if along is None else along
        flipped = np.flatnonzero(self.margin(along, has, lacks) > _NEAR)
        if not len(flipped):
            return None
        low, high = _SHARES[[max(flipped[0] - 1, 0), flipped[0]]].tolist()
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            products = self.products(way, np.array([middle]), is_exact)
            is_flipped = self.margin(products, has, lacks)[0] > _NEAR
            low, high = (low, middle) if is_flipped else (middle, high)
        products = np.where(lacks, self.products(way, np.array([high]), is_exact)[0], np.inf)
        rival = np.flatnonzero((self.group == products.argmin()) & ~self.has[trait])[0]
        values = self.values_at(way, high)
        problem = self.box.problem_at(values)
        rows = self.rows[[rival, 0]]
        observed = problem.evaluate(rows, problem.deciding_metrics).objectives
        numbers = self.box.numbers
        changes = tuple(Change(numbers[k], float(values[k])) for k, _ in way)
        return Flip(changes, high, rows[0], observed[0], observed[1])

    def proven_share(self, row_has: BoolArray) -> float:
        """The largest share of the box over which a decision is proven to hold.

        For every rival without the decision, a match has it: its lead at the typical constants
        outweighs all that it may lose over their ranges, and it keeps all limits that the rival
        keeps. The design itself matches wherever it keeps its limits; elsewhere :meth:`limits`
        tells.
        """
        is_match, is_rival = self.count_groups(row_has)
        has = np.flatnonzero(is_match)
        lacks = np.flatnonzero(is_rival & ~is_match)
        shares = self._shares(lacks, np.zeros(1, np.int64))
        for _ in range(_MOST_MATCHES):
            if not len(lacks) or shares.min() >= 1.0:
                break
            hardest = shares.argmin()
            of_match = self._shares(lacks[[hardest]], has)
            if of_match.max() <= shares[hardest]:
                break
            shares = np.maximum(shares, self._shares(lacks, has[[of_match.argmax()]]))
        return float(shares.min(initial=1.0))

    def _shares(self, rivals: IntArray, matches: IntArray) -> FloatArray:
        """Shares of the box in which matches match rivals: one to many, many to one, in pairs."""
        scales = np.array([1.0 + self.tolerance, *np.ones(self.base.shape[1] - 1)])
        (best, gains), (worst, losses) = self._matching
        loss = (losses[:, :, matches] - scales * gains[:, :, rivals]).max(axis=1).sum(axis=0)
        rise = losses[:, :, matches, 1:].max(axis=1, initial=0.0).sum(axis=0)
        room = scales * best[rivals] - worst[matches] + _NEAR
        room[:, 0] += (_NEAR - self.box.slack) * self.base[0, 0] - _NEAR
        shares = _share(room, loss)
        keeps = np.where(matches[:, None], _share(_ROUNDING - worst[matches, 1:], rise), np.inf)
        shares[:, 1:] = np.maximum(shares[:, 1:], keeps)
        return np.asarray(shares.min(axis=1))

    @cached_property
    def _matching(self) -> tuple[ArrayPair, ArrayPair]:
        """Bounds of rivals at their best, and of matches at their worst."""
        rows = self.rows[self.first_row]
        tied = np.flatnonzero(self.box.is_linear)
        best, worst = (self._bounds(rows, tied, is_good) for is_good in (True, False))
        return best, worst

    def limits(self, names: Strings) -> Iterator[LimitBreak]:
        """The limits that the design breaks as one constant moves, the smallest change first."""
        excess = self.base[0, 1:]
        slopes = self.moved[:, :, 0, 1:]
        breaks = []
        for k, side, c in np.argwhere((excess <= 0) & (excess + slopes > _NEAR)).tolist():
            share = float(-excess[c] / slopes[k, side, c])
            value = float(self.values_at(((k, side),), share)[k])
            breaks.append(LimitBreak(names[c], Change(self.box.numbers[k], value), share))
        yield from sorted(breaks, key=lambda limit_break: limit_break.share)


def _share(room: FloatArray, loss: FloatArray) -> FloatArray:
    """The share of a loss for which there is room."""
    return np.where(room >= 0, room / np.maximum(loss, 1e-300), 0.0)


def _decision(
    leads: _Leads, number: int, trait: Trait, proven_share: float, flips: Sequence[Flip]
) -> Decision:
    """A decision with the smallest change that flips it.

    Args:
        flips: Flips by one constant.
    """
    problem = leads.box.problem
    row = leads.rows[0]
    lacks = ~leads.has[number]
    ties = leads.rows[(leads.group == 0) & lacks][:_MOST_TIES]
    breaks = sorted(flips, key=lambda flip: flip.share)
    flip = next(iter(breaks), None)
    verdict: Verdict = "flips by one"
    if proven_share == 1.0:
        verdict = "holds everywhere"
    elif flip is None:
        pairs = (pair for pair, ends in leads.pair_leads.items() if ends[number] > _NEAR)
        linear = ((leads.flip(pair, number, is_exact=False), pair) for pair in pairs)
        nearest = sorted((flip.share, pair) for flip, pair in linear if flip)
        pair_flips = [leads.flip(pair, number) for _, pair in nearest[:_MOST_TRIED]]
        flip = min(filter(None, pair_flips), key=lambda flip: flip.share, default=None)
        verdict = "flips by two" if flip else "holds in part"
    return Decision(
        trait.name,
        _value(problem, trait, row),
        tuple(dict.fromkeys(_value(problem, trait, tie) for tie in ties)),
        verdict,
        proven_share,
        flip,
        tuple(breaks),
        int(lacks.sum()),
    )
