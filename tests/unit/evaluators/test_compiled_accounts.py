"""Compiled prices against those of NumPy: the same bits, whatever the constants."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from codesign.base.columns import Column, FloatArray
from codesign.evaluators.npu.compiled import has_numba
from codesign.evaluators.npu.compiled_accounts import compiled_cheapest_unit
from codesign.models.accounts.account_constants import PROCESSES, Constants, constants_at
from codesign.models.accounts.area import floorplan
from codesign.models.accounts.price import PricedAccelerators, cheapest_unit
from codesign.models.hardware.accelerator import AcceleratorBatch, build_accelerators
from codesign.models.memtech import load_library

pytestmark = pytest.mark.skipif(not has_numba(), reason="numba is not installed")

LIBRARY = load_library()
ARRAYS = ((16, 128), (512, 128), (2048, 64), (2048, 512), (4096, 1024), (16384, 1024))
TIERS = ("hbm3e_8h", "hbm4_12h", "hbf", "lpddr5x", None)
N7 = constants_at("n7")


def hardware_of(n: int) -> tuple[AcceleratorBatch, FloatArray]:
    """Random accelerators of all sizes, some of unknown area, and widths of their operands."""
    rng = np.random.default_rng(5)

    def drawn(*values: object) -> Column:
        return Column(values, rng.integers(0, len(values), n))

    columns = {
        "pe_array": drawn(*ARRAYS),
        "vector_length": drawn(128, 2048, 65536),
        "sram_dies": drawn(0, 1, 2, 5),
        "sram_technology": Column(("sram", "sram_a100"), (rng.random(n) < 0.05).astype(np.int64)),
        "sram_3d_layers": drawn(0, 1, 2, 4),
        **{f"tier{i}_technology": drawn(*(TIERS if i > 1 else TIERS[:-1])) for i in (1, 2, 3)},
        **{f"tier{i}_stacks": drawn(1, 2, 4, 8) for i in (1, 2, 3)},
    }
    return build_accelerators(columns, LIBRARY), rng.choice([4.0, 8.0, 16.0], (2, n))


HARDWARE, BITS = hardware_of(3000)
OTHERS = [
    replace(N7, **changes)
    for changes in (
        {"defect_clustering": 0.5, "defects_per_cm2": 5.0},  # yields better than of first order
        {"defect_clustering": 1.0, "defects_per_cm2": 5.0},
        {"attach_loss": 0.0, "bond_loss": 0.0, "defects_per_cm2": 3.0},
        {"interposer_usd_per_mm2": 0.0, "die_to_die_share": 0.0, "test_usd_per_mm2": 0.0},
        {"assembly_usd": 0.0, "memory_price_factor": 0.0},
    )
]


def arrays_of(unit: PricedAccelerators) -> dict[str, FloatArray]:
    own = {item.name: getattr(unit, item.name) for item in fields(unit) if item.name != "stacks"}
    return {**own, **unit.stacks._asdict(), "usd": unit.usd}


@pytest.mark.parametrize(
    "constants",
    [*(constants_at(process, end) for process in PROCESSES for end in ("low", "high")), *OTHERS],
)
def test_units_have_the_same_bits_compiled_or_not(constants: Constants) -> None:
    link = 9e11
    plan = floorplan(HARDWARE, *BITS, constants, link)
    expected = arrays_of(cheapest_unit(plan, HARDWARE.levels, constants))
    got = arrays_of(compiled_cheapest_unit(HARDWARE, BITS, link, constants))
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values, err_msg=name)


def test_the_designs_compared_have_many_numbers_of_dies_and_unknown_areas() -> None:
    unit = compiled_cheapest_unit(HARDWARE, BITS, 0.0, N7)
    assert set(np.unique(unit.stacks.n_dies)) >= {1.0, 2.0, 4.0, 8.0, 16.0}
    assert 0 < np.isnan(unit.usd).sum() < len(unit.usd) / 4


def test_several_designs_differ_from_a_single_one_in_no_bit() -> None:
    unit = compiled_cheapest_unit(HARDWARE, BITS, 0.0, N7)
    for i in (0, 1, 2999):
        few = np.array([i])
        hardware = replace(
            HARDWARE,
            **{
                item.name: getattr(HARDWARE, item.name)[few]
                for item in fields(HARDWARE)
                if item.name != "levels"
            },
            levels=HARDWARE.levels.taken(few),
        )
        alone = compiled_cheapest_unit(hardware, BITS[:, few], 0.0, N7)
        np.testing.assert_array_equal(alone.usd[0], unit.usd[i])
