"""A local page on which designs are changed by sliders."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import InputError, needing_extra
from codesign.cli.campaigns import Folder
from codesign.cli.flags import naming
from codesign.cli.heartbeat import describe_by
from codesign.cli.output import print_tables, say

if TYPE_CHECKING:
    from codesign.serve.session import Session

_FLAGS = {"model": "--model", "phase": "--phase", "trace": "--workload"}


def serve(
    campaign: Annotated[
        str | None,
        typer.Argument(
            help="A campaign in runs/, whose space, evaluator, workload, limits and front are used."
        ),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(help="Without a campaign: design space, or its file. [memexplorer]"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Without a campaign: language model, or its config.json.")
    ] = None,
    workload: Annotated[str | None, typer.Option(help="Without a campaign: a trace.")] = None,
    phase: Annotated[
        str | None, typer.Option(help="Without a campaign: prefill or decode.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0: any free one.")
    ] = 0,
    measure: Annotated[
        int | None,
        typer.Option(min=1, help="Do not serve; time the answers to this many random changes."),
    ] = None,
    folder: Folder = None,
) -> None:
    """Open a page to change designs: roofline, power and the place on the front follow at once.

    The address that is printed works on this machine only, until Ctrl-C.
    """
    flags = {"--space": space, "--model": model, "--workload": workload, "--phase": phase}
    stray_flags = [flag for flag, value in flags.items() if value is not None]
    if campaign is not None and stray_flags:
        raise InputError(
            f"expected no {', '.join(stray_flags)}: the campaign {campaign} says all of it"
        )
    with needing_extra("a served page", "serve"):
        from codesign.serve import server
    session = _session(campaign, folder, space, model, workload, phase)
    if measure is not None:
        from codesign.report.tables import pairs_table

        times = sorted(session.times_ms(measure))
        places = {
            "median": measure // 2,
            "99 of 100": min(measure - 1, (99 * measure) // 100),
            "slowest": measure - 1,
        }
        pairs = {name: f"{times[place]:.1f} ms" for name, place in places.items()}
        print_tables([pairs_table(f"{measure:,} changes answered", pairs)])
        return
    session.times_ms(1)  # what is loaded for the first answer is loaded before the page asks
    listener, token = server.listen(port), server.new_token()
    describe_by(lambda: None)  # it serves until it is ended
    with suppress(KeyboardInterrupt):
        say(f"http://{server.HOST}:{listener.getsockname()[1]}/{token}/  (Ctrl-C ends it)")
        server.serve(session, listener, token)
    say("ended")


def _session(
    campaign: str | None,
    folder: Path | None,
    space: str | None,
    model: str | None,
    workload: str | None,
    phase: str | None,
) -> Session:
    from codesign import api
    from codesign.serve.session import Session, session_of_campaign

    if campaign is not None:
        return session_of_campaign(api.load_campaign(campaign, folder))
    design_space = api.load_space(space or "memexplorer")
    evaluator = "system" if design_space.pools else "npu"
    with naming(_FLAGS):
        prepared = api.prepare(
            space=design_space, model=model, workload=workload, phase=phase, evaluator=evaluator
        )
    title = ", ".join(filter(None, [design_space.name, model, workload, phase]))
    return Session(prepared, title)
