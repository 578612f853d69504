"""Records about metrics over the ranges of numbers whose sources give one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from codesign.answers.answer import Design, Entry, Numbers
from codesign.insight.uncertainty.uncertainty_results import (
    DesignUncertainty,
    MetricInterval,
    RangedNumber,
    RobustFront,
    Swing,
)

if TYPE_CHECKING:
    from codesign.search.campaign import Results

DISTRIBUTION = (
    "every number with a range is drawn on its own, in half of the draws between low and typical "
    "and in half between typical and high, densest at typical, because the sources give ranges "
    "and nothing more; one draw holds for all designs"
)


class Draws(Entry):
    """Draws from the ranges of the memory technologies."""

    samples: int
    """Number of draws."""
    seed: int
    distribution: str
    """Distribution of the numbers, in words."""
    numbers: Sequence[RangedNumber]
    """Numbers whose sources give a range."""


class Uncertainty(Draws):
    """Metrics of one design over the ranges."""

    feasible_share: float | None
    """Share of the draws in which the design keeps every limit."""
    metrics: Mapping[str, MetricInterval]
    tornado: Mapping[str, Sequence[Swing]]
    """Effects of single numbers by metric, the largest swing first."""

    @classmethod
    def describe(cls, uncertainty: DesignUncertainty) -> Self:
        """The record about a design."""
        return cls.read(uncertainty, distribution=DISTRIBUTION, metrics=uncertainty.intervals)


class RobustDesignEntry(Entry):
    """A design over the ranges."""

    front_number: int | None
    """Its number on the front; null if it is not on it."""
    non_dominated_share: float | None
    """Share of the draws in which it is on the front."""
    feasible_share: float | None
    """Share of the draws in which it keeps every limit."""
    keeps_limits_everywhere: bool
    """True if no draw and no end of the ranges breaks a limit."""
    worst_excess: float | None
    """Largest relative excess over a limit at the worst ends of the ranges; at most 0 is within.
    Null if a limit has no value there, or if there is no limit."""
    worst_limit: str | None
    """Limit with that excess."""
    design: Design
    objectives: Numbers


class FrontUncertainty(Draws):
    """Stability of the front over the ranges."""

    n_compared: int
    """Designs that were compared."""
    n_distinct: int
    """Distinct designs with a result."""
    often: float | None
    """Share of the draws from which a design counts as often on the front."""
    designs: Sequence[RobustDesignEntry]

    @classmethod
    def describe(cls, robust: RobustFront, results: Results, limit: int | None = None) -> Self:
        """The record about a front, with at most ``limit`` designs."""
        objectives = results.problem.objective_names
        return cls.read(
            robust,
            distribution=DISTRIBUTION,
            designs=[
                RobustDesignEntry.read(
                    design,
                    worst_limit=design.worst_limit or None,
                    design=results.design(design.position),
                    objectives={
                        name: float(results.metrics[name][design.position]) for name in objectives
                    },
                )
                for design in robust.designs[:limit]
            ],
        )
