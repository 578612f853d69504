"""Blocks of a machine's cache that prompts share, and the stores behind it.

Blocks are known by hashes: two are equal if they and all before them hold equal tokens. A block
that no running request uses keeps its tokens until its room is needed. LRU then moves it to the
next store, and a hit moves it back, so that cache and stores together hold the blocks that were
used last. A store that machines share gets a copy of every block that is released, and keeps it.
A request's blocks are released from the last to the first: prefixes stay longest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from codesign.base.records import frozen

IN_USE, IN_CACHE = 0, 1
"""Places of a block that is found; the first store is the next."""


@frozen
class StoreLimits:
    """Size and speed of a store behind the caches of machines.

    Attributes:
        name: Name of its memory.
        tokens: Tokens whose keys and values it holds.
        tokens_per_s: Rate at which they are read.
        n_layers: Layers that are read one by one, in parallel with the prefill of new tokens.
        is_shared: True if the machines of a pool share one store.
    """

    name: str
    tokens: int
    tokens_per_s: float
    n_layers: int = 1
    is_shared: bool = False


class PrefixStore:
    """Blocks of one store, the least recently used first.

    Attributes:
        free_s: Time from which its port is free.
    """

    def __init__(self, limits: StoreLimits, block_tokens: int) -> None:
        self.limits = limits
        self.free_s = 0.0
        self._most_blocks = limits.tokens // block_tokens
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, block: int) -> bool:
        return block in self._blocks

    def move_up(self, block: int) -> None:
        """Remove a block that moves up, if it is there; a shared store keeps it."""
        if not self.limits.is_shared:
            self._blocks.pop(block, None)

    def put(self, block: int) -> int | None:
        """Store a block; the one that has to leave, if any."""
        self._blocks[block] = None
        self._blocks.move_to_end(block)
        return (
            self._blocks.popitem(last=False)[0] if len(self._blocks) > self._most_blocks else None
        )


class PrefixCache:
    """Free blocks of one machine's cache, with what they hold.

    Args:
        n_blocks: Blocks of the engine, all free at first.
        blocks_each: Blocks of the engine for each hashed one.
        stores: Stores behind the cache, the nearest first.

    Examples:
        >>> cache = PrefixCache(6, blocks_each=2)
        >>> cache.take(4)
        >>> cache.register(70), cache.register(71)  # computed
        (None, None)
        >>> cache.release([70, 71])
        >>> cache.take(4)  # needs the room of the last one
        >>> cache.find([70, 71]), cache.n_free
        ([1], 2)
    """

    def __init__(self, n_blocks: int, blocks_each: int, stores: Sequence[PrefixStore] = ()) -> None:
        self.n_free = n_blocks
        self.blocks_each = blocks_each
        self.n_stores = len(stores)
        self._stores = stores
        self._users: dict[int, int] = {}
        self._unused: OrderedDict[int, None] = OrderedDict()

    def take(self, n_blocks: int) -> None:
        """Hand out free blocks; there must be as many."""
        empty = self.n_free - self.blocks_each * len(self._unused)
        while empty < n_blocks:
            leaving: int | None = self._unused.popitem(last=False)[0]
            empty += self.blocks_each
            for store in self._stores:
                if leaving is not None:
                    leaving = store.put(leaving)
        self.n_free -= n_blocks

    def give_back(self, n_blocks: int) -> None:
        """Take back blocks that hold nothing of use."""
        self.n_free += n_blocks

    def find(self, blocks: Sequence[int]) -> list[int]:
        """Places of the leading blocks that are held somewhere."""
        places = []
        for block in blocks:
            if block in self._users:
                places.append(IN_USE)
            elif block in self._unused:
                places.append(IN_CACHE)
            else:
                stores = (i for i, store in enumerate(self._stores, 2) if block in store)
                place = next(stores, None)
                if place is None:
                    break
                places.append(place)
        return places

    def hold(self, blocks: Sequence[int], places: Sequence[int]) -> None:
        """Use leading blocks, moved up from stores where need be."""
        n_moved = 0
        for block, place in zip(blocks, places, strict=False):
            if place == IN_CACHE:
                del self._unused[block]
                self.n_free -= self.blocks_each
            elif place > IN_CACHE:
                self._stores[place - 2].move_up(block)
                n_moved += 1
            self._users[block] = self._users.get(block, 0) + 1
        self.take(self.blocks_each * n_moved)

    def register(self, block: int) -> None:
        """Use a block that a request has computed; an equal one that is held takes its place."""
        if block in self._users:
            self.n_free += self.blocks_each
        elif block in self._unused:
            del self._unused[block]
        else:
            for store in self._stores:
                store.move_up(block)
        self._users[block] = self._users.get(block, 0) + 1

    def release(self, blocks: Sequence[int]) -> None:
        """Use blocks no longer; they hold their tokens until their room is needed."""
        for block in reversed(blocks):
            self._users[block] -= 1
            if not self._users[block]:
                del self._users[block]
                self._unused[block] = None
                self.n_free += self.blocks_each
            for store in self._stores:
                if store.limits.is_shared:
                    store.put(block)
