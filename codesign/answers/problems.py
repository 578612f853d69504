"""Answers about the public set of problems with proven fronts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from codesign.answers.answer import Answer, Entry, Numbers
from codesign.base.columns import FieldRows, Fields, FloatArray, Strings, values_at
from codesign.search.problems.problem_records import ProblemRecord
from codesign.search.problems.public_problem import Evaluated, PublicProblem, counts_to_show


class ProblemsAnswer(Answer):
    """The public set of problems with proven fronts."""

    problems: Sequence[ProblemRecord]
    """Problems by kind and name."""


class ProblemAnswer(Answer, ProblemRecord):
    """One problem of the public set."""

    description: str
    """Description in a sentence."""
    parameters: Mapping[str, Sequence[Any]]
    """Values of each parameter; null among them if it may be absent."""
    constraints: Strings
    """Constraints of the space."""

    @classmethod
    def describe(cls, problem: PublicProblem) -> Self:
        """The answer about a problem."""
        return cls(
            **dict(problem.record),
            description=problem.definition.definition.description,
            parameters=problem.parameters,
            constraints=[constraint.text for constraint in problem.problem.space.constraints],
        )


class VersionedProblem(Entry):
    """A version of a problem."""

    name: str
    """Name of the problem; problem-NAME is its campaign."""
    version: int
    """Version of the published record."""


class EvaluatedEntry(Entry):
    """A design with its result."""

    design: Fields
    """Design as it was read."""
    objectives: Numbers
    """Objectives in the metric's sign and unit; null without a result."""
    is_feasible: bool
    """True if it has a result and keeps every limit."""
    violations: Numbers
    """Relative excess by limit; at most 0 is within; null without a result."""
    reason: str | None
    """Reason of a missing result."""


class ProblemEvaluationAnswer(Answer, VersionedProblem):
    """Designs evaluated on a problem of the public set."""

    evaluations: Sequence[EvaluatedEntry]
    """Designs in the order of the file."""

    @classmethod
    def describe(cls, problem: PublicProblem, designs: FieldRows, evaluated: Evaluated) -> Self:
        """The answer about designs."""
        names = list(problem.objectives)
        return cls(
            name=problem.record.name,
            version=problem.record.version,
            evaluations=[
                EvaluatedEntry(
                    design=design,
                    objectives=dict(zip(names, objectives, strict=True)),
                    is_feasible=bool(evaluated.feasible[i]),
                    violations=values_at(evaluated.violations, i),
                    reason=evaluated.reasons.get(i),
                )
                for i, (design, objectives) in enumerate(
                    zip(designs, evaluated.objectives.tolist(), strict=True)
                )
            ],
        )


class ShareEntry(Entry):
    """Share of the exact hypervolume after some evaluations."""

    evaluations: int
    """Rows counted."""
    share: float
    """Share of the exact hypervolume."""


class ProblemScoreAnswer(Answer, VersionedProblem):
    """Score of a run on a problem of the public set."""

    evaluations: int
    """Rows of the file."""
    hypervolume: float
    """Hypervolume of all rows."""
    exact_hypervolume: float
    """Hypervolume of the exact front, in the units of the objectives multiplied."""
    shares: Sequence[ShareEntry]
    """Shares after 10, 20, 50, 100, ... rows, and after all."""

    @classmethod
    def describe(cls, problem: PublicProblem, shares: FloatArray) -> Self:
        """The answer about a run."""
        return cls(
            name=problem.record.name,
            version=problem.record.version,
            evaluations=len(shares),
            hypervolume=float(shares[-1]) * problem.record.hypervolume,
            exact_hypervolume=problem.record.hypervolume,
            shares=[
                ShareEntry(evaluations=n, share=float(shares[n - 1]))
                for n in counts_to_show(len(shares))
            ],
        )


class ProblemProofsAnswer(Answer):
    """Published fronts computed again."""

    problems: Mapping[str, Strings]
    """Differences by NAME.vN; empty if it is proven again."""
