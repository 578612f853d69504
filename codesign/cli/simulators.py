"""``codesign list simulators``: simulators of others that shipped campaigns run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from codesign.cli.output import AsJson, report, say


def simulators(
    name: Annotated[
        str | None, typer.Argument(help="A simulator, such as scalesim; all if not given.")
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="Install it, in an environment of its own.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the simulators of others that shipped campaigns run, or install one."""
    from codesign.answers.library import SimulatorEntry, SimulatorsAnswer
    from codesign.base.errors import InputError
    from codesign.report.simulators import environments

    if install and name is None:
        raise InputError(f"--install: name one of {', '.join(environments.SIMULATORS)}")
    if name is not None:
        environments.folder_of(name)
    if install and name is not None:
        say(f"installing {environments.SIMULATORS[name].title}; this takes a minute or two")
        environments.install(name)
    listed = environments.SIMULATORS if name is None else [name]
    answer = SimulatorsAnswer(
        simulators=[
            SimulatorEntry(
                name=key,
                title=environments.SIMULATORS[key].title,
                is_installed=environments.is_installed(key),
                folder=str(environments.folder_of(key)),
                campaign=environments.SIMULATORS[key].campaign,
            )
            for key in listed
        ]
    )

    def tables() -> Any:
        from codesign.report.tables import plain_table

        table = plain_table("Simulators", ["name", "title", "installed", "campaign", "folder"])
        for row in answer.simulators:
            installed = "yes" if row.is_installed else "no"
            table.add_row(row.name, row.title, installed, row.campaign, row.folder)
        return [table]

    report(as_json, lambda: answer, tables)
