"""How far predictions were from measurements: what a user may expect of a prediction.

``codesign validate kernels requests`` measures the errors, and
``python -m codesign.studies.validation.expected_errors`` writes them to ``expected_errors.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from pydantic import Field

from codesign.schema import Record, read_document, to_record

ERRORS_FILE = Path(__file__).parent / "expected_errors.yaml"

_QUANTITIES = {
    "TTFT": "time to first token",
    "TPOT": "time per output token",
    "throughput": "throughput of a batch from its first to its last token",
}


class MeasuredError(Record):
    """Relative errors of a group of predictions, as shares."""

    cases: int = Field(ge=1)
    """Measurements that were predicted."""
    median: float
    """Median size of the error."""
    p90: float
    """Size that 90 % of the errors do not exceed."""
    bias: float
    """Median of the signed errors; above 0, predictions are too slow."""


class MeasuredErrors(Record):
    """Errors of all predictions by what was predicted, then by device."""

    how: str
    """The command that measured them."""
    requests: dict[str, dict[str, MeasuredError]]
    """Of whole requests: by quantity, then by device; ``all`` is of all devices together."""
    kernels: dict[str, dict[str, MeasuredError]]
    """Of kernels with the shipped constants: by family, then by device."""
    unseen_device: dict[str, MeasuredError]
    """Of kernels on a device that the fit has not seen: by family."""


@cache
def measured_errors() -> MeasuredErrors:
    """The shipped errors."""
    return to_record(read_document(ERRORS_FILE), MeasuredErrors)


def describe_expected_error(device: str) -> list[str]:
    """What is known of the errors of predictions for a device, in sentences.

    Args:
        device: Key of the device's file.
    """
    errors = measured_errors()
    requests = {name: by[device] for name, by in errors.requests.items() if device in by}
    kernels = {name: by[device] for name, by in errors.kernels.items() if device in by}
    if requests:
        return [f"Expected error on this device: {'; '.join(_of_requests(requests))}."]
    others = "; ".join(_of_requests({name: by["all"] for name, by in errors.requests.items()}))
    if kernels:
        return [
            f"No request was measured on this device. Its kernels: {_of_kernels(kernels)}. "
            f"Requests on other devices: {others}."
        ]
    return [
        "Nothing was measured on this device. Kernels of devices that the fit had not seen: "
        f"{_of_kernels(errors.unseen_device)}. Requests on other devices: {others}."
    ]


def _of_requests(errors: Mapping[str, MeasuredError]) -> Iterator[str]:
    for name, error in errors.items():
        yield (
            f"{_QUANTITIES[name]} {error.median:.0%} (median of {error.cases:,} measured, 90 % "
            f"within {error.p90:.0%})"
        )


def _of_kernels(errors: Mapping[str, MeasuredError]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {error.median:.0%}" for name, error in errors.items()
    )
