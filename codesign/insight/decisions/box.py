"""Constants that matter to a recommended design, and every rival of it over their ranges.

A rival is a design with a smaller product of burdens than the recommended one, by which the rule of
:mod:`.recommendation` prefers it. The list of :func:`rivals_over` has every design that is a rival
anywhere in the box of ranges. Two facts make it short:

- A metric is monotone in each constant. So no rival is better than with every constant at its good
  end, and the design is no worse than with every constant at its bad end.
- Where the product is linear in a constant, so is the lead of a rival. A rival within the range is
  then a rival at one of its ends, where both designs have the same value of the constant.

The first fact bounds a box at once. If too many designs remain, the second fact allows a split: two
faces replace the box, at the ends of one constant on which the design depends, and each face is
bounded alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.base.errors import InputError
from codesign.base.files import replacing
from codesign.insight.decisions.recommendation import burdens_of, is_positive
from codesign.insight.uncertainty.sweep import Sweep
from codesign.insight.uncertainty.uncertainty_results import CONSTANTS, RangedNumber
from codesign.search.enumeration.front_cache import front_path
from codesign.search.enumeration.within import designs_within
from codesign.search.problem import Problem

MOST_RIVALS = 120_000
"""Number of designs above which a box is split or shrunk. [ours]"""
_MOST_BOUNDED = 20_000_000
"""Number of partial designs after which no further part of a box is searched: minutes. [ours]"""
_LEAST_SHARE, _SMALLEST_SHARE = 1 / 8, 1e-3
"""Share of the ranges that is searched first, and share below which none is. [ours]"""
_MOST_SPLITS = 4
"""Number of constants at whose ends a box is split. [ours]"""
_SAMPLE, _SEED = 256, 0
_SAME = 1e-9
_WRONG_WAY = 0.005
"""Largest share by which the good end of a constant may be worse for some design. [ours]"""


@dataclass(frozen=True)
class Box:
    """Ranges of ``k`` constants on which the objectives or limits of a problem depend.

    Attributes:
        sweep: The problem at given values of all its constants.
        places: (k,) their positions among the constants of the sweep.
        low: (k,) lower ends.
        high: (k,) upper ends.
        good_is_low: (k,) True if less of the constant is better.
        is_linear: (k,) True if products are linear in the constant, on a sample of designs.
        slack: Largest share by which the good end was worse than the bad one, on the sample.
        unmoved: Constants that stay typical, because neither end is good for every design.
    """

    sweep: Sweep
    problem: Problem
    places: IntArray
    low: FloatArray
    high: FloatArray
    good_is_low: BoolArray
    is_linear: BoolArray
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
    def ends(self) -> FloatArray:
        """(k, 2) low and high ends."""
        return np.stack([self.low, self.high], axis=1)

    def corner(self, is_good: bool) -> FloatArray:
        """(k,) the good ends, or the bad ones."""
        return np.where(self.good_is_low == is_good, self.low, self.high)

    def ends_at(self, k: int, side: int) -> FloatArray:
        """(k,) typical values, one constant at its low (0) or high (1) end."""
        values = self.typical
        values[k] = self.ends[k, side]
        return values

    def problem_at(self, values: FloatArray) -> Problem:
        """The problem with the (k,) constants at these values."""
        every = self.sweep.typical.copy()
        every[self.places] = values
        return replace(self.problem, evaluator=self.sweep.evaluator_at(every))

    def burdens(self, rows: IntArray, values: FloatArray) -> FloatArray:
        """(n, 1 + c) products and relative excesses, with the constants at ``values``.

        Infinite where a design has no result.
        """
        problem = self.problem_at(values)
        observed = problem.evaluate(rows, problem.deciding_metrics)
        products = product_of(problem, observed.objectives)
        return np.nan_to_num(np.column_stack([products, observed.violations]), nan=np.inf)

    def shrunk(self, share: float) -> Box:
        """The box whose ends lie at this share of the way from the typical values."""
        low, high = (self.typical + share * (end - self.typical) for end in (self.low, self.high))
        return replace(self, low=low, high=high)


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
    n = len(sweep.numbers)
    every = Box(
        sweep, problem, np.arange(n), sweep.low, sweep.high, np.ones(n, bool), np.ones(n, bool)
    )
    front = problem.evaluate(rows, problem.deciding_metrics).objectives
    if not is_positive(front, problem.senses):
        raise InputError(
            "decisions compare designs by percents: expected objectives above 0, got "
            f"{' or '.join(problem.objective_names)} of 0 or less"
        )
    sample = problem.space.sample(np.random.default_rng(_SEED), _SAMPLE)
    rows = np.concatenate([rows, sample])
    base = every.burdens(rows, sweep.typical)
    listed = []
    unmoved, slack = [], 0.0
    for group in _groups(sweep.numbers):
        if len(group) > 1 and not any(
            relative_change(base, every.burdens(rows, _moved(sweep, group, side))).any()
            for side in (0, 1)
        ):
            continue
        for place in group:
            low, middle, high = (
                every.burdens(rows, _moved(sweep, [place], side)) for side in (0, 0.5, 1)
            )
            change = relative_change(low, high)
            rises, falls = float(change.max()), float(-change.min())
            if max(rises, falls) == 0.0:
                continue
            if min(rises, falls) > _WRONG_WAY:
                unmoved.append(sweep.numbers[place])
                continue
            slack = max(slack, min(rises, falls))
            is_linear = not relative_change((low + high)[:, :1] / 2, middle[:, :1]).any()
            listed.append((place, rises > falls, is_linear))
    if not listed:
        raise InputError(
            f"no constant with a range moves {' or '.join(problem.deciding_metrics)}; expected an "
            "objective that depends on a memory technology or an account, such as tdp_watts"
        )
    places = np.array([place for place, _, _ in listed])
    return replace(
        every,
        places=places,
        low=sweep.low[places],
        high=sweep.high[places],
        good_is_low=np.array([good_is_low for _, good_is_low, _ in listed]),
        is_linear=np.array([is_linear for _, _, is_linear in listed]),
        slack=slack,
        unmoved=tuple(unmoved),
    )


def _groups(numbers: Sequence[RangedNumber]) -> list[list[int]]:
    """Groups of positions: one per technology, and one per constant of all designs."""
    groups: dict[str, list[int]] = {}
    for place, number in enumerate(numbers):
        key = f"{CONSTANTS} {place}" if number.technology == CONSTANTS else number.technology
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _moved(sweep: Sweep, places: Sequence[int], side: float) -> FloatArray:
    """Typical values, with the constants at ``places`` moved to a share of their range."""
    values = sweep.typical.copy()
    moved = list(places)
    values[moved] = sweep.low[moved] + side * (sweep.high[moved] - sweep.low[moved])
    return values


def relative_change(base: FloatArray, burdens: FloatArray) -> FloatArray:
    """(n, c) relative changes; 0 where they are rounding, or a design has no result."""
    is_finite = np.isfinite(base) & np.isfinite(burdens)
    before, after = (np.where(is_finite, table, 1.0) for table in (base, burdens))
    change = (after - before) / np.maximum(np.abs(before), 1e-300)
    return np.where(np.abs(change) > _SAME, change, 0.0)


@dataclass(frozen=True)
class RivalList:
    """Every rival of a design in a box.

    Attributes:
        box: The box, whose ranges are a share of the stated ones.
        stated: The box of the stated ranges.
        share: That share; below 1 if the stated ranges left too many designs.
        rows: (n, d) distinct designs, the design itself first.
        n_searches: Searches of the space, for this share and others.
    """

    box: Box
    stated: Box
    share: float
    rows: IntArray
    n_searches: int


def rivals_over(
    box: Box, row: IntArray, folder: Path | None = None, most: int = MOST_RIVALS
) -> RivalList:
    """Every rival of one design over the largest box that leaves few enough of them.

    The share of the ranges is doubled while the rivals can be listed: a small box is searched in
    seconds, and a box with too many rivals takes minutes. If the least share has too many, it is
    halved instead, without splits. The work is limited by the number of partial designs bounded, so
    the share does not depend on the machine.

    Args:
        row: (1, d) the design.
        folder: Folder that stores the designs of each part of the box, for the next call.
        most: Number of designs above which a part is split.

    Raises:
        InputError: Too many designs are as good as the design at its typical constants.
    """
    share, n_searches, budget = _LEAST_SHARE, 0, 0
    listed: RivalList | None = None
    while share <= 1.0 and budget >= 0:
        search = _Search(box.shrunk(share), row, folder, most, budget)
        rivals = search.rows_of({})
        n_searches += search.n_searches
        if rivals is not None:
            budget = (budget or _MOST_BOUNDED) - search.n_bounded
            rows = np.concatenate([row, *rivals])
            _, first = np.unique(box.problem.space.keys(rows), return_index=True)
            listed = RivalList(search.box, box, share, rows[np.sort(first)], n_searches)
        elif listed is not None:
            break
        elif share < _SMALLEST_SHARE:
            raise InputError(
                f"more than {most:,} designs match the recommended one even near the typical "
                "constants; expected tighter limits, or fewer values of a parameter"
            )
        share *= 2.0 if listed else 0.5
    assert listed is not None  # the loop breaks before, or raises
    return replace(listed, n_searches=n_searches)


class _Search:
    """The search of one box, part by part.

    Args:
        budget: Number of partial designs after which the box is not split further; it is not
            split at all if 0.
    """

    def __init__(
        self, box: Box, row: IntArray, folder: Path | None, most: int, budget: int
    ) -> None:
        self.box, self.row, self.folder, self.most = box, row, folder, most
        self.budget = budget
        self.n_searches = self.n_bounded = 0
        base = box.burdens(row, box.typical)
        moved = [
            [box.burdens(row, box.ends_at(k, side))[0] for side in (0, 1)] for k in range(len(box))
        ]
        swings = np.abs(relative_change(base, np.array(moved))).max(axis=(1, 2))
        order = np.argsort(-swings, kind="stable")
        splits = [int(k) for k in order if swings[k] > 0 and box.is_linear[k]]
        self.order = splits[:_MOST_SPLITS]

    def rows_of(self, values: dict[int, float]) -> list[IntArray] | None:
        """The rivals with some constants at these values, all others over their ranges.

        Returns:
            None if they are too many however the box is split.
        """
        rows = self._levels_within(values)
        if rows is not None:
            return [rows]
        following = next((k for k in self.order if k not in values), None)
        if following is None or self.n_bounded >= self.budget:
            return None
        rivals = []
        for end in self.box.ends[following].tolist():
            face = self.rows_of(values | {following: end})
            if face is None:
                return None
            rivals += face
        return rivals

    def _levels_within(self, values: dict[int, float]) -> IntArray | None:
        box = self.box
        good, bad = box.corner(is_good=True), box.corner(is_good=False)
        for k, value in values.items():
            good[k] = bad[k] = value
        target = float(box.burdens(self.row, bad)[0, 0]) * (1.0 + box.slack + _SAME)
        problem = box.problem_at(good)
        reaches = partial(_reaches, problem, target)
        self.n_searches += 1
        path = None
        if self.folder is not None:
            key = f"product within {target!r}, at most {self.most}"
            path = front_path(problem, self.folder, key)
            path = path.with_name(path.name.replace("exact-", "within-"))
        if path is not None and path.exists():
            with np.load(path) as stored:
                rows, n_bounded = stored["rows"], int(stored["n_bounded"])
            self.n_bounded += n_bounded
            return rows if rows.ndim == 2 else None
        within, n_bounded = designs_within(problem, reaches, self.most)
        self.n_bounded += n_bounded
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as unfinished, unfinished.open("wb") as file:
                np.savez_compressed(
                    file, rows=np.empty(0) if within is None else within, n_bounded=n_bounded
                )
        return within


def _reaches(problem: Problem, target: float, objectives: FloatArray) -> BoolArray:
    return np.asarray(product_of(problem, objectives) <= target)
