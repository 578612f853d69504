"""Discrete events: transactions that wait for one another and for a resource.

A resource serves one transaction at a time, in the order in which they become ready; nothing is
preempted. A finite buffer is a transaction that waits until an earlier one has left the buffer,
so whoever is served never blocks its resource.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from codesign.base.columns import FloatList, IntegerList

_END = 0
_READY = 1


class Schedule:
    """Transactions, added in the order in which ties are broken.

    Args:
        n_resources: Resources are numbered from 0.
    """

    def __init__(self, n_resources: int) -> None:
        self.n_resources = n_resources
        self.resources: IntegerList = []
        self.durations: FloatList = []
        self.starts: FloatList = []
        self.ends: FloatList = []
        self._earliest: FloatList = []
        self._n_awaited: IntegerList = []
        self._followers: list[list[tuple[int, float]]] = []

    def add(
        self,
        resource: int,
        duration_s: float,
        after: Iterable[tuple[int, float]] = (),
        earliest_s: float = 0.0,
    ) -> int:
        """Adds a transaction.

        Args:
            resource: Number of the resource that serves the transaction.
            duration_s: Time that the resource takes for it.
            after: Earlier transactions that must end first, each with the seconds to wait after
                its end.

        Returns:
            The number of the transaction.
        """
        number = len(self.resources)
        awaited = 0
        for earlier, delay in after:
            self._followers[earlier].append((number, delay))
            awaited += 1
        self.resources.append(resource)
        self.durations.append(duration_s)
        self._earliest.append(earliest_s)
        self._n_awaited.append(awaited)
        self._followers.append([])
        return number

    def run(self) -> float:
        """Serves everything; sets ``starts`` and ``ends`` and gives the last end.

        Raises:
            RuntimeError: Transactions wait for one another in a circle.
        """
        n = len(self.resources)
        self.starts = [-1.0] * n
        self.ends = [-1.0] * n
        earliest = list(self._earliest)
        awaited = list(self._n_awaited)
        waiting: list[deque[int]] = [deque() for _ in range(self.n_resources)]
        is_busy = [False] * self.n_resources
        events = [(earliest[i], _READY, i) for i in range(n) if not awaited[i]]
        heapify(events)

        def start(task: int, now: float) -> None:
            is_busy[self.resources[task]] = True
            self.starts[task] = now
            heappush(events, (now + self.durations[task], _END, task))

        served = 0
        now = 0.0
        while events:
            now, event, task = heappop(events)
            resource = self.resources[task]
            if event == _READY:
                if is_busy[resource]:
                    waiting[resource].append(task)
                else:
                    start(task, now)
                continue
            served += 1
            self.ends[task] = now
            is_busy[resource] = False
            for follower, delay in self._followers[task]:
                earliest[follower] = max(earliest[follower], now + delay)
                awaited[follower] -= 1
                if not awaited[follower]:
                    heappush(events, (earliest[follower], _READY, follower))
            if waiting[resource]:
                start(waiting[resource].popleft(), now)
        if served < n:
            raise RuntimeError(f"{n - served} of {n} transactions wait for one another")
        return now
