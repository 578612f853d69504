"""Dies and prices of a batch of designs as compiled loops (see ``compiled.py``).

The loops call the very functions of ``accounts/``, on single numbers: the results have the same
bits as those of :func:`codesign.models.accounts.price.cheapest_unit`. A power is not correctly
rounded, so yields are computed by NumPy, between the loops. A number of dies is priced only where a
lower bound says that it may be the cheapest.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.models.accounts import area, dies, price
from codesign.models.accounts.account_constants import CONSTANTS, Constants
from codesign.models.hardware import formula_operations
from codesign.models.hardware.accelerator import AcceleratorBatch
from codesign.models.machines.npu.machine_code import compile_loop, functions_of

_LEVELS = (
    "interface_area_mm2",
    "price_usd",
    "package_area_mm2",
    "packaged_units",
    "shoreline_m",
    "uncharged_shoreline_m",
)
_ROUNDING = 1.0 - 1e-9
"""A lower bound is this much lower: more than its rounding, and that of a price."""
_N_FIELDS = len(dies.Stacks._fields) + 2
_N_INPUTS, _N_OUTPUTS = 11, _N_FIELDS + 1
_LANES = 64
"""Designs that are priced side by side, so that the compiler uses the widest registers."""

_Numbers = namedtuple("_Numbers", CONSTANTS)  # type: ignore[misc] # mypy wants fields written out
"""All constants as the loops take them."""


class _Plans(NamedTuple):
    """Numbers that do not depend on the number of dies; (n,) unless stated otherwise.

    Attributes:
        whole_mm2: Base before it is cut.
        layer_mm2: One stacked layer.
        beside_mm2: See :class:`codesign.models.accounts.price.Bill`.
        n_beside: See there.
        at_stake_usd: See there.
        stack_keeps: Part of the stacks that bonding its layers keeps.
        beside_keep: Part of the packages that attaching these memories keeps.
        n_layers: Stacked layers.
        layer_usd: (7, u) of a die of each kind of layer, for every number of dies.
        layer_yield: (7, u) of it.
        layer_kind: Which of them a design has.
        assembly_keeps: (a,) part of the packages that attaching so many parts keeps.
    """

    whole_mm2: FloatArray
    layer_mm2: FloatArray
    beside_mm2: FloatArray
    n_beside: FloatArray
    at_stake_usd: FloatArray
    stack_keeps: FloatArray
    beside_keep: FloatArray
    n_layers: FloatArray
    layer_usd: FloatArray
    layer_yield: FloatArray
    layer_kind: IntArray
    assembly_keeps: FloatArray


def compiled_cheapest_unit(
    hardware: AcceleratorBatch,
    operand_bits: FloatArray,
    link_bytes_per_s: float,
    constants: Constants,
) -> price.PricedAccelerators:
    """Compiled :func:`~codesign.models.accounts.price.cheapest_unit` of ``n`` accelerators.

    Args:
        operand_bits: (2, n) widths of the array's two operands.
        link_bytes_per_s: To other devices, one way; 0 without.
    """
    n = len(hardware.array_depth)
    numbers = _Numbers(*(getattr(constants, name) for name in CONSTANTS))
    fill_plans, find_several, fill_units = _loops()
    table, kinds = hardware.levels.tabulated(_LEVELS)
    n_tiers = len(kinds) - 1
    plans, memory_usd, factors = np.empty((7, n)), np.empty((n_tiers, n)), np.empty(n)
    most_parts = price.NUMBERS_OF_DIES[-1] + n_tiers * table[_LEVELS.index("packaged_units")].max()
    assembly_keeps = _powers(1.0 - constants.attach_loss, most_parts)
    most_layers = np.max(hardware.n_layers, initial=0.0)
    fill_plans(
        (hardware.array_depth, hardware.array_width, hardware.vector_length),
        (hardware.planar_sram_bytes, hardware.layer_bytes, hardware.n_layers),
        operand_bits,
        (table, kinds, tuple(range(n_tiers))),
        (_powers(1.0 - constants.bond_loss, most_layers), assembly_keeps),
        link_bytes_per_s,
        numbers,
        (plans, memory_usd, factors),
    )
    layers = _layer_dies(plans[1], constants)
    known_make = _Plans._make([*plans, hardware.n_layers, *layers, assembly_keeps])
    decided_usd, units = np.full(n, np.nan), np.empty((_N_FIELDS, n))
    cuts = np.arange(n), np.zeros(n, dtype=np.int64)
    fill_units(*cuts, dies.yield_of(factors, constants), known_make, numbers, decided_usd, units)
    largest_mm2 = float(np.max(known_make.whole_mm2, initial=0.0))  # NaN if one is not known
    *cuts, factors = find_several(known_make, largest_mm2, decided_usd, numbers)
    fill_units(*cuts, dies.yield_of(factors, constants), known_make, numbers, decided_usd, units)
    *stacks, package_usd, lost_usd = units
    return price.PricedAccelerators(
        dies.Stacks(*stacks), package_usd, memory_usd, constants.assembly_usd, lost_usd
    )


def _layer_dies(
    layer_mm2: FloatArray, constants: Constants
) -> tuple[FloatArray, FloatArray, IntArray]:
    """(7, u) price and yield of dies of layers by the number of dies, (n,) which of u each has."""
    few_mm2, kind = dies.distinct_few(layer_mm2)
    kinds = np.arange(len(layer_mm2)) if isinstance(kind, slice) else kind
    die_mm2 = few_mm2 / np.array(price.NUMBERS_OF_DIES)[:, None]
    return dies.die_usd(die_mm2, constants), dies.die_yield(die_mm2, constants), kinds


def _powers(share: float, most: float) -> FloatArray:
    """A share to the power of whole numbers, at their places."""
    return np.asarray(share ** np.arange(most + 1.0))


@cache
def _loops() -> tuple[Callable[..., Any], ...]:
    """The loops, their machine code read from the disk if it is there."""
    own: tuple[Callable[..., Any], ...] = (_of_tiers, _fill_least_usd, _price_block)
    helpers = (*functions_of(area, dies, price), *own)
    return tuple(compile_loop(loop, helpers) for loop in (_fill_plans, _find_several, _fill_units))


def _fill_plans(
    compute: Any,
    on_chip: Any,
    bits: FloatArray,
    levels: Any,
    keeps: Any,
    link_bytes_per_s: float,
    constants: Any,
    filled: Any,
) -> None:
    """Compiled: fills the first seven fields of :class:`_Plans`, (7, n), prices of tiers, (t, n).

    And what a power makes the yields of single dies, (n,).
    """
    plans, memory_usd, factors = filled
    (depth, width, lanes), (planar_bytes, layer_bytes, n_layers) = compute, on_chip
    (table, kinds, tiers), (bonding_keeps, assembly_keeps) = levels, keeps
    factor = constants.memory_price_factor
    for i in range(len(depth)):
        layer_mm2 = area.sram_mm2(layer_bytes[i], constants)
        blocks = area.blocks_of(
            (depth[i] * width[i], lanes[i], planar_bytes[i]),
            (bits[0, i], bits[1, i]),
            _of_tiers(tiers, table[0], kinds, i),
            layer_mm2,
            link_bytes_per_s,
            formula_operations.sum_of(_of_tiers(tiers, table[4], kinds, i))
            + formula_operations.sum_of(_of_tiers(tiers, table[5], kinds, i)),
            constants,
        )
        usd = formula_operations.products(_of_tiers(tiers, table[1], kinds, i), factor)
        bill = price.bill_of(
            usd,
            _of_tiers(tiers, table[2], kinds, i),
            _of_tiers(tiers, table[3], kinds, i),
            constants,
        )
        whole_mm2 = area.base_mm2_of(blocks)
        base_mm2, _ = dies.cut_areas(1.0, whole_mm2, layer_mm2, constants)
        factors[i] = dies.defects_factor(base_mm2, constants)
        plans[0, i], plans[1, i] = whole_mm2, layer_mm2
        plans[2, i], plans[3, i], plans[4, i] = bill.beside_mm2, bill.n_beside, bill.at_stake_usd
        plans[5, i] = bonding_keeps[int(n_layers[i])]
        plans[6, i] = assembly_keeps[int(bill.n_beside)]
        for tier in range(len(usd)):
            memory_usd[tier, i] = usd[tier]


@formula_operations.place_by_place
def _of_tiers(tier: Any, values: FloatArray, kinds: IntArray, i: int) -> Any:
    return values[kinds[1 + tier, i]]


def _find_several(
    plans: Any, largest_mm2: float, decided_usd: FloatArray, constants: Any
) -> tuple[IntArray, IntArray, FloatArray]:
    """Compiled: (c,) designs and numbers of dies into which to cut them as well.

    The numbers as positions in ``NUMBERS_OF_DIES``; and what a power makes the yields.
    """
    most = (len(price.NUMBERS_OF_DIES) - 1) * len(decided_usd)
    positions, numbers = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    factors = np.empty(most)
    least_usd = np.empty(len(decided_usd))
    count = 0
    for number in range(1, len(price.NUMBERS_OF_DIES)):
        n_dies = price.NUMBERS_OF_DIES[number]
        above_mm2 = price.LARGE_MM2 if n_dies > price.ALWAYS_TRIED else -np.inf
        if largest_mm2 <= above_mm2:
            break
        _fill_least_usd(n_dies, plans, constants, least_usd)
        for i in range(len(decided_usd)):
            whole_mm2 = plans.whole_mm2[i]
            # Of a design that has no price yet the first comparison is false.
            if least_usd[i] >= decided_usd[i] or (above_mm2 > 0.0 and not whole_mm2 > above_mm2):
                continue
            base, _ = dies.cut_areas(n_dies, whole_mm2, plans.layer_mm2[i], constants)
            positions[count], numbers[count] = i, number
            factors[count] = dies.defects_factor(base, constants)
            count += 1
    return positions[:count], numbers[:count], factors[:count]


def _fill_least_usd(n_dies: float, plans: Any, constants: Any, least_usd: FloatArray) -> None:
    """Compiled: no less does a design with several dies cost of what their number decides.

    A wafer of area A and edge E has A/a - E/sqrt(2a) dies of area a, so a die costs at least
    w a/A (1 + E sqrt(a/2)/A). A yield is no better than that of its first order in the defects, if
    clustering is at least 1: (1 + x/c)^c >= 1 + x.
    """
    radius_mm = dies.WAFER_DIAMETER_MM / 2
    usd_per_mm2 = constants.wafer_usd / (np.pi * radius_mm**2)
    test_usd, bond_usd = constants.test_usd_per_mm2, constants.bond_usd_per_mm2
    fatal_per_mm2 = constants.defects_per_cm2 * constants.fatal_share / 100.0
    fatal_per_mm2 = fatal_per_mm2 if constants.defect_clustering >= 1.0 else 0.0
    own_links, part = 1.0 + constants.die_to_die_share, 1.0 / n_dies
    package_usd = price.INTERPOSER_MARGIN * constants.interposer_usd_per_mm2
    dies_keep = plans.assembly_keeps[int(n_dies)] * (1.0 - constants.interposer_loss)
    for i in range(len(least_usd)):
        base_mm2, layer_mm2 = plans.whole_mm2[i] * own_links, plans.layer_mm2[i]
        die_mm2 = base_mm2 * part
        edge = 1.0 + np.sqrt(die_mm2) * (np.sqrt(2.0) / radius_mm)
        base_usd = base_mm2 * (usd_per_mm2 * edge + test_usd) * (1.0 + die_mm2 * fatal_per_mm2)
        layer_usd = (usd_per_mm2 + test_usd) * (1.0 + layer_mm2 * part * fatal_per_mm2)
        layers_usd = plans.n_layers[i] * layer_mm2 * (layer_usd + bond_usd)
        at_stake = (base_usd + layers_usd) / plans.stack_keeps[i]
        at_stake = at_stake + (base_mm2 + plans.beside_mm2[i]) * package_usd
        at_stake = at_stake + plans.at_stake_usd[i]
        least_usd[i] = at_stake / (plans.beside_keep[i] * dies_keep) * _ROUNDING


def _fill_units(
    positions: IntArray,
    numbers: IntArray,
    yields: FloatArray,
    plans: Any,
    constants: Any,
    decided_usd: FloatArray,
    units: FloatArray,
) -> None:
    """Compiled: prices (c,) designs, each with a number of dies; keeps in (9, n) the cheapest.

    The numbers as positions in ``NUMBERS_OF_DIES``, ascending for each design.
    """
    inputs, outputs = np.zeros(_N_INPUTS * _LANES), np.empty(_N_OUTPUTS * _LANES)
    for begin in range(0, len(positions), _LANES):
        lanes = min(_LANES, len(positions) - begin)
        for lane in range(lanes):
            i, number = positions[begin + lane], numbers[begin + lane]
            n_dies, kind = price.NUMBERS_OF_DIES[number], plans.layer_kind[i]
            inputs[lane] = n_dies
            inputs[_LANES + lane] = plans.whole_mm2[i]
            inputs[2 * _LANES + lane] = plans.layer_mm2[i]
            inputs[3 * _LANES + lane] = plans.n_layers[i]
            inputs[4 * _LANES + lane] = yields[begin + lane]
            inputs[5 * _LANES + lane] = plans.layer_yield[number, kind]
            inputs[6 * _LANES + lane] = plans.layer_usd[number, kind]
            inputs[7 * _LANES + lane] = plans.stack_keeps[i]
            inputs[8 * _LANES + lane] = plans.beside_mm2[i]
            inputs[9 * _LANES + lane] = plans.at_stake_usd[i]
            inputs[10 * _LANES + lane] = plans.assembly_keeps[int(n_dies + plans.n_beside[i])]
        _price_block(inputs, constants, outputs)
        for lane in range(lanes):
            i = positions[begin + lane]
            usd = outputs[_N_FIELDS * _LANES + lane]
            is_first = numbers[begin + lane] == 0 or (np.isnan(decided_usd[i]) and usd == usd)
            if is_first or usd < decided_usd[i]:
                decided_usd[i] = usd
                for field in range(_N_FIELDS):
                    units[field, i] = outputs[field * _LANES + lane]


def _price_block(inputs: FloatArray, constants: Any, outputs: FloatArray) -> None:
    """Compiled: dies, package, losses and what is decided, of designs side by side."""
    # Counted from the table: of a number that it knows, the compiler would make a plain loop.
    for lane in range(len(outputs) // _N_OUTPUTS):
        n_dies = inputs[lane]
        stacks = dies.bonded(
            n_dies,
            dies.cut_areas(n_dies, inputs[_LANES + lane], inputs[2 * _LANES + lane], constants),
            (inputs[4 * _LANES + lane], inputs[5 * _LANES + lane]),
            inputs[3 * _LANES + lane],
            inputs[6 * _LANES + lane],
            inputs[7 * _LANES + lane],
            constants,
        )
        package_usd, lost_usd, decided_usd = price.assembled(
            n_dies,
            stacks,
            inputs[8 * _LANES + lane],
            inputs[9 * _LANES + lane],
            inputs[10 * _LANES + lane],
            constants,
        )
        outputs[lane] = n_dies
        outputs[_LANES + lane] = stacks.base_mm2
        outputs[2 * _LANES + lane] = stacks.layer_mm2
        outputs[3 * _LANES + lane] = stacks.base_usd
        outputs[4 * _LANES + lane] = stacks.layers_usd
        outputs[5 * _LANES + lane] = stacks.bonding_usd
        outputs[6 * _LANES + lane] = stacks.wafer_mm2
        outputs[7 * _LANES + lane] = package_usd
        outputs[8 * _LANES + lane] = lost_usd
        outputs[9 * _LANES + lane] = decided_usd
