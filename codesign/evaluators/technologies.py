"""Evaluators that are built from memory technologies and constants with ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from codesign.base.evaluator import Evaluator

if TYPE_CHECKING:
    from codesign.models.memtech import MemoryTechnology, Range


@runtime_checkable
class HasTechnologies(Protocol):
    """An evaluator whose memory levels are built from memory technologies."""

    def technologies(self) -> Mapping[str, MemoryTechnology]:
        """The technologies in use, by name."""
        ...


@runtime_checkable
class VariesTechnology(HasTechnologies, Protocol):
    """An evaluator whose memory technologies can be replaced, to see what their ranges do."""

    def with_library(self, library: Mapping[str, MemoryTechnology]) -> Evaluator:
        """The same evaluator with other technologies under the same names."""
        ...


@runtime_checkable
class VariesConstants(Protocol):
    """An evaluator with constants of its own that have ranges, beside those of technologies."""

    def constant_ranges(self, metrics: Sequence[str]) -> Mapping[str, Range]:
        """The ranges, by name, of the constants that any of these metrics depends on."""
        ...

    def with_constants(self, values: Mapping[str, float]) -> Evaluator:
        """The same evaluator with these values of the constants named."""
        ...
