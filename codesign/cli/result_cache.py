"""The cache of results: what it holds, whether it is whole, and less of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codesign.base.errors import InputError, check_known
from codesign.cli.flags import quantity
from codesign.cli.output import report

_ACTIONS = ("show", "verify", "prune")


def cache(
    action: Annotated[str, typer.Argument(help="show, verify or prune.")] = "show",
    evaluator: str | None = None,
    older_than_days: Annotated[
        float | None, typer.Option(min=0.0, help="prune: results stored longer ago.")
    ] = None,
    max_size: str | None = None,
    cache_folder: Path | None = None,
) -> None:
    """Show the cache of results, verify its checksums, or prune it.

    Args:
        evaluator: prune: results of this evaluator alone.
        max_size: prune: the oldest results above this size, such as '1 GB'.
        cache_folder: Folder of the cache of results. [$XDG_CACHE_HOME/codesign]
    """
    from codesign.answers.library import CacheAnswer
    from codesign.report.labels import format_value
    from codesign.report.tables import pairs_table, record_table, spaced
    from codesign.search.execution.result_store import ResultStore

    check_known("action", action, _ACTIONS, "cache")
    limits = (evaluator, older_than_days, max_size)
    if action == "prune" and limits == (None, None, None):
        raise InputError("expected --evaluator, --older-than-days or --max-size", "cache prune")
    if action != "prune" and limits != (None, None, None):
        raise InputError(
            "takes no --evaluator, --older-than-days and --max-size", f"cache {action}"
        )
    store = ResultStore(cache_folder)
    damages = store.verify() if action == "verify" else []
    removed = 0
    if action == "prune":
        max_bytes = None if max_size is None else quantity("--max-size", max_size, "B")
        removed = store.prune(evaluator, older_than_days, max_bytes)
    holdings = store.holdings()
    answer = CacheAnswer(file=store.path, sources=holdings, damages=damages, removed=removed)
    facts = {
        "file": str(store.path),
        "results": sum(holding.results for holding in holdings),
        "size": format_value(sum(holding.size_bytes for holding in holdings), "B"),
        **({"removed": removed} if action == "prune" else {}),
    }
    fields = "evaluator source=inputs results size_bytes=size oldest_days newest_days"
    report(
        lambda: answer,
        lambda: spaced(
            pairs_table("Cache of results", facts), record_table("Evaluators", holdings, fields)
        ),
    )
    if damages:
        listed = [*damages[:5], *([f"and {len(damages) - 5} more"] if len(damages) > 5 else [])]
        raise InputError([f"{line}; it will be computed again" for line in listed], str(store.path))
