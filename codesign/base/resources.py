"""Search path of named files: an explicit path, the working folder, then the package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from codesign.base.errors import InputError, check_known

Kind = Literal["spaces", "memtech", "runs", "comparisons"]

_COMPARISON = "compare-"
"""Prefix of the name of a comparison, which tells it from a campaign in the same folder."""

_LABELS: dict[Kind, str] = {
    "spaces": "space",
    "memtech": "memory technology",
    "runs": "campaign",
    "comparisons": "comparison",
}

_PACKAGE = Path(__file__).resolve().parents[1]


def user_cache() -> Path:
    """The user's folder for caches: ``$XDG_CACHE_HOME``, or ``~/.cache``.

    Raises:
        InputError: The user has no home folder.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "codesign"
    except RuntimeError as error:
        raise InputError(
            "expected a folder for caches: this user has no home folder", "XDG_CACHE_HOME"
        ) from error


def listed(kind: Kind) -> dict[str, Path]:
    """Every file of a kind by its name without ``.yaml``; the nearest folder wins."""
    files: dict[str, Path] = {}
    name = "runs" if kind == "comparisons" else kind
    # The wheel carries the data inside the package; a checkout has it next to the package.
    places = [Path.cwd() / name, _PACKAGE / "_data" / name, _PACKAGE.parent / name]
    for folder in dict.fromkeys(place.resolve() for place in places if place.is_dir()):
        for path in sorted(folder.glob("*.yaml")):
            if _is_of(kind, path.stem):
                files.setdefault(path.stem, path)
    return dict(sorted(files.items()))


def _is_of(kind: Kind, name: str) -> bool:
    if kind == "runs":
        return not name.startswith(_COMPARISON)
    return kind != "comparisons" or name.startswith(_COMPARISON)


def find(kind: Kind, name: str, where: str | None = None) -> Path:
    """The file of that name, or the path itself when ``name`` is one.

    Raises:
        UnknownNameError: No file of that name; the nearest is offered.
        InputError: A path was given and there is no file.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name)
        if path.is_dir():
            raise InputError(f"expected a file, got the folder {name}", where)
        if not path.is_file():
            raise InputError(f"no such file: {name}", where)
        _check_kind(kind, path.stem, where)
        return path
    known_listed = listed(kind)
    if kind == "runs" or (kind == "comparisons" and name in listed("runs")):
        _check_kind(kind, name, where)
    check_known(_LABELS[kind], name, known_listed, where)
    return known_listed[name]


def _check_kind(kind: Kind, name: str, where: str | None) -> None:
    """Refuse a comparison where a campaign is expected, and a campaign for a comparison."""
    if _is_of(kind, name):
        return
    if kind == "runs":
        raise InputError(
            f"expected a campaign, got the comparison {name!r}: see 'codesign compare'", where
        )
    raise InputError(
        f"expected a comparison, whose file's name begins with {_COMPARISON!r}, got {name!r}; "
        "if it is a campaign: see 'codesign run'",
        where,
    )
