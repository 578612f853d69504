"""Levels of memory that hold contexts between the turns of sessions, and what they are worth.

Contexts wait where the weights and the running requests leave room, then in the outer levels; LRU
moves them down. A hit moves its bytes up through all levels above, layer by layer beside the
prefill of the new tokens. Tokens that are computed are written once to every outer level.

Two rules keep more memory from hurting. A context is computed anew where that is faster. Where a
port has no time for all loads, the contexts that save the least time per byte are computed anew.
The tightest port sets the least time of a session; linear-programming duality finds it, with one
multiplier for the port. So every result is monotone in capacities, bandwidths and times, and best
cases of these bound it.

The formulas work on the arrays of many designs, or in a compiled loop on the numbers of one.

Limiting assumptions: copies that stay in a level after a move up take no room from other contexts;
writes are buffered; the time to the first token includes no wait for other sessions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from codesign.base.columns import (
    ArrayPair,
    ArrayTriple,
    ArrayTuple,
    FloatArray,
    FloatPair,
    IntArray,
)
from codesign.models.deployments.queueing.fleet import exposed_s
from codesign.models.hardware.formula_operations import is_anywhere, larger, smaller, where

_ZEROS: Any = (0.0,) * 6
_ROUNDED = 1.0 - 1e-12
"""Least share of a number after rounding [ours]."""


class MachineSessions(NamedTuple):
    """Sessions on ``u`` machines with ``v`` choices of outer caches.

    There are ``q`` classes of turns, ``t`` tiers of the machine and ``k`` outer caches. A field of
    a level is the capacity for contexts, the rate of reads, the time of the read port for a byte
    written, the energy of a byte that moves up to the next level and of a byte written, the wear
    of a byte, or the price.

    Attributes:
        times: (3, q, u) seconds of the prefill of a turn if its context, its shared prefix or
            nothing is found.
        joules: (3, q, u) energy of these prefills.
        context_bytes: (q, u) bytes of a context.
        token_bytes: (u,) bytes of a token of the mean context.
        answers_s: (u,) seconds of the answers of a session on a busy machine.
        alone_s: (u,) seconds of these answers on a machine of their own.
        most_sessions: (u,) most sessions at a time.
        usd_per_hour: (u,) price of an hour of the machine.
        hits: (t, q + 1, u) share of the contexts found in a tier or above; last of shared prefixes.
        tiers: (7, t, u) fields of the tiers, the one with the running requests first.
        outer: (7, k, v) fields of the outer caches.
        reuse: (g,) tokens touched, (q + 1, g) shares of contexts that caches of so many tokens
            hold, and (q + 1, g) slopes from there.
        turns: (q,) turns of each class, and those that are first and later turns.
        n_turns: First turns and later turns.
        added_tokens: Tokens that a session adds.
        n_layers: Layers of the model.
        think_s: Think times of a session.
        price_share: Part of a price that falls on an hour.
        has_turn_times: False if sessions never wait and no time to a first token is asked for; such
            times are then 0.
    """

    times: FloatArray
    joules: FloatArray
    context_bytes: FloatArray
    token_bytes: FloatArray
    answers_s: FloatArray
    alone_s: FloatArray
    most_sessions: FloatArray
    usd_per_hour: FloatArray
    hits: FloatArray
    tiers: FloatArray
    outer: FloatArray
    reuse: ArrayTriple
    turns: ArrayTriple
    n_turns: FloatPair
    added_tokens: float
    n_layers: int
    think_s: float
    price_share: float
    has_turn_times: bool


class Workspace(NamedTuple):
    """Arrays that formulas fill, of all designs or of the one of a compiled loop.

    Attributes:
        levels: (7, l, ...) fields of the levels, tiers first.
        hits: (l, q + 1, ...) share of the contexts found in a level or above.
        filled: (l, ...) position of the machine, and tokens of outer levels and all above, for
            which the arrays above are filled; NaN at first.
        saved_s: (q, ...) seconds that the hits of all turns save.
        moved: (q, ...) bytes of all contexts.
        saved_s_per_byte: (q, ...) the ratio of these.
        below: (q, ...) bytes of contexts found below a level.
        computed: (2, q, ...) seconds and joules of a prefill that finds only a shared prefix.
        session: (3, ...) share of shared prefixes for which ``computed`` and all seconds saved are
            filled; the least positive ratio, or 0; seconds of a session without hits.
    """

    levels: FloatArray
    hits: FloatArray
    filled: FloatArray
    saved_s: FloatArray
    moved: FloatArray
    saved_s_per_byte: FloatArray
    below: FloatArray
    computed: FloatArray
    session: FloatArray


def empty_workspace(machines: MachineSessions, *shape: int) -> Workspace:
    """Workspace for designs of a shape; the shape of a single design is empty."""
    q = len(machines.context_bytes)
    n_levels = machines.tiers.shape[1] + machines.outer.shape[1]
    shapes = (7, n_levels), (n_levels, q + 1), (n_levels,), *[(q,)] * 4, (2, q), (3,)
    return Workspace(*(np.full(dimensions + shape, np.nan) for dimensions in shapes))


def session_sums(
    machine_index: IntArray, cache_index: IntArray, machines: MachineSessions, workspace: Workspace
) -> ArrayTuple:
    """Sums over the turns of sessions on a machine with outer caches.

    Returns:
        Sessions per second, seconds of a busy machine and of the prefills of a session, mean
        seconds of a first prefill and of a later one, joules of the prefills, bytes written, and
        dollars of an hour without power.
    """
    if fill_levels(machine_index, cache_index, machines, workspace):
        fill_classes(machine_index, machines, workspace)
    levels = workspace.levels
    hits = workspace.hits
    last = len(hits) - 1
    lost_bytes, least_s, turns_s, first_s, later_s, joules = _ZEROS
    for q in range(len(machines.context_bytes)):
        turns = machines.turns[0][q]
        turn_s, turn_joules = turn_costs(q, machine_index, machines, workspace)
        least_s = least_s + workspace.saved_s[q] * hits[last, q]
        joules = joules + turns * turn_joules
        if machines.has_turn_times:
            turns_s = turns_s + turns * turn_s
            first_s = first_s + machines.turns[1][q] * turn_s
            later_s = later_s + machines.turns[2][q] * turn_s
        contexts = machines.context_bytes[q, machine_index]
        lost_bytes = lost_bytes + turns * (contexts * (1.0 - hits[last, q]))
    added_bytes = machines.added_tokens * machines.token_bytes[machine_index]
    written = added_bytes + lost_bytes
    busy_s = _least_session_s(workspace.session[2] - least_s, added_bytes, workspace)
    alone_s = machines.think_s + turns_s + machines.alone_s[machine_index]
    rate = smaller(1.0 / busy_s, machines.most_sessions[machine_index] / alone_s)
    write_joules = 0.0
    worn = 0.0 * rate
    outer_usd = 0.0
    for level in range(last + 1):
        write_joules = write_joules + levels[4, level]
        wears = where(levels[5, level] > 0, written * rate, 0.0) * levels[5, level] * 3600.0
        if level < len(machines.hits):
            worn = larger(worn, wears)
        outer_usd = outer_usd + levels[6, level] * larger(wears, machines.price_share)
    # A machine whose tier is worn out before it is written off is replaced as a whole.
    machine_usd = machines.usd_per_hour[machine_index] * larger(
        worn / (machines.price_share or np.inf), 1.0
    )
    return (
        rate, busy_s, turns_s, first_s / machines.n_turns[0], later_s / machines.n_turns[1],
        joules + written * write_joules, written, machine_usd + outer_usd,
    )  # fmt: skip


def fill_levels(
    machine_index: IntArray, cache_index: IntArray, machines: MachineSessions, workspace: Workspace
) -> bool:
    """Fill the fields of the levels, and the share of the contexts that each holds.

    Returns:
        Whether the machine, or the share of shared prefixes that is found, is new.
    """
    (touched, shares, slopes), n_tiers, capacity_bytes = machines.reuse, len(machines.hits), 0.0
    levels = workspace.levels
    hits = workspace.hits
    filled = workspace.filled
    is_new = is_anywhere(filled[0] != machine_index)
    if is_new:
        filled[0] = machine_index
        for level in range(n_tiers):
            for field in range(7):
                levels[field, level] = machines.tiers[field, level, machine_index]
            for q in range(len(shares)):
                hits[level, q] = machines.hits[level, q, machine_index]
    for level in range(len(hits)):
        outer = level - n_tiers
        for field in range(7 * (outer >= 0)):
            levels[field, level] = machines.outer[field, outer, cache_index]
        capacity_bytes = capacity_bytes + levels[0, level]
        tokens = capacity_bytes / machines.token_bytes[machine_index]
        if outer >= 0 and is_anywhere(filled[level] != tokens):
            filled[level] = tokens
            j: Any = len(touched) - 1
            if is_anywhere(tokens < touched[j]):
                j = np.searchsorted(touched, tokens, side="right") - 1
            for q in range(len(shares)):
                hits[level, q] = slopes[q, j] * (tokens - touched[j]) + shares[q, j]
    return is_new or is_anywhere(workspace.session[0] != hits[-1, -1])


def fill_classes(machine_index: IntArray, machines: MachineSessions, workspace: Workspace) -> None:
    """Fill costs of turns that find only a shared prefix, and seconds saved by hits of contexts."""
    shared = workspace.hits[-1, -1]
    nothing_s: Any = 0.0
    least: Any = np.inf
    for q in range(len(machines.context_bytes)):
        turns = machines.turns[0][q]
        for place, costs in enumerate((machines.times, machines.joules)):
            workspace.computed[place, q] = (
                shared * costs[1, q, machine_index] + (1.0 - shared) * costs[2, q, machine_index]
            )
        computed_s = workspace.computed[0, q]
        workspace.saved_s[q] = turns * larger(computed_s - machines.times[0, q, machine_index], 0.0)
        moved = turns * machines.context_bytes[q, machine_index]
        per_byte = workspace.saved_s[q] / where(moved > 0, moved, np.inf)
        workspace.moved[q] = moved
        workspace.saved_s_per_byte[q] = per_byte
        nothing_s = nothing_s + turns * computed_s
        least = smaller(least, where(per_byte > 0, per_byte, np.inf))
    workspace.session[0] = shared
    workspace.session[1] = where(least < np.inf, least, 0.0)
    workspace.session[2] = machines.answers_s[machine_index] + nothing_s


def turn_costs(
    class_index: int, machine_index: IntArray, machines: MachineSessions, workspace: Workspace
) -> ArrayPair:
    """Mean time to the first token of turns of a class that do not wait, and mean energy of their
    prefills.
    """
    contexts = machines.context_bytes[class_index, machine_index]
    reused_s = machines.times[0, class_index, machine_index]
    computed_s = workspace.computed[0, class_index]
    computed_joules = workspace.computed[1, class_index]
    turn_s = computed_s
    joules = computed_joules
    above = 0.0 * computed_s
    move_joules = 0.0
    rate = workspace.levels[1, 0]
    for level in range(len(workspace.hits)):
        rate = smaller(rate, workspace.levels[1, level])
        move_joules = move_joules + workspace.levels[3, level]
        share = workspace.hits[level, class_index] - above
        above = workspace.hits[level, class_index]
        if not is_anywhere(share > 0):
            continue
        loaded = machines.joules[0, class_index, machine_index] + contexts * move_joules
        if machines.has_turn_times:
            loaded_s = reused_s + exposed_s(contexts / rate, reused_s, machines.n_layers)
            turn_s = turn_s - share * larger(computed_s - loaded_s, 0.0)
        joules = joules - share * larger(computed_joules - loaded, 0.0)
    return turn_s, joules


def _least_session_s(
    least_s: FloatArray, added_bytes: FloatArray, workspace: Workspace
) -> FloatArray:
    """Lower bound on a session's time, given its time with all hits."""
    levels, hits, _, saved_s, moved, per_byte, below, _, (_, least_per_byte, nothing_s) = workspace
    for level in range(1, len(hits)):
        rate = levels[1, level]
        writes_s = added_bytes * levels[2, level]
        saved: Any = 0.0
        for q in range(len(moved)):
            saved = saved + saved_s[q] * hits[level - 1, q]
        without_s = nothing_s - saved
        # Even without a gain, and for the loads that save least, most ports set no longer time.
        most_s = smaller(_port_s(without_s, least_per_byte * rate, writes_s), without_s)
        if not is_anywhere(most_s > least_s * _ROUNDED):
            continue
        for q in range(len(moved)):
            below[q] = moved[q] * (hits[len(hits) - 1, q] - hits[level - 1, q])
        for price in per_byte:
            most_s = where(price > 0, _port_s(without_s, price * rate, writes_s), 0.0)
            if not is_anywhere(most_s > least_s):
                continue
            gain_s: Any = 0.0
            for q in range(len(moved)):
                gain_s = gain_s + below[q] * larger(per_byte[q] - price, 0.0)
            # The port gives ``rate * (time - time of writes)`` bytes, worth ``price`` each.
            port_s = smaller(_port_s(without_s - gain_s, price * rate, writes_s), without_s)
            least_s = larger(least_s, where(price > 0, port_s, 0.0))
    return least_s


def _port_s(without_s: FloatArray, worth: FloatArray, writes_s: FloatArray) -> FloatArray:
    """Time that a port needs for all writes, and for loads that save the remaining time."""
    return (without_s + worth * writes_s) / (1.0 + worth)


def machine_times(
    times: FloatArray,
    context_bytes: FloatArray,
    hits: FloatArray,
    levels: FloatArray,
    turns: FloatArray,
    answers_s: float,
    added_bytes: float,
    n_layers: int,
) -> tuple[float, FloatArray]:
    """Seconds of one busy machine for a session, and (q,) mean seconds of its turns.

    Args:
        times: (3, q) those of :class:`MachineSessions`, as all arrays here.
        context_bytes: (q,).
        hits: (l, q + 1).
        levels: (2, l) rate of reads and time of the read port for a byte written.
        turns: (q,) turns of each class.
        answers_s: Seconds of the answers of a session.
        added_bytes: Bytes that a session adds.
        n_layers: Layers of the model.
    """
    ones = np.ones(1)
    tiers = np.zeros((7, len(hits), 1))
    tiers[1:3, :, 0] = levels
    machines = MachineSessions(
        times[..., None], 0.0 * times[..., None], context_bytes[:, None], ones, answers_s * ones,
        ones, np.inf * ones, ones, hits[..., None], tiers, tiers[:, :0],
        (hits, hits[0], hits[0]), (turns, turns, turns), (1.0, 1.0), added_bytes, n_layers,
        0.0, 1.0, True,
    )  # fmt: skip
    index = np.zeros(1, np.int64)
    workspace = empty_workspace(machines, 1)
    busy_s = session_sums(index, index, machines, workspace)[1]
    turn_s = [turn_costs(q, index, machines, workspace)[0] for q in range(len(turns))]
    return float(busy_s[0]), np.concatenate(turn_s)
