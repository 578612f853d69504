"""The file of shipped constants of a family of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill

from codesign.machines.device import constants as constants_module
from codesign.schema import Record

FOLDER = constants_module.FOLDER


def constants_text(
    how: str, classes: Mapping[str, Record], sources: Mapping[str, str], units: Mapping[str, str]
) -> str:
    """What :func:`~codesign.machines.device.constants.load_constants` reads.

    Args:
        how: The command, the data and the loss of the fit.
        classes: Constants by class of devices.
        sources: Where the constants of each class are from.
        units: SI unit of the fields that have one.
    """
    lines = ["how: >-", fill(how, 96, initial_indent="  ", subsequent_indent="  "), "classes:"]
    for name, record in classes.items():
        lines.append(f"  {name}:")
        for field, value in record.model_dump().items():
            lines.append(f"    {field}: {value:.4g} {units.get(field, '')}".rstrip())
    lines.append("sources:")
    lines += [f'  {name}: "{text}"' for name, text in sources.items()]
    return "\n".join(lines) + "\n"


def ship(family: str, text: str) -> Path:
    """Write a family's file of constants; its path."""
    path = FOLDER / f"{family}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
