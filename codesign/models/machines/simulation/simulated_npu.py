"""One operator's transactions on one machine: ports, landing buffers, array.

Every memory level has one port, which serves one transaction at a time, first come first served.
With fixed bandwidth shares the port of an off-chip tier is two slower ones, one for the matrix
stream (weights, keys and values) and one for the vector stream (activations). What a tier owns is
read at its port and lands in a buffer of the level above, where it occupies the port again, and
so on up to the on-chip memory (``staged``), or lands there directly (``parallel``). The array
takes a step's operands through the on-chip port when they have all landed, while it works on the
step before. Results go down the same way.

Requests are issued ahead: a level's latency delays what comes first and what passes through, and
a landing buffer has room for what the latency keeps waiting, besides its two steps. Writes are
posted, without latency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from codesign.base.columns import (
    ArrayList,
    BoolArray,
    FloatArray,
    FloatList,
    FloatPair,
    FloatSequence,
    IntegerList,
)
from codesign.base.records import frozen
from codesign.models.machines.simulation.events import Schedule
from codesign.models.machines.simulation.tiles import Steps

ARRAY = 0
ON_CHIP = 1
_FIRST_TIER = 2
"""Numbers of the resources: the array, the on-chip memory, then the streams of each tier."""
STREAMS = ("matrix", "vector")


@frozen
class SimulatedNpu:
    """The array and the memory ports of one design; levels are on chip first, then tiers.

    Attributes:
        clock_hz: Clock of the array.
        bandwidth_bytes_per_s: Usable bandwidth of each level's port.
        latency_s: Latency of each level.
        stream_share: Shares of the off-chip ports' bandwidth that the matrix stream and the vector
            stream have.
        has_one_port: Whether the two streams take turns at a tier's port, or have one each.
        is_staged: Whether bytes pass every level above their own.
        own: Share of the off-chip activations, KV cache and weights that lives in each tier.
        slowdowns: (3, t) time of a byte in each tier over that of a streamed one: weights, KV cache
            read, anything written.
        landing_steps: Steps that a landing buffer holds.
    """

    clock_hz: float
    bandwidth_bytes_per_s: FloatSequence
    latency_s: FloatSequence
    stream_share: FloatPair
    has_one_port: bool
    is_staged: bool
    own: FloatArray
    slowdowns: FloatArray
    landing_steps: int = 2


@frozen
class Transaction:
    """One use of a resource.

    Attributes:
        resource: Name of the resource, such as ``tier1 matrix``.
        activity: Kind of activity, such as ``matrix read`` or ``work``.
        step: Step of the operator to which the transaction belongs.
        start_s: Start, counted from the operator's start.
        end_s: End, counted from the operator's start.
        size_bytes: Bytes that the transaction moved.
    """

    resource: str
    activity: str
    step: int
    start_s: float
    end_s: float
    size_bytes: float


@frozen
class SimulatedOperator:
    """One simulated operator.

    Attributes:
        time_s: Time until everything has ended.
        compute_s: Time during which the array works.
        active_cycles: Cycles of the array, weighted by the rows that hold data.
        on_chip_s: Time during which the on-chip port is occupied.
        off_chip_s: Time until the last byte has arrived from off chip or has left for it.
        reads: (l,) bytes read at each level's port.
        writes: (l,) bytes written at each level's port.
        off_chip_bytes: Bytes between the off-chip tiers and the on-chip memory.
        n_steps: Steps into which the operator was cut.
        transactions: All transactions, if the caller wants them.
    """

    time_s: float
    compute_s: float
    active_cycles: float
    on_chip_s: float
    off_chip_s: float
    reads: FloatArray
    writes: FloatArray
    off_chip_bytes: float
    n_steps: int
    transactions: Sequence[Transaction] = ()


def simulate(
    steps: Steps,
    machine: SimulatedNpu,
    is_transfer_only: bool = False,
    keeps_transactions: bool = False,
) -> SimulatedOperator:
    """Runs an operator.

    Args:
        is_transfer_only: Leaves out the array and its traffic: what has landed is at hand after
            the on-chip memory's latency.
        keeps_transactions: Whether the run lists them.
    """
    return _TransactionBuilder(steps, machine, is_transfer_only).run(keeps_transactions)


_Move = tuple[int, bool, float, str, int]
"""Level (-1: none), whether it is written, bytes, activity and step of a transaction."""


class _TransactionBuilder:
    """Turns steps into transactions."""

    def __init__(self, steps: Steps, machine: SimulatedNpu, is_transfer_only: bool) -> None:
        self.machine = machine
        self.n_levels = len(machine.bandwidth_bytes_per_s)
        self.schedule = Schedule(_FIRST_TIER + len(STREAMS) * self.n_levels)
        self.is_transfer_only = is_transfer_only
        self.n_steps = len(steps.cycles)
        self.compute = (steps.cycles / machine.clock_hz).tolist()
        self.active_cycles = 0.0 if is_transfer_only else float(steps.active_cycles.sum())
        self.array_reads = steps.array_reads.tolist()
        self.array_writes = steps.array_writes.tolist()
        own_bytes = machine.own
        self.up = [
            np.outer(own_bytes[2], steps.weight_reads) + np.outer(own_bytes[1], steps.kv_reads),
            np.outer(own_bytes[0], steps.activation_reads),
        ]
        weights = float(steps.weight_reads.sum())
        kv = float(steps.kv_reads.sum())
        mean = machine.slowdowns[:2].T @ np.array([weights, kv]) / max(weights + kv, 1e-300)
        self.read_slowdown = [np.maximum(mean, 1.0).tolist(), [1.0] * len(mean)]
        self.write_slowdown = machine.slowdowns[2].tolist()
        self.down = [
            np.outer(own_bytes[1], steps.kv_writes),
            np.outer(own_bytes[0], steps.activation_writes),
        ]
        # Bytes by transaction, for energy and for the timeline.
        self.moves: list[_Move] = []
        self.crossings: IntegerList = []
        self.landings: IntegerList = []
        self.step = 0
        # Transactions of every step: taking operands, work, leaving the on-chip buffer.
        self.takers: list[IntegerList] = []
        self.works: IntegerList = []
        self.leaving: list[IntegerList] = []

    def run(self, keeps_transactions: bool) -> SimulatedOperator:
        chains = self._chains(self.up)
        outgoing = self._chains(self.down)
        for step in range(self.n_steps):
            self.step = step
            landed = []
            for chain in chains:
                size = chain.sizes[step]
                if size > 0:
                    machine = self.machine
                    stream = chain.stream
                    hops: IntegerList = []
                    chain.hops.append(hops)
                    stops = range(chain.tier - 1, 0, -1) if machine.is_staged else ()
                    after = []
                    earliest = machine.latency_s[chain.tier]
                    level = chain.tier
                    for position, above in enumerate([*stops, 0]):
                        after += self._room(step, chain, position, above)
                        slowdown = (
                            self.read_slowdown[stream][level - 1] if level == chain.tier else 1.0
                        )
                        read = self._move(level, stream, size, False, after, earliest, slowdown)
                        if position:
                            hops.append(read)
                        landing = self._move(above, stream, size, True, [(read, 0.0)])
                        after = [(landing, machine.latency_s[above])]
                        earliest = 0.0
                        level = above
                    hops.append(landing)
                    self.crossings.append(landing)
                    self.landings.append(landing)
                    landed.append(landing)
                else:
                    chain.hops.append([])
            if self.is_transfer_only:
                self.takers.append(landed)
                self._take_down(step, outgoing, -1)
                continue
            put = self._work(step, landed)
            self.leaving.append(self._take_down(step, outgoing, put))
        return self._result(keeps_transactions)

    def _chains(self, moved: ArrayList) -> list[_Chain]:
        """One chain for each stream and each tier that owns bytes of it, the deepest tier first."""
        return [
            _Chain(stream, row + 1, table[row].tolist())
            for stream, table in enumerate(moved)
            for row in range(len(table) - 1, -1, -1)
            if table[row].sum() > 0
        ]

    # What comes up.

    def _room(self, step: int, chain: _Chain, position: int, above: int) -> list[tuple[int, float]]:
        """Transactions that must leave the buffer of the level above before it takes this step."""
        n = self.machine.landing_steps
        if above:
            mean = chain.mean / self._rate(above, chain.stream)
            n += math.ceil(self.machine.latency_s[above] / mean)
        if step < n:
            return []
        if above == 0:
            return [(taker, 0.0) for taker in self.takers[step - n]]
        earlier = chain.hops[step - n]
        return [(earlier[position], 0.0)] if earlier else []

    # What the array does.

    def _work(self, step: int, landed: IntegerList) -> int:
        """The array takes a step's operands, works, and puts the results on chip."""
        works = self.works
        ready = [(chunk, 0.0) for chunk in landed]
        if step:
            ready += [(taker, 0.0) for taker in self.takers[-1]]
        if step > 1:
            # The array has registers for the operands of two steps.
            ready.append((works[-2], 0.0))
        take = self._move(0, 0, self.array_reads[step], False, ready)
        self.takers.append([take])
        before = [(take, self.machine.latency_s[0])]
        if step:
            before.append((works[-1], 0.0))
        n = self.machine.landing_steps
        if step >= n:
            before += [(chunk, 0.0) for chunk in self.leaving[step - n]]
        works.append(self._add(ARRAY, self.compute[step], before, (-1, False, 0.0, "work", step)))
        return self._move(0, 0, self.array_writes[step], True, [(works[-1], 0.0)])

    # What goes down.

    def _take_down(self, step: int, chains: list[_Chain], put: int) -> IntegerList:
        """Results leave for their tiers; gives the transactions that empty the on-chip buffer."""
        n = self.machine.landing_steps
        remaining = []
        for chain in chains:
            size = chain.sizes[step]
            hops: IntegerList = []
            chain.hops.append(hops)
            if not size > 0:
                continue
            after = [] if put < 0 else [(put, 0.0)]
            stops = range(1, chain.tier) if self.machine.is_staged else ()
            level = 0
            for position, below in enumerate([*stops, chain.tier]):
                if step >= n and chain.hops[step - n]:
                    # The buffer below is free when the step before last has been written or,
                    # on its way through, read again.
                    after.append((chain.hops[step - n][position], 0.0))
                read = self._move(level, chain.stream, size, False, after)
                if position:
                    hops.append(read)
                else:
                    remaining.append(read)
                slowdown = self.write_slowdown[below - 1] if below == chain.tier else 1.0
                write = self._move(below, chain.stream, size, True, [(read, 0.0)], 0.0, slowdown)
                after = [(write, 0.0)]
                level = below
            hops.append(write)
            self.crossings.append(write)
        return remaining

    # Transactions.

    def _rate(self, level: int, stream: int) -> float:
        share = self.machine.stream_share[stream] if level else 1.0
        return self.machine.bandwidth_bytes_per_s[level] * share

    def _move(
        self,
        level: int,
        stream: int,
        size: float,
        is_write: bool,
        after: list[tuple[int, float]],
        earliest: float = 0.0,
        slowdown: float = 1.0,
    ) -> int:
        if level == 0:
            resource = ON_CHIP
        else:
            apart = 0 if self.machine.has_one_port else stream
            resource = _FIRST_TIER + len(STREAMS) * (level - 1) + apart
        duration = size / self._rate(level, stream) * slowdown
        name = f"{STREAMS[stream]} {'write' if is_write else 'read'}"
        move = (level, is_write, size, name, self.step)
        return self._add(resource, duration, after, move, earliest)

    def _add(
        self,
        resource: int,
        duration: float,
        after: list[tuple[int, float]],
        move: _Move,
        earliest: float = 0.0,
    ) -> int:
        self.moves.append(move)
        return self.schedule.add(resource, duration, after, earliest)

    def _result(self, keeps_transactions: bool) -> SimulatedOperator:
        schedule = self.schedule
        time = schedule.run()
        if self.is_transfer_only and self.landings:
            last = max(schedule.ends[landing] for landing in self.landings)
            time = max(time, last + self.machine.latency_s[0])
        levels, is_write, sizes = map(np.array, list(zip(*self.moves, strict=True))[:3])
        resources = np.array(schedule.resources)
        durations = np.array(schedule.durations)

        def bytes_at(is_chosen: BoolArray) -> FloatArray:
            moved = np.bincount(levels[is_chosen], sizes[is_chosen], minlength=self.n_levels)
            return moved.astype(np.float64)

        return SimulatedOperator(
            time_s=time,
            compute_s=float(durations[resources == ARRAY].sum()),
            active_cycles=self.active_cycles,
            on_chip_s=float(durations[resources == ON_CHIP].sum()),
            off_chip_s=max((schedule.ends[crossing] for crossing in self.crossings), default=0.0),
            reads=bytes_at(~is_write & (levels >= 0)),
            writes=bytes_at(is_write & (levels >= 0)),
            off_chip_bytes=float(sizes[self.crossings].sum()) if self.crossings else 0.0,
            n_steps=self.n_steps,
            transactions=self._transactions() if keeps_transactions else (),
        )

    def _transactions(self) -> list[Transaction]:
        schedule = self.schedule
        return [
            Transaction(
                resource=self._name(schedule.resources[i]),
                activity=activity,
                step=step,
                start_s=schedule.starts[i],
                end_s=schedule.ends[i],
                size_bytes=size,
            )
            for i, (_, _, size, activity, step) in enumerate(self.moves)
            if schedule.durations[i] > 0
        ]

    def _name(self, resource: int) -> str:
        if resource < _FIRST_TIER:
            return ("array", "on_chip")[resource]
        tier, stream = divmod(resource - _FIRST_TIER, len(STREAMS))
        return f"tier{tier + 1}" + ("" if self.machine.has_one_port else f" {STREAMS[stream]}")


class _Chain:
    """The way of one stream's bytes between a tier and the on-chip memory, step by step.

    Attributes:
        stream: 0 matrix, 1 vector.
        tier: Number of the tier where the bytes live, from 1.
        sizes: Bytes of each step.
        mean: Mean bytes of a step.
        hops: Transactions that free the buffers on the way, a list for each step.
    """

    def __init__(self, stream: int, tier: int, sizes: FloatList) -> None:
        self.stream = stream
        self.tier = tier
        self.sizes = sizes
        self.mean = max(sum(sizes) / len(sizes), 1e-30)
        self.hops: list[IntegerList] = []
