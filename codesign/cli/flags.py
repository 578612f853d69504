"""Problems of records that flags filled, told by the flags and not by the records' keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from codesign.errors import InputError


@contextmanager
def told_by(flag: str) -> Iterator[None]:
    """Put a flag before what is wrong with its value."""
    try:
        yield
    except InputError as error:
        raise InputError(error.problems, flag) from None


@contextmanager
def naming(flags: Mapping[str, str], pairs: Iterable[str] = ()) -> Iterator[None]:
    """Say the flag where a problem says the key that it filled.

    Args:
        flags: Flag by key, such as ``price_usd_per_hour`` by ``--price-per-hour``.
        pairs: Keys that were given by ``--option KEY=VALUE`` instead.
    """
    try:
        yield
    except InputError as error:
        places = {**flags, **{key: f"--option: {key}" for key in pairs}}
        raise InputError([_told(text, places, flags) for text in error.problems]) from None


def _told(problem: str, places: Mapping[str, str], flags: Mapping[str, str]) -> str:
    # "tensor_parallel: ...", or after the record: "option: variant.kv_format: ..."
    record = re.match(r"(?:workload|option): ", problem)
    rest = problem[record.end() :] if record else problem
    where, colon, sentence = rest.partition(": ")
    key, _, inner = where.partition(".")
    if colon and key in places:
        rest = ": ".join(part for part in (places[key], inner, sentence) if part)
    if "Known: " in rest:  # a list of keys, which --option takes as they are
        return rest
    # A key of one word may as well be a word of the sentence.
    words = "|".join(key for key in flags if "_" in key)
    return re.sub(rf"(?<!--option: )\b({words})\b", lambda found: flags[found[1]], rest)
