"""Records of the YAML file of a design space, before its names and expressions are looked at."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field

from codesign.base.columns import JsonObject, StringDict, StringList
from codesign.base.schema import Record

T = TypeVar("T")


def _short(kind: type | tuple[type, ...], key: str) -> BeforeValidator:
    """A value of ``kind`` stands for a mapping that says only ``key``."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, kind) else value)


class ParameterRecord(Record):
    """A parameter: ``values``, or ``low`` and ``high`` of an integer, or names ``from`` a catalog.

    A list alone stands for its values.
    """

    values: list[Any] | None = None
    catalog: str | None = Field(default=None, alias="from")
    low: Annotated[int, Field(strict=True)] | None = None
    high: Annotated[int, Field(strict=True)] | None = None
    step: Annotated[int, Field(strict=True, gt=0)] = 1
    kind: Literal["categorical", "ordinal", "integer"] | None = None
    scale: Literal["linear", "log"] = "linear"
    optional: bool = False
    when: str = ""
    description: str = ""

    def check_fields(self) -> None:
        has_range = self.low is not None or self.high is not None
        if has_range and (self.low is None or self.high is None):
            raise ValueError("an integer needs both 'low' and 'high'")
        if has_range and (self.values is not None or self.catalog is not None):
            raise ValueError("give 'low' and 'high', or values, not both")
        if not has_range and self.values is None and self.catalog is None:
            raise ValueError("give 'values', 'low' and 'high', or 'from'")


ParameterEntry = Annotated[ParameterRecord, _short(list, "values")]


class RepeatedRecord(Record):
    """Parameters that occur ``minimum`` to ``maximum`` times, sorted by ``order``."""

    parameters: dict[str, ParameterEntry] = Field(min_length=1)
    minimum: Annotated[int, Field(strict=True, ge=0)] = 0
    maximum: Annotated[int, Field(strict=True, ge=1, le=64)]
    order: Annotated[StringList, BeforeValidator(lambda v: [v] if isinstance(v, str) else v)] = (
        Field(default_factory=list)
    )
    description: str = ""

    def check_fields(self) -> None:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}")


class DerivedRecord(Record):
    """A named quantity; text alone stands for its value."""

    value: str
    unit: str = ""
    feature: bool = False
    description: str = ""


class ConstraintRecord(Record):
    """A condition that holds; text alone stands for it."""

    condition: str
    description: str = ""


class DesignRecord(Record):
    """A named design, and where it is from."""

    values: JsonObject
    based_on: str = ""
    """The design that has the values which this one does not state."""
    source: str = ""
    outside: str = ""
    """Reason for which it is listed although it breaks the constraints."""


class SpaceRecord(Record):
    """The whole file."""

    description: str = ""
    based_on: str = ""
    """The space that has what this file does not state; ``null`` for a key takes it out."""
    sources: StringDict = Field(default_factory=dict)
    parameters: dict[str, ParameterEntry] = Field(default_factory=dict)
    repeated: dict[str, RepeatedRecord] = Field(default_factory=dict)
    derived: dict[str, Annotated[DerivedRecord, _short(str, "value")]] = Field(default_factory=dict)
    constraints: list[Annotated[ConstraintRecord, _short(str, "condition")]] = Field(
        default_factory=list
    )
    fixed: JsonObject = Field(default_factory=dict)
    designs: dict[str, DesignRecord] = Field(default_factory=dict)

    def check_fields(self) -> None:
        if not self.parameters and not self.repeated:
            raise ValueError("the space is empty: it has no parameters")
