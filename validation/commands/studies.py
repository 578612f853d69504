"""Our numbers beside others'."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codesign.base.columns import StringList
from codesign.base.errors import InputError, mistakes_at
from codesign.base.loop_progress import counted
from codesign.cli.output import print_tables, say
from validation.commands.study_page import Output, check_output


def studies(
    names: Annotated[
        StringList | None,
        typer.Argument(
            metavar="[STUDY]...",
            help="memexplorer, simulation, scalesim, mappings, kernels, silicon, energy, "
            "requests, arrivals, throughput, epoch, genz, life, fleets, caches, systems, area, "
            "heat, cost; all if none.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of whatever is sampled.", min=0)] = 0,
    size: Annotated[
        int | None, typer.Option(help="Number of cases, where a study samples them.", min=1)
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Your own measurements instead of the shipped ones, for kernels, requests, "
            "arrivals or throughput: a table with the columns of that study's, compared with the "
            "shipped constants."
        ),
    ] = None,
    rows: Annotated[int, typer.Option(help="Most comparisons to print.", min=0)] = 40,
    output: Output = None,
) -> None:
    """Compare our numbers with simulation, published tables, peers and measurements."""
    from validation.studies.studies import STUDIES, compare_table, run_study
    from validation.studies.validation_page import store_findings, study_tables

    check_output(output)
    if table is None:
        studies = [run_study(name, seed, size) for name in counted(names or [*STUDIES], "studies")]
    elif names is None or len(names) != 1:
        raise InputError("expected one study, kernels, requests, arrivals or throughput", "--table")
    else:
        with mistakes_at("--table"):
            studies = [compare_table(names[0], table)]
    if output is not None:
        sampled = f" --size {size}" if size else ""
        own_table = "" if table is None else f" --table {table}"
        words = ["python -m validation", *(names or []), f"--seed {seed}{sampled}{own_table}"]
        for path in store_findings(studies, output, " ".join(words)):
            say(f"wrote {path}")
    print_tables(table for study in studies for table in study_tables(study, rows))
