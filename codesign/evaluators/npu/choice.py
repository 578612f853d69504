"""With which batch size, and with its tiers in which order, a design works.

A design of a space says which memories there are. What a good compiler and scheduler then choose
is chosen here: the batch size that is best in throughput within the limits on latency (policy
``best``), and, where bytes pass from tier to tier, the fastest order of the tiers. Every choice is
evaluated, unless a lower bound on its time tells that it loses; the bound leaves out no choice that
could win, so the result is that of trying all. More memory adds choices and takes none away, and
makes none slower: so it never makes a design slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from codesign.columns import BoolArray, Columns, FloatArray, IntArray, taken
from codesign.evaluators.npu.operators import Pass, Stage, whole_pass_s
from codesign.evaluators.npu.options import NpuOptions
from codesign.evaluators.npu.preparation import Batch, Footprint, Preparation
from codesign.hardware.array import ORGANIZATIONS
from codesign.hardware.hierarchy import inverse
from codesign.hardware.tier_order import ORDERS, worth_trying

_ROUNDING = 1.0 - 1e-9
"""Lower bounds add up in another order than times do; far more than that can change."""
_FLATTENED = ORGANIZATIONS.index("flattened")


class Chosen:
    """``n`` designs with the batch size and the order of tiers that they work with.

    Args:
        footprint: The designs, the fastest tier first.
        batch_size: (n,) requests held.
        sums: (9, r) of a pass, for the ``r`` designs that are distinct to the operators: seconds,
            cycles, then bytes in the order of ``Moved``.
        prepare: Gives what every metric needs of these ``r``.
        repeats: (n,) which of them each design is; None if every design stands for itself.
    """

    def __init__(
        self,
        footprint: Footprint,
        batch_size: FloatArray,
        sums: FloatArray,
        prepare: Callable[[], Batch],
        repeats: IntArray | None = None,
    ) -> None:
        self.footprint = footprint
        self.batch_size = batch_size
        self.sums = sums
        self.repeats = repeats
        self._prepare = prepare

    @cached_property
    def batch(self) -> Batch:
        """The distinct designs, their tiers in the order in which they are used."""
        return self._prepare()

    def spread(self, footprint: Footprint, repeats: IntArray) -> Chosen:
        """The choices of more designs, of which these are the distinct ones.

        Args:
            footprint: Of all designs.
            repeats: (n,) which of these each of them is.
        """
        return Chosen(footprint, self.batch_size[repeats], self.sums, self._prepare, repeats)


class _Candidates(NamedTuple):
    """Choices to try, one element of every array each; a design may have several.

    Attributes:
        positions: Of the design.
        rows: Of the batch size among those of the design.
        orders: Of the tiers, position in ``ORDERS``.
    """

    positions: IntArray
    rows: IntArray
    orders: IntArray


class Choice:
    """Chooses batch sizes and orders of tiers.

    Args:
        pass_: The operators.
        preparation: From columns to designs.
        options: Resolved options.
        longest_pass_s: Longest pass within the limits on latency.
    """

    def __init__(
        self,
        pass_: Pass,
        preparation: Preparation,
        options: NpuOptions,
        longest_pass_s: float = np.inf,
    ) -> None:
        self._pass = pass_
        self._preparation = preparation
        self._options = options
        self.longest_pass_s = longest_pass_s

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit on latency, in which the vector unit has a say."""
        return bool(np.isfinite(self.longest_pass_s))

    def choose(self, designs: Columns, is_compiled: bool = False) -> Chosen:
        """The designs as they work best."""
        footprint = self._preparation.footprint(designs)
        size = footprint.batches[0]
        batch = self._preparation.batch(designs, footprint, size)
        sums = Stage(self._pass, batch.setup, is_compiled).sums
        first = Chosen(footprint, size, sums, lambda: batch)
        allowed = self._orders(footprint)
        if len(footprint.batches) == 1 and not allowed[1:].any():
            return first
        scores = self._scores(batch, sums)
        others = self._others(footprint, batch, scores, allowed)
        if not len(others.positions):
            return first
        return self._best(designs, first, scores, others, is_compiled)

    def _orders(self, footprint: Footprint) -> BoolArray:
        """(6, n) orders of the tiers that may be the fastest."""
        levels = footprint.accelerators.levels
        if self._options.topology == "staged" and self._options.blocking == "capacity":
            return worth_trying(levels.bandwidth_bytes_per_s[1:], levels.capacity_bytes[1:])
        only_first = np.zeros((len(ORDERS), len(footprint.weight_bytes)), dtype=np.bool_)
        only_first[0] = True
        return only_first

    def _scores(self, batch: Batch, sums: FloatArray) -> FloatArray:
        """(n,) the larger, the better: requests per second of array and memories, which alone
        tell choices apart; where a pass is too long, below zero by its time."""
        requests = batch.setup.batch_size[:, 0]
        if not self.is_limited:
            return requests / sums[0]
        vector_s = self._pass.vector_s(requests, batch.setup.accelerators)
        pass_s = whole_pass_s(sums[0], vector_s, self._options)
        return np.where(pass_s <= self.longest_pass_s, requests / sums[0], -pass_s)

    def _others(
        self, footprint: Footprint, batch: Batch, scores: FloatArray, allowed: BoolArray
    ) -> _Candidates:
        """The other choices that may be better than the first, which has these scores."""
        least_times = _LeastTimes(self._pass, batch)
        has_orders = allowed[1:].any(axis=0)
        is_prefill = batch.setup.phase == "prefill"
        found: list[tuple[IntArray, int, int]] = []
        for row, sizes in enumerate(footprint.batches):
            positions = np.flatnonzero(sizes > 0 if row else has_orders)
            size = np.ones(len(positions)) if is_prefill else sizes[positions]
            least_s = least_times.pass_s(positions, size)
            at_best = size / least_s
            if self.is_limited:
                at_best = np.where(least_s <= self.longest_pass_s, at_best, -least_s)
            positions = positions[at_best > scores[positions]]
            found += [
                (positions[allowed[order, positions]], row, order)
                for order in range(0 if row else 1, len(ORDERS))
            ]
        return _Candidates(
            positions=np.concatenate([positions for positions, _, _ in found]),
            rows=np.concatenate([np.full(len(positions), row) for positions, row, _ in found]),
            orders=np.concatenate(
                [np.full(len(positions), order) for positions, _, order in found]
            ),
        )

    def _best(
        self,
        designs: Columns,
        first: Chosen,
        scores: FloatArray,
        others: _Candidates,
        is_compiled: bool,
    ) -> Chosen:
        """The first choice, or another where that is better; of equal ones the earliest."""
        footprint, positions, places = first.footprint, others.positions, np.array(ORDERS).T
        order = places[:, others.orders] if others.orders.any() else None
        batch = self._preparation.batch(
            taken(designs, positions),
            footprint.take(positions, order),
            footprint.batches[others.rows, positions],
        )
        sums = Stage(self._pass, batch.setup, is_compiled).sums
        tried = self._scores(batch, sums)
        ranked = np.lexsort((-tried, positions))
        winners = ranked[np.diff(positions[ranked], prepend=-1) > 0]
        winners = winners[tried[winners] > scores[positions[winners]]]
        changed = positions[winners]
        orders = np.zeros(len(scores), dtype=np.int64)
        orders[changed] = others.orders[winners]
        size = first.batch_size.copy()
        size[changed] = footprint.batches[others.rows[winners], changed]
        first.sums[:, changed] = sums[:, winners]

        def prepare() -> Batch:
            everywhere = np.arange(len(orders))
            return self._preparation.batch(
                designs, footprint.take(everywhere, places[:, orders]), size
            )

        return Chosen(footprint, size, first.sums, prepare)


class _LeastTimes:
    """What array and memories need at least for a pass of ``n`` designs, at any batch size.

    The array needs it for its multiply-accumulates and, if it is flattened, for streaming the
    stationary operands; the fastest tier for all that is not on chip; the others for what the
    fastest cannot hold, in any order and however data are placed.
    """

    def __init__(self, pass_: Pass, batch: Batch) -> None:
        setup, table = batch.setup, pass_.table
        hardware, levels = setup.accelerators, setup.accelerators.levels
        self._table = table
        self._weights_read = cache(self._weight_elements_read)
        kv_elements = float(table.kv_read_elements_per_request @ table.count)
        macs = float(pass_.multiply_accumulates(np.ones(1))[0])
        self._request_s = macs / (hardware.macs_per_cycle * hardware.clock_hz)
        streams = np.where(setup.organization[:, 0] == _FLATTENED, 1.0, 0.0)
        self._element_s = streams / (hardware.array_depth * hardware.clock_hz)
        self._request_elements = kv_elements
        held, tiers = levels.capacity_bytes[0], levels.capacity_bytes[1:]
        self._weights, self._kv = batch.weight_bytes, batch.kv_bytes
        self._held, self._fastest = held, tiers[0]
        self._others = tiers[1] + tiers[2]
        self._activations = setup.sizes_bytes[0] / setup.batch_size[:, 0]
        self._weight_element_bytes = setup.weight_bytes[:, 0]
        self._kv_share = kv_elements * setup.kv_bytes[:, 0] * inverse(batch.kv_bytes)
        options, modelling = setup.options, setup.modelling
        shares = (options.offchip_efficiency or 1.0) * setup.inputs((-1,)).matrix_share
        counts = 1.0 if modelling.blocks_for_capacity else 0.0  # of the array alone if calibrated
        rates = shares * levels.bandwidth_bytes_per_s[1:]
        first = rates[0] if modelling.is_staged else rates.sum(axis=0)
        self._first_byte_s = counts * inverse(first)
        self._deep_byte_s = counts * inverse(rates[1] + rates[2])

    def pass_s(self, positions: IntArray, size: FloatArray) -> FloatArray:
        """(p,) seconds.

        Args:
            positions: (p,) designs.
            size: (p,) requests in the pass.
        """
        elements = self._read_by_size(size)
        streamed = elements + size * self._request_elements
        array_s = np.maximum(
            size * self._request_s[positions], streamed * self._element_s[positions]
        )
        weights, kv = self._weights[positions], self._kv[positions] * size
        held = self._held[positions]
        weight_share = elements * self._weight_element_bytes[positions] * inverse(weights)
        kv_share = self._kv_share[positions]
        read = weight_share * np.maximum(weights - held, 0.0)
        read = read + kv_share * np.maximum(kv - held, 0.0)
        least_share = np.where(kv > 0, np.minimum(weight_share, kv_share), weight_share)
        beyond = weights + kv - held - self._fastest[positions]
        # What exceeds all tiers lives in the last, which may be the fastest.
        room = self._others[positions] - size * self._activations[positions]
        surely = np.maximum(np.minimum(beyond, room), 0.0)
        deep_s = least_share * surely * self._deep_byte_s[positions]
        memory_s = np.maximum(read * self._first_byte_s[positions], deep_s)
        return np.asarray(np.maximum(array_s, memory_s) * _ROUNDING)

    def _read_by_size(self, size: FloatArray) -> FloatArray:
        """(p,) weight elements that a pass of so many requests reads."""
        sizes, number = np.unique(size, return_inverse=True)
        return np.array([self._weights_read(value) for value in sizes.tolist()])[number]

    def _weight_elements_read(self, size: float) -> float:
        read = self._table.weights_read(np.array([[size]]))
        return float((read * self._table.count).sum())
