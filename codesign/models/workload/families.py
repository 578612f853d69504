"""Families of models on Hugging Face, read from ``families.yaml``: one row for a ``model_type``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from codesign.base.columns import Fields, JsonObject, StringDict, StringList, StringTuple
from codesign.base.records import drop_none
from codesign.base.schema import Record, parse_record, read_document
from codesign.models.workload import computed_keys

CORE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
FIRST_WINDOW_LAYER = 28
"""Transformers' default of ``max_window_layers``."""


class Family(Record):
    """Rules for reading files of one ``model_type``; ``families.yaml`` describes each key."""

    required: StringTuple
    keys: StringTuple
    defaults: Fields = Field(default_factory=dict)
    fixed: Fields = Field(default_factory=dict)
    expected: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    read_from: Fields = Field(default_factory=dict)
    derive: Fields = Field(default_factory=dict)
    window_key: str | None = None
    first_window_key: str | None = None
    inert: StringTuple = ()
    notes: StringTuple = ()

    def computed(self, config: computed_keys.Config) -> JsonObject:
        """Keys of our record, computed from the file's keys and the family's defaults."""
        values = {key: computed_keys.named(config, names) for key, names in self.read_from.items()}
        config = {**values, **config}
        for name, arguments in self.derive.items():
            listed = arguments if isinstance(arguments, list) else [arguments]
            function = getattr(computed_keys, name)
            values |= function(config, *(argument for argument in listed if argument is not None))
        values |= computed_keys.layer_keys(config)
        for key in computed_keys.LAYER_KEYS:
            if isinstance(values.get(key), list):
                values |= {key: max(values[key]), f"{key}_by_layer": values[key]}
        return values | dict(self.fixed)


class FamilyTable(Record):
    """Content of ``families.yaml``."""

    groups: dict[str, StringTuple]
    aliases: dict[str, StringTuple]
    templates: dict[str, Family]
    families: dict[str, Family]
    activations: StringDict
    layer_kinds: StringDict
    numbers: StringTuple
    nested_parts: StringTuple
    nested_types: StringDict
    alien_types: StringDict
    alien_keys: dict[str, StringTuple]
    inert_keys: StringTuple
    reads: dict[str, StringTuple]
    encoders: frozenset[str]

    def canonical(self, data: Fields) -> JsonObject:
        """The keys that a file states, and ours for those that it states under another name."""
        stated = drop_none(data)
        ours = {
            key: stated[name]
            for key, names in self.aliases.items()
            for name in reversed(names)
            if name in stated
        }
        return stated | ours

    def readable(self, family: Family) -> set[str]:
        """Keys of files that a row reads, under all their names."""
        reads = [self.reads.get(name) for name in ("every", *family.derive)]
        named = [family.read_from, family.derive, family.window_key, family.first_window_key, reads]
        keys = {*family.keys, *family.required, *family.defaults, *family.fixed, *family.expected}
        keys |= {*_words(named)}
        return keys | {name for key in keys for name in self.aliases.get(key, ())}

    def known_types(self) -> StringList:
        """Values of ``model_type`` with a row, or with a language model that has one."""
        return sorted({*self.families, *self.nested_types})


def _words(value: Any) -> Iterator[str]:
    """Words in lists and in the values of mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _words(element)


@cache
def family_table() -> FamilyTable:
    """Read ``families.yaml``; each row inherits the entries of its template."""
    document = read_document(Path(__file__).with_name("families.yaml"))
    groups = document.data["groups"]
    templates = document.data["templates"]

    def complete(row: Fields) -> JsonObject:
        base = complete(templates[row["based_on"]]) if "based_on" in row else {}
        lists = {
            key: [
                member
                for name in row[key]
                for member in (
                    base.get(key, []) if name == "inherited" else groups.get(name, [name])
                )
            ]
            for key in ("required", "keys", "inert")
            if key in row
        }
        merged = {**base, **row, **lists}
        return {key: value for key, value in merged.items() if key != "based_on"}

    sections = {
        section: {name: complete(row) for name, row in document.data[section].items()}
        for section in ("templates", "families")
    }
    return parse_record(document, FamilyTable, document.data | sections)
