"""The cache of results, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.report.labels import format_value
from codesign.report.tables import pairs_table, record_table, spaced

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.search.execution.result_store import Holding


def cache_tables(
    path: Path, holdings: Sequence[Holding], removed: int | None
) -> list[RenderableType]:
    """Table with the place of the cache, and its entries for each evaluator with its inputs.

    Args:
        holdings: By source.
        removed: Results that were removed just now; None if none were to be.
    """
    facts = {
        "file": str(path),
        "results": f"{sum(holding.results for holding in holdings):,}",
        "size": format_value(sum(holding.size_bytes for holding in holdings), "B"),
    }
    if removed is not None:
        facts["removed"] = f"{removed:,}"
    fields = "evaluator source=inputs results size_bytes=size oldest_days newest_days"
    return spaced(
        pairs_table("Cache of results", facts), record_table("Evaluators", holdings, fields)
    )
