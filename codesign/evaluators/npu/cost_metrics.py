"""What designs cost: metrics of :class:`DesignMetrics` that the accounts compute.

All are of all devices that serve the model together, but those of a temperature or a density.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from codesign.accounts.area import Floorplan, floorplan
from codesign.accounts.constants import Constants, constants_at
from codesign.accounts.price import Unit, cheapest_unit
from codesign.columns import FloatArray, Value
from codesign.deployments import ModelPart
from codesign.evaluators.npu.options import NpuOptions
from codesign.hardware.accelerator import AcceleratorBatch
from codesign.memtech import MemoryTechnology

SILICON_METRICS = ("area_mm2", "unit_cost_usd")
"""Metrics that follow from the hardware and the widths of its operands alone."""


class SiliconMetrics:
    """Area and price of ``n`` accelerators, each computed when it is first asked for; all (n,).

    Args:
        hardware: The accelerators.
        operand_bits: (2, n) widths of the array's two operands.
        part: What one device has of the model.
        options: Resolved options.
    """

    def __init__(
        self,
        hardware: AcceleratorBatch,
        operand_bits: FloatArray,
        part: ModelPart,
        options: NpuOptions,
    ) -> None:
        self._hardware = hardware
        self._bits = operand_bits
        self._n_devices = part.n_devices
        self._options = options

    @cached_property
    def constants(self) -> Constants:
        """Of the process, at the level of the options."""
        constants = constants_at(self._options.process, self._options.technology_level)
        return replace(constants, **self._options.constants)

    @cached_property
    def plan(self) -> Floorplan:
        """Area by block of one device."""
        link_bytes_per_s = self._options.link_bandwidth if self._n_devices > 1 else 0.0
        first, second = self._bits
        return floorplan(self._hardware, first, second, self.constants, link_bytes_per_s)

    @cached_property
    def unit(self) -> Unit:
        """Dies, package and memories of one device."""
        return cheapest_unit(self.plan, self._hardware.levels, self.constants)

    @property
    def area_mm2(self) -> FloatArray:
        stacks, plan = self.unit.stacks, self.plan
        of_device = stacks.n_dies * (stacks.base_mm2 + plan.n_layers * stacks.layer_mm2)
        return of_device * self._n_devices

    @property
    def unit_cost_usd(self) -> FloatArray:
        return self.unit.usd * self._n_devices


class CostMetrics:
    """What :class:`DesignMetrics` adds of them."""

    @cached_property
    def silicon(self) -> SiliconMetrics:
        """Areas and prices of the hardware."""
        raise NotImplementedError

    @property
    def area_mm2(self) -> FloatArray:
        return self.silicon.area_mm2

    @property
    def unit_cost_usd(self) -> FloatArray:
        return self.silicon.unit_cost_usd


_ROWS = {
    "array": "array", "vector": "vector", "sram": "on_chip", "tier1": "tier1 interface",
    "tier2": "tier2 interface", "tier3": "tier3 interface", "links": "links",
    "host": "host interface", "uncore": "uncore", "filler": "filler below layers",
}  # fmt: skip
"""How the blocks of a floor plan are called in the account of a design."""


def cost_rows(silicon: SiliconMetrics) -> list[dict[str, Any]]:
    """Area and price by block and part of a batch of one design, of one device.

    A block has the part of the compute dies' price that it has of their area.
    """
    plan, stacks = silicon.plan, silicon.unit.stacks
    parts = {name: float(usd[0]) for name, usd in silicon.unit.parts.items()}
    dies_mm2 = float((stacks.n_dies * stacks.base_mm2)[0])
    blocks = {_ROWS[name]: float(values[0]) for name, values in plan.blocks.items()}
    blocks["die to die"] = dies_mm2 - float(plan.base_mm2[0])
    per_mm2 = parts.pop("compute dies") / dies_mm2
    layers_mm2 = float((stacks.n_dies * plan.n_layers * stacks.layer_mm2)[0])
    own = {"stacked layers": layers_mm2} if layers_mm2 else {}
    rows = [(name, mm2, mm2 * per_mm2) for name, mm2 in blocks.items() if mm2]
    rows += [(name, own.get(name, 0.0), usd) for name, usd in parts.items() if usd]
    return [{"part": name, "area_mm2": _known(mm2), "usd": _known(usd)} for name, mm2, usd in rows]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


_NEEDED = {
    "area_mm2": ("interface_area",),
    "unit_cost_usd": ("interface_area", "price"),
}
"""Quantities of an off-chip technology without which a metric has no value."""


def absent_metrics(
    values: Mapping[str, Sequence[Value]], library: Mapping[str, MemoryTechnology]
) -> dict[str, str]:
    """Why a metric has no value for some designs, by its name.

    Args:
        values: What each parameter may be.
        library: Memory technologies.
    """
    reasons: dict[str, str] = {}
    for name in values.get("sram_technology", ()):
        if name is not None and library[str(name)].unit == "device":
            why = f"{name} is all on-chip memory of a shipped device, whose area nobody knows"
            reasons |= dict.fromkeys(_NEEDED, why)
    tiers = [name for key in values if _TIER.match(key) for name in values[key]]
    for name in dict.fromkeys(str(name) for name in tiers if name is not None):
        for metric, quantities in _NEEDED.items():
            for quantity in quantities:
                if getattr(library[name], quantity) is None:
                    reasons.setdefault(metric, f"memory technology {name!r} states no {quantity}")
    return reasons


_TIER = re.compile(r"^tier\d_technology$")
