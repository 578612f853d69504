"""Fit the efficiencies of :mod:`codesign.hardware.kernels` to published measurements.

``python -m codesign.studies.validation.fitting`` fits them to all measurements and ships the result
as ``codesign/hardware/devices/efficiency.yaml``. Nothing is random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import codesign.hardware.device as device_module
from codesign.columns import FloatArray, IntArray
from codesign.errors import InputError
from codesign.hardware.kernels import Efficiency, Kernels, join, kernel_times_s
from codesign.studies.validation.measurements import Measurement, read_measurements
from codesign.units import format_quantity

START = Efficiency.model_validate(
    {
        "compute": 0.9,
        "tile_penalty": 10.0,
        "bandwidth": 0.75,
        "rowwise_bandwidth": 0.5,
        "attention": 0.6,
        "attention_keys": 128.0,
        "device_overhead": "4 us",
        "device_vector_overhead": "4 us",
        "call_overhead": "10 us",
        "host_matrix_overhead": "20 us",
        "host_softmax_overhead": "20 us",
        "host_vector_overhead": "20 us",
        "link": 0.75,
        "link_latency": "8 us",
        "link_step": "1 us",
    }
)
"""Where the fit starts, and stays where no measurement says otherwise: round numbers."""

_LOSS_SCALE = 0.1  # [ours] relative errors beyond this count linearly, not squared
_PULL = 0.01  # [ours] weight of a departure from START by a factor e, against an error of each row
_SCALED_RATES = (("compute", "attention"), ("bandwidth", "rowwise_bandwidth"))
_SECONDS = (
    *(name for name in Efficiency.model_fields if "overhead" in name),
    "link_latency",
    "link_step",
)
_MOST = {
    "compute": 1.25,
    "attention": 1.25,
    "bandwidth": 1.0,
    "rowwise_bandwidth": 1.0,
    "link": 1.0,
}
"""No more than the datasheet; of the sustained peak a little more, since that is published too."""
SMALL_CLASSES = ("igpu", "npu", "cpu")
"""Classes with one device each: only two rates are fitted, the rest is the GPUs'."""


def predict_s(rows: Sequence[Measurement], efficiency: Efficiency) -> FloatArray:
    """(r,) seconds of each row; every row must have kernels."""
    kernels, owner = _joined(rows)
    return _sums(kernels, owner, len(rows), efficiency)


def fit(rows: Sequence[Measurement], start: Efficiency = START) -> Efficiency:
    """The efficiencies that make the rows' times come out best.

    Robust least squares of the logarithm of predicted over measured time. A group of rows
    (operator, TTFT, TPOT, …) weighs as the square root of their number, between every row and
    every group alike. Constants that no row depends on stay at ``start``.

    Args:
        rows: Measurements of one class of devices, all with kernels.
        start: The first guess, to which constants are weakly drawn.

    Raises:
        InputError: No rows.
    """
    names = [name for name in Efficiency.model_fields if getattr(start, name) > 0]
    origin = np.log([getattr(start, name) for name in names])

    def efficiency_at(point: FloatArray) -> Efficiency:
        values = dict(zip(names, map(float, np.exp(point)), strict=True))
        return start.model_copy(update=values)

    most = np.log([_MOST.get(name, np.inf) for name in names])
    return efficiency_at(_solve(rows, efficiency_at, origin, most))


def fit_rates(rows: Sequence[Measurement], others: Efficiency) -> Efficiency:
    """As :func:`fit`, but only a factor on the arithmetic rates and one on the bandwidths.

    Small tiles cost nothing there: these devices have no matrix units as large as a GPU's.
    """
    others = others.model_copy(update={"tile_penalty": 0.0})

    def efficiency_at(point: FloatArray) -> Efficiency:
        factors = zip(_SCALED_RATES, map(float, np.exp(point)), strict=True)
        scaled = {name: getattr(others, name) * f for group, f in factors for name in group}
        return others.model_copy(update=scaled)

    rooms = [min(_MOST[name] / getattr(others, name) for name in group) for group in _SCALED_RATES]
    most = np.log(np.maximum(rooms, 1 + 1e-6))
    return efficiency_at(_solve(rows, efficiency_at, np.zeros(len(_SCALED_RATES)), most))


def fit_classes(rows: Sequence[Measurement]) -> dict[str, Efficiency]:
    """Efficiencies of every class of devices; of those without rows, the GPUs'."""
    by_class = group_by_class(rows)
    fitted = {"gpu": fit(by_class.get("gpu", []))}
    for name in SMALL_CLASSES:
        own = by_class.get(name)
        fitted[name] = fit_rates(own, fitted["gpu"]) if own else fitted["gpu"]
    return fitted | {"tpu": fitted["gpu"]}


def group_by_class(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """The rows with kernels, by class of device."""
    groups: dict[str, list[Measurement]] = {}
    for row in rows:
        if row.kernels is not None and row.device is not None:
            groups.setdefault(row.device.device_class, []).append(row)
    return groups


def _solve(
    rows: Sequence[Measurement],
    efficiency_at: Callable[[FloatArray], Efficiency],
    origin: FloatArray,
    most: FloatArray,
) -> FloatArray:
    from scipy.optimize import least_squares

    if not rows:
        raise InputError("expected measurements to fit to, got none")
    kernels, owner = _joined(rows)
    measured = np.log([row.seconds for row in rows])
    sizes = Counter(row.group for row in rows)
    weights = np.array([sizes[row.group] ** -0.25 for row in rows])
    weights *= np.sqrt(len(rows) / np.sum(weights**2))

    def residuals(point: FloatArray) -> FloatArray:
        errors = np.log(_sums(kernels, owner, len(rows), efficiency_at(point))) - measured
        # The robust loss by hand, since the pull towards the start must stay quadratic.
        robust = np.sign(errors) * np.sqrt(
            2 * _LOSS_SCALE**2 * (np.sqrt(1 + (errors / _LOSS_SCALE) ** 2) - 1)
        )
        pull = _PULL * np.sqrt(len(rows)) * (point - origin)
        return np.concatenate([weights * robust, pull])

    bounds = (-np.inf, most)
    solution = least_squares(residuals, origin, bounds=bounds, ftol=1e-5, xtol=1e-5, max_nfev=40)
    return np.asarray(solution.x)


def _joined(rows: Sequence[Measurement]) -> tuple[Kernels, IntArray]:
    tables = [row.kernels for row in rows if row.kernels is not None]
    if len(tables) != len(rows):
        raise InputError("expected rows that are not left out")
    return join(tables), np.repeat(np.arange(len(rows)), [len(table) for table in tables])


def _sums(kernels: Kernels, owner: IntArray, n_rows: int, efficiency: Efficiency) -> FloatArray:
    times = kernels.count * kernel_times_s(kernels, efficiency)
    return np.asarray(np.bincount(owner, times, minlength=n_rows), dtype=np.float64)


def efficiency_text(fitted: Mapping[str, Efficiency], rows: Sequence[Measurement]) -> str:
    """The file ``efficiency.yaml`` of fitted classes."""
    lines = [
        "how: >-",
        "  python -m codesign.studies.validation.fitting, to the rows of",
        "  codesign/studies/validation/data/measured_calibration.csv; robust least squares of the",
        "  logarithm of predicted over measured time, a group of rows (operator, TTFT, TPOT, ...)",
        "  weighing as the square root of their number",
        "classes:",
    ]
    for name, efficiency in fitted.items():
        lines.append(f"  {name}:")
        lines += [
            f"    {field}: {_written(field, efficiency)}" for field in Efficiency.model_fields
        ]
    lines.append("sources:")
    counts = {name: len(own) for name, own in group_by_class(rows).items()}
    lines += [f"  {name}: {_source(name, counts)}" for name in fitted]
    return "\n".join(lines) + "\n"


def _written(field: str, efficiency: Efficiency) -> str:
    value = float(getattr(efficiency, field))
    return format_quantity(value, "us") if field in _SECONDS else f"{value:.4g}"


def _source(name: str, counts: Mapping[str, int]) -> str:
    if name not in counts:
        return "no measurements; those of the class gpu"
    fitted_constants = "two rates, the rest as gpu," if name in SMALL_CLASSES else "all"
    return f"{fitted_constants} fitted to {counts[name]} measurements"


def main() -> None:
    """Fit to all measurements and write the shipped file."""
    rows = read_measurements()
    path = Path(device_module.__file__).parent / "devices" / "efficiency.yaml"
    path.write_text(efficiency_text(fit_classes(rows), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
