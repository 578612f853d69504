"""Machines that prefill the turns of sessions and keep their contexts, as a pool of a system.

A request of the system is the mean turn. The prefill pool caches contexts in the memory left beside
weights and a running prompt, then in outer caches or its share of a store behind the cache link.
The decode pool sends the keys and values of answers back over the hand-over link.

Limiting assumptions: a session returns to its machine; sessions never run out; machine and
caches are written off together, by useful life or by wear, whichever costs more.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from codesign.base.columns import ArrayPair, Arrays, FloatArray
from codesign.base.evaluator import PoolPrices
from codesign.base.metrics import ALL_METRICS, HIT_METRICS
from codesign.base.schema import Record
from codesign.evaluators.sessions.session_workload import SessionsOptions, SessionWorkload
from codesign.evaluators.sessions.sessions_evaluator import SessionsEvaluator
from codesign.models.hardware.formula_operations import sum_of

_REPORTED = ("throughput_tokens_per_s", "time_to_first_token_s", "dynamic_joules_per_token",
             "idle_watts", "standing_usd_per_hour", "wear_usd_per_token", "tdp_watts",
             "unit_cost_usd")  # fmt: skip


class PrefillWorkload(SessionWorkload):
    """Sessions whose turns a pool prefills."""

    phase: Literal["prefill"] = "prefill"
    """Phase of the pool."""
    turn_tokens: int
    """Prompt tokens of the mean turn, counted by the throughput."""


class SessionPrefill(SessionsEvaluator):
    """Rate, latency, energy and price of machines that prefill turns with caches."""

    Workload = PrefillWorkload
    workload: PrefillWorkload
    needs_levels = True

    def __init__(
        self, workload: PrefillWorkload, options: SessionsOptions, machine: Record | None
    ) -> None:
        super().__init__(workload, options, True, machine)
        declared = {metric.name: metric for metric in self.metrics}
        self.metrics = (
            *(ALL_METRICS[name] for name in (*_REPORTED, *HIT_METRICS)),
            *(declared[name] for name in self._passed)
        )  # fmt: skip

    @property
    def prices(self) -> PoolPrices | None:
        """Prices of the machines."""
        return self.first.prices

    def _answer_costs(self, machine: Arrays) -> ArrayPair:
        """(n,) zero seconds and joules of a token of an answer, since another pool decodes."""
        zeros = np.zeros_like(machine["tdp_watts"])
        return zeros, zeros

    def _pool_metrics(self, costs: Arrays, sums: FloatArray, levels: FloatArray) -> Arrays:
        prices = self.first.prices
        n_turns = float(self._reuse.classes.turns.sum())
        per_hour = float("nan") if prices is None else prices.usd_per_hour_of_capital
        rate, _, turns_s, *_, written, _ = sums
        tokens = n_turns * self.workload.turn_tokens
        machine_usd = written * costs["wear"] * (costs["usd_per_hour"] / per_hour)
        outer_usd = sum_of(tuple(written * levels[5] * levels[6]))
        return {
            "throughput_tokens_per_s": rate * tokens,
            "time_to_first_token_s": turns_s / n_turns,
            "dynamic_joules_per_token": costs["joules"] / tokens,
            "idle_watts": costs["idle_watts"],
            "standing_usd_per_hour": costs["usd_per_hour"] + costs["outer_usd"] * per_hour,
            "wear_usd_per_token": (machine_usd + outer_usd) / tokens,
        }
