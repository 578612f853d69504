"""The panels of ``codesign --help``: commands by what they are for."""

from __future__ import annotations

from typing import Any

import typer

PANELS = {
    "Search": ("run", "status", "enumerate", "explain"),
    "Evaluate": ("evaluate", "size", "serve-model", "forecast", "accuracy"),
    "Share": ("report", "export", "serve"),
    "Research": ("compare", "list"),
}
"""Commands by panel, in the order in which both are listed."""
_REST = "More"


def panel_of(command: str) -> str:
    """The panel of a command; a last one for those that no panel names."""
    return next((panel for panel, names in PANELS.items() if command in names), _REST)


class PanelGroup(typer.core.TyperGroup):
    """Commands whose help is listed by panel."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in the order of the panels."""
        order = [name for names in PANELS.values() for name in names]
        command_names = super().list_commands(ctx)
        return sorted(
            command_names, key=lambda name: order.index(name) if name in order else len(order)
        )

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel."""
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names), default=0)
        for panel in dict.fromkeys(map(panel_of, names)):
            commands = {name: self.get_command(ctx, name) for name in names}
            rows = [
                (name, command.get_short_help_str(width))
                for name, command in commands.items()
                if command is not None and panel_of(name) == panel
            ]
            if rows:
                with formatter.section(panel):
                    # Names of all panels end in one column.
                    formatter.write_dl(
                        [(name.ljust(max(map(len, names))), text) for name, text in rows]
                    )
