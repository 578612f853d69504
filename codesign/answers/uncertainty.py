"""Records about metrics over the ranges of numbers whose sources give one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from codesign.answers.answer import Design, Entry, Number, Numbers
from codesign.insight.uncertainty.uncertainty_results import (
    DesignUncertainty,
    MetricInterval,
    RangedNumber,
    RobustFront,
    Swing,
)
from codesign.search.campaign import Results

DISTRIBUTION = (
    "each number with a range is drawn independently: half of the draws lie between low and "
    "typical, half between typical and high, most of them near typical (the sources give only "
    "ranges); each draw applies to all designs"
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

    feasible_share: Number
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
    non_dominated_share: Number
    """Share of the draws in which it is on the front."""
    feasible_share: Number
    """Share of the draws in which it keeps every limit."""
    keeps_limits_everywhere: bool
    """True if no draw and no end of the ranges breaks a limit."""
    worst_excess: Number
    """Largest relative excess over a limit, with every number at its worst end. 0 or less if all
    limits hold; null without limits, or if a limit has no value there."""
    worst_limit: str | None
    """Limit with the largest excess."""
    design: Design
    objectives: Numbers


class FrontUncertainty(Draws):
    """Stability of the front over the ranges."""

    n_compared: int
    """Designs that were compared."""
    n_distinct: int
    """Distinct designs with a result."""
    often: Number
    """Least share of draws on the front with which a design counts as often on it."""
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
