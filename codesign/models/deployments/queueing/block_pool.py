"""The free blocks of a cache, and what they still hold of requests that were preempted.

Free blocks are handed out in the order in which they were given back, the last of a request before
its first, as vLLM does. Until a block is handed out, what it holds can be found again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


class BlockPool:
    """Free blocks of one machine's cache.

    Args:
        n_blocks: Blocks of the cache, all free at first.

    Examples:
        >>> pool = BlockPool(10)
        >>> pool.take(8)
        >>> pool.give_back(4, owner=7)
        >>> pool.take(3)  # two that nobody ever had, and the last of request 7
        >>> pool.n_free, pool.reclaim(7)
        (3, 3)
    """

    def __init__(self, n_blocks: int) -> None:
        self.n_free = n_blocks
        self._runs = deque([_FreeRun(n_blocks)])
        self._kept: dict[int, _FreeRun] = {}

    def take(self, n_blocks: int) -> None:
        """Hand out free blocks; there must be as many."""
        self.n_free -= n_blocks
        while n_blocks:
            run = self._runs[0]
            taken = min(run.n_blocks, n_blocks)
            run.n_blocks -= taken
            n_blocks -= taken
            if not run.n_blocks:
                self._runs.popleft()

    def give_back(self, n_blocks: int, owner: int | None = None) -> None:
        """Take back blocks; those of an owner may be reclaimed."""
        self.n_free += n_blocks
        run = _FreeRun(n_blocks)
        self._runs.append(run)
        if owner is not None:
            self._kept[owner] = run

    def reclaim(self, owner: int) -> int:
        """Hand out the blocks that still hold what an owner wrote; how many those are."""
        run = self._kept.pop(owner, None)
        if run is None:
            return 0
        n_blocks = run.n_blocks
        run.n_blocks = 0
        self.n_free -= n_blocks
        return n_blocks


@dataclass(slots=True)
class _FreeRun:
    """Blocks that were given back together, and are free yet."""

    n_blocks: int
