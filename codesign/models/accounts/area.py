"""Area of every block of a compute die, and of the layers stacked on it.

The floorplan is a square base with all interfaces along its four sides: PHYs of memories, links and
host, and a reserve for corners and other pads. Where the sides are full, the base grows until they
are not. A base of several dies is cut from this square, so that its outline stays.

Limiting assumptions: logic has one density for all blocks; interfaces keep their area in any
process; the whole of a 3D layer is one SRAM macro; interfaces and their share of the uncore stand
beside what is stacked, as on the base dies of AMD's MI300, so a base die is at least as large as
one layer and these. A MAC grows with the product of its operands' widths, as in
:func:`codesign.models.hardware.power.mac_energy_joules`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.records import frozen
from codesign.models.accounts.account_constants import Constants
from codesign.models.hardware.accelerator import AcceleratorBatch
from codesign.models.hardware.formula_operations import Places, sum_of

RETICLE_MM2 = 858.0
"""Field of a lithography scanner, 26 mm x 33 mm: no die is larger."""


class Blocks(NamedTuple):
    """Areas in mm2 of the blocks of the base.

    Attributes:
        array: Matrix array.
        vector: Vector unit.
        sram: On-chip memory that is not stacked.
        tiers: PHYs of each tier.
        links: To other devices.
        host: Its interface.
        uncore: Control, network, clocks and gaps.
        filler: Room where a layer, or the interfaces along the sides, need more than all else.
    """

    array: FloatArray
    vector: FloatArray
    sram: FloatArray
    tiers: Places
    links: Floats
    host: Floats
    uncore: FloatArray
    filler: FloatArray


@frozen
class Floorplan:
    """Areas of ``n`` accelerators before they are cut into dies; every array is (n,).

    Attributes:
        blocks: Of the base.
        layer_mm2: Of one stacked layer; 0 without.
        n_layers: Stacked layers.
        edge_mm: Sides that interfaces take, with the reserve.
    """

    blocks: Blocks
    layer_mm2: FloatArray
    n_layers: FloatArray
    edge_mm: FloatArray

    @property
    def base_mm2(self) -> FloatArray:
        """(n,) area of the base: all that stands beside one another."""
        blocks = self.blocks
        inside = sum_of((blocks.array + blocks.vector + blocks.sram, *blocks.tiers))
        return inside + blocks.links + blocks.host + blocks.uncore + blocks.filler

    @property
    def outline_mm(self) -> FloatArray:
        """(n,) length of the four sides of the base."""
        return 4.0 * np.sqrt(self.base_mm2)


def mac_mtransistors(
    first_bits: FloatArray, second_bits: FloatArray, constants: Constants
) -> FloatArray:
    """Millions of transistors of a multiply-accumulate unit for operands of two widths.

    Examples:
        >>> from codesign.models.accounts.account_constants import constants_at
        >>> unit = mac_mtransistors(8.0, 8.0, constants_at("n7"))
        >>> round(float(unit), 6)  # 2.1 x (34 x 64 + 2430) transistors
        0.009673
    """
    bare = constants.transistors_per_bit_product * first_bits * second_bits
    return constants.mac_overhead * (bare + constants.mac_fixed_transistors) / 1e6


def sram_mm2(capacity_bytes: FloatArray, constants: Constants) -> FloatArray:
    """Area of an SRAM, decoders included."""
    return capacity_bytes / 1e6 * constants.sram_mm2_per_megabyte


def edge_mm(
    memory_edge_m: FloatArray, link_and_host_mm2: Floats, constants: Constants
) -> FloatArray:
    """Length of the sides that interfaces take, with the reserve."""
    beside = link_and_host_mm2 * constants.edge_mm_per_interface_mm2
    return (memory_edge_m * 1e3 + beside) * (1.0 + constants.edge_reserve_share)


def outline_mm2(edge: FloatArray) -> FloatArray:
    """Area of the square whose four sides are as long as an edge.

    Examples:
        >>> outline_mm2(80.0)
        400.0
    """
    return (edge / 4.0) * (edge / 4.0)


def floorplan(
    hardware: AcceleratorBatch,
    first_bits: FloatArray,
    second_bits: FloatArray,
    constants: Constants,
    link_bytes_per_s: float = 0.0,
) -> Floorplan:
    """The blocks of ``n`` accelerators.

    Args:
        first_bits: (n,) width of the array's one operand.
        second_bits: (n,) width of the other.
        link_bytes_per_s: To other devices, one way; 0 without.

    Returns:
        NaN in a block whose area is not stated.
    """
    logic = constants.logic_mm2_per_mtransistor
    levels = hardware.levels
    layer_mm2 = sram_mm2(hardware.layer_bytes, constants)
    interfaces = tuple(levels.interface_area_mm2[1:])
    array = hardware.macs_per_cycle * mac_mtransistors(first_bits, second_bits, constants) * logic
    vector = hardware.vector_length * (constants.lane_mtransistors * logic)
    sram = sram_mm2(hardware.planar_sram_bytes, constants)
    links = link_bytes_per_s / 1e9 * constants.link_mm2_per_gigabyte_per_s
    host = constants.host_interface_mm2
    inside = sum_of((array + vector + sram, *interfaces)) + links + host
    uncore = constants.uncore_share * inside
    covered = layer_mm2 + (sum_of(interfaces) + links + host) * (1.0 + constants.uncore_share)
    covered = np.where(layer_mm2 > 0, covered, 0.0)
    edge = edge_mm(levels.die_edge_m, links + host, constants)
    filler = np.maximum(np.maximum(covered, outline_mm2(edge)) - inside - uncore, 0.0)
    blocks = Blocks(array, vector, sram, interfaces, links, host, uncore, filler)
    return Floorplan(blocks, layer_mm2, hardware.n_layers, edge)
