"""The first screen's designs, how sure they are, and what a change of them costs.

Everything is computed here, with the numbers that designs have on the page; ``answer_html`` words
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codesign.base.columns import FloatArray, IntArray, JsonObject
from codesign.insight.explanation.distance import Measure
from codesign.insight.explanation.neighborhood import (
    Neighborhood,
    Reading,
    folded_choices,
    near_misses,
    neighborhood,
    verdicts,
)
from codesign.insight.plateaus import FoldedFront
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
from codesign.report.recommended import recommendation_words
from codesign.search.campaign import Results
from codesign.search.problem import Problem, cost_column

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
    "bandwidth": "streams sustain what kernels of five GPUs do (625 of them)",
    "simulation": "every chunk is moved through its ports, one event after the other",
}
"""Assumptions of other models of the hardware, by their names."""
BANDWIDTH = "bandwidth"
"""Reading with the share of the off-chip bandwidth that streams of GPUs sustain."""
RESIDUAL = 0.015
"""Share of its time within which 95 % of 2,000 transfers are in a transaction-level simulation
(``python -m validation simulation``)."""
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
) -> JsonObject:
    """Recommended designs with what limits them, how sure they are, and what is around them.

    Args:
        results: Of the campaign, with the exact front if that is known.
        folded: The front; designs are numbered along it.
        judge: What to ask further; None: nothing, and nothing is looked at around the designs.
    """
    picks, problem = picks_of(results, folded), results.problem
    measured = (
        name
        for name in MAIN_METRICS
        if name in results.metrics and np.isfinite(results.metrics[name]).any()
    )
    metrics = list(dict.fromkeys([*problem.objective_names, *measured]))
    limit_titles = _limit_titles(problem)
    documents: list[JsonObject] = []
    for pick in picks:
        position = int(folded.positions[pick.place])
        (design,) = problem.space.decode(results.rows[[position]])
        margins = {name: -float(excess[position]) for name, excess in results.violations.items()}
        documents.append({
            "key": pick.key,
            "reason": pick.reason,
            "is_recommended": pick.is_recommended,
            "id": pick.place,
            "position": position,
            "words": spoken_design(problem.space, design),
            "close": [
                {"words": limit_titles.get(name, name.replace("_", " ")), "left": share}
                for name, share in margins.items()
                # A limit kept by no margin at all is a condition, unless the campaign sets it.
                if 0 < share <= _CLOSE or (name in limit_titles and share == 0)
            ],
        })  # fmt: skip
    names, cost = problem.objective_names, cost_column(problem.objectives)
    document = {
        "picks": documents,
        "sentence": recommendation_words(results, folded) if picks else "",
        "figures": metrics,
        "tolerance": folded.tolerance,
        "cost": names[cost],
        "speed": next((name for k, name in enumerate(names) if k != cost), names[cost]),
    }
    if judge is None or not picks:
        return document
    places = np.array([pick.place for pick in picks])
    order = np.concatenate([places, np.setdiff1d(folded.kept, places)])
    rows = results.rows[folded.positions[order]]
    for pick_document, sure in zip(
        documents, _judged(problem, rows, len(picks), judge, metrics), strict=True
    ):
        changes = _changes(results, pick_document["position"], metrics)
        pick_document |= sure | {"changes": changes}
    near = neighborhood(problem, rows[:_MOST_CENTERS], metrics)
    return document | {
        "omitted": list(judge.omitted),
        **_missing_values(results, folded, order, near),
        "prices": _prices(results, folded, picks, near),
        "n_looked_at": len(near.rows),
    }


def _limit_titles(problem: Problem) -> dict[str, str]:
    """Words for the limits that the campaign sets, by the names of their violations."""
    return {constraint.text: limit_words(problem, constraint) for constraint in problem.constraints}


def _judged(
    problem: Problem, rows: IntArray, n_picks: int, judge: Judge, metrics: Sequence[str]
) -> list[JsonObject]:
    """Confidence in each recommended design; ``rows`` has these first."""
    judged: list[JsonObject] = [{"verdicts": []} for _ in range(n_picks)]
    for reading in judge.readings:
        for document, verdict in zip(
            judged, verdicts(problem, reading, rows, n_picks), strict=True
        ):
            if reading.name == BANDWIDTH:
                document["speeds"] = {
                    name: [verdict.ratios[name] / (1 + RESIDUAL), 1 + RESIDUAL]
                    for name in verdict.ratios
                    if "token/s" in metric_of(name, problem.metrics).unit
                }
            document["verdicts"].append(
                {
                    "name": verdict.reading.name,
                    "reading": verdict.reading.title,
                    "assumes": ASSUMPTIONS.get(verdict.reading.title)
                    or ASSUMPTIONS.get(verdict.reading.name, ""),
                    "n": verdict.n_compared,
                    "feasible": verdict.is_feasible,
                    "best": verdict.is_non_dominated,
                    "ratios": dict(verdict.ratios),
                }
            )
    if not judge.samples or not problem.evaluator.offers("replace_library"):
        return judged
    spread = front_spread(problem, rows, metrics, judge.samples)
    worst = worst_excess(problem, rows)
    words = _limit_titles(problem)
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


def _changes(results: Results, position: int, metrics: Sequence[str]) -> list[JsonObject]:
    """Every design one move away from a design: what changes, and what of it."""
    space = results.problem.space
    near = neighborhood(results.problem, results.rows[[position]], metrics)
    ours = {name: float(results.metrics[name][position]) for name in metrics}
    (design,) = space.decode(results.rows[[position]])
    words = _limit_titles(results.problem)
    changes = []
    for place, neighbor in enumerate(space.decode(near.rows)):
        moved = changed_settings(space, design, neighbor)
        changes.append(
            {
                "subject": " + ".join(subject for subject, _, _ in moved),
                "words": _change_words(moved),
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


def _missing_values(
    results: Results, folded: FoldedFront, order: IntArray, near: Neighborhood
) -> JsonObject:
    """Values that only folded designs have, and those that no design of the front has."""
    problem, exact = results.problem, results.exact
    keys = problem.space.keys
    # All designs of an exact front, also those that equal a design of the page in everything.
    rows = owners = results.rows[results.front()]
    if exact is not None:
        rows, owners = exact.rows, exact.representatives()[exact.point]
    carried = keys(results.rows[folded.positions]).tolist()
    place_of = {key: place for place, key in enumerate(carried)}
    places = np.array([place_of.get(key, -1) for key in keys(owners).tolist()], dtype=int)
    positions = folded.positions[order]
    measure = Measure.build(results.objectives[positions], problem.senses, folded.tolerance)
    misses = near_misses(problem, near, results.rows[positions], measure, rows)[:_MOST_MISSES]
    missed = problem.space.decode(near.rows[[miss.place for miss in misses]])
    better = [positions[miss.dominator] for miss in misses]
    ours = problem.space.decode(results.rows[better])
    return {
        "folded_values": [
            _value_document(choice.parameter, choice.value)
            | {"ids": [place for place in choice.places if place >= 0]}
            for choice in folded_choices(problem, rows, places, folded.kept)
        ],
        "misses": [
            _value_document(miss.parameter, miss.value)
            | {
                "id": int(order[miss.dominator]),
                "shares": {
                    name: float(near.metrics[name][miss.place] / value) - 1.0
                    for name in problem.objective_names
                    if (value := results.metrics[name][position])  # nothing is a share of 0
                },
                "words": _change_words(changed_settings(problem.space, instead, design)),
            }
            for miss, position, instead, design in zip(misses, better, ours, missed, strict=True)
        ],
        "n_front_designs": len(rows),
        "n_unlisted": 0 if exact is None else max(int(exact.counts.sum()) - len(rows), 0),
    }


def _value_document(parameter: str, value: Any) -> JsonObject:
    title, text = setting_words(parameter, value)
    return {"parameter": title, "value": text or "none"}


def _change_words(changes: Sequence[tuple[str, str, str]]) -> str:
    return "; ".join(f"{name} {old} → {new}" for name, old, new in changes)


def _prices(
    results: Results, folded: FoldedFront, picks: Sequence[Pick], near: Neighborhood
) -> list[JsonObject]:
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
    points = results.objectives[folded.positions]
    best = points[folded.kept].min(axis=0)
    cost, speed = (int((best == points[pick.place]).argmax()) for pick in (picks[0], picks[-1]))
    inside = np.flatnonzero(near.feasible)
    gain = np.concatenate([points[:, speed], near.objectives[inside, speed]])
    prices = []
    for name in dict.fromkeys([names[cost], *RESOURCES]):
        if name not in results.metrics or name not in near.metrics or name == names[speed]:
            continue
        metric = metric_of(name, problem.metrics)
        front_amounts = metric.flipped(results.metrics[name][folded.positions])
        amounts = np.concatenate([front_amounts, metric.flipped(near.metrics[name][inside])])
        if not np.isfinite(amounts).all() or np.ptp(amounts) == 0:
            continue
        gains = [
            _price(gain, amounts, float(front_amounts[pick.place]), metric.unit)
            | {"best": float(gain.min())}
            for pick in picks
        ]
        is_exact = name == names[cost] and results.exact is not None
        prices.append({"metric": name, "exact": is_exact, "of": gains})
    return prices


def _price(
    gain: FloatArray, amounts: FloatArray, amount: float, unit: str = ""
) -> dict[str, float]:
    """Price of a resource from minimized ``gain``; amounts are negative where less is worse."""
    slack, step = 1e-9 * abs(amount), _STEPS.get(unit, _STEP * abs(amount))
    within = gain[amounts <= amount + slack].min()
    more = gain[amounts <= amount + step + slack].min()
    return {"amount": abs(amount), "step": step, "gain": float(within - more)}
