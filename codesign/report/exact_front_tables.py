"""An exact front as a table and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codesign.insight.plateaus import folded_front
from codesign.report.front_formats import formats_table
from codesign.report.front_lines import front_lines
from codesign.report.labels import metric_title
from codesign.report.recommended import recommendation_words
from codesign.report.result_tables import reference_text
from codesign.report.tables import pairs_table, spaced, text_line
from codesign.search.pareto import TOLERANCE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.search.campaign import Results
    from codesign.search.enumeration import ExactFront, KeptFront


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
            metric_title(objective.metric) + (" in whole steps" if objective.step else "")
            for objective in kept.limitable
        )
        facts["points for tighter limits"] = f"{len(kept):,}; exact for limits on {names}"
    facts["seconds"] = f"{seconds:.1f}"
    formats = formats_table(results)
    wrote = (text_line(f"wrote {file}") for file in files)
    return spaced(
        front_lines(results, width, limit, counts, tolerance),
        [text_line(recommendation_words(results, folded_front(results, tolerance)))],
        [] if formats is None else [formats],
        [pairs_table(title, facts), text_line(reference_text(results)), *wrote],
    )
