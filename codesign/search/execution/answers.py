"""Answer of an evaluator for one design, apart from any campaign's objectives and constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from codesign.base.columns import ArrayDict, Fields, FloatMap, IntArray, JsonObject, values_at
from codesign.base.evaluator import Evaluation
from codesign.base.failures import Failure
from codesign.base.records import drop_keys, select_keys
from codesign.search.observations import Observations
from codesign.search.problem import Problem

Answer = Mapping[str, FloatMap]
"""``metrics`` and ``violations`` of one design, by name."""
Evaluate = Callable[[IntArray], Observations]
"""The shape of whatever evaluates: (n, d) designs in, their observations out."""
EvaluateEach = Callable[[IntArray], Iterable[tuple[int, Observations]]]
"""The same design by design, as they end: position and observations of one."""


def answers_of(problem: Problem, observations: Observations) -> list[Answer | Failure]:
    """Answer of the evaluator for each design."""
    ours = {constraint.text for constraint in problem.constraints}
    limits = drop_keys(observations.violations_by_name, ours)
    metrics = select_keys(observations.metrics, problem.evaluator.metric_names)
    return [
        observations.failures.get(i)
        or {"metrics": values_at(metrics, i), "violations": values_at(limits, i)}
        for i in range(len(observations))
    ]


def observed_answers(
    problem: Problem, rows: IntArray, answers: Sequence[Answer | Failure]
) -> Observations:
    """The observations of (n, d) designs of which the evaluator said this, to the bit."""
    failures = {i: answer for i, answer in enumerate(answers) if isinstance(answer, Failure)}
    metrics, violations = (_columns(section, answers) for section in ("metrics", "violations"))
    return problem.observed(rows, Evaluation(metrics, violations, failures))


def plain_answer(answer: Answer | Failure) -> JsonObject:
    """An answer or a failure as JSON values."""
    return {"failure": vars(answer)} if isinstance(answer, Failure) else dict(answer)


def read_answer(plain: Fields) -> Answer | Failure:
    """The inverse of :func:`plain_answer`."""
    return Failure(**plain["failure"]) if "failure" in plain else plain


def _columns(section: str, answers: Sequence[Answer | Failure]) -> ArrayDict:
    sections_of_answers = [
        {} if isinstance(answer, Failure) else answer[section] for answer in answers
    ]
    names = dict.fromkeys(name for values in sections_of_answers for name in values)
    return {
        name: np.array([v.get(name, np.nan) for v in sections_of_answers], float) for name in names
    }
