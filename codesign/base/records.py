"""Records that never change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

Class = TypeVar("Class")


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
