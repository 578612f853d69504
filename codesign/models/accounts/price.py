"""Price to make one accelerator, by part and without margin, and its number of dies.

Of 1, 2, 4, ... equal dies that fit the reticle, a design has the number with which it costs least,
so that a larger design never costs less.

.. [Feng2022] Feng and Ma, "Chiplet Actuary", DAC 2022, arXiv:2203.12268: known good dies, packages
   that lose all that is on them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codesign.base.columns import Arrays, BoolArray, FloatArray
from codesign.base.records import frozen
from codesign.models.accounts.account_constants import Constants
from codesign.models.accounts.area import Floorplan
from codesign.models.accounts.dies import Stacks, cut_into, repeated, stacks_usd
from codesign.models.hardware.accelerator import MemoryLevels

INTERPOSER_MARGIN = 1.1
"""Area of an interposer over that of what stands on it [ours]."""
NUMBERS_OF_DIES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Dies that a base may be cut into."""
ALWAYS_TRIED, LARGE_MM2 = 4.0, 1200.0
"""More dies than the first can pay only for a base of more than the second."""


@frozen
class PricedAccelerators:
    """``n`` accelerators as they are made; every array is (n,).

    Attributes:
        package_usd: Interposer or substrate.
        memory_usd: (t, n) the memories of each tier.
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
        return np.asarray(stacks_usd(self.stacks) + self.package_usd + bought + self.lost_usd)

    @property
    def parts(self) -> Arrays:
        """(n,) dollars by part."""
        return {
            "compute dies": self.stacks.base_usd,
            "stacked layers": self.stacks.layers_usd,
            "bonding": self.stacks.bonding_usd,
            **{f"tier{i}": usd for i, usd in enumerate(self.memory_usd, start=1)},
            "package": self.package_usd,
            "test and assembly": np.full_like(self.package_usd, self.assembly_usd),
            "assembly losses": self.lost_usd,
        }


def cheapest_unit(
    plan: Floorplan,
    levels: MemoryLevels,
    constants: Constants,
) -> PricedAccelerators:
    """The accelerators, cut into the numbers of dies with which they cost least.

    Memories beside the die, or several dies, stand on an interposer; any other design has an
    organic substrate. A part or an interposer that fails as it is attached loses all that is on the
    package.
    """
    units = units_by_count(plan, levels, constants, plan.base_mm2 > LARGE_MM2)
    best, best_usd = next(units)
    for unit, usd in units:
        is_better = (usd < best_usd) | (np.isnan(best_usd) & ~np.isnan(usd))
        if is_better.any():
            stacks = (
                np.where(is_better, *pair) for pair in zip(unit.stacks, best.stacks, strict=True)
            )
            best = PricedAccelerators(
                Stacks(*stacks),
                np.where(is_better, unit.package_usd, best.package_usd),
                best.memory_usd,
                best.assembly_usd,
                np.where(is_better, unit.lost_usd, best.lost_usd),
            )
            best_usd = np.where(is_better, usd, best_usd)
    return best


def units_by_count(
    plan: Floorplan, levels: MemoryLevels, constants: Constants, is_large: BoolArray
) -> Iterator[tuple[PricedAccelerators, FloatArray]]:
    """The accelerators cut into each number of dies, and the part of the price that it decides.

    For a fixed number of dies, price, area and wafer area grow with the area of the base. The
    deciding part is NaN where a die does not fit the reticle.

    Args:
        is_large: (n,) designs that may have more than ``ALWAYS_TRIED`` dies.
    """
    memory_usd = levels.price_usd[1:] * constants.memory_price_factor
    area_mm2 = levels.package_area_mm2[1:]
    n_beside = levels.packaged_units[1:].sum(axis=0)
    beside_mm2 = area_mm2.sum(axis=0)
    # Lost with a package that fails: the memories on it, and the assembly.
    beside_usd = np.where(area_mm2 > 0, memory_usd, 0.0).sum(axis=0) + constants.assembly_usd
    per_mm2 = INTERPOSER_MARGIN * constants.interposer_usd_per_mm2
    for n_dies in NUMBERS_OF_DIES:
        allowed = is_large if n_dies > ALWAYS_TRIED else np.ones_like(is_large)
        if not allowed.any():
            return
        stacks = cut_into(n_dies, plan, constants)
        die_mm2 = n_dies * stacks.base_mm2
        needs_interposer = (n_dies > 1) | (beside_mm2 > 0)
        on_interposer = (die_mm2 + beside_mm2) * per_mm2
        package_usd = np.where(
            needs_interposer, on_interposer, die_mm2 * constants.substrate_usd_per_mm2
        )
        made_usd = stacks_usd(stacks) + package_usd
        at_stake = made_usd + beside_usd
        good_share = repeated(1.0 - constants.attach_loss, n_dies + n_beside)
        good_share = good_share * np.where(needs_interposer, 1.0 - constants.interposer_loss, 1.0)
        lost_usd = at_stake / good_share - at_stake
        # Memories without a price count as free here, so that the number of dies is known.
        decided = np.where(np.isnan(beside_usd), made_usd, at_stake) / good_share
        unit = PricedAccelerators(stacks, package_usd, memory_usd, constants.assembly_usd, lost_usd)
        yield unit, np.where(allowed, decided, np.nan)
