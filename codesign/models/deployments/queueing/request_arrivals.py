"""Requests that arrive: when, with how long a prompt, for how many tokens."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from codesign.base.columns import FloatArray, IntArray, IntegerList, IntegerSequence
from codesign.base.errors import InputError, describe_unknown
from codesign.base.records import frozen
from codesign.base.schema import read_text
from codesign.models.deployments.queueing import engine_limits
from codesign.models.workload.request_trace import BLOCK_TOKENS as TRACE_BLOCK_TOKENS
from codesign.models.workload.request_trace import RequestTrace
from codesign.models.workload.sessions import Session

COLUMNS = ("arrival_s", "prompt_tokens", "generated_tokens")
"""Columns of a trace file; further ones are ignored."""
_MOST_TOKENS = 10**9
_SESSION_BLOCKS = 256
"""Blocks of the longest prompt of a session at most [ours]."""
_MOST_NODES = 10_000_000
"""Values of a trace; see :func:`~codesign.base.schema.read_text`."""


@frozen
class PromptBlocks:
    """Blocks of ``r`` prompts, by which they share what is cached.

    Attributes:
        hashes: Hashes of each request's blocks; equal if these and all before hold equal tokens.
        tokens: (r,) tokens of these blocks.
        block_tokens: Tokens of a block; the last of a request may be shorter.
        sessions: (r,) session of each request.
    """

    hashes: Sequence[IntegerSequence]
    tokens: IntArray
    block_tokens: int
    sessions: IntArray


@frozen
class Arrivals:
    """``r`` requests in the order in which they arrive.

    Attributes:
        arrival_s: (r,) seconds from the start, not falling.
        prompt_tokens: (r,) tokens of the prompts, from 1.
        generated_tokens: (r,) tokens that each generates, from 1.
        blocks: Blocks that prompts share; None if they share nothing.
        after: (r,) request before this one in its session, or -1. Such a request arrives
            ``arrival_s`` after the last token of the one before.
    """

    arrival_s: FloatArray
    prompt_tokens: IntArray
    generated_tokens: IntArray
    blocks: PromptBlocks | None = None
    after: IntArray | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)


def poisson_arrivals(
    requests_per_s: float, n_requests: int, prompt_tokens: int, generated_tokens: int, seed: int
) -> Arrivals:
    """Requests that are alike and arrive independently of one another.

    The gaps are exponential draws of one generator that are divided by the rate, so that the same
    seed gives the same pattern at every rate.

    Args:
        requests_per_s: Mean rate; infinite, and all arrive at once.
        n_requests: Number of requests; the first arrives after the first gap.

    Examples:
        >>> len(poisson_arrivals(2.0, 5, 100, 10, seed=0))
        5
    """
    gaps = np.random.default_rng(seed).exponential(1.0, n_requests)
    return Arrivals(
        np.cumsum(gaps) / requests_per_s,
        np.full(n_requests, prompt_tokens, np.int64),
        np.full(n_requests, generated_tokens, np.int64),
    )


def session_arrivals(
    session: Session, sessions_per_s: float, n_sessions: int, seed: int
) -> Arrivals:
    """Sessions that begin at random, each of whose turns waits for the answer before it.

    Args:
        sessions_per_s: Mean rate.
    """
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.exponential(1.0, n_sessions)) / sessions_per_s
    think = np.tile(session.turn_values("think_time"), (n_sessions, 1))
    if session.think_times == "exponential":
        think = rng.exponential(1.0, think.shape) * think
    think[:, 0] = starts
    popularity = np.arange(1.0, session.n_prefixes + 1.0) ** -session.popularity_exponent
    prefixes = rng.choice(session.n_prefixes, n_sessions, p=popularity / popularity.sum())
    new, generated = (
        session.turn_values(name).astype(np.int64) for name in ("new_tokens", "generated_tokens")
    )
    prompts = session.context_tokens.astype(np.int64) + new
    block = engine_limits.BLOCK_TOKENS
    while block * _SESSION_BLOCKS < session.longest_tokens:
        block *= 2
    n_shared = session.shared_tokens // block
    n_blocks = (prompts + generated) // block
    most = int(n_blocks[-1])
    shared_ids = session.n_prefixes * n_shared
    hashes = []
    for number, prefix in enumerate(prefixes.tolist()):
        first = shared_ids + number * most
        blocks = [*range(prefix * n_shared, (prefix + 1) * n_shared), *range(first, first + most)]
        hashes += [blocks[:n] for n in n_blocks.tolist()]
    numbers = np.arange(n_sessions * session.n_turns)
    return Arrivals(
        think.ravel(),
        np.tile(prompts, n_sessions),
        np.tile(generated, n_sessions),
        PromptBlocks(
            hashes, np.tile(n_blocks * block, n_sessions), block, numbers // session.n_turns
        ),
        np.where(numbers % session.n_turns == 0, -1, numbers - 1),
    )


def trace_arrivals(trace: RequestTrace) -> Arrivals:
    """Requests of a trace with hashes, at the times that it states.

    A request that begins with more than one block of an earlier one is of the same session.
    """
    session_of: dict[int, int] = {}
    hashes = []
    sessions: IntegerList = []
    for prompt in np.split(trace.hash_ids, np.cumsum(trace.n_blocks)[:-1]):
        hashes.append(prompt.tolist())
        earlier = [block for block in hashes[-1] if block in session_of]
        sessions.append(session_of[earlier[-1]] if len(earlier) > 1 else len(sessions))
        session_of |= dict.fromkeys(hashes[-1], sessions[-1])
    blocks = PromptBlocks(hashes, trace.input_length, TRACE_BLOCK_TOKENS, np.array(sessions))
    return Arrivals(trace.arrival_s, trace.input_length, trace.output_length, blocks)


def read_arrivals(path: Path) -> Arrivals:
    """A trace file: CSV with a header of at least ``COLUMNS``, one request a line.

    Raises:
        InputError: The file cannot be read, lacks a column or a request, or has a value that is
            no number, a negative or falling time, or no tokens.
    """
    text = read_text(path, _MOST_NODES)[0].removeprefix("\ufeff")
    reader = csv.DictReader(text.splitlines())
    header = list(reader.fieldnames or ())
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        words = [describe_unknown("columns", ", ".join(header) or "none", COLUMNS)]
        raise InputError(f"no column {', '.join(missing)}; {words[0]}", f"{path}:1")
    try:
        rows = [_numbers(row, f"{path}:{reader.line_num}") for row in reader]
    except csv.Error as error:
        raise InputError(str(error), f"{path}:{reader.line_num + 1}") from None
    if not rows:
        raise InputError("expected at least one request, got none", str(path))
    for i in range(1, len(rows)):
        if rows[i][0] < rows[i - 1][0]:
            raise InputError(
                f"expected times that do not fall, got {rows[i][0]:g} after {rows[i - 1][0]:g}",
                f"{path}:{i + 2}: arrival_s",
            )
    times, prompts, generated = zip(*rows, strict=True)
    return Arrivals(np.array(times), np.array(prompts), np.array(generated))


def _numbers(row: dict[str, str | None], where: str) -> tuple[float, int, int]:
    time = _number(row, "arrival_s", where)
    if not 0 <= time < np.inf:
        raise InputError(f"expected a time from 0, got {row['arrival_s']}", f"{where}: arrival_s")
    counts = []
    for name in COLUMNS[1:]:
        count = _number(row, name, where)
        if not 1 <= count <= _MOST_TOKENS or count % 1:
            raise InputError(
                f"expected a whole number from 1 to {_MOST_TOKENS:,}, got {row[name]}",
                f"{where}: {name}",
            )
        counts.append(int(count))
    return time, counts[0], counts[1]


def _number(row: dict[str, str | None], name: str, where: str) -> float:
    try:
        return float(row[name] or "")
    except ValueError:
        raise InputError(
            f"expected a number, got {row[name] or 'nothing'!r}", f"{where}: {name}"
        ) from None
