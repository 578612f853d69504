"""The designs of a campaign that a page carries, and their numbers in columns.

A page has each distinct design once. It cannot hold any number of them, so the dominated ones
are thinned: those kept are evenly spaced along the first objective, which depends on nothing but
the results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from codesign.base.columns import Fields, IntArray, JsonObject, evenly
from codesign.base.metrics import Metric
from codesign.base.records import frozen
from codesign.report.labels import (
    format_metric,
    metric_of,
    metric_title,
    setting_words,
    spoken_codes,
    spoken_designs,
    unit_text,
)  # fmt: skip
from codesign.report.limit_lines import limit_titles
from codesign.report.marked_designs import MarkedDesigns
from codesign.search.campaign import Results

MOST_DESIGNS = 10_000
"""[ours] Every design of a campaign of 10,000 observations; they take about 1.5 MB of the page."""
_SHARE_OF_BROKEN = 0.2
"""[ours] Of what the front leaves, at most for designs that break a limit: they only show where
the limits are."""


@frozen
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
    """

    positions: IntArray
    n_front: int
    n_feasible: int
    of_front: int
    of_feasible: int
    of_broken: int

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
    _, first = np.unique(keys, return_index=True)
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
    return Carried(
        positions=positions,
        n_front=len(kept_front),
        n_feasible=len(kept_front) + len(kept_feasible),
        of_front=len(front),
        of_feasible=len(front) + len(feasible),
        of_broken=len(broken),
    )


def _thinned(results: Results, positions: IntArray, most: int) -> IntArray:
    if len(positions) <= most:
        return positions
    by_first = positions[np.argsort(results.objectives[positions, 0], kind="stable")]
    return np.sort(evenly(by_first, most))


def design_document(results: Results, carried: Carried, marked: MarkedDesigns | None) -> JsonObject:
    """Words, settings and metrics in columns: the carried designs, then the named ones."""
    positions = carried.positions
    space = results.problem.space
    k = len(marked.names) if marked else 0
    decoded: list[Fields] = [*space.decode(results.rows[positions])]
    decoded += marked.designs if marked else ()
    runs = [results.runs[run] for run in results.run_index[positions].tolist()]
    names = dict.fromkeys([*results.problem.objective_names, *results.metrics])
    metrics = {
        name: np.concatenate(
            [results.metrics[name][positions], marked.metrics[name] if marked else []]
        )
        for name in names
    }
    metrics = {name: values for name, values in metrics.items() if np.isfinite(values).any()}
    declared = results.problem.metrics
    feasible = marked.feasible.tolist() if marked else []
    front = results.objectives[carried.positions[: carried.n_front]]
    titles = limit_titles(results.problem)
    notes = [""] * carried.n_front
    for place, position in enumerate(carried.positions[carried.n_front :].tolist()):
        if carried.n_front + place >= carried.n_feasible:
            excess = (
                (titles.get(k, k.replace("_", " ")), float(x[position]))
                for k, x in results.violations.items()
            )
            broken = (f"{limit} (by {100 * by:.1f} %)" for limit, by in excess if by > 0)
            notes.append(f"It breaks {', '.join(broken)}.")
            continue
        mine = results.objectives[position]
        better = np.flatnonzero((front <= mine).all(axis=1))
        equal = better[(front[better] == mine).all(axis=1)]
        listed = ", ".join(f"#{i + 1}" for i in better[:3])
        more = f" and {len(better) - 3:,} more" if len(better) > 3 else ""
        notes.append(
            f"It equals #{equal[0] + 1} of the front in every objective."
            if len(equal)
            else f"It is dominated by {listed}{more} of the front."
            if len(better)
            else ""
        )
    return {
        "n": len(positions),
        "n_front": carried.n_front,
        "n_feasible": carried.n_feasible,
        "named": list(marked.names) if marked else [],
        "words": spoken_designs(space, decoded),
        "parameters": [
            parameter_document(parameter.name, [design.get(parameter.name) for design in decoded])
            for parameter in space.parameters
        ],
        "values": metrics,
        "texts": {
            name: [format_metric(value, metric_of(name, declared)) for value in values.tolist()]
            for name, values in metrics.items()
        },
        "found_by": [
            "enumeration" if run.optimizer == "exact" else f"{run.optimizer}, seed {run.seed}"
            for run in runs
        ] + ["–"] * k,
        "evaluation": (results.step[positions] + 1).tolist() + [None] * k,
        "notes": notes + ["" if is_kept else "It breaks a limit." for is_kept in feasible],
    }  # fmt: skip


def parameter_document(name: str, values: Sequence[Any]) -> JsonObject:
    """A parameter's values in words, each once, and the one that every design has."""
    words = [setting_words(name, value) for value in values]
    texts = [text for _, text in words]
    ranks = {}
    for text, value in zip(texts, values, strict=True):
        # What is absent first, numbers by size, texts by letters.
        if value is None:
            ranks[text] = (0, 0.0, "")
        elif isinstance(value, str):
            ranks[text] = (2, 0.0, text)
        else:
            ranks[text] = (1, float(np.prod(value)), text)
    numbers = {text: i for i, text in enumerate(sorted(ranks, key=ranks.__getitem__))}
    return {
        "name": name,
        "title": next((title for title, text in words if text), name.replace("_", " ")),
        "values": list(numbers),
        "codes": [numbers[text] for text in texts],
    }


SUBJECTS = ("Speed", "Power", "Memory", "Cost", "Other")


def metric_document(metric: Metric, is_objective: bool) -> JsonObject:
    """The name of one metric, its subject, and the direction in which it is better."""
    unit = metric.unit
    name = metric.name
    is_neutral = name.startswith("uncharged_") or name.endswith("utilization")
    tests = {
        "Speed": re.search(r"token/s|^s$|FLOP/s|1/s", unit)
        or name.startswith(("batch", "compute_util")),
        "Power": re.search(r"^(W|J|degC|token/J)|J/", unit),
        "Memory": re.search(r"^B|^mm$", unit) or name.startswith("bandwidth_util"),
        "Cost": re.search(r"USD|kg|mm\^2|year", unit),
    }
    return {
        "name": name,
        "title": metric_title(metric),
        "unit": unit_text(unit),
        "sense": "" if is_neutral else metric.sense,
        "objective": is_objective,
        "subject": next((subject for subject, match in tests.items() if match), "Other"),
        "meaning": spoken_codes(metric.meaning),
    }
