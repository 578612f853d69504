"""Runs with several designs in flight: evaluated anywhere, stored here as they end.

A proposal is durable before it is evaluated, an observation before the optimizer is told of it.
While an optimizer thinks, a second thread makes durable what ends; the optimizer is told after it.
What a run does next depends on these two alone: on the observations in the order in which they
ended, and on the designs pending. So the same stored history gives the same next proposal, and
what was pending when a campaign was killed is evaluated again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np

from codesign.base.columns import IntegerSequence
from codesign.base.errors import CodesignError, JobError
from codesign.search.campaign.executor import Ended, Recorder
from codesign.search.campaign.farm import Farm, FutureObservations, loss_of_design
from codesign.search.campaign.loop import Plan, Search, explained
from codesign.search.campaign.observations import ObservationBatch, PendingDesign
from codesign.search.execution.executors import ExecutorGoneError
from codesign.search.execution.guard import NOTICE_S, Refusal, waiting_words
from codesign.search.observations import Observations

_logger = logging.getLogger(__name__)


def execute_in_flight(plan: Plan, pending: IntegerSequence, recorder: Recorder, farm: Farm) -> None:
    """Do the pending runs, each with its designs in flight, in the order given.

    Raises:
        ExecutorGoneError: The executor works no more.
        JobError: A run failed; the others were done.
    """
    waiting = deque(pending)
    flights = list[_Flight]()
    writer = _Writer(flights)
    while waiting or flights:
        while waiting and len(flights) < farm.runs:
            flights.append(_Flight(plan, waiting.popleft(), recorder, farm, writer))
            flights[-1].take(_Flight.begin)
        if futures := [future for flight in flights for future in flight.futures]:
            farm.wait(futures)
        if farm.names_slow:
            for flight in flights:
                flight.name_slowest()
        # What has ended is made durable before any optimizer is asked.
        for step in (_Flight.collect, _Flight.refill):
            for flight in flights:
                flight.take(step)
        flights[:] = [flight for flight in flights if not flight.has_ended]
    recorder.finish()


@dataclass
class _InFlight:
    """A design that is being evaluated, or whose result is durable and not told yet."""

    proposal: PendingDesign
    since: float = field(default_factory=time.perf_counter)
    notice_s: float = NOTICE_S
    batch: ObservationBatch | None = None


class _Writer:
    """Stores what ends in any flight while the optimizer of one is asked.

    The thread that asks touches neither the store nor the flights meanwhile, so that the store has
    one writer at any time.

    Args:
        flights: Those of all runs, as they are at the time.
    """

    def __init__(self, flights: list[_Flight]) -> None:
        self._flights = flights
        self._has_news = threading.Event()

    def notice(self, future: FutureObservations) -> None:
        """Hear, from any thread, that a design has ended."""
        self._has_news.set()

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Store during the block."""
        if not any(flight.futures for flight in self._flights):
            yield
            return
        is_over = threading.Event()

        def store() -> None:
            while not is_over.is_set():
                for flight in self._flights:
                    flight.store_ended()
                self._has_news.wait()
                self._has_news.clear()

        thread = threading.Thread(target=store, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            self._has_news.set()
            thread.join()


class _Flight:
    """One run with its designs in flight."""

    def __init__(
        self, plan: Plan, index: int, recorder: Recorder, farm: Farm, writer: _Writer
    ) -> None:
        self._plan = plan
        self._index = index
        self._recorder = recorder
        self._farm = farm
        self._writer = writer
        self._run = plan.resolved.definition.runs[index]
        self._waiting: deque[PendingDesign] = deque()
        self._in_flight: dict[FutureObservations, _InFlight] = {}
        self._losses: Counter[int] = Counter()
        self._ask_seconds: dict[int, float] = {}
        self._error: JobError | None = None
        self.has_ended = False

    @property
    def futures(self) -> list[FutureObservations]:
        """Futures that the run waits for."""
        return list(self._in_flight)

    def take(self, step: Callable[[_Flight], None]) -> None:
        """Take a step unless the run is over; note what stops it."""
        if self.has_ended:
            return
        try:
            with explained(self._run):
                step(self)
        except ExecutorGoneError:
            raise
        except JobError as error:
            # What is being evaluated is waited for, and stored.
            self._error = self._error or error
            self._end_if_idle()

    def name_slowest(self) -> None:
        """Name the design that has been away longest, when its time has doubled again."""
        waited = [in_flight for future, in_flight in self._in_flight.items() if not future.done()]
        slowest = min(waited, key=lambda item: item.since, default=None)
        if slowest is None or time.perf_counter() - slowest.since < slowest.notice_s:
            return
        row = slowest.proposal.row[None, :]
        _logger.warning("%s", waiting_words(self._plan.resolved.problem, row, slowest.notice_s))
        slowest.notice_s *= 2.0

    def begin(self) -> None:
        """Replay what is stored, then fill the places."""
        history = self._recorder.stored.read(self._index)
        stored = self._recorder.stored.proposals(self._index)
        self._search = Search(self._plan, self._index, history)
        self._search.tell_screened(self._recorder.stored.screened(self._index))
        self._n_proposed = len(stored)
        last_batches = [history.batch.max(initial=-1), *(proposal.batch for proposal in stored)]
        self._n_batches = int(max(last_batches)) + 1
        keys = self._plan.resolved.problem.space.keys
        observed = set(keys(history.observations.rows).tolist())
        self._waiting.extend(
            proposal for proposal in stored if int(keys(proposal.row[None, :])[0]) not in observed
        )
        if self._waiting:
            self._search.note_proposed(np.array([proposal.row for proposal in self._waiting]))
        self.refill()

    def refill(self) -> None:
        """Evaluate what was proposed, and ask for more, until every place is taken."""
        while (
            self._error is None
            and len(self._in_flight) < self._farm.in_flight
            and (self._waiting or self._propose())
        ):
            proposal = self._waiting.popleft()
            future = self._farm.submit(proposal.row)
            self._in_flight[future] = _InFlight(proposal)
            future.add_done_callback(self._writer.notice)
        self._end_if_idle()

    def _propose(self) -> bool:
        """Whether the optimizer proposed something; it is durable then."""
        pending = [in_flight.proposal for in_flight in self._in_flight.values()]
        pending.sort(key=lambda item: item.number)
        if self._search.n_left <= len(pending) or (pending and self._farm.in_flight == 1):
            return False
        nothing = np.empty((0, len(self._plan.resolved.problem.space.names)), np.int64)
        beside = np.vstack([nothing, *(proposal.row for proposal in pending)])
        screenings = self._search.screenings(beside)
        while True:
            with self._writer.storing():
                screened = next(screenings, None)
            if screened is None:
                break
            self._recorder.stored.append_screened(screened)
        start = time.perf_counter()
        with self._writer.storing():
            if self._n_batches == 0 or self._farm.in_flight == 1:
                rows = self._search.propose()
            else:
                rows = self._search.propose_beside(beside)
        if not len(rows):
            return False
        batch = self._n_batches
        n_told = self._search.n_told
        numbered = enumerate(rows, self._n_proposed)
        proposals = [PendingDesign(self._index, i, batch, n_told, row) for i, row in numbered]
        self._recorder.stored.propose(proposals)
        self._ask_seconds[batch] = time.perf_counter() - start
        self._n_proposed += len(rows)
        self._n_batches += 1
        self._waiting.extend(proposals)
        return True

    def store_ended(self) -> None:
        """Make durable what has ended well; whatever else happened is left to :meth:`collect`."""
        ended = [
            (in_flight, future.result())
            for future, in_flight in self._in_flight.items()
            if in_flight.batch is None
            and future.done()
            and loss_of_design(future, in_flight.proposal.row) is None
        ]
        ended.sort(key=lambda pair: pair[0].proposal.number)
        n_untold = sum(in_flight.batch is not None for in_flight in self._in_flight.values())
        batches: dict[int, ObservationBatch] = {}
        with suppress(CodesignError):  # which comes again, and is told then
            for item, result in ended:
                if not isinstance(result, Refusal):
                    recorded = self._recorded(item, result, n_untold + len(batches))
                    batches[item.proposal.number] = recorded
            self._recorder.store(list(batches.values()))
            for item, _ in ended:
                item.batch = batches.get(item.proposal.number)

    def collect(self) -> None:
        """Make durable what has ended, then tell the optimizer, one design after the other."""
        done = [future for future in self._in_flight if future.done()]
        done.sort(key=lambda future: self._in_flight[future].proposal.number)
        batches = [
            in_flight.batch for in_flight in self._in_flight.values() if in_flight.batch is not None
        ]
        batches.sort(key=lambda batch: batch.first_step)
        n_stored = len(batches)
        error: CodesignError | None = None
        for future in done:
            in_flight = self._in_flight.pop(future)
            if in_flight.batch is not None:
                continue
            try:
                proposal = in_flight.proposal
                problem = self._plan.resolved.problem
                number = proposal.number
                observations = self._farm.observed(
                    problem, future, proposal.row, self._losses, number
                )
                if observations is None:
                    self._waiting.appendleft(proposal)
            except CodesignError as refusal:  # what ended well beside it is stored first
                error = refusal
                continue
            if observations is not None:
                batches.append(self._recorded(in_flight, observations, len(batches)))
        self._recorder.store(batches[n_stored:])
        self._recorder.note(batches)
        for batch in batches:
            self._search.tell(batch)
        if error is not None:
            raise error

    def _recorded(
        self, in_flight: _InFlight, observations: Observations, n_untold: int
    ) -> ObservationBatch:
        number = in_flight.proposal.batch
        ask_s = self._ask_seconds.pop(number, 0.0)
        seconds = time.perf_counter() - in_flight.since
        return self._search.recorded(observations, number, ask_s, seconds, n_untold)

    def _end_if_idle(self) -> None:
        if not self._in_flight:
            self.has_ended = True
            refusal = None if self._error is None else Refusal.describe(self._error)
            self._recorder.end(Ended(self._index, refusal))
