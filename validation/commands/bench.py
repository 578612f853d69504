"""Speed of the evaluator, the search and the store."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from codesign.cli.output import print_tables, say
from validation.commands.study_page import Output, check_output


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Every measurement once, on small batches.")
    ] = False,
    output: Output = None,
) -> None:
    """Measure speed: evaluators, hypervolume, store, enumeration, start. A few minutes."""
    from validation.benchmark import FULL, QUICK, benchmark

    check_output(output)
    measured = benchmark(QUICK if quick else FULL)
    if output is not None:
        from validation.benchmark.benchmark_page import benchmark_finding

        say(f"wrote {benchmark_finding(measured).store(output)}")

    def tables() -> Any:
        from codesign.report.tables import pairs_table, spaced
        from validation.benchmark.benchmark_tables import benchmark_tables

        about = {name: str(value) for name, value in measured["about"].items()}
        noted: list[Any] = [
            table.terminal_table_and_note() if table.note else table.terminal_table()
            for table in benchmark_tables(measured)
        ]
        return spaced(pairs_table("Benchmark", about), *noted)

    print_tables(tables())
