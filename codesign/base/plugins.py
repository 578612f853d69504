"""Registry of evaluators, optimizers and export formats by name, bundled and third-party.

Everything registers through entry points, the built-in parts too, in the groups
``codesign.evaluators``, ``codesign.conventions`` (``EVALUATOR.PROFILE``, see
``codesign/evaluators/profiles.py``), ``codesign.blocks`` (of language models),
``codesign.optimizers``, ``codesign.exports`` (of a campaign),
``codesign.design_exports`` (of one design), ``codesign.executors`` (where tasks run),
``codesign.trackers`` (listeners to results) and ``codesign.catalogs`` (named things with
attributes that a design space may choose from).
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any, Literal, get_args

from codesign.base.errors import CodesignError, InputError, check_known

Group = Literal[
    "evaluators",
    "conventions",
    "blocks",
    "optimizers",
    "exports",
    "design_exports",
    "executors",
    "trackers",
    "catalogs",
]


_OURS = "codesign"


@cache
def _all_points(path: tuple[str, ...]) -> dict[str, EntryPoints]:
    """Entry points of every package on a search path, by group.

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
    point = _registered(group).get(name)
    return None if point is None else _package(point)


def _package(point: EntryPoint) -> str | None:
    return None if point.dist is None else f"{point.dist.name} {point.dist.version}"


def load(group: Group, name: str, where: str | None = None) -> Any:
    """The object registered under ``name``.

    Raises:
        UnknownNameError: Nothing is registered under that name.
        InputError: The plug-in cannot be imported.
    """
    if name not in _registered(group):
        _all_points.cache_clear()  # it may have been installed since
    points = _registered(group)
    label = group.removesuffix("s").replace("_", " ")
    check_known(label, name, points, where)
    try:
        return points[name].load()
    except CodesignError:
        raise
    except (Exception, SystemExit) as error:  # a stranger's module may fail in any way
        if isinstance(error, SystemExit):
            raise InputError(f"{label} {name!r} ends the process at import", where) from error
        raise InputError(f"{label} {name!r} cannot be imported: {error}", where) from error


def build(factory: Any, *inputs: object) -> Any:
    """Build a registered class from its records.

    Raises:
        InputError: It does not take them.
    """
    try:
        return factory(*inputs)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # of the class's own code, which did take them
        problem = f"cannot be built from {len(inputs)} records: {error}"
        raise InputError(f"{factory.__name__} ({_definition(factory)}) {problem}") from error


def defective(error: BaseException) -> str | None:
    """The package of others that an unexpected error is a defect of, and the place; None: ours.

    It is theirs if it arose in their code, or if what they registered lacks an attribute.
    """
    points = [point for group in get_args(Group) for point in _registered(group).values()]
    packages = {_top(point.module): _package(point) or point.module for point in points}
    package, place = _origin(error, packages)
    return None if package in ("", _OURS) else f"{packages[package]} ({place})"


def described(error: BaseException, plugin: object) -> str:
    """An error in one line, with the last place in the plug-in's package that it passed."""
    words = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
    _, place = _origin(error, [_top(type(plugin).__module__)])
    return f"{words} ({Path(place).name})" if place else words


def _origin(error: BaseException, packages: Collection[str]) -> tuple[str, str]:
    """The package among some whose code an error passed last, and ``file:line``.

    Or else the package that defines the object which lacks an attribute, if that is not ours.
    """
    origin = ("", "")
    for frame, line in traceback.walk_tb(error.__traceback__):
        if (package := _top(frame.f_globals.get("__name__"))) in packages:
            origin = (package, f"{frame.f_code.co_filename}:{line}")
    owner = getattr(error, "obj", None)  # of an AttributeError
    package = _top(getattr(owner, "__module__", None))
    if origin[0] in ("", _OURS) and package in packages and package != _OURS:
        return package, _definition(owner)
    return origin


def _definition(owner: object) -> str:
    """Place where a function, a class, or the class of an object is defined."""
    owner_type: Any = owner if inspect.isroutine(owner) or inspect.isclass(owner) else type(owner)
    try:
        return f"{inspect.getfile(owner_type)}:{inspect.findsource(owner_type)[1] + 1}"
    except (OSError, TypeError):  # it has no source
        return str(owner_type.__module__)


def _top(module: str | None) -> str:
    return (module or "").partition(".")[0]
