"""Areas of published dies beside ours, each from its blocks, with the range of our constants.

The residuals say how well an area is known before a design exists. Two of the constants were chosen
by these dies (``uncore_share``, and ``sram_mm2_per_megabyte`` by the V-Caches).
"""

from __future__ import annotations

from typing import Annotated, get_args

import numpy as np
from pydantic import Field

from codesign.base.columns import JsonObject, JsonRows
from codesign.base.schema import Record, read_records
from codesign.models.accounts.account_constants import Process, constants_at
from codesign.models.accounts.area import edge_mm, mac_mtransistors, outline_mm2, sram_mm2
from codesign.models.memtech import Level, load_library
from validation.studies.study import DATA, Study, all_within, count_promise, ranged_row, summarize

_FILE = DATA / "dies.yaml"
_LEVELS: tuple[Level, ...] = get_args(Level)
_CLOSE = 0.2
"""Relative error that needs no reason."""
Count = Annotated[float, Field(ge=0)]


class PublishedDie(Record):
    """A die as its blocks; see the data file."""

    area: Annotated[float, Field(gt=0)]
    at_most: bool = False
    """Whether the published area is only a bound."""
    is_macro: bool = False
    """Whether it is memory and nothing else."""
    process: Process
    macs_16_bit: Count = 0
    npu_lanes: Count = 0
    gpu_lanes: Count = 0
    gpu_cores: Count = 0
    sram_megabytes: Count = 0
    memory: str = ""
    stacks: Count = 0
    link_gigabytes_per_s: Count = 0
    hosts: Count = 1
    stacked_mm2: Count = 0
    """Area of the stacked dies, beside which the interfaces are."""
    source: str
    reason: str = ""
    """Cause of a difference of more than a fifth."""

    def modelled_mm2(self, level: Level) -> float:
        """The area of its blocks with every constant at one end of its range."""
        constants = constants_at(self.process, level)
        sram = float(sram_mm2(np.array(self.sram_megabytes * 1e6), constants))
        if self.is_macro:
            return sram
        memory = load_library()[self.memory] if self.memory else None
        phys = self.stacks * memory.value_at("interface_area", level) * 1e6 if memory else 0.0
        memory_edge_m = self.stacks * memory.value_at("shoreline", level) if memory else 0.0
        ports = (
            self.link_gigabytes_per_s * constants.link_mm2_per_gigabyte_per_s
        ) + self.hosts * constants.host_interface_mm2
        beside = phys + ports
        sixteen = np.array(16.0)
        blocks = (
            self.macs_16_bit * float(mac_mtransistors(sixteen, sixteen, constants))
            + self.npu_lanes * constants.lane_mtransistors
            + self.gpu_lanes * constants.gpu_lane_mtransistors
            + self.gpu_cores * constants.gpu_core_mtransistors
        ) * constants.logic_mm2_per_mtransistor
        uncore = 1.0 + constants.uncore_share
        covered = self.stacked_mm2 + beside * uncore if self.stacked_mm2 else 0.0
        outline = float(outline_mm2(edge_mm(np.array(memory_edge_m), ports, constants)))
        return max((blocks + sram + beside) * uncore, covered, outline)


def _assembled(rows: JsonRows) -> JsonObject:
    """The compute dies of an MI300X, eight on four."""
    dies = {str(row["what"]): row for row in rows}
    counts = {"AMD MI300 XCD, mm2": 8, "AMD MI300 IOD, mm2": 4}
    ends = [
        sum(n * dies[name][end] for name, n in counts.items()) for end in ("low", "ours", "high")
    ]
    area = sum(n * dies[name]["reference"] for name, n in counts.items())
    return ranged_row("AMD MI300X, mm2", area, ends, "eight XCD on four IOD, as above")


def run() -> Study:
    """The study."""
    rows = []
    for name, die in read_records(_FILE, PublishedDie, "dies").items():
        row = ranged_row(
            f"{name}, mm2" + (", at most" if die.at_most else ""),
            die.area,
            [die.modelled_mm2(level) for level in _LEVELS],
            die.source,
        )
        if die.at_most:
            row["is_within"] = row["low"] <= die.area
        row |= {end: round(row[end], 1) for end in ("ours", "low", "high")}
        rows.append(row | {"reason": die.reason} if abs(row["error"]) > _CLOSE else row)
    rows.append(_assembled(rows))
    exact = np.array([row["error"] for row in rows if "at most" not in str(row["what"])])
    return Study(
        name="area",
        question="Areas of published dies, from their blocks, against the vendors' figures.",
        rows=rows,
        summary=[summarize("dies of known area", exact)],
        targets=[
            all_within("published areas within the range of the constants", rows),
            count_promise(
                "areas within 20 %, or with a reason",
                f"{len(rows)} of {len(rows)}",
                sum(abs(row["error"]) <= _CLOSE or bool(row.get("reason")) for row in rows),
                len(rows),
            ),
        ],
        notes=[
            "low and high have every constant at that end of its range at once, wider than likely",
            "in-sample: uncore_share is chosen by the A100, H100 and XCD, SRAM is fitted to the "
            "V-Caches; the density of logic is that of the A100 (n7) and the H100 (n5)",
            "of Google's TPU v6e no area is published",
            "an IOD is as large as the two XCD on it, the interfaces beside them and their uncore",
        ],
    )
