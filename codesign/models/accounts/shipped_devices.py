"""Published area and cost to make of shipped devices."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from codesign.base.columns import StringDict
from codesign.base.errors import KeyedValueError
from codesign.base.schema import Record, read_records
from codesign.models.memtech import Range
from codesign.models.memtech.technology import ranged

_FILE = Path(__file__).parent / "devices.yaml"


class DeviceAccount(Record):
    """Area and cost of one device, as the metrics ``area_mm2`` and ``unit_cost_usd`` count them.

    Attributes:
        area: Square metres of all compute dies, stacked or not; None: nobody states it.
        unit_cost: Dollars to make it, without margin and design; None: nobody has estimated it.
        sources: Publication of each number.
    """

    area: Annotated[Range | None, ranged("mm^2")] = None
    unit_cost: Annotated[Range | None, ranged("USD")] = None
    sources: StringDict = Field(min_length=1)

    def check_fields(self) -> None:
        stated = {name for name in ("area", "unit_cost") if getattr(self, name) is not None}
        if stated != set(self.sources):
            raise KeyedValueError(
                "sources", f"expected one for each of {', '.join(sorted(stated))}"
            )


@cache
def device_accounts() -> dict[str, DeviceAccount]:
    """Published accounts of shipped devices, by the key of their file."""
    return read_records(_FILE, DeviceAccount)
