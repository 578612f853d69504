"""YAML of many small documents, written one by one, so that no large one is held in memory."""

from __future__ import annotations

from typing import Any

import yaml

from codesign.base.columns import Fields

_WIDTH = 100


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # in C if built
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    list,
    lambda dumper, data: dumper.represent_sequence(
        "tag:yaml.org,2002:seq",
        data,
        flow_style=not any(isinstance(element, list | dict) for element in data),
    ),
)


def yaml_lines(document: Fields, level: int = 0) -> str:
    """A mapping in YAML, its keys in their order, below ``level`` enclosing mappings.

    Lists of plain values stand on one line, so that ``[2048, 256]`` reads as in a space file.

    Args:
        document: Mappings with text keys, lists, text, numbers, truth values and None.
        level: How deep the mapping lies; lines are indented by two columns each.
    """
    nested: Fields = document
    for _ in range(level):
        nested = {"x": nested}
    text = yaml.dump(nested, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return str(text).split("\n", level)[level]
