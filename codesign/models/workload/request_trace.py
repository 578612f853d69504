"""Traces of requests with the hashes of their blocks, in Mooncake's format.

A trace, gzipped or not, has one JSON object a line: ``timestamp`` (ms), ``input_length``,
``output_length`` and ``hash_ids``, one hash for each block of 512 tokens of the prompt. Two hashes
are equal if their blocks and all blocks before them are equal [Mooncake2025]_.

.. [Mooncake2025] R. Qin et al., Mooncake: Trading More Storage for Less Computation, FAST 2025.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatArray, IntArray
from codesign.base.errors import InputError
from codesign.base.records import frozen, select_keys
from codesign.base.schema import Amount, Document, Positive, Record, parse_record

BLOCK_TOKENS = 512
"""Tokens of a block; the last of a prompt may be shorter."""
_MOST_BYTES = 1 << 30
"""Most bytes of an unpacked trace, about 100 million blocks [ours]."""


class _Request(Record):
    """A line of a trace; further keys are ignored."""

    timestamp: Amount
    input_length: Positive
    output_length: Positive
    hash_ids: tuple[Annotated[int, Field(ge=0, strict=True)], ...]


@frozen
class RequestTrace:
    """``r`` requests in the order in which they arrived.

    Attributes:
        arrival_s: (r,) seconds from the start.
        input_length: (r,) tokens of the prompts.
        output_length: (r,) tokens of the answers.
        n_blocks: (r,) blocks of the prompts.
        hash_ids: (b,) hashes of the blocks of all prompts, one after the other.
    """

    arrival_s: FloatArray
    input_length: IntArray
    output_length: IntArray
    n_blocks: IntArray
    hash_ids: IntArray

    def __len__(self) -> int:
        return len(self.input_length)

    def reuse(self) -> tuple[FloatArray, FloatArray, IntArray]:
        """(b,) reuse distances in blocks, (b,) tokens and (b,) requests of all blocks.

        An LRU cache holds a block if its capacity is at least the reuse distance; a first use has
        an infinite distance. One count serves all capacities: the number of distinct blocks between
        two uses is the number of uses between them, less the repeated ones.
        """
        n = len(self.hash_ids)
        order = np.argsort(self.hash_ids, kind="stable")
        previous = np.full(n, -1)
        is_again = self.hash_ids[order[1:]] == self.hash_ids[order[:-1]]
        previous[order[1:][is_again]] = order[:-1][is_again]
        distinct = np.arange(n) - previous - _larger_before(previous)
        requests = np.repeat(np.arange(len(self)), self.n_blocks)
        tokens = np.full(n, float(BLOCK_TOKENS))
        last = np.cumsum(self.n_blocks) - 1
        tokens[last] = self.input_length - BLOCK_TOKENS * (self.n_blocks - 1.0)
        return np.where(previous < 0, np.inf, distinct), tokens, requests


def _larger_before(values: IntArray) -> IntArray:
    """(n,) number of larger values before each value, counted in a merge sort."""
    n = len(values)
    larger = np.zeros(n, np.int64)
    positions = np.arange(n)
    span = int(values.max(initial=0)) + 2
    width = 1
    while width < n:
        pair = positions // (2 * width)
        is_right = (positions // width) % 2 == 1
        keys = pair * span + values + 1
        halves = np.sort(keys[~is_right])
        ends = np.searchsorted(halves, (pair[is_right] + 1) * span)
        larger[is_right] += ends - np.searchsorted(halves, keys[is_right], side="right")
        width *= 2
    return larger


def read_request_trace(path: Path | str) -> RequestTrace:
    """Read a trace.

    Raises:
        InputError: The file cannot be read, a request has wrong keys, times or lengths, or hashes
            contradict each other.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no such file: {str(path)!r}")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            text = stream.read(_MOST_BYTES).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"expected lines of JSON: {error}", str(path)) from None
    rows = []
    first_uses: dict[int, str] = {}
    before = 0.0
    for i, line in enumerate(text.splitlines(), 1):
        if line.strip():
            rows.append(_request(line, before, f"{path}:{i}"))
            _check_hashes(rows[-1], first_uses, f"{path}:{i}: hash_ids")
            before = rows[-1].timestamp
    if not rows:
        raise InputError("expected at least one request, got none", str(path))
    return RequestTrace(
        np.array([row.timestamp for row in rows]) / 1e3,
        np.array([row.input_length for row in rows]),
        np.array([row.output_length for row in rows]),
        np.array([len(row.hash_ids) for row in rows]),
        np.concatenate([np.array(row.hash_ids, np.int64) for row in rows]),
    )


def _request(line: str, before: float, where: str) -> _Request:
    try:
        keys = json.loads(line)
    except ValueError as error:
        raise InputError(f"expected a JSON object: {error}", where) from None
    if not isinstance(keys, dict):
        raise InputError(f"expected a JSON object, got {line[:40]}", where)
    stated = select_keys(keys, _Request.model_fields)
    request = parse_record(Document(where, stated, {}), _Request)
    if request.timestamp < before:
        raise InputError(
            f"expected times that do not fall, got {request.timestamp:g} after {before:g}",
            f"{where}: timestamp",
        )
    n_blocks = -(-request.input_length // BLOCK_TOKENS)
    if len(request.hash_ids) != n_blocks:
        raise InputError(
            f"expected {n_blocks} hashes, one for each block of {BLOCK_TOKENS} of "
            f"{request.input_length:,} tokens, got {len(request.hash_ids)}",
            f"{where}: hash_ids",
        )
    return request


def _check_hashes(request: _Request, first_uses: dict[int, str], where: str) -> None:
    """Refuse a block that follows another block, or is longer or shorter, than at its first use."""
    tokens = request.input_length
    before = "no block"
    for block in request.hash_ids:
        use = f"{min(tokens, BLOCK_TOKENS)} tokens that follow {before}"
        if (first := first_uses.setdefault(block, use)) != use:
            raise InputError(
                f"block {block}: expected {first}, as at its first use, got {use}", where
            )
        tokens -= BLOCK_TOKENS
        before = f"block {block}"
