"""Records that never change, and what is stated of one."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

Class = TypeVar("Class")
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Class]) -> type[Class]:
    """Make a class a dataclass whose fields cannot be assigned.

    Examples:
        >>> @frozen
        ... class Point:
        ...     x: float
        >>> Point(2.0)
        Point(x=2.0)
    """
    return dataclass(frozen=True)(cls)


def drop_none(values: Mapping[Key, Value | None]) -> dict[Key, Value]:
    """Copy without the keys whose value is None."""
    return {key: value for key, value in values.items() if value is not None}


def select_keys(values: Mapping[Key, Value], keys: Iterable[Key]) -> dict[Key, Value]:
    """Values of some keys, in the order of these keys; absent keys are ignored."""
    return {key: values[key] for key in keys if key in values}


def drop_keys(values: Mapping[Key, Value], keys: Container[object]) -> dict[Key, Value]:
    """Copy without some keys."""
    return {key: value for key, value in values.items() if key not in keys}
