"""Areas, yields and prices, worked out by hand."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from codesign.base.columns import column_of, design_columns
from codesign.base.records import drop_none
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.models.accounts.account_constants import PROCESSES, constant_ranges, constants_at
from codesign.models.accounts.area import RETICLE_MM2, floorplan
from codesign.models.accounts.dies import die_usd, die_yield, dies_per_wafer
from codesign.models.accounts.price import cheapest_unit
from codesign.models.hardware.accelerator import build_accelerators
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space
from tests.laws import never_falls

N7 = constants_at("n7")
LIBRARY = load_library()
BASE = {
    "pe_array": (2048, 128), "vector_length": 2048, "sram_dies": 1, "sram_3d_layers": 0,
    "tier1_technology": "hbm3e_8h", "tier1_stacks": 4, "tier2_technology": None,
    "tier2_stacks": None,
}  # fmt: skip


def build(**changes):
    columns = design_columns(BASE | changes)
    return build_accelerators(columns, LIBRARY)


def bits(width):
    return np.array([width])


def price(constants=N7, width=8.0, **changes):
    hardware = build(**changes)
    plan = floorplan(hardware, bits(width), bits(width), constants)
    return float(cheapest_unit(plan, hardware.levels, constants).usd[0])


def area(width=8.0, **changes):
    hardware = build(**changes)
    return float(floorplan(hardware, bits(width), bits(width), N7).base_mm2[0])


def test_base_by_hand():
    plan = floorplan(build(), bits(8), bits(8), N7)
    blocks = {k: np.ravel(v)[0] for k, v in plan.blocks._asdict().items() if k != "tiers"}
    mac = 2.1 * (34 * 64 + 2430) / 1e6 * 0.01524
    assert blocks["array"] == pytest.approx(262144 * mac)  # 38.6 mm2
    assert blocks["vector"] == pytest.approx(2048 * 0.42 * 0.01524)  # 13.1 mm2
    assert blocks["sram"] == pytest.approx(256 * 0.536)  # 137.2 mm2
    assert plan.blocks.tiers[0][0] == pytest.approx(4 * 15)
    own = 262144 * mac + 2048 * 0.42 * 0.01524 + 256 * 0.536 + 60 + 11.2
    assert blocks["uncore"] == pytest.approx(0.4 * own)
    assert blocks["filler"] == 0


def test_a_base_die_is_as_large_as_a_layer_and_the_interfaces_beside_it():
    plan = floorplan(build(sram_dies=0, sram_3d_layers=3), bits(8), bits(8), N7)
    assert plan.layer_mm2[0] == pytest.approx(1000 * 0.536)
    assert plan.base_mm2[0] == pytest.approx(536 + 1.4 * (60 + 11.2))


def test_a_die_grows_when_its_sides_are_full():
    """Eight stacks of 11 mm and a host of 8.176 mm, a tenth more, on four sides."""
    small = {"pe_array": (128, 128), "vector_length": 128, "sram_dies": 1, "tier1_stacks": 8}
    plan = floorplan(build(**small), bits(8), bits(8), N7)
    assert plan.edge_mm[0] == pytest.approx(1.1 * (88 + 0.73 * 11.2))
    assert plan.base_mm2[0] == pytest.approx((plan.edge_mm[0] / 4) ** 2)
    assert plan.blocks.filler[0] > 0


def test_no_die_has_more_interfaces_than_sides():
    space = load_space("memexplorer", {"memtech": LIBRARY.catalog()})
    hardware = build_accelerators(
        space.columns(space.sample(np.random.default_rng(0), 2000)), LIBRARY
    )
    widths = np.full(2000, 4.0)
    plan = floorplan(hardware, widths, widths, N7, link_bytes_per_s=4.5e11)
    assert (plan.outline_mm >= plan.edge_mm * (1 - 1e-12)).all()
    assert 0.02 < np.mean(plan.outline_mm <= plan.edge_mm * (1 + 1e-12)) < 0.9


def test_a_layer_has_the_density_of_amds_stacked_cache():
    per_megabyte = [constants_at("n7", end).sram_mm2_per_megabyte for end in ("low", "high")]
    published = [36 / 67.108864, 41 / 67.108864]  # 64 MiB on 36 mm2 and 41 mm2
    assert per_megabyte[0] < published[0] < published[1] <= per_megabyte[1]


def test_yield_and_dies_by_hand():
    fragile = replace(N7, fatal_share=1.0)
    assert die_yield(800.0, fragile) == pytest.approx((1 + 8 * 0.09 / 10) ** -10)
    whole = np.pi * 150**2 / 800 - np.pi * 300 / np.sqrt(1600)
    assert dies_per_wafer(800.0) == pytest.approx(whole)
    assert die_usd(np.array(800.0), N7) == pytest.approx(9346 / whole + 0.03 * 800)


def test_the_price_of_base_by_hand():
    mm2 = area()
    good = (1 + mm2 / 100 * 0.09 * 0.5 / 10) ** -10
    die = (9346 / dies_per_wafer(mm2) + 0.03 * mm2) / good
    memory, interposer = 96 * 15, (mm2 + 4 * 121) * 1.1 * 0.43
    assert price() == pytest.approx((die + memory + interposer + 600) / 0.99**5 / 0.95)


def test_memories_on_the_board_need_no_interposer_and_are_not_lost_with_the_package():
    tier = {"tier1_technology": "lpddr5x", "tier1_stacks": 2}
    mm2 = area(**tier)
    die = (9346 / dies_per_wafer(mm2) + 0.03 * mm2) / die_yield(mm2, N7)
    inside = die + 0.24 * mm2 + 600
    assert price(**tier) == pytest.approx(inside / 0.99 + 32 * 5)


def test_what_does_not_fit_the_reticle_is_cut_into_several_dies():
    huge = {"pe_array": (8192, 512), "sram_dies": 1}
    assert area(**huge) > RETICLE_MM2
    hardware = build(**huge)
    plan = floorplan(hardware, bits(8), bits(8), N7)
    stacks = cheapest_unit(plan, hardware.levels, N7).stacks
    assert stacks.n_dies[0] >= 2
    assert stacks.base_mm2[0] <= RETICLE_MM2
    assert stacks.base_mm2 * stacks.n_dies == pytest.approx(1.1 * plan.base_mm2)


GROWTH = {
    "pe_array": [(16, 128), (128, 128), (512, 512), (2048, 512), (8192, 512), (16384, 1024)],
    "vector_length": [128, 2048, 65536],
    "sram_dies": [0, 1, 2, 5, 20],
    "sram_3d_layers": [0, 1, 2, 3, 4],
    "tier1_stacks": [1, 2, 4, 8],
}


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("end", ["low", "typical", "high"])
def test_more_of_anything_is_never_cheaper(process, end):
    constants = constants_at(process, end)
    starts = [{}, {"sram_3d_layers": 3}, {"tier2_technology": "hbf", "tier2_stacks": 1}]
    for start, (name, values) in itertools.product(starts, GROWTH.items()):
        prices = [price(constants, **{**start, name: value}) for value in values]
        assert never_falls(prices), (name, prices)
    widths = [price(constants, width=width) for width in (4.0, 8.0, 16.0)]
    assert never_falls(widths)


def test_the_price_never_falls_as_a_die_grows_past_the_reticle():
    n = 4000
    widths = np.linspace(100, 9000, n)
    columns = {k: column_of([v] * n) for k, v in BASE.items()}
    columns["pe_array"] = column_of([(1024, int(w)) for w in widths])
    hardware = build_accelerators(columns, LIBRARY)
    plan = floorplan(hardware, np.full(n, 8.0), np.full(n, 8.0), N7)
    unit = cheapest_unit(plan, hardware.levels, N7)
    assert never_falls(unit.usd)
    assert (np.diff(unit.stacks.n_dies) >= 0).all()
    assert never_falls(unit.stacks.n_dies * unit.stacks.base_mm2)
    assert len(set(unit.stacks.n_dies.tolist())) > 2


@pytest.mark.parametrize("process", PROCESSES)
def test_every_constant_that_is_larger_makes_a_design_dearer_or_changes_nothing(
    process,
):
    low, high = constants_at(process, "low"), constants_at(process, "high")
    design = {"sram_3d_layers": 2, "tier2_technology": "lpddr5x", "tier2_stacks": 4}
    for name in constant_ranges(process):
        ends = [price(replace(N7, **{name: getattr(end, name)}), **design) for end in (low, high)]
        assert ends == sorted(ends), name


def test_no_price_without_a_stated_one():
    hardware = build(sram_technology="sram_a100")
    plan = floorplan(hardware, bits(8), bits(8), N7)
    unit = cheapest_unit(plan, hardware.levels, N7)
    assert np.isnan(unit.usd).all() and np.isnan(unit.stacks.base_mm2).all()


def test_dies_of_a_design_with_a_memory_without_a_price_are_cut_as_if_it_were_free():
    library = {**LIBRARY, "hbm3e_8h": LIBRARY["hbm3e_8h"].model_copy(update={"price": None})}
    columns = design_columns(BASE)
    hardware = build_accelerators(columns, library)
    unit = cheapest_unit(floorplan(hardware, bits(8), bits(8), N7), hardware.levels, N7)
    assert unit.stacks.n_dies[0] == 1
    assert np.isnan(unit.usd[0])


def _by_hand(macs, lanes, planar_gb, layers, tiers):
    """Area and price in plain arithmetic; a tier is (stacks, GB, USD/GB, mm2, on package)."""
    phys = sum(stacks * mm2 for stacks, _, _, mm2, _ in tiers)
    blocks = macs * 2.1 * 4606e-6 * 0.01524 + lanes * 0.42 * 0.01524 + planar_gb * 536
    base = max(
        1.4 * (blocks + phys + 11.2), (536 + 1.4 * (phys + 11.2)) if layers else 0.0
    )  # fmt: skip
    memory = [stacks * gb * usd for stacks, gb, usd, _, _ in tiers]
    packaged = sum(usd for usd, tier in zip(memory, tiers, strict=True) if tier[4])
    n_beside = sum(tier[0] for tier in tiers if tier[4])

    def good(mm2):
        per_wafer = np.pi * 150**2 / mm2 - np.pi * 300 / np.sqrt(2 * mm2)
        return (9346 / per_wafer + 0.03 * mm2) / (1 + mm2 / 100 * 0.09 * 0.5 / 10) ** -10

    totals = []
    for n in (1, 2, 4, 8):
        die, layer = base * (1.1 if n > 1 else 1) / n, 536 / n
        if die > 858:
            continue
        bonded = n * (good(die) + layers * (good(layer) + 0.0219 * layer)) / 0.97**layers
        inside = bonded + (n * die + 121 * n_beside) * 1.1 * 0.43 + packaged + 600
        kept = 0.99 ** (n + n_beside) * (0.95 if n > 1 or n_beside else 1.0)
        usd = inside / kept + sum(memory) - packaged
        totals.append((usd, n * die + 536 * layers))
    usd, mm2 = min(totals)
    return mm2, usd


_HBM3E, _HBM4, _HBF = (24, 15, 15, True), (36, 19.5, 22, True), (384, 3, 15, True)
_LPDDR = (16, 5, 5.3, False)


@pytest.mark.parametrize(
    ("name", "macs", "lanes", "planar_gb", "layers", "tiers"),
    [
        ("Base", 262144, 2048, 0.256, 0, [(4, *_HBM3E)]),
        ("H1", 262144, 2048, 0, 3, [(4, *_HBM3E)]),
        ("H2", 262144, 2048, 0, 3, [(4, *_HBM3E), (8, *_LPDDR)]),
        ("P1", 524288, 2048, 0, 3, [(2, *_HBM4), (1, *_HBF)]),
        ("D1", 131072, 1024, 0.256, 0, [(2, *_HBM3E), (1, *_HBF)]),
        ("D2", 65536, 1024, 0, 1, [(2, *_HBM4), (2, *_HBF), (8, *_LPDDR)]),
    ],
)
def test_memexplorers_designs_by_hand(name, macs, lanes, planar_gb, layers, tiers):
    space = load_space("memexplorer", {"memtech": LIBRARY.catalog()})
    row = space.encode(drop_none(space.designs[name]))
    hardware = build_accelerators(space.columns(row), LIBRARY)
    plan = floorplan(hardware, bits(8), bits(8), N7)
    unit = cheapest_unit(plan, hardware.levels, N7)
    stacks = unit.stacks
    mm2 = stacks.n_dies * (stacks.base_mm2 + plan.n_layers * stacks.layer_mm2)
    expected = _by_hand(macs, lanes, planar_gb, layers, tiers)
    assert (float(mm2[0]), float(unit.usd[0])) == pytest.approx(expected)


def test_low_typical_and_high_are_ordered_by_goodness():
    space = load_space("memexplorer", {"memtech": LIBRARY.catalog()})
    rows = [space.encode(drop_none(design))
            for design in space.designs.values()]  # fmt: skip
    designs = space.columns(np.concatenate(rows))
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
    levels = [
        NpuEvaluator(request, NpuOptions(technology_level=level))
        for level in ("low", "typical", "high")
    ]
    names = ("unit_cost_usd", "usd_per_million_tokens", "embodied_kgco2e", "lifetime_years",
             "tdp_watts", "energy_joules_per_token", "throughput_tokens_per_s")  # fmt: skip
    good, middle, bad = (level.evaluate(designs, names).metrics for level in levels)
    for metric in levels[0].metrics:
        if metric.name in names:
            least, typical, most = (metric.flipped(x[metric.name]) for x in (good, middle, bad))
            assert (least <= typical * (1 + 1e-12 * np.sign(typical))).all(), metric.name
            assert (typical <= most * (1 + 1e-12 * np.sign(most))).all(), metric.name
