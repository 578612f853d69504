"""With which batch size, and with its tiers in which order, a design works.

A design of a space says which memories there are. What a good compiler and scheduler then choose
is chosen here: the batch size that is best in throughput within the limits on latency (policy
``best``), and, where bytes pass from tier to tier, the fastest order of the tiers. Every choice is
evaluated, unless a lower bound on its time tells that it loses; the bound leaves out no choice that
could win, so the result is that of trying all. More memory adds choices and takes none away, and
makes none slower: so it never makes a design slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

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


@dataclass(frozen=True)
class Chosen:
    """``n`` designs with the batch size and the order of tiers that they work with.

    Attributes:
        batch: What every metric needs of them.
        sums: (9, n) of a pass: seconds, cycles, then bytes in the order of ``Moved``.
    """

    batch: Batch
    sums: FloatArray


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
        first = self.at(designs, footprint, footprint.batches[0], is_compiled)
        allowed = self._orders(footprint)
        if len(footprint.batches) == 1 and not allowed[1:].any():
            return first
        search = _Search(self, designs, footprint, first, is_compiled)
        for row in range(len(footprint.batches)):
            for order in range(len(ORDERS)):
                if row or order:
                    search.try_(row, order, allowed[order])
        return search.result()

    def _orders(self, footprint: Footprint) -> BoolArray:
        """(6, n) orders of the tiers that may be the fastest."""
        levels = footprint.accelerators.levels
        if self._options.topology == "staged" and self._options.blocking == "capacity":
            return worth_trying(levels.bandwidth_bytes_per_s[1:], levels.capacity_bytes[1:])
        only_first = np.zeros((len(ORDERS), len(footprint.weight_bytes)), dtype=np.bool_)
        only_first[0] = True
        return only_first

    def pass_s(self, chosen: Chosen) -> FloatArray:
        """(n,) time of one pass, the vector unit beside array and memories or after them."""
        hardware, requests = chosen.batch.accelerators, chosen.batch.setup.batch_size[:, 0]
        vector_s = self._pass.vector_s(requests, hardware)
        return whole_pass_s(chosen.sums[0], vector_s, self._options)

    def at(
        self, designs: Columns, footprint: Footprint, size: FloatArray, is_compiled: bool
    ) -> Chosen:
        """Designs at given batch sizes, their tiers in the order of the footprint."""
        batch = self.prepared(designs, footprint, size)
        return Chosen(batch, Stage(self._pass, batch.setup, is_compiled).sums)

    def prepared(self, designs: Columns, footprint: Footprint, size: FloatArray) -> Batch:
        """What every metric needs of designs at given batch sizes."""
        return self._preparation.batch(designs, footprint, size)

    def score(self, chosen: Chosen) -> FloatArray:
        """(n,) the larger, the better: requests per second of array and memories, which alone
        tell choices apart; where a pass is too long, below zero by its time."""
        requests = chosen.batch.setup.batch_size[:, 0]
        pass_s = self.pass_s(chosen)
        return np.where(pass_s <= self.longest_pass_s, requests / chosen.sums[0], -pass_s)

    def least_times(self, batch: Batch) -> _LeastTimes:
        """Lower bounds on the times of designs at any batch size."""
        return _LeastTimes(self._pass, batch)


class _Search:
    """The best of the choices tried so far, for a batch of designs."""

    def __init__(
        self,
        choice: Choice,
        designs: Columns,
        footprint: Footprint,
        first: Chosen,
        is_compiled: bool,
    ) -> None:
        self._choice, self._designs, self._footprint = choice, designs, footprint
        self._first = first
        self._is_compiled = is_compiled
        self._sums = first.sums
        self._size = first.batch.batch_size.copy()
        self._order = np.zeros(len(self._size), dtype=np.int64)
        self._score = choice.score(first)
        self._least_times = choice.least_times(first.batch)

    def try_(self, row: int, order: int, allowed: BoolArray) -> None:
        """Evaluate one choice for the designs that have it and may gain by it."""
        sizes = self._footprint.batches[row]
        candidates = np.flatnonzero(allowed & (sizes > 0))
        candidates = candidates[self._may_win(candidates, sizes[candidates])]
        if not len(candidates):
            return
        footprint = self._footprint.take(candidates)
        if order:
            columns = np.repeat(np.array(ORDERS[order])[:, None], len(candidates), axis=1)
            footprint = footprint.with_tiers_in(columns)
        size = sizes[candidates]
        tried = self._choice.at(
            taken(self._designs, candidates), footprint, size, self._is_compiled
        )
        score = self._choice.score(tried)
        wins = score > self._score[candidates]
        winners = candidates[wins]
        self._score[winners], self._size[winners] = score[wins], size[wins]
        self._order[winners] = order
        self._sums[:, winners] = tried.sums[:, wins]

    def _may_win(self, candidates: IntArray, size: FloatArray) -> BoolArray:
        """Which designs a choice with this batch size may make better."""
        if self._first.batch.setup.phase == "prefill":
            size = np.ones_like(size)
        least_s = self._least_times.pass_s(candidates, size)
        at_best = np.where(least_s <= self._choice.longest_pass_s, size / least_s, -least_s)
        return np.asarray(at_best > self._score[candidates])

    def result(self) -> Chosen:
        """All designs with the best of their choices."""
        footprint = self._footprint
        if self._order.any():
            footprint = footprint.with_tiers_in(np.array(ORDERS).T[:, self._order])
        elif np.array_equal(self._size, self._first.batch.batch_size):
            return Chosen(self._first.batch, self._sums)
        batch = self._choice.prepared(self._designs, footprint, self._size)
        return Chosen(batch, self._sums)


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
