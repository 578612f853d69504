"""Answers about the public set of problems with proven fronts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from codesign.answers.answer import Answer, Entry, Numbers
from codesign.base.columns import FieldRows, Fields, FloatArray, Strings, values_at
from codesign.search.problems.problem_records import ProblemRecord
from codesign.search.problems.public_problem import Evaluated, PublicProblem, counts_to_show


class ProblemsAnswer(Answer):
    """The public set of problems with proven fronts.

    Attributes:
        problems: Problems by kind and name.
    """

    problems: Sequence[ProblemRecord]


class ProblemAnswer(Answer, ProblemRecord):
    """One problem of the public set.

    Attributes:
        description: Description in a sentence.
        parameters: Values of each parameter; null among them if it may be absent.
        constraints: Constraints of the space.
    """

    description: str
    parameters: Mapping[str, Sequence[Any]]
    constraints: Strings

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
    """A design with its result.

    Attributes:
        design: Design as it was read.
        objectives: Objectives in the metric's sign and unit; null without a result.
        is_feasible: True if it has a result and keeps every limit.
        violations: Relative excess by limit; at most 0 is within; null without a result.
        reason: Reason of a missing result.
    """

    design: Fields
    objectives: Numbers
    is_feasible: bool
    violations: Numbers
    reason: str | None


class ProblemEvaluationAnswer(Answer, VersionedProblem):
    """Designs evaluated on a problem of the public set.

    Attributes:
        evaluations: Designs in the order of the file.
    """

    evaluations: Sequence[EvaluatedEntry]

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
    """Share of the exact hypervolume after some evaluations.

    Attributes:
        evaluations: Rows counted.
        share: Share of the exact hypervolume.
    """

    evaluations: int
    share: float


class ProblemScoreAnswer(Answer, VersionedProblem):
    """Score of a run on a problem of the public set.

    Attributes:
        evaluations: Rows of the file.
        hypervolume: Hypervolume of all rows.
        exact_hypervolume: Hypervolume of the exact front, in the units of the objectives
            multiplied.
        shares: Shares after 10, 20, 50, 100, ... rows, and after all.
    """

    evaluations: int
    hypervolume: float
    exact_hypervolume: float
    shares: Sequence[ShareEntry]

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
    """Published fronts computed again.

    Attributes:
        problems: Differences by NAME.vN; empty if it is proven again.
    """

    problems: Mapping[str, Strings]
