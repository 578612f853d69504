"""Memory technologies: the datasheet of one die, layer, stack, package or chip.

The parameters are those of MemExplorer [MemExplorer]_ Table 1: latency, capacity, peak
bandwidth, die edge, background power per capacity and energy per bit read and written.

.. [MemExplorer] "MemExplorer: memory system synthesis for heterogeneous NPUs", Table 1, Eq. 1, 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from codesign.base.columns import StringDict
from codesign.base.errors import reraised_as_value_error
from codesign.base.schema import Positive, Record, unstored_at
from codesign.base.units import parse_quantity

Level = Literal["low", "typical", "high"]
"""Level of all numbers of a model: ``low`` takes the good end of every range, at which a design is
small, cheap, cool, fast and lasting; ``high`` the bad end."""


class Range(Record):
    """A published range; equal ends where only one value is printed. SI units."""

    low: float
    typical: float
    high: float

    def value_at(self, level: Level) -> float:
        """The value at one of the three levels."""
        return float(getattr(self, level))

    def check_fields(self) -> None:
        if not 0 <= self.low <= self.typical <= self.high:
            values = f"low={self.low:g}, typical={self.typical:g}, high={self.high:g}"
            raise ValueError(f"0 <= low <= typical <= high must hold, got {values}")


def ranged(unit: str) -> Any:
    """The annotation of a field read as one quantity, or as its low, typical and high value."""

    def read(value: object) -> object:
        if value is None:
            return None
        named = (
            value if isinstance(value, dict) else dict.fromkeys(("low", "typical", "high"), value)
        )
        unknown = set(named) - {"low", "typical", "high"}
        if unknown or len(named) != 3:
            raise ValueError(
                f"expected one quantity in {unit}, or low, typical and high, got {value!r}"
            )
        with reraised_as_value_error():
            return {level: parse_quantity(item, unit) for level, item in named.items()}

    return BeforeValidator(read)


NUMBERS = (
    "latency",
    "capacity",
    "bandwidth",
    "shoreline",
    "background_power",
    "read_energy",
    "write_energy",
)
"""The quantities of a technology; each needs a source."""
EFFICIENCIES = (
    "streamed_efficiency",
    "paged_efficiency",
    "gathered_efficiency",
    "written_efficiency",
)
"""Sustained shares of the bandwidth by access pattern; each may be left out, and needs a source if
it is not."""
MORE_IS_BETTER = frozenset({"capacity", "bandwidth", "endurance", *EFFICIENCIES})
"""Quantities whose good end is the larger one; of all others it is the smaller one."""
ACCESS_ENERGIES = ("read_energy", "write_energy")
"""Quantities that are high or low together."""
ACCOUNT_NUMBERS = ("price", "interface_area", "package_area", "endurance", "embodied_carbon")
"""Quantities that only what a design costs depends on; each may be left out, and needs a source
if it is not."""


_Efficiency = Annotated[Range | None, ranged("1"), unstored_at(None)]


class MemoryTechnology(Record):
    """One memory technology, per unit (a stack, a layer, …); every number has a source."""

    key: str
    """Name of the technology's file, by which design spaces refer to it."""
    name: str
    """Name for people."""
    family: str = ""
    """Kind of memory, such as HBM: spaces say of a whole family that its edge is not charged."""
    place: Literal["on-chip", "off-chip"]
    unit: Literal["die", "bank", "layer", "stack", "package", "chip", "device"]
    """Unit of the technology."""
    latency: Annotated[Range, ranged("ns")]
    """Seconds from request to first byte."""
    capacity: Annotated[Range, ranged("GB")]
    """Capacity of one unit, bytes."""
    bandwidth: Annotated[Range, ranged("GB/s")]
    """Peak bytes of payload per second of its one port, after metadata, ECC and refresh."""
    streamed_efficiency: _Efficiency = None
    """Sustained share of the bandwidth where long rows are read in order, as weights are."""
    paged_efficiency: _Efficiency = None
    """Sustained share where pages are read in any order, as those of a KV cache are."""
    gathered_efficiency: _Efficiency = None
    """Sustained share where short rows are gathered, as of experts that few tokens take."""
    written_efficiency: _Efficiency = None
    """Sustained share of writes."""
    status: Literal["ships", "samples", "announced", "target"] | None = None
    """Status of the technology: sold, sampled to customers, announced, or a target of its maker.
    None: an edition of a paper, or a planned memory of one's own."""
    available: Annotated[int, Field(ge=2000, le=2100)] | None = None
    """Year in which a product with it can be bought."""
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}$")] | None = None
    """Year and month for which the numbers hold."""
    edition: str = ""
    """Publication whose numbers these are, kept as it printed them."""
    data_pins: Positive | None = None
    """Signals that carry data, of one unit; no metric depends on them. None: nobody states them."""
    shoreline: Annotated[Range, ranged("mm")] = Range(low=0, typical=0, high=0)
    """Metres of die edge that its interface takes; 0 of a memory that is bonded onto the die."""
    background_power: Annotated[Range, ranged("mW/GB")]
    """Watts per byte of capacity, whether used or not."""
    read_energy: Annotated[Range, ranged("pJ/bit")]
    """Joules per byte read."""
    write_energy: Annotated[Range, ranged("pJ/bit")]
    """Joules per byte written."""
    price: Annotated[Range | None, ranged("USD/GB")] = None
    """Dollars per byte of capacity, as bought; None: nobody states one."""
    interface_area: Annotated[Range | None, ranged("mm^2")] = None
    """Square metres of the compute die that the PHYs and controllers of one unit take."""
    package_area: Annotated[Range | None, ranged("mm^2")] = None
    """Square metres that one unit takes on the interposer beside the die; None: it sits on the
    board and needs none."""
    endurance: Annotated[Range | None, ranged("1")] = None
    """Writes that each byte bears before it wears out; None: it does not wear."""
    embodied_carbon: Annotated[Range | None, ranged("g/GB")] = None
    """Kilograms of CO2 equivalents from making a byte of capacity."""
    note: str = ""
    sources: StringDict = Field(min_length=1)
    """Source of each number."""

    def value_at(self, number: str, level: Level) -> float:
        """A quantity at one level of goodness; NaN if it is not stated."""
        stated: Range | None = getattr(self, number)
        opposite: Mapping[Level, Level] = {"low": "high", "typical": "typical", "high": "low"}
        end = opposite[level] if number in MORE_IS_BETTER else level
        return float("nan") if stated is None else stated.value_at(end)

    @field_validator("sources")
    @classmethod
    def _check_sources(cls, sources: StringDict, info: ValidationInfo) -> StringDict:
        optional = (*ACCOUNT_NUMBERS, *EFFICIENCIES, "data_pins", "status", "available")
        missing = [
            number
            for number in (*NUMBERS, *optional)
            if (number in NUMBERS or info.data.get(number) is not None)
            and (number != "shoreline" or info.data.get("place") == "off-chip")
            and not sources.get(number, "").strip()
        ]
        if missing:
            raise ValueError(f"every number needs a source; missing for {', '.join(missing)}")
        return sources

    def check_fields(self) -> None:
        for number in ("capacity", "bandwidth"):
            if not getattr(self, number).low > 0:
                raise ValueError(f"{number} > 0 must hold")
        if self.place == "on-chip" and self.shoreline.high > 0:
            raise ValueError("an on-chip memory takes no shoreline")
        if self.place == "off-chip" and "shoreline" not in self.model_fields_set:
            raise ValueError(
                "an off-chip memory needs the shoreline of its interface, 0 mm if it takes no edge"
            )
        self._check_efficiencies()

    def _check_efficiencies(self) -> None:
        """Refuse a share above 1, and a pattern that is faster than a stream."""
        stream = self.streamed_efficiency
        for number in EFFICIENCIES:
            share: Range | None = getattr(self, number)
            if share is None:
                continue
            if stream is None:
                raise ValueError(f"{number} needs streamed_efficiency")
            ends = [(share.value_at(end), stream.value_at(end)) for end in get_args(Level)]
            if not all(0 < of_pattern <= of_stream <= 1 for of_pattern, of_stream in ends):
                raise ValueError(f"0 < {number} <= streamed_efficiency <= 1 must hold")


Technologies = Mapping[str, MemoryTechnology]
"""Memory technologies by name."""
