"""Corrections of laws are judged on geometries that they have not seen."""

import numpy as np
import pytest

from codesign.models.machines.device.corrections import measured_groups
from validation.studies import kernels
from validation.studies.kernel_families.correcting import (
    cross_validated_s,
    fitted_groups,
    folds,
)
from validation.studies.kernel_table import KernelTable


@pytest.fixture(scope="module")
def products():
    """Products in 16 bits of L40S."""
    table, _ = kernels.measured_kernels()
    formats = table.words("weight_dtype") == "bf16"
    return table.take((table.words("device") == "L40S") & formats).operator_rows(("gemm",))


def test_no_row_corrects_its_own_geometry(products):
    family = kernels.family_of("gemm")
    before = cross_validated_s(family, products)
    changed = folds(products, family.geometry) == 0
    slower = np.where(changed, "1.0", products.words("latency_s"))
    after = cross_validated_s(
        family, KernelTable(products.text | {"latency_s": slower}, products.lines)
    )
    np.testing.assert_array_equal(after[changed], before[changed])
    assert (after[~changed] > before[~changed]).any()


def test_corrections_help_shapes_that_they_have_not_seen(
    products,
):
    family = kernels.family_of("gemm")

    def median(seconds):
        return float(np.nanmedian(np.abs(kernels.relative_errors(products, seconds))))

    assert median(cross_validated_s(family, products)) < 0.9 * median(family.predict(products))


def test_corrected_times_are_not_below_the_roofline_or_the_law(products):
    family = kernels.family_of("gemm")
    corrected = family.corrected_s(products)
    least = np.fmin(family.roofline_s(products), family.predict(products))
    assert (corrected >= least)[~np.isnan(corrected)].all()


def test_shipped_corrections_are_those_of_the_shipped_rows(products):
    family = kernels.family_of("gemm")
    shipped = measured_groups("gemm")
    for name, group in fitted_groups(family, products).items():
        points = group.points[:20]
        np.testing.assert_allclose(
            shipped[name].log_factors(points), group.log_factors(points), atol=5e-3
        )


def test_rows_whose_sources_disagree_correct_nothing():
    names = [name.split()[:3] for name in measured_groups("gemm")]
    assert ["GH100", "16", "16"] in names
    assert not any(name[0].startswith("GA100") and name[1:] == ["16", "16"] for name in names)


def test_a_kernel_that_stands_in_corrects_nothing():
    shared = {"operator": "attention_decode", "device": "A100", "query_heads": "32"}
    rows = [
        shared | {"framework": "SGLang", "kv_heads": "32"},
        shared | {"framework": "SGLang", "kv_heads": "8"},
        shared | {"framework": "vLLM", "kv_heads": "32"},
        shared | {"framework": "SGLang", "kv_heads": "32", "device": "H100"},
    ]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    family = kernels.family_of("attention")
    corrects = family.corrects(KernelTable(columns, np.arange(4)))
    assert corrects.tolist() == [False, True, True, True]
