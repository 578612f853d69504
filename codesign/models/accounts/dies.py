"""Dies that work: their yield, and the price of a good stack of them.

A base that is larger than the reticle is cut into equal dies, its layers likewise. Limiting
assumptions: dies are cut without regard to blocks, and cost no time; a die is tested before it is
bonded, so that a bad one wastes itself alone.

.. [Feng2022] Feng and Ma, "Chiplet Actuary: A Quantitative Cost Model and Multi-Chiplet
   Architecture Exploration", DAC 2022, arXiv:2203.12268: yield, good dies, packages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.models.accounts.account_constants import Constants
from codesign.models.accounts.area import RETICLE_MM2, Floorplan

WAFER_DIAMETER_MM = 300.0


class Stacks(NamedTuple):
    """The dies of ``n`` accelerators, cut and bonded; every array is (n,).

    Attributes:
        n_dies: Base dies of one accelerator, each with its own layers on top.
        base_mm2: Of one base die.
        layer_mm2: Of one die of a layer.
        base_usd: All base dies that are good.
        layers_usd: All dies of layers that are good.
        bonding_usd: Bonding, and the good dies lost by it.
        wafer_mm2: Of wafer for all of them, the bad dies included.
    """

    n_dies: FloatArray
    base_mm2: FloatArray
    layer_mm2: FloatArray
    base_usd: FloatArray
    layers_usd: FloatArray
    bonding_usd: FloatArray
    wafer_mm2: FloatArray


def dies_per_wafer(area_mm2: FloatArray) -> FloatArray:
    """Whole dies on a wafer, as a smooth function of their area ([Feng2022]_; de Vries 2005).

    Examples:
        >>> round(float(dies_per_wafer(100.0)), 1)  # pi 150^2 / 100 - pi 300 / sqrt(200)
        640.2
    """
    radius = WAFER_DIAMETER_MM / 2
    return np.pi * radius**2 / area_mm2 - np.pi * WAFER_DIAMETER_MM / np.sqrt(2.0 * area_mm2)


def die_yield(area_mm2: FloatArray, constants: Constants) -> FloatArray:
    """Part of the dies that work: negative binomial, of the defects that nothing tolerates.

    Examples:
        >>> from codesign.models.accounts.account_constants import constants_at
        >>> round(float(die_yield(800.0, constants_at("n5", "high"))), 3)  # (1 + 8 x 0.15 / 10)^-10
        0.322
    """
    fatal = area_mm2 / 100.0 * constants.defects_per_cm2 * constants.fatal_share
    clustering = constants.defect_clustering
    return (1.0 + fatal / clustering) ** -clustering


def die_usd(area_mm2: FloatArray, constants: Constants) -> FloatArray:
    """Dollars of a tested die, good or bad; 0 for no area."""
    area = np.maximum(area_mm2, 1e-9)
    cost = constants.wafer_usd / dies_per_wafer(area) + constants.test_usd_per_mm2 * area
    return np.where(area_mm2 > 0, cost, area_mm2)


def repeated(share: float, times: FloatArray) -> FloatArray:
    """(n,) a share to the power of whole numbers, of which there are few."""
    return (share ** np.arange(int(np.max(times, initial=0.0)) + 1.0))[times.astype(np.int64)]


def distinct_few(values: FloatArray) -> tuple[FloatArray, IntArray | slice]:
    """Numbers among which all (n,) values are, and where each is: of 0 and another one, if so."""
    largest = np.max(values, initial=0.0)
    is_largest = values == largest
    if (is_largest | (values == 0.0)).all():
        return np.array([0.0, largest]), is_largest.astype(np.int64)
    return values, slice(None)


def stacks_usd(stacks: Stacks) -> FloatArray:
    """Dollars of all dies, bonded."""
    return stacks.base_usd + stacks.layers_usd + stacks.bonding_usd


def cut_into(n_dies: float, plan: Floorplan, constants: Constants) -> Stacks:
    """The dies of a plan whose base, and each layer, is cut into so many.

    Areas are NaN where they are not known, or a die does not fit the reticle.
    """
    own_links = 1.0 + (constants.die_to_die_share if n_dies > 1 else 0.0)
    base = plan.base_mm2 * own_links / n_dies
    layer = plan.layer_mm2 / n_dies
    base = np.where((base <= RETICLE_MM2) & (layer <= RETICLE_MM2), base, np.nan)
    # Layers have few areas, so they are looked up.
    few, number = distinct_few(layer)
    layer_usd = die_usd(few, constants)[number]
    layer_yield = die_yield(few, constants)[number]
    base_yield = die_yield(base, constants)
    kept_share = repeated(1.0 - constants.bond_loss, plan.n_layers)
    base_usd = n_dies * die_usd(base, constants) / base_yield
    n_layer_dies = n_dies * plan.n_layers
    layers_usd = n_layer_dies * layer_usd / layer_yield
    process_usd = n_layer_dies * layer * constants.bond_usd_per_mm2
    bonding_usd = (base_usd + layers_usd + process_usd) / kept_share - base_usd - layers_usd
    wafer_mm2 = (n_dies * base / base_yield + n_layer_dies * layer / layer_yield) / kept_share
    each = np.full_like(base, n_dies)
    return Stacks(each, base, layer, base_usd, layers_usd, bonding_usd, wafer_mm2)
