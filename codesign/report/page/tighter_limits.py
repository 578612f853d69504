"""What the page needs to redraw the exact front under tighter limits, offline.

The designs are those of :class:`~codesign.search.enumeration.KeptFront`, in its order; the page's
program filters them (``static/limits.js``), as
:meth:`~codesign.search.enumeration.KeptFront.within` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codesign.insight.uncertainty.uncertainty import metric_quantiles
from codesign.models.hardware.accelerator import UNCHARGED_EDGE
from codesign.report.labels import metric_title, short_names
from codesign.report.page.carried_designs import parameter_document
from codesign.report.result_tables import design_words
from codesign.search.enumeration.kept import KeptFront, usual_metrics

if TYPE_CHECKING:
    from codesign.base.columns import Value
    from codesign.search.campaign import Results

MOST_POINTS = 20_000
"""[ours] Points that a page carries: some 60 bytes each, and filtered in a tenth of a second."""

_LEVELS = (0, 5, 20, 35, 50, 65, 80, 95, 100)
"""[ours] Percent of the draws: ends of the intervals of cards, and enough between them that a share
of the draws is right to some 2 %."""
_MOST_DRAWN = 500_000
"""[ours] Designs times draws: some ten seconds of one processor."""
_FEWEST_SAMPLES = 50
"""[ours] Draws below which nothing is said of a share."""


def limit_document(results: Results, kept: KeptFront | None, samples: int = 0) -> dict[str, Any]:
    """Every point that tighter limits may bring to the front, with its first design.

    Args:
        results: Of the campaign; its exact front alone serves limits on the objectives.
        kept: As stored by ``codesign enumerate --keep``; None: it was not.
        samples: Draws over the ranges of technologies, for how sure it is that a limit is kept.
    """
    problem, exact = results.problem, results.exact
    if kept is None and exact is not None:
        kept = KeptFront(problem, exact, len(problem.objectives))
    if kept is None or len(kept) > MOST_POINTS:
        return {"hint": _hint(results, kept)}
    rows = kept.front.representatives()
    decoded = problem.space.decode(rows)
    names = kept.problem.objective_names
    return {
        "hint": "" if kept.kept else _hint(results, kept),
        "metrics": names,
        "limitable": [item.metric.name for item in kept.limitable],
        "refused": [
            metric_title(item.metric)
            for item in kept.problem.objectives
            if item not in kept.limitable
        ],
        "steps": {x.metric.name: x.step for x in kept.limitable if x.step},
        "ranges": _range_document(results, kept, samples),
        "values": dict(zip(names, kept.problem.flipped(kept.front.objectives).T, strict=True)),
        "short": short_names(
            str(design[name])
            for design in decoded
            for name in design
            if name.endswith("technology") and design[name] is not None
        ),
        "uncharged": _uncharged_families(results, decoded),
        "words": design_words(problem.space, decoded),
        "parameters": [
            parameter_document(parameter.name, [design.get(parameter.name) for design in decoded])
            | {"free": len(parameter.values) > 1 or bool(parameter.optional)}
            for parameter in problem.space.parameters
        ],
    }


def _uncharged_families(results: Results, designs: Sequence[Mapping[str, Value]]) -> list[str]:
    """Of each design the family of its memories that take none of the die edge; empty: none."""
    evaluator = results.problem.evaluator
    if not evaluator.offers("with_library"):
        return [""] * len(designs)
    families = {name: item.family for name, item in evaluator.technologies().items()}
    return [
        str(uncharged)
        if uncharged in {families.get(str(value)) for value in design.values()}
        else ""
        for design in designs
        for uncharged in [design.get(UNCHARGED_EDGE) or ""]
    ]


def _range_document(results: Results, kept: KeptFront, samples: int) -> dict[str, Any] | None:
    """Quantiles of what the points' metrics are over the ranges; None: not asked."""
    samples = min(samples, _MOST_DRAWN // max(len(kept), 1))
    if samples < _FEWEST_SAMPLES or not results.problem.evaluator.offers("with_library"):
        return None
    names, rows = kept.problem.objective_names, kept.front.representatives()
    quantiles = metric_quantiles(results.problem, rows, names, _LEVELS, samples)
    return {
        "samples": samples,
        "levels": list(_LEVELS),
        "values": {
            name: [[float(f"{value:.4g}") for value in row] for row in rows_of_values.tolist()]
            for name, rows_of_values in quantiles.items()
        },
    }


def _hint(results: Results, kept: KeptFront | None) -> str:
    """How to get sliders, or more of them, in one line."""
    command = f"codesign enumerate {results.definition.name}"
    if kept is not None and len(kept) > MOST_POINTS:
        return (
            f"{len(kept):,} designs may come to the front under tighter limits, more than the "
            f"{MOST_POINTS:,} that a page carries: keep fewer metrics with “{command} --keep”."
        )
    usual = usual_metrics(results.problem)
    if usual:
        metrics = {metric.name: metric for metric in results.problem.metrics}
        titles = ", ".join(metric_title(metrics[name]) for name in usual)
        return f"Sliders for {titles} come with “{command} --keep usual”."
    return "" if kept is not None else f"Sliders for tighter limits come with “{command}”."
