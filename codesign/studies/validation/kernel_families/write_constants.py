"""Fit the constants of messages, experts and element-wise kernels, and write the shipped files.

``python -m codesign.studies.validation.kernel_families.write_constants`` fits the families of this
file to the measured kernels. Nothing is random. Only GPUs were measured: other classes take their
constants, with the ratios that whole requests on a Ryzen gave before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from codesign.columns import BoolArray
from codesign.machines.device.constants import FOLDER
from codesign.schema import Record
from codesign.studies.validation.kernel_families import (
    collectives,
    elementwise,
    expert_exchange,
    experts,
)
from codesign.studies.validation.kernel_table import KernelTable, read_kernel_table
from codesign.units import format_quantity

UNITS = {
    **dict.fromkeys(("start", "step", "fill", "custom_start", "custom_peer", "hosted_peer"), "us"),
    **dict.fromkeys(
        ("network_step", "expert_start", "routing_start", "normal_start", "normal_hop"), "us"
    ),
    **dict.fromkeys(("low_latency_start", "low_latency_hop", "stream_start", "row_start"), "us"),
    **dict.fromkeys(("mixing_start", "projection_start"), "us"),
    **dict.fromkeys(("core_copy", "expert_copy", "token_copy", "core_load"), "GB/s"),
    **dict.fromkeys(("stream_core", "row_core"), "GB/s"),
    "core_limits": "TFLOP/s",
}
"""Unit in which a constant is written; others are plain numbers."""
OTHER_CLASSES = {
    "igpu": {"memory": 0.845, "compute": 1.0},
    "npu": {"memory": 1.289, "compute": 0.2},
    "cpu": {"memory": 0.0944, "compute": 0.874},
    "tpu": {"memory": 1.0, "compute": 1.0},
}
"""Ratios to the GPUs' constants: those of the efficiencies that were fitted to two measurements of
an igpu, two of an npu and 14 of a cpu before; of a tpu there is none."""
_OF_CORES = ("core_copy", "expert_copy", "core_load", "stream_core", "row_core", "core_limits")
_NO_LIMIT = 1e18
"""A core of another class is not a GPU's: it limits nothing."""

_TAKEN = (
    "no measurements; those of the class gpu, shares scaled as OTHER_CLASSES of that module says, "
    "without limits of a core"
)


def constants_text(
    how: str, classes: Mapping[str, Mapping[str, Any]], sources: Mapping[str, str]
) -> str:
    """A file of constants: how they came about, a record per class, where each is from."""
    lines = ["how: >-", f"  {how}", "classes:"]
    for name, record in classes.items():
        lines.append(f"  {name}:")
        for field, value in record.items():
            if isinstance(value, Mapping):
                lines.append(f"    {field}:")
                lines += [
                    f"      {key}: {_written(field, number)}" for key, number in value.items()
                ]
            else:
                lines.append(f"    {field}: {_written(field, value)}")
    lines += ["sources:", *(f"  {name}: {source}" for name, source in sources.items())]
    return "\n".join(lines) + "\n"


def class_records(fitted: Record) -> dict[str, dict[str, Any]]:
    """The fitted constants of GPUs, and what other classes take from them."""
    gpu: dict[str, Any] = {name: getattr(fitted, name) for name in type(fitted).model_fields}

    def scaled(name: str, value: Any, ratios: Mapping[str, float]) -> Any:
        if name in _OF_CORES:
            return dict.fromkeys(value, _NO_LIMIT) if isinstance(value, Mapping) else _NO_LIMIT
        return min(value * ratios[name], 1.0) if name in ratios else value

    others = {
        device_class: {name: scaled(name, value, ratios) for name, value in gpu.items()}
        for device_class, ratios in OTHER_CLASSES.items()
    }
    return {"gpu": gpu, **others}


def _written(field: str, value: float) -> str:
    unit = UNITS.get(field)
    return format_quantity(value, unit) if unit else f"{value:.4g}"


def write_family(
    family: str,
    table: KernelTable,
    fit: Callable[[KernelTable], Record],
    fitted_rows: BoolArray,
    note: str = "",
) -> None:
    """Fit a family and write its file of constants."""
    n_rows = int(np.count_nonzero(fitted_rows))
    fitted = fit(table)
    how = (
        "python -m codesign.studies.validation.kernel_families.write_constants, to\n"
        "  codesign/studies/validation/data/kernels_measured.csv.gz (ai-dynamo/aiconfigurator\n"
        f"  @095f58a, NVIDIA, Apache-2.0){note}; robust least squares of the logarithm of\n"
        "  predicted over measured time, a group (device and operator) weighing as the square\n"
        "  root of its rows"
    )
    sources = {"gpu": f"fitted to {n_rows} measurements"}
    sources |= dict.fromkeys(OTHER_CLASSES, _TAKEN)
    path = FOLDER / f"{family}.yaml"
    path.write_text(constants_text(how, class_records(fitted), sources), encoding="utf-8")


def main(
    families: Sequence[str] = ("collectives", "expert_exchange", "experts", "elementwise"),
) -> None:
    """Fit all families and write their files; the exchange of tokens uses what collectives got."""
    table = read_kernel_table()
    profile = elementwise.joined(table, elementwise.read_layer_profile())
    vidur = "\n  and Vidur's rows of measured_calibration.csv"
    if "collectives" in families:
        write_family("collectives", table, collectives.fit, collectives.left_out(table) == "")
    if "expert_exchange" in families:
        write_family(
            "expert_exchange", table, expert_exchange.fit, expert_exchange.left_out(table) == ""
        )
    if "experts" in families:
        write_family("experts", table, experts.fit, experts.is_fitted(table))
    if "elementwise" in families:
        write_family(
            "elementwise", profile, elementwise.fit, elementwise.left_out(profile) == "", vidur
        )


if __name__ == "__main__":
    main()
