"""One run: ask, evaluate, tell, until the budget is spent.

A run is a function of the problem, the optimizer, the seed and its own history, so a fresh
process that is told the stored history continues exactly where the killed one stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.base.errors import CodesignError, JobError
from codesign.base.records import frozen
from codesign.search.campaign.campaign_definition import ResolvedDefinition
from codesign.search.campaign.observations import (
    Layout,
    ObservationBatch,
    Run,
    ScreenedBatch,
    StoredObservations,
)
from codesign.search.execution.answers import Evaluate
from codesign.search.observations import Observations
from codesign.search.optimizers.base import (
    ScreeningTerms,
    SearchSpace,
    initial_designs,
)
from codesign.search.optimizers.predicted import hinted_designs, most_added
from codesign.search.pareto import HypervolumeTracker
from codesign.search.problem import Problem

_FIRST_SCREENED = 64
"""Most designs that a cheaper evaluator sees before the first of the dear one's [ours]."""


@frozen
class Plan:
    """Inputs that all runs of a campaign share.

    Attributes:
        resolved: The definition with its problem and optimizers.
        layout: Names of the recorded numbers.
        reference: (m,) reference point, minimized.
        screen: Evaluates them by the cheaper evaluator; None without one.
    """

    resolved: ResolvedDefinition
    layout: Layout
    reference: FloatArray
    evaluate: Evaluate
    screen: Evaluate | None = None


def run_batches(plan: Plan, index: int, history: StoredObservations) -> Iterator[ObservationBatch]:
    """The batches that a run still lacks.

    The caller stores a batch before it asks for the next. Fewer observations than the budget
    mean that no further design exists.

    Args:
        history: What the store holds of the run.

    Raises:
        JobError: The optimizer raised, or proposed what it must not.
    """
    with explained(plan.resolved.definition.runs[index]):
        yield from Search(plan, index, history).batches()


@contextmanager
def explained(run: Run) -> Iterator[None]:
    """Name the run in what its optimizer raises.

    Raises:
        JobError: The optimizer raised.
    """
    try:
        yield
    except CodesignError:
        raise
    except Exception as error:  # third-party optimizer may fail in any way
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace else ""
        words = f"failed: {type(error).__name__}: {' '.join(str(error).split())}{place}"
        raise JobError(f"the optimizer of run {run} {words}") from error


class Search:
    """The state of one run, all of which follows from its history."""

    def __init__(self, plan: Plan, index: int, history: StoredObservations) -> None:
        self._plan = plan
        self._index = index
        self._problem = plan.resolved.problem
        self._run = plan.resolved.definition.runs[index]
        screening = plan.resolved.definition.screening
        terms = None if screening is None else screening.terms
        self._space = search_space(self._problem, plan.resolved.screening, terms)
        self._configured = plan.resolved.optimizer_of(self._run)
        self._optimizer: Any = self._configured.build(
            self._space, len(self._problem.objectives), self._run.seed, plan.reference
        )
        self._knows_pending = getattr(self._optimizer, "knows_pending", False)
        self._screens = hasattr(self._optimizer, "ask_screened")
        self._tracker = HypervolumeTracker(plan.reference)
        self._seen: set[int] = set()
        self._done = 0
        self._n_batches = 0
        self._n_screened = 0
        self._first_screened: Observations | None = None
        observations = history.observations
        self._seen.update(self._problem.space.keys(observations.rows).tolist())
        self._tracker.add_all(observations.objectives, observations.feasible)
        rows, objectives, violations, failed = observations.tell_arguments
        bounds = np.flatnonzero(np.diff(history.batch, prepend=-1, append=-1))
        for start, end in pairwise(bounds.tolist()):
            within = slice(start, end)
            self._optimizer.tell(
                rows[within], objectives[within], violations[within], failed[within]
            )
        self._done = len(observations)
        self._n_batches = int(history.batch.max(initial=-1)) + 1

    def batches(self) -> Iterator[ObservationBatch]:
        """Ask, evaluate, tell."""
        while self._done < self._plan.resolved.definition.budget:
            start = time.perf_counter()
            rows = self.propose()
            if not len(rows):
                return
            evaluation_start = time.perf_counter()
            observations = self._plan.evaluate(rows)
            batch = self.recorded(
                observations,
                self._n_batches,
                evaluation_start - start,
                time.perf_counter() - evaluation_start,
            )
            yield batch
            # Told only now: the batch is durable.
            self.tell(batch)
            self._n_batches += 1

    @property
    def n_left(self) -> int:
        """Observations that the budget still allows."""
        return self._plan.resolved.definition.budget - self._done

    @property
    def n_told(self) -> int:
        """Observations that the optimizer knows."""
        return self._done

    def propose(self) -> IntArray:
        """(k, d) the next batch when nothing is pending; (0, d) if no design is left.

        Raises:
            JobError: The optimizer proposed what it must not.
        """
        if not self._seen:
            return self._checked_new(self._initial_designs())
        batch_size = self._plan.resolved.definition.batch or self._optimizer.preferred_batch
        return self._proposed(min(batch_size, self.n_left))

    def _initial_designs(self) -> IntArray:
        n = self._plan.resolved.definition.initial
        if not self._starts_from_hints:
            return initial_designs(self._space, n, self._run.seed)
        screened = self._first_screened
        if screened is None:
            return self._hinted(n)
        inside = np.flatnonzero(screened.feasible)
        values = screened.objectives[inside]
        best = inside[most_added(values, values[:0], self._plan.reference, n)]
        # Too few are within the limits: the best by hints beside them.
        rows = np.concatenate([screened.rows[best], self._hinted(n)])
        keys = self._problem.space.keys(rows)
        return rows[np.sort(np.unique(keys, return_index=True)[1])][:n]

    @property
    def _starts_from_hints(self) -> bool:
        return self._configured.start == "hints" and self._space.predict is not None

    def _hinted(self, n: int) -> IntArray:
        m = len(self._problem.objectives)
        return hinted_designs(self._space, n, m, self._run.seed, self._plan.reference)

    def propose_beside(self, pending: IntArray) -> IntArray:
        """(k, d) one more design while others are pending; (0, d) if it must wait for these.

        Args:
            pending: (p, d) in the order of their proposal.

        Raises:
            JobError: The optimizer proposed what it must not.
        """
        if not len(pending) or self._knows_pending:
            return self._proposed(1, pending)
        rows = self._optimizer.ask(1 + len(pending))
        self._check(rows, 1 + len(pending))
        keys = self._problem.space.keys
        return self._checked_new(rows[~np.isin(keys(rows), keys(pending))][:1])

    def screenings(self, pending: IntArray) -> Iterator[ScreenedBatch]:
        """Results of the cheaper evaluator for designs that the optimizer asks about.

        The caller stores a batch before it asks for the next; after the last, the optimizer can
        propose.

        Args:
            pending: (p, d) designs that have no result yet.

        Raises:
            JobError: The optimizer asks what it must not, or the evaluator breaks its contract.
        """
        screening = self._plan.resolved.screening
        if screening is None or self._plan.screen is None or not self._screens:
            return
        while len(rows := self._screening_rows(pending)):
            if not self._problem.admits(rows).all():
                raise self._broken("it screened a design that is not admissible")
            start = time.perf_counter()
            observations = self._plan.screen(rows)
            batch = ScreenedBatch(
                self._index,
                self._n_screened,
                np.full(len(rows), self._done),
                observations.limited_to([x.text for x in screening.constraints_on_metrics]),
                time.perf_counter() - start,
            )
            yield batch
            self.tell_screened(batch)

    def _screening_rows(self, pending: IntArray) -> IntArray:
        """(k, d) the designs to screen next: before the initial ones, the best by hints."""
        if self._seen:
            rows: IntArray = self._optimizer.ask_screened(pending)
            return rows
        terms = self._space.screening
        n = self._plan.resolved.definition.initial
        if self._n_screened or terms is None or not self._starts_from_hints:
            return self._space.no_rows
        return self._hinted(min(terms.n_allowed(n), max(_FIRST_SCREENED, n)))

    def tell_screened(self, batch: ScreenedBatch) -> None:
        """Tell the optimizer what is durable of the cheaper evaluator's results."""
        observations = batch.observations
        if self._screens and len(observations):
            self._optimizer.tell_screened(*observations.tell_arguments)
        if not self._n_screened and not batch.first:
            self._first_screened = observations
        self._n_screened += len(observations)

    def note_proposed(self, rows: IntArray) -> None:
        """Designs that were proposed before a restart and have no result yet."""
        self._seen.update(self._problem.space.keys(rows).tolist())

    def _proposed(self, n: int, pending: IntArray | None = None) -> IntArray:
        beside = (pending,) if pending is not None and len(pending) and self._knows_pending else ()
        rows: IntArray = self._optimizer.ask(n, *beside)
        self._check(rows, n)
        return self._checked_new(rows)

    def _check(self, rows: IntArray, n: int) -> None:
        d = len(self._problem.space.names)
        if not isinstance(rows, np.ndarray) or rows.dtype.kind != "i" or rows.shape[1:] != (d,):
            raise self._broken(f"asked for up to {n} rows of {d} integers, it gave {rows!r:.80}")
        if len(rows) > n:
            raise self._broken(f"asked for up to {n} designs, it gave {len(rows)}")

    def _checked_new(self, rows: IntArray) -> IntArray:
        if not self._problem.admits(rows).all():
            raise self._broken("it proposed a design that is not admissible")
        keys = self._problem.space.keys(rows).tolist()
        before = len(self._seen)
        self._seen.update(keys)
        if len(self._seen) < before + len(keys):
            raise self._broken("it proposed a design twice")
        return rows

    def _broken(self, breach: str) -> JobError:
        return JobError(f"the optimizer of run {self._run} broke its contract: {breach}")

    def recorded(
        self,
        observations: Observations,
        batch: int,
        ask_seconds: float,
        evaluate_seconds: float,
        n_untold: int = 0,
    ) -> ObservationBatch:
        """Observations in the form of the store.

        Args:
            observations: Of designs that were proposed together.
            batch: Number of that proposal.
            ask_seconds: Wall time of the optimizer.
            evaluate_seconds: Wall time of the evaluator.
            n_untold: Observations recorded before these and not told yet.
        """
        recorded = self._plan.layout.recorded(observations)
        return ObservationBatch(
            run=self._index,
            batch=batch,
            first_step=self._done + n_untold,
            observations=recorded,
            hypervolume=self._tracker.add_all(recorded.objectives, recorded.feasible),
            ask_seconds=ask_seconds,
            evaluate_seconds=evaluate_seconds,
        )

    def tell(self, batch: ObservationBatch) -> None:
        """Tell the optimizer what is durable."""
        self._optimizer.tell(*batch.observations.tell_arguments)
        self._done += len(batch)


def search_space(
    problem: Problem, screening: Problem | None = None, terms: ScreeningTerms | None = None
) -> SearchSpace:
    """Space of the optimizers, with all that the evaluator knows in advance.

    Args:
        screening: The problem of a cheaper evaluator; what predicts its results stands for the
            problem's if nothing predicts those.
        terms: What the cheaper evaluator costs.
    """
    model = problem if screening is None or problem.is_predicted else screening
    return SearchSpace(
        problem.space,
        problem.admits,
        problem.features,
        model.predictions if model.is_predicted else None,
        model.predicted_violations if model.is_predicted else None,
        terms,
    )
