"""Accelerators from columns, and their power, worked out by hand."""

from dataclasses import fields, replace

import numpy as np
import pytest

from codesign.base.columns import column_of, design_columns, first_values
from codesign.base.errors import UnknownNameError
from codesign.models.hardware.accelerator import MemoryLevels, build_accelerators
from codesign.models.hardware.power import (
    OPERATIONS_PER_LANE,
    OperationEnergies,
    mac_energy_joules,
    thermal_design_watts,
)
from codesign.models.memtech import MemoryTechnology

EIGHT = np.array([8.0])
ENERGIES = OperationEnergies(0.7e-12, 0.3e-12, 0.4e-12)


def technology(**changes):
    given = {
        "key": "x", "name": "x", "place": "off-chip", "unit": "stack", "latency": "100 ns",
        "capacity": "10 GB", "bandwidth": "1000 GB/s", "shoreline": "11 mm",
        "background_power": "50 mW/GB", "read_energy": "3 pJ/bit", "write_energy": "4 pJ/bit",
    }  # fmt: skip
    sources = dict.fromkeys(given, "made up")
    return MemoryTechnology.model_validate({**given, "sources": sources, **changes})


ON_CHIP = {"place": "on-chip", "shoreline": "0 mm"}
LIBRARY = {
    "sram": technology(
        **ON_CHIP, latency="2 ns", capacity="0.25 GB", bandwidth="4 TB/s",
        background_power="16 W/GB", read_energy="0.1 pJ/bit", write_energy="0.2 pJ/bit",
    ),
    "sram_3d": technology(
        **ON_CHIP, latency="5 ns", capacity="1 GB", bandwidth="8 TB/s",
        background_power="20 W/GB", read_energy="0.4 pJ/bit", write_energy="0.5 pJ/bit",
    ),
    "near": technology(),
    "far": technology(latency="1 us", capacity="300 GB", bandwidth="100 GB/s", shoreline="8 mm"),
    "soldered": technology(family="SOLDERED", shoreline="4 mm"),
}  # fmt: skip


def build(**changes):
    values = {
        "pe_array": (2048, 128), "vector_length": 1024, "sram_dies": 1, "sram_3d_layers": 0,
        "tier1_technology": "near", "tier1_stacks": 4,
    }  # fmt: skip
    columns = design_columns(values | changes)
    return build_accelerators(columns, LIBRARY)


def properties(levels):
    return {field.name: getattr(levels, field.name) for field in fields(MemoryLevels)}


def tdp(accelerators):
    parts = thermal_design_watts(accelerators, EIGHT, EIGHT, ENERGIES)
    return first_values(parts)


def test_stacks_add_capacity_bandwidth_power_and_edge_but_not_latency():
    levels = build().levels
    assert levels.capacity_bytes[1, 0] == 40e9
    assert levels.bandwidth_bytes_per_s[1, 0] == 4e12
    assert levels.background_watts[1, 0] == pytest.approx(0.050 * 40)
    assert levels.shoreline_m[1, 0] == pytest.approx(0.044)
    assert levels.latency_s[1, 0] == pytest.approx(100e-9)
    assert levels.read_energy_joules_per_byte[1, 0] == pytest.approx(24e-12)
    assert levels.write_energy_joules_per_byte[1, 0] == pytest.approx(32e-12)


def test_a_level_that_a_design_lacks_is_empty():
    levels = build().levels
    assert levels.exists[:, 0].tolist() == [True, True, False, False]
    for name, values in properties(levels).items():
        assert values[2:].tolist() == [[0.0], [0.0]], name


def test_die_and_layers_are_one_level_side_by_side():
    levels = build(sram_dies=1, sram_3d_layers=2).levels
    assert levels.capacity_bytes[0, 0] == 2.25e9
    assert levels.bandwidth_bytes_per_s[0, 0] == 20e12
    assert levels.background_watts[0, 0] == pytest.approx(0.25 * 16 + 2 * 20)
    # 4 of 20 TB/s at 0.1 pJ/bit, 16 at 0.4: 0.34 pJ/bit.
    assert levels.read_energy_joules_per_byte[0, 0] == pytest.approx(8 * 0.34e-12)
    assert levels.write_energy_joules_per_byte[0, 0] == pytest.approx(8 * 0.44e-12)


@pytest.mark.parametrize(("dies", "layers", "latency"), [(1, 0, 2e-9), (0, 1, 5e-9), (1, 1, 2e-9)])
def test_the_faster_memory_on_chip_serves_the_first_byte(dies, layers, latency):
    levels = build(sram_dies=dies, sram_3d_layers=layers).levels
    assert levels.latency_s[0, 0] == pytest.approx(latency)


def test_a_design_without_memory_on_chip_has_no_such_level():
    levels = build(sram_dies=0, sram_3d_layers=0).levels
    assert not levels.exists[0, 0]
    assert all(np.isfinite(values[0]).all() for values in properties(levels).values())


@pytest.mark.parametrize(
    ("stated", "charged_mm", "uncharged_mm"),
    [({}, [0, 44, 8, 0], [0] * 4), ({"uncharged_edge": "SOLDERED"}, [0, 44, 0, 0], [0, 0, 8, 0])],
)
def test_every_interface_is_charged_unless_its_family_is_said_not_to_be(
    stated, charged_mm, uncharged_mm
):
    levels = build(tier2_technology="soldered", tier2_stacks=2, **stated).levels
    assert levels.shoreline_m[:, 0] * 1e3 == pytest.approx(charged_mm)
    assert levels.uncharged_shoreline_m[:, 0] * 1e3 == pytest.approx(uncharged_mm)


def test_what_is_not_charged_may_differ_from_design_to_design():
    n = 100  # enough to be grouped
    columns = {
        "pe_array": column_of([(2048, 128)] * n), "vector_length": column_of([1024] * n),
        "sram_dies": column_of([1] * n), "sram_3d_layers": column_of([0] * n),
        "tier1_technology": column_of(["soldered", "near", "soldered", "soldered"] * (n // 4)),
        "tier1_stacks": column_of([1] * n),
        "uncharged_edge": column_of(["SOLDERED", "SOLDERED", None, "SOLDERED"] * (n // 4)),
    }  # fmt: skip
    levels = build_accelerators(columns, LIBRARY).levels
    assert levels.shoreline_m[1, :4].tolist() == [0.0, 0.011, 0.004, 0.0]
    assert levels.uncharged_shoreline_m[1, :4].tolist() == [0.004, 0.0, 0.0, 0.004]


def test_a_family_that_no_technology_is_of_is_refused():
    with pytest.raises(UnknownNameError, match=r"'SOLDER'\. Did you mean 'SOLDERED'\? Known: SOLD"):
        build(uncharged_edge="SOLDER")


def test_thermal_design_power_is_every_unit_at_its_peak():
    parts = tdp(build(sram_3d_layers=3, tier2_technology="far", tier2_stacks=2))
    assert parts == pytest.approx(
        {
            "array": 2048 * 128 * 1e9 * ENERGIES.mac_joules,
            "vector": 1024 * 1e9 * OPERATIONS_PER_LANE * ENERGIES.lane_joules,
            # p_bg capacity + e_read bandwidth (MemExplorer Eq. 6), one bit an eighth of a byte
            "on_chip": 0.25 * 16 + 3 * 20 + 0.8e-12 * 4e12 + 3 * 3.2e-12 * 8e12,
            "tier1": 40 * 0.050 + 24e-12 * 4e12,
            "tier2": 600 * 0.050 + 24e-12 * 0.2e12,
            "tier3": 0.0,
        }
    )


def test_the_power_of_a_memory_is_that_of_reading_not_of_writing():
    silent = LIBRARY | {"near": technology(read_energy="0 pJ/bit")}
    columns = {
        "pe_array": column_of([(2048, 128)]), "vector_length": column_of([1024]),
        "sram_dies": column_of([1]), "sram_3d_layers": column_of([0]),
        "tier1_technology": column_of(["near"]), "tier1_stacks": column_of([4]),
    }  # fmt: skip
    assert tdp(build_accelerators(columns, silent))["tier1"] == pytest.approx(2.0)


def test_a_clock_scales_the_power_of_array_and_vector_unit_only():
    slow, fast = tdp(build()), tdp(build(clock_hz=2e9))
    doubled = {"array", "vector"}
    assert fast == pytest.approx({k: v * (2 if k in doubled else 1) for k, v in slow.items()})


def test_a_multiply_costs_energy_with_the_product_of_its_widths():
    assert float(mac_energy_joules(np.array(8.0), np.array(8.0), ENERGIES)) == ENERGIES.mac_joules
    assert float(mac_energy_joules(np.array(16.0), np.array(4.0), ENERGIES)) == ENERGIES.mac_joules
    assert (
        float(mac_energy_joules(np.array(16.0), np.array(16.0), ENERGIES))
        == 4 * ENERGIES.mac_joules
    )


def test_a_technology_that_the_library_lacks_is_named_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"'neer'\. Did you mean 'near'"):
        build(tier1_technology="neer")


def test_the_ends_of_a_published_range_can_be_asked_for():
    ranged = {"low": "10 mW/GB", "typical": "50 mW/GB", "high": "90 mW/GB"}
    library = LIBRARY | {"near": technology(background_power=ranged)}
    columns = {
        "pe_array": column_of([(1, 1)]), "vector_length": column_of([1]),
        "sram_dies": column_of([1]), "sram_3d_layers": column_of([0]),
        "tier1_technology": column_of(["near"]), "tier1_stacks": column_of([1]),
    }  # fmt: skip
    watts = [
        float(build_accelerators(columns, library, level).levels.background_watts[1, 0])
        for level in ("low", "typical", "high")
    ]
    assert watts == pytest.approx([0.1, 0.5, 0.9])


def test_power_has_the_dimension_of_power():
    # With joules 1000 times smaller and seconds 60 times longer, watts are 60 000 to 1.
    batch = build(sram_3d_layers=1, tier2_technology="far", tier2_stacks=2)
    joule, second = 1000.0, 1 / 60
    watt = joule / second
    before_levels = properties(batch.levels)
    bandwidth = before_levels["bandwidth_bytes_per_s"] / second
    read_energy = before_levels["read_energy_joules_per_byte"] * joule
    levels = MemoryLevels(
        **before_levels
        | {
            "background_watts": before_levels["background_watts"] * watt,
            "bandwidth_bytes_per_s": bandwidth,
            "read_energy_joules_per_byte": read_energy,
            "peak_read_watts": read_energy * bandwidth,
        }
    )
    converted = replace(batch, levels=levels, clock_hz=batch.clock_hz / second)
    before, after = tdp(batch), tdp(converted)
    constants = {"array": joule, "vector": joule}  # their energies are constants in joules
    for name, watts in before.items():
        assert after[name] * constants.get(name, 1.0) == pytest.approx(watts * watt)
