"""Answers of commands as records: one definition of a document's keys, meanings, and schema."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from inspect import getdoc
from pkgutil import iter_modules
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, ConfigDict
from pydantic.json_schema import GenerateJsonSchema

from codesign.base.columns import Fields, JsonObject
from codesign.base.schema import Record, meanings

Design = Fields
"""Values by parameter of the design space; absent parameters are left out."""
Number = float | None
"""A number; null where it is undefined, infinite or not stated."""
Finite = Annotated[Number, AfterValidator(lambda x: x if x and math.isfinite(x) else None)]
"""The same, where a number that is none may be read."""
Numbers = Mapping[str, Number]
"""Numbers by name, which ends in the unit."""


class Entry(Record):
    """A record inside an answer.

    A field with a default is optional: the document leaves it out if nobody set it.
    """

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    @classmethod
    def read(cls, source: object, **fields: Any) -> Self:
        """The record of a source: a required field that is not stated is its attribute."""
        names = [
            name
            for name, field in cls.model_fields.items()
            if field.is_required() and name not in fields
        ]
        return cls(**{name: getattr(source, name) for name in names}, **fields)


class Answer(Entry):
    """Answer of a command; the first line of its docstring is the title of the document."""

    schema_name: ClassVar[str]
    """Name of the document, such as ``explain-front`` for ``ExplainFrontAnswer``."""
    schema_version: ClassVar[int] = 1

    def __init_subclass__(cls, version: int = 1, **settings: Any) -> None:
        """Name the document after the class.

        Args:
            version: Number that rises when a key goes or changes its meaning.
            settings: Settings of the record.
        """
        super().__init_subclass__(**settings)
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__.removesuffix("Answer"))
        cls.schema_name = words.lower()
        cls.schema_version = version

    @classmethod
    def schema_label(cls) -> str:
        """The value of a document's key ``schema``."""
        return f"codesign/{cls.schema_name}/{cls.schema_version}"

    @classmethod
    def title(cls) -> str:
        """A line about the document."""
        return (getdoc(cls) or "").partition("\n")[0].rstrip(".")


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, with the meanings of fields as descriptions."""

    def model_schema(self, schema: Any) -> Any:
        """The object of a pydantic record."""
        return self._described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: Any) -> Any:
        """The object of a dataclass."""
        return self._described(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: Any) -> Any:
        """The object of a typed mapping; evaluators may add keys to those that are called rows."""
        record = schema["cls"]
        is_open = {"additionalProperties": record.__name__.endswith("Row")}
        return self._described(super().typed_dict_schema(schema), record) | is_open

    def default_schema(self, schema: Any) -> Any:
        """A field's schema without its default: a document states every key that it has."""
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        """False: a key is its title."""
        return False

    def field_is_required(self, field: Any, *arguments: Any, **flags: Any) -> bool:
        """True if every document has the key."""
        if field["type"] == "typed-dict-field":
            return super().field_is_required(field, *arguments, **flags)
        return bool(field["schema"]["type"] != "default")

    def _described(self, generated: JsonObject, record: type) -> JsonObject:
        """An object's schema with the meaning of each key."""
        fields = getattr(record, "model_fields", {})
        properties = generated.get("properties", {})
        if not issubclass(record, Entry):  # numbers that a model computed may be undefined
            generated["properties"] = properties = _nullable(properties)
        if not issubclass(record, Entry | dict):
            generated["required"] = [
                key for key in properties if key not in fields or fields[key].exclude_if is None
            ]
        if "description" in generated:
            generated["description"] = generated["description"].partition("\n\nAttributes:")[0]
        for name, text in meanings(record).items():
            key = (name in fields and fields[name].alias) or name
            if key in properties:
                properties[key]["description"] = " ".join(text.split())
        return generated


def _nullable(schema: Any) -> Any:
    """A schema whose numbers may be null."""
    if isinstance(schema, list):
        return [_nullable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    nullable = {key: _nullable(value) for key, value in schema.items()}
    return nullable | ({"type": ["number", "null"]} if schema.get("type") == "number" else {})


@cache
def answers() -> dict[str, type[Answer]]:
    """Every answer by the name of its document."""
    folder = import_module("codesign.answers")
    for module in iter_modules(folder.__path__):
        import_module(f"codesign.answers.{module.name}")
    classes = list(Answer.__subclasses__())
    for record in classes:
        classes += record.__subclasses__()
    return {
        record.schema_name: record for record in sorted(classes, key=lambda each: each.schema_name)
    }


def schema_of(record: type[Answer]) -> JsonObject:
    """The JSON Schema of an answer's document."""
    schema = record.model_json_schema(mode="serialization", schema_generator=_Generator)
    stamp = {
        "schema": {"const": record.schema_label()},
        "codesign_version": {
            "type": "string",
            "description": "Version of codesign that printed the document, for people.",
        },
    }
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": f"urn:codesign:schema:{record.schema_name}:{record.schema_version}",
        **schema,
        "title": record.title(),
        "properties": stamp | schema["properties"],
        "required": [*stamp, *schema.get("required", [])],
    }
