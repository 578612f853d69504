"""Reuse of prompts: how many bytes are touched before a context is needed again.

The reuse distance of a block is the number of distinct bytes touched since its last use. An LRU
cache holds the block if its capacity is at least that distance, so one distribution of distances
gives the share of hits at every capacity.

For sessions, the distribution follows in closed form from Che's approximation [Che2002]_: a context
is found if its think time is at most the time in which all sessions touch as many bytes as the
caches hold. For a trace, it is counted in one pass, as stack distances [Mattson1970]_.

Limiting assumptions: a context is found as a whole or not at all; sessions begin independently of
one another at a steady rate; answers stretch all think times alike.

.. [Che2002] H. Che, Y. Tung, Z. Wang, Hierarchical Web Caching Systems, JSAC 20(7), 2002.
.. [Mattson1970] R. L. Mattson et al., Evaluation Techniques for Storage Hierarchies, IBM Systems
   Journal 9(2), 1970.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path

import numpy as np

from codesign.base.columns import ArrayPair, ArrayTriple, FloatArray, IntArray
from codesign.base.records import frozen
from codesign.models.workload.request_trace import (
    BLOCK_TOKENS,
    RequestTrace,
    read_request_trace,
)
from codesign.models.workload.sessions import Session, list_sessions, load_session

_POINTS = 4096
"""Times at which the bytes touched are tabulated."""
_TRACE_CLASSES = 24
"""Number of classes of a trace's requests."""


@frozen
class TurnClasses:
    """``q`` classes of turns; every array is (q,).

    Attributes:
        turns: Turns of each class per session, or per request of a trace.
        context_tokens: Tokens before the new ones, which a cache may hold.
        new_tokens: Tokens that are always computed.
        generated_tokens: Tokens of the answer.
        is_first: Share of each class that is a first turn of a session.
    """

    turns: FloatArray
    context_tokens: FloatArray
    new_tokens: FloatArray
    generated_tokens: FloatArray
    is_first: FloatArray

    def total(self, values: FloatArray) -> float:
        """Sum over the turns of a session."""
        return float(self.turns @ values)


@frozen
class ReuseSummary:
    """Summary of prompts and their reuse, for reports.

    Attributes:
        turns: Turns of a session, or requests of a trace.
        first_prompt_tokens: Tokens of the prompt of a first turn.
        last_prompt_tokens: Tokens of the longest prompt.
        generated_tokens: Tokens of the answers of a session, or of a request of a trace.
        reuse_share: Share of prompt tokens that unlimited caches would hold.
        working_set_tokens: Tokens kept between turns of a session, or of all blocks of a trace.
    """

    description: str
    turns: int
    first_prompt_tokens: int
    last_prompt_tokens: int
    generated_tokens: int
    reuse_share: float
    working_set_tokens: int


class _Reuse(ABC):
    """Classes of turns, and their reuse."""

    classes: TurnClasses
    shared_tokens: int
    think_s: float
    longest_tokens: int

    @abstractmethod
    def table(self, sessions: float) -> ArrayTriple:
        """Shares of contexts that caches hold, by their tokens; the last row is of shared prefixes.

        Returns:
            (g,) tokens touched, (q + 1, g) shares, and (q + 1, g) slopes to the next.
        """

    def hit_shares(self, capacity_tokens: FloatArray, sessions: FloatArray) -> FloatArray:
        """(q + 1, n) shares of contexts that caches hold; the last row is for the shared prefix.

        Args:
            capacity_tokens: (n,) tokens whose keys and values fit.
            sessions: (n,) numbers of concurrent sessions, without effect on a trace.
        """
        hits = np.empty((len(self.classes.turns) + 1, len(capacity_tokens)))
        for count in np.unique(sessions).tolist():
            here = sessions == count
            touched, shares, slopes = self.table(count)
            j = np.searchsorted(touched, capacity_tokens[here], side="right") - 1
            hits[:, here] = slopes[:, j] * (capacity_tokens[here] - touched[j]) + shares[:, j]
        return hits

    def _summary(self, description: str, turns: int, working_set: float) -> ReuseSummary:
        classes = self.classes
        prompts = classes.context_tokens + classes.new_tokens
        first = classes.turns * classes.is_first
        return ReuseSummary(
            description,
            turns,
            round(float(first @ prompts / max(first.sum(), 1e-300))),
            round(float(prompts.max())),
            round(classes.total(classes.generated_tokens)),
            classes.total(classes.context_tokens) / classes.total(prompts),
            round(working_set),
        )


class SessionReuse(_Reuse):
    """Reuse of sessions that are alike.

    Attributes:
        classes: Classes of turns.
        shared_tokens: Tokens of a context that other sessions share.
        think_s: Think times of a session.
        longest_tokens: Tokens of the last turn with its answer.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.shared_tokens = session.shared_tokens
        self.longest_tokens = session.longest_tokens
        think_s = session.turn_values("think_time")[1:]
        self.think_s = float(think_s.sum())
        turns, weights = _representatives(session)
        self._gaps_s, curve = np.unique(
            session.turn_values("think_time")[turns], return_inverse=True
        )
        curve = np.where(turns == 0, len(self._gaps_s), curve.ravel())
        self._curve_of = np.append(curve, len(self._gaps_s))
        self.classes = TurnClasses(
            weights,
            session.context_tokens[turns],
            session.turn_values("new_tokens")[turns],
            session.turn_values("generated_tokens")[turns],
            (turns == 0).astype(float),
        )

    @property
    def summary(self) -> ReuseSummary:
        """Prompt lengths and reuse of a session; the working set of a single turn is its prefix."""
        session = self._session
        waiting = float(self.shared_tokens)
        if self.think_s:
            waiting = (
                float(session.context_tokens @ session.turn_values("think_time")) / self.think_s
            )
        return self._summary(session.description, session.n_turns, waiting)

    @lru_cache(maxsize=64)  # noqa: B019 # an evaluator keeps its reuse as long as it lives
    def table(self, sessions: float) -> ArrayTriple:
        session = self._session
        think_s = session.turn_values("think_time")
        rate = sessions / (self.think_s or 1.0)  # sessions that begin per second
        ranks = np.arange(1.0, session.n_prefixes + 1.0) ** -session.popularity_exponent
        touches = rate * session.n_turns * ranks / ranks.sum()
        scales = np.concatenate([think_s[think_s > 0], 1.0 / touches[[0, -1]]])
        times = np.geomspace(scales.min() * 1e-4, scales.max() * 1e4, _POINTS)
        if session.think_times == "fixed":
            steps = np.unique(think_s[think_s > 0])
            times = np.sort(np.concatenate([times, steps, steps * (1 - 1e-12)]))
        times = np.concatenate([[0.0], times])
        private = session.context_tokens + session.turn_values("new_tokens") - session.shared_tokens
        private = private + session.turn_values("generated_tokens")
        touched = private[-1] * times  # of sessions that have ended, and nobody knows it
        for tokens, gap_s in zip(private[:-1], think_s[1:], strict=True):
            touched = touched + tokens * self._returns(times, gap_s)[1]
        seen = -np.expm1(-touches[:, None] * times)
        touched = rate * touched + session.shared_tokens * seen.sum(axis=0)
        shared = ((touches / touches.sum())[:, None] * seen).sum(axis=0)
        curves = np.stack([*(self._returns(times, s)[0] for s in self._gaps_s), shared])
        steps = np.diff(touched)
        slopes = np.divide(
            np.diff(curves), steps, where=steps > 0, out=np.zeros_like(curves[:, 1:])
        )
        slopes = np.append(slopes, np.zeros((len(curves), 1)), axis=1)
        return touched, curves[self._curve_of], slopes[self._curve_of]

    def _returns(self, times: FloatArray, gap_s: float) -> ArrayPair:
        """(g,) share of turns that return within each of ``times``, and (g,) the mean think time,
        cut off there."""
        if self._session.think_times == "fixed" or gap_s == 0:
            return (times >= gap_s).astype(float), np.minimum(times, gap_s)
        share = -np.expm1(-times / gap_s)
        return share, gap_s * share


def _representatives(session: Session) -> tuple[IntArray, FloatArray]:
    """Representative turns, and the number of turns that each stands for.

    Three turns represent all that differ only in context. Their weights preserve the number of
    turns and the sums of contexts and of squared contexts, because the work of attention is
    quadratic.
    """
    names = ("think_time", "new_tokens", "generated_tokens")
    keys = np.stack([np.arange(session.n_turns) == 0, *map(session.turn_values, names)])
    _, number = np.unique(keys, axis=1, return_inverse=True)
    turns = []
    weights = []
    for group in range(number.max() + 1):
        alike = np.flatnonzero(number.ravel() == group)
        contexts = session.context_tokens[alike]
        if len(alike) > 3:
            middle = np.abs(contexts - contexts.mean()).argmin()
            alike = alike[[0, middle, -1]]
            contexts = contexts / contexts[-1]
            powers = np.arange(3)[:, None]
            weights.append(
                np.linalg.solve(contexts[[0, middle, -1]] ** powers, (contexts**powers).sum(axis=1))
            )
        else:
            weights.append(np.ones(len(alike)))
        turns.append(alike)
    order = np.argsort(np.concatenate(turns))
    return np.concatenate(turns)[order], np.concatenate(weights)[order]


class TraceReuse(_Reuse):
    """Reuse of the requests of a trace; attributes as of :class:`SessionReuse`.

    Requests that reuse at most one block count as first turns. First turns and the other requests
    are divided into classes by length.
    """

    shared_tokens = 0
    think_s = 0.0

    def __init__(self, trace: RequestTrace) -> None:
        distances, tokens, requests = trace.reuse()
        findable = np.isfinite(distances)
        reused = np.bincount(requests[findable], tokens[findable], len(trace))
        length = trace.input_length
        self.longest_tokens = int((length + trace.output_length).max())
        is_first = reused <= BLOCK_TOKENS
        rank = np.empty(len(trace), np.int64)
        rank[np.lexsort((length, ~is_first))] = np.arange(len(trace))
        present, number = np.unique(_TRACE_CLASSES * rank // len(trace), return_inverse=True)
        count = np.bincount(number)
        mean = [np.bincount(number, x) / count for x in (reused, length, trace.output_length)]
        context = np.floor(mean[0])
        first = np.bincount(number, is_first) / count
        self.classes = TurnClasses(
            count / len(trace), context, np.maximum(np.round(mean[1] - context), 1.0),
            np.maximum(np.round(mean[2]), 1.0), first,
        )  # fmt: skip
        curves = []
        for place in range(len(present)):
            here = findable & (number[requests] == place)
            order = np.argsort(distances[here], kind="stable")
            share = np.cumsum(tokens[here][order]) / max(tokens[here].sum(), 1.0)
            curves.append((distances[here][order], np.concatenate([[0.0], share])))
        steps = np.append(-1.0, np.unique(distances[findable]))
        shares = [share[np.searchsorted(x, steps, side="right")] for x, share in curves]
        rows = np.stack([*shares, np.zeros(len(steps))])
        self._table = steps * BLOCK_TOKENS, rows, np.zeros_like(rows)
        working_set = float(len(np.unique(trace.hash_ids))) * BLOCK_TOKENS
        self.summary = self._summary("a trace of requests", len(trace), working_set)

    def table(self, sessions: float) -> ArrayTriple:
        return self._table


def summaries(name: str | None = None) -> dict[str, ReuseSummary]:
    """Summaries by name: of the library's sessions, or of one file's session or trace.

    Args:
        name: Name of a session, or a file; None selects all sessions. An unknown name gives
            an empty result.

    Raises:
        InputError: The file cannot be read, or something in it cannot be used.
    """
    if name is not None and name.endswith((".jsonl", ".gz")):
        return {Path(name).name: TraceReuse(read_request_trace(name)).summary}
    if name is not None and name.endswith((".yaml", ".yml")):
        return {Path(name).stem: SessionReuse(load_session(name)).summary}
    names = [session for session in list_sessions() if name in (None, session)]
    return {session: SessionReuse(load_session(session)).summary for session in names}
