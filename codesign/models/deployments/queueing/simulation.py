"""Requests through a fleet, step by step: the next event is the earliest, and nothing is drawn.

Events are arrivals of requests, ends of steps, arrivals of caches, and the first step of a machine
that was idle; a heap holds them. On equal times what arrives goes first, so that an idle machine
begins with all of it; then the order in which events were planned decides, so that the same fleet
and requests give the same bits.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from codesign.base.columns import FloatList, IntegerList, IntegerPair
from codesign.base.errors import InputError
from codesign.models.deployments.queueing.continuous_batching import (
    ContinuousBatching,
    PlannedStep,
    QueuedRequest,
)
from codesign.models.deployments.queueing.engine_limits import BLOCK_TOKENS, blocks_of
from codesign.models.deployments.queueing.fleet import Fleet, MachinePool, exposed_s
from codesign.models.deployments.queueing.prefix_cache import PrefixCache, PrefixStore
from codesign.models.deployments.queueing.request_arrivals import Arrivals
from codesign.models.deployments.queueing.served_requests import PoolLoad, ServedRequests

_ARRIVAL, _STEP_END, _WAKE = 0, 1, 2
"""Kinds of events, in the order in which those of equal times happen."""


@dataclass(slots=True, eq=False)
class _Server:
    """A machine: its engine, the step that it runs, and the one that is planned after it."""

    pool: int
    engine: ContinuousBatching
    stores: Sequence[PrefixStore] = ()
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
        blocks = arrivals.blocks if i == 0 else None
        spare = blocks.block_tokens if blocks else 0
        if blocks_of(int(tokens[worst]) + spare) > pool.limits.cache_blocks:
            raise InputError(
                f"request {worst + 1}: expected at most the {pool.limits.cache_tokens:,} tokens "
                f"that a machine of pool {pool.name} can cache, got {tokens[worst]:,}"
            )
    return _Simulation(fleet, arrivals).run()


class _Simulation:
    """The state of a run."""

    def __init__(self, fleet: Fleet, arrivals: Arrivals) -> None:
        self._fleet = fleet
        self._prompts: IntegerList = arrivals.prompt_tokens.tolist()
        self._totals: IntegerList = arrivals.generated_tokens.tolist()
        self._arrivals = arrivals
        self._servers = [self._pool(i, pool) for i, pool in enumerate(fleet.pools)]
        self._turns = [0] * len(fleet.pools)
        times: FloatList = arrivals.arrival_s.tolist()
        after = [-1] * len(times) if arrivals.after is None else arrivals.after.tolist()
        self._next = {before: i for i, before in enumerate(after) if before >= 0}
        self._times = times
        self._events: list[tuple[float, int, int, int | _Server]] = [
            (time, _ARRIVAL, i, i) for i, time in enumerate(times) if after[i] < 0
        ]
        self._order = len(times)
        n_places = 1 + max(len(pool.stores) for pool in fleet.pools)
        self._reused = np.zeros((n_places, len(times)), np.int64)
        self._session_servers: dict[IntegerPair, _Server] = {}
        nan = [float("nan")] * len(times)
        self._seen = nan[:]
        self._started = nan[:]
        self._first = nan[:]
        self._last = nan[:]

    def _pool(self, number: int, pool: MachinePool) -> list[_Server]:
        """The machines of a pool; only those that prefill share blocks."""
        blocks = self._arrivals.blocks
        each = 0 if blocks is None or number else blocks.block_tokens
        shared = [PrefixStore(limits, each) for limits in pool.stores if each]
        servers = []
        for _ in range(pool.n_machines):
            stores = [
                store if store.limits.is_shared else PrefixStore(store.limits, each)
                for store in shared
            ]
            cache = pool.limits.cache_blocks, each // BLOCK_TOKENS, stores
            prefixes = PrefixCache(*cache) if each else None
            servers.append(_Server(number, ContinuousBatching(pool.limits, prefixes), stores))
        return servers

    def run(self) -> ServedRequests:
        """Handle events until none is left."""
        heapq.heapify(self._events)
        while self._events:
            time, kind, _, subject = heapq.heappop(self._events)
            if isinstance(subject, int):
                pool = 0 if self._first[subject] != self._first[subject] else 1
                prompt = self._prompts[subject]
                total = self._totals[subject]
                is_last = pool == len(self._servers) - 1
                request = QueuedRequest(
                    subject,
                    to_prefill=prompt,
                    cached=prompt if pool else 0,
                    generated=pool,
                    total=total if is_last else 1,
                )
                if self._arrivals.blocks is not None and not pool:
                    request.hashes = self._arrivals.blocks.hashes[subject]
                    request.hashed_tokens = int(self._arrivals.blocks.tokens[subject])
                server = self._route(pool, subject)
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

    def _route(self, pool: int, index: int) -> _Server:
        servers = self._servers[pool]
        routing = self._fleet.routing
        if routing == "round-robin":
            self._turns[pool] += 1
            return servers[(self._turns[pool] - 1) % len(servers)]
        least_loaded = min(servers, key=lambda server: server.load)
        blocks = self._arrivals.blocks
        if routing == "least-loaded" or blocks is None:
            return least_loaded
        return self._session_servers.setdefault((pool, int(blocks.sessions[index])), least_loaded)

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
        seconds += self._loaded_s(server, planned, time, seconds)
        for index, tokens in planned.reused:
            self._reused[: len(tokens), index] = tokens
        server.busy_s += seconds
        server.n_steps += 1
        if not server.pool:
            for index in planned.started:
                self._started[index] = time
        self._push(time + seconds, _STEP_END, server)

    def _loaded_s(self, server: _Server, planned: PlannedStep, time: float, step_s: float) -> float:
        """Seconds by which what is read from stores, layer by layer, makes a step longer."""
        longest_s = 0.0
        for i, tokens in planned.loaded.items():
            store = server.stores[i]
            read_s = tokens / store.limits.tokens_per_s
            wait_s = max(store.free_s - time, 0.0)
            store.free_s = time + wait_s + read_s
            exposed = float(exposed_s(read_s, step_s, store.limits.n_layers, wait_s))
            longest_s = max(longest_s, exposed)
        return longest_s

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
                following = self._next.get(request.index)
                if following is not None:
                    self._times[following] += time
                    self._push(self._times[following], _ARRIVAL, following)
            else:
                index = request.index
                link = self._fleet.link
                prompt = self._prompts[index]
                sent = link.sent_s(prompt, self._started[index], time, server.link_free_s)
                server.link_free_s = sent
                self._push(sent + link.latency_s, _ARRIVAL, index)
        server.engine.end(planned)
        self._advance(server, time)

    def _results(self) -> ServedRequests:
        arrivals = replace(self._arrivals, arrival_s=np.array(self._times))
        return ServedRequests(
            arrivals=arrivals,
            seen_s=np.array(self._seen),
            started_s=np.array(self._started),
            first_token_s=np.array(self._first),
            last_token_s=np.array(self._last),
            reused_tokens=self._reused,
            pools=tuple(
                (
                    PoolLoad(
                        name=pool.name,
                        busy_s=np.array([server.busy_s for server in servers]),
                        n_steps=sum(server.n_steps for server in servers),
                        n_preempted=sum(server.engine.n_preempted for server in servers),
                        stores=pool.stores,
                    )
                )
                for pool, servers in zip(self._fleet.pools, self._servers, strict=True)
            ),
        )
