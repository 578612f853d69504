"""Kinds of problems: what counts as one where evidence is counted.

Prefill and decode of three models under three sets of limits are 18 problems of one evaluator on
one space: who wins on one of them probably wins on the others. A test that takes them for 18
independent blocks overstates. So each problem has a kind; within a kind, problems and seeds are
averaged, and the kinds are weighed equally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from codesign.base.columns import FloatArray, Strings
from codesign.insight.comparison.outcome import ProblemOutcome


def kind_groups(problems: Sequence[ProblemOutcome]) -> dict[str, tuple[ProblemOutcome, ...]]:
    """The problems of each kind, in the order in which the kinds appear."""
    kinds = dict.fromkeys(problem.kind for problem in problems)
    return {
        group: tuple(compared for compared in problems if compared.kind == group) for group in kinds
    }


def kind_means(
    problems: Sequence[ProblemOutcome], values: Callable[[ProblemOutcome], FloatArray]
) -> FloatArray:
    """(kinds, ...) mean over the problems of each kind.

    Args:
        problems: Of all kinds, at least one.
        values: (...) of one problem, averaged over its seeds.
    """
    return np.array(
        [
            np.mean([values(compared) for compared in group], axis=0)
            for group in kind_groups(problems).values()
        ]
    )


def kind_shares(problems: Sequence[ProblemOutcome], labels: Strings) -> FloatArray:
    """(kinds, optimizers) final share of the best hypervolume."""
    return kind_means(
        problems, lambda problem: np.array([problem.final_shares(x).mean() for x in labels])
    )


def kind_areas(problems: Sequence[ProblemOutcome], labels: Strings) -> FloatArray:
    """(kinds, optimizers) area under the curve of convergence."""
    return kind_means(problems, lambda problem: np.array([problem.areas(x).mean() for x in labels]))
