"""Machines that prefill the turns of sessions and keep their contexts, as a pool of a system.

A request of the system is the mean turn. The prefill pool has the caches: what its memory leaves
beside the weights and a running prompt, then its outer caches, or its share of a store behind the
cache link. The decode pool sends the keys and values of answers back over the hand-over link.

Limiting assumptions: a session returns to its machine; there are always enough sessions; machine
and caches together are written off by their useful life or their wear, whichever is more.
"""

from __future__ import annotations

from typing import Literal

from codesign.base.columns import Arrays, Columns, FloatArray
from codesign.base.evaluator import PoolPrices
from codesign.base.metrics import ALL_METRICS
from codesign.base.schema import Record
from codesign.evaluators.sessions.level_columns import DesignLevels
from codesign.evaluators.sessions.session_workload import SessionsOptions, SessionWorkload
from codesign.evaluators.sessions.sessions_evaluator import SessionsEvaluator
from codesign.models.deployments.cache_levels import CachedTurns
from codesign.models.hardware.formula_operations import sum_of

_REPORTED = ("throughput_tokens_per_s", "time_to_first_token_s", "dynamic_joules_per_token",
             "idle_watts", "standing_usd_per_hour", "wear_usd_per_token", "tdp_watts",
             "unit_cost_usd")  # fmt: skip
_OF_ANSWERS = ("time_per_output_token_s", "dynamic_joules_per_token")


class PrefillWorkload(SessionWorkload):
    """Sessions whose turns a pool prefills."""

    phase: Literal["prefill"] = "prefill"
    """Phase of the pool."""
    turn_tokens: int
    """Tokens of the mean prompt, which the throughput counts for a turn."""


class SessionPrefill(SessionsEvaluator):
    """Rate, latency, energy and price of machines that prefill turns with caches."""

    Workload = PrefillWorkload
    workload: PrefillWorkload

    def __init__(
        self, workload: PrefillWorkload, options: SessionsOptions, machine: Record | None
    ) -> None:
        super().__init__(workload, options, True, machine)
        declared = {metric.name: metric for metric in self.metrics}
        self.metrics = (
            *(ALL_METRICS[name] for name in _REPORTED), *(declared[name] for name in self._passed)
        )  # fmt: skip

    @property
    def prices(self) -> PoolPrices | None:
        """Prices of the machines."""
        return self.first.prices

    def _composed(self, designs: Columns, machine: Arrays, *costs: object) -> Arrays:  # type: ignore[override]
        nothing = {name: machine[name] * 0.0 for name in _OF_ANSWERS}
        return super()._composed(designs, {**machine, **nothing}, *costs)  # type: ignore[arg-type]

    def _of_pool(
        self,
        machine: Arrays,
        memory: DesignLevels,
        cached: CachedTurns,
        rate: FloatArray,
        turns_s: FloatArray,
        session_joules: FloatArray,
    ) -> dict[str, FloatArray]:
        prices = self.first.prices
        per_hour = float("nan") if prices is None else prices.usd_per_hour_of_capital
        outer_usd = sum_of(tuple(memory.price_usd))
        worn = cached.written_bytes * memory.wear_per_byte
        machine_usd = machine["standing_usd_per_hour"] / per_hour
        wear_usd = worn[: memory.n_tiers].max(axis=0) * machine_usd
        wear_usd = wear_usd + sum_of(tuple(worn * memory.price_usd))
        n_turns = float(cached.classes.turns.sum())
        tokens = n_turns * self.workload.turn_tokens
        return {
            "throughput_tokens_per_s": rate * tokens,
            "time_to_first_token_s": turns_s / n_turns,
            "dynamic_joules_per_token": session_joules / tokens,
            "idle_watts": machine["idle_watts"] + memory.background_watts,
            "standing_usd_per_hour": machine["standing_usd_per_hour"] + outer_usd * per_hour,
            "wear_usd_per_token": wear_usd / tokens,
        }
