"""Problems of records that flags filled, named by the flags and not by the records' keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from codesign.errors import InputError
from codesign.files import ending_of


def token_count(text: str) -> int:
    """The tokens that a flag states, such as 4096 or 32K.

    Raises:
        BadParameter: It is no whole number.
    """
    import typer

    from codesign.schema import read_count

    value = read_count(text)
    if isinstance(value, int):
        return value
    try:
        return int(text)
    except ValueError:
        problem = f"expected a whole number such as 4096 or 32K, got {text!r}"
        raise typer.BadParameter(problem) from None


@contextmanager
def prefix_problems(flag: str) -> Iterator[None]:
    """Put a flag before what is wrong with its value."""
    try:
        yield
    except InputError as error:
        raise InputError(error.problems, flag) from None


def quantity(flag: str, text: str, unit: str) -> float:
    """A flag's quantity in coherent SI units.

    Raises:
        InputError: It is none of the unit's dimension.
    """
    from codesign.units import parse_quantity

    with prefix_problems(flag):
        return parse_quantity(text, unit)


def check_figure(flag: str, path: Path | None) -> None:
    """Refuse a file, if there is one, whose ending names no format of figures.

    Raises:
        InputError: There is no such format.
    """
    from codesign.report.drawing import check_format

    if path is not None:
        with prefix_problems(flag):
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
        problems = [_with_flags(text, {**flags, **(pairs or {})}, flags) for text in error.problems]
        raise InputError(problems) from None


def flag_by_key(flag: str, keys: Iterable[str]) -> dict[str, str]:
    """Words that name the flag and the key, by key, for a flag that takes ``KEY=VALUE``."""
    return {key: f"{flag}: {key}" for key in keys}


def _with_flags(problem: str, places: Mapping[str, str], flags: Mapping[str, str]) -> str:
    # "tensor_parallel: ...", or after the record: "option: variant.kv_format: ..."
    record = re.match(r"(?:workload|option): ", problem)
    rest = problem[record.end() :] if record else problem
    where, colon, sentence = rest.partition(": ")
    key, _, inner = where.partition(".")
    if sentence == "the key is required" and key in flags:
        return f"expected {flags[key]}"
    if colon and key in places:
        rest = ": ".join(part for part in (places[key], inner, sentence) if part)
    elif record and not rest.startswith("expected"):
        rest = problem  # of a key that no flag gave
    if "Known: " in rest:  # a list of keys, which are not all flags
        return rest
    # A key of one word may as well be a word of the sentence.
    words = "|".join(key for key in flags if "_" in key)
    return re.sub(rf"(?<!--option: )\b({words})\b", lambda match: flags[match[1]], rest)
