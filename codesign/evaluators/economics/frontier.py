"""Cost per token against speed over a grid of instance and batch sizes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.errors import InputError
from codesign.evaluators.economics.decoding import Decoding
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import Load, Split

SECONDS_PER_HOUR = 3600.0
ALPHA = 3.0
"""Exponent of speed in what a customer pays for (Eq. 45). Section 4 finds 3; the captions of
Tables 3 and 6 say 4, with which their rows do not come out."""
_BLOCK_POINTS = 16_384
"""Points worked on at a time: their arrays stay in a core's cache, and memory below 100 MB."""


@dataclass(frozen=True)
class Grid:
    """Instance sizes and batches to try, real numbers as in the paper, or whole ones.

    How fine and how far is [ours]; the paper does not print its grid.

    Attributes:
        n_points: Points along either axis.
        most_devices: Devices of the largest instance.
        most_requests: Requests of the largest batch.
        is_whole: Whether to round to whole devices and requests.
    """

    n_points: int = 400
    most_devices: float = 1e3
    most_requests: float = 1e4
    is_whole: bool = False

    def devices(self) -> FloatArray:
        """Instance sizes, ascending."""
        return self._axis(self.most_devices)

    def requests(self) -> FloatArray:
        """Batches, ascending."""
        return self._axis(self.most_requests)

    def _axis(self, most: float) -> FloatArray:
        values = np.geomspace(1.0, most, self.n_points)
        return np.unique(np.round(values)) if self.is_whole else values


@dataclass(frozen=True)
class Points:
    """Ways to serve a model; every array is (k,).

    Attributes:
        n_devices: Devices of an instance.
        batch: Requests of an instance.
        token_time_s: Time between two tokens of a request.
        draft_length: Tokens drafted ahead; 0: no speculation.
        usd_per_million_tokens: Price of what the instance generates.
    """

    n_devices: FloatArray
    batch: FloatArray
    token_time_s: FloatArray
    draft_length: IntArray
    usd_per_million_tokens: FloatArray

    @property
    def tokens_per_s(self) -> FloatArray:
        """Tokens of one request per second."""
        return 1.0 / self.token_time_s

    def __len__(self) -> int:
        return len(self.batch)

    def chosen(self, which: IntArray | BoolArray | slice) -> Points:
        """Some of the points."""
        return Points(
            self.n_devices[which],
            self.batch[which],
            self.token_time_s[which],
            self.draft_length[which],
            self.usd_per_million_tokens[which],
        )

    def frontier(self) -> Points:
        """The points that no other beats in both price and speed, slowest first."""
        order = np.lexsort((self.usd_per_million_tokens, self.token_time_s))
        price = self.usd_per_million_tokens[order]
        before = np.concatenate([[np.inf], np.minimum.accumulate(price)[:-1]])
        return self.chosen(order[price < before][::-1])

    def fastest(self) -> int:
        """Position of the point with most tokens per second; the cheapest of equal ones."""
        order = np.lexsort((self.usd_per_million_tokens, self.token_time_s))
        return int(order[0])

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
        usd_per_hour: Price of a device.

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
    n_threads: int = 2,
) -> Points:
    """Every point of the grid that fits the memory and does not exceed the demand.

    Args:
        decoding: Model, machine, precision, speculation.
        usd_per_hour: Price of a device.
        grid: Instances and batches.
        context_tokens: Tokens that every request attends to.
        demand_tokens_per_s: Tokens per second that all users together ask for; an instance need
            not generate more (the throughput constraint of section 2.2.2).
        n_threads: Threads; NumPy releases the interpreter while it computes.

    Raises:
        InputError: No point fits; by how much, and what would.
    """
    grid = grid or Grid()
    blocks = list(_blocks(grid.devices(), grid.requests(), _most_stages(decoding.target)))
    with ThreadPoolExecutor(max_workers=n_threads) as pool:
        jobs = [
            pool.submit(_solve, decoding, Load(devices, requests, context_tokens))
            for devices, requests in blocks
        ]
        solved = [job.result() for job in jobs]
    parts = [np.concatenate([part[i] for part in solved]) for i in range(4)]
    n_devices, batch, time, length = parts
    if not len(time):
        raise InputError(_misfit(decoding, grid, context_tokens))
    price = price_per_million_tokens(time, n_devices, batch, np.asarray(usd_per_hour))
    points = Points(n_devices, batch, time, length.astype(np.int64), price)
    if demand_tokens_per_s is None:
        return points
    within = points.batch / points.token_time_s <= demand_tokens_per_s
    if not within.any():
        least = float((points.batch / points.token_time_s).min())
        raise InputError(
            f"expected a demand of at least {least:.4g} token/s, what the slowest instance "
            f"generates, got {demand_tokens_per_s:g}"
        )
    return points.chosen(within)


def _most_stages(target: ForwardPass) -> float:
    return float(target.shape.n_layers)


def _blocks(
    devices: FloatArray, requests: FloatArray, n_layers: float
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The grid in rectangles; batches above the layers apart, as their pipelines are all alike."""
    few = requests[requests < n_layers]
    for part in (few, requests[requests >= n_layers]):
        if len(part):
            rows = max(1, _BLOCK_POINTS // len(part))
            for start in range(0, len(devices), rows):
                yield devices[start : start + rows, None], part[None, :]


def _solve(decoding: Decoding, load: Load) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Devices, batch, time and draft length of the points of a block that fit."""
    fits = decoding.memory_excess(load) <= 0
    rows = fits.any(axis=1)
    if not rows.any():
        nothing = np.empty(0)
        return nothing, nothing, nothing, nothing
    load = Load(load.n_devices[rows], load.batch, load.context_tokens)
    fits = fits[rows]
    time, length = decoding.token_times(load)
    devices, batch = np.broadcast_arrays(load.n_devices, load.batch)
    return devices[fits], batch[fits], time[fits], length[fits].astype(np.float64)


def _misfit(decoding: Decoding, grid: Grid, context_tokens: float) -> str:
    """The bytes that one request needs, those that the largest instance has, and a remedy."""
    most = np.array([grid.devices()[-1]])
    load = Load(most, np.array([1.0]), context_tokens)
    stored = float(decoding.stored_bytes(load)[0])
    capacity = float(np.asarray(decoding.target.machine.capacity_bytes).max())
    return (
        f"{decoding.target.shape.name} does not fit {most[0]:g} devices: one request needs "
        f"{stored / 1e9:.4g} GB, they have {most[0] * capacity / 1e9:.4g} GB; "
        f"{int(np.ceil(stored / capacity))} devices would hold it"
    )


def split_of(decoding: Decoding, points: Points, position: int, context_tokens: float) -> Split:
    """How the passes of one point are cut over its devices."""
    load = Load(
        points.n_devices[position : position + 1],
        points.batch[position : position + 1],
        context_tokens,
        (max(1, int(points.draft_length[position])),),
    )
    return decoding.target.best_split(load)[1][0]
