"""Common choices of the designs of a front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from codesign.base.columns import (
    BoolArray,
    FloatArray,
    IntArray,
    IntegerList,
    IntegerTuple,
    Value,
    ValueTuple,
)
from codesign.base.records import frozen
from codesign.search.enumeration import ExactFront
from codesign.space import DesignSpace


@frozen
class FrontChoice:
    """A parameter, or a parameter of all repetitions of a part together.

    Attributes:
        name: The parameter; of a part ``tier technology``.
        columns: (k,) entries of a design's row: one, or one per repetition.
        values: What a design of the space can have there, in the parameter's order; None: absent.
        points_with: By position in ``values``: (p,) whether a listed design of a point has it.
        kept: (p,) the points that are not folded under a cheaper one.
        part: Name of the part, or empty.
        is_constant: All listed designs of kept points have the same there, absence included.
    """

    name: str
    columns: IntArray
    values: ValueTuple
    points_with: tuple[BoolArray, ...]
    kept: BoolArray
    part: str = ""
    is_constant: bool = False

    @property
    def points(self) -> IntegerTuple:
        """Number of points of the whole front that have each of ``values``."""
        return tuple(int(mask.sum()) for mask in self.points_with)

    @property
    def kept_points(self) -> IntegerTuple:
        """Number of kept points that have each of ``values``."""
        return tuple(int((mask & self.kept).sum()) for mask in self.points_with)

    @property
    def is_shared(self) -> bool:
        """Whether every design of the kept points has the one value."""
        return self.is_constant and len(self.taken) == 1

    @property
    def taken(self) -> ValueTuple:
        """Values of kept points."""
        return tuple(v for v, n in zip(self.values, self.kept_points, strict=True) if n)

    @property
    def folded(self) -> ValueTuple:
        """Values that only folded points have."""
        return tuple(v for v in self.values if v not in (*self.taken, *self.absent))

    @property
    def absent(self) -> ValueTuple:
        """Values that no point of the whole front has."""
        return tuple(v for v, n in zip(self.values, self.points, strict=True) if not n)

    def where(self, value: Value) -> IntArray:
        """Points of the whole front that have a value."""
        return np.flatnonzero(self.points_with[self.values.index(value)])

    def extended(self, more: Mapping[Value, BoolArray]) -> FrontChoice:
        """The same where more points are known to have some values."""
        masks = tuple(
            mask | more[v] if v in more else mask
            for v, mask in zip(self.values, self.points_with, strict=True)
        )
        return replace(self, points_with=masks)


def choices_of(
    space: DesignSpace, front: ExactFront, is_kept: IntArray | None = None
) -> list[FrontChoice]:
    """Every parameter that varies in the space, then every parameter of a part as a whole.

    Args:
        front: The whole front.
        is_kept: Points that are not folded under a cheaper one; all if None.
    """
    mask = np.ones(len(front), bool) if is_kept is None else np.zeros(len(front), bool)
    if is_kept is not None:
        mask[is_kept] = True
    columns = [
        *((x.name, np.array([column]), x.part) for column, x in enumerate(space.parameters)),
        *((f"{x.name} {member}", x.columns[:, place], x.name)
          for x in space.structure.parts for place, member in enumerate(x.members)),
    ]  # fmt: skip
    choices = [_choice(space, front, mask, *named) for named in columns]
    return [choice for choice in choices if len(choice.values) > 1]


def _choice(
    space: DesignSpace,
    front: ExactFront,
    is_kept: BoolArray,
    name: str,
    columns: IntArray,
    part: str,
) -> FrontChoice:
    parameter = space.parameters[columns[0]]
    codes = sorted(
        {code for column in columns.tolist() for code in possible_codes(space, column)},
        key=lambda code: (code < 0, code),
    )
    if len(columns) > 1:  # anywhere in a part: that a repetition is absent says nothing
        codes = [code for code in codes if code >= 0]
    values = (*parameter.values, None)
    numbers = np.arange(len(front))
    points_with = (
        np.isin(numbers, front.point[(front.rows[:, columns] == code).any(axis=1)])
        for code in codes
    )
    of_kept = front.rows[is_kept[front.point], columns[0]]
    return FrontChoice(
        name=name,
        columns=columns,
        values=tuple(values[code] for code in codes),
        points_with=tuple(points_with),
        kept=is_kept,
        part=part,
        is_constant=len(columns) == 1 and bool(np.ptp(of_kept) == 0),
    )


def possible_codes(space: DesignSpace, column: int) -> IntegerList:
    """Codes that designs of the space have there; -1 only where absence is a choice of its own."""
    for component in space.components:
        if column in component.columns:
            codes: IntegerList = component.possible_codes(column).tolist()
            if space.parameters[column].when:
                return [code for code in codes if code >= 0]
            return codes
    return []


@frozen
class DerivedRange:
    """A derived quantity of the space over the front's designs.

    Attributes:
        name: As the space says it.
        unit: In which it is shown.
        low: Least value, coherent SI units.
        high: Largest.
    """

    name: str
    unit: str
    low: float
    high: float


def derived_ranges(space: DesignSpace, rows: IntArray) -> list[DerivedRange]:
    """Choices of every derived quantity."""
    values = space.derived(rows)
    return [
        DerivedRange(x.name, x.unit, float(values[x.name].min()), float(values[x.name].max()))
        for x in space.structure.derived.values()
    ]


@frozen
class Knee:
    """A point of the front that bulges towards the ideal.

    Attributes:
        point: Position in the front.
        distance: To the hyperplane through the normalized extremes (see :func:`knees_of`).
    """

    point: int
    distance: float


MOST_KNEES = 3
_APART = 0.1
"""Least distance of two knees along some objective, as a share of the front's range [ours]."""


def knees_of(objectives: FloatArray) -> list[Knee]:
    """Points with the largest marginal trade-off, the sharpest first.

    Every objective that varies is normalized so that the front spans 0 (best) to 1 (worst). The
    distance is that of a point, on the side of the ideal, to the hyperplane on which the
    normalized objectives add up to 1: with two objectives, the chord between the front's ends.
    A further knee is at least a tenth of the range away in some objective.

    Args:
        objectives: (p, m) of a front, minimized.
    """
    low = objectives.min(axis=0)
    high = objectives.max(axis=0)
    varies = high > low
    m = int(varies.sum())
    if m < 2:
        return []
    shares = (objectives[:, varies] - low[varies]) / (high - low)[varies]
    distance = (1.0 - shares.sum(axis=1)) / np.sqrt(m)
    order = np.argsort(-distance, kind="stable")
    apart: IntegerList = []
    for position in order[distance[order] > 1e-12].tolist():
        is_apart: BoolArray = np.abs(shares[apart] - shares[position]).max(axis=1) >= _APART
        if is_apart.all():
            apart.append(position)
        if len(apart) == MOST_KNEES:
            break
    return [Knee(position, float(distance[position])) for position in apart]


def neighbors_of(objectives: FloatArray, point: int) -> Iterator[int]:
    """The points next to one on a front of two objectives, which is in lexicographic order."""
    if objectives.shape[1] == 2:
        yield from (
            neighbor for neighbor in (point - 1, point + 1) if 0 <= neighbor < len(objectives)
        )
