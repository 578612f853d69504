"""Requests through a fleet, step by step: the next event is the earliest, and nothing is drawn.

Events are arrivals of requests, ends of steps, arrivals of caches, and the first step of a machine
that was idle; a heap holds them. On equal times what arrives goes first, so that an idle machine
begins with all of it; then the order in which events were planned decides, so that the same fleet
and requests give the same bits.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from codesign.base.errors import InputError
from codesign.models.deployments.queueing.continuous_batching import (
    ContinuousBatching,
    PlannedStep,
    QueuedRequest,
)
from codesign.models.deployments.queueing.engine_limits import blocks_of
from codesign.models.deployments.queueing.fleet import Fleet
from codesign.models.deployments.queueing.request_arrivals import Arrivals
from codesign.models.deployments.queueing.served_requests import PoolLoad, ServedRequests

_ARRIVAL, _STEP_END, _WAKE = 0, 1, 2
"""Kinds of events, in the order in which those of equal times happen."""


@dataclass(slots=True, eq=False)
class _Server:
    """A machine: its engine, the step that it runs, and the one that is planned after it."""

    pool: int
    engine: ContinuousBatching
    running: PlannedStep | None = None
    planned: PlannedStep | None = None
    unseen: deque[QueuedRequest] = field(default_factory=deque)
    is_waking: bool = False
    busy_s: float = 0.0
    n_steps: int = 0
    link_free_s: float = 0.0

    @property
    def load(self) -> int:
        """Requests that the machine has to serve."""
        return self.engine.n_requests + len(self.unseen)


def simulate(fleet: Fleet, arrivals: Arrivals) -> ServedRequests:
    """Serve all requests.

    Args:
        arrivals: Requests in the order in which they arrive.

    Returns:
        When each request was seen, started, had its first and its last token; how busy each
        machine was.

    Raises:
        InputError: A request exceeds the cache of a machine.
    """
    for i, pool in enumerate(fleet.pools):
        is_last = i == len(fleet.pools) - 1
        # The last token that is generated is not cached.
        tokens = arrivals.prompt_tokens + (arrivals.generated_tokens - 1 if is_last else 0)
        worst = int(np.argmax(tokens))
        if blocks_of(int(tokens[worst])) > pool.limits.cache_blocks:
            raise InputError(
                f"request {worst + 1}: expected at most the {pool.limits.cache_tokens:,} tokens "
                f"that a machine of pool {pool.name} can cache, got {tokens[worst]:,}"
            )
    return _Simulation(fleet, arrivals).run()


class _Simulation:
    """The state of a run."""

    def __init__(self, fleet: Fleet, arrivals: Arrivals) -> None:
        self._fleet = fleet
        self._prompts: list[int] = arrivals.prompt_tokens.tolist()
        self._totals: list[int] = arrivals.generated_tokens.tolist()
        self._arrivals = arrivals
        self._servers = [
            [_Server(i, ContinuousBatching(pool.limits)) for _ in range(pool.n_machines)]
            for i, pool in enumerate(fleet.pools)
        ]
        self._turns = [0] * len(fleet.pools)
        times: list[float] = arrivals.arrival_s.tolist()
        self._events: list[tuple[float, int, int, int | _Server]] = [
            (time, _ARRIVAL, i, i) for i, time in enumerate(times)
        ]
        self._order = len(times)
        nan = [float("nan")] * len(times)
        self._seen, self._started, self._first, self._last = nan[:], nan[:], nan[:], nan[:]

    def run(self) -> ServedRequests:
        """Handle events until none is left."""
        heapq.heapify(self._events)
        while self._events:
            time, kind, _, subject = heapq.heappop(self._events)
            if isinstance(subject, int):
                pool = 0 if self._first[subject] != self._first[subject] else 1
                prompt, total = self._prompts[subject], self._totals[subject]
                is_last = pool == len(self._servers) - 1
                request = QueuedRequest(
                    subject,
                    to_prefill=prompt,
                    cached=prompt if pool else 0,
                    generated=pool,
                    total=total if is_last else 1,
                )
                server = self._route(pool)
                server.unseen.append(request)
                if server.running is None and not server.is_waking:
                    server.is_waking = True
                    self._push(time, _WAKE, server)
            elif kind == _STEP_END:
                self._end_step(subject, time)
            else:
                subject.is_waking = False
                self._advance(subject, time)
        return self._results()

    def _push(self, time: float, kind: int, subject: int | _Server) -> None:
        self._order += 1
        heapq.heappush(self._events, (time, kind, self._order, subject))

    def _route(self, pool: int) -> _Server:
        servers = self._servers[pool]
        if self._fleet.routing == "least-loaded":
            return min(servers, key=lambda server: server.load)
        self._turns[pool] += 1
        return servers[(self._turns[pool] - 1) % len(servers)]

    def _advance(self, server: _Server, time: float) -> None:
        """Take in what has arrived, start the next step, and plan the one after it."""
        while server.unseen:
            request = server.unseen.popleft()
            if not server.pool:
                self._seen[request.index] = time
            server.engine.waiting.append(request)
        if server.planned is not None:
            self._start(server, server.planned, time)
            server.planned = None
        if server.running is None:
            planned = server.engine.plan()
            if planned is None:
                return
            self._start(server, planned, time)
        if server.engine.limits.plans_ahead:
            server.planned = server.engine.plan()

    def _start(self, server: _Server, planned: PlannedStep, time: float) -> None:
        server.running = planned
        seconds = self._fleet.pools[server.pool].step_times.step_s(planned.work)
        server.busy_s += seconds
        server.n_steps += 1
        if not server.pool:
            for index in planned.started:
                self._started[index] = time
        self._push(time + seconds, _STEP_END, server)

    def _end_step(self, server: _Server, time: float) -> None:
        """Write down tokens, give back blocks, send caches, go on."""
        planned = server.running
        assert planned is not None  # the event was planned with the step
        server.running = None
        first = self._first
        for request in planned.prefilled:
            if first[request.index] != first[request.index]:
                first[request.index] = time
        is_last = server.pool == len(self._servers) - 1
        for request in planned.ended:
            if is_last or self._totals[request.index] == 1:
                self._last[request.index] = time
            else:
                index = request.index
                link, prompt = self._fleet.link, self._prompts[index]
                sent = link.sent_s(prompt, self._started[index], time, server.link_free_s)
                server.link_free_s = sent
                self._push(sent + link.latency_s, _ARRIVAL, index)
        server.engine.end(planned)
        self._advance(server, time)

    def _results(self) -> ServedRequests:
        arrivals = self._arrivals
        return ServedRequests(
            arrivals=arrivals,
            seen_s=np.array(self._seen),
            started_s=np.array(self._started),
            first_token_s=np.array(self._first),
            last_token_s=np.array(self._last),
            pools=tuple(
                (
                    PoolLoad(
                        name=pool.name,
                        busy_s=np.array([server.busy_s for server in servers]),
                        n_steps=sum(server.n_steps for server in servers),
                        n_preempted=sum(server.engine.n_preempted for server in servers),
                    )
                )
                for pool, servers in zip(self._fleet.pools, self._servers, strict=True)
            ),
        )
