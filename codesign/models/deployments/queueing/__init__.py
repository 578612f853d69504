"""Requests that arrive at machines: engines that batch them step by step, and what they wait.

An event simulation. A machine is nothing but the seconds of its steps (:class:`StepTimes`); who has
a machine makes them.
"""

from codesign.models.deployments.queueing.engine_limits import EngineLimits
from codesign.models.deployments.queueing.fleet import CacheLink, Fleet, MachinePool
from codesign.models.deployments.queueing.request_arrivals import (
    Arrivals,
    poisson_arrivals,
    read_arrivals,
    session_arrivals,
    trace_arrivals,
)
from codesign.models.deployments.queueing.served_requests import PoolLoad, ServedRequests
from codesign.models.deployments.queueing.simulation import simulate
from codesign.models.deployments.queueing.step_times import (
    EngineStep,
    PromptChunk,
    StepTimes,
)

__all__ = [
    "Arrivals",
    "CacheLink",
    "EngineLimits",
    "EngineStep",
    "Fleet",
    "MachinePool",
    "PoolLoad",
    "PromptChunk",
    "ServedRequests",
    "StepTimes",
    "poisson_arrivals",
    "read_arrivals",
    "session_arrivals",
    "simulate",
    "trace_arrivals",
]
