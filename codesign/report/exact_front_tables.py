"""An exact front as a table and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codesign.report.exports import provenance
from codesign.report.front_formats import formats_table
from codesign.report.front_lines import front_lines
from codesign.report.labels import metric_title
from codesign.report.plateaus import folded_front
from codesign.report.result_tables import front_observations, reference_text
from codesign.report.tables import pairs_table, spaced, text_line
from codesign.search.pareto import TOLERANCE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.search.campaign import Results
    from codesign.search.enumeration import ExactFront, KeptFront


def document(
    results: Results,
    front: ExactFront,
    seconds: float,
    limit: int | None = None,
    tolerance: float = TOLERANCE,
    kept: KeptFront | None = None,
) -> dict[str, Any]:
    """An exact front with its provenance, one design per point, and how it was found.

    Args:
        results: One design per point of the front, in its order.
        seconds: Wall time that it took now; little if it was stored.
        limit: At most so many points.
        tolerance: Share within which a point is said to be folded under a cheaper one.
        kept: The designs that may be on the front under tighter limits, if they were asked for.
    """
    folded = folded_front(results, tolerance)
    observed = front_observations(results, folded, limit)
    points = [
        {"n_designs": int(front.counts[position]), **item}
        for position, item in zip(folded.positions[: len(observed)], observed, strict=True)
    ]
    return provenance(results) | {
        "hypervolume": results.exact_hypervolume,
        "n_points": len(front),
        "tolerance": tolerance,
        "n_front_designs": int(front.counts.sum()),
        "n_designs": front.n_designs,
        "n_evaluated": front.n_evaluated,
        "n_repeated": front.n_repeated,
        "n_excluded": front.n_excluded,
        "n_failed": front.n_failed,
        "seconds": seconds,
        "points": points,
        **({"kept": _kept_document(kept)} if kept is not None else {}),
    }


def _kept_document(kept: KeptFront) -> dict[str, Any]:
    return {
        "metrics": list(kept.kept),
        "limitable": [item.metric.name for item in kept.limitable],
        "n_points": len(kept),
        "n_front_designs": int(kept.front.counts.sum()),
        "n_evaluated": kept.front.n_evaluated,
    }


def tables(
    results: Results,
    front: ExactFront,
    seconds: float,
    width: int,
    limit: int | None = None,
    files: Sequence[str] = (),
    tolerance: float = TOLERANCE,
    kept: KeptFront | None = None,
) -> list[RenderableType]:
    """The same for people, in so many columns of the terminal."""
    counts = {position: int(count) for position, count in enumerate(front.counts)}
    title = f"Exact front of {results.definition.name}"
    facts = {
        "points": f"{len(front):,}",
        "designs on it": f"{int(front.counts.sum()):,}",
        "hypervolume": f"{results.exact_hypervolume:.6g}",
        "designs of the space": f"{front.n_designs:,}",
        "evaluated": f"{front.n_evaluated:,}",
        "not evaluated: same numbers as one that was": f"{front.n_repeated:,}",
        "not evaluated: excluded by bounds and limits": f"{front.n_excluded:,}",
    }
    if front.n_failed:
        facts["failed"] = f"{front.n_failed:,}"
    if kept is not None:
        names = ", ".join(
            metric_title(item.metric) + (" in whole steps" if item.step else "")
            for item in kept.limitable
        )
        facts["points for tighter limits"] = f"{len(kept):,}; exact for limits on {names}"
    facts["seconds"] = f"{seconds:.1f}"
    formats = formats_table(results)
    wrote = (text_line(f"wrote {file}") for file in files)
    return spaced(
        front_lines(results, width, limit, counts, tolerance),
        [] if formats is None else [formats],
        [pairs_table(title, facts), text_line(reference_text(results)), *wrote],
    )
