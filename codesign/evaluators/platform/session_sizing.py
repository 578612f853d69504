"""Rates of sessions that a machine of devices can serve, with prompt caches or without.

Steps come from the machine's step times, hits and loads from the closed forms of
:mod:`codesign.models.deployments.cache_levels`, in tokens. Prefills wait for each other as in a
queue with one server (Pollaczek and Khinchine). The best number of requests that decode together
gives the largest rate within the limits.

Limiting assumptions: prefills and decode steps take turns; limits hold for mean times.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.base.units import format_engineering
from codesign.models.deployments.cache_levels import machine_times
from codesign.models.deployments.queueing import EngineStep, PromptChunk
from codesign.models.deployments.queueing.service_levels import LatencyLimits
from codesign.models.deployments.queueing.serving_machine import ServingMachine
from codesign.models.workload.reuse import SessionReuse

_ROUNDS = 15
"""Rounds in which hits and the number of sessions at a time settle [ours]."""
_ENDLESS = 1e30
"""Tokens per second of the machine's own cache."""


@frozen
class SessionRate:
    """Largest rate of sessions at which a machine keeps its limits.

    Attributes:
        batch_size: Requests that decode together.
        concurrent_sessions: Sessions at a time, their think times included.
        prompt_hit_share: Share of the prompts' tokens that is found.
        time_to_first_token_s: Mean of the turns after the first, with the wait.
        time_per_output_token_s: Mean, prefills of others included.
    """

    sessions_per_s: float
    batch_size: int
    concurrent_sessions: float
    prompt_hit_share: float
    time_to_first_token_s: float
    time_per_output_token_s: float


def session_rate(
    machine: ServingMachine,
    reuse: SessionReuse,
    limits: LatencyLimits,
    n_layers: int,
    *,
    has_caches: bool = True,
) -> SessionRate:
    """The largest rate of one machine.

    Args:
        has_caches: True if the machine's cache and its stores keep prompts between turns.

    Raises:
        InputError: The machine keeps the limits with no batch.
    """
    most = machine.limits.max_sequences
    batches = sorted({min(round(2 ** (i / 2)), most) for i in range(2 * most.bit_length())})
    rates = [batch_rate(machine, reuse, batch, n_layers, has_caches) for batch in batches]
    present = [rate for rate in rates if rate is not None]
    if not present:
        raise InputError("memory: no room for the context of a turn")
    feasible = [
        rate
        for rate in present
        if rate.time_to_first_token_s <= limits.time_to_first_token_s
        and rate.time_per_output_token_s <= limits.time_per_output_token_s
    ]
    if not feasible:
        nearest = min(present, key=lambda rate: rate.batch_size)
        first, output = (
            format_engineering(time, "s", 3)
            for time in (nearest.time_to_first_token_s, nearest.time_per_output_token_s)
        )
        raise InputError(
            f"no batch keeps the limits; {nearest.batch_size} at a time: first token after "
            f"{first}, an output token after {output}"
        )
    return max(feasible, key=lambda rate: rate.sessions_per_s)


def batch_rate(
    machine: ServingMachine,
    reuse: SessionReuse,
    batch: int,
    n_layers: int,
    has_caches: bool = True,
    clients: float | None = None,
) -> SessionRate | None:
    """The rate at which so many requests always decode; None if memory is too small for them.

    Args:
        clients: Sessions whose contexts fill the caches, if more of them wait than are served.
    """
    classes = reuse.classes
    context = classes.context_tokens
    new = classes.new_tokens
    answer = classes.generated_tokens
    turns = classes.turns
    later = classes.turns * (1.0 - classes.is_first)
    answers = classes.total(answer)
    running = classes.total(answer * (context + new + answer / 2.0)) / answers
    room = machine.limits.cache_tokens - batch * running
    if room < 0:
        return None
    step_s = machine.step_times.step_s(EngineStep([], batch, round(batch * running)))
    stores = machine.stores if has_caches else ()
    sizes = [room * has_caches, *(float(store.tokens) for store in stores)]
    rates = np.array([_ENDLESS, *(store.tokens_per_s for store in stores)])
    prefix = np.minimum(reuse.shared_tokens, context) * (1.0 - classes.is_first)
    costs = [_prompt_costs(machine, past, context + new - past) for past in (context, prefix, 0.0)]
    chunk_s = step_s * np.ceil(new / machine.limits.max_batched_tokens)
    sessions = 1.0
    for _ in range(_ROUNDS):
        shares = np.stack([
            reuse.hit_shares(np.array([capacity]), np.array([clients or float(f"{sessions:.3g}")]))
            for capacity in np.cumsum(sizes)
        ])[..., 0]  # fmt: skip
        busy_s, turn_s = machine_times(
            np.stack(costs), context, shares, np.stack([rates, 0.0 * rates]), turns,
            answers * step_s / batch, 0.0, n_layers,
        )  # fmt: skip
        load = min(float(turns @ turn_s) / busy_s, 0.999)
        wait_s = load / (1.0 - load) * float(turns @ turn_s**2) / (2.0 * float(turns @ turn_s))
        token_s = busy_s * batch / answers
        first_s = wait_s + turn_s + chunk_s
        sessions = (reuse.think_s + float(turns @ first_s) + answers * token_s) / busy_s
    lost = 1.0 - shares[-1, :-1]
    shared = shares[-1, -1]
    computed = turns @ new + turns @ (lost * (context - shared * prefix))
    return SessionRate(
        1.0 / busy_s,
        batch,
        sessions,
        max(1.0 - float(computed) / classes.total(context + new), 0.0),
        float(later @ first_s) / max(float(later.sum()), 1e-300),
        token_s,
    )


def _prompt_costs(machine: ServingMachine, past: Floats, tokens: FloatArray) -> FloatArray:
    """(q,) seconds of prefills alone, in chunks."""
    seconds = []
    most = machine.limits.max_batched_tokens
    for start, count in zip(
        np.broadcast_to(past, tokens.shape).round().astype(int).tolist(),
        np.maximum(tokens.round(), 1.0).astype(int).tolist(),
        strict=True,
    ):
        chunks = [
            PromptChunk(min(most, count - done), start + done) for done in range(0, count, most)
        ]
        steps = (EngineStep([chunk], 0, 0) for chunk in chunks)
        seconds.append(sum(machine.step_times.step_s(step) for step in steps))
    return np.array(seconds)
