"""Constants that matter to a recommended design, and every rival of it over their ranges.

A rival is a design with a smaller product of burdens than the recommended one, by which the rule of
:mod:`.recommendation` prefers it. The list of :func:`rivals_over` has every design that is a rival
anywhere in the box of ranges. Three facts make it short:

- An objective or limit of a design is monotone in each constant. So no rival is better than with
  each objective at the ends that are good for it, and the design is no worse than at the bad ends.
- Where the product is linear in a constant, so is the lead of a rival. A rival within the range is
  then a rival at one of its ends, where both designs have the same value of the constant.
- A decision is threatened only by rivals without it.

The first fact bounds the box at once. By the second, a design must also reach the target of a face:
the box with some constants, on which the design depends, at an end. By the third, the search goes
on without those decisions that have too many rivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from codesign.base.columns import (
    BoolArray,
    FloatArray,
    Floats,
    IntArray,
    StringList,
)
from codesign.base.errors import InputError
from codesign.base.files import replacing
from codesign.base.loop_progress import OutOfTimeError, counted
from codesign.base.records import frozen
from codesign.insight.decisions.recommendation import burdens_of, is_positive
from codesign.insight.uncertainty.sweep import Sweep
from codesign.insight.uncertainty.uncertainty_results import RangedNumber
from codesign.search.enumeration import enumerate_front, exact_front
from codesign.search.enumeration.front_cache import front_path
from codesign.search.enumeration.within import (
    EVERY,
    Region,
    Trait,
    Within,
    designs_within,
    is_within,
    roots_within,
    systems_within,
)
from codesign.search.problem import Problem

MOST_RIVALS = 120_000
"""Number of designs above which a decision is given up, or the box is shrunk. [ours]"""
_MOST_BOUNDED = 20_000_000
"""Number of partial designs after which no further box is searched: minutes. [ours]"""
_LEAST_SHARE, _SMALLEST_SHARE = 1 / 16, 1e-3
"""Share of the ranges that is searched first, and share below which none is. [ours]"""
_MOST_ALONG = 30_000_000
"""Number of partial designs after which no further group of constants is searched. [ours]"""
_MOST_OF_GROUP, _MOST_OF_CONSTANT = _MOST_ALONG // 12, _MOST_ALONG // 6
"""Number of partial designs after which the search of a group, or of one constant, stops. [ours]"""
_GROUPED = 0.02
"""Change of products by constants that are searched together. [ours]"""
_MOST_SPLITS = 3
"""Number of constants at whose ends a box has faces. [ours]"""
_SAMPLE = 256
_FEW = 64
_SEED = 0
_SAME = 1e-9
_WRONG_WAY = 0.005
"""Largest share by which the good end of a constant may be worse for some design. [ours]"""


@frozen
class Box:
    """Ranges of ``k`` constants on which the objectives or limits of a problem depend.

    Attributes:
        sweep: The problem at given values of all its constants.
        places: (k,) their positions among the constants of the sweep.
        low: (k,) lower ends.
        high: (k,) upper ends.
        effects: (k, m + c) by objective and limit: 1 if less of a constant is better, -1 if more
            is, 0 if neither matters, NaN if it depends on the design.
        is_linear: (k,) True if products and limits are linear in the constant, and additive with
            the others that are, on a sample of designs.
        rows: (n, d) designs that are known, such as those of a front.
        slack: Sum of the shares by which good ends were worse than bad ones, on the sample.
        unmoved: Constants that stay typical: their effect on metrics has no single direction.
    """

    sweep: Sweep
    problem: Problem
    places: IntArray
    low: FloatArray
    high: FloatArray
    effects: FloatArray
    is_linear: BoolArray
    rows: IntArray
    slack: float = 0.0
    unmoved: tuple[RangedNumber, ...] = ()

    def __len__(self) -> int:
        return len(self.places)

    @property
    def typical(self) -> FloatArray:
        """(k,) typical values."""
        return self.sweep.typical[self.places]

    @property
    def numbers(self) -> list[RangedNumber]:
        """The constants."""
        return [self.sweep.numbers[place] for place in self.places.tolist()]

    @property
    def untied(self) -> list[RangedNumber]:
        """The constants in which products are not linear."""
        return [self.numbers[k] for k in np.flatnonzero(~self.is_linear).tolist()]

    @property
    def ends(self) -> FloatArray:
        """(k, 2) low and high ends."""
        return np.stack([self.low, self.high], axis=1)

    @property
    def signs(self) -> FloatArray:
        """(v, k) corners, such that each objective and limit of any design is best at one."""
        return np.array([signs for signs, _ in self.corners])

    @cached_property
    def corners(self) -> list[tuple[FloatArray, StringList]]:
        """(k,) signs of constants, and the metrics of the objectives and limits that are best."""
        limits = [list(limit.expression.names) for limit in self.problem.constraints_on_metrics]
        names = [[name] for name in self.problem.objective_names]
        names += [[]] * (self.effects.shape[1] - len(names) - len(limits))
        corners: list[tuple[FloatArray, StringList]] = []
        for column, metrics in zip(self.effects.T, [*names, *limits], strict=True):
            for end in (-1.0, 1.0):
                ends = np.nan_to_num(column, nan=end)
                alike = (corner for corner in corners if (corner[0] * ends >= 0).all())
                if (corner := next(alike, None)) is None:
                    corners.append(corner := (np.zeros(len(ends)), []))
                np.copyto(corner[0], ends, where=corner[0] == 0)
                corner[1].extend(metrics)
        return corners

    def problems(self, is_good: bool, fixed: Floats = np.nan) -> list[Problem]:
        """The problem at each corner, or with the ends that are bad there.

        Args:
            fixed: (k,) values of some constants; the others are NaN.
        """
        ends = np.where((self.signs > 0) == is_good, self.low, self.high)
        return [self.problem_at(np.where(np.isnan(fixed), end, fixed)) for end in ends]

    def region(self, row: IntArray, lead: float = 0.0, fixed: Floats = np.nan) -> Region:
        """The designs that may be preferred to a (1, d) design, by a lead, somewhere in the box."""
        target = float(self.extremes(row, False, fixed)[0, 0])
        target *= (1.0 + self.slack + _SAME) / (1.0 + lead)
        is_moved = (~np.isnan(fixed) & (self.signs != 0)).any(axis=1)
        ends = zip(self.best_problems, self.problems(True, fixed), is_moved, strict=True)
        problems = [moved if is_moved else best for best, moved, is_moved in ends]
        best = list(zip(problems, [metrics for _, metrics in self.corners], strict=True))
        return best, partial(_reaches, self.problem, target)

    @cached_property
    def best_problems(self) -> list[Problem]:
        """The problems at the good ends."""
        return self.problems(True)

    def problem_at(self, values: FloatArray) -> Problem:
        """The problem with the (k,) constants at these values."""
        every = self.sweep.typical.copy()
        every[self.places] = values
        return replace(self.problem, evaluator=self.sweep.evaluator_at(every))

    def burdens(self, rows: IntArray, values: FloatArray) -> FloatArray:
        """(n, 1 + c) products and relative excesses, with the constants at ``values``."""
        return _multiplied(self.problem, _table(self.problem_at(values), rows))

    def burdens_at_ends(self, rows: IntArray) -> FloatArray:
        """(k, 2, n, 1 + c) the same with one constant at its low or high end, others typical."""
        is_moved = np.eye(len(self), dtype=bool)[:, None]
        points = np.where(is_moved, self.ends[:, :, None], self.typical)
        pairs = counted(list(points), "ends of constants")
        return np.array([[self.burdens(rows, values) for values in pair] for pair in pairs])

    def swings(self, rows: IntArray) -> FloatArray:
        """(k,) largest relative change of a product of (n, d) designs as one constant moves."""
        base = self.burdens(rows, self.typical)
        change = relative_change(base, self.burdens_at_ends(rows))[..., 0]
        return np.asarray(np.abs(change).max(axis=(1, 2)))

    def moving(self, places: IntArray) -> Box:
        """The box of the constants at these places; the others are typical."""
        return self.shrunk(np.isin(np.arange(len(self)), places).astype(float))

    def leads(self, row: IntArray, lead: float) -> BoolArray:
        """(k, n) True where a known design may be preferred to a (1, d) design along a constant.

        Limits and leads are those at the ends where products are linear, and bounds elsewhere.
        """
        burdens = self.burdens_at_ends(np.concatenate([row, self.rows]))
        leads = (1.0 + lead) * burdens[:, :, 1:, 0] <= burdens[:, :, :1, 0]
        leads &= (burdens[:, :, 1:, 1:] <= 0).all(axis=3)
        moved = np.asarray(leads.any(axis=1))
        for k in np.flatnonzero(~self.is_linear):
            moved[k] = is_within(self.moving(np.array([k])).region(row, lead), self.rows)
        return moved

    def extremes(self, rows: IntArray, is_good: bool, fixed: Floats = np.nan) -> FloatArray:
        """(n, 1 + c) products and excesses, each objective and limit at its best, or its worst."""
        tables = [_table(problem, rows) for problem in self.problems(is_good, fixed)]
        extreme = np.minimum if is_good else np.maximum
        return _multiplied(self.problem, extreme.reduce(tables))

    def shrunk(self, share: Floats) -> Box:
        """The box whose ends lie at this share, or at (k,) shares, of the way from typical values.

        At the square of it for constants whose good end depends on the corner: their bounds are the
        loosest.
        """
        shares = np.where(np.ptp(self.signs, axis=0) > 1, share**2, share)
        low, high = (self.typical + shares * (end - self.typical) for end in (self.low, self.high))
        effects = np.where((shares > 0)[:, None], self.effects, 0.0)
        return replace(self, low=low, high=high, effects=effects)


def _table(problem: Problem, rows: IntArray) -> FloatArray:
    """(n, m + c) burdens and relative excesses of designs; infinite where there is no result."""
    observed = problem.evaluate(rows, problem.deciding_metrics)
    burdens = np.maximum(burdens_of(observed.objectives, problem.senses), 0.0)
    table = np.column_stack([burdens, observed.violations])
    return np.where(np.isnan(table), np.inf, table)


def _multiplied(problem: Problem, table: FloatArray) -> FloatArray:
    burdens, excess = np.split(table, [len(problem.objectives)], axis=1)
    return np.column_stack([burdens.prod(axis=1), excess])


def product_of(problem: Problem, objectives: FloatArray) -> FloatArray:
    """(n,) product of the burdens of (n, m) minimized objectives."""
    burdens = np.maximum(burdens_of(objectives, problem.senses), 0.0)
    return np.asarray(burdens.prod(axis=1))


def box_of(problem: Problem, rows: IntArray) -> Box:
    """The constants that move an objective or a limit of some design.

    Whether a constant matters, which of its ends is the good one, and whether it acts linearly is
    read from a sample of the space and the given designs.

    Args:
        rows: (n, d) designs, such as those of a front.

    Raises:
        InputError: No constant has a range on which the objectives depend, or an objective is not
            positive.
    """
    sweep = Sweep(problem, problem.deciding_metrics)
    observed = problem.evaluate(rows, problem.deciding_metrics)
    if not is_positive(observed.objectives, problem.senses):
        raise InputError(
            "decisions compare designs by percents: expected objectives above 0, got "
            f"{' or '.join(problem.objective_names)} of 0 or less"
        )
    sample = problem.space.sample(np.random.default_rng(_SEED), _SAMPLE)
    designs = np.concatenate([rows, sample])
    m = len(problem.objectives)
    span, slack = sweep.high - sweep.low, 0.0
    listed, unmoved = [], []
    has_mixed = bool(problem.space.pools)
    for place in sweep.moving(designs):
        is_moved = np.arange(len(sweep.numbers)) == place
        points = (
            np.where(is_moved, sweep.low + side * span, sweep.typical) for side in (0, 0.5, 1)
        )
        problems = (replace(problem, evaluator=sweep.evaluator_at(point)) for point in points)
        tables = [_table(varied, designs) for varied in problems]
        is_linear = not relative_change((tables[0] + tables[2]) / 2, tables[1]).any()
        for table in tables:  # the ratio to the limit, where it is broken
            table[:, m:] = 1.0 + np.maximum(table[:, m:], 0.0)
        change = np.stack([relative_change(*pair) for pair in pairwise(tables)])
        if not change.any():
            continue
        moves = change[..., :m].any(axis=(0, 1))
        if problem.space.pools:  # metrics of systems are composed at one corner
            change = np.repeat(change.reshape(2, -1, 1), change.shape[2], axis=2)
        rises, falls = change.max(axis=0), -change.min(axis=0)
        turns = np.minimum(rises, falls).max()
        rises, falls = rises.max(axis=0), falls.max(axis=0)
        wrong = np.minimum(rises, falls)
        is_mixed = wrong > _WRONG_WAY
        if turns > _WRONG_WAY or (has_mixed and is_mixed.any()):
            unmoved.append(sweep.numbers[place])
            continue
        has_mixed |= bool(is_mixed.any())
        slack += float(wrong.max(where=~is_mixed, initial=0.0))
        signs = np.where(is_mixed, np.nan, np.sign(rises - falls))
        listed.append((place, signs, is_linear and moves.sum() < 2, moves))
    if not listed:
        raise InputError(
            f"no constant with a range moves {' or '.join(problem.deciding_metrics)} in one "
            "direction; expected an objective that depends on a memory technology or an account, "
            "such as tdp_watts"
        )
    places, signs, linear, moves = map(np.array, zip(*listed, strict=True))
    # Products of linear objectives are linear and additive if only one of them moves.
    main = moves[linear].sum(axis=0).argmax()
    box = Box(
        sweep,
        problem,
        places,
        sweep.low[places],
        sweep.high[places],
        signs,
        linear & (moves.sum(axis=1) == moves[:, main]),
        rows,
        slack,
        tuple(unmoved),
    )
    while (interaction := _interaction(box, sample[:_FEW])).any():
        linear = np.flatnonzero(box.is_linear)
        box.is_linear[linear[interaction > interaction.max() / 2]] = False
    return box


def _interaction(box: Box, rows: IntArray) -> FloatArray:
    """(t,) share of a product by which the effect of a linear constant depends on the others."""
    good, bad = (np.where(box.is_linear, end, np.nan) for end in (box.low, box.high))

    def products(first: FloatArray, second: FloatArray) -> FloatArray:
        """Sum of the products at both values of the linear constants, all others good."""
        return (box.extremes(rows, True, first) + box.extremes(rows, True, second))[:, :1]

    mixed = []
    for k in np.flatnonzero(box.is_linear):
        is_moved = np.arange(len(box)) == k
        mixed.append(products(np.where(is_moved, bad, good), np.where(is_moved, good, bad)))
    ends = products(good, bad)
    return np.array([np.abs(relative_change(ends, x)).max() for x in mixed])


def relative_change(base: FloatArray, burdens: FloatArray) -> FloatArray:
    """(n, c) relative changes; 0 where they are rounding, or a design has no result."""
    is_finite = np.isfinite(base) & np.isfinite(burdens)
    before, after = (np.where(is_finite, table, 1.0) for table in (base, burdens))
    change = (after - before) / np.maximum(np.abs(before), 1e-300)
    return np.where(np.abs(change) > _SAME, change, 0.0)


@frozen
class RivalList:
    """Every rival of a design in a share of a box.

    Attributes:
        box: The box of the stated ranges.
        share: Share of these ranges; below 1 if the stated ranges left too many designs.
        rows: (n, d) distinct designs, the design itself first. They include the designs that are
            better along one constant, if one of these is by more than the tolerance.
        n_searches: Searches of the space, for this share and others.
        wider: Larger boxes: the share, positions of decisions, and every rival without one of
            these.
        unlisted: Constants along which designs are too many, or not searched yet.
        is_partial: True if the search was stopped before all constants and larger boxes.
    """

    box: Box
    share: float
    rows: IntArray
    n_searches: int
    wider: tuple[tuple[float, IntArray, IntArray], ...] = ()
    unlisted: tuple[RangedNumber, ...] = ()
    is_partial: bool = False


def rivals_over(
    box: Box,
    row: IntArray,
    folder: Path | None = None,
    most: int = MOST_RIVALS,
    traits: Sequence[Trait] = (),
    tolerance: float = 0.0,
    executor: Executor | None = None,
) -> RivalList:
    """Every rival of one design over the largest box that leaves few enough of them.

    The share of the ranges is doubled while all rivals can be listed, and then while those without
    some decision can. If the least share has too many, it is halved instead. The work is limited by
    the number of partial designs bounded, so the share does not depend on the machine.

    Args:
        row: (1, d) the design.
        folder: Folder that stores the designs of each box, for the next call.
        most: Number of designs above which the decision with the most rivals is given up.
        traits: The decisions.
        tolerance: Share by which a rival without a decision must be preferred.
        executor: Place of the searches; this process if None.

    Raises:
        InputError: Too many designs are as good as the design at its typical constants.
    """
    n_searches = 0
    swings, roots = box.swings(row), _stored_roots(box, row, folder, executor)
    find = partial(
        _searched, row=row, swings=swings, folder=folder, most=most, roots=roots, executor=executor
    )

    def search(*inputs: Any) -> Within:
        nonlocal n_searches
        n_searches += 1
        return find(*inputs)

    every = [EVERY, *traits]
    alive = np.arange(len(every))
    share, budget = _LEAST_SHARE, _MOST_BOUNDED
    while not (within := search(box.shrunk(share), budget, every[:1])).alive[0]:
        if share < _SMALLEST_SHARE:
            raise InputError(
                f"more than {most:,} designs match the recommended one even near the typical "
                "constants; expected tighter limits, or fewer values of a parameter"
            )
        share /= 2.0
        alive = np.arange(1, len(every))
    listed = (share, within.rows)
    wider = []
    along = []
    is_unlisted = np.ones(len(box), bool)
    is_partial = True
    try:
        for group, moved in _alone(box, row, within.rows, search, tolerance):
            along.append(moved)
            is_unlisted[group] = False
        # A doubled box has more than twice as many partial designs to bound.
        while (share := 2.0 * share) <= 1.0 and len(alive) and 2 * within.n_bounded < budget:
            lead = 0.0 if alive[0] == 0 else tolerance
            within = search(box.shrunk(share), budget, [every[t] for t in alive], lead)
            budget -= within.n_bounded
            alive = alive[within.alive]
            if 0 in alive:
                listed = share, within.rows
            else:
                wider.append((share, alive - 1, within.rows))
        is_partial = False
    except (OutOfTimeError, KeyboardInterrupt):
        pass
    share, rows = listed
    rows = np.concatenate([row, rows, *along])
    _, first = np.unique(box.problem.space.keys(rows), return_index=True)
    unlisted = tuple(box.numbers[k] for k in np.flatnonzero(is_unlisted))
    rows = rows[np.sort(first)]
    return RivalList(box, share, rows, n_searches, tuple(wider), unlisted, is_partial)


def _stored_roots(
    box: Box, row: IntArray, folder: Path | None, executor: Executor | None
) -> IntArray | None:
    """Roots that may have a rival somewhere in the box; None for systems."""
    if box.problem.space.pools:
        return None

    def search() -> Within:
        return Within(roots_within(box.region(row), executor), np.ones(1, bool), 0)

    key = f"roots of rivals of {row.tolist()} within {box.ends.tolist()}"
    return _stored(box.problem, folder, key, search).rows


def _alone(
    box: Box, row: IntArray, rows: IntArray, search: Callable[..., Within], lead: float
) -> Iterator[tuple[IntArray, IntArray]]:
    """Constants, with all designs that are better along each; with none if none leads.

    Constants of small effect come first, in groups: most belong to one with few rivals, and for
    most of these constants none of the rivals is better as that constant moves alone.

    Args:
        rows: (n, d) designs whose effects order the constants.
        lead: Share by which a rival must be preferred.
    """
    swings = box.swings(rows[:: len(rows) // _FEW + 1])
    order = np.argsort(swings)
    places = np.floor(np.cumsum(swings[order]) / _GROUPED)
    pending = np.split(order, np.flatnonzero(np.diff(places)) + 1)
    budget = _MOST_ALONG
    is_led = np.asarray(box.leads(row, lead).any(axis=1))

    def suspects(group: IntArray) -> IntArray | None:
        """Constants that rivals may lead along; None if the rivals of the group are too many."""
        nonlocal budget
        if is_led[group].any():
            return group if len(group) == 1 else None
        within = search(box.moving(group), _MOST_OF_GROUP, [EVERY], lead)
        budget -= within.n_bounded
        if not within.alive[0]:
            return None
        regions = [box.moving(k).region(row, lead) for k in group]
        return group[[is_within(region, within.rows).any() for region in regions]]

    while pending and budget > 0:
        group = pending.pop(0)
        if (few := suspects(group)) is None:
            pending[:0] = np.array_split(group, 2) if len(group) > 1 else []
            continue
        yield np.setdiff1d(group, few), rows[:0]
        for k in few:
            if budget <= 0:
                return
            within = search(box.moving(k), _MOST_OF_CONSTANT, [EVERY])
            budget -= within.n_bounded
            if within.alive[0]:
                yield np.array([k]), within.rows


def _searched(
    box: Box, budget: int, traits: Sequence[Trait], lead: float = 0.0, *,
    row: IntArray, swings: FloatArray, folder: Path | None, most: int,
    roots: IntArray | None = None, executor: Executor | None = None,
) -> Within:  # fmt: skip
    """The rivals in a box, from their file if they are stored.

    Args:
        swings: (k,) effects of constants on the design; the largest that are linear have faces.
    """

    def search() -> Within:
        if box.problem.space.pools:
            find = partial(exact_front, folder=folder) if folder else enumerate_front
            return systems_within(
                box.region(row, lead), box.problem, box.problems(is_good=False)[0], box.slack,
                find, row[0], traits, most, budget, executor,
            )  # fmt: skip
        effects = np.where(box.is_linear & (box.low < box.high), swings, 0.0)
        order = np.argsort(-effects, kind="stable")[:_MOST_SPLITS]
        regions = []
        for ends in [(), *product(*(box.ends[k] for k in order if effects[k] > 0))]:
            fixed = np.full(len(box), np.nan)
            fixed[order[: len(ends)]] = ends
            regions.append(box.region(row, lead, fixed))
        return designs_within(regions, row[0], traits, most, budget, roots, executor)

    names = [trait.name for trait in traits]
    key = f"rivals of {row.tolist()} within {box.ends.tolist()}: {lead, names, most, budget}"
    return _stored(box.problem, folder, key, search)


def _stored(
    problem: Problem, folder: Path | None, key: str, search: Callable[[], Within]
) -> Within:
    """The designs that a search finds, from their file if there is one."""
    if folder is None:
        return search()
    path = front_path(problem, folder, key)
    path = path.with_name(path.name.replace("exact-", "within-"))
    if path.exists():
        with np.load(path) as stored:
            return Within(stored["rows"], stored["alive"], int(stored["n_bounded"]))
    within = search()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, **within._asdict())
    return within


def _reaches(problem: Problem, target: float, objectives: FloatArray) -> BoolArray:
    return product_of(problem, objectives) <= target
