"""What users are told to expect: of measured devices, of measured kernels, and of neither."""

from __future__ import annotations

import pytest

from codesign.hardware.device import list_devices
from codesign.machines.device.expected_error import describe_expected_error, measured_errors


def test_a_device_of_measured_requests_has_errors_of_its_own() -> None:
    (sentence,) = describe_expected_error("h100-sxm")
    assert sentence.startswith("Expected error on this device: time to first token")
    assert "time per output token" in sentence
    error = measured_errors().requests["TPOT"]["h100-sxm"]
    assert f"time per output token {error.median:.0%} (median of {error.cases:,}" in sentence


def test_a_device_of_measured_kernels_says_that_no_request_was_measured() -> None:
    (sentence,) = describe_expected_error("b200-sxm")
    assert sentence.startswith("No request was measured on this device. Its kernels: gemm ")
    assert "expert exchange" in sentence
    assert "Requests on other devices: time to first token" in sentence


def test_a_device_that_nobody_measured_has_the_errors_of_unseen_devices() -> None:
    (sentence,) = describe_expected_error("tpu-v5e")
    assert sentence.startswith("Nothing was measured on this device.")
    unseen = measured_errors().unseen_device
    assert f"gemm {unseen['gemm'].median:.0%}" in sentence
    assert all(unseen[name].median >= 0.5 * by["all"].median for name, by in
               measured_errors().kernels.items())  # fmt: skip


@pytest.mark.parametrize("device", list_devices())
def test_every_device_has_a_sentence(device: str) -> None:
    assert all(sentence.endswith(".") for sentence in describe_expected_error(device))


def test_the_shipped_errors_are_measured() -> None:
    errors = measured_errors()
    assert errors.how == "python -m codesign.studies.validation.expected_errors"
    assert set(errors.requests) == {"TTFT", "TPOT", "throughput"}
    assert set(errors.kernels) == set(errors.unseen_device)
    assert errors.kernels["gemm"]["all"].cases > 5_000
