"""Options of systems: the evaluators of their machines, hand-overs, and the first token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from codesign.base.columns import JsonObject
from codesign.base.errors import InputError
from codesign.base.schema import (
    Document,
    PositiveAmount,
    Record,
    checked,
    parse_record,
    quantity,
    unstored_at,
)
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.evaluators.phase_machine import machine_class
from codesign.evaluators.platform.platform_options import PlatformOptions

DEVICES = "platform"
"""The evaluator of devices of datasheets, whose workload is no single phase."""


class MachineChoice(Record):
    """The evaluator of the machines of a pool.

    Attributes:
        name: Under which it is registered.
        options: Its options, as its own record has them.
    """

    name: str
    options: JsonObject = Field(default_factory=dict)

    def load(self, *others: str) -> tuple[Any, Record]:
        """The class of the evaluator and the record of its options.

        Args:
            others: Names that may stand in place of this one, for the message.
        """
        factory = machine_class(self.name, *others)
        return factory, parse_record(Document("", self.options, {}), factory.Options)


def machine_choice(value: object, default: str | None = None) -> MachineChoice:
    """``simulation`` or ``{name: simulation, most_steps: 64}``, with a name and options it has.

    Args:
        default: Name of a mapping without name. If None, as for pools, each has a name, and
            options of devices and NPUs stand elsewhere.
    """
    stated = {"name": value} if isinstance(value, str) else value
    if isinstance(stated, MachineChoice):
        return stated
    if not isinstance(stated, Mapping) or not isinstance(stated.get("name", default), str):
        form = "of options" if default else "with 'name'"
        raise InputError(f"expected a name or a mapping {form}, got {value!r}")
    name = stated.get("name", default)
    others = () if default else (DEVICES,)
    options = {key: value for key, value in stated.items() if key != "name"}
    if default is None and options and name in ("npu", DEVICES):
        raise InputError(f"expected the options of {name} under '{name}' beside 'machine'")
    choice = MachineChoice(name=name, options=options)
    if name not in others:
        choice.load(*others)
    return choice


class MachineOptions(Record):
    """Evaluator of the machines of a pool and its options."""

    machine: Annotated[MachineChoice | None, checked(machine_choice), unstored_at(None)] = None
    """The evaluator of a pool's machines, a name or a mapping with ``name`` and its options:
    ``npu``, ``simulation``, any other that is registered and whose workload is one phase of a
    request, or ``platform``. If left out, ``platform`` for a pool of devices and else ``npu``."""
    npu: NpuOptions = Field(default_factory=NpuOptions)
    """Options of the evaluator ``npu``, for pools of NPUs."""
    platform: PlatformOptions = Field(default_factory=PlatformOptions)
    """Options of the evaluator ``platform``, for pools of devices."""
    device_usd_per_hour: PositiveAmount | None = None
    """Rent of one device of a pool of devices, USD; the option of ``platform`` if None."""

    @property
    def device_options(self) -> PlatformOptions:
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

    handover_setup: Annotated[
        float, quantity("ms"), Field(ge=0, allow_inf_nan=False), unstored_at(0.008)
    ] = 0.008
    """Time of every hand-over besides its bytes and the link's latency: 8 ms, what Splitwise
    measured of transfers beside the prompt on A100s, and 5 ms on H100s (ISCA 2024, section VI.A).
    It delays a request and takes nothing of the link's rate."""

    def options_of(self, pool: str) -> MachineOptions:
        """The options of a pool."""
        return self.pools.get(pool, self)
