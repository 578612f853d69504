"""The errors that users are told to expect.

They are those of the studies ``kernels``, ``energy``, ``requests`` and ``throughput``.

``python -m validation.studies.expected_errors`` writes them, by device.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from codesign.base.files import write_text
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.expected_error import ERRORS_FILE
from validation.studies import (
    attention_blocks,
    kernel_energy,
    kernels,
    measured_card,
    requests,
    saturation,
)
from validation.studies.study import Study

_Errors = dict[str, dict[str, list[float]]]


def expected_errors_text() -> str:
    """The file ``expected_errors.yaml`` of the shipped constants and tables."""
    of_kernels, of_requests, saturated = kernels.run(), requests.run(), saturation.run()
    lines = ["how: python -m validation.studies.expected_errors"]
    lines.append("requests:")
    for engine, engines in {"queued": ("graphs", "turbomind"), "eager": ("eager",)}.items():
        rows = [row for row in of_requests.rows if row["engine"] in engines]
        rows += saturated.rows if engine == "queued" else []
        section = _section(_device_errors(replace(of_requests, rows=rows), "error"))
        lines += [f"  {engine}:", *(f"  {line}" for line in section)]
    # Blocks are sums of kernels, which are not told apart from them where errors are printed.
    single = [row for row in of_kernels.rows if row["group"] not in attention_blocks.OPERATORS]
    of_kernels = replace(of_kernels, rows=single)
    lines += ["kernels:", *_section(_device_errors(of_kernels, "error"))]
    # Predictions without a row's device have corrections of others of its chip.
    keys = sorted({row["device"] for row in single})
    chips = {key: load_device(key).measured_name for key in keys}
    n_devices = Counter(chips.values())
    related = [row for row in single if n_devices[chips[row["device"]]] > 1]
    lines += _unseen("unseen_device", _device_errors(replace(of_kernels, rows=related), "held_out"))
    lines += _unseen("unseen_chip", _device_errors(of_kernels, "chip_held_out"))
    lines += ["energy:", *energy_lines(kernel_energy.run())]
    return "\n".join(lines) + "\n"


def _unseen(section: str, errors: _Errors) -> list[str]:
    return [f"{section}:", *(f"  {name}: {_entry(by['all'])}" for name, by in errors.items())]


def _device_errors(study: Study, column: str) -> _Errors:
    """Errors by group and device; ``all`` has those of every device."""
    errors: _Errors = defaultdict(lambda: defaultdict(list))
    for row in study.rows:
        if row.get(column) is not None and not np.isnan(row[column]):
            for device in ("all", row["device"]):
                errors[row["group"]][device].append(row[column])
    return {name: dict(by_device) for name, by_device in errors.items()}


def _section(errors: Mapping[str, Mapping[str, list[float]]]) -> list[str]:
    lines = []
    for name, by_device in errors.items():
        lines.append(f"  {name}:")
        lines += [f"    {device}: {_entry(by_device[device])}" for device in sorted(by_device)]
    return lines


def energy_lines(study: Study) -> list[str]:
    """Errors of energy by device, with the range of measured over predicted energy.

    A device with watts has what geometries that were held out show, or our own rows; ``all``, which
    stands for every other device, what devices that were held out show.
    """
    errors: dict[str, list[float]] = defaultdict(list)
    for row in study.rows:
        errors[row["device"]].append(row["error"])
        errors["all"].append(row["held_out"])
    errors[measured_card.DEVICE] = measured_card.energy_errors().tolist()
    lines = []
    for device in sorted(errors):
        low, high = np.quantile(1.0 / (1.0 + np.array(errors[device])), [0.05, 0.95])
        entry = _entry(errors[device]).removesuffix("}")
        lines.append(f"  {device}: {entry}, low: {low:.3f}, high: {high:.3f}}}")
    return lines


def _entry(errors: list[float]) -> str:
    size = np.abs(errors)
    return (
        f"{{cases: {len(errors)}, median: {np.median(size):.3f}, "
        f"p90: {np.quantile(size, 0.9):.3f}, bias: {np.median(errors):+.3f}}}"
    )


def main() -> None:
    """Write the shipped file."""
    text = expected_errors_text()
    write_text(ERRORS_FILE, text)


if __name__ == "__main__":
    main()
