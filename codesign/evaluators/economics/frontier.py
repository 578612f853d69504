"""Cost per token against speed over a grid of instance and batch sizes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from codesign.base.columns import ArrayPair, BoolArray, FloatArray, IntArray
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.evaluators.economics.decoding import Decoding
from codesign.evaluators.economics.load import Load, Split

SECONDS_PER_HOUR = 3600.0
ALPHA = 3.0
"""Exponent of speed in what a customer pays for (Eq. 45). Section 4 finds 3; the captions of
Tables 3 and 6 say 4, with which their rows do not come out."""
_BLOCK_POINTS = 16_384
"""Points worked on at a time: their arrays stay in a core's cache, and memory below 100 MB."""
_THREADS = 2
"""NumPy releases the interpreter while it computes."""


@frozen
class Grid:
    """Instance sizes and batches to try, real numbers as in the paper.

    How fine and how far is [ours]; the paper does not print its grid.

    Attributes:
        n_points: Instance sizes, and batches, that are tried.
        most_devices: Devices of the largest instance.
        most_requests: Requests of the largest batch.
    """

    n_points: int = 400
    most_devices: float = 1e3
    most_requests: float = 1e4

    def blocks(self, n_layers: float) -> Iterator[ArrayPair]:
        """Rectangles of devices and batches, each ascending.

        Batches above the layers stand apart, as their pipelines are all alike.
        """
        devices = np.geomspace(1.0, self.most_devices, self.n_points)
        requests = np.geomspace(1.0, self.most_requests, self.n_points)
        for batches in (requests[requests < n_layers], requests[requests >= n_layers]):
            if len(batches):
                rows = max(1, _BLOCK_POINTS // len(batches))
                for start in range(0, len(devices), rows):
                    yield devices[start : start + rows, None], batches[None, :]


@frozen
class Points:
    """Ways to serve a model; every array is (k,).

    Attributes:
        n_devices: Devices of an instance.
        batch: Requests of an instance.
        token_time_s: Time between two tokens of a request.
        draft_length: Tokens drafted ahead; 0: no speculation.
        usd_per_million_tokens: Price of what the instance generates.
        first_token_s: Time to the first token; None where no prompt is counted.
        degrees: (k, 4) degrees of parallelism; None: searched again from devices and batch.
        joules_per_token: Energy of the devices for a generated token, its part of the prompt's
            prefill included; None: not known.
    """

    n_devices: FloatArray
    batch: FloatArray
    token_time_s: FloatArray
    draft_length: IntArray
    usd_per_million_tokens: FloatArray
    first_token_s: FloatArray | None = None
    degrees: IntArray | None = None
    joules_per_token: FloatArray | None = None

    @property
    def tokens_per_s(self) -> FloatArray:
        """Tokens of one request per second."""
        return 1.0 / self.token_time_s

    def __len__(self) -> int:
        return len(self.batch)

    def chosen(self, which: IntArray | BoolArray | slice) -> Points:
        """Some of the points."""
        columns = {name: array[which] for name, array in vars(self).items() if array is not None}
        return replace(self, **columns)

    def frontier(self) -> Points:
        """Non-dominated points in price and speed, slowest first."""
        order = np.lexsort((self.usd_per_million_tokens, self.token_time_s))
        price = self.usd_per_million_tokens[order]
        before = np.concatenate([[np.inf], np.minimum.accumulate(price)[:-1]])
        return self.chosen(order[price < before][::-1])

    def fastest(self) -> int:
        """Position of the point with most tokens per second; the cheapest of equal ones."""
        return int(np.lexsort((self.usd_per_million_tokens, self.token_time_s))[0])

    def most_valued(self, alpha: float = ALPHA) -> int:
        """Position of the point with the most ``tokens_per_s ** alpha / price`` (Eq. 45)."""
        value = -alpha * np.log(self.token_time_s) - np.log(self.usd_per_million_tokens)
        return int(np.argmax(value))


def price_per_million_tokens(
    token_time_s: FloatArray, n_devices: FloatArray, batch: FloatArray, usd_per_hour: FloatArray
) -> FloatArray:
    """Price of a million tokens of an instance that is always busy.

    Args:
        token_time_s: Time between two tokens of a request.
        n_devices: Devices of the instance.
        batch: Requests served at once.

    Examples:
        >>> price_per_million_tokens(0.01, 8.0, 80.0, 3.6)  # 8 devices, 8,000 tokens a second
        1.0
    """
    return token_time_s * n_devices / batch * (usd_per_hour / SECONDS_PER_HOUR * 1e6)


def feasible_points(
    decoding: Decoding,
    usd_per_hour: float,
    grid: Grid | None = None,
    context_tokens: float = 0.0,
    demand_tokens_per_s: float | None = None,
) -> Points:
    """Every point of a grid that fits the memory and does not exceed the demand.

    Args:
        context_tokens: Tokens that every request attends to.
        demand_tokens_per_s: Tokens per second that all users together ask for; an instance need
            not generate more (the throughput constraint of section 2.2.2).

    Raises:
        InputError: No point fits; by how much, and what would. Or all exceed the demand.
    """
    grid = grid or Grid()

    def solve(block: ArrayPair) -> FloatArray:
        """(4, k) devices, batch, time per token, draft length of the points that fit."""
        load = Load(*block, context_tokens)
        fits = decoding.memory_excess(load) <= 0
        rows = fits.any(axis=1)
        if not rows.any():
            return np.empty((4, 0))
        load = replace(load, n_devices=load.n_devices[rows])
        fits = fits[rows]
        columns = np.broadcast_arrays(load.n_devices, load.batch, *decoding.token_times(load))
        return np.stack([np.asarray(column[fits], np.float64) for column in columns])

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        solutions = list(pool.map(solve, grid.blocks(decoding.target.shape.n_layers)))
    n_devices, batch, time, length = np.concatenate(solutions, axis=1)
    if not batch.size:
        load = Load(np.array([grid.most_devices]), np.array([1.0]), context_tokens)
        stored = float(decoding.stored_bytes(load)[0])
        capacity = float(np.asarray(decoding.target.machine.capacity_bytes).max())
        n = f"{grid.most_devices:g} device{'' if grid.most_devices == 1 else 's'}"
        raise InputError(
            f"{decoding.target.shape.name} does not fit {n}: one request needs "
            f"{stored / 1e9:.4g} GB, there are {grid.most_devices * capacity / 1e9:.4g} GB; "
            f"{int(np.ceil(stored / capacity))} devices would hold it"
        )
    price = price_per_million_tokens(time, n_devices, batch, np.asarray(usd_per_hour))
    points = Points(n_devices, batch, time, length.astype(np.int64), price)
    rate = batch / time
    if demand_tokens_per_s is None:
        return points
    if rate.min() > demand_tokens_per_s:
        raise InputError(
            f"expected a demand of at least {rate.min():.4g} token/s, what the slowest instance "
            f"generates, got {demand_tokens_per_s:g}"
        )
    return points.chosen(rate <= demand_tokens_per_s)


def split_of(decoding: Decoding, points: Points, position: int, context_tokens: float) -> Split:
    """Split of the passes of one point over its devices."""
    load = Load(
        points.n_devices[position : position + 1],
        points.batch[position : position + 1],
        context_tokens,
        (max(1, int(points.draft_length[position])),),
    )
    return decoding.target.best_split(load)
