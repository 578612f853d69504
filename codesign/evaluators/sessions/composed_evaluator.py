"""Evaluators whose metrics follow from those of others over the same designs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar, cast

from codesign.base.columns import Domains, Fields, Value
from codesign.base.evaluator import Evaluator

E = TypeVar("E", bound=Evaluator)


class ComposedEvaluator(Evaluator, Generic[E]):
    """Everything that evaluators over the same parameters and memories have in common.

    Attributes:
        members: The evaluators.
    """

    members: Mapping[Any, E]

    @property
    def first(self) -> E:
        """The evaluator that speaks for all where they are alike."""
        return next(iter(self.members.values()))

    @property
    def profile(self) -> str | None:
        return self.first.profile

    def _with(self, change: Callable[[E], Evaluator]) -> Self:
        evaluator = copy.copy(self)
        evaluator.members = {key: cast("E", change(x)) for key, x in self.members.items()}
        return evaluator

    def technologies(self) -> Fields:
        return self.first.technologies()

    def replace_library(self, library: Fields) -> Self:
        return self._with(lambda member: member.replace_library(library))

    def replace_constants(self, values: Mapping[str, float]) -> Self:
        return self._with(lambda member: member.replace_constants(values))

    def constant_ranges(self, metrics: Sequence[str]) -> Fields:
        return self.first.constant_ranges(metrics)

    def absent_metrics(self, values: Domains) -> Mapping[str, str]:
        return self.first.absent_metrics(values)

    def interchangeable(self, parameter: str, values: Sequence[Value]) -> Sequence[Hashable]:
        keys = (member.interchangeable(parameter, values) for member in self.members.values())
        return list(zip(*keys, strict=True))
