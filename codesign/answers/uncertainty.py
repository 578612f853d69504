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
    """Metrics of one design over the ranges.

    Attributes:
        feasible_share: Share of the draws in which the design keeps every limit.
        tornado: Effects of single numbers by metric, the largest swing first.
    """

    feasible_share: Number
    metrics: Mapping[str, MetricInterval]
    tornado: Mapping[str, Sequence[Swing]]

    @classmethod
    def describe(cls, uncertainty: DesignUncertainty) -> Self:
        """The record about a design."""
        return cls.read(uncertainty, distribution=DISTRIBUTION, metrics=uncertainty.intervals)


class RobustDesignEntry(Entry):
    """A design over the ranges.

    Attributes:
        front_number: Its number on the front; null if it is not on it.
        non_dominated_share: Share of the draws in which it is on the front.
        feasible_share: Share of the draws in which it keeps every limit.
        keeps_limits_everywhere: True if no draw and no end of the ranges breaks a limit.
        worst_excess: Largest relative excess over a limit, with every number at its worst end. 0 or
            less if all limits hold; null without limits, or if a limit has no value there.
        worst_limit: Limit with the largest excess.
    """

    front_number: int | None
    non_dominated_share: Number
    feasible_share: Number
    keeps_limits_everywhere: bool
    worst_excess: Number
    worst_limit: str | None
    design: Design
    objectives: Numbers


class FrontUncertainty(Draws):
    """Stability of the front over the ranges.

    Attributes:
        n_compared: Designs that were compared.
        n_distinct: Distinct designs with a result.
        often: Least share of draws on the front with which a design counts as often on it.
    """

    n_compared: int
    n_distinct: int
    often: Number
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
