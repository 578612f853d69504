"""Reason for an answer: a bound or two on one line, from the designs themselves.

Nothing here goes through the evaluator's times. Each line starts from token counts, element counts
and the library's datasheets, so a reader can repeat it on paper; where the evaluator's own traffic
stands beside an estimate, the line says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codesign.models.machines.npu.calibrated import TILE_SHARE
from codesign.models.machines.npu.operator_stage import TILE_BUFFER_SHARE
from codesign.models.machines.npu.traffic import ACCUMULATOR_BYTES
from codesign.models.memtech import MemoryTechnology, load_library
from codesign.models.workload import Request
from codesign.models.workload.lowering import Phase

_CLOCK_HZ = 1e9
_BYTES = 1.0
"""Bytes of an element: all formats have 8 bits (MemExplorer §5.2)."""


@dataclass(frozen=True)
class Best:
    """A design that an answer shows.

    Attributes:
        phase: Which it serves.
        design: Value by parameter.
        request: What it is asked to do.
    """

    phase: Phase
    design: Mapping[str, Any]
    metrics: Mapping[str, float]
    request: Request

    @property
    def offchip_bytes_per_s(self) -> float:
        """Traffic between off-chip and on-chip memory."""
        return self.metrics["offchip_bytes_per_token"] * self.metrics["throughput_tokens_per_s"]

    @property
    def onchip_bytes(self) -> float:
        """Capacity of its on-chip memory."""
        library = load_library()
        units = {"sram": self.design["sram_dies"], "sram_3d": self.design["sram_3d_layers"]}
        return math.fsum(n * library[name].capacity.typical for name, n in units.items())


def arithmetic(key: str, profile: str, best_designs: Sequence[Best]) -> str:
    """One line of arithmetic for an answer.

    Args:
        best_designs: The designs that the answer shows, the best of all first.
    """
    if not best_designs:
        return ""
    return _LINES[key](profile, best_designs)


def _stacked(profile: str, best_designs: Sequence[Best]) -> str:
    best = best_designs[-1]
    if profile == "plain":
        return f"Without 3D SRAM, {_tiles(best)}."
    width = max(_widths(best.request))
    inputs = [best.request.tokens.prompt_tokens * n * _BYTES for n in _widths(best.request)]
    return (
        "This reading streams the inputs of a projection anew for every tile of the array, unless "
        f"those of one request stay on chip: {_giga(inputs[0])} GB, and {_giga(inputs[1])} GB for "
        f"the down projection ({best.request.tokens.prompt_tokens:,} x {width:,} B). One die of "
        f"SRAM has {_giga(load_library()['sram'].capacity.typical)} GB, a layer of 3D SRAM "
        f"{_giga(load_library()['sram_3d'].capacity.typical)} GB."
    )


def _tiles(best: Best) -> str:
    """Off-chip traffic of square tiles, if their buffer is all on-chip memory."""
    rows, columns = best.design["pe_array"]
    macs_per_s = rows * columns * _CLOCK_HZ
    side = math.sqrt(TILE_BUFFER_SHARE * best.onchip_bytes / ACCUMULATOR_BYTES)
    return (
        f"half of the {_giga(best.onchip_bytes)} GB on chip holds a square tile of {side:,.0f} x "
        f"{side:,.0f} partial sums, which takes 2 / {side:,.0f} bytes per multiply-accumulate: "
        f"{macs_per_s / 1e12:.0f} T of them a second need {_tera(2 / side * macs_per_s)} TB/s, and "
        f"better tiles less: the model moves {_tera(best.offchip_bytes_per_s)} TB/s. The memory "
        f"has {_tera(best.metrics['offchip_bandwidth_bytes_per_s'])}"
    )


def _widths(request: Request) -> tuple[int, int]:
    """Columns of the inputs of most projections, and of the down projection."""
    table = request.operators()
    inner = table.k[(table.m_per_request > 0) & ~table.is_attention]
    return int(inner.min()), int(inner.max())


def _strategy(profile: str, best_designs: Sequence[Best]) -> str:
    best = best_designs[-1]
    if profile == "plain":
        return (
            f"With any other pair, {_tiles(best)}: the array is the limit, and the order in which "
            "tiles are visited does not change its cycles."
        )
    request, design = best.request, best_designs[0].design
    tile = TILE_SHARE * design["pe_array"][1]
    passes = request.tokens.prompt_tokens / tile
    seconds = request.tokens.prompt_tokens / best_designs[0].metrics["throughput_tokens_per_s"]
    weights = request.weight_elements * _BYTES
    return (
        f"Weights that are not stationary are read once per {tile:g} rows, "
        f"{passes:,.0f} times {_giga(weights)} GB: in the {seconds:.3g} s that the best design "
        f"takes for a prompt, {_tera(passes * weights / seconds)} TB/s, of which fixed shares and "
        "the fitted efficiency leave 3/8 of the first tier's peak."
    )


def _hbf(profile: str, best_designs: Sequence[Best]) -> str:
    best = best_designs[0]
    request = best.request
    depth = best.design["pe_array"][0]
    mean = request.tokens.prompt_tokens + request.tokens.generated_tokens / 2
    longest = request.tokens.prompt_tokens + request.tokens.generated_tokens
    kv = request.kv_elements_per_request * mean / longest
    table = request.operators()
    weights = float((table.mac_per_request * table.count)[~table.is_attention].sum())
    rates = [
        f"{n * depth * _CLOCK_HZ / (weights + n * kv):.3g} at batch {n:g}" for n in (8, 16, 32)
    ]
    held = request.weight_elements + 32 * request.kv_elements_per_request
    line = (
        f"A step streams {_giga(weights)} G weights and {_giga(kv)} G keys and "
        f"values per request at {depth:,} a cycle: at most {', '.join(rates)} and "
        f"{depth * _CLOCK_HZ / kv:.3g} token/s at any batch. Batch 32 needs {_giga(held)} GB."
    )
    if profile != "plain":
        line += (
            " Memory time comes on top, at half of the peak bandwidth, as long as the slowest "
            "tier takes for its share."
        )
    return line


def _lpddr(profile: str, best_designs: Sequence[Best]) -> str:
    del profile, best_designs
    library = load_library()
    return (
        "For each GB of capacity, TDP (background and peak reads) and bandwidth: "
        + ", ".join(_per_gb(library[name]) for name in ("lpddr5x", "lpddr6", "hbm4_12h", "hbf"))
        + ". Per bit LPDDR needs more energy than HBM ("
        + ", ".join(
            f"{_short(name)} {library[name].read_energy.typical * 1e12 / 8:.3g} pJ"
            for name in ("lpddr5x", "lpddr6", "hbm3e_8h", "hbm4_12h")
        )
        + "), so it saves power as capacity, and as bandwidth in small steps; not per byte moved."
    )


def _per_gb(item: MemoryTechnology) -> str:
    rate = item.bandwidth.typical / item.capacity.typical
    watts = (item.background_power.typical + rate * item.read_energy.typical) * 1e9
    return f"{_short(item.key)} {watts:.2g} W and {rate:.2g} GB/s"


def _short(technology: str) -> str:
    return technology.split("_")[0].upper()


def _own_memory(profile: str, best_designs: Sequence[Best]) -> str:
    del profile
    parts = [
        f"{best.phase} holds {_giga(best.metrics['memory_used_bytes'])} GB and moves "
        f"{_tera(best.offchip_bytes_per_s)} TB/s"
        for best in best_designs[:2]
    ]
    tokens = best_designs[0].request.tokens
    times = [
        tokens.prompt_tokens / best_designs[0].metrics["throughput_tokens_per_s"],
        tokens.generated_tokens / best_designs[1].metrics["throughput_tokens_per_s"],
    ]
    return (
        f"At its best, {' and '.join(parts)}; a request takes {times[0]:.3g} s of prefill and "
        f"{times[1]:.3g} s of decode, so what one phase loses counts "
        f"{times[0] / sum(times):.0%} or {times[1] / sum(times):.0%}."
    )


def _giga(value: float) -> str:
    return f"{value / 1e9:.3g}"


def _tera(value: float) -> str:
    return f"{value / 1e12:.2g}"


_LINES: Mapping[str, Callable[[str, Sequence[Best]], str]] = {
    "3d-sram": _stacked,
    "strategy": _strategy,
    "hbf": _hbf,
    "hbm-hbf": _hbf,
    "lpddr-prefill": _lpddr,
    "lpddr-decode": _lpddr,
    "own-memory": _own_memory,
}
