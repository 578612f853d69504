"""Columns of a design batch as accelerators: one array per property.

An accelerator is a matrix array, a vector unit and memory levels: on-chip memory (SRAM die and
3D-stacked layers) and off-chip tiers, nearest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Literal, get_args

import numpy as np

from codesign.base.columns import (
    ArrayTuple,
    BoolArray,
    Column,
    Columns,
    FloatArray,
    IntArray,
    StringPair,
    Strings,
    StringTuple,
    ValueTuple,
    combined,
    constant_column,
    distinct,
    n_designs,
)
from codesign.base.errors import UnknownNameError, check_known, entry_named
from codesign.base.records import frozen
from codesign.models.hardware.formula_operations import sum_of
from codesign.models.hardware.tier_order import FEWEST_TIERS, MOST_TIERS
from codesign.models.memtech import (
    Level,
    Technologies,
)

DEFAULT_CLOCK_HZ = 1e9
"""Clock of a design that states none: PLENA's, 1 GHz (the rate at which MemExplorer's published
TDPs decompose)."""
UNCHARGED_EDGE = "uncharged_edge"
"""Parameter: the family of technologies whose interfaces take none of the die edge reserved for
memory; without it all of them take it."""

REQUIRED_PARAMETERS = frozenset(
    {"pe_array", "vector_length", "sram_dies", "sram_3d_layers"}
    | {"tier1_technology", "tier1_stacks"}
)
SCORE_PATH = "score_path"
"""Parameter: path of attention scores and of the vector unit's operands."""
ScorePath = Literal["local", "on_chip", "uncharged"]
SCORE_PATHS: tuple[ScorePath, ...] = get_args(ScorePath)
"""Paths of scores; a code is the position here."""
_LOCAL = SCORE_PATHS.index("local")
_ON_CHIP = SCORE_PATHS.index("on_chip")
SCORE_BUFFER_BYTES_PER_MAC = 4.0
"""Bytes of the buffer between array and vector unit, for each multiply-accumulate unit. Two tiles
of BLEN rows by MLEN keys, one written while the other is read, of 16 bits a score [ours]."""
LEVEL_NAMES = ("on_chip", *(f"tier{i}" for i in range(1, MOST_TIERS + 1)))
"""Memory levels, as results name them."""
LEVEL_TITLES = ("on-chip", *(f"tier {i}" for i in range(1, MOST_TIERS + 1)))
"""The same in words."""
TIER_TECHNOLOGIES = tuple(f"tier{i}_technology" for i in range(1, MOST_TIERS + 1))
"""Parameters: the technology of each off-chip tier."""
OPTIONAL_PARAMETERS = frozenset(
    {
        f"tier{i}_{quantity}"
        for i in range(2, MOST_TIERS + 1)
        for quantity in ("technology", "stacks")
    }
    | {"clock_hz", "stated_tdp_watts", "sram_technology", "array_organization", SCORE_PATH}
    | {UNCHARGED_EDGE}
)


@frozen
class MemoryLevels:
    """``l`` memory levels of ``n`` accelerators, level first: every array is (l, n).

    A level that a design does not have has capacity and bandwidth 0. Level 0 is on chip: the
    SRAM die and the 3D layers side by side, both next to the compute, so that capacities and
    bandwidths add (bytes spread over them in proportion to bandwidth).

    Attributes:
        bandwidth_bytes_per_s: Bandwidth of the level's one port: of payload, as streams sustain it.
        latency_s: Time from request to first byte; on chip that of the faster of the two memories,
            which serves it.
        background_watts: Power whether the level is used or not.
        read_energy_joules_per_byte: Energy of a byte read; on chip the mean of the two memories,
            weighted by bandwidth.
        write_energy_joules_per_byte: Energy of a byte written; on chip the mean of the two
            memories, weighted by bandwidth.
        peak_read_watts: Power of reading at peak bandwidth.
        write_energy_ratio: Energy of a byte written over that of one read; 1 where that is 0 or
            not stated.
        shoreline_m: Die edge taken of that reserved for memory.
        uncharged_shoreline_m: Length of the interfaces that the space does not charge to it.
        price_usd: What the memories cost as bought; NaN where nobody states a price, 0 on chip.
        interface_area_mm2: Area that PHYs and controllers take of the compute die; NaN where
            unknown.
        package_area_mm2: Area that the memories take on an interposer; 0 on a board.
        packaged_units: Memories on that interposer.
        n_stacks: Memories of the level, each with an interface of its own; 0 on chip.
        wear_per_byte: Part of the level's life that one written byte takes; 0: it does not wear.
        embodied_kgco2e: CO2 equivalents from making the memories; NaN where unknown, 0 on chip.
        paged_slowdown: Time of a byte of a page over that of a streamed one.
        gathered_slowdown: Time of a byte that is gathered over that of a streamed one.
        written_slowdown: Time of a byte written over that of a streamed one.
    """

    capacity_bytes: FloatArray
    bandwidth_bytes_per_s: FloatArray
    latency_s: FloatArray
    background_watts: FloatArray
    read_energy_joules_per_byte: FloatArray
    write_energy_joules_per_byte: FloatArray
    peak_read_watts: FloatArray
    write_energy_ratio: FloatArray
    shoreline_m: FloatArray
    uncharged_shoreline_m: FloatArray
    price_usd: FloatArray
    interface_area_mm2: FloatArray
    package_area_mm2: FloatArray
    packaged_units: FloatArray
    n_stacks: FloatArray
    wear_per_byte: FloatArray
    embodied_kgco2e: FloatArray
    paged_slowdown: FloatArray
    gathered_slowdown: FloatArray
    written_slowdown: FloatArray

    @property
    def die_edge_m(self) -> FloatArray:
        """(n,) die sides that all interfaces take, charged by the space or not."""
        return sum_of(tuple(self.shoreline_m[1:])) + sum_of(tuple(self.uncharged_shoreline_m[1:]))

    @property
    def exists(self) -> BoolArray:
        """(l, n) whether the design has the level."""
        return self.capacity_bytes > 0


@frozen
class AcceleratorBatch:
    """``n`` accelerators.

    Attributes:
        array_depth: (n,) MLEN, the reduction that the array does in a cycle (or its rows).
        array_width: (n,) BLEN, rows and columns of a result tile (or its columns).
        vector_length: (n,) elements of a vector instruction.
        clock_hz: (n,) clock of array and vector unit.
        stated_tdp_watts: (n,) TDP of the datasheet; 0 where it is to be modelled.
        planar_sram_bytes: (n,) SRAM beside the compute, the buffer for scores included; NaN where
            it is that of a whole shipped device, of which nobody knows the area.
        layer_bytes: (n,) capacity of one 3D-stacked layer; 0 without layers.
        n_layers: (n,) 3D-stacked layers.
        score_path: (n,) position in ``SCORE_PATHS``.
        score_buffer_watts: (n,) background power of the buffer for scores.
    """

    array_depth: FloatArray
    array_width: FloatArray
    vector_length: FloatArray
    clock_hz: FloatArray
    levels: _GatheredLevels
    stated_tdp_watts: FloatArray
    planar_sram_bytes: FloatArray
    layer_bytes: FloatArray
    n_layers: FloatArray
    score_path: IntArray
    score_buffer_watts: FloatArray

    @property
    def macs_per_cycle(self) -> FloatArray:
        """(n,) multiply-accumulates of the array in one cycle."""
        return self.array_depth * self.array_width

    @property
    def scores_on_chip(self) -> FloatArray:
        """(n,) 1 if scores and vector operands pass the on-chip port, else 0."""
        return np.asarray(self.score_path == _ON_CHIP, np.float64)

    @property
    def scores_are_local(self) -> FloatArray:
        """(n,) 1 if they pass a buffer between array and vector unit, else 0."""
        return np.asarray(self.score_path == _LOCAL, np.float64)

    @property
    def background_watts(self) -> FloatArray:
        """(n,) power of all memories at rest."""
        return np.asarray(self.levels.background_watts.sum(axis=0) + self.score_buffer_watts)


class _Gathered:
    """A property of levels that is gathered when it is first asked for."""

    def __init__(self, place: int, name: str) -> None:
        self._place = place
        self._name = name

    def __get__(self, levels: _GatheredLevels, owner: type) -> FloatArray:
        properties = vars(levels)
        # Kinds are within the table; "clip" spares NumPy a copy.
        values: FloatArray = np.take(
            properties["_table"][self._place], properties["_kinds"], mode="clip"
        )
        properties[self._name] = values  # found before this object from now on
        return values


class _GatheredLevels(MemoryLevels):
    """Levels whose properties are gathered when they are first asked for, most of them never.

    Args:
        table: (p, u) properties of every kind of every level.
        kinds: (l, n) which of them each level of each design is.
    """

    _table: FloatArray
    _kinds: IntArray

    def __init__(self, table: FloatArray, kinds: IntArray) -> None:
        vars(self).update(_table=table, _kinds=kinds)

    def tabulated(self, names: StringTuple) -> tuple[FloatArray, IntArray]:
        """Properties of every kind of every level, and (l, n) which kind each is."""
        rows = [_PROPERTIES.index(name) for name in names]
        return self._table[rows], self._kinds

    def taken(self, positions: IntArray) -> _GatheredLevels:
        """The levels of the accelerators at some positions."""
        return _GatheredLevels(self._table, np.take(self._kinds, positions, axis=1))

    def replace_on_chip(self, properties: FloatArray, number: IntArray) -> _GatheredLevels:
        """The levels with another on-chip memory.

        Args:
            properties: (p, u) of ``u`` memories, in the order of the record.
            number: (n,) position of each accelerator's memory among them.
        """
        table = self._table
        return _GatheredLevels(
            np.concatenate([table, properties], axis=1),
            np.concatenate([(table.shape[1] + number)[None], self._kinds[1:]]),
        )

    def reordered_tiers(self, order: IntArray) -> _GatheredLevels:
        """The tiers in another order; see :func:`reordered_tiers`."""
        tiers = np.take_along_axis(self._kinds[1:], order, axis=0)
        return _GatheredLevels(self._table, np.concatenate([self._kinds[:1], tiers]))


_PROPERTIES = tuple(field.name for field in fields(MemoryLevels))
for _place, _name in enumerate(_PROPERTIES):
    setattr(_GatheredLevels, _name, _Gathered(_place, _name))


def take(accelerators: AcceleratorBatch, positions: IntArray) -> AcceleratorBatch:
    """The accelerators at these positions of the batch."""
    arrays = {
        field.name: getattr(accelerators, field.name)[positions]
        for field in fields(accelerators)
        if field.name != "levels"
    }
    return AcceleratorBatch(levels=accelerators.levels.taken(positions), **arrays)


def reordered_tiers(accelerators: AcceleratorBatch, order: IntArray) -> AcceleratorBatch:
    """The same with their tiers in another order.

    Args:
        order: (t, n) which of the tiers, from 0, comes at each place.
    """
    return replace(accelerators, levels=accelerators.levels.reordered_tiers(order))


_SCALED = frozenset({"background_power", "read_energy", "write_energy"})
"""Quantities of on-chip memory that depend on the process."""


class UnitTables:
    """Properties of one unit of each memory technology, looked up once per technology.

    ``known_levels`` has (p, u) properties of all memory levels that columns of these values give.

    Args:
        library: Memory technologies by name.
        level: Which value of a published range to take.
        score_path: Path of scores in designs that state none.
        on_chip_energy_scale: Energy and leakage of on-chip memory over those in its files, which
            are of 7 nm.
    """

    def __init__(
        self,
        library: Technologies,
        level: Level = "typical",
        score_path: ScorePath = "uncharged",
        on_chip_energy_scale: float = 1.0,
    ) -> None:
        self._library = library
        self._on_chip_energy_scale = on_chip_energy_scale
        self.score_path = score_path
        self._level = level
        self._known: dict[StringPair, float] = {}
        self.known_levels: dict[tuple[ValueTuple, ...], FloatArray] = {}
        self._families = list(dict.fromkeys(memory.family for memory in library.values()))

    def value(self, name: str, attribute: str) -> float:
        """One property of a technology; NaN if it does not state it.

        Raises:
            UnknownNameError: A technology that the library does not have.
        """
        cached = self._known.get((name, attribute))
        if cached is not None:
            return cached
        technology = entry_named("memory technology", name, self._library)
        value = technology.value_at(attribute, self._level)
        if technology.place == "on-chip" and attribute in _SCALED:
            value *= self._on_chip_energy_scale
        self._known[name, attribute] = value
        return value

    def is_device(self, name: str) -> bool:
        """True if a technology stands for all on-chip memory of a shipped device."""
        return self._library[name].unit == "device"

    def family_number(self, family: str) -> float:
        """A number for a family of technologies.

        Raises:
            UnknownNameError: No technology is of that family.
        """
        if family not in self._families:
            raise UnknownNameError(
                "family of memory technologies", family, filter(None, self._families)
            )
        return float(self._families.index(family))

    def family_number_of(self, name: str) -> float:
        """The number of a technology's family."""
        return self.family_number(self._library[name].family)


def shared_tables(
    library: Technologies, level: Level, score_path: ScorePath, on_chip_energy_scale: float
) -> UnitTables:
    """The tables of a library, the same for all evaluators that have this very library."""
    key = (id(library), level, score_path, on_chip_energy_scale)
    if key not in _SHARED:
        if len(_SHARED) >= _MOST_SHARED:
            _SHARED.pop(next(iter(_SHARED)))
        _SHARED[key] = library, UnitTables(library, level, score_path, on_chip_energy_scale)
    return _SHARED[key][1]


_SHARED: dict[tuple[int, str, str, float], tuple[Technologies, UnitTables]] = {}
"""Tables created last, with their libraries, whose identity is in the key."""
_MOST_SHARED = 8
"""Largest number of stored tables: a few processes, and the next library. [ours]"""


@frozen
class _Bank:
    """``count`` units of a technology for each of ``n`` designs."""

    technology: Column
    count: Column
    units: UnitTables

    def unit_value(self, attribute: str) -> FloatArray:
        return self.technology.lookup(lambda name: self.units.value(name, attribute))

    @property
    def counts(self) -> FloatArray:
        return self.count.lookup(float)

    def total(self, attribute: str) -> FloatArray:
        return self.unit_value(attribute) * self.counts

    def owned(self, attribute: str, absent: float = np.nan) -> FloatArray:
        """(n,) a property of all units; 0 without any, ``absent`` where it is not stated."""
        value = self.unit_value(attribute)
        value = np.where(np.isnan(value), absent, value) * self.counts
        return np.where(self.counts > 0, value, 0.0)

    def is_of(self, family: Column) -> BoolArray:
        """(n,) whether the technology is of the family that each design names."""
        own_lookup = self.technology.lookup(self.units.family_number_of, absent=-1.0)
        return np.asarray(own_lookup == family.lookup(self.units.family_number, absent=-2.0))


def build_accelerators(
    designs: Columns,
    library: Technologies | UnitTables,
    level: Level = "typical",
) -> AcceleratorBatch:
    """The accelerators of a batch of designs.

    Args:
        designs: Columns with ``REQUIRED_PARAMETERS`` and any of ``OPTIONAL_PARAMETERS``.
        library: Memory technologies by name, or their tables, which know their level.
        level: Which value of a published range to take.

    Raises:
        UnknownNameError: A technology that the library does not have.
    """
    n = n_designs(designs)
    units = library if isinstance(library, UnitTables) else UnitTables(library, level)
    planar_technology = designs.get("sram_technology", constant_column("sram", n))
    planar = _Bank(planar_technology, designs["sram_dies"], units)
    layer = _Bank(constant_column("sram_3d", n), designs["sram_3d_layers"], units)
    n_layers = layer.counts
    is_modelled = planar.technology.lookup(lambda name: not units.is_device(name), absent=1.0) > 0
    planar_sram_bytes = np.where(is_modelled, planar.owned("capacity"), np.nan)
    score_path = np.full(n, SCORE_PATHS.index(units.score_path))
    if SCORE_PATH in designs:
        score_path = positions_of(designs, SCORE_PATH, SCORE_PATHS)
    n_macs = designs["pe_array"].lookup(lambda dims: dims[0] * dims[1])
    buffer_bytes = np.where(score_path == _LOCAL, SCORE_BUFFER_BYTES_PER_MAC * n_macs, 0.0)
    buffer_watts = buffer_bytes * units.value("sram", "background_power") if n else buffer_bytes
    on_chip = [quantity for bank in (planar, layer) for quantity in (bank.technology, bank.count)]
    tables = [
        _kinds_of_level(units, on_chip, lambda sram, dies, stacked, layers: _sram_level(
            [_Bank(sram, dies, units), _Bank(stacked, layers, units)]
        ))
    ]  # fmt: skip
    uncharged = designs.get(UNCHARGED_EDGE, Column((), np.full(n, -1, np.int64)))
    for tier in range(1, n_tiers_of(designs) + 1):
        if f"tier{tier}_technology" in designs:
            tier_columns = [
                designs[f"tier{tier}_technology"],
                designs[f"tier{tier}_stacks"],
                uncharged,
            ]
            tables.append(_kinds_of_level(units, tier_columns, partial(_tier, units)))
        else:
            tables.append((np.zeros((len(_PROPERTIES), 1)), np.zeros(n, np.int64)))

    begins = np.cumsum([0, *(table.shape[1] for table, _ in tables)])
    kinds = [number + begin for begin, (_, number) in zip(begins, tables, strict=False)]
    return AcceleratorBatch(
        array_depth=designs["pe_array"].lookup(lambda dims: dims[0]),
        array_width=designs["pe_array"].lookup(lambda dims: dims[1]),
        vector_length=_number(designs, "vector_length", 0.0),
        clock_hz=_number(designs, "clock_hz", DEFAULT_CLOCK_HZ),
        levels=_GatheredLevels(
            np.concatenate([table for table, _ in tables], axis=1), np.stack(kinds)
        ),
        stated_tdp_watts=_number(designs, "stated_tdp_watts", 0.0),
        planar_sram_bytes=planar_sram_bytes + buffer_bytes,
        layer_bytes=np.where(n_layers > 0, layer.unit_value("capacity"), 0.0),
        n_layers=n_layers,
        score_path=score_path,
        score_buffer_watts=buffer_watts,
    )


def positions_of(designs: Columns, parameter: str, values: Strings) -> IntArray:
    """(n,) position of each design's value of a parameter among the values that it may have.

    Raises:
        UnknownNameError: It may not have this value; the nearest is offered.
    """

    def position(value: str) -> float:
        check_known(parameter, value, values)
        return values.index(value)

    return designs[parameter].lookup(position).astype(np.int64)


def n_tiers_of(designs: Columns) -> int:
    """Off-chip tiers of each design of a batch: as many as its columns name, or some empty ones."""
    more = range(MOST_TIERS, FEWEST_TIERS, -1)
    return next((tier for tier in more if f"tier{tier}_technology" in designs), FEWEST_TIERS)


def _number(designs: Columns, name: str, default: float) -> FloatArray:
    if name not in designs:
        return np.full(n_designs(designs), default)
    return designs[name].lookup(float, absent=default)


def _kinds_of_level(
    units: UnitTables, columns: list[Column], level: Callable[..., ArrayTuple]
) -> tuple[FloatArray, IntArray]:
    """(p, u) properties of the ``u`` kinds of one level, and (n,) the kind of each design.

    Args:
        units: Tables of the technologies; they cache levels that have few kinds.
        columns: The columns that the level depends on.
        level: Function that gives the properties, in the order of the record.
    """
    # The parts of a tier are three, of the memory on chip four: no kind of one is of another.
    key = tuple(column.values for column in columns)
    radices = [len(values) + 1 for values in key]  # one more, as a part may be absent
    if math.prod(radices) > _MOST_KINDS:
        number, representative = distinct(*combined(*(column.codes for column in columns)))
        few = [Column(column.values, column.codes[representative]) for column in columns]
        return np.stack(level(*few)), number
    if key not in units.known_levels:
        if len(units.known_levels) >= _MOST_TABLES:  # as of many designs with columns of their own
            units.known_levels.clear()
        codes = np.indices(radices).reshape(len(radices), -1) - 1
        every = [Column(column.values, code) for column, code in zip(columns, codes, strict=True)]
        units.known_levels[key] = np.stack(level(*every))
    number = columns[0].codes + 1
    for column, radix in zip(columns[1:], radices[1:], strict=True):
        number = number * radix + (column.codes + 1)
    return units.known_levels[key], number


_MOST_KINDS = 1 << 12
"""Kinds of a level up to which all are worked out once, whether a design has them or not."""
_MOST_TABLES = 1 << 8
"""Tables of kinds that are remembered."""


def _sram_level(banks: list[_Bank]) -> ArrayTuple:
    """Properties of the SRAM die and the 3D layers side by side, in the order of the record."""
    shape = banks[0].counts.shape
    capacity, bandwidth, background, read, write = np.zeros((5, *shape))
    first_byte = np.full(shape, np.inf)
    for bank in banks:
        share = bank.total("bandwidth")
        capacity += bank.total("capacity")
        bandwidth += share
        served = np.where(bank.counts > 0, bank.unit_value("latency"), np.inf)
        first_byte = np.minimum(first_byte, served)
        background += bank.total("capacity") * bank.unit_value("background_power")
        read += share * bank.unit_value("read_energy")
        write += share * bank.unit_value("write_energy")
    latency = np.where(capacity > 0, first_byte, 0.0)
    total = np.maximum(bandwidth, np.finfo(float).tiny)
    read = read / total
    write = write / total
    return (
        capacity, bandwidth, latency, background, read, write, read * bandwidth,
        _ratio(write, read), *[np.zeros(shape)] * (len(_PROPERTIES) - 11), *[np.ones(shape)] * 3,
    )  # fmt: skip


def _tier(
    units: UnitTables, technology: Column, count: Column, uncharged_family: Column
) -> ArrayTuple:
    """Properties of an off-chip tier, in the order of the record."""
    bank = _Bank(technology, count, units)
    capacity = bank.total("capacity")
    bandwidth = bank.total("bandwidth")
    background = capacity * bank.unit_value("background_power")
    read = bank.unit_value("read_energy")
    write = bank.unit_value("write_energy")
    edge = bank.total("shoreline")
    uncharged = np.where(bank.is_of(uncharged_family), edge, 0.0)
    package_area = bank.owned("package_area", absent=0.0) * 1e6
    written = capacity * bank.unit_value("endurance")  # bytes until it is worn out
    streamed = np.nan_to_num(bank.unit_value("streamed_efficiency"), nan=1.0)
    slowdowns = [
        _ratio(streamed, np.nan_to_num(bank.unit_value(f"{pattern}_efficiency"), nan=1.0))
        for pattern in ("paged", "gathered", "written")
    ]
    return (
        capacity, bandwidth * streamed, bank.unit_value("latency"), background,
        read, write, read * bandwidth,
        _ratio(write, read), edge - uncharged, uncharged,
        bank.owned("price") * bank.unit_value("capacity"),
        bank.owned("interface_area") * 1e6, package_area,
        np.where(package_area > 0, bank.counts, 0.0), bank.counts,
        np.divide(1.0, written, out=np.zeros_like(written), where=written > 0),
        bank.owned("embodied_carbon") * bank.unit_value("capacity"), *slowdowns,
    )  # fmt: skip


def off_chip_memory(technology: Column, count: Column, units: UnitTables) -> MemoryLevels:
    """Properties of ``count`` units of a technology, outside any level; every array is (n,)."""
    columns = [technology, count, Column((), np.full(len(count), -1, np.int64))]
    table, kinds = _kinds_of_level(units, columns, partial(_tier, units))
    return MemoryLevels(*table[:, kinds])


def _ratio(value: FloatArray, reference: FloatArray) -> FloatArray:
    """One value over another; 1 where the other is 0."""
    return np.divide(value, reference, out=np.ones_like(reference), where=reference > 0)
