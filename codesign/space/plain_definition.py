"""Everything that the designs of a space depend on, as plain values."""

from __future__ import annotations

import re

from codesign.base.catalog import Catalogs
from codesign.base.columns import Fields, JsonObject
from codesign.space.space_records import SpaceRecord
from codesign.space.structure import Structure


def plain_definition(
    name: str,
    record: SpaceRecord,
    structure: Structure,
    fixed: Fields,
    catalogs: Catalogs,
) -> JsonObject:
    """Everything that the designs depend on, as plain JSON values."""
    labels = sorted({parameter.catalog for parameter in structure.parameters} - {""})
    return {
        "name": name,
        "parameters": [
            {
                "name": parameter.name,
                "kind": parameter.kind,
                "values": [_plain(value) for value in parameter.values],
                "optional": parameter.optional,
                "scale": parameter.scale,
                "when": parameter.when,
                "from": parameter.catalog,
            }
            for parameter in structure.parameters
        ],
        "repeated": {
            repeated_part.name: {
                "parameters": list(repeated_part.members),
                "minimum": repeated_part.minimum,
                "maximum": len(repeated_part.columns),
                "order": list(repeated_part.order),
            }
            for repeated_part in structure.parts
        },
        "derived": {key: entry.expression.text for key, entry in structure.derived.items()},
        "constraints": [rule.text for rule in structure.constraints],
        "fixed": {key: _plain(value) for key, value in fixed.items()},
        "sources": dict(record.sources),
        "catalogs": {
            label: {
                entry: dict(attributes)
                for entry, attributes in catalogs[label].entries.items()
                if entry in _used_entries(label, structure)
            }
            for label in labels
        },
    }


def _used_entries(label: str, structure: Structure) -> set[str]:
    """The entries of a catalog that designs may have or that an expression names."""
    texts = [
        *(entry.expression.text for entry in structure.derived.values()),
        *(rule.text for rule in structure.constraints),
        *(key for repeated_part in structure.parts for key in repeated_part.order),
        *(parameter.when for parameter in structure.parameters),
    ]
    named = re.findall(rf"\b{re.escape(label)}\.(\w+)\.", " ".join(texts))
    drawn = [
        str(value)
        for parameter in structure.parameters
        if parameter.catalog == label
        for value in (*parameter.values, *parameter.declared)
    ]
    return {*named, *drawn}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
