"""Prices of memories of one quarter, shipped or quoted to the user, in place of the files' own.

The prices of one quarter belong together: their ratios decide more than their level.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from codesign.base.errors import InputError, ProblemList, check_known, describe_unknown
from codesign.base.records import frozen
from codesign.base.schema import Record, parse_record, read_document
from codesign.models.memtech import (
    MemoryTechnology,
    Range,
    Technologies,
    load_library,
)
from codesign.models.memtech.technology import ranged

_FILE = Path(__file__).parent / "prices.yaml"
_ENDINGS = (".yaml", ".yml")


class PriceQuote(Record):
    """Price of one memory.

    Attributes:
        price: Dollars per byte, as one quantity or as low, typical and high.
        source: Publication or maker of the quote.
    """

    price: Annotated[Range, ranged("USD/GB")]
    source: str = ""


@frozen
class PriceList:
    """Prices of one quarter.

    Attributes:
        quarter: Such as ``2026-Q1``, or the name that the user's file gives.
        quotes: By the name of a memory, or by how the names of several begin.
    """

    quarter: str
    quotes: Mapping[str, PriceQuote]

    def quote_of(self, technology: str) -> PriceQuote | None:
        """The quote of a memory by its name, or by that of its generation."""
        return self.quotes.get(technology, self.quotes.get(_short(technology)))

    def priced(self, library: Technologies) -> dict[str, MemoryTechnology]:
        """The technologies with the prices of this list; those not on it keep their own."""
        return {
            name: memory
            if (quote := self.quote_of(name)) is None
            else memory.model_copy(
                update={
                    "price": quote.price,
                    "sources": {**memory.sources, "price": f"{self.quarter}: {quote.source}"},
                }
            )
            for name, memory in library.items()
        }


def price_list(prices: str) -> PriceList:
    """Prices of a shipped quarter, or of the last quarter in a file of the user's.

    Raises:
        InputError: No such quarter or file, or something in the file is wrong.
    """
    is_file = prices.endswith(_ENDINGS)
    document = read_document(prices if is_file else _FILE)
    quarters = list(document.data)
    if not is_file:
        check_known("quarter of prices", prices, quarters)
    quarter = quarters[-1] if is_file else prices
    quotes = document.data[quarter]
    if not isinstance(quotes, dict) or not quotes:
        raise InputError("expected prices of memories by name", document.where(quarter))
    memories = load_library() if is_file else quotes
    problems = ProblemList(
        f"{document.where(quarter, name)}: {describe_unknown('memory', name, memories)}"
        for name in quotes
        if not any(name in (key, _short(key)) for key in memories)
    )
    records = {}
    for name, stated in quotes.items():
        quote = stated if isinstance(stated, dict) and "price" in stated else {"price": stated}
        with problems.caught():
            records[name] = parse_record(document, PriceQuote, quote, (quarter, name))
    problems.raise_any()
    return PriceList(quarter, records)


def _short(technology: str) -> str:
    """The name of a memory's generation: the part before the first underscore."""
    return technology.partition("_")[0]
