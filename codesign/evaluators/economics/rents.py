"""What an hour of a shipped device costs to rent: a dated range, and the typical price in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from codesign.schema import Record, quantity, read_records

_FILE = Path(__file__).parent / "rents.yaml"
Dollars = Annotated[float, quantity("USD"), Field(gt=0)]


class Rent(Record):
    """Rents of one device per hour that somebody listed, in dollars."""

    low: Dollars
    """Least rent."""
    typical: Dollars
    """Median, or the middle of the specialised clouds: what is reckoned with."""
    high: Dollars
    """Largest rent."""
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}$")]
    """Year and month of the lists."""
    source: str
    """Where the rents were read; see ``docs/sources.md``."""

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if not self.low <= self.typical <= self.high:
            raise ValueError("low <= typical <= high must hold")
        return self

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
    """The rents of the shipped devices that have one, by the key of their file."""
    return read_records(_FILE, Rent)
