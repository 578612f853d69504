"""The shipped spaces: their published counts and designs, and speed where a batch needs it."""

import csv
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.resources import find
from codesign.evaluators.npu import NpuEvaluator
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space

SOFTWARE = {
    "storage_priority": "kv",
    "dataflow": "ws",
    "bandwidth_priority": "matrix",
}
PRECISION = {"weight_format": "mxint8", "activation_format": "mxint8", "kv_format": "mxint8"}


@pytest.fixture(scope="module")
def catalogs():
    return {"memtech": load_library().catalog()}


@pytest.fixture(scope="module")
def memexplorer(catalogs):
    return load_space("memexplorer", catalogs)


@pytest.fixture(scope="module")
def rows(memexplorer):
    return memexplorer.sample(np.random.default_rng(1), 100_000)


def tdp_within_700_w(space):
    """TDP of MemExplorer's Eq. 6 at peak read bandwidth, 0.722 mW a MAC (a fit to its Base)."""
    onchip = " + ".join(
        f"{count} * (memtech.{name}.background_power * memtech.{name}.capacity"
        f" + memtech.{name}.read_energy * memtech.{name}.bandwidth)"
        for name, count in (("sram", "sram_dies"), ("sram_3d", "sram_3d_layers"))
    )
    offchip = (
        "sum(tier, stacks * (technology.background_power * technology.capacity"
        " + technology.read_energy * technology.bandwidth))"
    )
    return space.parse(f"0.722 mW * pe_array[0] * pe_array[1] + {onchip} + {offchip} <= 700 W")


def test_memexplorer_has_the_published_number_of_designs(memexplorer):
    """1,982 off-chip hierarchies under 66 mm, counted independently as multisets."""
    sizes = {component.names[0]: component.size for component in memexplorer.components}
    assert sizes["tier1_technology"] == 1982
    assert sizes["sram_dies"] == 9
    hardware = memexplorer.fix(SOFTWARE | PRECISION)
    assert hardware.size == 16 * 5 * 9 * 1982 == 1_427_040
    assert memexplorer.fix(PRECISION).size == 1_427_040 * 36
    assert memexplorer.size == 1_427_040 * 36 * 64


def test_1_15_million_hardware_points_of_memexplorer_stay_within_700_w(memexplorer):
    hardware = memexplorer.fix(SOFTWARE | PRECISION)
    rows = hardware.rows(np.arange(hardware.size))
    within = tdp_within_700_w(hardware).violation(hardware.values(rows)) <= 0
    assert within.sum() == pytest.approx(1.15e6, rel=0.005)


def test_83_800_hardware_points_of_the_printed_axes_stay_within_700_w(catalogs):
    """And about 10^6 with the 36 software strategies, the order that MemExplorer states."""
    space = load_space("memexplorer-table2", catalogs).fix(SOFTWARE | PRECISION)
    rows = space.rows(np.arange(space.size))
    within = tdp_within_700_w(space).violation(space.values(rows)) <= 0
    assert within.sum() == pytest.approx(83_800, rel=0.0005)
    families = {"hbm3e_8h": 0, "hbm4_12h": 0, "hbf": 1, "gddr6": 2, "gddr7": 2, "lpddr5x": 3,
                "lpddr6": 3}  # fmt: skip
    for design in space.decode(rows[:: len(rows) // 500]):
        used = [families[t] for k in "123" if (t := design[f"tier{k}_technology"])]
        assert len(used) == len(set(used)) >= 1


def test_every_space_charges_the_edge_that_the_evaluator_charges(catalogs):
    npu = NpuEvaluator(Request(model="llama-3-8b", trace="gsm8k", phase="decode"))
    sizes = {"memexplorer": 1982, "memexplorer-strict": 1441, "memexplorer-table2": 521}
    for name, size in sizes.items():
        space = load_space(name, catalogs)
        (tiers,) = (part for part in space.components if "tier1_technology" in part.names)
        assert tiers.size == size
        hierarchies = np.repeat(space.sample(np.random.default_rng(0), 1), size, axis=0)
        hierarchies[:, tiers.columns] = tiers.rows
        columns, derived = space.columns(hierarchies), space.derived(hierarchies)
        metrics = npu.evaluate(columns, ["shoreline_mm", "uncharged_shoreline_mm"]).metrics
        np.testing.assert_allclose(metrics["shoreline_mm"], 1e3 * derived["shoreline"])
        uncharged = derived.get("uncharged_shoreline", np.zeros(size))
        np.testing.assert_allclose(metrics["uncharged_shoreline_mm"], 1e3 * uncharged)
        assert (uncharged.max() > 0) == (name == "memexplorer")
        assert npu.known_violations(columns)["shoreline"].max() <= 0


def test_memexplorer_strict_is_memexplorer_with_lpddr_charged(memexplorer, catalogs):
    strict = load_space("memexplorer-strict", catalogs)
    assert strict.size == 16 * 5 * 9 * 1441 * 36 * 64 == 2_390_446_080
    # MemExplorer Table 1: 11, 15, 8.25 and 4.1 mm for HBM3E, HBM4, HBF and LPDDR5X.
    needed_mm = {"H2": 76.8, "H3": 93.3, "P2": 95.6, "D2": 79.3}
    assert set(strict.designs) == set(memexplorer.designs) - set(needed_mm)
    for name, edge_mm in needed_mm.items():
        design = dict(memexplorer.designs[name])
        del design["uncharged_edge"]
        row = strict.encode(design)
        assert strict.derived(row)["shoreline"] == pytest.approx(edge_mm / 1e3)
        assert not strict.contains(row)[0]
    # Every design of it is one of memexplorer, with the same meaning but for the edge.
    rows = strict.sample(np.random.default_rng(0), 1000)
    same = np.concatenate([memexplorer.encode(design) for design in strict.decode(rows)])
    assert memexplorer.contains(same).all()


def test_memexplorer_contains_every_published_design(memexplorer):
    assert set(memexplorer.designs) == {"Base", "H1", "H2", "H3", "P1", "P2", "D1", "D2"}
    for name, design in memexplorer.designs.items():
        row = memexplorer.encode(design)
        assert memexplorer.contains(row)[0], name
        assert memexplorer.decode(row)[0] == design
    p2 = memexplorer.designs["P2"]
    assert [p2[f"tier{k}_technology"] for k in "123"] == ["hbm4_12h", "lpddr5x", "lpddr5x"]
    assert [p2[f"tier{k}_stacks"] for k in "123"] == [2, 8, 8]
    assert p2["pe_array"] == (1024, 512)
    assert memexplorer.designs["Base"]["tier2_technology"] is None


def test_derived_quantities_of_a_published_design(memexplorer):
    """D2: one 3D layer of 1 GB, HBM4 x 2, HBF x 2, LPDDR5X x 8; Table 1's numbers."""
    derived = memexplorer.derived(memexplorer.encode(memexplorer.designs["D2"]))
    assert derived["n_macs"] == 65_536
    assert derived["offchip_bandwidth"] == pytest.approx(2 * 2e12 + 2 * 1e12 + 8 * 76.8e9)
    assert derived["memory_capacity"] == pytest.approx(1e9 + 2 * 36e9 + 2 * 384e9 + 8 * 16e9)
    assert derived["shoreline"] == pytest.approx(2 * 15e-3 + 2 * 8.25e-3)
    assert derived["uncharged_shoreline"] == pytest.approx(8 * 4.1e-3)


def test_the_space_agrees_with_the_table_of_technologies(memexplorer):
    path = Path(__file__).with_name("offchip.csv")
    with path.open() as file:
        table = {line["name"]: line for line in csv.DictReader(file)}
    rows = memexplorer.sample(np.random.default_rng(2), 300)
    derived = memexplorer.derived(rows)
    for number, design in enumerate(memexplorer.decode(rows)):
        tiers = [
            (table[design[f"tier{k}_technology"]], design[f"tier{k}_stacks"])
            for k in "123"
            if design[f"tier{k}_technology"]
        ]
        bandwidths = [float(line["bandwidth_gb_per_s"]) * count for line, count in tiers]
        assert bandwidths == sorted(bandwidths, reverse=True)
        assert derived["offchip_bandwidth"][number] == pytest.approx(sum(bandwidths) * 1e9)
        edge = sum(float(line["edge_mm"]) * count for line, count in tiers)
        assert edge <= 66 + 1e-9
        assert derived["shoreline"][number] == pytest.approx(edge / 1e3)


def test_the_same_tiers_in_another_order_are_one_design(memexplorer):
    design = dict(memexplorer.designs["H3"])
    one, three = memexplorer.encode(design), dict(design)
    for name in ("technology", "stacks"):
        three[f"tier1_{name}"], three[f"tier3_{name}"] = (
            design[f"tier3_{name}"],
            design[f"tier1_{name}"],
        )
    assert (memexplorer.encode(three) == one).all()
    gap = {name: value for name, value in design.items() if not name.startswith("tier2")}
    moved = memexplorer.decode(memexplorer.encode(gap))[0]
    assert (moved["tier2_technology"], moved["tier2_stacks"]) == ("lpddr5x", 8)
    assert moved["tier3_technology"] is None


def test_features_are_between_0_and_1_and_tell_designs_apart(memexplorer, rows):
    features = memexplorer.features(rows)
    assert features.shape == (len(rows), len(memexplorer.feature_names))
    assert features.min() >= -1e-9
    assert features.max() <= 1 + 1e-9
    assert len(set(memexplorer.feature_names)) == len(memexplorer.feature_names)
    few = memexplorer.rows(np.arange(0, memexplorer.size, memexplorer.size // 5000))
    distinct = np.unique(memexplorer.features(few).round(9), axis=0)
    assert len(distinct) == len(few)


def test_fixing_shrinks_the_space_and_can_be_stated_again(memexplorer):
    fixed = memexplorer.fix({"weight_format": "mxint8", "pe_array": "2048x256"})
    assert fixed.size == memexplorer.size // 4 // 16
    assert "P1" in fixed.designs
    assert "Base" not in fixed.designs  # another array
    again = fixed.fix({"weight_format": "mxfp4"})
    assert again.size == fixed.size
    assert set(again.columns(again.rows(np.arange(3)))["weight_format"].decoded()) == {"mxfp4"}
    assert (memexplorer.fix({}).provenance()) == memexplorer.provenance()


def test_a_repetition_can_be_fixed_or_left_out(memexplorer):
    # 7 technologies x 4 counts, without eight of HBM3E, HBM4, GDDR6 and GDDR7.
    single = memexplorer.fix({"tier2_technology": None})
    assert {c.names[0]: c.size for c in single.components}["tier1_technology"] == 24
    nearest = memexplorer.fix({"tier1_technology": "hbm4_12h", "tier1_stacks": 2})
    rows = nearest.sample(np.random.default_rng(0), 200)
    assert {design["tier1_technology"] for design in nearest.decode(rows)} == {"hbm4_12h"}
    assert nearest.contains(rows).all()
    assert {"P1", "P2", "D2"} == set(nearest.designs)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"weight_fromat": "mxint8"}, "Did you mean 'weight_format'?"),
        ({"weight_format": "mxint9"}, "unknown value of weight_format 'mxint9'. Did you mean"),
        ({"pe_array": None}, "pe_array cannot be absent"),
        ({"sram_dies": 0, "sram_3d_layers": 0}, "no design meets the constraints"),
        ({"vector_length": "128 W"}, "unknown value of vector_length '128 W'"),
    ],
)
def test_an_override_that_cannot_be_is_refused(memexplorer, overrides, message):
    with pytest.raises(InputError) as caught:
        memexplorer.fix(overrides, "runs/x.yaml:9: fixed")
    assert str(caught.value).startswith("runs/x.yaml:9: fixed: ")
    assert message in str(caught.value)


def test_a_space_survives_pickling_and_its_provenance_is_json(memexplorer):
    copy = pickle.loads(pickle.dumps(memexplorer))
    numbers = np.arange(0, memexplorer.size, memexplorer.size // 1000)
    assert (copy.rows(numbers) == memexplorer.rows(numbers)).all()
    assert copy.fix(PRECISION).size == memexplorer.fix(PRECISION).size
    provenance = memexplorer.provenance()
    assert json.loads(json.dumps(provenance)) == provenance


def test_an_unknown_space_offers_the_nearest(catalogs):
    with pytest.raises(InputError, match=r"'memexplorr'\. Did you mean 'memexplorer'"):
        load_space("memexplorr", catalogs)


def test_numbers_and_samples_of_memexplorer_stay_those_that_campaigns_have_stored(memexplorer):
    """As they were when the rows of each component were listed and sampled from the list."""
    numbers = np.array([123_456_789, 3_000_000_000])
    assert memexplorer.rows(numbers).tolist() == [
        [0, 3, 0, 1, 0, 0, 2, 0, 2, 2, 0, 5, 0, 5, 0, 5, 0],
        [14, 2, 1, 4, 3, 3, 1, 0, 0, 2, 0, 6, 3, 3, 2, 5, 0],
    ]
    assert memexplorer.sample(np.random.default_rng(40), 2).tolist() == [
        [8, 0, 0, 4, 0, 1, 0, 2, 0, 1, 0, 6, 2, 4, 2, 3, 0],
        [11, 3, 1, 4, 0, 2, 3, 1, 1, 1, 0, 0, 0, 4, 1, -1, -1],
    ]


def test_new_values_alone_add_a_memory_and_its_family_decides_on_edge(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("memtech").mkdir()
    text = find("memtech", "lpddr6").read_text(encoding="utf-8")
    Path("memtech", "lpddr7.yaml").write_text(text, encoding="utf-8")
    Path("spaces").mkdir()
    Path("spaces", "planned.yaml").write_text(
        "based_on: memexplorer\nrepeated: {tier: {parameters: {technology: [hbm4_12h, lpddr7]}}}\n",
        encoding="utf-8",
    )
    space = load_space("planned", {"memtech": load_library().catalog()})
    row = space.sample(np.random.default_rng(0), 50)
    derived = space.derived(row)
    has_new = [any(value == "lpddr7" for value in item.values()) for item in space.decode(row)]
    assert any(has_new)
    assert ((derived["uncharged_shoreline"] > 0) == has_new).all()
