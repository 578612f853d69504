"""Machines that the stages of a system choose."""

from __future__ import annotations

from typing import Annotated

import typer

from codesign.cli.output import say
from validation.commands.study_page import Output, check_output, report_study


def stages(
    campaigns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CAMPAIGN]...",
            help="Campaigns of systems; system-llada, system-moe, system-afd, system-afd-decode "
            "and system-early-late if none.",
        ),
    ] = None,
    output: Output = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Ask exact fronts of systems which machines each stage chooses, and why.

    All campaigns take ten minutes of two cores; fronts are kept in runs/stages.
    """
    from validation.stages import CAMPAIGNS, stage_answers, study_report

    check_output(output)
    answers = stage_answers(campaigns or CAMPAIGNS, workers=workers, progress=say)
    report_study(study_report(answers), ["stages", *(campaigns or [])], output)
