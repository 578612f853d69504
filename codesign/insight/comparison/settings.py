"""Statements of a comparison's optimizers on themselves: library, version, settings.

Kept beside the campaigns when these are run, for a report may be made where no library of a peer
is installed, or another version. An optimizer says it by a class method ``provenance`` that takes
its options; one without it is described by the comparison file and the version of this package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from codesign.base.columns import Fields
from codesign.base.errors import CodesignError
from codesign.base.files import write_text
from codesign.search.campaign.campaign_definition import ConfiguredOptimizer

Settings = Mapping[str, Sequence[Fields]]
"""Statements of each optimizer by its label; several if they changed before a comparison went on.
"""

FILE = "optimizers.json"


def note_settings(
    optimizers: Sequence[ConfiguredOptimizer], folder: Path, tell: Callable[[str], None]
) -> None:
    """Ask the optimizers for their settings, and keep what is new.

    Args:
        tell: Is told in one line of an optimizer that cannot say it; its runs will fail.

    Raises:
        InputError: The file cannot be written.
    """
    settings = {label: list(setting) for label, setting in read_settings(folder).items()}
    for optimizer in optimizers:
        if not hasattr(optimizer.factory, "provenance"):
            continue
        try:
            current = dict(optimizer.factory.provenance(optimizer.options))
        except CodesignError as error:
            tell(f"no settings of {optimizer.label}: {error}")
            continue
        earlier = settings.setdefault(optimizer.label, [])
        if current not in earlier[-1:]:
            earlier.append(current)
    if settings:
        text = json.dumps(settings, indent=2, ensure_ascii=False, sort_keys=True)
        write_text(folder / FILE, text + "\n")


def read_settings(folder: Path) -> Settings:
    """The stored statements; empty if no optimizer made any."""
    path = folder / FILE
    if not path.is_file():
        return {}
    settings: Settings = json.loads(path.read_text(encoding="utf-8"))
    return settings
