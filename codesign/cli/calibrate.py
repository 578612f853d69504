"""``codesign size calibrate``: a device file from measurements on the user's own card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codesign.base.errors import InputError
from codesign.cli.output import report_files


def calibrate(
    measured: Annotated[Path | None, typer.Argument(help="File that the script wrote.")] = None,
    base: Annotated[
        str | None, typer.Option(help="Device to start from. [matched by card name]")
    ] = None,
    script: Annotated[
        Path | None, typer.Option(help="Write the measuring script here, and stop.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Device file to write.")] = Path("calibrated.yaml"),
) -> None:
    """Fit a device to kernels that a script measures on your own card."""
    import yaml

    from codesign.answers.campaigns import ExportAnswer
    from codesign.base.files import write_text
    from codesign.base.schema import parse_record, read_document
    from codesign.models.hardware.device import device_document, load_device, nearest_device
    from codesign.models.machines.device.calibration import calibrate
    from codesign.models.machines.device.measured_card import SCRIPT, MeasuredCard

    if script is not None:
        write_text(script, SCRIPT.read_text("utf-8"))
        notes = [
            f"on the card: python {script} card.json",
            "then: codesign size calibrate card.json",
        ]
        report_files(ExportAnswer, None, [script], notes)
        return
    if measured is None:
        raise InputError("expected a measurement file; --script FILE writes the measuring script")
    card = parse_record(read_document(measured), MeasuredCard)
    nearest = base or nearest_device(card.card)
    if nearest is None:
        raise InputError(f"expected a device like {card.card!r}, which is not bundled", "--base")
    device, base_document = load_device(nearest, "--base"), device_document(nearest)
    document = calibrate(card, device, base_document.data, str(measured))
    write_text(output, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    error = document["calibration_error"]
    note = (
        f"{error['cases']} held-out kernels: median error factor {error['median_before']} before, "
        f"{error['median']} now; 90 % of measured over predicted times lie in {error['low']} to "
        f"{error['high']}"
    )
    report_files(ExportAnswer, None, [output], [note])
