"""A cache of results around an evaluation: every design is computed once, whoever asks.

What is kept is the evaluator's answer, metrics and violations, so that campaigns with other
objectives and constraints share it; and that a simulator calls a design infeasible. Another failure
may be that of a machine or a time limit, so the next campaign tries again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from codesign.base import plugins
from codesign.base.code_digest import code_digest
from codesign.base.columns import IntArray
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluator
from codesign.base.failures import Failure
from codesign.search.execution.answers import Answer, Evaluate, answers_of, observed_answers
from codesign.search.execution.result_store import (
    BEAT_S,
    STALE_S,
    ResultStore,
    Source,
    canonical,
    new_owner,
)
from codesign.search.observations import Observations
from codesign.search.problem import Problem

_POLL_S = 0.05
_LONGEST_POLL_S = 1.0


class ResultCache:
    """Answers for a problem's designs, from the cache where it has them.

    Args:
        stale_s: After how long without a beat a claim is taken over.
    """

    def __init__(self, problem: Problem, store: ResultStore, stale_s: float = STALE_S) -> None:
        self._problem, self._store, self._stale_s = problem, store, stale_s
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
        owner = new_owner()
        answers: dict[int, Answer | Failure] = {}
        waiting = _Waiting(self._store, self._stale_s)
        while missing := [i for i in range(len(rows)) if i not in answers]:
            stored = self._store.look_up([keys[i] for i in missing])
            answers |= {i: stored[keys[i]] for i in missing if keys[i] in stored}
            missing = [i for i in missing if i not in answers]
            claimed_keys = set(self._store.claim([keys[i] for i in missing], owner))
            claimed = [i for i in missing if keys[i] in claimed_keys]
            if claimed:
                with self._held(owner):
                    computed = answers_of(self._problem, inner(rows[claimed]))
                    answers |= dict(zip(claimed, computed, strict=True))
                    lasting = {
                        designs[i]: answer
                        for i, answer in zip(claimed, computed, strict=True)
                        if not isinstance(answer, Failure) or answer.kind == "infeasible"
                    }
                    self._store.store(self.source, lasting)
            elif missing:
                waiting.wait([keys[i] for i in missing])
        in_order = [answers[i] for i in range(len(rows))]
        return observed_answers(self._problem, rows, in_order)

    @contextmanager
    def _held(self, owner: str) -> Iterator[None]:
        """The owner's claims are shown to be alive during the block, and free after it."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(BEAT_S):
                try:
                    self._store.beat(owner)
                except InputError:  # the evaluation itself will say what is wrong with the cache
                    return

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self._store.release(owner)


class _Waiting:
    """Waits for designs that others compute, and frees the claims of those that stand still."""

    def __init__(self, store: ResultStore, stale_s: float) -> None:
        self._store, self._stale_s = store, stale_s
        self._pause_s = _POLL_S
        self._since: dict[str, tuple[tuple[str, int], float]] = {}

    def wait(self, keys: Sequence[str]) -> None:
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_POLL_S)
        now = time.monotonic()
        claims = self._store.beats(keys)
        for key, claim in claims.items():
            answer, since = self._since.get(key, (None, now))
            if answer != claim:
                self._since[key] = (claim, now)
            elif now - since > self._stale_s:
                self._store.drop(key, claim)


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


def evaluator_modules(evaluator: Evaluator) -> tuple[str, ...]:
    """The modules of an evaluator's class, its pools' classes, and their conventions."""
    evaluators = [evaluator]
    evaluators += evaluator.pool_evaluators().values()
    names = {type(evaluator).__module__ for evaluator in evaluators}
    for evaluator in evaluators:
        names.update(evaluator.convention_modules())
    return tuple(sorted(names))
