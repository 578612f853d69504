"""The documents that ``--json`` prints, and the schemas that they follow."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "answers" / "schemas"
"""One file per document and version, and ``common.v1.json`` with what several share."""
_COMMON = "common"
_FILE = re.compile(r"(?P<name>[a-z][a-z-]*)\.v(?P<version>[1-9][0-9]*)\.json")


class SchemaFile(NamedTuple):
    """A published schema.

    Attributes:
        version: 1 and up; the highest is the one that is printed.
    """

    name: str
    version: int
    path: Path

    @property
    def label(self) -> str:
        """What a document of this schema says in its key ``schema``."""
        return f"codesign/{self.name}/{self.version}"


@cache
def published() -> dict[str, SchemaFile]:
    """Every schema by its label, older versions too."""
    return {file.label: file for file in _files() if file.name != _COMMON}


@cache
def current() -> dict[str, SchemaFile]:
    """The schema of each document that is printed, by name."""
    return {file.name: file for file in published().values()}


def _files() -> list[SchemaFile]:
    """The files of the folder; those of one document in the order of their versions."""
    matches = ((path, _FILE.fullmatch(path.name)) for path in FOLDER.iterdir())
    files = [
        SchemaFile(match["name"], int(match["version"]), path) for path, match in matches if match
    ]
    return sorted(files)


def stamped(name: str, document: Any) -> dict[str, Any]:
    """A document that says first which schema it follows, and which codesign printed it.

    Args:
        name: Of the document, such as ``evaluate``.
        document: A mapping, or a record.
    """
    import codesign
    from codesign.report.json_values import to_plain

    stamp = {"schema": current()[name].label, "codesign_version": codesign.__version__}
    plain: dict[str, Any] = to_plain(document)
    if taken := sorted(stamp.keys() & plain.keys()):
        raise ValueError(f"document {name!r} has keys that the stamp has: {taken}")
    return stamp | plain


def read_schema(file: SchemaFile) -> dict[str, Any]:
    """A schema that needs no other file: it carries the common one along if it refers to it."""
    schema: dict[str, Any] = json.loads(file.path.read_text(encoding="utf-8"))
    references = set(_references(schema))
    for common in _files():
        identifier = f"urn:codesign:schema:{common.name}:{common.version}"
        if common.name == _COMMON and identifier in references:
            part = json.loads(common.path.read_text(encoding="utf-8"))
            schema.setdefault("$defs", {})[f"{common.name}.v{common.version}"] = part
    return schema


def _references(value: Any) -> list[str]:
    """The schemas that ``value`` refers to, without the place inside them."""
    if isinstance(value, dict):
        own = [value["$ref"].partition("#")[0]] if isinstance(value.get("$ref"), str) else []
        return own + [item for part in value.values() for item in _references(part)]
    if isinstance(value, list):
        return [item for part in value for item in _references(part)]
    return []
