"""``codesign size calibrate``: a device file from measurements on the user's own card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codesign.base.errors import InputError
from codesign.cli.flag_records import set_flags
from codesign.cli.output import report_files
from codesign.cli.serving_flags import FormatFlags, GroupFlags, degrees_of


def calibrate(
    measured: Annotated[
        Path | None, typer.Argument(help="File that the script wrote, or a log of vLLM or SGLang.")
    ] = None,
    *,
    model: str | None = None,
    base: str | None = None,
    script: Path | None = None,
    output: Path = Path("calibrated.yaml"),
    formats: FormatFlags,
    split: GroupFlags,
) -> None:
    """Fit a device to kernels that a script measures on your own card, or to an engine's log.

    Args:
        model: Language model that the log's engine ran.
        base: Device to start from; a log needs it. [matched by card name]
        script: Write the measuring script here, and stop.
        output: Device file to write.
    """
    import yaml

    from codesign.answers.campaigns import ExportAnswer
    from codesign.base.files import write_text
    from codesign.base.schema import parse_record, read_document, read_text
    from codesign.evaluators.platform.serving_log import calibrate_log
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
    needed = {"--model": model or "", "--base": base or ""}
    if measured.suffix == ".log" and (missing := [name for name in needed if not needed[name]]):
        raise InputError("expected the language model and the device of the log",
                         " and ".join(missing))  # fmt: skip
    card = None if model else parse_record(read_document(measured), MeasuredCard)
    if card and (strays := [*set_flags(formats), *set_flags(split)]):
        raise InputError("expected it with the log of an engine", ", ".join(strays))
    nearest = base or nearest_device(card.card if card else "")
    if nearest is None:
        like = (
            f"like {card.card!r}, which is not bundled" if card else "that the log's engine ran on"
        )
        raise InputError(f"expected a device {like}", "--base")
    device = load_device(nearest, "--base")
    numbers = device_document(nearest).data
    if card:
        document = calibrate(card, device, numbers, str(measured))
    else:
        design = {**formats.formats(str(model)), **degrees_of(split)}
        document = calibrate_log(*read_text(measured), str(model), design, device, numbers)
    write_text(output, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    error = document["calibration_error"]
    note = (
        f"{error['cases']} held-out {'kernels' if card else 'lines'}: median error factor "
        f"{error['median_before']} before, {error['median']} now; 90 % of measured over predicted "
        f"times lie in {error['low']} to {error['high']}"
    )
    report_files(ExportAnswer, None, [output], [note])
