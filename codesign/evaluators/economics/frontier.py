"""Cost per token against speed over a grid of instance and batch sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.base.errors import InputError
from codesign.evaluators.economics.decoding import Decoding
from codesign.evaluators.economics.load import LAYOUTS, Load, Split

SECONDS_PER_HOUR = 3600.0
ALPHA = 3.0
"""Exponent of speed in what a customer pays for (Eq. 45). Section 4 finds 3; the captions of
Tables 3 and 6 say 4, with which their rows do not come out."""
_BLOCK_POINTS = 16_384
"""Points worked on at a time: their arrays stay in a core's cache, and memory below 100 MB."""
_THREADS = 2
"""NumPy releases the interpreter while it computes."""


@dataclass(frozen=True)
class Grid:
    """Instance sizes and batches to try.

    How fine and how far is [ours]; the paper does not print its grid.
    """

    n_points: int = 400
    """Batches that are tried; instance sizes too if they are real numbers."""
    most_devices: float = 1e3
    """Devices of the largest instance."""
    most_requests: float = 1e4
    """Requests of the largest batch."""

    def devices(self) -> FloatArray:
        """Instance sizes of the continuous frontier, real numbers as in the paper, ascending."""
        return np.geomspace(1.0, self.most_devices, self.n_points)

    def requests(self) -> FloatArray:
        """Batches of the continuous frontier, real numbers as in the paper, ascending."""
        return np.geomspace(1.0, self.most_requests, self.n_points)

    def whole_requests(self, stages: int) -> FloatArray:
        """Batches whose micro-batches, one for each stage of a pipeline, are whole; ascending."""
        most = max(np.floor(self.most_requests / stages), 1.0)
        micro_batches = np.unique(np.round(np.geomspace(1.0, most, self.n_points)))
        return np.asarray(stages * micro_batches, dtype=np.float64)


@dataclass(frozen=True)
class Points:
    """Ways to serve a model; every array is (k,).

    Attributes:
        n_devices: Devices of an instance.
        batch: Requests of an instance.
        token_time_s: Time between two tokens of a request.
        draft_length: Tokens drafted ahead; 0: no speculation.
        usd_per_million_tokens: Price of what the instance generates.
        first_token_s: Prefill of one prompt and the step before it; NaN where no prompt is counted.
        split: (k, 4) layout (1 or 2 sides), stages, devices of one copy of the attention, groups
            of experts; None: searched again from the devices and the batch.
        joules_per_token: Energy of the devices for a generated token, its part of the prompt's
            prefill included; None: not known.
    """

    n_devices: FloatArray
    batch: FloatArray
    token_time_s: FloatArray
    draft_length: IntArray
    usd_per_million_tokens: FloatArray
    first_token_s: FloatArray
    split: FloatArray | None = None
    joules_per_token: FloatArray | None = None

    @property
    def tokens_per_s(self) -> FloatArray:
        """Tokens of one request per second."""
        return 1.0 / self.token_time_s

    def __len__(self) -> int:
        return len(self.batch)

    def chosen(self, which: IntArray | BoolArray | slice) -> Points:
        """Some of the points."""
        columns = {name: part[which] for name, part in vars(self).items() if part is not None}
        return replace(self, **columns)

    def devices_for(self, users: float) -> FloatArray:
        """Devices of as many whole instances as serve so many users at once."""
        return np.asarray(np.ceil(users / self.batch - 1e-9) * self.n_devices)

    def within(self, first_token_s: float | None, token_time_s: float | None) -> Points:
        """The points that keep both limits; None sets no limit.

        Raises:
            InputError: No point does; the least times that there are.
        """
        limits = {"first token": (self.first_token_s, first_token_s),
                  "output token": (self.token_time_s, token_time_s)}  # fmt: skip
        keeps = np.ones(len(self), dtype=np.bool_)
        for values, limit in limits.values():
            keeps &= True if limit is None else values <= limit
        if not keeps.any():
            words = [
                f"{name} within {limit:g} s (at best {values.min():.3g} s)"
                for name, (values, limit) in limits.items()
                if limit is not None
            ]
            raise InputError(f"no instance that is tried has {' and '.join(words)}")
        return self.chosen(keeps)

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
    """Every point of the continuous grid that fits the memory and does not exceed the demand.

    Limiting assumption: devices, requests and degrees of parallelism are real numbers, as in the
    paper; :func:`codesign.evaluators.economics.buildable.buildable_points` has whole ones.

    Args:
        grid: Instances and batches.
        context_tokens: Tokens that every request attends to.
        demand_tokens_per_s: Tokens per second that all users together ask for; an instance need
            not generate more (the throughput constraint of section 2.2.2).

    Raises:
        InputError: No point fits; by how much, and what would.
    """
    grid = grid or Grid()
    blocks = list(_blocks(grid.devices(), grid.requests(), decoding.target.shape.n_layers))
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        jobs = [
            pool.submit(_solve, decoding, Load(devices, requests, context_tokens))
            for devices, requests in blocks
        ]
        solved = [job.result() for job in jobs]
    columns = np.concatenate(solved, axis=1)
    if not columns.size:
        raise InputError(misfit_of(decoding, grid.most_devices, context_tokens))
    return priced(columns, usd_per_hour, demand_tokens_per_s)


def priced(
    columns: FloatArray,
    usd_per_hour: float,
    demand_tokens_per_s: float | None = None,
    split: FloatArray | None = None,
    joules_per_token: FloatArray | None = None,
) -> Points:
    """Points with their price, those that exceed the demand left out.

    Args:
        columns: (5, k) devices, batch, time per token, draft length, time to first token.
        demand_tokens_per_s: See :func:`feasible_points`.
        split: See :class:`Points`.
        joules_per_token: See :class:`Points`.

    Raises:
        InputError: Every point generates more than the demand.
    """
    n_devices, batch, time, length, first = columns
    price = price_per_million_tokens(time, n_devices, batch, np.asarray(usd_per_hour))
    drafted = length.astype(np.int64)
    points = Points(n_devices, batch, time, drafted, price, first, split, joules_per_token)
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


def _solve(decoding: Decoding, load: Load) -> FloatArray:
    """(5, k) columns, as :func:`priced` takes them, of the points of a block that fit."""
    fits = decoding.memory_excess(load) <= 0
    rows = fits.any(axis=1)
    if not rows.any():
        return np.empty((5, 0))
    load = Load(load.n_devices[rows], load.batch, load.context_tokens)
    fits = fits[rows]
    time, length, first = decoding.request_times(load)
    columns = np.broadcast_arrays(load.n_devices, load.batch, time, length, first)
    return np.stack([np.asarray(column[fits], dtype=np.float64) for column in columns])


def misfit_of(
    decoding: Decoding,
    most_devices: float,
    context_tokens: float,
    sizes: Sequence[int] | None = None,
) -> str:
    """The bytes that one request needs, those that the largest instance has, and a remedy.

    Args:
        decoding: What does not fit.
        most_devices: Devices of the largest instance.
        sizes: Instances among which to look for the remedy; any number of devices if None.
    """
    load = Load(np.array([most_devices]), np.array([1.0]), context_tokens)
    stored = float(decoding.stored_bytes(load)[0])
    capacity = float(np.asarray(decoding.target.machine.capacity_bytes).max())
    devices = "1 device" if most_devices == 1 else f"{most_devices:g} devices"
    needed = int(np.ceil(stored / capacity))
    enough = [size for size in [needed] * (sizes is None) + list(sizes or ()) if size >= needed]
    remedy = f"{min(enough)} devices would hold it" if enough else "no instance of it does"
    return (
        f"{decoding.target.shape.name} does not fit {devices}: one request needs "
        f"{stored / 1e9:.4g} GB, there are {most_devices * capacity / 1e9:.4g} GB; "
        f"{remedy}"
    )


def split_of(decoding: Decoding, points: Points, position: int, context_tokens: float) -> Split:
    """Split of the passes of one point over its devices."""
    if points.split is not None:
        layout, stages, attention, experts = points.split[position].tolist()
        tensor = float(points.n_devices[position]) / stages
        return Split(LAYOUTS[int(layout) - 1], tensor, stages, attention, experts)
    load = Load(
        points.n_devices[position : position + 1],
        points.batch[position : position + 1],
        context_tokens,
        (max(1, int(points.draft_length[position])),),
    )
    return decoding.target.best_split(load)[1][0]
