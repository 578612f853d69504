"""Levels of memory that hold contexts between the turns of sessions, and what they are worth.

Contexts wait where the weights and the running requests leave room, then in the outer levels; LRU
moves them down. A hit moves its bytes up through all levels above, layer by layer beside the
prefill of the new tokens. Tokens that are computed are written once to every outer level.

Two rules keep more memory from hurting. A context is computed anew where that is faster. Where a
port has no time for all loads, the contexts that save the least time per byte are computed anew.
The tightest port sets the least time of a session; linear-programming duality finds it, with one
multiplier for the port. So every result is monotone in capacities, bandwidths and times, and best
cases of these bound it.

Limiting assumptions: copies that stay in a level after a move up take no room from other contexts;
writes are buffered; the time to the first token includes no wait for other sessions.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.models.deployments.queueing.fleet import exposed_s
from codesign.models.hardware.formula_operations import sum_of
from codesign.models.workload.reuse import TurnClasses


@frozen
class CacheLevels:
    """``l`` levels of ``n`` machines, the first with the running requests; every array is (l, n).

    Attributes:
        capacity_bytes: Room for contexts; 0 where a machine does not have the level.
        read_bytes_per_s: Rate at which contexts are read from a level; infinite for the first.
        write_s_per_byte: Time of the read port for a byte written; 0 if writes have another port.
        move_joules_per_byte: Energy of a byte that moves up from the level to the next.
        write_joules_per_byte: Energy of a byte written.
    """

    capacity_bytes: FloatArray
    read_bytes_per_s: FloatArray
    write_s_per_byte: FloatArray
    move_joules_per_byte: FloatArray
    write_joules_per_byte: FloatArray


@frozen
class TurnCosts:
    """Time or energy of the prefills of ``q`` classes of turns; every array is (q, n).

    Attributes:
        reused: Cost with the context in the first level.
        computed: Cost with the context computed anew, except a shared prefix that is found.
    """

    reused: FloatArray
    computed: FloatArray


@frozen
class CachedTurns:
    """Turns of ``n`` machines with caches.

    Attributes:
        classes: ``q`` classes of turns.
        context_bytes: (q, n) bytes of a context.
        added_bytes: (n,) bytes that a session adds, new tokens and answers.
        cumulative_hits: (l, q, n) share of the contexts found in a level or above.
        levels: The levels.
    """

    classes: TurnClasses
    context_bytes: FloatArray
    added_bytes: FloatArray
    cumulative_hits: FloatArray
    levels: CacheLevels

    @property
    def hits(self) -> FloatArray:
        """(l, q, n) share of the contexts found in each level."""
        return np.diff(self.cumulative_hits, axis=0, prepend=0.0)

    def turn_s(self, times: TurnCosts, n_layers: int) -> FloatArray:
        """(q, n) mean time to the first token of turns that wait for nobody."""
        rates = np.minimum.accumulate(self.levels.read_bytes_per_s, axis=0)
        mean_s = times.computed
        for share, rate in zip(self.hits, rates, strict=True):
            load_s = self.context_bytes / rate
            loaded_s = times.reused + exposed_s(load_s, times.reused, n_layers)
            mean_s = mean_s - share * np.maximum(times.computed - loaded_s, 0.0)
        return np.asarray(mean_s)

    def session_joules(self, energies: TurnCosts) -> FloatArray:
        """(n,) energy of the prefills of a session, loads and writes included."""
        moved = np.cumsum(self.levels.move_joules_per_byte, axis=0)
        joules = energies.computed
        for share, per_byte in zip(self.hits, moved, strict=True):
            loaded = energies.reused + self.context_bytes * per_byte
            joules = joules - share * np.maximum(energies.computed - loaded, 0.0)
        written = self.written_bytes * sum_of(tuple(self.levels.write_joules_per_byte))
        return np.asarray(self.total(joules) + written)

    @property
    def written_bytes(self) -> FloatArray:
        """(n,) bytes that a session writes to every outer level: those of all computed tokens."""
        lost = self.context_bytes * (1.0 - self.cumulative_hits[-1])
        return self.added_bytes + self.total(lost)

    def total(self, values: FloatArray) -> FloatArray:
        """(n,) sum over the turns of a session of (q, n) values, the same for batches of any n."""
        return sum_of(tuple(self.classes.turns[:, None] * values))

    def session_s(self, times: TurnCosts, other_s: FloatArray) -> FloatArray:
        """(n,) least time of a machine for a session, its answers included.

        Args:
            times: Times of the prefills.
            other_s: (n,) time of the machine for the answers of a session.
        """
        turns = self.classes.turns[:, None]
        saved_s = turns * np.maximum(times.computed - times.reused, 0.0)
        bytes_ = turns * self.context_bytes
        per_byte = np.divide(saved_s, bytes_, where=bytes_ > 0, out=np.zeros_like(saved_s))
        nothing_s = other_s + self.total(times.computed)
        least_s = nothing_s - sum_of(tuple(saved_s * self.cumulative_hits[-1]))
        for i in range(1, len(self.cumulative_hits)):
            above = self.cumulative_hits[i - 1]
            below = self.cumulative_hits[-1] - above
            rate, write_s = self.levels.read_bytes_per_s[i], self.levels.write_s_per_byte[i]
            without_s = nothing_s - sum_of(tuple(saved_s * above))
            for price in per_byte:
                gain_s = sum_of(tuple(bytes_ * below * np.maximum(per_byte - price, 0.0)))
                # The port gives ``rate * (time - time of writes)`` bytes, worth ``price`` each.
                written_s = self.added_bytes * write_s
                port_s = (without_s - gain_s + price * rate * written_s) / (1.0 + price * rate)
                least_s = np.maximum(least_s, np.minimum(port_s, without_s))
        return np.asarray(least_s)
