"""What users are told to expect: of measured devices, of measured kernels, and of neither."""

import pytest

from codesign.models.hardware.device import list_devices
from codesign.models.machines.device.expected_error import (
    describe_energy_error,
    describe_expected_error,
    energy_error,
    energy_range,
    measured_chips,
    measured_errors,
)


def test_a_device_of_measured_requests_has_errors_of_its_own():
    first, eager, kernels = describe_expected_error("a100-sxm-80gb")
    assert first.startswith("Expected error on this device: time to first token")
    error = measured_errors().requests["queued"]["TPOT"]["a100-sxm-80gb"]
    assert (
        f"time per output token of dense models {error.median:.0%} (median of {error.cases:,}"
        in first
    )
    assert eager.startswith("Where the host starts each kernel: time to first token")
    assert kernels.startswith("Errors of kernels measured on this device: products ")


def test_what_starts_the_kernels_decides_which_errors_are_expected():
    own, elsewhere, _ = describe_expected_error("a100-sxm-80gb", is_eager=True)
    error = measured_errors().requests["eager"]["TTFT"]["a100-sxm-80gb"]
    words = f"time to first token of dense models {error.median:.0%}"
    assert own.startswith(f"Expected error on this device: {words}")
    assert elsewhere.startswith("Where kernels are queued ahead: ")


def test_a_device_of_measured_kernels_has_the_requests_of_others():
    kernels, requests = describe_expected_error("a100-pcie-80gb")
    assert "rate of a deployment" in requests
    assert kernels.startswith("Errors of kernels measured on this device: products ")
    assert requests.startswith("Requests on other devices: time to first token")


def test_a_device_with_published_throughputs_has_their_errors_by_the_kind_of_model():
    own, kernels = describe_expected_error("b200-sxm")
    queued = measured_errors().requests["queued"]
    for kind, words in (("dense", "dense models"), ("mixtures", "models with experts")):
        error = queued[f"output tokens/s, {kind}"]["b200-sxm"]
        assert f"throughput at saturation of {words} {error.median:.0%} (median of" in own
    assert "exchange of experts" in kernels


def test_a_device_that_nobody_measured_has_the_errors_of_unseen_devices():
    kernels, vendor, requests = describe_expected_error("tpu-v5e")
    assert vendor.endswith("None of Google was measured: expect larger errors.")
    assert kernels.startswith("No kernel was measured on this device.")
    unseen = measured_errors().unseen_chip
    assert f"products {unseen['gemm'].median:.0%}" in kernels
    assert requests.startswith("Requests on other devices: ")
    assert all(unseen[name].median >= 0.5 * by["all"].median for name, by in
               measured_errors().kernels.items())  # fmt: skip


def test_a_device_of_a_measured_chip_has_the_errors_of_devices_with_siblings():
    kernels, requests = describe_expected_error("h100-pcie", chip="GH100")
    assert "those of its chip correct its laws (h100-sxm, h200-sxm)" in kernels
    assert f"products {measured_errors().unseen_device['gemm'].median:.0%}" in kernels
    assert requests.startswith("Requests on other devices: ")
    # A device of measured requests says both.
    own, kernels = describe_expected_error("h800-sxm", chip="GH100")
    assert own.startswith("Expected error on this device: prefill rate of a deployment")
    assert kernels.startswith("No kernel was measured on this device; those of its chip correct")
    assert measured_chips()["GA100"] == ("a100-pcie-80gb", "a100-sxm-80gb")


@pytest.mark.parametrize("device", list_devices())
def test_every_device_has_a_sentence(device):
    assert all(sentence.endswith(".") for sentence in describe_expected_error(device))


def test_the_shipped_errors_are_measured():
    errors = measured_errors()
    assert errors.how == "python -m validation.studies.expected_errors"
    assert {"TTFT", "TPOT", "throughput"} <= set(errors.requests["queued"])
    assert set(errors.requests) == {"queued", "eager"}
    assert set(errors.kernels) == set(errors.unseen_device) == set(errors.unseen_chip)
    assert errors.kernels["gemm"]["all"].cases > 5_000


def test_energy_has_a_range_of_its_device_or_of_all_with_watts():
    errors = measured_errors().energy
    own, other = energy_error("h200-sxm"), energy_error("a100-sxm-80gb")
    assert own == errors["h200-sxm"]
    assert other == errors["all"]
    assert own.cases < other.cases
    low, high = energy_range("h200-sxm", 2.0)
    assert (low, high) == (2.0 * own.low, 2.0 * own.high)
    words = describe_energy_error("h200-sxm")
    assert "measured on this device, with constants from the watts of an H100" in words
    words = describe_energy_error("a100-sxm-80gb")
    assert "measured on others, with constants from the watts of an H100" in words
    assert "whole boards, without hosts" in words
    assert f"{own.median:.0%} off in the median" in describe_energy_error("h200-sxm")
