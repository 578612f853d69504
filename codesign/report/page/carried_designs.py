"""Which designs of a campaign a page carries, and their numbers in columns.

A page has each distinct design once. It cannot hold any number of them, so the dominated ones
are thinned: those kept are evenly spaced along the first objective, which depends on nothing but
the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.base.metrics import Metric
from codesign.report.labels import axis_label, metric_of, metric_title, setting_words, takes_prefix
from codesign.report.result_tables import design_words

if TYPE_CHECKING:
    from codesign.search.campaign import Results

MOST_DESIGNS = 10_000
"""[ours] Every design of a campaign of 10,000 observations; they take about 1.5 MB of the page."""
_SHARE_OF_BROKEN = 0.2
"""[ours] Of what the front leaves, at most for designs that break a limit: they only show where
the limits are."""


@dataclass(frozen=True)
class Carried:
    """The designs of a page.

    Attributes:
        positions: (n,) of the observations: the front in its order, then the other feasible
            ones, then those that break a limit.
        n_front: How many of the first are the front.
        n_feasible: How many of the first are feasible.
        of_front: Distinct designs on the front, carried or not.
        of_feasible: Distinct feasible designs, carried or not.
        of_broken: Distinct designs with a result that break a limit, carried or not.
        n_runs: (n,) Number of runs that evaluated each design.
    """

    positions: IntArray
    n_front: int
    n_feasible: int
    of_front: int
    of_feasible: int
    of_broken: int
    n_runs: IntArray

    @property
    def n_broken(self) -> int:
        """Carried designs that break a limit."""
        return len(self.positions) - self.n_feasible


def carry(results: Results, most: int = MOST_DESIGNS) -> Carried:
    """Choose the designs of a page.

    Args:
        most: Designs at the most; the front comes first.
    """
    front = results.front()
    keys = results.problem.space.keys(results.rows)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    # The first observation of a design on the front is the one that front() names.
    others = np.setdiff1d(first, front)
    feasible = others[results.feasible[others]]
    broken = others[~results.feasible[others] & ~results.failed[others]]
    kept_front = evenly(front, most)
    room = most - len(kept_front)
    for_broken = max(int(_SHARE_OF_BROKEN * room), room - len(feasible))
    kept_broken = _thinned(results, broken, for_broken)
    kept_feasible = _thinned(results, feasible, room - len(kept_broken))
    positions = np.concatenate([kept_front, kept_feasible, kept_broken])
    n_runs = _n_runs(results, inverse, len(first))
    return Carried(
        positions=positions,
        n_front=len(kept_front),
        n_feasible=len(kept_front) + len(kept_feasible),
        of_front=len(front),
        of_feasible=len(front) + len(feasible),
        of_broken=len(broken),
        n_runs=n_runs[inverse[positions]],
    )


def evenly(positions: IntArray, most: int) -> IntArray:
    """At most so many of the positions, evenly spaced, both ends among them."""
    if len(positions) <= most:
        return positions
    return positions[np.linspace(0, len(positions) - 1, most).round().astype(np.int64)]


def _thinned(results: Results, positions: IntArray, most: int) -> IntArray:
    if len(positions) <= most:
        return positions
    by_first = positions[np.argsort(results.objectives[positions, 0], kind="stable")]
    return np.sort(evenly(by_first, most))


def _n_runs(results: Results, inverse: IntArray, n_distinct: int) -> IntArray:
    """(distinct,) in how many runs each distinct design was evaluated."""
    pairs = np.unique(np.column_stack([inverse, results.run_index]), axis=0)
    return np.bincount(pairs[:, 0], minlength=n_distinct)


@dataclass(frozen=True)
class Named:
    """Designs with a name, such as the published ones: those of the campaign's space.

    Attributes:
        names: One per design.
        designs: Each by parameter; None where absent.
        metrics: (k,) values by name.
        feasible: (k,) whether every limit of the campaign is kept.
    """

    names: Sequence[str]
    designs: Sequence[Mapping[str, Any]]
    metrics: Mapping[str, FloatArray]
    feasible: BoolArray


def design_document(results: Results, carried: Carried, named: Named | None) -> dict[str, Any]:
    """Words, settings and metrics in columns: the carried designs, then the named ones."""
    positions = carried.positions
    k = len(named.names) if named else 0
    decoded: list[Mapping[str, Any]] = [*results.problem.space.decode(results.rows[positions])]
    decoded += named.designs if named else ()
    observed = results.run_index[positions].tolist()
    return {
        "n": len(positions),
        "n_front": carried.n_front,
        "n_feasible": carried.n_feasible,
        "of_dominated": carried.of_feasible - carried.of_front,
        "named": list(named.names) if named else [],
        "named_feasible": named.feasible.tolist() if named else [],
        "words": design_words(results.problem.space, decoded),
        "parameters": [
            parameter_document(parameter.name, [design.get(parameter.name) for design in decoded])
            for parameter in results.problem.space.parameters
        ],
        "metrics": _metric_values(results, positions, named),
        "optimizer": [results.runs[run].optimizer for run in observed] + [""] * k,
        "seed": [results.runs[run].seed for run in observed] + [None] * k,
        "evaluation": (results.step[positions] + 1).tolist() + [None] * k,
        "found_by": carried.n_runs.tolist() + [None] * k,
        "broken": [_broken(results, int(position)) for position in positions[carried.n_feasible :]],
    }


def parameter_document(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """A parameter's values as they are shown, each once, and which one every design has."""
    words = [setting_words(name, value) for value in values]
    texts = [text for _, text in words]
    numbers = {text: i for i, text in enumerate(sorted(set(texts), key=_natural(values, texts)))}
    return {
        "name": name,
        "title": next((title for title, text in words if text), name.replace("_", " ")),
        "values": list(numbers),
        "codes": [numbers[text] for text in texts],
    }


def _natural(values: Sequence[Any], texts: Sequence[str]) -> Any:
    """Numbers by size, texts by letters, what is absent first."""
    by_text = dict(zip(texts, values, strict=True))

    def key(text: str) -> tuple[int, Any, str]:
        value = by_text[text]
        if value is None:
            return (0, 0, "")
        if isinstance(value, tuple | list) and all(isinstance(part, int) for part in value):
            return (1, float(np.prod(value)), text)
        if isinstance(value, int | float):
            return (1, float(value), text)
        return (2, 0, text)

    return key


def _metric_values(
    results: Results, positions: IntArray, named: Named | None
) -> dict[str, FloatArray]:
    """Values by name of the metrics that any of the designs has."""
    finite_metrics = {}
    for name, values in results.metrics.items():
        mine = values[positions]
        if named:
            mine = np.concatenate([mine, named.metrics[name]])
        if np.isfinite(mine).any():
            finite_metrics[name] = mine
    return finite_metrics


def metric_documents(results: Results) -> list[dict[str, Any]]:
    """How each metric is called and printed, the objectives first."""
    objectives = {item.metric.name: item.sense for item in results.problem.objectives}
    names = dict.fromkeys([*objectives, *results.metrics])
    known = results.problem.metrics
    return [
        metric_document(metric_of(name, known), objectives.get(name), name in objectives)
        for name in names
    ]


def metric_document(metric: Metric, sense: str | None, is_objective: bool) -> dict[str, Any]:
    """How one metric is called and printed, and which way it is wanted."""
    return {
        "name": metric.name,
        "title": metric_title(metric),
        "label": axis_label(metric),
        "unit": metric.unit,
        "prefix": takes_prefix(metric.unit),
        "percent": metric.name.endswith("utilization") and not metric.unit,
        "sense": sense or metric.sense,
        "objective": is_objective,
        "meaning": metric.meaning,
    }


def _broken(results: Results, position: int) -> str:
    """The limits that a design breaks, and by how much."""
    excess = {name: float(values[position]) for name, values in results.violations.items()}
    return ", ".join(f"{name} (by {100 * by:.1f} %)" for name, by in excess.items() if by > 0)
