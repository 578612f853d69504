"""Rent of an hour of a shipped device: a dated range, and the typical price in it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatPair, StringList
from codesign.base.schema import quantity, read_records
from codesign.models.memtech import Range

_FILE = Path(__file__).parent / "rents.yaml"
Dollars = Annotated[float, quantity("USD"), Field(gt=0)]


class Rent(Range):
    """Rents of one device per hour that somebody listed, in dollars.

    Attributes:
        low: Least rent.
        typical: Median, or the middle of the specialised clouds: what is reckoned with.
        high: Largest rent.
        date: Year and month of the lists.
        source: Lists with the rents; see ``docs/sources.md``.
    """

    low: Dollars
    typical: Dollars
    high: Dollars
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}$")]
    source: str

    @property
    def spread(self) -> FloatPair:
        """The least and the largest rent over the typical one."""
        return self.low / self.typical, self.high / self.typical

    @property
    def words(self) -> str:
        """The range for people.

        Examples:
            >>> Rent(low="1 USD", typical="2 USD", high="3 USD", date="2026-05", source="x").words
            '1 to 3 USD/h listed in 2026-05'
        """
        if self.low == self.high:
            return f"one price listed in {self.date}"
        return f"{self.low:g} to {self.high:g} USD/h listed in {self.date}"


@cache
def list_rents() -> dict[str, Rent]:
    """The rents of the shipped devices that have one, by the name that designs use."""
    return read_records(_FILE, Rent)


def rent_usd_per_hour(device: str, stated: float | None = None) -> float:
    """Rent of one device in USD per hour; NaN where none is listed.

    Args:
        device: Name of the device, as designs use it.
        stated: A rent in place of the typical one that is listed.
    """
    if stated is not None:
        return stated
    rent = list_rents().get(device)
    return np.nan if rent is None else rent.typical


def rent_words(device: str, stated: float | None = None) -> StringList:
    """A sentence on the rent that :func:`rent_usd_per_hour` reckons with; none without a rent."""
    rent = list_rents().get(device)
    usd = rent_usd_per_hour(device, stated)
    if np.isnan(usd):
        return []
    listed = "" if stated is not None or rent is None else f" ({rent.words})"
    return [f"A {device} is rented for {usd:g} USD per hour{listed}, electricity included."]


def why_no_rent(devices: Iterable[str], stated: float | None = None) -> str | None:
    """Message that names the devices without a rent; None if all have one."""
    lacking = [name for name in devices if np.isnan(rent_usd_per_hour(name, stated))]
    if not lacking:
        return None
    return (
        f"no rent is listed of {', '.join(lacking)}; the evaluator's option "
        "device_usd_per_hour states one"
    )
