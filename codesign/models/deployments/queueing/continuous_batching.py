"""One machine's engine: which requests run, what the next step computes, which blocks are free.

A request that runs holds the blocks of the cache that its tokens fill. Where a token needs a block
and none is free, the request that was admitted last gives its blocks back and waits in front of all
others, to be prefilled anew with what it has generated: preemption by recomputation, as vLLM does.
What its blocks hold it finds again, as far as nobody has taken them. Prompts share nothing.

Decoding requests advance together, one token in every step in which any does. So a request's
tokens, the step in which it ends and those in which it needs a block follow from the number of
decode steps, and a step costs the same for 2 decoding requests and for 200.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from codesign.models.deployments.queueing.block_pool import BlockPool
from codesign.models.deployments.queueing.engine_limits import BLOCK_TOKENS, EngineLimits, blocks_of
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
    """

    index: int
    to_prefill: int
    cached: int
    generated: int
    total: int
    began: int = -1

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
    """

    chunks: list[PromptChunk] = field(default_factory=list)
    n_decoding: int = 0
    context_tokens: int = 0
    started: list[int] = field(default_factory=list)
    prefilled: list[QueuedRequest] = field(default_factory=list)
    ended: list[QueuedRequest] = field(default_factory=list)

    @property
    def work(self) -> EngineStep:
        """Work of the machine."""
        return EngineStep(self.chunks, self.n_decoding, self.context_tokens)


class ContinuousBatching:
    """The engine of one machine; what it plans counts as done, but for the end of requests."""

    def __init__(self, limits: EngineLimits) -> None:
        self.limits = limits
        self.waiting: deque[QueuedRequest] = deque()
        self.n_preempted = 0
        self._blocks = BlockPool(limits.cache_blocks)
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
            self._reserved_blocks -= request.most_blocks
            self._blocks.give_back(blocks_of(request.cached))

    # Prompts.

    def _admit(self, planned: PlannedStep, left: int, *, in_chunks: bool) -> None:
        """Let waiting requests run while tokens, places and blocks last.

        A request runs only if its whole prompt has blocks. Where prompts are not cut, the first
        may exceed the tokens of a step.
        """
        while self.waiting and self._has_place(self.waiting[0]):
            request = self.waiting[0]
            tokens = request.to_prefill - request.cached
            is_too_long = left <= 0 if in_chunks else bool(planned.chunks) and tokens > left
            if is_too_long or not tokens:
                break
            self._start(planned)
            self._prefilling[request.index] = request
            request.cached = self._blocks.reclaim(request.index) * BLOCK_TOKENS
            left -= self._prefill(request, left if in_chunks else tokens, planned)

    def _has_place(self, request: QueuedRequest) -> bool:
        needed = blocks_of(request.to_prefill)
        return needed <= self._blocks.n_free and self._may_run(request)

    def _may_run(self, request: QueuedRequest) -> bool:
        """Whether there is a place for a request and, if that is asked for, for its answer."""
        if len(self._running) + self._n_ending >= self.limits.max_sequences:
            return False
        reserved = self._reserved_blocks + request.most_blocks
        return not self.limits.reserves_answers or reserved <= self.limits.cache_blocks

    def _start(self, planned: PlannedStep) -> QueuedRequest:
        """Let the first waiting request run."""
        request = self.waiting.popleft()
        self._running[request.index] = request
        self._reserved_blocks += request.most_blocks
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
        n_blocks, n_full = blocks_of(request.cached), request.cached // BLOCK_TOKENS
        self._blocks.give_back(n_blocks - n_full)
        self._blocks.give_back(n_full, request.index if self.limits.keeps_preempted else None)
        request.cached = 0
        self.waiting.appendleft(request)
        self.n_preempted += 1

    def _begin_ending(self, request: QueuedRequest, planned: PlannedStep) -> None:
        """A request's last token is planned; what it holds is free when the step has ended."""
        del self._running[request.index]
        self._n_ending += 1
        planned.ended.append(request)
