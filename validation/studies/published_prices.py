"""Published analyses of what accelerators cost to make beside ours, part by part.

All of them are estimates of outsiders, not invoices, and some of our constants were read from the
same sources: this says whether the parts add up, not whether they are right.
"""

from __future__ import annotations

from typing import Annotated, get_args

import numpy as np
from pydantic import Field

from codesign.base.columns import JsonRows
from codesign.base.schema import Record, read_records
from codesign.models.accounts.account_constants import Process, constants_at
from codesign.models.accounts.dies import die_usd, die_yield
from codesign.models.accounts.price import INTERPOSER_MARGIN
from codesign.models.memtech import Level, load_library
from validation.studies.study import DATA, Study, all_within, ranged_row, summarize

_FILE = DATA / "prices.yaml"
Amount = Annotated[float, Field(ge=0)]
_LEVELS: tuple[Level, ...] = get_args(Level)


class PublishedPrice(Record):
    """A module and what somebody says that its parts cost; see the data file."""

    usd: dict[str, Amount]
    """Prices of ``logic``, ``memory``, ``package``, ``assembly`` and their ``total``."""
    dies: dict[Process, list[Amount]]
    """Areas by process."""
    footprint_mm2: Amount | None = None
    """Footprint of the dies on the interposer; None: all stand beside one another."""
    memory: str = ""
    capacity_gigabytes: Amount = 0
    stacks: Amount = 0
    lost_share: Amount | None = None
    """At least so much of the price of its dies is said to go with the defects."""
    source: str

    def modelled_usd(self, level: Level) -> dict[str, float]:
        """The same parts by our account, with every constant at one end of its range."""
        prices = {"logic": 0.0}
        for process, areas in self.dies.items():
            constants = constants_at(process, level)
            mm2 = np.array(areas)
            prices["logic"] += float((die_usd(mm2, constants) / die_yield(mm2, constants)).sum())
        memory = load_library()[self.memory]
        assert memory.price is not None and memory.package_area is not None
        price = memory.price.value_at(level) * constants.memory_price_factor
        prices["memory"] = self.capacity_gigabytes * 1e9 * price
        areas_mm2 = [area for areas in self.dies.values() for area in areas]
        footprint = self.footprint_mm2 or sum(areas_mm2)
        beside = self.stacks * memory.package_area.value_at(level) * 1e6
        prices["package"] = (footprint + beside) * (
            INTERPOSER_MARGIN * constants.interposer_usd_per_mm2
        )
        prices["assembly"] = constants.assembly_usd
        good = (1.0 - constants.attach_loss) ** (len(areas_mm2) + self.stacks)
        good *= 1.0 - constants.interposer_loss
        return prices | {"total": sum(prices.values()) / good}


def run() -> Study:
    """The study."""
    rows: JsonRows = []
    for name, module in read_records(_FILE, PublishedPrice, "modules").items():
        if module.lost_share is not None:
            # The share of the dies' price that goes with defects, if none of them is tolerated.
            ((process, areas),) = module.dies.items()
            mm2 = np.array(areas)
            lost = [1.0 - float(die_yield(mm2, constants_at(process, x))[0]) for x in _LEVELS]
            subject = f"{name}, lost to defects, at least"
            row = ranged_row(subject, module.lost_share, lost, module.source)
            rows.append(row | {"is_within": lost[-1] >= module.lost_share})
        if not module.usd:
            continue
        ends = [module.modelled_usd(level) for level in _LEVELS]
        rows += [
            ranged_row(
                f"{name}, {component}, USD", usd, [end[component] for end in ends], module.source
            )
            for component, usd in module.usd.items()
        ]
    errors = np.array([row["error"] for row in rows if row["what"].endswith("total, USD")])
    return Study(
        name="cost",
        question="What accelerators cost to make, part by part, against published estimates.",
        rows=rows,
        summary=[summarize("totals", errors)],
        targets=[all_within("published figures within the range of the constants", rows)],
        notes=[
            "the published figures are outsiders' estimates, without design, margin and sales; the "
            "constants of interposer and assembly and the price of HBM were read from the same",
            "low and high have every constant at that end of its range at once, wider than likely",
        ],
    )
