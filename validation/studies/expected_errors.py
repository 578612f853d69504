"""The errors that users are told to expect.

They are those of the studies ``kernels``, ``energy``, ``requests`` and ``throughput``.

``python -m validation.studies.expected_errors`` writes them, by device.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from codesign.base.columns import FieldRows, StringList
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
from validation.studies.study import DATA, Study

OTHER_VENDORS_FILE = DATA / "other_vendors.csv"
"""Requests on devices of vendors of whom nothing is fitted."""
_QUANTITIES = {
    "first token": ("TTFT", "prefill"),
    "output token": ("TPOT", "decode"),
    "throughput": ("throughput", saturation.GROUP),
}
"""Beginnings of the names of groups of rows by quantity."""
_FEW = 10
"""Least cases of what counts as seen [ours]."""
_Errors = dict[str, dict[str, list[float]]]


def expected_errors_text() -> str:
    """The file ``expected_errors.yaml`` of the shipped constants and tables."""
    of_kernels = kernels.run()
    others = requests.compare(OTHER_VENDORS_FILE)
    lines = ["how: python -m validation.studies.expected_errors"]
    lines += interval_lines([*requests.run().rows, *saturation.run().rows], others.rows)
    # Blocks are sums of kernels, which are not told apart from them where errors are printed.
    single = [
        {**row, "group": row["operator"]} if row["group"] == "elementwise" else row
        for row in of_kernels.rows
        if row["group"] not in attention_blocks.OPERATORS
    ]
    of_kernels = replace(of_kernels, rows=single)
    lines += ["kernels:", *_section(_device_errors(of_kernels, "error"))]
    # Predictions without a row's device have corrections of others of its chip.
    chips = {
        key: load_device(key).measured_name for key in sorted({row["device"] for row in single})
    }
    n_devices = Counter(chips.values())
    related = [row for row in single if n_devices[chips[row["device"]]] > 1]
    lines += _unseen("unseen_framework", _device_errors(of_kernels, "framework_held_out"))
    lines += _unseen("unseen_device", _device_errors(replace(of_kernels, rows=related), "held_out"))
    lines += _unseen("unseen_chip", _device_errors(of_kernels, "chip_held_out"))
    card: dict[str, list[float]] = defaultdict(list)
    for name, error in measured_card.kernel_errors():
        card[name].append(error)
    lines += ["other_laboratory:", f"  {measured_card.DEVICE}:"]
    lines += [f"    {name}: {_entry(errors)}" for name, errors in card.items()]
    lines += ["energy:", *energy_lines(kernel_energy.run())]
    return "\n".join(lines) + "\n"


def interval_lines(rows: FieldRows, others: FieldRows) -> StringList:
    """Vendors, devices and engines of requests, and intervals of measured over predicted time.

    Args:
        others: Requests on devices of vendors of whom nothing is fitted.
    """
    scopes = ("vendor", "device", "engine", "model")
    lines = ["seen:"]
    for scope in scopes[:3]:
        counts = Counter(row[scope] for row in rows)
        lines.append(f"  {scope}: {sorted(name for name, n in counts.items() if n >= _FEW)}")
    lines.append("intervals:")
    for scope in scopes:
        lines.append(f"  {scope}:")
        for quantity, names in _QUANTITIES.items():
            groups: dict[str, list[float]] = defaultdict(list)
            for row in (*rows, *others) if scope == "vendor" else rows:
                if str(row["group"]).startswith(names):
                    groups[row[scope]].append(
                        np.log1p(row["error"]) * (1 - 2 * (row["group"] in ("TTFT", "TPOT")))
                    )
            lines.append(f"    {quantity}: {interval([*groups.values()])}")
    return lines


def interval(groups: Sequence[Any]) -> str:
    """The least interval of groups of logarithms whose like, made without a group, holds 90 % of
    it in the mean over groups; at most 98 % of all."""
    for share in np.linspace(0.8, 0.98, 37):
        inside = []
        for i, group in enumerate(groups):
            low, high = _ends([*groups[:i], *groups[i + 1 :]], share)
            inside.append(np.mean((low <= group) & (group <= high)))
        if np.mean(inside) >= 0.9:
            break
    low, high = np.exp(_ends(groups, share))
    entry = _entry(np.expm1(np.concatenate(groups)).tolist()).removesuffix("}")
    counts = f"groups: {len(groups)}, covered: {np.mean(inside):.2f}"
    return f"{entry}, low: {low:.3f}, high: {high:.3f}, {counts}}}"


def _ends(groups: Sequence[Any], share: float) -> Any:
    """Ends of the central share of groups that have the same weight."""
    weights = np.concatenate([np.full(len(group), 1.0 / len(group)) for group in groups])
    ends = [0.5 - share / 2, 0.5 + share / 2]
    return np.quantile(np.concatenate(groups), ends, weights=weights, method="inverted_cdf")


def _unseen(section: str, errors: _Errors) -> StringList:
    return [f"{section}:", *(f"  {name}: {_entry(by['all'])}" for name, by in errors.items())]


def _device_errors(study: Study, column: str) -> _Errors:
    """Errors by group and device; ``all`` has those of every device."""
    errors: _Errors = defaultdict(lambda: defaultdict(list))
    for row in study.rows:
        if row.get(column) is not None and not np.isnan(row[column]):
            for device in ("all", row["device"]):
                errors[row["group"]][device].append(row[column])
    return {name: dict(by_device) for name, by_device in errors.items()}


def _section(errors: Mapping[str, Mapping[str, list[float]]]) -> StringList:
    lines = []
    for name, by_device in errors.items():
        lines.append(f"  {name}:")
        lines += [f"    {device}: {_entry(by_device[device])}" for device in sorted(by_device)]
    return lines


def energy_lines(study: Study) -> StringList:
    """Errors of energy by device, with the range of measured over predicted energy.

    A device with watts has what geometries that were held out show, or our own rows; ``all``, which
    stands for every other device, what devices that were held out show.
    """
    errors: dict[str, list[float]] = defaultdict(list)
    for row in study.rows:
        errors[row["device"]].append(row["error"])
        errors["all"].append(row["held_out"])
    errors[measured_card.DEVICE] = list(measured_card.energy_errors())
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
    write_text(ERRORS_FILE, expected_errors_text())


if __name__ == "__main__":
    main()
