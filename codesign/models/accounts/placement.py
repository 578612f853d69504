"""Floorplan with positions: where the blocks of a base lie, by one deterministic rule.

The base is a grid of equal dies, each square up to the 26 mm of the reticle's short side. The
interfaces of memories stand along its sides as whole stacks, first on the left, then on the right,
the top and the bottom side; links and host take the room between them. If whole stacks do not fit,
all interfaces share the outline in proportion to their areas. Inside, SRAM, array and vector unit
are bands over the full width; what no block covers is the uncore. Layers lie over the middle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from codesign.base.columns import ArrayTriple, FloatArray, StringTuple
from codesign.models.accounts.account_constants import Constants
from codesign.models.accounts.area import Floorplan
from codesign.models.hardware.accelerator import LEVEL_NAMES, MemoryLevels

RETICLE_SHORT_SIDE_MM = 26.0
"""Short side of the field of a lithography scanner."""
_ROUNDING = 1e-9


class Placement(NamedTuple):
    """Rectangles on the bases of ``n`` accelerators, in mm from their lower left corners.

    Attributes:
        names: (r,) block of each rectangle; a block may have several.
        x: (r, n) left side; likewise the others.
        stacks: (r, n) memories at the rectangle; 0 for other blocks.
        sides_mm: (2, n) width and height of the base.
        grid: (2, n) columns and rows of its dies.
        layers: (4, n) x, y, width and height of every stacked layer.
    """

    names: StringTuple
    x: FloatArray
    y: FloatArray
    width: FloatArray
    height: FloatArray
    stacks: FloatArray
    sides_mm: FloatArray
    grid: FloatArray
    layers: FloatArray


def place(
    plan: Floorplan,
    levels: MemoryLevels,
    n_dies: FloatArray,
    dies_mm2: FloatArray,
    constants: Constants,
) -> Placement:
    """Rectangles of the blocks of ``n`` accelerators.

    Args:
        n_dies: (n,) base dies.
        dies_mm2: (n,) area of all of them.
    """
    blocks = plan.blocks
    n = len(n_dies)
    die_mm2 = dies_mm2 / n_dies
    rows = 2.0 ** np.floor(np.log2(n_dies) / 2.0)
    grid = np.stack([n_dies / rows, rows])
    die_height = np.minimum(np.sqrt(die_mm2), RETICLE_SHORT_SIDE_MM)
    sides = np.stack([die_mm2 / die_height, die_height]) * grid
    ports = np.stack([np.broadcast_to(values, n) for values in (blocks.links, blocks.host)])
    edges = 1e3 * (levels.shoreline_m + levels.uncharged_shoreline_m)[1:]
    tiers = np.stack([np.broadcast_to(values, n) for values in blocks.tiers])
    # The longest edge first, so that the order in which a design lists its tiers does not matter.
    order = np.lexsort((-levels.peak_read_watts[1:], -tiers, -edges), axis=0)
    listed = np.argsort(order, axis=0)
    tiers, edges = (np.take_along_axis(values, order, axis=0) for values in (tiers, edges))
    is_bonded = edges <= 0.0
    stacks = np.maximum(np.take_along_axis(levels.n_stacks[1:], order, axis=0), 1.0)
    area = np.concatenate([np.where(is_bonded, 0.0, tiers), ports])
    length = np.concatenate([edges, ports * constants.edge_mm_per_interface_mm2])
    unit = np.concatenate([edges / stacks, np.zeros_like(ports)])
    bands = np.stack(
        [blocks.sram, blocks.array, blocks.vector, *np.where(is_bonded, tiers, 0.0)]
    ) + np.zeros(n)
    between = dies_mm2 - area.sum(axis=0) - bands.sum(axis=0)
    lengths, depths, margins = _along_sides(area, length, unit, sides, between)
    strips = _strips(lengths, depths, margins, sides).reshape(4, -1, 4, n)
    names = [f"{level} interface" for level in LEVEL_NAMES[1 : len(tiers) + 1]]
    strip_names = [name for name in (*names, "links", "host interface") for _ in range(4)]
    held = lengths * np.where(unit > 0, 1.0 / np.where(unit > 0, unit, 1.0), 0.0)[:, None]
    inner = _bands(bands, margins, sides)
    n_tiers = len(tiers)
    n_inner = len(inner[0]) - len(tiers)
    strips[:, :n_tiers] = np.take_along_axis(strips[:, :n_tiers], listed[None, :, None], axis=1)
    held[:n_tiers] = np.take_along_axis(held[:n_tiers], listed[:, None], axis=0)
    inner[:, n_inner:] = np.take_along_axis(inner[:, n_inner:], listed[None], axis=1)
    x, y, width, height = np.concatenate([strips.reshape(4, -1, n), inner], axis=1)
    share = np.sqrt(plan.layer_mm2 / (sides[0] * sides[1]))
    corner = 0.5 * (1.0 - share) * sides
    return Placement(
        (*strip_names, "on_chip", "array", "vector", *names),
        x, y, width, height, np.concatenate([held.reshape(-1, n), np.zeros_like(bands)]), sides,
        grid,
        np.concatenate([corner, share * sides]),
    )  # fmt: skip


def _along_sides(
    area: FloatArray,
    length: FloatArray,
    unit: FloatArray,
    sides_mm: FloatArray,
    between_mm2: FloatArray,
) -> ArrayTriple:
    """(i, 4, n) length on each side, (i, n) depth, and (4, n) depth that a side keeps for all.

    Args:
        area: (i, n) of the interfaces, tiers first, then links and host.
        length: Side that each takes, 0 for one that is bonded onto the die.
        unit: Length of one stack's interface, 0 for links and host.
    """
    total = area.sum(axis=0)
    half = sides_mm[0] + sides_mm[1]
    depths = np.divide(area, length, out=np.zeros_like(area), where=length > 0)
    deepest = depths.max(axis=0)
    sides = _inner_sides(sides_mm, deepest)
    # Stacks stay in one piece; links and host are cut only if no side has room for all of them.
    room = sides.copy()
    lengths = np.zeros((len(length), *sides.shape))
    for i, (remaining, size) in enumerate(zip(length.copy(), unit, strict=True)):
        is_cut = (size <= 0.0) & (room.max(axis=0) < remaining)
        is_widest = np.arange(len(sides))[:, None] == room.argmax(axis=0)
        for side in range(len(sides)):
            complete = np.floor(room[side] / np.maximum(size, _ROUNDING) + _ROUNDING) * size
            free = np.where(is_cut | is_widest[side], room[side], 0.0)
            used = np.minimum(remaining, np.where(size > 0.0, complete, free))
            lengths[i, side] = np.maximum(used, 0.0)
            room[side] -= lengths[i, side]
            remaining = remaining - lengths[i, side]
            remaining = np.where(remaining < _ROUNDING, 0.0, remaining)
    is_used = (lengths > 0).any(axis=0)
    kept_mm2 = deepest * (sides * is_used).sum(axis=0)
    fits = np.isclose(lengths.sum(axis=1), length, rtol=_ROUNDING, atol=_ROUNDING).all(axis=0)
    fits &= kept_mm2 - total <= between_mm2
    # The depth of a ring along the outline that has the area of all interfaces.
    ring = (half - np.sqrt(np.maximum(half * half - 4.0 * total, 0.0))) / 4.0
    ends = np.cumsum(area, axis=0) / np.where(ring > 0, ring, 1.0)
    ring_sides = _inner_sides(sides_mm, ring)
    stops = np.cumsum(ring_sides, axis=0)
    starts = stops - ring_sides
    begins = ends - area / np.where(ring > 0, ring, 1.0)
    shared = np.minimum(ends[:, None], stops) - np.maximum(begins[:, None], starts)
    lengths = np.where(fits, lengths, np.maximum(shared, 0.0))
    depths = np.where(fits, depths, np.where(area > 0, ring, 0.0))
    return lengths, depths, np.where(fits, deepest * is_used, ring)


def _inner_sides(sides_mm: FloatArray, depth: FloatArray) -> FloatArray:
    """(4, n) left and right side, and top and bottom side between strips of a depth."""
    width, height = sides_mm
    return np.stack([height, height, width - 2 * depth, width - 2 * depth])


def _strips(
    lengths: FloatArray, depths: FloatArray, margins: FloatArray, sides_mm: FloatArray
) -> FloatArray:
    """(4, 4 i, n) x, y, width and height of the interfaces on the four sides."""
    width, height = sides_mm
    begins = np.cumsum(lengths, axis=0) - lengths
    depth = np.where(lengths > 0, depths[:, None], 0.0)
    nothing = np.zeros_like(depth[:, 0])
    along = margins[0] + begins
    rectangles = [
        (nothing, begins[:, 0], depth[:, 0], lengths[:, 0]),
        (width - depth[:, 1], begins[:, 1], depth[:, 1], lengths[:, 1]),
        (along[:, 2], height - depth[:, 2], lengths[:, 2], depth[:, 2]),
        (along[:, 3], nothing, lengths[:, 3], depth[:, 3]),
    ]
    return np.stack(
        [np.stack(place, axis=1).reshape(-1, len(width)) for place in zip(*rectangles, strict=True)]
    )


def _bands(areas: FloatArray, margins: FloatArray, sides_mm: FloatArray) -> FloatArray:
    """(4, b, n) x, y, width and height of the blocks inside, from the bottom to the top."""
    width = sides_mm[0] - margins[:2].sum(axis=0)
    height = sides_mm[1] - margins[2:].sum(axis=0)
    heights = areas / width
    is_there = areas > 0
    gap = (height - heights.sum(axis=0)) / (is_there.sum(axis=0) + 1)
    y = margins[3] + np.cumsum(heights + gap * is_there, axis=0) - heights
    x = np.broadcast_to(margins[0], areas.shape)
    return np.stack([x, y, np.where(is_there, width, 0.0), heights])
