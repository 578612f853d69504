"""Conclusions of the paper, each as a statement that exact fronts can answer.

A conclusion of the form "use X" is answered by leaving X out: the exact front of the designs
without X beside that of all. What X is worth is what is lost, in throughput under a cap on TDP and
in tokens per joule of TDP. How many points of the front have X is told as well, but decides
nothing: on a plateau the front has designs that differ by less than a model can tell.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from codesign.base.columns import Strings
from codesign.base.records import frozen
from codesign.insight.explanation import Variation
from codesign.models.workload.lowering import Phase

Measure: TypeAlias = Literal["rate", "per_joule"]
"""Throughput under the cap; or tokens per joule, throughput over TDP as in Table 5."""

_EDGE = "shoreline <= 66 mm"
"""The rule of the spaces, MemExplorer Eq. 1, that further conditions are joined to."""
_DATAFLOWS = ("ws", "is", "os")
_PRIORITIES = ("activation", "kv", "weight", "equal")


@frozen
class ClaimedChoice:
    """Something that a design has or lacks.

    Attributes:
        name: In words.
        condition: Of the designs that have it, as campaigns write it.
        without: Parts of the space that together hold all designs that lack it.
    """

    name: str
    condition: str
    without: tuple[Variation, ...]


def _memory(name: str, technologies: Strings) -> ClaimedChoice:
    count = f"count(tier, technology in [{', '.join(technologies)}])"
    lacks = Variation(space_constraints=((_EDGE, f"{_EDGE} and {count} <= 0"),))
    return ClaimedChoice(name, f"{count} >= 1", (lacks,))


def _value(name: str, parameter: str, value: str, values: Strings) -> ClaimedChoice:
    others = (
        Variation(fixed=((parameter, other_value),))
        for other_value in values
        if other_value != value
    )
    return ClaimedChoice(name, f"{parameter} == {value}", tuple(others))


def _combine(name: str, first: ClaimedChoice, second: ClaimedChoice) -> ClaimedChoice:
    condition = f"{first.condition} and {second.condition}"
    return ClaimedChoice(name, condition, (*first.without, *second.without))


STACKED = ClaimedChoice(
    "3D SRAM", "sram_3d_layers >= 1", (Variation(fixed=(("sram_3d_layers", 0),)),)
)  # fmt: skip
WEIGHT_STATIONARY = _value("weight stationary", "dataflow", "ws", _DATAFLOWS)
ACTIVATIONS_FIRST = _value("activation priority", "storage_priority", "activation", _PRIORITIES)
STRATEGY = _combine(
    "weight stationary with activation priority", WEIGHT_STATIONARY, ACTIVATIONS_FIRST
)
HBF = _memory("HBF", ["hbf"])
HBM = _memory("HBM", ["hbm3e_8h", "hbm4_12h"])
LPDDR = _memory("LPDDR", ["lpddr5x", "lpddr6"])
HBM_AND_HBF = _combine("HBM and HBF together", HBM, HBF)


@frozen
class Claim:
    """A conclusion of the paper.

    Attributes:
        key: Short name.
        title: What is concluded, in few words.
        sections: Where the paper says it.
        says: What it says there, in our words, with its numbers.
        checked: The statement that is checked here.
        phase: Of which a front answers; None: of both phases together.
        choice: What is left out; None: a memory of its own for each phase.
        beside: Choices that are left out besides, each alone.
        measures: By which it is decided; the larger loss counts.
        varied: What is changed to see what the answer depends on; see ``varied``.
    """

    key: str
    title: str
    sections: str
    says: str
    checked: str
    phase: Phase | None
    choice: ClaimedChoice | None
    beside: tuple[ClaimedChoice, ...] = ()
    measures: tuple[Measure, ...] = ("rate", "per_joule")
    varied: tuple[str, ...] = ()


CLAIMS = (
    Claim(
        key="3d-sram",
        title="3D-stacked SRAM for prefill",
        sections="§1 (third contribution), §5.3, Tables 5 and 6",
        says="Prefill gains most from large and fast stacked SRAM: three layers instead of one "
        "die of SRAM give 2.62 times the tokens per joule (H1 over Base, Table 5), and both "
        "prefill designs of Table 6 have two or three layers. The reason given is that "
        "activations stay on chip and leave the off-chip bandwidth to the weights.",
        checked="Of the designs without a layer of 3D SRAM, the best at 700 W, or in tokens per "
        "joule, is clearly below the best of all.",
        phase="prefill",
        choice=STACKED,
        varied=("Base", "blocking", "batch", "topology", "bfcl", "qwen3-32b"),
    ),
    Claim(
        key="strategy",
        title="Weight-stationary dataflow with activations first on chip, for prefill",
        sections="§5.2, Table 4",
        says="On the hardware of P1 this pair gives 2.31 times the tokens per joule of "
        "output stationary with even storage; output stationary with activations first gives "
        "1.41 times, input stationary with weights first 0.59 times. The table has no weight "
        "stationary row with another storage priority.",
        checked="Of the designs with any other pair of dataflow and storage priority, the best at "
        "700 W, or in tokens per joule, is clearly below the best of all.",
        phase="prefill",
        choice=STRATEGY,
        beside=(WEIGHT_STATIONARY, ACTIVATIONS_FIRST),
        varied=("P1", "blocking", "qwen3-32b"),
    ),
    Claim(
        key="hbf",
        title="HBF for decode",
        sections="§1 (third contribution), §2.3, §3, Table 6",
        says="Decode gains from capacity more than from bandwidth, since the batch grows with "
        "it. HBF offers most capacity per millimeter of die edge, and both decode designs of "
        "Table 6 have it.",
        checked="Of the designs without HBF, the best at 700 W, or in tokens per joule, is clearly "
        "below the best of all.",
        phase="decode",
        choice=HBF,
        varied=("strict", "batch", "topology", "bfcl", "qwen3-32b"),
    ),
    Claim(
        key="hbm-hbf",
        title="HBM together with HBF for decode",
        sections="§2.3, §5.3, Table 6",
        says="HBF is no primary source of bandwidth but the outermost tier, behind HBM: the "
        "decode designs have two stacks of HBM3E with one of HBF, and two of HBM4 with two of "
        "HBF, for 1.44 and 2.19 times the throughput of Base.",
        checked="Of the designs that do not have both HBM and HBF, the best at 700 W, or in "
        "tokens per joule, is clearly below the best of all.",
        phase="decode",
        choice=HBM_AND_HBF,
        beside=(HBM,),
        varied=("strict", "batch", "topology", "bfcl", "qwen3-32b"),
    ),
    Claim(
        key="lpddr-prefill",
        title="LPDDR for efficiency, in prefill",
        sections="§5.2, Table 5; §5.3, Table 6 and Fig. 8",
        says="Eight LPDDR5X packages behind HBM raise the tokens per joule from 2.62 to 3.06 "
        "times Base (H2 over H1, Table 5); the efficient prefill design P2 has sixteen.",
        checked="Of the designs without LPDDR, the best in tokens per joule is clearly below the "
        "best of all.",
        phase="prefill",
        choice=LPDDR,
        measures=("per_joule",),
        varied=("average power", "strict", "blocking", "bfcl", "qwen3-32b"),
    ),
    Claim(
        key="lpddr-decode",
        title="LPDDR for efficiency, in decode",
        sections="§5.3, Table 6 and Fig. 8",
        says="Data that lies in energy-efficient memory such as LPDDR makes decode more "
        "efficient; D2, the efficient decode design, has eight LPDDR5X packages behind HBM4 "
        "and HBF.",
        checked="Of the designs without LPDDR, the best in tokens per joule is clearly below the "
        "best of all.",
        phase="decode",
        choice=LPDDR,
        measures=("per_joule",),
        varied=("average power", "strict", "topology", "bfcl", "qwen3-32b"),
    ),
    Claim(
        key="own-memory",
        title="Different memory for prefill and decode",
        sections="abstract, §1, §3, Table 6",
        says="The phases ask for different memory, prefill for bandwidth and decode for "
        "capacity, so one configuration cannot be best for both and each gets a device of "
        "its own.",
        checked="Devices that all have one memory system, the best such, serve clearly fewer "
        "requests per device and second at 700 W, or per joule of TDP, than devices of which "
        "each phase has its own; array, vector length and software always suit the phase.",
        phase=None,
        choice=None,
        varied=("blocking", "strict", "batch", "bfcl", "qwen3-32b"),
    ),
)
