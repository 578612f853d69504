"""A local page on which designs are changed by sliders."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from codesign.base.errors import InputError, needing_extra
from codesign.base.records import drop_none
from codesign.cli.campaigns import Folder
from codesign.cli.flags import naming
from codesign.cli.heartbeat import silence
from codesign.cli.output import say

_FLAGS = {"model": "--model", "phase": "--phase", "trace": "--workload"}


def serve(
    campaign: Annotated[
        str | None,
        typer.Argument(
            help="A campaign in runs/, whose space, evaluator, workload, limits and front are used."
        ),
    ] = None,
    space: str | None = None,
    model: str | None = None,
    workload: str | None = None,
    phase: str | None = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0: any free one.")
    ] = 0,
    folder: Folder = None,
) -> None:
    """Open a page to change designs: roofline, power and the place on the front follow at once.

    The address that is printed works on this machine only, until Ctrl-C.

    Args:
        space: Without a campaign: design space, or its file. [memexplorer]
        model: Without a campaign: language model, or its config.json.
        workload: Without a campaign: a trace.
        phase: Without a campaign: prefill or decode.
    """
    flags = {"--space": space, "--model": model, "--workload": workload, "--phase": phase}
    stray_flags = [*drop_none(flags)]
    if campaign is not None and stray_flags:
        raise InputError(
            f"expected no {', '.join(stray_flags)}: the campaign {campaign} says all of it"
        )
    with needing_extra("a served page", "serve"):
        from codesign import api
        from codesign.serve import server
        from codesign.serve.session import Session, session_of_campaign
    if campaign is not None:
        session = session_of_campaign(api.load_campaign(campaign, folder))
    else:
        design_space = api.load_space(space or "memexplorer")
        evaluator = "system" if design_space.pools else "npu"
        with naming(_FLAGS):
            prepared = api.prepare(
                space=design_space, model=model, workload=workload, phase=phase, evaluator=evaluator
            )
        session = Session(
            prepared, ", ".join(filter(None, [design_space.name, model, workload, phase]))
        )
    session.warm_up()  # before the page asks
    listener = server.listen(port)
    token = server.new_token()
    silence()  # it serves until it is ended
    with suppress(KeyboardInterrupt):
        say(f"http://{server.HOST}:{listener.getsockname()[1]}/{token}/  (Ctrl-C ends it)")
        server.serve(session, listener, token)
    say("ended")
