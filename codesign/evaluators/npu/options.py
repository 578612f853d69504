"""How the NPU is modelled: the choices that the papers leave open, each with a name.

Two profiles set them together. ``plain`` is physics without fitted factors. ``memexplorer`` is
a calibration: of some 1,400 combinations of physically meaningful readings (which streams
are read again and per what tile, how ``equal`` fills the tiers, width of partial sums, usable
bandwidth, causal attention, vector work, concurrent streams), the one with the least overall
logarithmic error over the ratios of MemExplorer's [MemExplorer]_ Tables 4 to 6; several are
nearly as good. ``codesign validate memexplorer`` shows every cell: what it misses most is the
gain of Table 5 from more memory, of which it gives 40 to 55 %.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from codesign.hardware.array import Organization
from codesign.memtech import Level
from codesign.schema import Record, quantity

Blocking: TypeAlias = Literal["capacity", "array"]

ARRAY_TILE_SHARE = 0.5
"""Rows of a tile over BLEN under ``array`` blocking: half, for double buffering [fitted to
MemExplorer Table 4]."""
TILE_BUFFER_SHARE = 0.5
"""Share of the on-chip memory that holds the tiles of the running operator under ``capacity``
blocking; the rest holds what stays resident [our choice: an even split]."""
ACCUMULATOR_BYTES = 4.0
"""A partial sum: int32 or float32, as usual for 8- and 16-bit products."""
MATRIX_SHARE: dict[str, float | None] = {
    "matrix": 0.75,
    "vector": 0.25,
    "equal": 0.5,
    "shared": None,
}
"""Share of the off-chip bandwidth for weights and KV cache; activations have the rest
(MemExplorer §4.2). ``shared``: no fixed shares, as in a GPU [our addition]."""

_PROFILES: dict[str, dict[str, Any]] = {
    "plain": {
        "blocking": "capacity",
        "offchip_efficiency": 1.0,
        "streams": "concurrent",
        "vector": "overlapped",
        "equal_tiers": "interleaved",
    },
    "memexplorer": {
        "blocking": "array",
        # Table 4 prints 2 TB/s for the two HBM4 stacks of P1, which have 4 TB/s in Table 1.
        "offchip_efficiency": 0.5,
        "streams": "serial",
        "vector": "hidden",
        # P2 gives every kind of data equal standing. Interleaved, its activations would pass its
        # LPDDR, and it would be 2.0 times as fast as Base; Table 6 prints 4.93.
        "equal_tiers": "nearest",
    },
}


class NpuOptions(Record):
    """Options of the ``npu`` evaluator; what a campaign's ``evaluator:`` says next to the name."""

    profile: Literal["plain", "memexplorer"] = "plain"
    """Sets the options below that are left out."""
    blocking: Blocking | None = None
    """``capacity``: the largest tiles that the on-chip memory holds, what a good compiler does.
    ``array``: operands are streamed anew for every tile of the array (PLENA)."""
    offchip_efficiency: Annotated[float | None, Field(gt=0, le=1)] = None
    """Share of the off-chip peak bandwidth that streams can use."""
    streams: Literal["concurrent", "serial"] | None = None
    """Whether the matrix stream (weights, KV) and the vector stream (activations) of an operator
    overlap."""
    vector: Literal["hidden", "overlapped", "serial"] | None = None
    """Vector unit against matrix array: free, in parallel over a pass, or one after the other."""
    equal_tiers: Literal["interleaved", "nearest"] | None = None
    """Off chip, the storage priority ``equal`` spreads every kind of data over the tiers like the
    whole (``interleaved``), or puts what is moved most per byte nearest (``nearest``):
    activations, weights, KV cache."""
    bandwidth_sharing: Literal["fixed", "shared"] = "fixed"
    """``fixed``: the streams have the fixed shares of the design's bandwidth priority
    (MemExplorer §4.2). ``shared``: whoever asks gets the port, and the priority has no effect."""
    topology: Literal["staged", "parallel"] = "staged"
    """``staged``: bytes pass every level above their own (MemExplorer). ``parallel``: every
    off-chip interface feeds the on-chip memory directly; as data fill the nearest tier first, more
    capacity there can idle a deeper tier's bandwidth and slow a design."""
    array: Organization = "flattened"
    """``flattened`` (PLENA), ``systolic`` (an R x C grid with SCALE-Sim's cycles) or ``ideal``; a
    space with the parameter ``array_organization`` says it itself."""
    fused: bool = True
    """Whether elementwise operators run on tiles while they are on chip, without traffic."""
    requests_in_flight: Annotated[float | None, Field(gt=0)] = None
    """Chunks that a memory level can have outstanding; no limit if left out."""
    technology_level: Level = "typical"
    """Which end of the published ranges to take for every number, good or bad: not a bound. For
    intervals see ``codesign evaluate --uncertainty``."""
    memory_edge_m: Annotated[float, quantity("mm"), Field(gt=0)] = 0.066
    """Die edge reserved for memory: two 33 mm edges of the reticle (MemExplorer Eq. 1)."""

    def resolved(self) -> NpuOptions:
        """The same with the profile's choices filled in."""
        chosen = {
            name: value
            for name, value in _PROFILES[self.profile].items()
            if getattr(self, name) is None
        }
        return self.model_copy(update=chosen)
