"""Costs of designs: metrics of :class:`DesignMetrics` that the accounts compute.

All are of all devices that serve the model together, but those of a temperature or a density.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any, cast

import numpy as np

from codesign.base.columns import (
    Arrays,
    Columns,
    Domains,
    FloatArray,
    FloatDict,
    Floats,
    IntArray,
    JsonRows,
    StringDict,
    StringList,
    compute_once,
    first_values,
)
from codesign.base.evaluator import PoolPrices
from codesign.base.explanation_rows import CostRow, FloorplanRow
from codesign.evaluators.npu.npu_options import NpuOptions, account_constants
from codesign.evaluators.npu.preparation import Preparation
from codesign.models.accounts.area import Floorplan, floorplan
from codesign.models.accounts.carbon import embodied_kgco2e, operational_kgco2e_per_joule
from codesign.models.accounts.heat import (
    Sources,
    Temperatures,
    block_densities,
    sources_of,
    temperatures,
)
from codesign.models.accounts.memory_prices import price_list
from codesign.models.accounts.ownership import (
    owned_usd_per_hour,
    usd_per_joule,
    written_off_per_hour,
)
from codesign.models.accounts.placement import Placement, place
from codesign.models.accounts.price import PricedAccelerators, cheapest_unit
from codesign.models.accounts.wear import SECONDS_PER_YEAR
from codesign.models.hardware.accelerator import (
    LEVEL_NAMES,
    LEVEL_TITLES,
    TIER_TECHNOLOGIES,
    AcceleratorBatch,
    take,
)
from codesign.models.hardware.power import thermal_design_watts
from codesign.models.memtech import (
    Technologies,
)

SILICON_METRICS = (
    "area_mm2",
    "unit_cost_usd",
    "embodied_kgco2e",
    "power_density_w_per_mm2",
    "block_density_w_per_mm2",
    "junction_temperature_celsius",
    "thermal_load",
)
"""Metrics that follow from hardware and widths of operands alone."""
COST_OF_TOKENS = ("usd_per_million_tokens", "kgco2e_per_million_tokens")
COST_METRICS = (*SILICON_METRICS, "lifetime_years", *COST_OF_TOKENS)
STANDING = "standing_usd_per_hour"
WEAR = "wear_usd_per_token"
STANDING_CARBON = "standing_kgco2e_per_hour"
WEAR_CARBON = "wear_kgco2e_per_token"
PARTS_OF_COST = (STANDING, WEAR, STANDING_CARBON, WEAR_CARBON)
"""Sources of the price and carbon of a system's tokens, besides energy."""


def pool_prices(options: NpuOptions) -> PoolPrices:
    """Prices of all but machines; a price is written off over a device's useful life."""
    constants = account_constants(options)
    years = 1.0 / constants.write_off_per_year
    is_rented = options.usd_per_hour is not None
    return PoolPrices(
        float(written_off_per_hour(1.0, years, 1.0 - constants.idle_share)),
        0.0 if is_rented else usd_per_joule(constants.electricity_usd_per_kwh, constants.pue),
        operational_kgco2e_per_joule(constants),
    )


class SiliconMetrics:
    """Metrics of ``n`` accelerators alone, each computed when it is first asked for; all (n,).

    Args:
        operand_bits: (2, n) widths of the array's two operands.
        filled_rows: (n,) share of the array's rows that hold data at most.
        columns: Parameters of the accelerators, with which their price is kept.
    """

    def __init__(
        self,
        hardware: AcceleratorBatch,
        operand_bits: FloatArray,
        preparation: Preparation,
        filled_rows: FloatArray,
        columns: Columns,
    ) -> None:
        self._columns = columns
        self._filled_rows = filled_rows
        self._hardware = hardware
        self._bits = operand_bits
        self._preparation = preparation
        self._n_devices = preparation.part.n_devices
        self._options = preparation.options
        self.constants = preparation.constants

    @property
    def idle_watts(self) -> FloatArray:
        """Power of all devices while they wait: background power of their memories."""
        return self._hardware.background_watts * self._n_devices

    @property
    def memory_capacity_bytes(self) -> FloatArray:
        return np.asarray(self._hardware.levels.capacity_bytes.sum(axis=0) * self._n_devices)

    @property
    def shoreline_mm(self) -> FloatArray:
        return np.asarray(self._hardware.levels.shoreline_m.sum(axis=0) * 1e3)

    @property
    def uncharged_shoreline_mm(self) -> FloatArray:
        return np.asarray(self._hardware.levels.uncharged_shoreline_m.sum(axis=0) * 1e3)

    @property
    def peak_flop_per_s(self) -> FloatArray:
        hardware = self._hardware
        return 2.0 * hardware.macs_per_cycle * hardware.clock_hz * self._n_devices

    @property
    def offchip_bandwidth_bytes_per_s(self) -> FloatArray:
        of_device = self._hardware.levels.bandwidth_bytes_per_s[1:].sum(axis=0)
        return np.asarray(of_device * self._n_devices)

    @cached_property
    def tdp_watts(self) -> FloatArray:
        watts = self.tdp_by_component.values()
        return sum(watts, start=np.zeros(self._bits.shape[1])) * self._n_devices

    @cached_property
    def plan(self) -> Floorplan:
        """Area by block of one device."""
        first, second = self._bits
        link_bytes_per_s = float(self._options.link_bandwidth) if self._n_devices > 1 else 0.0
        return floorplan(self._hardware, first, second, self.constants, link_bytes_per_s)

    @cached_property
    def unit(self) -> PricedAccelerators:
        """Dies, package and memories of one device."""
        unit: PricedAccelerators = compute_once(
            self._columns, ("unit", self._preparation.key, self._n_devices),
            lambda: cheapest_unit(self.plan, self._hardware.levels, self.constants),
        )  # fmt: skip
        return unit

    def die_mm2(self, unit: PricedAccelerators) -> FloatArray:
        """(n,) area of the base dies and stacked layers of one device that is cut in a way."""
        stacks = unit.stacks
        return stacks.n_dies * (stacks.base_mm2 + self._hardware.n_layers * stacks.layer_mm2)

    @property
    def area_mm2(self) -> FloatArray:
        return self.die_mm2(self.unit) * self._n_devices

    @cached_property
    def unit_cost_usd(self) -> FloatArray:
        return self.unit.usd * self._n_devices

    @property
    def footprint_mm2(self) -> FloatArray:
        """Base dies of one device."""
        return self.unit.stacks.n_dies * self.unit.stacks.base_mm2

    @cached_property
    def placement(self) -> Placement:
        """Rectangles of the blocks on the base of one device."""
        n_dies = self.unit.stacks.n_dies
        return place(self.plan, self._hardware.levels, n_dies, self.footprint_mm2, self.constants)

    @cached_property
    def sources(self) -> Sources:
        """Power of one device by the place where it becomes heat."""
        return sources_of(
            self._hardware, self.tdp_by_component, self._bits, self._filled_rows, self.constants
        )

    @cached_property
    def temperatures(self) -> Temperatures:
        """Temperatures of the blocks of one device."""
        return temperatures(self.sources, self.placement, self.constants, self._options.cooling)

    @cached_property
    def _distinct(self) -> tuple[SiliconMetrics, IntArray]:
        """The distinct accelerators of the batch, and (n,) which of them each is."""
        hardware = self._hardware
        _, memories = hardware.levels.tabulated(("n_stacks",))
        names = [field.name for field in fields(hardware) if field.name != "levels"]
        rows = [getattr(hardware, name) for name in names]
        key = np.stack([*rows, *memories, *self._bits, self._filled_rows + np.zeros(len(rows[0]))])
        bytes_of_row = np.ascontiguousarray(key.T, np.float64).view(f"V{8 * len(key)}")
        _, first, number = np.unique(bytes_of_row.ravel(), return_index=True, return_inverse=True)
        return SiliconMetrics(
            take(hardware, first), self._bits[:, first], self._preparation, key[-1, first], {}
        ), number

    @cached_property
    def tdp_by_component(self) -> Arrays:
        """TDP of each component of one device."""
        first, second = self._bits
        energies = self.constants.operation_energies
        return thermal_design_watts(self._hardware, first, second, energies, self._filled_rows)

    @property
    def cycle_joules(self) -> FloatArray:
        """Energy of one cycle of the array with data in all rows."""
        first, second = self._bits
        energies = self.constants.operation_energies
        watts = thermal_design_watts(self._hardware, first, second, energies)["array"]
        return watts / self._hardware.clock_hz

    @property
    def power_density_w_per_mm2(self) -> FloatArray:
        return self.sources.density_w_per_mm2(self.footprint_mm2)

    @property
    def block_density_w_per_mm2(self) -> FloatArray:
        few, number = self._distinct
        return np.asarray(block_densities(few.sources, few.placement).max(axis=0)[number])

    @cached_property
    def junction_temperature_celsius(self) -> FloatArray:
        few, number = self._distinct
        return few.temperatures.hottest_celsius[number]

    @property
    def thermal_load(self) -> FloatArray:
        ambient = self.constants.ambient_celsius
        rise = self.junction_temperature_celsius - ambient
        return rise / (self.sources.limit_celsius - ambient)

    @cached_property
    def embodied_kgco2e(self) -> FloatArray:
        of_device = embodied_kgco2e(self.unit.stacks, self._hardware.levels, self.constants)
        return of_device * self._n_devices

    @property
    def _capital_usd(self) -> FloatArray:
        """Price of all devices with hosts and their part of the design."""
        shared = self.constants.design_usd / (self._options.units_made or np.inf)
        return self.unit_cost_usd + (self.constants.host_usd + shared) * self._n_devices

    @property
    def _busy_share(self) -> float:
        return 1.0 - self.constants.idle_share

    @property
    def standing_usd_per_hour(self) -> FloatArray:
        """(n,) rent of all devices, or their price written off; without electricity."""
        if self._options.usd_per_hour is not None:
            return np.full(self._bits.shape[1], self._options.usd_per_hour * self._n_devices)
        return self._standing(self._capital_usd)

    @property
    def standing_kgco2e_per_hour(self) -> FloatArray:
        """(n,) of making all devices, spread over their useful life."""
        return self._standing(self.embodied_kgco2e)

    def _standing(self, capital: FloatArray) -> FloatArray:
        years = 1.0 / self.constants.write_off_per_year
        return np.asarray(written_off_per_hour(capital, years, self._busy_share))

    def wear_usd_per_token(self, s_per_token: FloatArray, lifetime_years: Floats) -> FloatArray:
        """(n,) price of all devices per token, if they serve until a memory is worn out.

        Nothing for rented ones. Arguments as of :meth:`costs_of_tokens`.
        """
        if self._options.usd_per_hour is not None:
            return np.zeros(len(s_per_token))
        return self._wear(self._capital_usd, s_per_token, lifetime_years)

    def wear_kgco2e_per_token(self, s_per_token: FloatArray, lifetime_years: Floats) -> FloatArray:
        """(n,) of making all devices per token, if they serve until a memory is worn out."""
        return self._wear(self.embodied_kgco2e, s_per_token, lifetime_years)

    def _wear(
        self, capital: FloatArray, s_per_token: FloatArray, lifetime_years: Floats
    ) -> FloatArray:
        per_hour = written_off_per_hour(capital, lifetime_years, self._busy_share)
        return per_hour / 3600.0 * s_per_token

    def costs_of_tokens(
        self,
        joules_per_token: FloatArray,
        s_per_token: FloatArray,
        lifetime_years: Floats,
    ) -> Arrays:
        """``COST_OF_TOKENS``: what a million tokens cost of dollars and CO2 equivalents.

        A device is used until it is written off, or worn out; then all of it is replaced.

        Args:
            joules_per_token: (n,) of all devices.
            s_per_token: (n,) time in which they make one.
            lifetime_years: Until a memory is worn out.
        """
        constants = self.constants
        busy = self._busy_share
        years = np.minimum(lifetime_years, 1.0 / constants.write_off_per_year)
        embodied = self.embodied_kgco2e / (years * SECONDS_PER_YEAR * busy) * s_per_token
        ran = joules_per_token * operational_kgco2e_per_joule(constants)
        usd_per_hour: Any = (self._options.usd_per_hour or 0.0) * self._n_devices
        if self._options.usd_per_hour is None:
            watts = joules_per_token / np.maximum(s_per_token, _TINY)
            power_price = (constants.electricity_usd_per_kwh, constants.pue)
            usd_per_hour = owned_usd_per_hour(self._capital_usd, watts, years, busy, *power_price)
        return {
            "usd_per_million_tokens": usd_per_hour / 3600.0 * s_per_token * 1e6,
            "kgco2e_per_million_tokens": (embodied + ran) * 1e6,
        }


_TINY = float(np.finfo(float).tiny)
_ROWS = {
    "array": "array", "vector": "vector", "sram": "on_chip", "links": "links",
    "host": "host interface", "uncore": "uncore", "filler": "filler",
}  # fmt: skip
"""Names of the blocks of a floorplan in the account of a design, tiers apart."""

_INTERFACES = {level: f"{level} interface" for level in LEVEL_NAMES[1:]}
_COMPONENTS = {interface: level for level, interface in _INTERFACES.items()}
_TITLES = dict(zip(LEVEL_NAMES, LEVEL_TITLES, strict=True)) | {
    interface: f"{title} interface"
    for interface, title in zip(_COMPONENTS, LEVEL_TITLES[1:], strict=True)
}


def cost_rows(silicon: SiliconMetrics) -> list[CostRow]:
    """Area and price by block and part of a batch of one design, of one device.

    A block has the part of the compute dies' price that it has of their area, and ``n_dies``, over
    which it is spread.
    """
    plan = silicon.plan
    stacks = silicon.unit.stacks
    usd_by_part = first_values(silicon.unit.parts)
    dies_mm2 = float((stacks.n_dies * stacks.base_mm2)[0])
    blocks: FloatDict = {}
    for name, mm2 in plan.blocks._asdict().items():  # of one design: a number, or one for each tier
        names = _INTERFACES.values() if name == "tiers" else [_ROWS[name]]
        blocks |= zip(names, np.ravel(mm2).tolist(), strict=False)
    blocks["die to die"] = dies_mm2 - float(plan.base_mm2[0])
    per_mm2 = usd_by_part.pop("compute dies") / dies_mm2
    layers_mm2 = float((stacks.n_dies * plan.n_layers * stacks.layer_mm2)[0])
    # Of dies without a known area nobody knows into how many it is best to cut them.
    n_dies = float(stacks.n_dies[0]) if np.isfinite(dies_mm2) else np.nan
    own = {"stacked layers": layers_mm2} if layers_mm2 else {}
    n_layer_dies = n_dies * float(plan.n_layers[0])
    rows = [(name, n_dies, mm2, mm2 * per_mm2) for name, mm2 in blocks.items() if mm2]
    rows += [
        (name, n_layer_dies if name in own else np.nan, own.get(name, 0.0), usd)
        for name, usd in usd_by_part.items()
        if usd
    ]
    return [
        {
            "part": name,
            "title": _TITLES.get(name, name),
            "component": _COMPONENTS.get(name, name),
            "n_dies": _known(count),
            "area_mm2": _known(mm2),
            "usd": _known(usd),
        }
        for name, count, mm2, usd in rows
    ]


def floorplan_rows(silicon: SiliconMetrics) -> list[FloorplanRow]:
    """Rectangles of the base, and of the blocks on and above it, for a batch of one design.

    Empty if an area is unknown.
    """
    placement = silicon.placement
    base = placement.sides_mm[:, 0].tolist()
    layer = placement.layers[:, 0].tolist()
    if not np.isfinite(base).all():
        return []
    celsius: FloatDict = {}
    for name, value in zip(placement.names, silicon.temperatures.celsius[:, 0], strict=True):
        celsius[name] = float(np.fmax(value, celsius.get(name, np.nan)))
    _, *densities = block_densities(silicon.sources, placement)[:, 0].tolist()
    density = dict(zip(placement.names, densities, strict=True))
    shared = float(silicon.sources.spread[0] / silicon.footprint_mm2[0])
    sides = placement.x, placement.y, placement.width, placement.height, placement.stacks
    blocks = zip(placement.names, np.stack(sides)[..., 0].T.tolist(), strict=True)
    rectangles = [
        ("base", 0, [0.0, 0.0, *base, 0.0]),
        *((name, 0, place) for name, place in blocks if place[2] * place[3] > 0),
        *(
            ("stacked layers", i, [*layer, 0.0])
            for i in range(1, 1 + int(silicon.plan.n_layers[0]))
        ),
    ]
    keys = ("x_mm", "y_mm", "width_mm", "height_mm", "stacks")
    rows: JsonRows = [
        {
            "name": name,
            "layer": number,
            **dict(zip(keys, place, strict=True)),
            "w_per_mm2": None if number else density.get(name, shared),
            "celsius": None if number else _known(celsius.get(name, np.nan)),
        }
        for name, number, place in rectangles
    ]
    return cast("list[FloorplanRow]", rows)


def cost_notes(silicon: SiliconMetrics, options: NpuOptions) -> StringList:
    """Notes on process, prices, floorplan and design cost behind the accounts."""
    constants = silicon.constants
    n_dies = float(silicon.unit.stacks.n_dies[0])
    cut = "" if n_dies == 1 else f"; the silicon is cut into {n_dies:g} dies, the cheapest choice"
    prices = "the memory files"
    if options.prices is not None:
        prices = f"the list of {price_list(options.prices).quarter}"
    plan = silicon.plan
    sides = f"{plan.edge_mm[0]:.0f} of {plan.outline_mm[0]:.0f} mm"
    share = (
        f", shared by {options.units_made:,.0f} units"
        if options.units_made
        else ", not in the price"
    )
    sentences = [
        f"area, price, heat and carbon are for process {options.process.upper()} with "
        f"{options.technology_level} constants{cut}; cooled by {options.cooling}; memory prices "
        f"are from {prices}",
        f"interfaces and a reserve take {sides} of the sides of the compute silicon",
        f"design and masks cost {constants.design_usd / 1e6:,.0f} million USD once{share}",
    ]
    return [] if np.isnan(silicon.area_mm2[0]) else sentences


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


_NEEDED = {
    **dict.fromkeys(SILICON_METRICS, "interface_area"),
    **dict.fromkeys(("unit_cost_usd", "usd_per_million_tokens", STANDING, WEAR), "price"),
    **dict.fromkeys(("embodied_kgco2e", "kgco2e_per_million_tokens"), "embodied_carbon"),
    **dict.fromkeys((STANDING_CARBON, WEAR_CARBON), "embodied_carbon"),
}
"""Quantity of an off-chip technology without which a metric has no value, besides its area."""
_RENTED = (COST_OF_TOKENS[0], STANDING, WEAR)
"""Metrics that a rent settles."""


def absent_metrics(
    values: Domains,
    library: Technologies,
    is_rented: bool,
) -> StringDict:
    """Reasons why a metric has no value for some designs, by its name.

    Args:
        values: What each parameter may be.
        is_rented: Whether tokens cost what the devices' rent says.
    """
    needed = {k: v for k, v in _NEEDED.items() if not (is_rented and k in _RENTED)}
    reasons: StringDict = {}
    for name in values.get("sram_technology", ()):
        if name is not None and library[str(name)].unit == "device":
            why = f"{name} is all on-chip memory of a shipped device, whose area nobody knows"
            reasons |= dict.fromkeys(needed, why)
    tiers = [name for key in values if key in TIER_TECHNOLOGIES for name in values[key]]
    memories = dict.fromkeys(str(name) for name in tiers if name is not None)
    for metric, quantity in needed.items():
        required = dict.fromkeys(("interface_area", quantity))
        lacks = {
            x: [q.replace("_", " ") for q in required if getattr(library[x], q) is None]
            for x in memories
        }
        if listed := [f"{name} states no {' and no '.join(x)}" for name, x in lacks.items() if x]:
            reasons.setdefault(metric, f"memory technology {'; '.join(listed)}")
    return reasons
