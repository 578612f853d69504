"""The same problem with something changed, and the exact fronts of such variations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from codesign.base.columns import ArrayDict, Arrays, Columns, Fields, FloatMap, Value
from codesign.base.errors import InfeasibleError, InputError
from codesign.base.evaluator import Evaluation, Evaluator, Offer
from codesign.base.forwarding import forwarded
from codesign.base.loop_progress import counted
from codesign.base.records import frozen
from codesign.search.derived_metrics import definitions_of
from codesign.search.enumeration import ExactFront, WantedPart, enumerate_front, exact_front
from codesign.search.enumeration.enumeration_worker import Rebuild
from codesign.search.execution.executors import LocalExecutor, spread
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem
from codesign.space import DesignSpace
from codesign.space.structure import SpaceConstraint

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_WORTH_PROCESSES = 1 << 25
"""Designs of a space from which several processes repay their start."""


@frozen
class Variation:
    """The variation; it must survive pickling.

    Attributes:
        fixed: Parameters with one value; None: absent.
        constraints: Text of a campaign's constraint, and what stands in its place; None: nothing.
        space_constraints: The same for those of the space.
        slack: Name of a limit that the evaluator reports, and the relative excess that is let
            pass; infinite: the limit is dropped; negative: it is tightened.
        is_only_new: Designs that keep the limits of ``slack`` as they are do not count.
    """

    fixed: tuple[tuple[str, Value], ...] = ()
    constraints: tuple[tuple[str, str | None], ...] = ()
    space_constraints: tuple[tuple[str, str | None], ...] = ()
    slack: tuple[tuple[str, float], ...] = ()
    is_only_new: bool = False

    def apply(self, problem: Problem) -> Problem:
        """The problem varied."""
        space = problem.space.fix(dict(self.fixed)) if self.fixed else problem.space
        if self.space_constraints:
            space = _constrained(space, dict(self.space_constraints))
        evaluator = problem.evaluator
        if self.slack:
            evaluator = Slackened(evaluator, dict(self.slack), self.is_only_new)
        if not self.constraints:
            return replace(problem, space=space, evaluator=evaluator)
        evaluator = evaluator.keep_limits({})  # those that stay are told again
        changed = dict(self.constraints)
        texts = (changed.get(x.text, x.text) for x in problem.constraints)
        return build_problem(
            space, evaluator, list(map(str, problem.objectives)),
            [text for text in texts if text is not None], problem.evaluator_name,
            metrics=definitions_of(problem.derived),
        )  # fmt: skip


def _constrained(space: DesignSpace, changed: Mapping[str, str | None]) -> DesignSpace:
    rules = []
    for rule in space.constraints:
        text = changed.get(rule.text, rule.text)
        if text == rule.text:
            rules.append(rule)
        elif text is not None:
            rules.append(SpaceConstraint(space.parse(text), rule.description))
    return DesignSpace(
        replace(space.structure, constraints=tuple(rules)),
        name=space.name,
        source=space.source,
        description=space.description,
        refix=_refuse_to_fix,
        definition={**space.provenance(), "constraints": [rule.text for rule in rules]},
    )


def _refuse_to_fix(overrides: Fields, where: str | None) -> DesignSpace:
    raise InputError("fix parameters before constraints are changed", where)


class Slackened(Evaluator):
    """An evaluator whose limits are moved; its metrics stay as they are.

    Args:
        slack: Relative excess to let pass, by limit.
        is_only_new: Whether designs that keep these limits as they are are refused.
    """

    interchangeable = forwarded(Evaluator.interchangeable, "_inner")
    best_case = forwarded(Evaluator.best_case, "_inner")
    choosing_metrics = forwarded(Evaluator.choosing_metrics, "_inner")

    def __init__(self, inner: Evaluator, slack: FloatMap, is_only_new: bool) -> None:
        self._inner = inner
        self._slack = dict(slack)
        self._is_only_new = is_only_new
        self.metrics = inner.metrics
        self.required_parameters = inner.required_parameters
        self.optional_parameters = inner.optional_parameters
        self.undecided_parameters = inner.undecided_parameters

    def offers(self, method: Offer) -> bool:
        """True if the evaluator has bounds: they are on metrics, which do not change."""
        if method == "best_case":
            return self._inner.offers(method)
        return super().offers(method)

    def known_violations(self, designs: Columns) -> Arrays:
        """Limits of the evaluator, moved."""
        violations = self._inner.known_violations(designs)
        slack_violations = [violations[name] for name in self._slack if name in violations]
        if not (self._is_only_new and slack_violations):
            return self._moved(violations)
        return self._moved(violations) | {
            "is new": np.where(np.max(slack_violations, axis=0) > 0, -1.0, 1.0)
        }

    def evaluate(self, designs: Columns, metrics: Any = None) -> Evaluation:
        """The evaluator's answer, its limits moved."""
        evaluation = self._inner.evaluate(designs, metrics)
        return replace(evaluation, violations=self._moved(evaluation.violations))

    def keep_limits(self, limits: FloatMap) -> Evaluator:
        """The evaluator choosing within limits on metrics, if it can; its own stay moved."""
        return Slackened(self._inner.keep_limits(limits), self._slack, self._is_only_new)

    def provenance(self) -> Fields:
        """Provenance of the evaluator, and the moved limits."""
        moved = {"slack": self._slack, "is_only_new": self._is_only_new}
        return {**self._inner.provenance(), **moved}

    def _moved(self, violations: Arrays) -> ArrayDict:
        return {name: values - self._slack.get(name, 0.0) for name, values in violations.items()}


@dataclass
class Fronts:
    """Exact fronts of variations of a problem.

    Attributes:
        folder: Where fronts are kept; None: nowhere.
        rebuild: How a worker gets the problem; without it there is one process.
        n_enumerated: Fronts asked for so far.
    """

    problem: Problem
    folder: Path | None = None
    workers: int = 1
    rebuild: Rebuild | None = None
    n_enumerated: int = 0
    _executor: LocalExecutor | None = None
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def find(
        self, variation: Variation, varied_part: WantedPart | None = None
    ) -> ExactFront | None:
        """The exact front of a variation; None if it holds no feasible design that is wanted.

        Args:
            variation: What is different; the space must not become empty.
            varied_part: The part of the front that matters; all of it if None.

        Raises:
            InputError: The designs cannot be listed, or the folder cannot be written.
            JobError: The enumeration failed.
        """
        varied = variation.apply(self.problem)
        try:
            if self._executor is None or self.rebuild is None:
                rebuild: Callable[[], Problem] | None = None
                if self.rebuild is not None and varied.space.size >= _WORTH_PROCESSES:
                    rebuild = partial(_rebuilt, self.rebuild, variation)
                front = _front(varied, self.folder, varied_part, self.workers, rebuild)
            else:
                search = _FrontSearch(self.rebuild, Path.cwd())
                inputs = [(variation, self.folder, varied_part)]
                ((_, searched),) = spread(search, inputs, self._executor)
                if searched is None:
                    return None
                front = searched
            return front if len(front) else None
        except InfeasibleError:
            return None
        finally:
            with self._counting:
                self.n_enumerated += 1

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """Within it, :meth:`each` finds several fronts at once, each in one process."""
        is_small = self.problem.space.size < _WORTH_PROCESSES
        if self.rebuild is None or self.workers < 2 or is_small:
            yield
            return
        self._executor = LocalExecutor(self.workers)
        try:
            yield
        finally:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    def each(
        self, function: Callable[[_Item], _Answer], arguments: Sequence[_Item], subject: str
    ) -> list[_Answer]:
        """Results of a function that asks for fronts, for every item in order.

        Args:
            function: Called by several threads within :meth:`side_by_side`.
            arguments: Independent of one another.
            subject: Words for them, for the progress.
        """
        if self._executor is None:
            return [function(argument) for argument in counted(arguments, subject)]
        threads = ThreadPoolExecutor(self.workers)
        try:
            answers = threads.map(function, arguments)
            return [next(answers) for _ in counted(arguments, subject)]
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _front(
    varied: Problem,
    folder: Path | None,
    varied_part: WantedPart | None,
    workers: int = 1,
    rebuild: Rebuild | None = None,
) -> ExactFront:
    if folder is None:
        return enumerate_front(varied, workers=workers, rebuild=rebuild, wanted=varied_part)
    return exact_front(varied, folder, workers=workers, rebuild=rebuild, wanted=varied_part)


@frozen
class _FrontSearch:
    """A search of a worker for fronts, which gets the problem once."""

    rebuild: Rebuild
    working_folder: Path

    def __call__(
        self, variation: Variation, folder: Path | None, varied_part: WantedPart | None
    ) -> ExactFront | None:
        """The front of a variation; None if no design is feasible."""
        with chdir(self.working_folder), suppress(InfeasibleError):
            return _front(variation.apply(self._problem), folder, varied_part)
        return None

    @cached_property
    def _problem(self) -> Problem:
        return self.rebuild()


def _rebuilt(rebuild: Rebuild, variation: Variation) -> Problem:
    return variation.apply(rebuild())
