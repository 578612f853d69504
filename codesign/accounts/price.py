"""What one accelerator costs to make, by part, without margin; and into how many dies it is cut.

Of 1, 2, 4, ... equal dies that fit the reticle, a design has the number with which it costs least,
so that a larger design never costs less.

.. [Feng2022] Feng and Ma, "Chiplet Actuary", DAC 2022, arXiv:2203.12268: known good dies, packages
   that lose all that is on them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from codesign.accounts.area import Floorplan
from codesign.accounts.constants import Constants
from codesign.accounts.dies import Stacks, cut_into, repeated
from codesign.columns import BoolArray, FloatArray
from codesign.hardware.accelerator import MemoryLevels

INTERPOSER_MARGIN = 1.1
"""Area of an interposer over that of what stands on it [ours]."""
NUMBERS_OF_DIES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Dies that a base may be cut into."""
_ALWAYS_TRIED, _LARGE_MM2 = 4.0, 1200.0
"""More dies than the first can pay only for a base of more than the second."""


@dataclass(frozen=True)
class Unit:
    """``n`` accelerators as they are made; every array is (n,).

    Attributes:
        stacks: Their dies.
        package_usd: Interposer or substrate.
        memory_usd: (3, n) the memories of each tier.
        assembly_usd: Final test and assembly.
        lost_usd: What goes with the packages that fail.
    """

    stacks: Stacks
    package_usd: FloatArray
    memory_usd: FloatArray
    assembly_usd: float
    lost_usd: FloatArray

    @property
    def usd(self) -> FloatArray:
        """(n,) all of it; NaN where nobody knows a price or an area."""
        bought = self.memory_usd.sum(axis=0) + self.assembly_usd
        return np.asarray(self.stacks.usd + self.package_usd + bought + self.lost_usd)

    @property
    def parts(self) -> dict[str, FloatArray]:
        """(n,) dollars by part."""
        memories = {f"tier{i}": usd for i, usd in enumerate(self.memory_usd, start=1)}
        return {
            "compute dies": self.stacks.base_usd,
            "stacked layers": self.stacks.layers_usd,
            "bonding": self.stacks.bonding_usd,
            **memories,
            "package": self.package_usd,
            "test and assembly": np.full_like(self.package_usd, self.assembly_usd),
            "assembly losses": self.lost_usd,
        }


def cheapest_unit(
    plan: Floorplan,
    levels: MemoryLevels,
    constants: Constants,
    numbers: tuple[float, ...] = NUMBERS_OF_DIES,
) -> Unit:
    """The accelerators, cut into the numbers of dies with which they cost least.

    Memories beside the die, or several dies, stand on an interposer; any other design has an
    organic substrate. A part that fails as it is attached loses all that is on the package.

    Args:
        plan: Their areas.
        levels: Their memories.
        constants: Of the process.
        numbers: Of dies that may be chosen, ascending.
    """
    bill = _Bill(plan, levels, constants)
    best, best_usd = bill.unit(numbers[0])
    for n_dies in numbers[1:]:
        allowed = bill.base_mm2 > _LARGE_MM2 if n_dies > _ALWAYS_TRIED else True
        if not np.any(allowed):
            break
        unit, usd = bill.unit(n_dies)
        is_better = ((usd < best_usd) | np.isnan(best_usd)) & allowed
        if is_better.any():
            best, best_usd = _chosen(is_better, unit, best), np.where(is_better, usd, best_usd)
    return best


class _Bill:
    """What of the price depends on the number of dies, and what does not."""

    def __init__(self, plan: Floorplan, levels: MemoryLevels, constants: Constants) -> None:
        self._plan, self._constants = plan, constants
        self.base_mm2 = plan.base_mm2
        self._memory_usd = levels.price_usd[1:] * constants.memory_price_factor
        area, units = levels.package_area_mm2[1:], levels.packaged_units[1:]
        self._beside_mm2, self._n_beside = area.sum(axis=0), units.sum(axis=0)
        packaged_usd = np.where(area > 0, self._memory_usd, 0.0).sum(axis=0)
        self._at_stake_usd = packaged_usd + constants.assembly_usd

    def unit(self, n_dies: float) -> tuple[Unit, FloatArray]:
        """The accelerators with so many dies, and the part of their price that this decides."""
        constants = self._constants
        stacks = cut_into(n_dies, self.base_mm2, self._plan, constants)
        die_mm2 = n_dies * stacks.base_mm2
        per_mm2 = INTERPOSER_MARGIN * constants.interposer_usd_per_mm2
        package_usd = (die_mm2 + self._beside_mm2) * per_mm2
        if n_dies == 1:
            plain = die_mm2 * constants.substrate_usd_per_mm2
            package_usd = np.where(self._beside_mm2 > 0, package_usd, plain)
        at_stake = stacks.usd + package_usd + self._at_stake_usd
        decided = at_stake / repeated(1.0 - constants.attach_loss, n_dies + self._n_beside)
        lost_usd = decided - at_stake
        unit = Unit(stacks, package_usd, self._memory_usd, constants.assembly_usd, lost_usd)
        return unit, decided


_STACK_FIELDS = tuple(item.name for item in fields(Stacks))


def _chosen(is_first: BoolArray, first: Unit, second: Unit) -> Unit:
    """Of two units of each design the first where it is to be."""
    stacks = (
        np.where(is_first, getattr(first.stacks, name), getattr(second.stacks, name))
        for name in _STACK_FIELDS
    )
    return Unit(
        Stacks(*stacks),
        np.where(is_first, first.package_usd, second.package_usd),
        second.memory_usd,
        second.assembly_usd,
        np.where(is_first, first.lost_usd, second.lost_usd),
    )
