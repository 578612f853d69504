"""Evaluators, optimizers, export formats by name: one door for ours and for strangers'.

Everything registers through entry points, the built-in parts too, in the groups
``codesign.evaluators``, ``codesign.conventions`` (``EVALUATOR.PROFILE``, see
``codesign/evaluators/profiles.py``), ``codesign.optimizers``, ``codesign.exports`` (of a campaign),
``codesign.design_exports`` (of one design) and ``codesign.executors`` (where tasks run).
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Literal, TypeAlias, get_args

from codesign.errors import CodesignError, InputError, check_known

Group: TypeAlias = Literal[
    "evaluators", "conventions", "optimizers", "exports", "design_exports", "executors"
]


@cache
def _all_points(path: tuple[str, ...]) -> dict[str, EntryPoints]:
    """What every package on a search path registers, by group.

    To read it takes milliseconds, as much as a small campaign file, and a command asks many times.
    """
    points = entry_points()
    return {group: points.select(group=f"codesign.{group}") for group in get_args(Group)}


def _registered(group: Group) -> dict[str, EntryPoint]:
    return {point.name: point for point in _all_points(tuple(sys.path))[group]}


def names(group: Group) -> list[str]:
    """The registered names of a group, sorted."""
    return sorted(_registered(group))


def distribution(group: Group, name: str) -> str | None:
    """The package that registers ``name``, with its version; None if none does."""
    package = point.dist if (point := _registered(group).get(name)) is not None else None
    return None if package is None else f"{package.name} {package.version}"


def load(group: Group, name: str, where: str | None = None) -> Any:
    """The object registered under ``name``.

    Raises:
        UnknownNameError: Nothing is registered under that name.
        InputError: The plug-in cannot be imported.
    """
    if name not in _registered(group):
        _all_points.cache_clear()  # it may have been installed since
    points = _registered(group)
    kind = group.removesuffix("s").replace("_", " ")
    check_known(kind, name, points, where)
    try:
        return points[name].load()
    except CodesignError:
        raise
    except Exception as error:  # a stranger's module may fail in any way
        raise InputError(f"{kind} {name!r} cannot be imported: {error}", where) from error
