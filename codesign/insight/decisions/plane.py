"""Memories of the recommended design over a plane of two constants.

At a point of the plane, the design with the least product of burdens is recommended (see
:mod:`.recommendation`; ties are not resolved by cost). It is on the exact front there. Products are
linear in the constants, so their minimum over all designs is concave. Between points with exact
fronts, no product is therefore below the concave hull of the least products at these points. A
further exact front is found wherever the best known design is above the hull by more than the
precision. At the end no unknown design is better than the map by more than that, at any node of a
grid. A design counts only where it keeps its limits, and only if some exact front has it: a limit
that excludes a design from all these fronts excludes it from the map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np

from codesign.base.columns import (
    FloatArray,
    IntArray,
    IntegerList,
    IntegerSequence,
    StringList,
    StringPair,
    StringTuple,
)
from codesign.base.errors import InfeasibleError, InputError, check_known
from codesign.base.records import frozen
from codesign.insight.decisions.box import Box, box_of, relative_change
from codesign.insight.decisions.decide import DecidedDesign
from codesign.insight.decisions.memory_kinds import technology_columns
from codesign.insight.uncertainty.uncertainty_results import CONSTANTS, RangedNumber
from codesign.search.enumeration import ExactFront
from codesign.search.enumeration.within import FrontFinder
from codesign.search.problem import Problem

PRECISION = 1e-3
"""Share by which a design that the map lacks may be better. [ours]"""
STEPS = 64
"""Steps of the grid along an axis. [ours]"""
MOST_PAIRS = 5
"""Pairs of constants of a page of maps. [ours]"""
_STEPS_NONLINEAR = 24
_LEADING = 5
"""Constants from which pairs are made. [ours]"""
_LINEAR = 1e-6
_ROUNDING = 1e-13
_SAME = 1e-9
_MOST_FRONTS = 60
_SEED = 0
_POINTS = 4


@frozen
class Strip:
    """A part of the plane with one choice of memories: a value of x, and a range of y.

    Attributes:
        design: Position of the recommended design in the middle; -1 if no design is feasible.
        lead: Least share by which designs with other memories have a larger product at a node of
            the strip; infinite, in JSON null, if there are none.
    """

    x: float
    y_low: float
    y_high: float
    design: int
    lead: float


@frozen
class DecisionPlane:
    """Memories over a plane of two constants.

    Attributes:
        strips: Rectangles of the plane, in order of x, then of y.
        rows: (n, d) designs that strips name.
        memories: Technologies of each design, the fastest first; in a system after their pool.
        shares: Share of the plane by memories, the largest first.
        is_linear: True if products are linear and additive wherever that was checked.
        n_fronts: Number of exact fronts.
    """

    problem: Problem
    x: RangedNumber
    y: RangedNumber
    strips: tuple[Strip, ...]
    rows: IntArray
    memories: tuple[StringTuple, ...]
    shares: dict[StringTuple, float]
    is_linear: bool
    n_fronts: int

    def memories_at(self, strip: Strip) -> StringTuple:
        """The recommended memories of a strip; empty where no design is feasible."""
        return self.memories[strip.design] if strip.design >= 0 else ()


def constant_name(number: RangedNumber) -> str:
    """The name of a constant on the command line: ``hbf.background_power``."""
    return f"{number.technology}.{number.number}".removeprefix(f"{CONSTANTS}.")


def plane_of(
    problem: Problem,
    front: ExactFront,
    names: StringPair,
    find: FrontFinder,
) -> DecisionPlane:
    """Find the recommended memories over the ranges of two constants.

    Args:
        front: The front at typical constants.
        names: The constants, as of :func:`constant_name`.
        find: Function that returns the exact front of a problem.

    Raises:
        InputError: A constant has no range or moves nothing, the space has no memories, or no
            design is feasible somewhere in the plane.
    """
    columns = _memory_columns(problem)
    box = box_of(problem, front.representatives())
    places = [_place(box, name, flag) for name, flag in zip(names, ("--x", "--y"), strict=True)]
    if places[0] == places[1]:
        raise InputError(f"expected another constant than that of --x, got {names[1]}", "--y")
    sweep = box.sweep
    box = replace(box, places=np.array(places), low=sweep.low[places], high=sweep.high[places])
    search = _Search(box, front.representatives(), find, columns)
    search.complete()
    strips = tuple(search.strips())
    named = sorted({strip.design for strip in strips} - {-1})
    number = {-1: -1} | {design: i for i, design in enumerate(named)}
    memories = tuple(search.memories[design] for design in named)
    areas: dict[StringTuple, float] = {}
    for strip in strips:
        key = search.memories[strip.design] if strip.design >= 0 else ()
        areas[key] = areas.get(key, 0.0) + strip.y_high - strip.y_low
    total = sum(areas.values())
    x, y = box.numbers
    return DecisionPlane(
        problem, x, y,
        tuple(replace(strip, design=number[strip.design]) for strip in strips),
        search.rows[named],
        memories,
        {key: area / total for key, area in sorted(areas.items(), key=lambda pair: -pair[1])},
        search.is_linear,
        search.n_fronts,
    )  # fmt: skip


def leading_pairs(decided: DecidedDesign) -> list[StringPair]:
    """Pairs of constants, the most decisive for a design first.

    Constants are ranked by the smallest change that flips any decision, alone or with others. Ties,
    and constants without a flip, are ranked by the change of the objectives' product.
    """
    box = decided.rivals.box
    flips = [
        flip
        for decision in decided.decisions
        for flip in (decision.flip, *decision.breaks)
        if flip is not None
    ]
    ranked = []
    for number, swing in zip(box.numbers, box.swings(decided.row[None]).tolist(), strict=True):
        shares = [f.share for f in flips if number in [change.number for change in f.changes]]
        ranked.append((min(shares, default=np.inf), -swing, constant_name(number)))
    ranks = list(enumerate(sorted(ranked)[:_LEADING]))
    pairs = sorted(combinations(ranks, 2), key=lambda pair: pair[0][0] + pair[1][0])
    return [(first[2], second[2]) for (_, first), (_, second) in pairs]


def leading_planes(
    decided: DecidedDesign, front: ExactFront, find: FrontFinder
) -> tuple[list[DecisionPlane], StringList]:
    """Planes of at most five leading pairs, and a message for each pair that failed.

    Raises:
        InputError: No pair has a plane.
    """
    planes = []
    problems = []
    for pair in leading_pairs(decided):
        try:
            planes.append(plane_of(decided.problem, front, pair, find))
        except InputError as error:
            problems.append(f"no map of {pair[0]} and {pair[1]}: {error}")
        if len(planes) == MOST_PAIRS:
            break
    if not planes:
        raise InputError(problems)
    return planes, problems


def _place(box: Box, name: str, flag: str) -> int:
    """Position in the sweep of a constant by its name."""
    names = [constant_name(number) for number in box.sweep.numbers]
    alike = [near for near in names if near.split(".")[0] == name.split(".")[0]]
    check_known("constant with a range", name, alike or names, flag)
    effective = [constant_name(number) for number in [*box.numbers, *box.unmoved]]
    moved = " or ".join(box.problem.deciding_metrics)
    check_known(f"constant that moves {moved}:", name, effective, flag)
    return names.index(name)


def _memory_columns(problem: Problem) -> dict[str, IntegerList]:
    """Columns of a choice of off-chip memories, by pool; of a single machine by ""."""
    columns_by_pool: dict[str, IntegerList] = {}
    library = (
        problem.evaluator.technologies() if problem.evaluator.offers("replace_library") else {}
    )
    for columns in technology_columns(problem.space, library).values() if library else ():
        values = problem.space.parameters[columns[0]].values
        if len(values) > 1 and all(library[str(x)].place == "off-chip" for x in values):
            name = problem.space.names[columns[0]]
            pool = next((x for x in problem.space.pools if name.startswith(f"{x}_")), "")
            columns_by_pool.setdefault(pool, columns)
    if columns_by_pool:
        return columns_by_pool
    raise InputError(
        f"space {problem.space.name!r} has no choice of off-chip memories; expected a parameter "
        "with several technologies"
    )


class _Search:
    """Designs of exact fronts in the unit square of two constants."""

    def __init__(
        self,
        box: Box,
        rows: IntArray,
        find: FrontFinder,
        columns: Mapping[str, IntegerSequence],
    ) -> None:
        self.box = box
        self.find = find
        self.columns = columns
        self.rows = rows[:0]
        self.n_fronts = 0
        self.is_linear = True
        self._forms = np.empty((3, 0, 1))
        self._add(rows)
        self.steps = STEPS if self.is_linear else _STEPS_NONLINEAR
        ticks = np.linspace(0.0, 1.0, self.steps + 1)
        self.grid = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)

    def _values(self, point: FloatArray) -> FloatArray:
        return self.box.low + point * (self.box.high - self.box.low)

    def _add(self, rows: IntArray) -> None:
        """Take further designs, with their products and excesses as linear functions."""
        space = self.box.problem.space
        rows = rows[~np.isin(space.keys(rows), space.keys(self.rows))]
        if not len(rows):
            return
        corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        base, *ends = (self.box.burdens(rows, self._values(corner)) for corner in corners)
        forms = np.stack([base, *(end - base for end in ends)])
        for point in np.random.default_rng(_SEED).random((_POINTS, 2)):
            exact = self.box.burdens(rows, self._values(point))
            gap = relative_change(exact, forms[0] + np.tensordot(point, forms[1:], 1))[:, 0]
            self.is_linear &= bool((np.abs(gap) <= _LINEAR).all())
        self._forms = np.concatenate([self._forms.reshape(3, -1, forms.shape[2]), forms], axis=1)
        self.rows = np.concatenate([self.rows, rows])
        designs = space.decode(self.rows)
        names = [(x, space.names[k]) for x, columns in self.columns.items() for k in columns]
        self.memories = [
            tuple(dict.fromkeys(f"{x} {d[name]}".strip() for x, name in names if d[name]))
            for d in designs
        ]

    def products(self, points: FloatArray) -> FloatArray:
        """(n, g) products of all designs; infinite where a limit is broken."""
        if self.is_linear:
            tables = self._forms[0] + np.tensordot(points, self._forms[1:], 1)
        else:
            tables = np.stack([self.box.burdens(self.rows, self._values(p)) for p in points])
        is_kept = (tables[..., 1:] <= _ROUNDING).all(axis=2)
        return np.where(is_kept, tables[..., 0], np.inf)

    def complete(self) -> None:
        """Find exact fronts until no unknown design can be better by more than the precision."""
        points = [np.array(corner, float) for corner in np.ndindex(2, 2)]
        least = [self._least(point) for point in points]
        while self.n_fronts < _MOST_FRONTS:
            best = self.products(self.grid).min(axis=1)
            gap = 1.0 - _hull(np.array(points), np.array(least), self.grid) / best
            gap[~np.isfinite(best)] = np.inf
            solved = (self.grid[:, None] == np.array(points)).all(axis=2).any(axis=1)
            place = int(np.where(solved, 0.0, gap).argmax())
            if solved[place] or not gap[place] > PRECISION:
                return
            points.append(self.grid[place])
            least.append(self._least(points[-1]))

    def _least(self, point: FloatArray) -> float:
        """The least product at a point, by its exact front, whose designs are added."""
        self.n_fronts += 1
        values = self._values(point)
        try:
            front = self.find(self.box.problem_at(values))
        except InfeasibleError as error:
            pairs = zip(self.box.numbers, values.tolist(), strict=True)
            corner = " and ".join(f"{constant_name(number)} {value:g}" for number, value in pairs)
            raise InputError(f"with {corner} (SI units) {error}; expected looser limits") from error
        self._add(front.representatives())
        return float(self.products(point[None]).min())

    def strips(self) -> Iterator[Strip]:
        """The plane in strips along y, one for every node of x."""
        n = self.steps + 1
        products = self.products(self.grid).reshape(n, n, -1)
        kinds = list(dict.fromkeys(self.memories))
        kind = np.array([kinds.index(memories) for memories in self.memories])
        low = self.box.low
        span = self.box.high - self.box.low
        for i, table in enumerate(products):
            winner = np.where(np.isfinite(table.min(axis=1)), table.argmin(axis=1), -1)
            label = np.where(winner < 0, -1, kind[winner])
            starts = [0, *(np.flatnonzero(label[1:] != label[:-1]) + 1).tolist(), n]
            crossings = [s - 1 + _crossing(table, winner, s) for s in starts[1:-1]]
            borders = np.array([0, *crossings, self.steps]) / self.steps
            for k, start in enumerate(starts[:-1]):
                nodes = slice(start, starts[k + 1])
                others = table[nodes][:, kind != label[start]].min(axis=1, initial=np.inf)
                with np.errstate(invalid="ignore"):
                    lead = np.nanmin(np.append(others / table[nodes].min(axis=1) - 1.0, np.inf))
                middle = int(winner[(start + starts[k + 1]) // 2])
                ends = low[1] + borders[k : k + 2] * span[1]
                x = float(low[0] + i / self.steps * span[0])
                yield Strip(x, float(ends[0]), float(ends[1]), middle, float(lead))


def _crossing(table: FloatArray, winner: IntArray, node: int) -> float:
    """Share of the way to a node at which its design takes over from that of the node before."""
    before = winner[node - 1]
    after = winner[node]
    if before < 0 or after < 0:
        return 0.5
    lead = table[node - 1 : node + 1, after] - table[node - 1 : node + 1, before]
    if not np.isfinite(lead).all() or lead[0] == lead[1]:
        return 0.5
    return float(np.clip(lead[0] / (lead[0] - lead[1]), 0.0, 1.0))


def _hull(points: FloatArray, heights: FloatArray, nodes: FloatArray) -> FloatArray:
    """(n,) height of the concave hull of some points above the nodes."""
    from scipy.spatial import ConvexHull

    finite = np.isfinite(heights)
    if not finite.all():
        return np.full(len(nodes), -np.inf)
    scale = float(np.abs(heights).max())
    anchor = [0.5, 0.5, heights.min() / scale - 1.0]
    hull = ConvexHull(np.vstack([np.column_stack([points, heights / scale]), anchor]))
    normals = hull.equations[hull.equations[:, 2] > _SAME]
    planes = -(nodes @ normals[:, :2].T + normals[:, 3]) / normals[:, 2]
    return np.asarray(scale * planes.min(axis=1))
