"""Modelling choices of the NPU that the papers leave open, each with a name.

Two profiles set them together. ``plain`` is physics without fitted factors. ``memexplorer`` is a
reading of the software behind Tables 4 to 6 of MemExplorer [MemExplorer]_: every projection streams
its operands anew for every tile of the array, and every operation of the vector unit reads an
operand at the on-chip port and writes one, after the products. Three choices are fitted: a tile is
half of BLEN, an operation has two operands (PLENA has three), and the streams take turns.
``python -m validation memexplorer`` shows every cell, all of them in-sample.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from codesign.base.columns import FloatDict, JsonObject
from codesign.base.errors import check_known
from codesign.base.schema import (
    Amount,
    Bandwidth,
    Latency,
    PositiveAmount,
    Share,
    accepted_by,
    quantity,
    unstored_at,
)
from codesign.evaluators.format_accuracy import AccuracyOptions
from codesign.models.accounts.account_constants import (
    CONSTANTS,
    Constants,
    Cooling,
    Process,
    constants_at,
)
from codesign.models.accounts.memory_prices import price_list
from codesign.models.deployments import LinkTime, ModelPart
from codesign.models.hardware.accelerator import ScorePath
from codesign.models.hardware.array import Organization
from codesign.models.hardware.collective_times import Link
from codesign.models.machines.npu.stage_records import Modelling
from codesign.models.memtech import Level

Blocking = Literal["capacity", "array"]

MATRIX_SHARE: dict[str, float] = {
    "matrix": 0.75,
    "vector": 0.25,
    "equal": 0.5,
    "shared": 1.0,
}
"""Share of the off-chip bandwidth for weights and KV cache; activations have the rest
(MemExplorer §4.2). ``shared``: each has all of it in turn, as in a GPU [our addition]."""

_PROFILES: dict[str, JsonObject] = {
    "plain": {
        "blocking": "capacity",
        "offchip_efficiency": 1.0,
        "topology": "staged",
        "batch": "best",
        "score_path": "on_chip",
        "work": "proportional",
    },
    "memexplorer": {
        "blocking": "array",
        "offchip_efficiency": 1.0,
        "topology": "staged",
        "batch": "capacity",
        "score_path": "on_chip",
        "work": "proportional",
    },
}


def _check_constants(constants: FloatDict) -> None:
    for name in constants:
        check_known("constant", name, CONSTANTS)


class NpuOptions(AccuracyOptions):
    """Options of the ``npu`` evaluator: keys under ``evaluator:`` of a campaign."""

    profile: Literal["plain", "memexplorer"] = "plain"
    """Sets the options below that are left out."""
    blocking: Blocking | None = None
    """``capacity``: the largest tiles that the on-chip memory holds, what a good compiler does.
    ``array``: operands are streamed anew for every tile of the array, as MemExplorer's tables
    have it."""
    offchip_efficiency: Share | None = None
    """Share of the off-chip peak bandwidth that streams can use."""
    batch: Literal["best", "capacity"] | None = None
    """Choice of the batch where neither workload nor design says it. ``best``: the power of two
    that is best in throughput within the campaign's limits on latency. ``capacity``: the largest
    power of two that fits (MemExplorer)."""
    vector: Literal["overlapped", "serial"] = "overlapped"
    """``overlapped``: vector unit and matrix array work side by side over a pass, as when chunks of
    a prompt or halves of a batch take turns. ``serial``: one works after the other. Blocking
    ``array`` is always ``serial``."""
    softmax: Literal["pipelined", "unpipelined"] = "pipelined"
    """``pipelined``: a lane takes in one score per cycle and does all six operations on it;
    ``unpipelined``: each of them is a pass of its own over the scores."""
    bandwidth_sharing: Literal["fixed", "shared"] = "fixed"
    """``fixed``: the streams have the fixed shares of the design's bandwidth priority
    (MemExplorer §4.2). ``shared``: whoever asks gets the port, and the priority has no effect."""
    topology: Literal["staged", "parallel"] | None = None
    """``staged``: bytes pass every tier above their own (MemExplorer), the tiers in the order that
    is fastest. ``parallel``: every off-chip interface sits on the die and feeds the on-chip memory
    itself; data are spread by bandwidth as far as the capacities allow."""
    score_path: Annotated[ScorePath | None, unstored_at("uncharged")] = None
    """Path of attention scores and of the vector unit's operands. ``local``: a buffer between array
    and vector unit, which takes area and energy and holds two tiles of scores, BLEN rows by MLEN
    keys each. ``on_chip``: the port of the on-chip memory, as in PLENA. ``uncharged``: no port, as
    MemExplorer's tables and the first versions of the published problems have it. A space with the
    parameter ``score_path`` decides between the first two."""
    work: Annotated[Literal["proportional", "padded"] | None, unstored_at("padded")] = None
    """``proportional``: a block of the array ends after its last column, columns of all heads share
    the array's depth, and rows without data draw no power. ``padded``: PLENA's instructions, which
    work on whole blocks of BLEN columns with all rows."""
    array: Organization = "flattened"
    """``flattened`` (PLENA), ``systolic`` (an R x C grid with SCALE-Sim's cycles) or ``ideal``; a
    space with the parameter ``array_organization`` says it itself."""
    fused: bool = True
    """Whether elementwise operators run on tiles while they are on chip, without traffic."""
    requests_in_flight: Annotated[float | None, Field(gt=0)] = None
    """Chunks that a memory level can have outstanding; no limit if left out."""
    technology_level: Level = "typical"
    """Level of every number with a published range: ``low`` its good end (small, cheap, fast,
    lasting), ``high`` its bad end. For intervals see ``codesign evaluate --uncertainty``."""
    memory_edge_m: Annotated[float, quantity("mm"), Field(gt=0)] = 0.066
    """Die edge reserved for memory: two 33 mm edges of the reticle (MemExplorer Eq. 1)."""

    link_bandwidth: Bandwidth = 450e9
    """Bandwidth to the other devices of a replica, one way: NVLink 4, as in an H100 (900 GB/s both
    ways, NVIDIA)."""
    link_latency: Latency = 1e-6
    """A step over a link that carries nothing: 1 us, as in GenZ's tool."""
    link_warm_up: Annotated[Latency, unstored_at(5e-6)] = 5e-6
    """Fixed start of every message: 5 us, ``T_warmup`` of Eq. 3 in GenZ's tool (version 0.0.16)."""
    link_energy: Annotated[float, quantity("pJ/bit"), Field(ge=0)] = 1.3e-12 * 8
    """Energy of what is sent, J/byte: NVLink, 1.3 pJ/bit (NVIDIA, What Is NVLink?, 2023)."""
    usd_per_hour: PositiveAmount | None = None
    """Rent of one device, USD; adds the metric ``usd_per_million_tokens``."""

    process: Process = "n7"
    """Process of compute dies and on-chip memory: area, price, and energies over those of 7 nm. A
    space with the parameter ``process`` decides it."""
    cooling: Cooling = "liquid"
    """Cooling medium: ``air`` or ``liquid``."""
    units_made: Annotated[float | None, Field(gt=0)] = None
    """Units that share the cost of design and masks in the price of tokens; without it, that cost
    stands apart."""
    prices: Annotated[str, accepted_by(price_list)] | None = Field(None, exclude=True)
    """Prices of memories: a quarter (``2025-Q4``, ``2026-Q1``, ``2026-Q2``) or the path of a
    quotation file in the form of ``codesign/models/accounts/prices.yaml``. If left out, the price
    in each memory's own file. Results depend on the prices, not on the path."""
    constants: Annotated[dict[str, Amount], accepted_by(_check_constants)] = Field({})
    """Constants of what a design costs and an operation takes, by name, in place of those of
    ``technology_level``; see ``codesign/models/accounts/constants.yaml``."""

    def resolved(self) -> NpuOptions:
        """The same with the profile's choices filled in."""
        chosen_profiles = {
            name: value
            for name, value in _PROFILES[self.profile].items()
            if getattr(self, name) is None
        }
        resolved = self.model_copy(update=chosen_profiles)
        is_serial = resolved.blocking == "array"
        return resolved.model_copy(update={"vector": "serial"}) if is_serial else resolved


def account_constants(options: NpuOptions) -> Constants:
    """Constants of the process, at the level of the options, or stated."""
    constants = constants_at(options.process, options.technology_level)
    return replace(constants, **options.constants) if options.constants else constants


def link_time(part: ModelPart, options: NpuOptions) -> LinkTime:
    """Time of the messages of a pass over the links that the options state."""
    link = Link(options.link_bandwidth, options.link_latency)
    return part.messages.link_time(link, options.link_warm_up)


def modelling_of(options: NpuOptions) -> Modelling:
    """Resolved options as numbers."""
    return Modelling(
        is_array_blocked=options.blocking == "array",
        is_staged=options.topology == "staged",
        is_vector_serial=options.vector == "serial",
        offchip_efficiency=options.offchip_efficiency or 1.0,
        requests_in_flight=options.requests_in_flight or 0.0,
    )
