"""Bounds on area, price, carbon and footprint of designs that are decided in part.

The number of dies of a design is that of the least price, so neither area nor carbon grows with
the hardware: a larger base may be cut into more dies, of which fewer fail. For a fixed number of
dies every account grows with the area of the base. So the bound of an account is its least value
over the numbers of dies that a design may have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from codesign.base.columns import ArrayPair, FloatArray
from codesign.evaluators.npu.cost_metrics import SiliconMetrics
from codesign.evaluators.npu.preparation import Preparation
from codesign.models.accounts.area import RETICLE_MM2
from codesign.models.accounts.carbon import embodied_kgco2e
from codesign.models.accounts.price import LARGE_MM2, PricedAccelerators, units_by_count
from codesign.models.hardware.accelerator import AcceleratorBatch

_ROUNDING = 1.0 + 1e-9
"""Prices this close may have either order once they are rounded."""


class SiliconBounds(SiliconMetrics):
    """Least accounts and largest footprint of ``n`` designs that are decided in part.

    Args:
        hardware: The least and the largest.
        operand_bits: (2, n) the narrowest and the widest operands.
        filled_rows: (n,) share of the array's rows that hold data in the largest batch, at least.
    """

    def __init__(
        self,
        hardware: tuple[AcceleratorBatch, AcceleratorBatch],
        operand_bits: ArrayPair,
        preparation: Preparation,
        filled_rows: FloatArray,
    ) -> None:
        super().__init__(hardware[0], operand_bits[0], preparation, filled_rows, {})
        self._largest = SiliconMetrics(hardware[1], operand_bits[1], preparation, filled_rows, {})

    @cached_property
    def _cuts(self) -> list[tuple[PricedAccelerators, PricedAccelerators, FloatArray]]:
        """Least and most by number of dies, with (n,) 0 where a design may have it, else NaN.

        A number is left out where another one certainly costs less.
        """
        levels = self._hardware.levels
        constants = self.constants
        is_large = self._largest.plan.base_mm2 > LARGE_MM2
        smallest = list(units_by_count(self.plan, levels, constants, is_large))
        largest = list(units_by_count(self._largest.plan, levels, constants, is_large))
        enough_usd = np.fmin.reduce([usd for _, usd in largest])
        enough_usd = np.where(np.isnan(enough_usd), np.inf, enough_usd * _ROUNDING)
        return [
            (small, large, np.where(usd <= enough_usd, 0.0, np.nan))
            for (small, usd), (large, _) in zip(smallest, largest, strict=True)
        ]

    def _least(self, account: Callable[[PricedAccelerators], FloatArray]) -> FloatArray:
        of_numbers = [account(small) + mask for small, _, mask in self._cuts]
        return np.asarray(np.fmin.reduce(of_numbers) * self._n_devices)

    @property
    def area_mm2(self) -> FloatArray:
        return self._least(self.die_mm2)

    @cached_property
    def unit_cost_usd(self) -> FloatArray:
        return self._least(lambda unit: unit.usd)

    @cached_property
    def embodied_kgco2e(self) -> FloatArray:
        levels = self._hardware.levels
        return self._least(lambda unit: embodied_kgco2e(unit.stacks, levels, self.constants))

    @property
    def block_density_w_per_mm2(self) -> FloatArray:
        """(n,) mean density of the base, at least; the densest block is not below it."""
        return self.sources.base / self.footprint_mm2

    @cached_property
    def junction_temperature_celsius(self) -> FloatArray:
        """(n,) mean temperature of the base, at least; the hottest block is not below it."""
        return self.sources.mean_celsius(self.footprint_mm2, self.constants, self._options.cooling)

    @property
    def footprint_mm2(self) -> FloatArray:
        """(n,) base dies of one device, at most; each of them fits the reticle."""
        return np.asarray(
            np.fmax.reduce(
                [
                    cut.stacks.n_dies * np.fmin(cut.stacks.base_mm2, RETICLE_MM2) + mask
                    for _, cut, mask in self._cuts
                ]
            )
        )
