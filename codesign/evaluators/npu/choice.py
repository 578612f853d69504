"""Choice of the batch size and of the order of the tiers with which a design works.

A design of a space says which memories there are. What a good compiler and scheduler then choose
is chosen here: the batch size that is best in throughput within the limits on latency (policy
``best``), and, where bytes pass from tier to tier, the fastest order of the tiers. Every choice is
evaluated, unless a lower bound on its time tells that it loses; but an order that only latencies
may favour is not tried where it seems to gain too little (``LEAST_GAIN``). More memory adds choices
and takes none away, and makes none slower: so it never makes a design slower, but for what is not
tried.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from codesign.base.columns import BoolArray, Columns, FloatArray, IntArray
from codesign.base.records import frozen
from codesign.evaluators.npu.compiled_loop import choose_compiled
from codesign.evaluators.npu.operator_times import Stage
from codesign.evaluators.npu.preparation import Preparation
from codesign.evaluators.npu.prepared_designs import PreparedDesigns
from codesign.models.hardware.tier_order import BY_BANDWIDTH, orders_of
from codesign.models.machines.npu.operator_stage import resident_bytes
from codesign.models.machines.npu.pass_time import LEAST_GAIN, least_pass_s, score, whole_pass_s
from codesign.models.machines.npu.stage_records import Choices, LeastWork, PassTotals, totals_of


@cache
def _places(n_tiers: int) -> IntArray:
    """(p, t) every order of the tiers."""
    return np.array(orders_of(n_tiers))


def _orders_of_tiers(designs: PreparedDesigns, positions: IntArray) -> IntArray:
    """(t, c) the orders at some positions among all of them."""
    return np.take(_places(len(designs.tier_order)).T, positions, axis=1)


@frozen
class Chosen:
    """``n`` designs with the batch size and the order of tiers that they work with.

    Attributes:
        designs: All of them, before the choice.
        distinct: The ``r`` of them that are distinct to the operators.
        rows: (s, r) the numbers of :class:`codesign.models.machines.npu.stage_records.PassTotals`.
        sizes: (r,) positions of the batch sizes.
        orders: (r,) positions of the orders of the tiers.
        repeats: (n,) which of the distinct each design is; None if all are.
    """

    designs: PreparedDesigns
    distinct: PreparedDesigns
    rows: FloatArray
    sizes: IntArray
    orders: IntArray
    repeats: IntArray | None = None

    def each(self, values: FloatArray) -> FloatArray:
        """(..., n) of every design what the distinct ones have, (..., r)."""
        return values if self.repeats is None else np.take(values, self.repeats, axis=-1)

    @cached_property
    def batch_size(self) -> FloatArray:
        """(n,) requests held."""
        return self.each(self.distinct.sizes[self.sizes])

    @cached_property
    def totals(self) -> PassTotals:
        """Totals of a pass of the distinct designs."""
        return totals_of(self.rows)

    @cached_property
    def working(self) -> PreparedDesigns:
        """The distinct designs as they work."""
        order = _orders_of_tiers(self.distinct, self.orders)
        return self.distinct.working(self.distinct.sizes[self.sizes], order)


class _Candidates(NamedTuple):
    """Choices to try, one element of every array each; a design may have several.

    Attributes:
        positions: Of the design.
        sizes: Of the batch size, position in ``PreparedDesigns.sizes``.
        orders: Of the tiers, position in ``orders_of``.
    """

    positions: IntArray
    sizes: IntArray
    orders: IntArray

    def take(self, which: IntArray | BoolArray) -> _Candidates:
        """Some of them."""
        return _Candidates(self.positions[which], self.sizes[which], self.orders[which])


class BatchAndOrderChoice:
    """Chooses batch sizes and orders of tiers.

    Args:
        longest_pass_s: Longest pass within the limits on latency.
    """

    def __init__(self, preparation: Preparation, longest_pass_s: float = np.inf) -> None:
        self._pass = preparation.pass_
        self._preparation = preparation
        self._modelling = preparation.modelling
        self.longest_pass_s = longest_pass_s
        self._link = preparation.link

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit on latency, in which the vector unit has a say."""
        return bool(np.isfinite(self.longest_pass_s))

    def choose(self, designs: Columns, is_compiled: bool = False) -> Chosen:
        """The designs as they work best; the same to the last bit, compiled or not."""
        prepared = self._preparation.prepared(designs)
        allowed = prepared.allowed_orders
        if is_compiled:
            hardware = prepared.listed
            choices = Choices(
                sizes=prepared.sizes,
                least_size=prepared.least_size,
                most_size=prepared.most_size,
                orders=_places(len(prepared.tier_order)),
                allowed=np.ascontiguousarray(allowed),
                lane_rate=hardware.vector_length * hardware.clock_hz,
                lane_cycles=self._pass.lane_cycles_of_request,
                vector_operands=self._pass.vector_operands,
                is_prefill=self._preparation.phase == "prefill",
                longest_pass_s=self.longest_pass_s,
                message_fixed_s=self._link.fixed_s,
                message_byte_s=self._link.byte_s,
            )
            return Chosen(prepared, prepared, *choose_compiled(prepared, choices))
        return Chosen(prepared, prepared, *self._vectorized(prepared, allowed))

    def _vectorized(
        self, designs: PreparedDesigns, allowed: IntArray
    ) -> tuple[FloatArray, IntArray, IntArray]:
        """The same, from tables of all designs and operators."""
        sums = Stage(designs).totals
        sizes = designs.most_size.copy()
        orders = np.zeros_like(designs.most_size)
        scores = self._scores(designs, sums[0])
        others = self._others(designs, scores, allowed)
        if not len(others.positions):
            return sums, sizes, orders
        working = self._working(designs, others)
        tried_sums = Stage(working).totals
        tried = self._scores(working, tried_sums[0])
        # Of equal ones, the largest batch size comes first, and of its orders the first.
        ranked = np.lexsort((others.orders, -others.sizes, -tried, others.positions))
        winners = ranked[np.diff(others.positions[ranked], prepend=-1) > 0]
        winners = winners[tried[winners] > scores[others.positions[winners]]]
        changed = others.take(winners)
        sums[:, changed.positions] = tried_sums[:, winners]
        sizes[changed.positions] = changed.sizes
        orders[changed.positions] = changed.orders
        return sums, sizes, orders

    def _others(
        self, designs: PreparedDesigns, scores: FloatArray, allowed: IntArray
    ) -> _Candidates:
        """The other choices that may be better than the first, which has these scores."""
        position = np.arange(len(designs.sizes))[:, None]
        is_possible = (designs.least_size <= position) & (position <= designs.most_size)
        of_order = np.where(is_possible[:, None], allowed, 0)
        sizes, orders, positions = np.nonzero(of_order)
        every = _Candidates(positions, sizes, orders)
        working = self._working(designs, every)
        design = working.stage_design((-1,))
        data_bytes = resident_bytes(design, working.pass_requests, working.batch_size)
        numbers = self._pass.numbers(working.shapes)[working.shape]
        work = LeastWork(*self._pass.least_work_table[:, numbers])
        least_s = least_pass_s(design, data_bytes, work, self._modelling)
        least_s += self._message_s(working)
        gaining_s = np.zeros(is_possible.shape)
        is_first = orders == 0
        gaining_s[sizes[is_first], positions[is_first]] = least_s[is_first] * (1.0 - LEAST_GAIN)
        is_tried = (of_order[sizes, orders, positions] == BY_BANDWIDTH) | (
            least_s < gaining_s[sizes, positions]
        )
        best = score(working.pass_requests, least_s, least_s, self.longest_pass_s)
        is_begun = is_first & (sizes == designs.most_size[positions])
        return every.take(is_tried & ~is_begun & (best > scores[positions]))

    def _working(self, designs: PreparedDesigns, choices: _Candidates) -> PreparedDesigns:
        """The designs of these choices, as they choose."""
        order = _orders_of_tiers(designs, choices.orders)
        return designs.working(designs.sizes[choices.sizes], order, choices.positions)

    def _scores(self, designs: PreparedDesigns, array_and_memory_s: FloatArray) -> FloatArray:
        """(n,) the larger, the better."""
        vector_s = self._pass.vector_s(
            designs.pass_requests, designs.listed, designs.activation_bytes
        )
        message_s = self._message_s(designs)
        pass_s = whole_pass_s(array_and_memory_s, vector_s, self._modelling) + message_s
        busy_s = array_and_memory_s + message_s
        return score(designs.pass_requests, busy_s, pass_s, self.longest_pass_s)

    def _message_s(self, designs: PreparedDesigns) -> FloatArray:
        """(n,) seconds of a pass's messages between devices."""
        return self._link.seconds(designs.pass_requests, designs.activation_bytes)
