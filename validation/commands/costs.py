"""Effect of the accounts of cost on the advice."""

from __future__ import annotations

from typing import Annotated

import typer

from codesign.base.errors import check_known
from codesign.cli.output import say
from validation.commands.study_page import Output, check_output, report_study


def costs(
    phases: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PHASE]...", help="prefill, decode; both if none."),
    ] = None,
    output: Output = None,
) -> None:
    """Ask exact fronts what area, price, heat, wear and carbon change, and price known designs.

    Takes ten minutes of a core.
    """
    from validation import account_fronts

    check_output(output)
    for name in phases or ():
        check_known("phase", name, account_fronts.PHASES)
    chosen_phases = [phase for phase in account_fronts.PHASES if not phases or phase in phases]
    fronts = account_fronts.account_fronts(chosen_phases, progress=say)
    study = account_fronts.study_report(fronts, account_fronts.priced_designs())
    report_study(study, ["costs", *(phases or [])], output)
