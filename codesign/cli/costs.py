"""What the accounts of cost change in the advice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from codesign.cli.campaigns import shown_path
from codesign.cli.output import AsJson, report, say
from codesign.errors import InputError, UnknownNameError


def costs(
    phases: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PHASE]...", help="prefill, decode; both if none."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Also write the page as Markdown: .md.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask exact fronts what area, price, heat, wear and carbon change, and price known designs.

    Takes ten minutes of a core.
    """
    from codesign.files import replacing
    from codesign.studies import account_fronts

    if output is not None and output.suffix != ".md":
        raise InputError(f"expected a file that ends in .md, got {str(output)!r}", "--output")
    for name in phases or ():
        if name not in account_fronts.PHASES:
            raise UnknownNameError("phase", name, account_fronts.PHASES)
    chosen = [phase for phase in account_fronts.PHASES if not phases or phase in phases]
    fronts = account_fronts.account_fronts(chosen, progress=say)
    designs = account_fronts.priced_designs()
    if output is not None:
        command = " ".join(["codesign costs", *(phases or []), f"--output {output}"])
        with replacing(output) as unfinished:
            text = account_fronts.markdown(fronts, designs, command)
            unfinished.write_text(text, encoding="utf-8")
        say(f"wrote {shown_path(output)}")
    report(
        "costs",
        as_json,
        lambda: account_fronts.document(fronts, designs),
        lambda: account_fronts.tables(fronts, designs),
    )


COMMANDS: list[Callable[..., Any]] = [costs]
