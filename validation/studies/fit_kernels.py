"""Fit the shipped constants: ``python -m validation.studies.fit_kernels [family ...]``.

Each family is fitted to the measured kernels and writes its file of constants; nothing is random.
Only GPUs were measured. Other classes of devices have the constants of GPUs, with the ratios below
and without the limits of a GPU's cores.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from textwrap import fill
from typing import TypeVar

from codesign.base.columns import JsonObject, Strings
from codesign.base.errors import UnknownNameError
from codesign.base.files import replacing
from codesign.base.schema import Record
from codesign.base.units import format_quantity
from codesign.models.machines.device.constants import FOLDER, load_constants
from validation.studies.kernel_families import engine
from validation.studies.kernel_families.log_fit import LOSS
from validation.studies.kernel_table import KernelTable
from validation.studies.kernels import FAMILIES, family_of, measured_kernels

Constants = TypeVar("Constants", bound=Record)

ALL_FAMILIES = (*FAMILIES, "engine")
"""Families in the order of the fits: the exchange of tokens takes factors from collectives, latent
attention from attention, and the engine is the rest of requests."""
CLASSES = ("gpu", "tpu", "igpu", "npu", "cpu")
_RATIOS = {"tpu": (1.0, 1.0), "igpu": (1.0, 0.845), "npu": (0.2, 1.289), "cpu": (0.874, 0.0944)}
"""Shares of the peak and of the bandwidth, over those of GPUs. They came out so for 2 measurements
of an igpu, 2 of an npu and 14 of a cpu (three AMD devices in measured_calibration.csv) with the
constants before these. Of a tpu there is none."""
_OF_PEAK = ("compute", "matrix_fraction")
_OF_BANDWIDTH = ("memory", "bandwidth", "bandwidth_fraction", "convolution_bandwidth_fraction")
_OF_GPU_CORES = {
    **dict.fromkeys(("core_copy", "expert_copy", "stream_core", "row_core"), 1e18),
    "integer_core_rate": 1e18,
    **dict.fromkeys(("load_bytes_per_cycle", "core_flop_per_cycle"), 1e9),
    **dict.fromkeys(("convert_bytes_per_cycle", "convolution_bytes_per_cycle"), 1e9),
    "synchronous_flop_per_cycle": 1e9,
    "operand_rate": 1e13,
    "wave": 0.01,
}
"""Constants of classes other than GPUs. Few large cores are fed as fast as they multiply, multiply
integers at their peak, and fill a tile's pipeline while the tile before drains [ours]."""
_LARGE_CORES = {"tpu": 16.0, "npu": 16.0}
"""Cores of a GPU that a matrix unit counts for [ours]."""
_PER_CORE = {"scores_per_cycle": 1.0} | dict.fromkeys(
    ("block_cycles", "tile_cycles", "sequence_block_cycles", "head_cycles", "chunk_cycles"), -1.0
)
"""Constants of one core, with the power of its size."""
_UNITS = {
    **dict.fromkeys(("start", "ramp", "quantize", "fine_scales", "step", "fill"), "us"),
    **dict.fromkeys(("custom_start", "custom_peer", "peer_step", "network_step"), "us"),
    **dict.fromkeys(("normal_start", "normal_hop"), "us"),
    **dict.fromkeys(("low_latency_start", "low_latency_hop", "stream_start", "row_start"), "us"),
    **dict.fromkeys(("mixing_start", "projection_start", "host_start", "rank_deviation"), "us"),
    "earlier_host_start": "us",
    **dict.fromkeys(("host_step", "host_prompt", "host_request"), "ms"),
    **dict.fromkeys(("core_copy", "expert_copy", "token_copy"), "GB/s"),
    **dict.fromkeys(("stream_core", "row_core", "operand_rate"), "GB/s"),
    "integer_core_rate": "TFLOP/s",
    "convert_rate": "1/s",
}
"""Unit in which a constant is written; others are plain numbers."""
_TABLE = "kernels_measured.csv.gz (ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0)"
_OTHERS = {
    "ai-dynamo/aiconfigurator": "more of its rows in measured_calibration.csv",
    "microsoft/vidur": "Vidur's operators of measured_calibration.csv (microsoft/vidur, MIT)",
}
"""Names of sources by which :mod:`validation.studies.operator_rows` calls the source of a row."""
_REQUESTS = (
    "requests at TP > 1 of LMDeploy (TurboMind 0.1) in measured_calibration.csv and requests alone "
    "of Splitwise (Mutinifni/splitwise-sim @8f99e7d, MIT) in splitwise.csv; medians of what steps "
    "take for each collective, and robust least squares of what those of Splitwise's hosts take, "
    "given the constants of kernels"
)


def main(names: Strings = ()) -> None:
    """Fit families and write their files; all of them if none is named.

    Raises:
        UnknownNameError: No such family.
    """
    for name in names:
        if name not in ALL_FAMILIES:
            raise UnknownNameError("family of kernels", name, ALL_FAMILIES)
    table, _ = measured_kernels()
    for name in (name for name in ALL_FAMILIES if not names or name in names):
        with replacing(FOLDER / f"{file_of(name)}.yaml") as path:
            path.write_text(family_text(name, table), encoding="utf-8")
        load_constants.cache_clear()


def file_of(name: str) -> str:
    """The file of constants of a family, without its ending."""
    return name if name == "engine" else family_of(name).file


def family_text(name: str, table: KernelTable) -> str:
    """A family fitted to the rows of a table, as its file of constants."""
    if name == "engine":
        requests = engine.cases()
        return constants_text(name, _REQUESTS, engine.fit(requests), f"{len(requests)} requests")
    family = family_of(name)
    table = table.operator_rows(family.operators)
    rows = family.fitted_rows(table)
    sources = set(rows.words("framework").tolist())
    tables = [_TABLE, *(words for source, words in _OTHERS.items() if source in sources)]
    data = f"{', '.join(tables)}; {LOSS}"
    devices = ", ".join(sorted({device.key for device in rows.devices if device is not None}))
    return constants_text(name, data, family.fit(table), f"{len(rows)} kernels of {devices}")


def constants_text(name: str, data: str, fitted: Record, n_measured: str) -> str:
    """Text that :func:`~codesign.models.machines.device.constants.load_constants` reads.

    Args:
        data: Data and loss of the fit.
        fitted: Constants of GPUs.
        n_measured: To how many measurements they are fitted.
    """
    how = f"python -m validation.studies.fit_kernels {name}, to {data}"
    lines = ["how: >-", fill(how, 96, initial_indent="  ", subsequent_indent="  "), "classes:"]
    for device_class in CLASSES:
        lines.append(f"  {device_class}:")
        for field, value in class_constants(fitted, device_class).model_dump().items():
            if isinstance(value, Mapping):
                lines.append(f"    {field}:")
                lines += [f"      {key}: {_written(field, x)}" for key, x in value.items()]
            else:
                lines.append(f"    {field}: {_written(field, value)}")
    lines += ["sources:", f'  gpu: "fitted to {n_measured}"']
    for device_class in CLASSES[1:]:
        lines.append(
            f'  {device_class}: "no measurements; those of gpu, shares and cores scaled as '
            'fit_kernels says [ours]"'
        )
    return "\n".join(lines) + "\n"


def class_constants(fitted: Constants, device_class: str) -> Constants:
    """The constants of a class of devices, from those that were fitted to GPUs."""
    if device_class == "gpu":
        return fitted
    compute, memory = _RATIOS[device_class]
    ratios = dict.fromkeys(_OF_PEAK, compute) | dict.fromkeys(_OF_BANDWIDTH, memory)
    size = _LARGE_CORES.get(device_class, 1.0)
    changes: JsonObject = {}
    for name, value in fitted.model_dump().items():
        if name in _OF_GPU_CORES:
            limit = _OF_GPU_CORES[name]
            changes[name] = dict.fromkeys(value, limit) if isinstance(value, dict) else limit
        elif ratios.get(name, 1.0) != 1.0:
            changes[name] = min(value * ratios[name], 1.0)
        elif name in _PER_CORE:
            changes[name] = value * size ** _PER_CORE[name]
    return fitted.model_copy(update=changes)


def _written(field: str, value: float) -> str:
    unit = _UNITS.get(field)
    return format_quantity(value, unit) if unit else f"{value:.4g}"


if __name__ == "__main__":
    main(sys.argv[1:])
