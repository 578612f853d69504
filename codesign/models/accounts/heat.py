"""Heat: power over the footprint, and the temperature of the base die below its layers.

A chain of thermal resistances: all heat leaves through the top of the stack; the base is at the
bottom, as in AMD's V-Cache, so that its heat crosses every layer, and that of a layer all those
above it. Limiting assumptions: each die spreads its heat evenly over its footprint, nothing flows
sideways or down, and every unit draws its thermal design power: hot spots are hotter still.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.accounts.account_constants import Constants, Cooling
from codesign.models.hardware.accelerator import AcceleratorBatch

DENSITY_LIMITS_W_PER_MM2: dict[Cooling, float] = {"air": 1.0, "liquid": 1.5}
"""Power over area that the classes of cooling carry away, as public specifications assume; an
NVIDIA A100 has 0.48 and an H100 0.86 at their TDP."""


@dataclass(frozen=True)
class Heat:
    """Power of ``n`` stacks; every array is (n,).

    Attributes:
        base_watts: Of the base dies.
        footprint_mm2: Of the base dies, through which all leaves.
        n_layers: Stacked layers.
    """

    base_watts: FloatArray
    layer_watts: FloatArray
    footprint_mm2: FloatArray
    n_layers: FloatArray

    @property
    def density_w_per_mm2(self) -> FloatArray:
        """(n,) power of a stack over its footprint."""
        return (self.base_watts + self.layer_watts) / self.footprint_mm2

    def junction_celsius(self, constants: Constants, cooling: Cooling) -> FloatArray:
        """(n,) temperature of the base."""
        resistance = {
            "air": constants.air_kelvin_mm2_per_watt,
            "liquid": constants.liquid_kelvin_mm2_per_watt,
        }[cooling]
        # The base's heat crosses n layers; that of layer i the n - i above it, which add up to
        # (n - 1) / 2 for each watt of all layers.
        crossings = self.base_watts * self.n_layers
        crossings = crossings + self.layer_watts * np.maximum(self.n_layers - 1.0, 0.0) / 2.0
        within = constants.layer_kelvin_mm2_per_watt * crossings / self.footprint_mm2
        outside = resistance * self.density_w_per_mm2
        return np.asarray(constants.ambient_celsius + outside + within)


def heat_of(
    hardware: AcceleratorBatch,
    watts: Mapping[str, FloatArray],
    footprint_mm2: FloatArray,
    constants: Constants,
) -> Heat:
    """Thermal design power of ``n`` accelerators on their base dies and layers.

    On-chip memory spreads its power over its bytes; of an off-chip memory's, the part of its
    interface is on the die.

    Args:
        watts: (n,) by component, as :func:`codesign.models.hardware.power.thermal_design_watts` has
            them. footprint_mm2: (n,) of all base dies.
    """
    stacked = hardware.layer_bytes * hardware.n_layers
    on_chip = stacked + hardware.planar_sram_bytes
    share = np.divide(stacked, on_chip, out=np.zeros_like(stacked), where=on_chip > 0)
    layer_watts = watts["on_chip"] * share
    tiers = sum(
        (values for name, values in watts.items() if name.startswith("tier")),
        start=np.zeros(len(share)),
    )
    base_watts = watts["array"] + watts["vector"] + watts["on_chip"] * (1.0 - share)
    base_watts = base_watts + constants.die_interface_power_share * tiers
    return Heat(base_watts, layer_watts, footprint_mm2, hardware.n_layers)
