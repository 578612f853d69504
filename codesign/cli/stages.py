"""Which machines the stages of a system choose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from codesign.cli.campaigns import shown_path
from codesign.cli.output import AsJson, report, say
from codesign.errors import InputError


def stages(
    campaigns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CAMPAIGN]...",
            help="Campaigns of systems; system-llada, system-moe, system-afd, system-afd-decode "
            "and system-early-late if none.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Also write the page as Markdown: .md.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Ask exact fronts of systems which machines each stage chooses, and why.

    All campaigns take ten minutes of two cores; fronts are kept in runs/stages.
    """
    from codesign.files import replacing
    from codesign.studies import stages as study

    if output is not None and output.suffix != ".md":
        raise InputError(f"expected a file that ends in .md, got {str(output)!r}", "--output")
    answers = study.stage_answers(campaigns or study.CAMPAIGNS, workers=workers, progress=say)
    if output is not None:
        command = " ".join(["codesign stages", *(campaigns or []), f"--output {output}"])
        with replacing(output) as unfinished:
            unfinished.write_text(study.markdown(answers, command), encoding="utf-8")
        say(f"wrote {shown_path(output)}")
    report("stages", as_json, lambda: study.document(answers), lambda: study.tables(answers))


COMMANDS: list[Callable[..., Any]] = [stages]
