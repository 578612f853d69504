"""The fewest machines of a device that serve requests that arrive within limits, by simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from codesign.base.errors import InputError
from codesign.evaluators.platform.machine_pools import serving_machine
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.models.deployments.queueing import (
    Arrivals,
    EngineLimits,
    Fleet,
    ServedRequests,
    poisson_arrivals,
    simulate,
)
from codesign.models.deployments.queueing.service_levels import ServiceLevel
from codesign.models.deployments.queueing.serving_machine import ServingMachine

LEAST_REQUESTS = 500
"""Requests that are simulated at least [ours]: 1 % of them are five requests."""
LATENCIES = 4
"""Arrivals last at least so many latencies at the limits [ours], so that a steady state counts."""
PERCENTILE = 90
"""Percentile of the times that are reported beside a fleet; DistServe counts 90 % of requests."""


@dataclass(frozen=True)
class OfferedLoad:
    """Requests that are alike and arrive at random, and what they expect.

    Attributes:
        requests_per_s: Mean rate.
        level: Limits on the two times.
        attainment: Share of the requests that must be within both.
    """

    requests_per_s: float
    prompt_tokens: int
    generated_tokens: int
    level: ServiceLevel
    attainment: float
    seed: int

    @property
    def latency_s(self) -> float:
        """Time of a request that just keeps both limits."""
        steps_s = self.level.time_per_output_token_s * (self.generated_tokens - 1)
        return self.level.time_to_first_token_s + steps_s

    @property
    def users(self) -> int:
        """Requests in the system at these latencies: rate times latency (Little's law)."""
        return max(ceil(self.requests_per_s * self.latency_s), 1)

    def arrivals(self) -> Arrivals:
        """The requests, enough for a steady state."""
        n = max(LEAST_REQUESTS, ceil(LATENCIES * self.requests_per_s * self.latency_s))
        tokens = (self.prompt_tokens, self.generated_tokens)
        return poisson_arrivals(self.requests_per_s, n, *tokens, self.seed)


def smallest_fleet(
    evaluator: PlatformEvaluator,
    load: OfferedLoad,
    design: Mapping[str, Any],
    first_guess: int,
    most_devices: int,
) -> dict[str, Any]:
    """The fewest machines of one design whose requests keep the limits.

    Limiting assumption: more machines serve better, so that the count is found by bisection.

    Args:
        evaluator: The evaluator of the requests.
        load: What arrives, and what it expects.
        design: One machine, by the evaluator's parameters.
        first_guess: Machines with which the search begins.
        most_devices: Devices of the largest fleet that is tried.

    Returns:
        Machines, devices, watts, times, attainment and utilization; ``devices`` is None and
        ``note`` says why where no fleet keeps the limits.
    """
    arrivals = load.arrivals()
    try:
        machine = serving_machine(evaluator, design, EngineLimits(plans_ahead=True), arrivals)
        first_request = Arrivals(
            arrivals.arrival_s[:1], arrivals.prompt_tokens[:1], arrivals.generated_tokens[:1]
        )
        alone = _serve(machine, 1, first_request)
    except InputError as error:
        return {"devices": None, "note": "; ".join(error.problems)}
    if (miss := load.level.nearest_miss(alone)) is not None:
        return {"devices": None, "note": f"a request alone: {miss.words}"}
    most = most_devices // machine.n_devices
    served: dict[int, ServedRequests] = {}

    def keeps(n_machines: int) -> bool:
        served[n_machines] = _serve(machine, n_machines, arrivals)
        return load.level.attainment(served[n_machines]) >= load.attainment

    n_machines = fewest(keeps, first_guess, most)
    if n_machines is None:
        best = load.level.attainment(served[most]) if most in served else 0.0
        note = f"{best:.0%} of the requests within both limits with {most_devices} devices at most"
        return {"devices": None, "note": note}
    return _fleet_row(machine, n_machines, served[n_machines], load.level)


def fewest(keeps: Callable[[int], bool], first_guess: int, most: int) -> int | None:
    """The least count that keeps the limits, if all larger ones do; None if ``most`` does not.

    Examples:
        >>> fewest(lambda count: count >= 5, 3, 100), fewest(lambda count: False, 3, 100)
        (5, None)
    """
    if most < 1:
        return None
    high, low = min(max(first_guess, 1), most), 0  # low is too few
    while not keeps(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def _serve(machine: ServingMachine, n_machines: int, arrivals: Arrivals) -> ServedRequests:
    return simulate(Fleet((machine.pool("serve", n_machines),)), arrivals)


def _fleet_row(
    machine: ServingMachine, n_machines: int, served: ServedRequests, level: ServiceLevel
) -> dict[str, Any]:
    steps = served.time_per_output_token_s
    has_steps = not np.isnan(steps).all()
    watts = machine.power_watts
    return {
        "devices": n_machines * machine.n_devices,
        "machines": n_machines,
        "tensor_parallel": int(machine.design.get("tensor_parallel", 1)),
        "pipeline_parallel": 1,
        "expert_parallel": int(machine.design.get("expert_parallel", 1)),
        "sequence_parallel": 1,
        "data_parallel": n_machines,
        "time_to_first_token_s": float(np.percentile(served.time_to_first_token_s, PERCENTILE)),
        "time_per_output_token_s": (
            float(np.nanpercentile(steps, PERCENTILE)) if has_steps else None
        ),
        "attainment": level.attainment(served),
        "utilization": float(served.utilization(served.pools[0]).mean()),
        "board_power_watts": None if watts is None else n_machines * watts,
        "note": "",
    }
