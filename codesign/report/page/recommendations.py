"""The first screen's designs, how sure they are, and what a change of them costs.

Everything is computed here, with the numbers that designs have on the page; ``answer_html`` words
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.insight.explanation.distance import Measure
from codesign.insight.explanation.neighborhood import (
    Neighborhood,
    Reading,
    folded_choices,
    near_misses,
    neighborhood,
    verdicts,
)
from codesign.insight.uncertainty.limits_over_ranges import worst_excess
from codesign.insight.uncertainty.uncertainty import front_spread
from codesign.report.exchange import changed_settings
from codesign.report.labels import (
    MAIN_METRICS,
    metric_of,
    setting_words,
    spoken_design,
)
from codesign.report.limit_lines import limit_words
from codesign.report.picks import Pick, picks_of
from codesign.search.problem import cost_column

if TYPE_CHECKING:
    from codesign.base.columns import FloatArray, IntArray
    from codesign.insight.plateaus import FoldedFront
    from codesign.search.campaign import Results
    from codesign.search.problem import Problem

RESOURCES = (
    "area_mm2", "memory_capacity_bytes", "shoreline_mm", "unit_cost_usd",
    "junction_temperature_celsius", "lifetime_years",
)  # fmt: skip
"""Resources that are priced, besides the objective by which designs are cheaper; of a metric that
is better the more there is, such as a life, less."""
ASSUMPTIONS = {
    "profile plain": "operands are tiled for the on-chip memory, and all of the off-chip bandwidth "
    "is usable",
    "profile memexplorer": "operands are streamed anew for every tile of the array, half of the "
    "off-chip bandwidth is usable, and the batch is the largest that fits",
    "simulation": "every chunk is moved through its ports, one event after the other",
}
"""Assumptions of other models of the hardware, by their names."""
SAMPLES = 200
"""[ours] Draws for the shares and intervals of a page: a share is then known to 3.5 %."""
_STEP = 0.05
_STEPS = {"degC": 5.0}
"""[ours] A share of degrees Celsius means nothing."""
_CLOSE = 0.1
"""A limit is named on a card if less than so much of it is left."""
_MOST_CENTERS = 60
_MOST_MISSES = 30


@dataclass(frozen=True)
class Judge:
    """Questions about the recommended designs beside the campaign's own numbers.

    Attributes:
        readings: Of the campaign's problem by other models.
        samples: Draws over the ranges of technologies; 0: not asked.
        omitted: What was not asked, with the reason.
    """

    readings: Sequence[Reading] = ()
    samples: int = SAMPLES
    omitted: Sequence[str] = ()


def recommendation_document(
    results: Results, folded: FoldedFront, judge: Judge | None
) -> dict[str, Any]:
    """Recommended designs with what limits them, how sure they are, and what is around them.

    Args:
        results: Of the campaign, with the exact front if that is known.
        folded: The front; designs are numbered along it.
        judge: What to ask further; None: nothing, and nothing is looked at around the designs.
    """
    picks = picks_of(results, folded)
    metrics = _figures(results)
    documents = [
        {
            "key": pick.key,
            "reason": pick.reason,
            "id": pick.place,
            "position": int(folded.positions[pick.place]),
            "words": _spoken(results, int(folded.positions[pick.place])),
            "close": _close_limits(results, int(folded.positions[pick.place])),
        }
        for pick in picks
    ]
    names, cost = results.problem.objective_names, cost_column(results.problem.objectives)
    document: dict[str, Any] = {
        "picks": documents,
        "figures": metrics,
        "tolerance": folded.tolerance,
        **(
            {
                "cost": names[cost],
                "speed": next((name for k, name in enumerate(names) if k != cost), names[cost]),
            }
        ),
    }
    if judge is None or not picks:
        return document
    order = _picks_first(folded, picks)
    rows = results.rows[folded.positions[order]]
    judged = _judged(results.problem, rows, len(picks), judge, metrics)
    for pick_document, sure in zip(documents, judged, strict=True):
        pick_document |= sure
    near = neighborhood(results.problem, rows[:_MOST_CENTERS], metrics)
    for pick_document, pick in zip(documents, picks, strict=True):
        pick_document["changes"] = _changes(results, int(folded.positions[pick.place]), metrics)
    return document | {
        "omitted": list(judge.omitted),
        **_missing_values(results, folded, order, near),
        "prices": _prices(results, folded, picks, near),
        "n_looked_at": len(near.rows),
    }


def _spoken(results: Results, position: int) -> str:
    space = results.problem.space
    return spoken_design(space, space.decode(results.rows[[position]])[0])


def _figures(results: Results) -> list[str]:
    """Metrics of a card: the objectives, then what else the designs have."""
    objectives = results.problem.objective_names
    front_rows = [
        name
        for name in MAIN_METRICS
        if name in results.metrics and np.isfinite(results.metrics[name]).any()
    ]
    return list(dict.fromkeys([*objectives, *front_rows]))


def _picks_first(folded: FoldedFront, picks: Sequence[Pick]) -> IntArray:
    """Places of the designs one chooses from, those recommended first."""
    places = np.array([pick.place for pick in picks])
    return np.concatenate([places, np.setdiff1d(folded.kept, places)])


def _limit_names(problem: Problem) -> dict[str, str]:
    """Words for the limits that the campaign sets, by the names of their violations."""
    return {constraint.text: limit_words(problem, constraint) for constraint in problem.constraints}


def _close_limits(results: Results, position: int) -> list[dict[str, Any]]:
    """The limits of which a design leaves little."""
    words = _limit_names(results.problem)
    return [
        {"words": words.get(name, name.replace("_", " ")), "left": -float(values[position])}
        for name, values in results.violations.items()
        # A limit that is kept by no margin at all is a condition, unless the campaign sets it.
        if -_CLOSE <= values[position] < 0 or (name in words and values[position] == 0)
    ]


def _judged(
    problem: Problem, rows: IntArray, n_picks: int, judge: Judge, metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Confidence in each recommended design; ``rows`` has these first."""
    judged: list[dict[str, Any]] = [{"verdicts": []} for _ in range(n_picks)]
    for reading in judge.readings:
        for document, verdict in zip(
            judged, verdicts(problem, reading, rows, n_picks), strict=True
        ):
            document["verdicts"].append(
                {
                    "name": verdict.reading.name,
                    "reading": verdict.reading.title,
                    "assumes": ASSUMPTIONS.get(verdict.reading.title, ""),
                    "n": verdict.n_compared,
                    "feasible": verdict.is_feasible,
                    "best": verdict.is_non_dominated,
                    "ratios": dict(verdict.ratios),
                }
            )
    if not judge.samples or not problem.evaluator.offers("with_library"):
        return judged
    spread = front_spread(problem, rows, metrics, judge.samples)
    worst = worst_excess(problem, rows)
    words = _limit_names(problem)
    for i, document in enumerate(judged):
        document["ranges"] = {
            "samples": spread.samples,
            "numbers": spread.n_numbers,
            "n": len(rows),
            "kept": float(spread.feasible_share[i]),
            "best": float(spread.non_dominated_share[i]),
            "n_keeping": int((worst.excess <= 0).sum()),
            "beyond": float(worst.excess[i]) if np.isfinite(worst.excess[i]) else None,
            "limit": words.get(worst.limits[i], worst.limits[i]),
            "intervals": {name: ends[i].tolist() for name, ends in spread.intervals.items()},
        }
    return judged


def _changes(results: Results, position: int, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Every design one move away from a design: what changes, and what of it."""
    space = results.problem.space
    near = neighborhood(results.problem, results.rows[[position]], metrics)
    ours = {name: float(results.metrics[name][position]) for name in metrics}
    (design,) = space.decode(results.rows[[position]])
    words = _limit_names(results.problem)
    changes = []
    for place, neighbor in enumerate(space.decode(near.rows)):
        moved = changed_settings(space, design, neighbor)
        changes.append(
            {
                "subject": " + ".join(subject for subject, _, _ in moved),
                "words": "; ".join(f"{name} {old} → {new}" for name, old, new in moved),
                "change": {
                    name: float(near.metrics[name][place]) / ours[name] - 1.0
                    for name in metrics
                    if ours[name] and np.isfinite(near.metrics[name][place])
                },
                "broken": {
                    words.get(name, name.replace("_", " ")): excess
                    for name, excess in near.broken(place).items()
                },
                "feasible": bool(near.feasible[place]),
            }
        )
    return changes


def _front_designs(results: Results, folded: FoldedFront) -> tuple[IntArray, IntArray]:
    """All known designs of the whole front, and the place of each on the page; -1: not there.

    Of an exact front also those that equal a design of the page in every objective.
    """
    keys, exact = results.problem.space.keys, results.exact
    if exact is None:
        rows = owners = results.rows[results.front()]
    else:
        rows, owners = exact.rows, exact.representatives()[exact.point]
    carried = results.rows[folded.positions]
    place_of = {key: place for place, key in enumerate(keys(carried).tolist())}
    return rows, np.array([place_of.get(key, -1) for key in keys(owners).tolist()], dtype=int)


def _missing_values(
    results: Results, folded: FoldedFront, order: IntArray, near: Neighborhood
) -> dict[str, Any]:
    """Values that only folded designs have, and those that no design of the front has."""
    rows, places = _front_designs(results, folded)
    choices = folded_choices(results.problem, rows, places, folded.kept)
    counts = [] if results.exact is None else results.exact.counts.tolist()
    problem, positions = results.problem, folded.positions[order]
    points = results.objectives[positions]
    measure = Measure.of(points, problem.senses, folded.tolerance)
    designs = problem.space.decode(near.rows)
    misses = near_misses(problem, near, results.rows[positions], measure, rows)
    return {
        "folded_values": [
            {
                "parameter": setting_words(choice.parameter, choice.value)[0],
                "value": setting_words(choice.parameter, choice.value)[1] or "none",
                "ids": [place for place in choice.places if place >= 0],
            }
            for choice in choices
        ],
        "misses": (
            [
                {
                    "parameter": setting_words(miss.parameter, miss.value)[0],
                    "value": setting_words(miss.parameter, miss.value)[1] or "none",
                    "id": int(order[miss.dominator]),
                    "shares": {
                        name: float(near.metrics[name][miss.place])
                        / float(results.metrics[name][positions[miss.dominator]])
                        - 1.0
                        for name in problem.objective_names
                        if results.metrics[name][
                            positions[miss.dominator]
                        ]  # nothing is a share of 0
                    },
                    "words": "; ".join(
                        f"{name} {old} → {new}"
                        for name, old, new in changed_settings(
                            problem.space,
                            problem.space.decode(results.rows[positions[[miss.dominator]]])[0],
                            designs[miss.place],
                        )
                    ),
                }
                for miss in misses[:_MOST_MISSES]
            ]
        ),
        "n_front_designs": len(rows),
        "n_unlisted": max(sum(counts) - len(rows), 0),
    }


def _prices(
    results: Results, folded: FoldedFront, picks: Sequence[Pick], near: Neighborhood
) -> list[dict[str, Any]]:
    """Gain from 5 % more of a resource, or 5 K, if a design's amount of it was the limit.

    The best value of the objective that *fastest* maximizes, among designs that have at most as
    much of the resource as the recommended one, against those that have at most 5 % more; all
    other limits are the campaign's. Exact for the objective by which designs are cheaper, if the
    exact front is known; else a lower bound, from the front and its neighbors.
    """
    problem = results.problem
    names = problem.objective_names
    if len(names) < 2 or len(picks) < 2:
        return []
    speed = int(_column_of(picks[-1], results, folded))
    cost = _column_of(picks[0], results, folded)
    inside = np.flatnonzero(near.feasible)
    gain = np.concatenate(
        [results.objectives[folded.positions, speed], near.objectives[inside, speed]]
    )
    prices = []
    for name in dict.fromkeys([names[cost], *RESOURCES]):
        if name not in results.metrics or name not in near.metrics or name == names[speed]:
            continue
        metric = metric_of(name, problem.metrics)
        front_amounts = metric.flipped(results.metrics[name][folded.positions])
        amounts = np.concatenate([front_amounts, metric.flipped(near.metrics[name][inside])])
        if not np.isfinite(amounts).all() or np.ptp(amounts) == 0:
            continue
        prices.append(
            {
                "metric": name,
                "exact": name == names[cost] and results.exact is not None,
                "of": [
                    _price(gain, amounts, float(front_amounts[pick.place]), metric.unit)
                    | {"best": float(gain.min())}
                    for pick in picks
                ],
            }
        )
    return prices


def _price(
    gain: FloatArray, amounts: FloatArray, amount: float, unit: str = ""
) -> dict[str, float]:
    """Price of a resource from minimized ``gain``; amounts are negative where less is worse."""
    slack, step = 1e-9 * abs(amount), _STEPS.get(unit, _STEP * abs(amount))
    within = gain[amounts <= amount + slack].min()
    more = gain[amounts <= amount + step + slack].min()
    return {"amount": abs(amount), "step": step, "gain": float(within - more)}


def _column_of(pick: Pick, results: Results, folded: FoldedFront) -> int:
    """The objective in which a recommended design is the best."""
    points = results.objectives[folded.positions[folded.kept]]
    mine = results.objectives[folded.positions[pick.place]]
    return int((points.min(axis=0) == mine).argmax())
