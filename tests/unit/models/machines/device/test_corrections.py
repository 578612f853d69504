"""Measured corrections of the laws of kernels."""

import numpy as np
import pytest

from codesign.base.columns import column_of
from codesign.models.machines.device import corrections
from codesign.models.machines.device.corrections import (
    KernelCase,
    MeasuredGroup,
    correction,
    measured_groups,
    similarity,
)
from codesign.models.machines.device.gemm import Products, gemm_case
from validation.studies.fit_corrections import write_groups

SLOWER = {"l40s 16": MeasuredGroup(np.zeros((1, 2)), np.array([np.log(1.5)]))}


def test_measured_sizes_are_corrected_and_far_ones_are_not():
    case = KernelCase((16,), (np.array([0.0, 3.0, 60.0]), 0.0))
    near, farther, far = correction("gemm", column_of(["l40s"] * 3), case, SLOWER)
    assert near == pytest.approx(1.5, rel=1e-5)
    # One range away: (1 + sqrt 3) exp(-sqrt 3) of the logarithm.
    share = (1 + np.sqrt(3)) * np.exp(-np.sqrt(3))
    assert farther == pytest.approx(1.5**share, rel=1e-5)
    assert far == 1.0


def test_other_devices_and_formats_have_the_law_alone():
    devices = column_of(["l40s", "my-own", "l40s"])
    factors = correction("gemm", devices, KernelCase((np.array([16, 16, 8]),), (0.0, 0.0)), SLOWER)
    np.testing.assert_allclose(factors, [1.5, 1.0, 1.0], rtol=1e-5)


def test_shipped_groups_are_of_devices_that_were_measured_and_stay_moderate():
    for family in ("gemm", "attention", "mla", "absorbing", "experts"):
        groups = measured_groups(family)
        assert groups
        for group in groups.values():
            logs = group.log_factors(group.points)
            assert np.abs(logs).max() <= 2.2  # rows count at most exp(2)
    assert not measured_groups("collectives")


def test_groups_are_written_and_read_again(tmp_path, monkeypatch):
    path = tmp_path / "corrections.npz"
    write_groups({"gemm": SLOWER}, path)
    monkeypatch.setattr(corrections, "CORRECTIONS_FILE", path)
    ((name, group),) = measured_groups.__wrapped__("gemm").items()
    assert name == "l40s 16"
    np.testing.assert_allclose(group.weights, np.log(1.5), rtol=1e-6)
    assert group.points.tolist() == [[0.0, 0.0]]


def test_similarity_falls_with_distance():
    values = similarity(np.zeros((1, 1)), np.arange(10.0)[:, None])[0]
    assert values[0] == 1.0
    assert (np.diff(values) < 0).all()


def test_products_of_much_arithmetic_are_not_corrected_to_be_faster():
    devices = column_of(["h100-sxm"] * 2)
    products = Products(m=np.array([16.0, 8192.0]), n=8192.0, k=8192.0, peak_flop_per_s=1e15)
    case = gemm_case(products)
    (name,) = case.groups(devices)[1]
    faster = {name: MeasuredGroup(case.points(2), np.log([0.5, 0.5]))}
    few, many = correction("gemm", devices, case, faster)
    assert few < 0.6
    assert many == 1.0
