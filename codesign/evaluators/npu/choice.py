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
from codesign.evaluators.npu.placement import Two, balanced_tails, tier_tails
from codesign.evaluators.npu.preparation import Batch, Footprint, Preparation
from codesign.hardware.array import ORGANIZATIONS
from codesign.hardware.hierarchy import inverse
from codesign.hardware.tier_order import ORDERS, worth_trying

_ROUNDING = 1.0 - 1e-9
"""Lower bounds add up in another order than times do; far more than that can change."""
_PLACES = np.array(ORDERS)
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
        rate = np.asarray(requests / sums[0])
        if not self.is_limited:
            return rate
        vector_s = self._pass.vector_s(requests, batch.setup.accelerators)
        pass_s = whole_pass_s(sums[0], vector_s, self._options)
        return np.where(pass_s <= self.longest_pass_s, rate, -pass_s)

    def _others(
        self, footprint: Footprint, batch: Batch, scores: FloatArray, allowed: BoolArray
    ) -> _Candidates:
        """The other choices that may be better than the first, which has these scores."""
        is_possible = (footprint.batches > 0)[:, None] & allowed
        is_possible[0, 0] = False  # the first
        rows, orders, positions = np.nonzero(is_possible)
        size = footprint.batches[rows, positions]
        if batch.setup.phase == "prefill":
            size = np.ones_like(size)
        least_s = _LeastTimes(self._pass, batch).pass_s(positions, size, orders)
        at_best = size / least_s
        if self.is_limited:
            at_best = np.where(least_s <= self.longest_pass_s, at_best, -least_s)
        gains = at_best > scores[positions]
        return _Candidates(positions[gains], rows[gains], orders[gains])

    def _best(
        self,
        designs: Columns,
        first: Chosen,
        scores: FloatArray,
        others: _Candidates,
        is_compiled: bool,
    ) -> Chosen:
        """The first choice, or another where that is better; of equal ones the earliest."""
        footprint, positions = first.footprint, others.positions
        order = _PLACES[others.orders].T if others.orders.any() else None
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
                designs, footprint.take(everywhere, _PLACES[orders].T), size
            )

        return Chosen(footprint, size, first.sums, prepare)


class _LeastTimes:
    """What array and memories need at least for a pass of ``n`` designs, with any choice.

    Weights take the array as long as their multiply-accumulates or, if it is flattened, their
    streaming need, keys and values of a request as long as they take it; both take the port of
    each memory as long as they, read once, need to pass it.
    """

    def __init__(self, pass_: Pass, batch: Batch) -> None:
        setup, table = batch.setup, pass_.table
        hardware, levels = setup.accelerators, setup.accelerators.levels
        self._table = table
        self._weights_read = cache(self._weight_elements_read)
        self._kv_elements = float(table.kv_read_elements_per_request @ table.count)
        shared = ~table.is_attention
        macs = float((table.mac_per_request * table.count)[shared].sum())
        self._shared_macs_s = macs / (hardware.macs_per_cycle * hardware.clock_hz)
        # Each request has products of its own, so the array takes the same time for each.
        own_cycles = pass_.shapes(setup)[0][:, ~shared] @ table.count[~shared]
        requests = setup.batch_size[:, 0] * hardware.clock_hz
        self._own_cycles_s = own_cycles[setup.shape] / requests
        is_flattened = setup.organization[:, 0] == _FLATTENED
        self._element_s = is_flattened / (hardware.array_depth * hardware.clock_hz)
        self._activations = setup.sizes_bytes[0] / setup.batch_size[:, 0]
        self._weights, self._kv = batch.weight_bytes, batch.kv_bytes
        self._weight_element_bytes = setup.weight_bytes[:, 0]
        self._kv_element_bytes = setup.kv_bytes[:, 0]
        self._storage, self._modelling = setup.storage, setup.modelling
        self._held, self._capacity = levels.capacity_bytes[0], levels.capacity_bytes[1:]
        shares = (setup.options.offchip_efficiency or 1.0) * setup.inputs((-1,)).matrix_share
        # Calibrated, the array's own time has to do.
        counts = 1.0 if self._modelling.blocks_for_capacity else 0.0
        self._byte_s = counts * inverse(shares * levels.bandwidth_bytes_per_s[1:])
        self._port_s = counts * inverse(levels.bandwidth_bytes_per_s[0])

    def pass_s(self, positions: IntArray, size: FloatArray, orders: IntArray) -> FloatArray:
        """(p,) seconds.

        Args:
            positions: (p,) designs.
            size: (p,) requests in the pass.
            orders: (p,) of the tiers, positions in ``ORDERS``.
        """
        weight_elements = self._read_by_size(size)
        kv_elements = size * self._kv_elements
        element_s = self._element_s[positions]
        shared_s = np.maximum(size * self._shared_macs_s[positions], weight_elements * element_s)
        own_s = size * self._own_cycles_s[positions]
        weights, kv = self._weights[positions], self._kv[positions] * size
        held = self._held[positions]
        loose_weights = np.maximum(weights - held, 0.0) / weights
        loose_kv = np.maximum(kv - held, 0.0) * inverse(kv)
        places = _PLACES[orders].T
        capacity = tuple(self._capacity[place, positions] for place in places)
        byte_s = [self._byte_s[place, positions] for place in places]
        sizes = (size * self._activations[positions], kv, weights)
        first, second, third = capacity
        if self._modelling.is_staged:
            tails = tier_tails(sizes, (first, second, third), self._storage[positions])
        else:
            rates = [inverse(rate) for rate in byte_s]
            shares = balanced_tails(
                sizes[0] + kv + weights, (first, second, third), (rates[0], rates[1], rates[2])
            )
            tails = (shares, shares, shares)
        weight_bytes = weight_elements * self._weight_element_bytes[positions]
        kv_bytes = kv_elements * self._kv_element_bytes[positions]
        # What comes from off chip is written on chip before it is read there.
        port_s = self._port_s[positions]
        near_weights_s, near_kv_s = (1.0 + loose_weights) * port_s, (1.0 + loose_kv) * port_s
        far_weights_s = loose_weights * self._slowest_s(tails[2], byte_s)
        far_kv_s = loose_kv * self._slowest_s(tails[1], byte_s)
        shared_s = np.maximum(shared_s, weight_bytes * np.maximum(near_weights_s, far_weights_s))
        own_s = np.maximum(own_s, kv_bytes * np.maximum(near_kv_s, far_kv_s))
        return np.asarray((shared_s + own_s) * _ROUNDING)

    def _slowest_s(self, tails: Two, byte_s: list[FloatArray]) -> FloatArray:
        """(p,) seconds per byte of the busiest port."""
        second, third = tails
        passed = 1.0 if self._modelling.is_staged else -1.0
        return np.maximum(
            np.maximum((1.0 + passed * second) * byte_s[0], (second + passed * third) * byte_s[1]),
            third * byte_s[2],
        )

    def _read_by_size(self, size: FloatArray) -> FloatArray:
        """(p,) weight elements that a pass of so many requests reads."""
        if not self._table.is_mixture:
            # Look-ups apart, every pass reads all weights.
            one, two = self._weights_read(1.0), self._weights_read(2.0)
            return one + (size - 1.0) * (two - one)
        sizes, number = np.unique(size, return_inverse=True)
        return np.array([self._weights_read(value) for value in sizes.tolist()])[number]

    def _weight_elements_read(self, size: float) -> float:
        read = self._table.weights_read(np.array([[size]]))
        return float((read * self._table.count).sum())
