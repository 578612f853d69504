"""A file of a space over the files that it is based on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from codesign.base.errors import InputError
from codesign.base.records import drop_none
from codesign.base.resources import find
from codesign.base.schema import (
    Document,
    overlaid,
    read_document,
)


def overlay_base(document: Document, derivatives: tuple[Path, ...] = ()) -> Document:
    """The document over the space that it is based on, which may be based on another."""
    name = document.data.get("based_on")
    if not (isinstance(name, str) and name):
        return document  # anything else is refused with the rest of the file
    where = document.where("based_on")
    path = find("spaces", name, where).resolve()
    if path in derivatives:
        raise InputError(f"{name} is based on itself", where)
    base = overlay_base(read_document(path), (*derivatives, path))
    return overlaid(_merged_parts(document, base), base)


def _merged_parts(document: Document, base: Document) -> Document:
    """Repeated parts that are stated in part, over those of the base key by key.

    One with ``maximum`` and ``parameters`` is stated as a whole and replaces that of the base.
    """
    stated = document.data.get("repeated")
    inherited = base.data.get("repeated")
    if not (isinstance(stated, dict) and isinstance(inherited, dict)):
        return document
    repeated = {
        name: section_entry
        if not isinstance(section_entry, dict) or {"maximum", "parameters"} <= section_entry.keys()
        else _merged(section_entry, inherited.get(name))
        for name, section_entry in stated.items()
    }
    return replace(document, data={**document.data, "repeated": repeated})


def _merged(stated: Any, inherited: Any) -> Any:
    """Merge of stated over inherited values; ``null`` takes a key out."""
    if isinstance(stated, list) and isinstance(inherited, dict):
        stated = {"values": stated}  # a parameter's values stand for it
    if not (isinstance(stated, dict) and isinstance(inherited, dict)):
        return stated
    merged = inherited | {key: _merged(value, inherited.get(key)) for key, value in stated.items()}
    return drop_none(merged)
