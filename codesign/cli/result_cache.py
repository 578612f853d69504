"""The cache of results: what it holds, whether it is whole, and less of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from codesign.base.errors import InputError, check_known
from codesign.cli.flags import quantity
from codesign.cli.output import AsJson, report

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.answers.library import CacheAnswer

_ACTIONS = ("show", "verify", "prune")
CacheFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Folder of the cache of results. [$XDG_CACHE_HOME/codesign]"),
]


def cache(
    action: Annotated[str, typer.Argument(help="show, verify or prune.")] = "show",
    evaluator: Annotated[
        str | None, typer.Option(help="prune: results of this evaluator alone.")
    ] = None,
    older_than_days: Annotated[
        float | None, typer.Option(min=0.0, help="prune: results stored longer ago.")
    ] = None,
    max_size: Annotated[
        str | None, typer.Option(help="prune: the oldest results above this size, such as '1 GB'.")
    ] = None,
    cache_folder: CacheFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show the cache of results, verify its checksums, or prune it."""
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

    def answer() -> CacheAnswer:
        from codesign.answers.library import CacheAnswer

        return CacheAnswer(file=store.path, sources=holdings, damages=damages, removed=removed)

    def tables() -> list[RenderableType]:
        from codesign.report.cache_tables import cache_tables

        return cache_tables(store.path, holdings, removed if action == "prune" else None)

    report(as_json, answer, tables)
    if damages:
        listed = [*damages[:5], *([f"and {len(damages) - 5} more"] if len(damages) > 5 else [])]
        raise InputError([f"{line}; it will be computed again" for line in listed], str(store.path))
