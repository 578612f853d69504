"""Which of the paper's conclusions hold on exact fronts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from codesign.cli.campaigns import Folder, shown_path
from codesign.cli.output import AsJson, report, say
from codesign.errors import InputError, UnknownNameError


def conclusions(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CLAIM]...",
            help="3d-sram, strategy, hbf, hbm-hbf, lpddr-prefill, lpddr-decode, own-memory, with "
            "details; all, in short, if none.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Also write the page as Markdown: .md.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; one per core if not given.")
    ] = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Ask exact fronts which of MemExplorer's conclusions hold, and what that depends on.

    Finds the exact fronts with and without what the paper recommends, under both profiles; they
    are kept in the folders of the campaigns osworld-*, so that a second look takes no time.
    """
    from codesign.campaign.status import results_folder
    from codesign.cli.progress import FrontsBar
    from codesign.files import replacing
    from codesign.processes import n_cores
    from codesign.studies.conclusions import CLAIMS, answer_claims, page
    from codesign.studies.conclusions.setting import FrontStore

    if output is not None and output.suffix != ".md":
        raise InputError(f"expected a file that ends in .md, got {str(output)!r}", "--output")
    claims = {claim.key: claim for claim in CLAIMS}
    for name in names or ():
        if name not in claims:
            raise UnknownNameError("claim", name, claims)
    store = FrontStore(results_folder(folder), workers or n_cores(), FrontsBar())
    answers = answer_claims(store, [claims[name] for name in names or claims])
    if output is not None:
        command = " ".join(["codesign conclusions", *(names or []), f"--output {output}"])
        with replacing(output) as unfinished:
            unfinished.write_text(page.markdown(answers, command), encoding="utf-8")
        say(f"wrote {shown_path(output)}")
    report(
        "conclusions",
        as_json,
        lambda: page.document(answers),
        lambda: page.tables(answers, with_details=bool(names)),
    )


COMMANDS: list[Callable[..., Any]] = [conclusions]
