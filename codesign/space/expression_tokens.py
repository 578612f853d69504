"""The words of an expression: numbers with units, names, texts and marks, each with its column."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.base.units import Unit, parse_unit

KEYWORDS = frozenset({"and", "or", "not", "in", "none", "true", "false"})
"""Words that name nothing else."""
_UNIT_WORD = r"[A-Za-zµ%]+(?:\^-?\d+)?"
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<mark><=|>=|==|!=|[-+*/()\[\],<>])",
    re.ASCII,
)
_UNIT = re.compile(rf"\s*(?P<unit>{_UNIT_WORD}(?:[*/]{_UNIT_WORD})*)(?!\w)")


@frozen
class Token:
    """A word with its place; a number with its value and its unit, if it has one."""

    kind: str
    text: str
    column: int
    value: float = math.nan
    unit: Unit | None = None


def problem_at(problem: str, column: int) -> InputError:
    """The error of a place in an expression."""
    return InputError(f"column {column}: {problem}")


def tokens_of(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            # As =< or = for a comparison, the likeliest slip.
            hint = "; comparisons are <, <=, ==, !=, >=, >" if text[position] == "=" else ""
            raise problem_at(f"unexpected character {text[position]!r}{hint}", position + 1)
        position = match.end()
        if match.lastgroup == "number":
            column = match.start() + 1
            value = float(match[0].replace("_", ""))
            unit = None
            end = match.end()
            following = _UNIT.match(text, end)
            if following is not None and following["unit"] not in KEYWORDS:
                try:
                    unit = parse_unit(following["unit"])
                except InputError as error:
                    raise problem_at(
                        f"{error} after {match[0]}", following.start("unit") + 1
                    ) from None
                value = value * unit.scale
                end = following.end()
            if not math.isfinite(value):
                raise problem_at(f"the number {match[0]} is too large", column)
            token = Token("number", text[match.start() : end], column, value, unit)
            position = end
            yield token
        elif match.lastgroup != "space":
            yield Token(str(match.lastgroup), match[0], match.start() + 1)
    yield Token("end", "the end", len(text) + 1)
