"""Reuse of prompts: how many bytes are touched before a context is needed again.

The reuse distance of a block is the number of distinct bytes touched since its last use. An LRU
cache holds the block if its capacity is at least that distance, so one distribution of distances
gives the share of hits at every capacity.

Sessions begin independently of one another, so those that are active in a think time are Poisson
distributed, by the turn that is their last within it. They touch a compound Poisson number of
tokens [Feller1968]_; its mean is Che's approximation [Che2002]_. For a trace, distances are
counted in one pass, as stack distances [Mattson1970]_.

Limiting assumptions: sessions begin at a steady rate; answers stretch all think times alike;
distances of prefixes that several sessions share are means.

.. [Che2002] H. Che, Y. Tung, Z. Wang, Hierarchical Web Caching Systems, JSAC 20(7), 2002.
.. [Feller1968] W. Feller, An Introduction to Probability Theory and Its Applications, volume 1,
   1968, chapter XII.
.. [Mattson1970] R. L. Mattson et al., Evaluation Techniques for Storage Hierarchies, IBM Systems
   Journal 9(2), 1970.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from codesign.base.columns import ArrayPair, ArrayTriple, FloatArray, IntArray
from codesign.base.records import frozen
from codesign.models.workload.request_trace import (
    BLOCK_TOKENS,
    RequestTrace,
    read_request_trace,
)
from codesign.models.workload.sessions import Session, list_sessions, load_session

_POINTS = 2048
"""Points of a lattice of reuse distances [ours]."""
_OCTAVE = 128
"""Tabulated capacities in a factor of two [ours]."""
_BINS, _PREFIX_BINS = 24, 32
"""Intervals of random think times, and of times between sessions with the same prefix [ours]."""
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
        self._turns, weights = turns, _ = _representatives(session)
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
        prefix = float(self.shared_tokens)
        think_s = session.turn_values("think_time")
        rate = sessions / (self.think_s or 1.0)  # sessions that begin per second
        gaps_s, group = np.unique(np.append(think_s[1:], np.inf), return_inverse=True)
        sizes = np.append(session.context_tokens[1:], self.longest_tokens) - prefix
        popularity = np.arange(1.0, session.n_prefixes + 1.0) ** -session.popularity_exponent
        popularity = popularity / popularity.sum()
        alike = popularity @ popularity  # probability that two sessions share a prefix
        octaves = np.ceil(np.log2(sessions + 9.0 / popularity[-1])) + 4.0
        tokens = np.exp2(np.arange(-12.0, octaves, 1.0 / _OCTAVE)) * self.longest_tokens
        tokens = np.append(0.0, tokens)

        def window(times_s: FloatArray) -> ArrayPair:
            """(b, g) sessions for each turn that is their last within some times, by think time,
            and (b, p) probability that no session has a prefix."""
            active = rate * np.stack([self._mean_gap_s(times_s, gap_s) for gap_s in gaps_s], axis=1)
            return active, np.exp(-np.outer(active @ np.bincount(group), popularity))

        def held(
            active: FloatArray, absent: FloatArray, weights: FloatArray, ranges: FloatArray
        ) -> FloatArray:
            """(r, g) shares of ranges of a context, (r, 2), with at most so many tokens touched."""
            number = active @ np.bincount(group)
            added = (1.0 - absent) @ (1.0 - popularity) / np.maximum(number, 1e-9)
            added = prefix * np.minimum(added, 1.0)  # by each session
            mean = active @ np.bincount(group, sizes) + added * number
            step = mean[-1] + 8.0 * np.sqrt(mean[-1] * self.longest_tokens)
            step = (step + 4.0 * self.longest_tokens) / _POINTS
            place, lower = np.modf(sizes / step)
            jumps = np.zeros((len(gaps_s), _POINTS))
            np.add.at(jumps, (group, lower.astype(int)), 1.0 - place)
            np.add.at(jumps, (group, lower.astype(int) + 1), place)
            sums = _uniform_spectra(added / step, added / step) * (active @ np.fft.rfft(jumps))
            growth = np.maximum(np.diff(mean / step, append=mean[-1] / step), 0.0)
            sums = np.exp(sums - number[:, None]) * _uniform_spectra(0.0 * growth, growth)
            sums = weights @ sums * _uniform_spectra(*ranges.T / step)
            shares = np.cumsum(np.maximum(np.fft.irfft(sums), 0.0), axis=1)
            middles = (np.arange(_POINTS) + 0.5) * step
            return np.stack([np.interp(tokens, middles, row / row[-1]) for row in shares])

        # A prefix is found by the time since the last session that has it.
        times_s = np.geomspace(1e-3 / len(sizes), 9.0 / popularity[-1], _PREFIX_BINS) / rate
        active, absent = window(np.append(0.0, times_s))
        weights = np.diff(1.0 - absent @ popularity, append=1.0)
        shared = held((1.0 - alike) * active, absent, weights, np.array([[0.0, prefix]]))
        rows = np.repeat(shared, len(self._turns) + 1, axis=0)
        for gap_s in np.unique(think_s[self._turns[1:]]):
            times_s = np.array([gap_s])
            weights = np.ones(1)
            if session.think_times == "exponential":
                ends = (1.0 + np.cos(np.linspace(0.0, np.pi, _BINS + 1))) / 2.0
                times_s = -gap_s * np.log(ends[:-1])
                weights = -np.diff(ends)
            here = np.flatnonzero((think_s[self._turns] == gap_s) & (self._turns > 0))
            contexts = session.context_tokens[self._turns[here]]
            # Other sessions keep a prefix that they share.
            ranges = np.stack([0.0 * contexts + alike * prefix, contexts], axis=1)
            rows[here] = held(*window(times_s), weights, ranges)
        rows[:, 0] = 0.0
        slopes = np.diff(rows, append=1.0) / np.diff(tokens, append=np.inf)
        # More tokens hold no more from here on, and the shorter table is searched faster.
        end = np.flatnonzero(slopes.any(axis=0))[-1] + 2
        return tokens[:end], rows[:, :end], slopes[:, :end]

    def _mean_gap_s(self, times_s: FloatArray, gap_s: float) -> FloatArray:
        """(b,) means of think times, each cut off at a time."""
        if self._session.think_times == "fixed" or gap_s in (0.0, np.inf):
            return np.minimum(times_s, gap_s)
        return gap_s * -np.expm1(-times_s / gap_s)


def _uniform_spectra(first: FloatArray, last: FloatArray) -> Any:
    """(b, f) complex Fourier transforms of uniform distributions between two points."""
    lattice = np.arange(_POINTS)
    heights = np.minimum(lattice - first[:, None], last[:, None] - lattice) + 1.0
    return np.fft.rfft(np.clip(heights, 0.0, 1.0) / (last - first + 1.0)[:, None])


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
