"""The shipped technologies against MemExplorer Table 1, and what a bad file says."""

from pathlib import Path

import pytest

from codesign.base.errors import InputError
from codesign.models.memtech import load_library, load_technology
from codesign.models.memtech.technology import NUMBERS

# MemExplorer Table 1: ns, GB, GB/s, mm, mW/GB (low, high; or one), pJ/bit read, pJ/bit write.
TABLE_1 = {
    "sram": (1.5, 0.256, 4000, 0, (10_000, 50_000), 0.1, 0.1),
    "hbm3e_8h": (100, 24, 1000, 11, (50, 100), 3, 3.6),
    "hbm4_12h": (100, 36, 2000, 15, (50, 100), 2.2, 2.4),
    "lpddr5x": (50, 16, 76.8, 4.1, (7.65,), 5, 6.5),
    "lpddr6": (50, 16, 172.8, 4.5, (6.12,), 3.75, 4.87),
    "gddr6": (12, 2, 64, 11, (100,), 7, 8.8),
    "gddr7": (12, 3, 128, 11, (120,), 5.6, 7.0),
    "sram_3d": (5, 1, 8000, 0, (10_000, 50_000), 0.1, 0.1),
    "hbf": (1000, 384, 1000, 8.25, (300,), 6, 10),
}


@pytest.mark.parametrize("name", TABLE_1)
def test_a_technology_has_the_numbers_of_the_papers_table_1(name):
    technology = load_library()[name]
    latency, capacity, bandwidth, shoreline, background, read, write = TABLE_1[name]
    assert technology.latency.typical == pytest.approx(latency * 1e-9)
    assert technology.capacity.typical == pytest.approx(capacity * 1e9)
    assert technology.bandwidth.typical == pytest.approx(bandwidth * 1e9)
    assert technology.shoreline.typical == pytest.approx(shoreline * 1e-3)
    printed = technology.background_power
    ends = (printed.low, printed.high) if len(background) > 1 else (printed.typical,)
    assert ends == pytest.approx([watts * 1e-12 for watts in background])
    assert technology.read_energy.typical == pytest.approx(read * 8e-12)
    assert technology.write_energy.typical == pytest.approx(write * 8e-12)


@pytest.mark.parametrize("name", list(load_library()))
def test_every_number_of_every_file_has_a_source_and_is_physical(name):
    technology = load_library()[name]
    for number in NUMBERS:
        if number != "shoreline" or technology.place == "off-chip":
            assert technology.sources[number]
    # A bit costs more than a femtojoule and less than a nanojoule; light needs a picosecond.
    assert 1e-12 < technology.latency.low < 1e-4
    assert 8e-15 < technology.read_energy.low <= technology.write_energy.high < 8e-9


@pytest.mark.parametrize("name", list(load_library()))
def test_a_space_sees_the_length_of_every_interface(name):
    technology = load_library()[name]
    shoreline = load_library().catalog().entries[name]["shoreline"]
    assert shoreline == technology.shoreline.typical
    is_beside = technology.place == "off-chip" and name != "bonded_dram"
    assert (shoreline > 0) == is_beside
    assert (technology.place == "off-chip") == bool(technology.family)


def test_a_technology_file_does_not_say_whether_its_edge_is_charged(tmp_path):
    path = tmp_path / "hbf.yaml"
    path.write_text(GOOD.read_text() + "uses_memory_edge: false\n")
    with pytest.raises(InputError, match="uses_memory_edge: unknown key"):
        load_technology(str(path))


GOOD = Path("memtech/hbf.yaml")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("1 TB/s", "1000", r"hbf\.yaml:7: bandwidth: expected a quantity in GB/s, got 1000 \(no u"),
        ("1 TB/s", "1 TB", r"hbf\.yaml:7: bandwidth: expected a quantity in GB/s, got '1 TB'"),
        ("1 TB/s", "1 tb/s", r"unknown unit 'tb' in 'tb/s'; did you mean 'TB'"),
        ("bandwidth: 1", "bandwith: 1", r"hbf\.yaml:7: bandwith: unknown key.*mean 'bandwidth'"),
        ("  latency:", "  latenzy:", r"missing for latency"),
        (
            "sources:\n  latency:",
            "x: 1\nsources:\n  y:",
            "(?s)missing for latency.*unknown key 'x'",
        ),
        (
            "unit: stack",
            "unit: stack\nunit: die",
            r"unit: the key is given twice \(first on line 4",
        ),
        ("384 GB", "{low: 2 GB, typical: 1 GB, high: 3 GB}", r"hbf\.yaml:6: capacity: 0 <= low <="),
        (
            "  shoreline: MemExplorer Table 1\n",
            "",
            r"every number needs a source; missing for shoreline",
        ),
        ("shoreline: 8.25 mm\n", "", r"an off-chip memory needs the shoreline"),
    ],
)
def test_a_bad_file_is_refused_with_file_line_and_key(tmp_path, old, new, said):
    text = GOOD.read_text()
    assert old in text
    path = tmp_path / "hbf.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=said):
        load_technology(str(path))
