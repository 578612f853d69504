"""Speed of the evaluator, the search and the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from codesign.base.errors import InputError
from codesign.cli.output import AsJson, report, say


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Every measurement once, on small batches.")
    ] = False,
    write: Annotated[
        Path | None, typer.Option(help="Folder for performance.md, such as docs.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed: evaluator, its growth, hypervolume, store, enumeration. About two minutes."""
    from validation.benchmark import FULL, QUICK, benchmark

    if write is not None:
        try:  # before two minutes are spent
            write.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", f"--write: {write}") from error
    measured = benchmark(QUICK if quick else FULL)
    if write is not None:
        from validation.benchmark.benchmark_page import write_page

        say(f"wrote {write_page(measured, write)}")

    def tables() -> Any:
        from codesign.report.tables import pairs_table, spaced
        from validation.benchmark.benchmark_tables import benchmark_tables

        about = {name: str(value) for name, value in measured["about"].items()}
        noted: list[Any] = [
            table.with_note() if table.note else table.on_terminal()
            for table in benchmark_tables(measured)
        ]
        return spaced(pairs_table("Benchmark", about), *noted)

    report("bench", as_json, lambda: measured, tables)
