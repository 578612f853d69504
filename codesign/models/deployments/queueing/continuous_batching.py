"""One machine's engine: which requests run, what the next step computes, which blocks are free.

A request that runs holds the blocks of the cache that its tokens fill. Where a token needs a block
and none is free, the request that was admitted last gives its blocks back and waits in front of all
others, to be prefilled anew with what it has generated: preemption by recomputation, as vLLM does.
What its blocks hold it finds again, as far as nobody has taken them. Prompts share blocks only if
their hashes are known (:mod:`.prefix_cache`).

Decoding requests advance together, one token in every step in which any does. So a request's
tokens, the step in which it ends and those in which it needs a block follow from the number of
decode steps, and a step costs the same for 2 decoding requests and for 200.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from codesign.models.deployments.queueing.block_pool import BlockPool
from codesign.models.deployments.queueing.engine_limits import BLOCK_TOKENS, EngineLimits, blocks_of
from codesign.models.deployments.queueing.prefix_cache import IN_USE, PrefixCache
from codesign.models.deployments.queueing.step_times import EngineStep, PromptChunk


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request on one machine.

    Attributes:
        to_prefill: Tokens to prefill before the next is generated.
        cached: Tokens whose keys and values the cache holds; of a decoding request, those when it
            began to decode.
        generated: Tokens generated so far; of a decoding request, those when it began to decode.
        total: Tokens to generate here, with those that another machine generated.
        began: Decode steps of the engine when the request began to decode; -1 before.
        hashes: Hashes of its blocks, whose last may be shorter.
        hashed_tokens: Tokens of these blocks.
        n_held: Leading hashed blocks that the request uses.
        spare_blocks: Blocks that it has beyond those of its tokens.
    """

    index: int
    to_prefill: int
    cached: int
    generated: int
    total: int
    began: int = -1
    hashes: Sequence[int] = ()
    hashed_tokens: int = 0
    n_held: int = 0
    spare_blocks: int = 0

    @property
    def most_blocks(self) -> int:
        """Blocks of all its tokens but the last, which is not cached; of one never preempted."""
        return blocks_of(self.to_prefill + self.total - 1)


@dataclass(slots=True)
class PlannedStep:
    """A step that the engine has chosen.

    Attributes:
        n_decoding: Requests that get their next token.
        context_tokens: Tokens to which these attend.
        started: Requests that the engine runs for the first time.
        prefilled: Requests whose prompt it ends, so that it gives them a token.
        ended: Requests that it gives their last token.
        reused: Tokens of each started request that were found, by place.
        loaded: Tokens that are read from each store.
    """

    chunks: list[PromptChunk] = field(default_factory=list)
    n_decoding: int = 0
    context_tokens: int = 0
    started: list[int] = field(default_factory=list)
    prefilled: list[QueuedRequest] = field(default_factory=list)
    ended: list[QueuedRequest] = field(default_factory=list)
    reused: list[tuple[int, list[int]]] = field(default_factory=list)
    loaded: dict[int, int] = field(default_factory=dict)

    @property
    def work(self) -> EngineStep:
        """Work of the machine."""
        return EngineStep(self.chunks, self.n_decoding, self.context_tokens)


class ContinuousBatching:
    """The engine of one machine; what it plans counts as done, but for the end of requests.

    Args:
        limits: Limits of its steps.
        prefixes: Cache for prompts that share blocks; None if they share nothing.
    """

    def __init__(self, limits: EngineLimits, prefixes: PrefixCache | None = None) -> None:
        self.limits = limits
        self.waiting: deque[QueuedRequest] = deque()
        self.n_preempted = 0
        self.prefixes = prefixes
        self._pool = BlockPool(limits.cache_blocks)
        self._blocks = prefixes or self._pool
        # A shared block is handed out as a whole, even if its tokens end before it does.
        self._padding = prefixes.blocks_each if prefixes else 0
        self._running: dict[int, QueuedRequest] = {}  # in order of admission, without the ending
        self._prefilling: dict[int, QueuedRequest] = {}  # those of them with a prompt to prefill
        self._n_ending = 0
        self._reserved_blocks = 0  # of all that run, where answers are reserved
        self._decode_steps = 0
        self._context_tokens = 0
        self._phases = [0] * BLOCK_TOKENS  # decoding requests by when they need their next block
        self._ends: dict[int, list[tuple[QueuedRequest, int]]] = {}
        self._known: set[int] = set()

    @property
    def n_requests(self) -> int:
        """Requests that wait or run."""
        return len(self.waiting) + len(self._running) + self._n_ending

    def plan(self) -> PlannedStep | None:
        """The next step; None if nothing can run."""
        planned = PlannedStep()
        if self.limits.policy == "prefill-first":
            self._admit(planned, self.limits.max_batched_tokens, in_chunks=False)
            if not planned.chunks:
                self._decode_all(planned)
        else:
            has_preempted = self._decode_all(planned)
            left = self.limits.max_batched_tokens - planned.n_decoding
            for request in list(self._prefilling.values()):
                left -= self._prefill(request, left, planned)
            if not has_preempted and not self._prefilling:
                self._admit(planned, left, in_chunks=True)
        for request in planned.prefilled:
            if request.generated < request.total:
                self._begin_decoding(request)
        return planned if planned.chunks or planned.n_decoding else None

    def end(self, planned: PlannedStep) -> None:
        """Give back what the requests held that a step has ended."""
        for request in planned.ended:
            self._n_ending -= 1
            self._reserved_blocks -= request.most_blocks + self._padding
            self._release(request)

    # Prompts.

    def _admit(self, planned: PlannedStep, left: int, *, in_chunks: bool) -> None:
        """Let waiting requests run while tokens, places and blocks last.

        A request runs only if its whole prompt has blocks. Where prompts are not cut, the first
        may exceed the tokens of a step.
        """
        while self.waiting and self._may_run(self.waiting[0]):
            request = self.waiting[0]
            places = self.prefixes.find(request.hashes) if self.prefixes else []
            reused = self._reused_tokens(request, len(places))
            needed = blocks_of(request.to_prefill) + self._padding * (1 - places.count(IN_USE))
            tokens = request.to_prefill - max(request.cached, reused)
            is_too_long = left <= 0 if in_chunks else bool(planned.chunks) and tokens > left
            if needed > self._blocks.n_free or is_too_long or not tokens:
                break
            self._start(planned)
            self._prefilling[request.index] = request
            if self.prefixes:
                self._hold(self.prefixes, request, places, planned)
            else:
                request.cached = self._pool.reclaim(request.index) * BLOCK_TOKENS
            left -= self._prefill(request, left if in_chunks else tokens, planned)

    def _reused_tokens(self, request: QueuedRequest, n_blocks: int) -> int:
        """Tokens of the leading blocks; the last token of a prompt is always computed."""
        tokens = n_blocks * self._padding * BLOCK_TOKENS
        return min(tokens, request.hashed_tokens, request.to_prefill - 1)

    def _hold(
        self,
        prefixes: PrefixCache,
        request: QueuedRequest,
        places: Sequence[int],
        planned: PlannedStep,
    ) -> None:
        """Let a request use the blocks that were found for it."""
        prefixes.hold(request.hashes, places)
        request.n_held, request.cached = len(places), self._reused_tokens(request, len(places))
        request.spare_blocks = self._padding * len(places) - blocks_of(request.cached)
        reused = [0] * (prefixes.n_stores + 2)
        before = 0
        for i, place in enumerate(places, 1):
            tokens = self._reused_tokens(request, i)
            reused[place] += tokens - before
            before = tokens
        for store, tokens in enumerate(reused[2:]):
            if tokens:
                planned.loaded[store] = planned.loaded.get(store, 0) + tokens
        if planned.started and planned.started[-1] == request.index:
            planned.reused.append((request.index, [reused[0] + reused[1], *reused[2:]]))

    def _register(self, request: QueuedRequest) -> None:
        """Share the hashed blocks that a request has computed."""
        prefixes = self.prefixes
        if not prefixes or not request.hashes:
            return
        n_done = len(request.hashes)
        if request.cached < request.hashed_tokens:
            n_done = request.cached // (self._padding * BLOCK_TOKENS)
        held = blocks_of(request.cached) + request.spare_blocks
        missing = self._padding * n_done - held
        if missing > prefixes.n_free:
            n_done = n_done - 1
            missing = 0
        if missing > 0:
            prefixes.take(missing)
            request.spare_blocks += missing
        for block in request.hashes[request.n_held : n_done]:
            prefixes.register(block)
        request.n_held = max(request.n_held, n_done)

    def _release(self, request: QueuedRequest) -> None:
        """Give back the blocks of a request; shared ones keep what they hold."""
        self._register(request)
        n_blocks = blocks_of(request.cached) + request.spare_blocks
        if self.prefixes:
            n_blocks -= self._padding * request.n_held
            self.prefixes.release(request.hashes[: request.n_held])
        self._blocks.give_back(n_blocks)
        request.n_held = request.spare_blocks = 0

    def _may_run(self, request: QueuedRequest) -> bool:
        """Whether there is a place for a request and, if that is asked for, for its answer."""
        if len(self._running) + self._n_ending >= self.limits.max_sequences:
            return False
        reserved = self._reserved_blocks + request.most_blocks + self._padding
        return not self.limits.reserves_answers or reserved <= self.limits.cache_blocks

    def _start(self, planned: PlannedStep) -> QueuedRequest:
        """Let the first waiting request run."""
        request = self.waiting.popleft()
        self._running[request.index] = request
        self._reserved_blocks += request.most_blocks + self._padding
        if request.index not in self._known:
            self._known.add(request.index)
            planned.started.append(request.index)
        return request

    def _prefill(self, request: QueuedRequest, left: int, planned: PlannedStep) -> int:
        """Prefill as much of a request as tokens are left; how many it took.

        A request whose next chunk has no blocks is preempted itself: it was admitted last.
        """
        tokens = min(request.to_prefill - request.cached, left)
        needed = blocks_of(request.cached + tokens) - blocks_of(request.cached)
        if tokens <= 0:
            return 0
        if needed > self._blocks.n_free:
            self._preempt(request)
            return 0
        self._blocks.take(needed)
        planned.chunks.append(PromptChunk(tokens, request.cached))
        request.cached += tokens
        self._register(request)
        if request.cached == request.to_prefill:
            del self._prefilling[request.index]
            request.generated += 1
            planned.prefilled.append(request)
            if request.generated == request.total:
                self._begin_ending(request, planned)
        return tokens

    # Requests that decode.

    def _decode_all(self, planned: PlannedStep) -> bool:
        """Give every decoding request a token; whether any had to be preempted before.

        Requests that come with their cache from another machine join at once.
        """
        before = self.n_preempted
        while self._due_blocks() > self._blocks.n_free:
            self._preempt(next(reversed(self._running.values())))
        has_preempted = self.n_preempted > before
        while not has_preempted and self._can_join():
            request = self._start(planned)
            self._blocks.take(blocks_of(request.cached))
            self._begin_decoding(request)
        planned.n_decoding = len(self._running) - len(self._prefilling)
        if not planned.n_decoding:
            return has_preempted
        self._blocks.take(self._due_blocks())
        self._decode_steps += 1
        self._context_tokens += planned.n_decoding
        planned.context_tokens = self._context_tokens
        for request, began in self._ends.pop(self._decode_steps, ()):
            if request.began == began:
                self._stop_decoding(request)
                self._begin_ending(request, planned)
        return has_preempted

    def _can_join(self) -> bool:
        """Whether the first that waits has its cache with it, and a place."""
        if not self.waiting or self.waiting[0].cached < self.waiting[0].to_prefill:
            return False
        needed = blocks_of(self.waiting[0].cached + 1)
        is_free = needed <= self._blocks.n_free - self._due_blocks()
        return is_free and self._may_run(self.waiting[0])

    def _begin_decoding(self, request: QueuedRequest) -> None:
        """Let a request decode from the next decode step on."""
        request.began = self._decode_steps
        self._context_tokens += request.cached
        self._phases[(request.began - request.cached) % BLOCK_TOKENS] += 1
        last = self._decode_steps + request.total - request.generated
        self._ends.setdefault(last, []).append((request, request.began))

    def _stop_decoding(self, request: QueuedRequest) -> None:
        """Write down how far a request has come, and count it no more."""
        self._phases[(request.began - request.cached) % BLOCK_TOKENS] -= 1
        steps = self._decode_steps - request.began
        request.cached += steps
        request.generated += steps
        request.began = -1
        self._context_tokens -= request.cached

    def _due_blocks(self) -> int:
        """Blocks that the decoding requests need for their next tokens."""
        return self._phases[self._decode_steps % BLOCK_TOKENS]

    def _preempt(self, request: QueuedRequest) -> None:
        """Send a request back to the front of the queue, without its blocks."""
        del self._running[request.index]
        self._prefilling.pop(request.index, None)
        if request.began >= 0:
            self._stop_decoding(request)
            # The newest token is not in the cache: it is prefilled with the others.
            request.to_prefill = request.cached + 1
        if self.prefixes:
            self._release(request)
        else:
            n_blocks = blocks_of(request.cached)
            n_full = request.cached // BLOCK_TOKENS
            self._pool.give_back(n_blocks - n_full)
            self._pool.give_back(n_full, request.index if self.limits.keeps_preempted else None)
        request.cached = 0
        self.waiting.appendleft(request)
        self.n_preempted += 1

    def _begin_ending(self, request: QueuedRequest, planned: PlannedStep) -> None:
        """A request's last token is planned; what it holds is free when the step has ended."""
        del self._running[request.index]
        self._n_ending += 1
        planned.ended.append(request)
