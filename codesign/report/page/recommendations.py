"""The first screen's designs, how sure they are, and what a change of them costs.

Everything is computed here, with the numbers that designs have on the page; ``answer_html`` words
it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.base.columns import IntArray, JsonObject, JsonRows, StringList, Strings
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.insight.explanation.neighborhood import (
    Reading,
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
    spaced_name,
    spoken_design,
)
from codesign.report.limit_lines import limit_titles
from codesign.report.picks import picks_of
from codesign.report.recommended import recommendation_text
from codesign.search.campaign import Results
from codesign.search.problem import Problem, cost_column

ASSUMPTIONS = {
    "profile plain": "operands are tiled for the on-chip memory, and all of the off-chip bandwidth "
    "is usable",
    "profile memexplorer": "operands are streamed anew for every tile of the array, half of the "
    "off-chip bandwidth is usable, and the batch is the largest that fits",
    "bandwidth": "streams sustain the bandwidth measured with 625 kernels on five GPUs",
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
_CLOSE = 0.1
"""A limit is named on a card if less than so much of it is left."""


@frozen
class Judge:
    """Questions about the recommended designs beside the campaign's own numbers.

    Attributes:
        readings: Of the campaign's problem by other models.
        samples: Draws over the ranges of technologies; 0: not asked.
        omitted: What was not asked, with the reason.
    """

    readings: Sequence[Reading] = ()
    samples: int = SAMPLES
    omitted: Strings = ()


def recommendation_document(
    results: Results, folded: FoldedFront, judge: Judge | None
) -> JsonObject:
    """Recommended designs with what limits them, how sure they are, and what is around them.

    Args:
        results: Of the campaign, with the exact front if that is known.
        folded: The front; designs are numbered along it.
        judge: What to ask further; None: nothing, and nothing is looked at around the designs.
    """
    picks = picks_of(results, folded)
    problem = results.problem
    measured = (
        name
        for name in MAIN_METRICS
        if name in results.metrics and np.isfinite(results.metrics[name]).any()
    )
    metrics = list(dict.fromkeys([*problem.objective_names, *measured]))
    titles = limit_titles(problem)
    documents: JsonRows = []
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
                {"words": titles.get(name, spaced_name(name)), "left": share}
                for name, share in margins.items()
                # A limit kept by no margin at all is a condition, unless the campaign sets it.
                if 0 < share <= _CLOSE or (name in titles and share == 0)
            ],
        })  # fmt: skip
    names = problem.objective_names
    cost = cost_column(problem.objectives)
    _, rule, alternatives = recommendation_text(results, folded) if picks else ("", "", [])
    document = {
        "picks": documents,
        "rule": rule,
        "alternatives": alternatives,
        "figures": metrics,
        "cost": names[cost],
    }
    if judge is None or not picks:
        return document
    places = np.array([pick.place for pick in picks])
    order = np.concatenate([places, np.setdiff1d(folded.kept, places)])
    rows = results.rows[folded.positions[order]]
    omitted = list(judge.omitted)
    judged = _judged(problem, rows, len(picks), judge, metrics, omitted)
    for pick_document, sure in zip(documents, judged, strict=True):
        changes = _changes(results, pick_document["position"], metrics)
        pick_document |= sure | {"changes": changes}
    return document | {"omitted": omitted}


def _judged(
    problem: Problem,
    rows: IntArray,
    n_picks: int,
    judge: Judge,
    metrics: Strings,
    omitted: StringList,
) -> JsonRows:
    """Confidence in each recommended design; ``rows`` has these first.

    Args:
        omitted: Takes the models that cannot evaluate the designs, with the reason.
    """
    judged: JsonRows = [{"verdicts": []} for _ in range(n_picks)]
    for reading in judge.readings:
        try:
            opinions = verdicts(problem, reading, rows, n_picks)
        except InputError as error:
            omitted.append(f"{reading.title}: {error.mistakes[0].message}")
            continue
        for document, verdict in zip(judged, opinions, strict=True):
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
    if not judge.samples or not problem.evaluator.technologies():
        return judged
    spread = front_spread(problem, rows, metrics, judge.samples)
    worst = worst_excess(problem, rows)
    words = limit_titles(problem)
    for i, document in enumerate(judged):
        document["ranges"] = {
            "samples": spread.samples,
            "numbers": spread.n_numbers,
            "kept": float(spread.feasible_share[i]),
            "best": float(spread.non_dominated_share[i]),
            "beyond": float(worst.excess[i]) if np.isfinite(worst.excess[i]) else None,
            "limit": words.get(worst.limits[i], worst.limits[i]),
            "intervals": {name: ends[i].tolist() for name, ends in spread.intervals.items()},
        }
    return judged


def _changes(results: Results, position: int, metrics: Strings) -> JsonRows:
    """Every design one move away from a design: what changes, and what of it."""
    space = results.problem.space
    near = neighborhood(results.problem, results.rows[[position]], metrics)
    ours = {name: float(results.metrics[name][position]) for name in metrics}
    (design,) = space.decode(results.rows[[position]])
    words = limit_titles(results.problem)
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
