"""How a system is modelled: how its machines are read, and who gives the first token."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.schema import Record


class MachineOptions(Record):
    """How the machines of a pool are read."""

    npu: NpuOptions = Field(default_factory=NpuOptions)
    """Options of the evaluator ``npu``, for pools of NPUs."""
    platform: PlatformOptions = Field(default_factory=PlatformOptions)
    """Options of the evaluator ``platform``, for pools of devices."""
    device_usd_per_hour: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    """Rent of one device of a pool of devices, USD; the option of ``platform`` if None."""

    @property
    def of_devices(self) -> PlatformOptions:
        """Options of the evaluator ``platform``, with the rent that is stated for pools."""
        if self.device_usd_per_hour is None:
            return self.platform
        return self.platform.model_copy(update={"device_usd_per_hour": self.device_usd_per_hour})


class SystemOptions(MachineOptions):
    """Options of the ``system`` evaluator; what a campaign says next to its name."""

    pools: dict[str, MachineOptions] = Field(default_factory=dict)
    """Options of single pools, by the pool's name, instead of those above."""
    first_token: Literal["prefill", "decode"] = "prefill"
    """The pool that gives the first token. If the prefill pool does, the hand-over delays the
    second token; if the decode pool does, the first."""

    def of(self, pool: str) -> MachineOptions:
        """The options of a pool."""
        return self.pools.get(pool, self)
