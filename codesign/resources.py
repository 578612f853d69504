"""Where a named file is looked for: an explicit path, the working folder, then the package."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from codesign.errors import InputError, UnknownNameError

Kind: TypeAlias = Literal["spaces", "memtech", "runs"]

_PACKAGE = Path(__file__).resolve().parent


def _folders(kind: Kind) -> list[Path]:
    # The wheel carries the data inside the package; a checkout has it next to the package.
    places = [Path.cwd() / kind, _PACKAGE / "_data" / kind, _PACKAGE.parent / kind]
    seen: dict[Path, None] = {place.resolve(): None for place in places if place.is_dir()}
    return list(seen)


def listed(kind: Kind) -> dict[str, Path]:
    """Every file of a kind by its name without ``.yaml``; the nearest folder wins."""
    found: dict[str, Path] = {}
    for folder in _folders(kind):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def find(kind: Kind, name: str, where: str | None = None) -> Path:
    """The file of that name, or the path itself when ``name`` is one.

    Raises:
        UnknownNameError: No file of that name; the nearest is offered.
        InputError: A path was given and there is no file.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name)
        if not path.is_file():
            raise InputError(f"no such file: {name}", where)
        return path
    known = listed(kind)
    if name not in known:
        label = {"spaces": "space", "memtech": "memory technology", "runs": "campaign"}[kind]
        raise UnknownNameError(label, name, known, where)
    return known[name]
