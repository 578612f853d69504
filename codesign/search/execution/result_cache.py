"""A cache of results around an evaluation: every design is computed once, whoever asks.

What is kept is the evaluator's answer, metrics and violations, so that campaigns with other
objectives and constraints share it; and that a simulator calls a design infeasible. Another failure
may be that of a machine or a time limit, so the next campaign tries again.
"""

from __future__ import annotations

import time

import numpy as np

from codesign.base import plugins
from codesign.base.code_digest import code_digest
from codesign.base.columns import IntArray, IntegerList, StringTuple
from codesign.base.evaluator import Evaluator
from codesign.base.failures import Failure
from codesign.search.execution.answers import Answer, Evaluate, answers_of, observed_answers
from codesign.search.execution.result_store import ResultStore, Source, canonical
from codesign.search.observations import Observations
from codesign.search.problem import Problem

_POLL_S = 0.05
_LONGEST_POLL_S = 1.0


class ResultCache:
    """Answers for a problem's designs, from the cache where it has them."""

    def __init__(self, problem: Problem, store: ResultStore) -> None:
        self._problem = problem
        self._store = store
        self.source = source_of(problem)

    def evaluate(self, rows: IntArray, inner: Evaluate) -> Observations:
        """The observations of designs; ``inner`` is called for those that nobody has computed.

        Designs that another process computes now are waited for.

        Args:
            rows: (n, d) designs.

        Raises:
            InputError: The cache's file cannot be used.
        """
        if not len(rows):
            return inner(rows)
        designs = [canonical(design) for design in self._problem.space.decode(rows)]
        keys = [self.source.key(design) for design in designs]
        answers: dict[int, Answer | Failure] = {}

        def lacking() -> IntegerList:
            """Take stored answers; returns the positions of designs that have none."""
            missing = [i for i in range(len(rows)) if i not in answers]
            stored = self._store.look_up([keys[i] for i in missing])
            answers.update({i: stored[keys[i]] for i in missing if keys[i] in stored})
            return [i for i in missing if i not in answers]

        if lacking():
            pause_s = _POLL_S
            with self._store.owner() as owner:
                while missing := lacking():
                    claimed_keys = self._store.claim([keys[i] for i in missing], owner)
                    claimed = [i for i in missing if keys[i] in claimed_keys]
                    if not claimed:
                        time.sleep(pause_s)
                        pause_s = min(2.0 * pause_s, _LONGEST_POLL_S)
                        continue
                    computed = answers_of(self._problem, inner(rows[claimed]))
                    answers |= dict(zip(claimed, computed, strict=True))
                    lasting = {
                        designs[i]: answer
                        for i, answer in zip(claimed, computed, strict=True)
                        if not isinstance(answer, Failure) or answer.kind == "infeasible"
                    }
                    self._store.store(self.source, lasting)
        in_order = [answers[i] for i in range(len(rows))]
        return observed_answers(self._problem, rows, in_order)


def source_of(problem: Problem) -> Source:
    """All that an evaluator's answers for a design depend on.

    Its name and provenance, its code with what that imports from its own package, the version of
    the package that registers it and of NumPy, and the limits if it chooses within them.
    """
    evaluator = problem.evaluator
    limits = sorted(evaluator_limit.text for evaluator_limit in problem.evaluator_limits)
    return Source(
        problem.evaluator_name,
        canonical(
            {
                "provenance": evaluator.provenance(),
                "code": code_digest(evaluator_modules(evaluator)),
                "package": plugins.distribution("evaluators", problem.evaluator_name),
                "numpy": np.__version__,
                "limits": limits if evaluator.offers("keep_limits") else [],
            }
        ),
    )


def evaluator_modules(evaluator: Evaluator) -> StringTuple:
    """The modules of an evaluator's class, its pools' classes, and their conventions."""
    evaluators = [evaluator]
    evaluators += evaluator.pool_evaluators().values()
    names = {type(evaluator).__module__ for evaluator in evaluators}
    for evaluator in evaluators:
        names.update(evaluator.convention_modules())
    return tuple(sorted(names))
