"""``codesign list simulators``: simulators of others that shipped campaigns run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from codesign.cli.output import report, say


def simulators(
    name: Annotated[
        str | None, typer.Argument(help="A simulator, such as scalesim; all if not given.")
    ] = None,
    install: bool = False,
) -> None:
    """List the simulators of others that shipped campaigns run, or install one.

    Args:
        install: Install it, in an environment of its own.
    """
    from codesign.answers.library import SimulatorEntry, SimulatorsAnswer
    from codesign.base.errors import InputError
    from codesign.report.simulators import environments

    if name is not None:
        environments.folder_of(name)
    if install:
        if name is None:
            raise InputError(f"--install: name one of {', '.join(environments.SIMULATORS)}")
        say(f"installing {environments.SIMULATORS[name].title}; this takes a minute or two")
        environments.install(name)
    answer = SimulatorsAnswer(
        simulators=[
            SimulatorEntry(
                name=key,
                title=simulator.title,
                is_installed=environments.is_installed(key),
                folder=str(environments.folder_of(key)),
                campaign=simulator.campaign,
            )
            for key, simulator in environments.SIMULATORS.items()
            if name in (None, key)
        ]
    )

    def tables() -> Any:
        from codesign.report.tables import record_table

        fields = "name title is_installed=installed campaign folder"
        return [record_table("Simulators", answer.simulators, fields)]

    report(lambda: answer, tables)
