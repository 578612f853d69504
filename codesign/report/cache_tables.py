"""The cache of results, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.report.tables import pairs_table, plain_table, spaced

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
        "size": f"{sum(holding.size_bytes for holding in holdings) / 1e6:,.2f} MB",
    }
    if removed is not None:
        facts["removed"] = f"{removed:,}"
    columns = ["results", "MB", "oldest, days", "newest, days"]
    table = plain_table("Evaluators", ["evaluator", "inputs", *columns], columns)
    for holding in holdings:
        table.add_row(
            holding.evaluator,
            holding.source,
            f"{holding.results:,}",
            f"{holding.size_bytes / 1e6:,.3f}",
            f"{holding.oldest_days:,.1f}",
            f"{holding.newest_days:,.1f}",
        )
    return spaced(pairs_table("Cache of results", facts), table)
