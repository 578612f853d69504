"""Heat of the blocks of a base and of what is stacked on it.

Conduction is linear, so a temperature is a sum over rectangular sources. A stack is a chain of
plates of silicon, joined by resistances; all heat leaves through its top, and its sides and its
bottom are insulated. Cosines along both sides of the base then solve the conduction in each plate
exactly, mode by mode. The base lies at the bottom, as in AMD's V-Cache, so its heat crosses every
layer. The finite-volume solution of ``python -m validation heat`` checks the temperatures.

Limiting assumptions: structural silicon stands beside the layers, as beside the V-Cache; every unit
draws its thermal design power; a block spreads its own heat evenly. The array's units draw the
power of their transistors, the same ones that give their area. Clocks, control and network draw the
rest of the array's power, spread over the base. Memories beside the base are cooled separately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from codesign.base.columns import ArrayDict, ArrayPair, Arrays, FloatArray
from codesign.base.records import frozen
from codesign.models.accounts.account_constants import Constants, Cooling
from codesign.models.accounts.area import mac_mtransistors
from codesign.models.accounts.placement import Placement
from codesign.models.hardware.accelerator import AcceleratorBatch

LOGIC_LIMIT_CELSIUS, DRAM_LIMIT_CELSIUS = 105.0, 95.0
"""Highest junction temperatures of logic and SRAM, and of DRAM in extended range (JESD79)."""

SILICON_WATTS_PER_MM_KELVIN = 0.12
"""Conductivity of silicon near 80 degC, doped."""
WAFER_MM, BASE_MM, LAYER_MM = 0.775, 0.1, 0.05
"""Thickness of a bare die (SEMI M1, a wafer of 300 mm), a base below layers, a layer [ours]."""
_N_MODES = (14, 24)
"""Cosines along width and height; blocks are thin bands across the height."""
_CHUNK = 128
"""Designs at once, so that their modes stay in the cache."""


class Sources(NamedTuple):
    """Power of ``n`` stacks; every array is (n,).

    Attributes:
        blocks: Watts of blocks of the base by name, beyond their part of ``spread``.
        spread: Watts all over the base.
        layers: Watts of all SRAM layers.
        n_layers: SRAM layers.
        dram: Watts of the DRAM that is bonded on top.
        n_dram: 1 with such DRAM, else 0.
    """

    blocks: Arrays
    spread: FloatArray
    layers: FloatArray
    n_layers: FloatArray
    dram: FloatArray
    n_dram: FloatArray

    @property
    def base(self) -> FloatArray:
        """(n,) watts of the base."""
        return sum(self.blocks.values(), start=self.spread)

    @property
    def limit_celsius(self) -> FloatArray:
        """(n,) junction that none of the dies exceeds; DRAM is as hot as the base below it."""
        return np.where(self.n_dram > 0, DRAM_LIMIT_CELSIUS, LOGIC_LIMIT_CELSIUS)

    def density_w_per_mm2(self, footprint_mm2: FloatArray) -> FloatArray:
        """(n,) power of a stack over its footprint."""
        return (self.base + self.layers + self.dram) / footprint_mm2

    def mean_celsius(
        self, footprint_mm2: FloatArray, constants: Constants, cooling: Cooling
    ) -> FloatArray:
        """(n,) mean temperature of the base, which its hottest block cannot be below."""
        n = self.n_layers
        stacked = self.n_layers + self.n_dram
        silicon = LAYER_MM / SILICON_WATTS_PER_MM_KELVIN
        bond = constants.layer_kelvin_mm2_per_watt
        outside = _outside(constants, cooling)
        plate = _base_mm(stacked) / SILICON_WATTS_PER_MM_KELVIN
        of_base = self.base * (outside + plate + stacked * (silicon + bond))
        above = stacked - (n + 1.0) / 2.0  # layers over the middle one of SRAM
        of_layers = self.layers * (outside + (above + 1.0) * silicon + above * bond)
        of_dram = self.dram * (outside + silicon)
        kelvin = (of_base + np.where(n > 0, of_layers, 0.0) + of_dram) / footprint_mm2
        return constants.ambient_celsius + kelvin


def sources_of(
    hardware: AcceleratorBatch,
    watts: Arrays,
    operand_bits: FloatArray,
    filled_rows: FloatArray,
    constants: Constants,
) -> Sources:
    """Thermal design power of ``n`` accelerators by the place where it becomes heat.

    On-chip memory spreads its power over its bytes. The interface's share of the power of
    off-chip reads is on the base. A memory at rest warms only itself.

    Args:
        watts: (n,) by component, see :func:`codesign.models.hardware.power.thermal_design_watts`.
        operand_bits: (2, n) widths of the array's two operands.
        filled_rows: (n,) share of the array's rows that hold data at most.
    """
    levels = hardware.levels
    n = len(hardware.n_layers)
    stacked = hardware.layer_bytes * hardware.n_layers
    on_chip = stacked + hardware.planar_sram_bytes
    share = np.divide(stacked, on_chip, out=np.zeros(n), where=on_chip > 0)
    clock = hardware.clock_hz * constants.operation_energies.clock_scale(hardware.clock_hz)
    unit_joules = mac_mtransistors(operand_bits[0], operand_bits[1], constants) * (
        constants.active_joules_per_mtransistor * constants.logic_energy_scale
    )
    units = np.minimum(hardware.macs_per_cycle * clock * unit_joules * filled_rows, watts["array"])
    blocks = {
        "array": units, "vector": watts["vector"], "on_chip": watts["on_chip"] * (1.0 - share),
    }  # fmt: skip
    dram = np.zeros(n)
    n_dram = np.zeros(n)
    edges = (levels.shoreline_m + levels.uncharged_shoreline_m)[1:]
    for tier, (edge, exists) in enumerate(zip(edges, levels.exists[1:], strict=True), start=1):
        crossing = constants.die_interface_power_share * levels.peak_read_watts[tier]
        blocks[f"tier{tier} interface"] = crossing
        is_bonded = exists & (edge <= 0.0)
        dram += np.where(is_bonded, watts[f"tier{tier}"] - crossing, 0.0)
        n_dram = np.maximum(n_dram, is_bonded)
    layers = watts["on_chip"] * share
    return Sources(blocks, watts["array"] - units, layers, hardware.n_layers, dram, n_dram)


def block_densities(sources: Sources, placement: Placement) -> FloatArray:
    """(1 + r, n) power over area: of the whole base, then of the block of each rectangle."""
    densities, spread = _densities(sources, placement)
    mean = sources.base / placement.sides_mm.prod(axis=0)
    return np.concatenate([mean[None], densities + spread])


@frozen
class Temperatures:
    """Temperatures of the ``r`` rectangles of a placement, (r, n), where each is hottest."""

    celsius: FloatArray
    hottest_celsius: FloatArray


def temperatures(
    sources: Sources, placement: Placement, constants: Constants, cooling: Cooling
) -> Temperatures:
    """Temperatures of the blocks of ``n`` bases; NaN for a rectangle without power of its own."""
    mean = sources.mean_celsius(placement.sides_mm.prod(axis=0), constants, cooling)
    n = len(mean)
    celsius = np.full((len(placement.names), n), np.nan)
    highest = np.full(n, np.nan)
    densities, _ = _densities(sources, placement)
    # The same rectangles in each batch, so that a design has the same sums in all of them.
    there = np.flatnonzero([name in sources.blocks for name in placement.names])
    stacked = sources.n_layers + sources.n_dram
    kelvin_mm2_per_watt = _outside(constants, cooling), constants.layer_kelvin_mm2_per_watt
    layer_mm2 = placement.layers[2] * placement.layers[3]
    of_layers = np.divide(sources.layers, layer_mm2, out=np.zeros(n), where=layer_mm2 > 0)
    for begin in range(0, n, _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        x, y, width, height = (
            values[there, chunk].T
            for values in (placement.x, placement.y, placement.width, placement.height)
        )
        sides = placement.sides_mm[:, chunk]
        along = _Waves.build(x, width, sides[0], _N_MODES[0])
        across = _Waves.build(y, height, sides[1], _N_MODES[1])
        layer = placement.layers[:, chunk]
        layer_waves = [
            _Waves.build(layer[axis][:, None], layer[axis + 2][:, None], sides[axis], n_modes)
            for axis, n_modes in enumerate(_N_MODES)
        ]
        base, per_layer = _responses(
            sides, sources.n_layers[chunk], stacked[chunk], *kelvin_mm2_per_watt
        )
        weighted = along.integrals * densities[there, chunk].T[:, :, None]
        power = np.matmul(weighted.transpose(0, 2, 1), across.integrals)
        power = power * base
        stacked_power = layer_waves[0].integrals * of_layers[chunk, None, None]
        power += np.matmul(stacked_power.transpose(0, 2, 1), layer_waves[1].integrals) * per_layer
        power[:, 0, 0] = 0.0  # the mean, which has all sources
        # Heat of several blocks meets at corners and at the ends of a band.
        places = np.matmul(np.matmul(along.spots, power), across.spots.transpose(0, 2, 1))
        highest[chunk] = places.max(axis=(1, 2), initial=-np.inf) + mean[chunk]
        rise = np.diagonal(places, axis1=1, axis2=2)
        is_there = (densities[there, chunk].T > 0) & (width * height > 0)
        celsius[there, chunk] = (np.where(is_there, rise, np.nan) + mean[chunk, None]).T
    return Temperatures(celsius, np.where(np.isnan(mean), np.nan, np.fmax(highest, mean)))


class _Waves(NamedTuple):
    """Cosines along one side, for (c, r) intervals.

    Attributes:
        integrals: (c, r, m) over each interval, so that sums over modes have the right weights.
        spots: (c, r, m) at the end of an interval that touches an end of the side, which lets no
            heat pass; else in the middle.
    """

    integrals: FloatArray
    spots: FloatArray

    @classmethod
    def build(cls, begin: FloatArray, length: FloatArray, side: FloatArray, n_modes: int) -> _Waves:
        """Cosines over intervals of a side, (c,) in mm."""
        scale = (np.pi / side)[:, None]
        middle = (begin + 0.5 * length) * scale
        half = 0.5 * length * scale
        middles = _multiples(middle, np.cos, n_modes)
        # An interval of half width h around c has the integral 2 cos(m c) sin(m h) / m.
        halves = _multiples(half, np.sin, n_modes)
        integrals = middles * halves * (4.0 / np.pi / np.maximum(np.arange(n_modes), 1))
        integrals[..., 0] = length / side[:, None]
        end = (side[:, None] - begin - length) < 1e-9
        spot = np.where(begin < 1e-9, 0.0, np.where(end, np.pi, middle))
        return cls(integrals, _multiples(spot, np.cos, n_modes))


def _multiples(
    angle: FloatArray, function: Callable[[FloatArray], FloatArray], n_modes: int
) -> FloatArray:
    """(c, r, m) cosines or sines of multiples of angles, each from the two before it."""
    twice = 2.0 * np.cos(angle)
    values = np.empty((*angle.shape, n_modes))
    values[..., 0] = function(np.zeros_like(angle))
    values[..., 1] = function(angle)
    for number in range(2, n_modes):
        values[..., number] = twice * values[..., number - 1] - values[..., number - 2]
    return values


def _densities(sources: Sources, placement: Placement) -> ArrayPair:
    """(r, n) power of each rectangle over its area beyond what is spread, and (n,) that."""
    areas = placement.width * placement.height
    totals: ArrayDict = {}
    for name, area in zip(placement.names, areas, strict=True):
        totals[name] = totals.get(name, 0.0) + area
    nothing = np.zeros_like(sources.spread)
    by_name = {
        name: np.divide(sources.blocks.get(name, nothing), total, out=np.zeros_like(total),
                        where=total > 0)
        for name, total in totals.items()
    }  # fmt: skip
    spread = sources.spread / placement.sides_mm.prod(axis=0)
    return np.stack([by_name[name] for name in placement.names]), spread


def _outside(constants: Constants, cooling: Cooling) -> float:
    return {
        "air": constants.air_kelvin_mm2_per_watt,
        "liquid": constants.liquid_kelvin_mm2_per_watt,
    }[cooling]


def _base_mm(stacked: FloatArray) -> FloatArray:
    return np.where(stacked > 0, BASE_MM, WAFER_MM)


def _responses(
    sides_mm: FloatArray, n_layers: FloatArray, stacked: FloatArray, outside: float, bond: float
) -> ArrayPair:
    """(c, m, m) temperature of the base for one watt per mm2 of a mode, in it or in all layers.

    Args:
        n_layers: SRAM layers, the lowest of the stacked ones.
        stacked: All stacked layers: the SRAM layers, and DRAM on top.
        outside: Thermal resistance between the top and the coolant, kelvin mm2 per watt.
        bond: Thermal resistance between one plate and the next, kelvin mm2 per watt.
    """
    along, across = (
        (np.arange(n_modes) * (np.pi / side)[:, None]) ** 2
        for n_modes, side in zip(_N_MODES, sides_mm, strict=True)
    )
    wave = np.sqrt(np.maximum(along[:, :, None] + across[:, None, :], 1e-18))
    conductance = SILICON_WATTS_PER_MM_KELVIN * wave
    upward = np.full_like(wave, 1.0 / outside)
    passes = []
    n_plates = int(stacked.max(initial=0.0))
    if n_plates:
        tangent = np.tanh(wave * LAYER_MM)
        cosine = 1.0 / np.sqrt(1.0 - tangent * tangent)
    for number in range(n_plates, 0, -1):  # from the top; 1 lies on the base
        is_there = (number <= stacked)[:, None, None]
        through = 1.0 / (cosine * (1.0 + upward / conductance * tangent))
        below = _through_plate(upward, conductance, tangent)
        crossed = 1.0 / (1.0 + bond * below)
        passes.append((number, np.where(is_there, through, 1.0), np.where(is_there, crossed, 1.0)))
        upward = np.where(is_there, below * crossed, upward)
    tangent = np.tanh(wave * _base_mm(stacked)[:, None, None])
    base = 1.0 / _through_plate(upward, conductance, tangent)
    # By reciprocity, a watt in a layer warms the base as a watt in the base warms that layer.
    reached = np.sqrt(1.0 - tangent * tangent) / (1.0 + upward / conductance * tangent) * base
    per_layer = np.zeros_like(base)
    for number, through, crossed in reversed(passes):
        reached = reached * crossed
        is_sram = (number <= n_layers)[:, None, None]
        per_layer += np.where(is_sram, reached, 0.0) / np.maximum(n_layers, 1.0)[:, None, None]
        reached = reached * through
    return base, per_layer


def _through_plate(upward: FloatArray, conductance: FloatArray, tangent: FloatArray) -> FloatArray:
    """Heat flow into a plate per kelvin at its bottom, given the flow per kelvin at its top."""
    return conductance * (upward + conductance * tangent) / (conductance + upward * tangent)
