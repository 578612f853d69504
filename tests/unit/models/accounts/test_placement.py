"""Floorplans: whole, without overlaps, with all interfaces on the sides of the base."""

import numpy as np
import pytest

from codesign.base.records import drop_none
from codesign.models.accounts.account_constants import constants_at
from codesign.models.accounts.area import floorplan
from codesign.models.accounts.placement import RETICLE_SHORT_SIDE_MM, place
from codesign.models.accounts.price import cheapest_unit
from codesign.models.hardware.accelerator import build_accelerators
from codesign.models.memtech import load_library
from codesign.space import load_space

LIBRARY = load_library()
SPACE = load_space("memexplorer", {"memtech": LIBRARY.catalog()})


def placed(hardware, level):
    constants, widths = constants_at("n7", level), np.full(len(hardware.n_layers), 8.0)
    plan = floorplan(hardware, widths, widths, constants)
    stacks = cheapest_unit(plan, hardware.levels, constants).stacks
    area = stacks.n_dies * stacks.base_mm2
    return plan, place(plan, hardware.levels, stacks.n_dies, area, constants), area


def overlap(first, second):
    (x, y, width, height), (u, v, wide, high) = first, second
    return min(min(x + width, u + wide) - max(x, u), min(y + height, v + high) - max(y, v))


@pytest.mark.parametrize("level", ["low", "typical", "high"])
def test_rectangles_lie_apart_on_the_base_and_have_the_areas_of_the_blocks(level):
    for seed in range(25):
        rows = SPACE.sample(np.random.default_rng(seed), 1)
        hardware = build_accelerators(SPACE.columns(rows), LIBRARY, level)
        plan, placement, area = placed(hardware, level)
        sides = np.stack([placement.x, placement.y, placement.width, placement.height])[..., 0].T
        width, height = placement.sides_mm[:, 0]
        assert width * height == pytest.approx(area[0])
        blocks = [row for row in sides.tolist() if row[2] * row[3] > 0]
        for i, (x, y, wide, high) in enumerate(blocks):
            assert -1e-7 < x < x + wide < width + 1e-7
            assert -1e-7 < y < y + high < height + 1e-7
            assert all(overlap(blocks[i], neighbor) < 1e-6 for neighbor in blocks[i + 1 :])
        areas = dict.fromkeys(placement.names, 0.0)
        for name, (_, _, wide, high) in zip(placement.names, sides, strict=True):
            areas[name] += wide * high
        assert sum(areas.values()) <= area[0] - plan.blocks.uncore[0] + 1e-6
        for name, mm2 in (("array", plan.blocks.array), ("tier1 interface", plan.blocks.tiers[0])):
            assert areas[name] == pytest.approx(mm2[0], rel=1e-6), name


def test_every_interface_stands_on_a_side_of_the_base_and_no_die_exceeds_the_reticle():
    hardware = build_accelerators(
        SPACE.columns(SPACE.sample(np.random.default_rng(0), 500)), LIBRARY
    )
    _, placement, _ = placed(hardware, "typical")
    assert (placement.sides_mm / placement.grid <= 33.0 + 1e-9).all()
    assert (placement.sides_mm[1] / placement.grid[1] <= RETICLE_SHORT_SIDE_MM + 1e-9).all()
    (width, height), ends = placement.sides_mm, placement.x + placement.width
    tops = placement.y + placement.height
    on_a_side = (placement.x < 1e-9) | (placement.y < 1e-9)
    on_a_side |= (ends > width - 1e-9) | (tops > height - 1e-9)
    for i, name in enumerate(placement.names[: placement.names.index("on_chip")]):
        is_there = placement.width[i] * placement.height[i] > 0
        assert on_a_side[i][is_there].all(), name


def test_base_has_a_stack_of_memory_on_every_side():
    row = SPACE.encode(drop_none(SPACE.designs["Base"]))
    _, placement, _ = placed(build_accelerators(SPACE.columns(row), LIBRARY), "typical")
    stacks = placement.stacks[:4, 0]
    np.testing.assert_allclose(stacks, 1.0)
    assert max(placement.width[0, 0], placement.height[0, 0]) == pytest.approx(11.0)
