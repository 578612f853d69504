"""Area of every block of a compute die, and of the layers stacked on it.

Limiting assumptions: logic has one density for all blocks; interfaces keep their area in any
process; the whole of a 3D layer is one SRAM macro; interfaces and
their share of the uncore stand beside what is stacked, as on the base dies of AMD's MI300, so a
base die is at least as large as one layer and these. A MAC grows with the product of its operands'
widths, as in :func:`codesign.hardware.power.mac_energy_joules`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.accounts.constants import Constants
from codesign.columns import FloatArray
from codesign.hardware.accelerator import AcceleratorBatch

RETICLE_MM2 = 858.0
"""Field of a lithography scanner, 26 mm x 33 mm: no die is larger."""


@dataclass(frozen=True)
class Floorplan:
    """Areas of ``n`` accelerators before they are cut into dies; every array is (n,).

    Attributes:
        blocks: Area by block of the base: ``array``, ``vector``, ``sram``, ``tier1`` to ``tier3``
            (PHYs), ``links``, ``host``, ``uncore``, and ``filler``, where a layer is larger.
        layer_mm2: Of one stacked layer; 0 without.
        n_layers: Stacked layers.
    """

    blocks: dict[str, FloatArray]
    layer_mm2: FloatArray
    n_layers: FloatArray

    @property
    def base_mm2(self) -> FloatArray:
        """(n,) area of the base: all that stands beside one another."""
        return np.asarray(sum(self.blocks.values(), start=np.zeros(len(self.layer_mm2))))


def mac_mtransistors(
    first_bits: FloatArray, second_bits: FloatArray, constants: Constants
) -> FloatArray:
    """Millions of transistors of a multiply-accumulate unit for operands of two widths.

    Examples:
        >>> from codesign.accounts.constants import constants_at
        >>> unit = mac_mtransistors(8.0, 8.0, constants_at("n7"))
        >>> round(float(unit), 6)  # 2.1 x (34 x 64 + 2430) transistors
        0.009673
    """
    bare = constants.transistors_per_bit_product * first_bits * second_bits
    return np.asarray(constants.mac_overhead * (bare + constants.mac_fixed_transistors) / 1e6)


def sram_mm2(capacity_bytes: FloatArray, constants: Constants) -> FloatArray:
    """Area of an SRAM, decoders included."""
    return np.asarray(capacity_bytes / 1e6 * constants.sram_mm2_per_megabyte)


def floorplan(
    hardware: AcceleratorBatch,
    first_bits: FloatArray,
    second_bits: FloatArray,
    constants: Constants,
    link_bytes_per_s: float = 0.0,
) -> Floorplan:
    """The blocks of ``n`` accelerators.

    Args:
        hardware: The designs.
        first_bits: (n,) width of the array's one operand.
        second_bits: (n,) width of the other.
        constants: Of the process.
        link_bytes_per_s: To other devices, one way; 0 without.

    Returns:
        NaN in the block whose area nobody knows.
    """
    logic = constants.logic_mm2_per_mtransistor
    mac = mac_mtransistors(first_bits, second_bits, constants)
    n = len(hardware.array_depth)
    link_mm2 = link_bytes_per_s / 1e9 * constants.link_mm2_per_gigabyte_per_s
    interfaces = hardware.levels.interface_area_mm2[1:]
    blocks = {
        "array": hardware.macs_per_cycle * mac * logic,
        "vector": hardware.vector_length * (constants.lane_mtransistors * logic),
        "sram": sram_mm2(hardware.planar_sram_bytes, constants),
        **{f"tier{i}": values for i, values in enumerate(interfaces, start=1)},
        "links": np.full(n, link_mm2),
        "host": np.full(n, constants.host_interface_mm2),
    }
    known = sum(blocks.values(), start=np.zeros(n))
    blocks["uncore"] = constants.uncore_share * known
    layer_mm2 = sram_mm2(hardware.layer_bytes, constants)
    beside = interfaces.sum(axis=0) + link_mm2 + constants.host_interface_mm2
    covered = layer_mm2 + beside * (1.0 + constants.uncore_share)
    covered = np.where(layer_mm2 > 0, covered, 0.0)
    blocks["filler"] = np.maximum(covered - known - blocks["uncore"], 0.0)
    return Floorplan(blocks, layer_mm2, hardware.n_layers)
