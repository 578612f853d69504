"""A problem whose every design is evaluated, whatever bounds its evaluator has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from codesign.base.columns import Columns, FloatArray
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.schema import Record
from codesign.search.enumeration.enumeration_worker import Rebuild
from codesign.search.problem import Problem


class _Unbounded:
    """An evaluator without its bounds."""

    Workload: ClassVar[type[Record]] = Record
    Options: ClassVar[type[Record]] = Record

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.metrics = evaluator.metrics
        self.required_parameters = evaluator.required_parameters
        self.optional_parameters = evaluator.optional_parameters

    def known_violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        return self._evaluator.known_violations(designs)

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        return self._evaluator.evaluate(designs, metrics)

    def provenance(self) -> Mapping[str, Any]:
        return self._evaluator.provenance()


def without_bounds(problem: Problem | Rebuild) -> Problem:
    """The problem, stated or built, of which an enumeration leaves no design out by a bound."""
    stated = problem if isinstance(problem, Problem) else problem()
    return replace(stated, evaluator=_Unbounded(stated.evaluator))
