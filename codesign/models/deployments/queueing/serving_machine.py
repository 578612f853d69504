"""A machine that serves a model: what an event simulation and its report need of it."""

from __future__ import annotations

from codesign.base.columns import Fields
from codesign.base.records import frozen
from codesign.models.deployments.queueing.engine_limits import EngineLimits
from codesign.models.deployments.queueing.fleet import MachinePool
from codesign.models.deployments.queueing.prefix_cache import StoreLimits
from codesign.models.deployments.queueing.step_times import StepTimes


@frozen
class ServingMachine:
    """One machine: devices that serve a model together.

    Attributes:
        design: Device, formats and degrees, or an accelerator design, by the parameters of the
            evaluator.
        step_times: Seconds of its steps.
        limits: How its engine forms them, with the room for the cache.
        power_watts: Board power limits of its devices together, of a design its TDP; NaN where
            none is stated.
        stores: Stores of prompts behind its cache, the nearest first.
    """

    design: Fields
    step_times: StepTimes
    limits: EngineLimits
    n_devices: int
    power_watts: float
    stores: tuple[StoreLimits, ...] = ()

    def pool(self, name: str, n_machines: int) -> MachinePool:
        """So many of these machines."""
        return MachinePool(name, n_machines, self.step_times, self.limits, self.stores)
