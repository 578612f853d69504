"""Errors of predictions against measurements, as a user may expect them.

``python -m validation kernels energy requests throughput`` measures the errors, and
``python -m validation.studies.expected_errors`` writes them to ``expected_errors.yaml``.

.. [Barber2021] R. Barber et al., Predictive inference with the jackknife+, Annals of Statistics
   49(1), 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from codesign.base.columns import FloatPair, StringList, StringTuple
from codesign.base.schema import Positive, PositiveAmount, Record, parse_record, read_document
from codesign.models.hardware.device import Device, load_device

ERRORS_FILE = Path(__file__).parent / "expected_errors.yaml"

_FAMILIES = dict(
    row.split(maxsplit=1)
    for row in """\
gemm matrix products
mla latent attention
mla_bmm absorbed products of latent attention
scan linear attention
expert_exchange exchange of experts
quantize_bf16_to_fp8 quantization
hyper_connection_pre hyper-connections before a block
hyper_connection_post hyper-connections after a block
input_layernorm norms of 2023
mlp_act activations of 2023
attn_rope rotations of 2023
norm norms
add_norm norms with an addition
silu_mul gated activations
rope rotations
add additions
""".splitlines()
)
"""Families of kernels in words, where their name is no word."""

SCHEDULED_ERROR = (
    "Published output rates on scheduled chips are 0.76 to 1.35 times the predicted ones, 15 % off "
    "in the median of 9. Not counted: 0.51 of four wafers with software that was replaced "
    "(python -m validation systems)."
)


class MeasuredError(Record):
    """Relative errors of a group of predictions, as shares.

    Attributes:
        cases: Measurements that were predicted.
        median: Median size of the error.
        p90: Size that 90 % of the errors do not exceed.
        bias: Median of the signed errors; above 0, predictions are too slow.
    """

    cases: Positive
    median: float
    p90: float
    bias: float


_Errors = dict[str, MeasuredError]


class EnergyError(MeasuredError):
    """Errors of the energy of kernels at predicted times, by constants of an H100's watts.

    Attributes:
        low: Measured over predicted energy that 5 % of the kernels stay below.
        high: Measured over predicted energy that 5 % of the kernels exceed.
    """

    low: PositiveAmount
    high: PositiveAmount


class TimeError(MeasuredError):
    """Errors of requests, and measured over predicted time of 90 % of them.

    Groups of a scope have the same weight. The interval is the smallest whose construction
    without a group covers 90 % of that group, in the mean over groups, and at most 98 % of all
    cases: conformal prediction that leaves out groups, as jackknife+ does cases [Barber2021]_.

    Attributes:
        covered: Share of a left-out group inside, in the mean over groups.
    """

    low: PositiveAmount
    high: PositiveAmount
    groups: int
    covered: float


class MeasuredErrors(Record):
    """Errors of all predictions by what was predicted, then by device.

    Attributes:
        how: The command that measured them.
        seen: Vendors, devices and engines with measured requests.
        intervals: Intervals by the widest scope that was not seen, else by ``model``, then by
            quantity.
        kernels: Errors of kernels whose geometry the corrections have not seen: by family, then by
            device.
        unseen_framework: Errors of kernels of a framework that the corrections have not seen: by
            family.
        other_laboratory: Errors of kernels that another laboratory measured: by device, then by
            family. Five constants are fitted to those that only move data.
        unseen_device: Errors of kernels on a device that the fit has not seen, corrected by others
            of its chip: by family.
        unseen_chip: Errors of kernels on a chip that the fit has not seen: by family.
        energy: Errors of the energy of kernels whose geometry the fits of time have not seen: by
            device; ``all`` is of all kernels by fits without their device. An H100's are its loops,
            of which 4 of 13 set constants.
    """

    how: str
    seen: dict[str, StringTuple]
    intervals: dict[str, dict[str, TimeError]]
    kernels: dict[str, _Errors]
    unseen_framework: _Errors
    other_laboratory: dict[str, _Errors]
    unseen_device: _Errors
    unseen_chip: _Errors
    energy: dict[str, EnergyError]


@cache
def measured_errors() -> MeasuredErrors:
    """The shipped errors."""
    return parse_record(read_document(ERRORS_FILE), MeasuredErrors)


@cache
def measured_chips() -> Mapping[str, StringTuple]:
    """The devices of which kernels were measured, by the chip that their files name."""
    keys = {key for by_device in measured_errors().kernels.values() for key in by_device}
    chips: dict[str, StringTuple] = {}
    for key in sorted(keys - {"all"}):
        chip = load_device(key).measured_name
        chips[chip] = (*chips.get(chip, ()), key)
    return chips


def describe_expected_error(device: Device, engine: str = "graphs") -> StringList:
    """Sentences on the errors of predictions for a device under a serving engine."""
    if device.device_class == "scheduled":
        return [SCHEDULED_ERROR]
    errors = measured_errors()
    key = device.key
    chip = device.measured_name
    calibration = device.calibration_error
    kernels = {
        name: by_device[key] for name, by_device in errors.kernels.items() if key in by_device
    }
    identity = {"vendor": device.vendor, "device": key, "engine": engine}
    unseen = [name for name, value in identity.items() if value not in errors.seen[name]]
    scope = unseen[0] if unseen else "model"
    words = (
        f"{name} {error.low:.2f} to {error.high:.2f} ({100 * error.median:.0f} % off in the median "
        f"of {error.cases:,} cases, {100 * error.covered:.0f} % of them inside)"
        for name, error in errors.intervals[scope].items()
    )
    basis = (
        f"Fewer than 10 cases of this {scope} were measured"
        if unseen
        else "Both device and engine were measured"
    )
    sentences = []
    if calibration is not None:
        sentences.append(
            "This device is calibrated: measured over predicted times are "
            f"{calibration.low:.2f} to {calibration.high:.2f} (90 % interval), "
            f"{100 * calibration.median - 100:.1f} % off in the median of {calibration.cases} "
            "measurements that were not fitted."
        )
    sentences += [
        f"Measured times over those predicted, 90 % intervals: {'; '.join(words)}. {basis}: "
        f"each {scope}'s cases were held out."
    ]
    if kernels:
        sentences.append(
            f"Errors of kernels measured on this device: {_kernel_errors(kernels)}. On any device, "
            f"corrected by other frameworks: {_kernel_errors(errors.unseen_framework)}."
        )
        if others := errors.other_laboratory.get(key):
            sentences[-1] += (
                f" Errors on kernels of another laboratory: {_kernel_errors(others)}. Five "
                "constants were fitted to these kernels, except the matrix products."
            )
    elif chip in measured_chips():
        sentences.append(
            "No kernel was measured on this device; those of its chip correct its laws "
            f"({', '.join(measured_chips()[chip])}). Errors on devices that the fit had not seen, "
            f"with others of their chip: {_kernel_errors(errors.unseen_device)}."
        )
    else:
        sentences.append(
            "No kernel was measured on this device. Those of chips that the fit had not seen: "
            f"{_kernel_errors(errors.unseen_chip)}."
        )
    return sentences


def energy_error(device: str) -> EnergyError:
    """Errors of energy on a device; those of all devices with watts where it has none."""
    energy = measured_errors().energy
    return energy.get(device, energy["all"])


def describe_energy_error(device: str) -> str:
    """Two sentences on the basis of the ranges of energy on a device."""
    error = energy_error(device)
    is_own = device in measured_errors().energy
    place = "this device" if is_own else "others"
    return (
        f"Energy of {error.cases:,} kernels measured on {place}, with constants from the watts of "
        f"an H100: {100 * error.median:.0f} % off in the median, 90 % of them drew {error.low:.2g} "
        f"to {error.high:.2g} times the predicted energy. Ranges of energy are these; "
        "errors of many kernels partly cancel in a request. It is of whole boards, without hosts, "
        "at the clocks that the power limit leaves them."
    )


def energy_range(device: str, joules: float) -> FloatPair:
    """Between what 90 % of the measured kernels would lie, were they of the predicted energy.

    Limiting assumption: a request errs as much as one kernel.

    Examples:
        >>> low, high = energy_range("h200-sxm", 1.0)
        >>> low < 1.0 < high
        True
    """
    error = energy_error(device)
    return error.low * joules, error.high * joules


def _kernel_errors(errors: Mapping[str, MeasuredError]) -> str:
    return ", ".join(
        f"{_FAMILIES.get(name, name.replace('_', ' '))} {100 * error.median:.0f} %"
        for name, error in errors.items()
    )
