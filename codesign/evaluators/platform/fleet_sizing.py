"""Instances of a deployment that keep limits for requests that arrive, by simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import numpy as np

from codesign.base.columns import IntegerList, JsonObject, StringMap
from codesign.base.errors import InputError
from codesign.evaluators.platform.deployments import Deployment
from codesign.evaluators.platform.instances import LINK_LATENCY_S, Demand
from codesign.evaluators.platform.machine_pools import cache_link, serving_machine
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_request import UNDRAFTED
from codesign.models.deployments.queueing import (
    Arrivals,
    CacheLink,
    EngineLimits,
    Fleet,
    ServedRequests,
    poisson_arrivals,
    simulate,
)
from codesign.models.deployments.queueing.serving_machine import ServingMachine

LEAST_REQUESTS = 500
"""Requests that are simulated at least [ours]: 1 % of them are five requests."""
LATENCIES = 4
"""Arrivals last at least so many latencies at the limits [ours], so that a steady state counts."""
MOST_TIMES = 64
"""Largest multiple of the instances of a steady state that the search tries [ours]."""
PERCENTILE = 90
"""Percentile of the times that are reported beside a fleet; DistServe counts 90 % of requests."""


def simulated_fleet(
    evaluator: PlatformEvaluator,
    demand: Demand,
    deployment: Deployment,
    formats: StringMap,
) -> tuple[Deployment, JsonObject]:
    """The fewest instances of a deployment whose requests keep the limits.

    Limiting assumptions: more instances never serve worse, so bisection finds their number; pools
    keep the ratio of their instances.

    Args:
        evaluator: The evaluator of the requests.
        demand: Requests that arrive at random, enough of them for a steady state.
        deployment: Pools for the same requests without a queue.

    Returns:
        The deployment with as many instances, and its times, attainment and utilization.

    Raises:
        InputError: No fleet of up to 64 times as many instances keeps the limits; says why.
    """
    limits = demand.limits
    rate = demand.requests_per_s or 0.0
    request = evaluator.workload
    steps_s = limits.time_per_output_token_s * (request.generated - 1)
    # Requests that just keep both limits take so long.
    n_requests = ceil(LATENCIES * rate * (limits.time_to_first_token_s + steps_s))
    arrivals = poisson_arrivals(
        rate, max(LEAST_REQUESTS, n_requests), request.prompt, request.generated, demand.seed
    )
    last = deployment.pools[-1]
    if last.draft is None:
        evaluator = evaluator.replace_request(request.updated(UNDRAFTED))
    machines, link = _machines(evaluator, deployment, formats, arrivals)

    def counts(n_last: int) -> IntegerList:
        """Instances of each pool, for so many of the last."""
        scale = n_last / last.instances
        return [ceil(scale * pool.instances) for pool in deployment.pools[:-1]] + [n_last]

    def serve(n_last: int, requests: Arrivals) -> ServedRequests:
        pools = tuple(
            machine.pool(pool.role, n)
            for machine, pool, n in zip(machines, deployment.pools, counts(n_last), strict=True)
        )
        return simulate(Fleet(pools, link), requests)

    alone = poisson_arrivals(rate, 1, request.prompt, request.generated, demand.seed)
    if (miss := limits.nearest_miss(serve(1, alone))) is not None:
        raise InputError(f"a request alone: {miss[1]}")
    served = {}

    def keeps(n_last: int) -> bool:
        served[n_last] = serve(n_last, arrivals)
        return limits.attainment(served[n_last]) >= demand.attainment

    most = MOST_TIMES * last.instances
    n_last = fewest(keeps, last.instances, most)
    if n_last is None:
        best = limits.attainment(served[most])
        raise InputError(
            f"{best:.0%} of the requests within both limits with {MOST_TIMES} times the "
            f"{deployment.n_devices} devices of a steady state"
        )
    result = served[n_last]
    pools = tuple(pool.times(n) for pool, n in zip(deployment.pools, counts(n_last), strict=True))
    steps = result.time_per_output_token_s
    return replace(deployment, pools=pools), {
        "time_to_first_token_s": float(np.percentile(result.time_to_first_token_s, PERCENTILE)),
        "time_per_output_token_s": float(np.nanpercentile(steps, PERCENTILE)),
        "attainment": limits.attainment(result),
        "utilization": float(
            np.mean(np.concatenate([result.utilization(pool) for pool in result.pools]))
        ),
    }


def _machines(
    evaluator: PlatformEvaluator,
    deployment: Deployment,
    formats: StringMap,
    arrivals: Arrivals,
) -> tuple[list[ServingMachine], CacheLink]:
    """A machine of each pool, and the link between them."""
    machines = []
    for pool in deployment.pools:
        degrees = {name: getattr(pool, name) for name in ("tensor_parallel", "expert_parallel")}
        tokens = pool.expert_parallel * (pool.chunk_tokens or EngineLimits.max_batched_tokens)
        limits = EngineLimits(
            plans_ahead=True,
            max_sequences=max(pool.batch_size, EngineLimits.max_sequences),
            max_batched_tokens=pool.batch_size + tokens,
        )
        design = {**formats, "device": pool.device, **degrees}
        machines.append(serving_machine(evaluator, design, limits, arrivals, 1.0))
    if len(machines) == 1:
        return machines, CacheLink()
    return machines, cache_link(evaluator, machines[0], None, LINK_LATENCY_S)


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
        low = high
        high = min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
