"""Problems of records that flags filled, named by the flags and not by the records' keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from codesign.base.errors import InputError, Mistake, mistakes_at
from codesign.base.files import ending_of

Number = TypeVar("Number", int, float)


def token_count(text: str) -> int:
    """The tokens that a flag states, such as 4096 or 32K.

    Raises:
        BadParameter: It is no whole number.
    """
    import typer

    from codesign.base.schema import read_count

    value = read_count(text)
    if isinstance(value, int):
        return value
    try:
        return int(text)
    except ValueError:
        problem = f"expected a whole number such as 4096 or 32K, got {text!r}"
        raise typer.BadParameter(problem) from None


def number(
    flag: str,
    value: Number,
    noun: str = "a finite number",
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
    text: str = "",
) -> Number:
    """A flag's number, if it is finite and in its range.

    Raises:
        InputError: It is not; the message says ``noun``, and what the flag says: ``text``, if any.
    """
    if not (above < value < math.inf and least <= value <= most):
        starts_there = above == -math.inf
        low = f"from {least:g}" if starts_there else f"above {above:g}"
        high = "" if most == math.inf else f" {'to' if starts_there else 'and at most'} {most:g}"
        raise InputError(f"expected {noun} {low}{high}, got {text or f'{value:.15g}'}", flag)
    return value


def count(flag: str, value: int) -> int:
    """A flag's whole number from 1."""
    return number(flag, value, "a whole number", least=1)


def numbers(flag: str, text: str, *, above: float) -> list[float]:
    """A flag's numbers, between which there are commas."""
    values = []
    for word in text.split(","):
        try:
            value = float(word)
        except ValueError:
            raise InputError(f"expected numbers such as 1,2,4, got {word!r}", flag) from None
        values.append(number(flag, value, "finite numbers", above=above))
    return values


def quantity(flag: str, text: str, unit: str) -> float:
    """A flag's quantity in coherent SI units.

    Raises:
        InputError: It is none of the unit's dimension.
    """
    from codesign.base.units import parse_quantity

    with mistakes_at(flag):
        return parse_quantity(text, unit)


def check_figure(flag: str, path: Path | None) -> None:
    """Refuse a file, if there is one, whose ending names no format of figures.

    Raises:
        InputError: There is no such format.
    """
    from codesign.report.drawing import check_format

    if path is not None:
        with mistakes_at(flag):
            check_format(ending_of(path))


@contextmanager
def naming(flags: Mapping[str, str], pairs: Mapping[str, str] | None = None) -> Iterator[None]:
    """Say the flag where a problem says the key that it filled.

    Args:
        flags: Flag by key, such as ``price_usd_per_hour`` by ``--price-per-hour``.
        pairs: Words for keys that were given as ``KEY=VALUE``; see :func:`flag_by_key`.
    """
    try:
        yield
    except InputError as error:
        places = {**flags, **(pairs or {})}
        raise InputError(
            [_flag_mistake(mistake, places, flags) for mistake in error.mistakes]
        ) from None


def flag_by_key(flag: str, keys: Iterable[str]) -> dict[str, str]:
    """Words that name the flag and the key, by key, for a flag that takes ``KEY=VALUE``."""
    return {key: f"{flag}: {key}" for key in keys}


_RECORDS = ("workload", "option")
"""Places of keys that a command line gave; see :func:`codesign.api.build_evaluator`."""


def _flag_mistake(mistake: Mistake, places: Mapping[str, str], flags: Mapping[str, str]) -> Mistake:
    key, *inner = mistake.key or (mistake.place,)
    if mistake.is_missing and key in flags:
        return Mistake(f"expected {flags[str(key)]}")
    if key in places:
        mistake = replace(mistake, place=places[str(key)], key=tuple(inner))
    elif not mistake.key and mistake.place in _RECORDS:
        mistake = replace(mistake, place="")
    named = {name: flags.get(name, name) for name in mistake.named}
    message = re.sub(r"\w+", lambda word: named.get(word[0], word[0]), mistake.message)
    return replace(mistake, message=message)
