"""Evaluators whose metrics follow from those of others over the same designs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar, cast

from codesign.base.columns import Fields, FloatMap, Value
from codesign.base.evaluator import Evaluator
from codesign.base.forwarding import forwarded

E = TypeVar("E", bound=Evaluator)


class ComposedEvaluator(Evaluator, Generic[E]):
    """Everything that evaluators over the same parameters and memories have in common.

    Attributes:
        members: The evaluators.
    """

    members: Mapping[Any, E]

    technologies = forwarded(Evaluator.technologies, "first")
    constant_ranges = forwarded(Evaluator.constant_ranges, "first")
    absent_metrics = forwarded(Evaluator.absent_metrics, "first")

    @property
    def first(self) -> E:
        """The evaluator that speaks for all where they are alike."""
        return next(iter(self.members.values()))

    @property
    def profile(self) -> str | None:
        return self.first.profile

    def _change_members(self, change: Callable[[E], Evaluator]) -> Self:
        evaluator = copy.copy(self)
        evaluator.members = {key: cast("E", change(x)) for key, x in self.members.items()}
        return evaluator

    def replace_library(self, library: Fields) -> Self:
        return self._change_members(lambda member: member.replace_library(library))

    def replace_constants(self, values: FloatMap) -> Self:
        return self._change_members(lambda member: member.replace_constants(values))

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        keys = (member.interchangeable(parameter, values) for member in self.members.values())
        return list(zip(*keys, strict=True))
