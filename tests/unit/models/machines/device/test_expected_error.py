"""What users are told to expect: of measured devices, of measured kernels, and of neither."""

import pytest

from codesign.models.hardware.device import list_devices, load_device
from codesign.models.machines.device.expected_error import (
    describe_energy_error,
    describe_expected_error,
    energy_error,
    energy_range,
    measured_chips,
    measured_errors,
)
from validation.studies.expected_errors import interval


def test_seen_devices_and_engines_have_the_errors_of_new_models():
    interval, kernels = describe_expected_error(load_device("a100"), "eager")
    error = measured_errors().intervals["model"]["first token"]
    assert f"first token {error.low:.2f} to {error.high:.2f} (" in interval
    assert "device and engine were measured" in interval
    assert kernels.startswith("Errors of kernels measured on this device: matrix products ")
    assert "corrected by other frameworks: matrix products " in kernels
    assert (
        "of another laboratory: matrix products "
        in describe_expected_error(load_device("h100"))[-1]
    )


@pytest.mark.parametrize(
    ("place", "scope"),
    [
        ("h200-sxm", "engine"),
        ("h100-pcie", "device"),
        ("arc-pro-b60", "vendor"),
        ("maia-100", "vendor"),
    ],
)
def test_the_widest_scope_that_nobody_measured_sets_the_interval(place, scope):
    interval = describe_expected_error(load_device(place), "vllm")[0]
    error = measured_errors().intervals[scope]["output token"]
    assert f"Fewer than 10 cases of this {scope} were measured" in interval
    assert f"output token {error.low:.2f} to {error.high:.2f}" in interval


def test_a_device_of_a_measured_chip_has_the_errors_of_devices_with_siblings():
    kernels = describe_expected_error(load_device("h100-pcie"))[1]
    assert "those of its chip correct its laws (h100-sxm, h200-sxm)" in kernels
    assert f"products {100 * measured_errors().unseen_device['gemm'].median:.0f} %" in kernels
    assert measured_chips()["GA100"] == ("a100-pcie-80gb", "a100-sxm-80gb")
    unseen = measured_errors().unseen_chip
    assert (
        f"products {100 * unseen['gemm'].median:.0f} %"
        in describe_expected_error(load_device("tpu-v5e"))[1]
    )


def test_an_interval_holds_groups_that_it_was_not_made_of():
    groups = [[-0.1, 0.0, 0.1], [-0.2, 0.0, 0.2], [-0.05, 0.05], [-0.15, 0.15]]
    assert "groups: 4, covered: 0.83" in interval(
        groups
    )  # a third of the widest, all of the others
    # A group unlike the others is inside of none of their intervals.
    assert "groups: 3, covered: 0.67" in interval([[0.0, 0.1], [0.0, 0.1], [3.0, 3.1]])


@pytest.mark.parametrize("device", list_devices())
def test_every_device_has_a_sentence(device):
    assert all(sentence.endswith(".") for sentence in describe_expected_error(load_device(device)))


def test_the_shipped_errors_are_measured():
    errors = measured_errors()
    assert errors.how == "python -m validation.studies.expected_errors"
    assert set(errors.intervals) == {"vendor", "device", "engine", "model"}
    assert all(0.85 < error.covered < 0.98 for scope in ("device", "engine", "model")
               for error in errors.intervals[scope].values())  # fmt: skip
    assert set(errors.kernels) == set(errors.unseen_device) == set(errors.unseen_chip)
    assert errors.kernels["gemm"]["all"].cases > 5_000


def test_energy_has_a_range_of_its_device_or_of_all_with_watts():
    errors = measured_errors().energy
    own, other = energy_error("h200-sxm"), energy_error("a100-sxm-80gb")
    assert (own, other) == (errors["h200-sxm"], errors["all"])
    low, high = energy_range("h200-sxm", 2.0)
    assert (low, high) == (2.0 * own.low, 2.0 * own.high)
    words = describe_energy_error("h200-sxm")
    assert "measured on this device, with constants from the watts of an H100" in words
    assert "whole boards, without hosts" in words
    assert f"{100 * own.median:.0f} % off in the median" in words
    assert "measured on others, with" in describe_energy_error("a100-sxm-80gb")
