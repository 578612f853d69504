"""Records of the results of :mod:`codesign.insight.uncertainty.uncertainty`."""

from __future__ import annotations

from collections.abc import Mapping

from codesign.base.columns import Arrays, FloatArray
from codesign.base.records import frozen

CONSTANTS = "all designs"
"""Stands for the technology of a constant that belongs to none."""


@frozen
class RangedNumber:
    """A number of a technology whose source gives a range; SI units.

    Attributes:
        number: Such as ``background_power``.
        low: Lower end.
        typical: What is used where nothing varies.
        high: Upper end.
    """

    technology: str
    number: str
    low: float
    typical: float
    high: float

    def __str__(self) -> str:
        words = self.number.replace("_", " ")
        return words if self.technology == CONSTANTS else f"{self.technology} {words}"


@frozen
class MetricInterval:
    """A metric of one design over the ranges.

    Attributes:
        typical: Every number at its typical value.
        p5: 5 % of the draws with a value are below; the typical value if that is less.
        median: Middle of the draws.
        p95: 95 % of the draws are below; the typical value if that is more.
        minimum: Over the corners.
        minimum_at: The corner, in words.
        maximum: Over the corners.
        maximum_at: The corner, in words.
        n_values: Draws in which the metric has a value.
    """

    typical: float
    p5: float
    median: float
    p95: float
    minimum: float
    minimum_at: str
    maximum: float
    maximum_at: str
    n_values: int

    @property
    def is_moved(self) -> bool:
        """Whether the metric depends on any number with a range."""
        return self.minimum < self.maximum


@frozen
class Swing:
    """Effect of one number alone on one metric, the others at their typical values.

    Attributes:
        number: Such as ``background_power``.
        at_low: The metric with the number at the lower end of its range.
        at_high: The metric with it at the upper end.
        swing: Largest less smallest of the metric at low, typical and high.
        relative_swing: Of the metric's typical value; None if that is zero.
    """

    technology: str
    number: str
    at_low: float
    at_high: float
    swing: float
    relative_swing: float | None


@frozen
class DesignUncertainty:
    """One design over the ranges of the technologies.

    Attributes:
        numbers: Every number with a range, also of technologies that the design does not have.
        feasible_share: Share of the draws in which the design keeps every limit.
        intervals: By metric.
        tornado: By metric, the largest swing first; numbers that do nothing are left out.
    """

    samples: int
    seed: int
    numbers: tuple[RangedNumber, ...]
    feasible_share: float
    intervals: Mapping[str, MetricInterval]
    tornado: Mapping[str, tuple[Swing, ...]]


@frozen
class RobustDesign:
    """One design of a campaign over the ranges.

    Attributes:
        position: Of its first observation in the results.
        front_number: Its line in the Pareto front, from 1; None if it is not on it.
        non_dominated_share: Share of the draws in which it is feasible and no feasible design
            that it was compared with dominates it.
        feasible_share: Share of the draws in which it keeps every limit.
        worst_excess: Largest relative excess over a limit at the ends of the ranges that are worst
            for it; ``<= 0`` is within, infinite where a limit has no value.
        worst_limit: That limit; empty without limits.
    """

    position: int
    front_number: int | None
    non_dominated_share: float
    feasible_share: float
    worst_excess: float
    worst_limit: str

    @property
    def keeps_limits_everywhere(self) -> bool:
        """Whether no draw and no worst end of the ranges breaks a limit."""
        return self.worst_excess <= 0 and self.feasible_share == 1


@frozen
class RobustFront:
    """The front of a campaign over the ranges of the technologies.

    Attributes:
        numbers: Every number with a range.
        n_compared: Designs that were evaluated anew in every draw.
        n_distinct: Distinct designs with a result that the campaign has.
        often: Share from which a design off the front is listed.
        designs: The front and those that are often on it; the largest share first.
    """

    samples: int
    seed: int
    numbers: tuple[RangedNumber, ...]
    n_compared: int
    n_distinct: int
    often: float
    designs: tuple[RobustDesign, ...]


@frozen
class FrontSpread:
    """Designs of one problem over the ranges, compared with one another in every draw.

    Attributes:
        n_numbers: Numbers with a range.
        non_dominated_share: (n,) share of the draws in which a design is feasible and no feasible
            one of the others dominates it.
        feasible_share: (n,) share of the draws in which it keeps every limit.
        intervals: (n, 2) by metric: 5 % of the draws are below the first, 5 % above the second.
            A metric without a value in some draw has none.
    """

    samples: int
    n_numbers: int
    non_dominated_share: FloatArray
    feasible_share: FloatArray
    intervals: Arrays


def has_width(ends: FloatArray) -> bool:
    """Whether the ends of an interval differ by more than rounding."""
    low, high = ends.tolist()
    return bool(high - low > 1e-12 * abs(high))
