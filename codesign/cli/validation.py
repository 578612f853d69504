"""Our numbers beside others': the studies of ``codesign validate``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from codesign.cli.output import AsJson, report, say


def validate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]...", help="memexplorer, simulation, scalesim, measured; all if none."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of whatever is sampled.", min=0)] = 0,
    size: Annotated[
        int | None, typer.Option(help="Number of cases, where a study samples them.", min=1)
    ] = None,
    rows: Annotated[int, typer.Option(help="Most comparisons to print.", min=0)] = 40,
    write: Annotated[
        Path | None,
        typer.Option(help="Folder for validation.md with its data and figures, such as docs."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare our numbers with simulation, published tables, peers and measurements."""
    from codesign.validation.page import study_tables, write_page
    from codesign.validation.studies import STUDIES, run_study

    studies = [run_study(name, seed, size) for name in names or STUDIES]
    if write is not None:
        sampled = f" --size {size}" if size else ""
        words = " ".join(["codesign validate", *(names or []), f"--seed {seed}{sampled}"])
        for path in write_page(studies, write, f"{words} --write {write}"):
            say(f"wrote {path}")
    report(
        as_json,
        lambda: {"studies": [asdict(study) for study in studies]},
        lambda: [table for study in studies for table in study_tables(study, rows)],
    )


COMMANDS: list[Callable[..., Any]] = [validate]
