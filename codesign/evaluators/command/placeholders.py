"""``${NAME}`` in arguments and templates."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from codesign.base.columns import Fields, JsonObject, StringList
from codesign.base.errors import describe_unknown

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")


def unknown_placeholders(text: str, stated_names: Iterable[str]) -> StringList:
    """One line for each name that nothing stands behind."""
    names = set(stated_names)
    return [
        describe_unknown("placeholder", name, names)
        for name in dict.fromkeys(_PLACEHOLDER.findall(text))
        if _base(name) not in names
    ]


def filled(text: str, values: Fields) -> str:
    """The text with values in the places of their names.

    ``${pe_array}`` of (128, 64) is ``128x64`` and ``${pe_array.0}`` is 128; an absent value is
    empty.
    """
    return _PLACEHOLDER.sub(lambda match: _text(_value(match[1], values)), text)


def fixed_values(workload: Fields, version: str) -> JsonObject:
    """The values that are the same for every design."""
    named = {f"workload.{key}": value for key, value in workload.items()}
    return {**named, "version": version, "python": sys.executable}


def _base(name: str) -> str:
    head, _, tail = name.rpartition(".")
    return head if re.fullmatch("[0-9]{1,9}", tail) else name


def _value(name: str, values: Fields) -> Any:
    value = values[_base(name)]
    base = _base(name)
    if base == name:
        return value
    position = int(name.removeprefix(f"{base}."))
    is_inside = isinstance(value, Sequence) and position < len(value)
    return value[position] if is_inside else None


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return "x".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)
