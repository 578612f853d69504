"""YAML of many small documents of one shape, as PyYAML writes it, without its cost per value.

PyYAML takes some 10 µs for each value and wants the whole document at once: minutes and gigabytes
for a large campaign. Here documents are written one by one, numbers by their own rule; everything
else is PyYAML's own text, kept for the next time it occurs.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import yaml

from codesign.base.columns import Fields

_WIDTH = 100
_STEP = "  "
_MOST_TEXTS = 65_536
"""Different texts that are kept: names of technologies are few, reasons and sources are not."""


def yaml_lines(document: Fields, level: int = 0) -> str:
    """A mapping in YAML, its keys in their order, below ``level`` enclosing mappings.

    Lists of plain values stand on one line, so that ``[2048, 256]`` reads as in a space file.

    Args:
        document: Mappings with text keys, lists, text, numbers, truth values and None.
        level: How deep the mapping lies; lines are indented by two columns each.
    """
    return "".join(_entry(key, value, level) for key, value in document.items())


def _entry(key: str, value: Any, level: int) -> str:
    value_type = type(value)
    if value_type is dict and value:
        return _key(key, level) + ":\n" + yaml_lines(value, level + 1)
    if value_type is float or value_type is int:
        text = repr(value)
        # YAML 1.1 reads a number with an exponent only if it has a point.
        text = text.replace("e", ".0e", 1) if "e" in text and "." not in text else text
        return f"{_key(key, level)}: {text}\n"
    if value_type is str or value_type is bool or value is None:
        return _spelled(key, value, level)
    return _dumped(key, value, level)


@cache
def _key(key: str, level: int) -> str:
    return _dumped(key, 0, level).removesuffix(": 0\n")


@lru_cache(_MOST_TEXTS)
def _spelled(key: str, value: str | bool | None, level: int) -> str:
    return _dumped(key, value, level)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # in C if built
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_list(dumper: Any, data: list[Any]) -> Any:
    is_flat = not any(isinstance(element, list | dict) for element in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=is_flat)


_Dumper.add_representer(list, _represent_list)


def _dumped(key: str, value: Any, level: int) -> str:
    """The entry's lines: its document dumped below as many mappings, less their lines."""
    document: Any = {key: value}
    for _ in range(level):
        document = {"x": document}
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    for _ in range(level):
        text = text.partition("\n")[2]
    return text
