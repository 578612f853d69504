"""The paper's conclusions, tested on exact fronts."""

from __future__ import annotations

from typing import Annotated

import typer

from codesign.base.columns import StringList
from codesign.base.errors import check_known
from codesign.base.text import shown_path
from codesign.cli.campaigns import Folder, Workers
from codesign.cli.output import print_tables, say
from validation.commands.study_page import Output, check_output


def conclusions(
    names: Annotated[
        StringList | None,
        typer.Argument(
            metavar="[CLAIM]...",
            help="3d-sram, strategy, hbf, hbm-hbf, lpddr-prefill, lpddr-decode, own-memory, with "
            "details; all, in short, if none.",
        ),
    ] = None,
    output: Output = None,
    workers: Workers = None,
    folder: Folder = None,
) -> None:
    """Ask exact fronts which of MemExplorer's conclusions hold, and what that depends on.

    Finds the exact fronts with and without what the paper recommends, under both profiles; they
    are kept in the folders of the campaigns osworld-*, so that a second look takes no time.
    """
    from codesign.base.processes import n_cores
    from codesign.search.campaign.status import results_folder
    from validation.conclusions import CLAIMS, answer_claims, conclusions_page
    from validation.conclusions.setting import FrontStore

    check_output(output)
    claims = {claim.key: claim for claim in CLAIMS}
    for name in names or ():
        check_known("claim", name, claims)
    store = FrontStore(results_folder(folder), workers or n_cores())
    answers = answer_claims(store, [claims[name] for name in names or claims])
    if output is not None:
        finding = conclusions_page.conclusions_finding(
            answers, " ".join(["python -m validation conclusions", *(names or [])])
        )
        say(f"wrote {shown_path(finding.store(output))}")
    print_tables(conclusions_page.terminal_tables(answers, with_details=bool(names)))
