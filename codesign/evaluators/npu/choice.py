"""With which batch size, and with its tiers in which order, a design works.

A design of a space says which memories there are. What a good compiler and scheduler then choose
is chosen here: the batch size that is best in throughput within the limits on latency (policy
``best``), and, where bytes pass from tier to tier, the fastest order of the tiers. Every choice is
evaluated, unless a lower bound on its time tells that it loses; but an order that only latencies
may favour is not tried where it seems to gain too little (``LEAST_GAIN``). More memory adds choices
and takes none away, and makes none slower: so it never makes a design slower, but for what is not
tried.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from codesign.columns import BoolArray, Columns, FloatArray, IntArray, taken
from codesign.evaluators.npu.compiled_loop import choose_compiled
from codesign.evaluators.npu.footprint import Footprint, PreparedBatch
from codesign.evaluators.npu.npu_options import NpuOptions, link_time
from codesign.evaluators.npu.operator_times import Pass, Stage
from codesign.evaluators.npu.pass_setup import PassSetup, modelling_of
from codesign.evaluators.npu.pass_time import LEAST_GAIN, least_pass_s, score, whole_pass_s
from codesign.evaluators.npu.placement import WRITTEN
from codesign.evaluators.npu.preparation import Preparation
from codesign.evaluators.npu.stage_records import Choices, LeastWork, totals_of
from codesign.hardware.accelerator import MemoryLevels
from codesign.hardware.tier_order import (
    BY_BANDWIDTH,
    keeps_last,
    orders_of,
    worth_trying,
)


@cache
def _places(n_tiers: int) -> IntArray:
    """(p, t) every order of the tiers."""
    return np.array(orders_of(n_tiers))


class Chosen:
    """``n`` designs with the batch size and the order of tiers that they work with.

    Args:
        footprint: The designs, the fastest tier first.
        batch_size: (n,) requests held.
        totals: (s, r) of a pass, for the ``r`` designs that are distinct to the operators: the
            numbers of :class:`codesign.evaluators.npu.stage_records.PassTotals`.
        levels: Gives the memory levels of these ``r``, the tiers in the order of their use.
        prepare: Gives what every metric needs of these ``r``.
        repeats: (n,) which of them each design is; None if every design stands for itself.
    """

    def __init__(
        self,
        footprint: Footprint,
        batch_size: FloatArray,
        totals: FloatArray,
        levels: Callable[[], MemoryLevels],
        prepare: Callable[[], PreparedBatch],
        repeats: IntArray | None = None,
    ) -> None:
        self.footprint = footprint
        self.batch_size = batch_size
        self._rows = totals
        self.totals = totals_of(totals)
        self.repeats = repeats
        self._levels = levels
        self._prepare = prepare

    @cached_property
    def batch(self) -> PreparedBatch:
        """The distinct designs, their tiers in the order in which they are used."""
        return self._prepare()

    @cached_property
    def levels(self) -> MemoryLevels:
        """The memory levels of the distinct designs, the tiers in the order of their use."""
        return self._levels()

    def spread(self, footprint: Footprint, repeats: IntArray) -> Chosen:
        """The choices of more designs, of which these are the distinct ones.

        Args:
            footprint: Of all designs.
            repeats: (n,) which of these each of them is.
        """
        size, rows = self.batch_size[repeats], self._rows
        return Chosen(footprint, size, rows, lambda: self.levels, self._prepare, repeats)


class _Candidates(NamedTuple):
    """Choices to try, one element of every array each; a design may have several.

    Attributes:
        positions: Of the design.
        sizes: Of the batch size, position in ``Footprint.sizes``.
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
        self._modelling = modelling_of(options, preparation.phase)
        self.longest_pass_s = longest_pass_s
        self._link = link_time(preparation.part, options)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit on latency, in which the vector unit has a say."""
        return bool(np.isfinite(self.longest_pass_s))

    def choose(self, designs: Columns, is_compiled: bool = False) -> Chosen:
        """The designs as they work best; the same to the last bit, compiled or not."""
        footprint = self._preparation.footprint(designs)
        first = self._preparation.batch(designs, footprint)
        allowed = self._orders(footprint, first.setup.storage)
        if is_compiled:
            sums, sizes, orders = self._compiled(footprint, first, allowed)
        else:
            sums, sizes, orders = self._on_arrays(designs, footprint, first, allowed)
        if not orders.any() and np.array_equal(sizes, footprint.most_size):
            levels = footprint.accelerators.levels
            return Chosen(footprint, first.batch_size, sums, lambda: levels, lambda: first)
        everywhere = np.arange(len(sizes))
        size = footprint.sizes[sizes]

        def prepare() -> PreparedBatch:
            ordered = footprint.take(everywhere, _places(len(footprint.tier_order))[orders].T)
            return self._preparation.batch(designs, ordered, size)

        def order_levels() -> MemoryLevels:
            return footprint.accelerators.levels.taken(
                everywhere, _places(len(footprint.tier_order))[orders].T
            )

        return Chosen(footprint, size, sums, order_levels, prepare)

    def _orders(self, footprint: Footprint, storage: IntArray) -> IntArray:
        """(p, n) which orders of the tiers may be the fastest, as of ``worth_trying``."""
        levels = footprint.accelerators.levels
        if self._modelling.is_staged:
            orders = worth_trying(
                footprint.tier_bytes_per_s,
                levels.capacity_bytes[1:],
                levels.write_energy_ratio[1:],
                levels.latency_s[1:],
            )
            if (storage == WRITTEN).any():
                is_last = (levels.wear_per_byte[1:] > 0) | ~levels.exists[1:]
                orders[(storage == WRITTEN) & ~keeps_last(is_last)] = 0
            return orders
        only_first = np.zeros(
            (len(_places(len(footprint.tier_order))), len(footprint.weight_bytes)), dtype=np.int64
        )
        only_first[0] = BY_BANDWIDTH
        return only_first

    def _compiled(
        self, footprint: Footprint, first: PreparedBatch, allowed: IntArray
    ) -> tuple[FloatArray, IntArray, IntArray]:
        """(s, n) totals, (n,) positions of the best batch sizes and (n,) of the best orders."""
        hardware, setup = footprint.accelerators, first.setup
        choices = Choices(
            sizes=footprint.sizes,
            least_size=footprint.least_size,
            most_size=footprint.most_size,
            orders=_places(len(footprint.tier_order)),
            allowed=allowed,
            kv_request_bytes=footprint.kv_bytes,
            lane_rate=hardware.vector_length * hardware.clock_hz,
            lane_cycles=self._pass.lane_cycles_of_request,
            largest_activations=self._preparation.largest_activations,
            is_prefill=setup.phase == "prefill",
            longest_pass_s=self.longest_pass_s,
            message_fixed_s=self._link.fixed_s,
            message_byte_s=self._link.byte_s,
        )
        in_pass = np.ones_like(footprint.sizes) if choices.is_prefill else footprint.sizes
        wanted = tuple((array, size) for array in setup.arrays for size in in_pass.tolist())
        return choose_compiled(
            self._pass.operators,
            self._pass.shapes(wanted),
            self._pass.least_work(wanted),
            setup.kind,
            setup.inputs((-1,)),
            setup.weight_groups,
            choices,
            self._modelling,
        )

    def _on_arrays(
        self, designs: Columns, footprint: Footprint, first: PreparedBatch, allowed: IntArray
    ) -> tuple[FloatArray, IntArray, IntArray]:
        """The same, from tables of all designs and operators."""
        sums = Stage(self._pass, first.setup).totals
        sizes, orders = footprint.most_size.copy(), np.zeros_like(footprint.most_size)
        scores = self._scores(first, sums[0])
        others = self._others(designs, footprint, scores, allowed)
        if not len(others.positions):
            return sums, sizes, orders
        batch = self._batch(designs, footprint, others)
        tried_sums = Stage(self._pass, batch.setup).totals
        tried = self._scores(batch, tried_sums[0])
        # Of equal ones, the largest batch size comes first, and of its orders the first.
        ranked = np.lexsort((others.orders, -others.sizes, -tried, others.positions))
        winners = ranked[np.diff(others.positions[ranked], prepend=-1) > 0]
        winners = winners[tried[winners] > scores[others.positions[winners]]]
        changed = others.take(winners)
        sums[:, changed.positions] = tried_sums[:, winners]
        sizes[changed.positions], orders[changed.positions] = changed.sizes, changed.orders
        return sums, sizes, orders

    def _others(
        self, designs: Columns, footprint: Footprint, scores: FloatArray, allowed: IntArray
    ) -> _Candidates:
        """The other choices that may be better than the first, which has these scores."""
        position = np.arange(len(footprint.sizes))[:, None]
        is_possible = (footprint.least_size <= position) & (position <= footprint.most_size)
        of_order = np.where(is_possible[:, None], allowed, 0)
        sizes, orders, positions = np.nonzero(of_order)
        every = _Candidates(positions, sizes, orders)
        setup = self._batch(designs, footprint, every).setup
        work = [values[setup.shape] for values in self._pass.least_work(setup.shapes)]
        least_s = least_pass_s(setup.inputs((-1,)), LeastWork(*work), self._modelling)
        least_s = least_s + self._message_s(setup)
        gaining_s = np.zeros(is_possible.shape)
        is_first = orders == 0
        gaining_s[sizes[is_first], positions[is_first]] = least_s[is_first] * (1.0 - LEAST_GAIN)
        is_tried = (of_order[sizes, orders, positions] == BY_BANDWIDTH) | (
            least_s < gaining_s[sizes, positions]
        )
        best = score(setup.batch_size[:, 0], least_s, least_s, self.longest_pass_s)
        is_begun = is_first & (sizes == footprint.most_size[positions])
        return every.take(is_tried & ~is_begun & (best > scores[positions]))

    def _batch(self, designs: Columns, footprint: Footprint, others: _Candidates) -> PreparedBatch:
        """The designs of these choices, as they choose."""
        positions = others.positions
        return self._preparation.batch(
            taken(designs, positions),
            footprint.take(positions, _places(len(footprint.tier_order))[others.orders].T),
            footprint.sizes[others.sizes],
        )

    def _scores(self, batch: PreparedBatch, array_and_memory_s: FloatArray) -> FloatArray:
        """(n,) the larger, the better."""
        requests = batch.setup.batch_size[:, 0]
        vector_s = self._pass.vector_s(requests, batch.setup.accelerators)
        message_s = self._message_s(batch.setup)
        pass_s = whole_pass_s(array_and_memory_s, vector_s, self._modelling) + message_s
        return score(requests, array_and_memory_s + message_s, pass_s, self.longest_pass_s)

    def _message_s(self, setup: PassSetup) -> FloatArray:
        """(n,) seconds of a pass's messages between devices."""
        return self._link.seconds(setup.batch_size[:, 0], setup.activation_bytes[:, 0])
