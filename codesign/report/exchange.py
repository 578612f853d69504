"""Losses and gains of taking one design instead of another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from codesign.base.columns import FloatArray, ValueMap
from codesign.base.metrics import Metric, flipped
from codesign.report.labels import describe_design, format_metric, metric_title, setting_words
from codesign.search.pareto import nearly_matches
from codesign.search.problem import Objective
from codesign.space import DesignSpace

_ROUNDING = 1e-9
"""Share below which numbers differ by the order of additions."""


def nothing_words(tolerance: float) -> str:
    """For what is better or worse by less than the tolerance."""
    return f"nothing that matters (< {100 * tolerance:g} %)" if tolerance else "nothing"


def exchange_words(
    objectives: Iterable[Objective], old: FloatArray, new: FloatArray, tolerance: float
) -> str:
    """Losses, a colon, gains: ``TDP 445 W instead of 428 W: +48 token/s ...``.

    What differs by at most the tolerance is left out.

    Args:
        old: (m,) objectives of the design that is given up, minimized.
        new: (m,) of the one that is taken.
        tolerance: Share below which a difference does not matter.
    """
    worse = []
    better = []
    share = max(tolerance, _ROUNDING)
    for objective, before, after in zip(objectives, old.tolist(), new.tolist(), strict=True):
        is_no_worse, is_no_better = nearly_matches(
            np.array([after, before]), np.array([before, after]), share
        ).tolist()
        values = [flipped(value, objective.sense) for value in (before, after)]
        if not is_no_worse:
            worse.append(_instead(objective.metric, *values))
        elif not is_no_better and objective.sense == "maximize":
            more = format_metric(before - after, objective.metric, digits=3)
            better.append(f"+{more} {metric_title(objective.metric)}")
        elif not is_no_better:
            better.append(_instead(objective.metric, *values))
    gain = ", ".join(better) or nothing_words(tolerance)
    return f"{', '.join(worse)}: {gain}" if worse else gain


def _instead(metric: Metric, before: float, after: float) -> str:
    values = (format_metric(value, metric) for value in (after, before))
    return f"{metric_title(metric)} {' instead of '.join(values)}"


def changed_settings(
    space: DesignSpace, old: ValueMap, new: ValueMap
) -> list[tuple[str, str, str]]:
    """Differences between two designs: name, old and new value; a repeated part counts once.

    Args:
        old: The design that is given up, by parameter.
        new: The one that is taken.
    """
    changes = {}
    for parameter in space.parameters:
        before = old[parameter.name]
        after = new[parameter.name]
        if before == after:
            continue
        if parameter.part:
            words = (
                _part_words(space, parameter.part, old),
                _part_words(space, parameter.part, new),
            )
            changes[parameter.part] = (f"{parameter.part}s".replace("_", " "), *words)
        else:
            (title, first), (_, second) = (
                setting_words(parameter.name, value) for value in (before, after)
            )
            changes[parameter.name] = (title, first or "none", second or "none")
    return list(changes.values())


def _part_words(space: DesignSpace, repeated_part: str, design: ValueMap) -> str:
    names = [parameter.name for parameter in space.parameters if parameter.part == repeated_part]
    pool = next((name for name in space.pools if repeated_part.startswith(f"{name}_")), "")
    members = {name.removeprefix(f"{pool}_"): design[name] for name in names}
    return describe_design(members) or "none"
