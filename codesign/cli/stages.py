"""Which machines the stages of a system choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from codesign.cli.output import AsJson, report, say
from codesign.cli.study_page import Page, check_page, write_page


def stages(
    campaigns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CAMPAIGN]...",
            help="Campaigns of systems; system-llada, system-moe, system-afd, system-afd-decode "
            "and system-early-late if none.",
        ),
    ] = None,
    output: Page = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Ask exact fronts of systems which machines each stage chooses, and why.

    All campaigns take ten minutes of two cores; fronts are kept in runs/stages.
    """
    from codesign.studies import stages as study

    check_page(output)
    answers = study.stage_answers(campaigns or study.CAMPAIGNS, workers=workers, progress=say)
    words = ["stages", *(campaigns or [])]
    write_page(output, words, lambda command: study.markdown(answers, command))
    report("stages", as_json, lambda: study.document(answers), lambda: study.tables(answers))


COMMANDS: list[Callable[..., Any]] = [stages]
