"""``codesign export``: a campaign, or one of its designs, in the format of another tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.base.errors import InfeasibleError, InputError, UnknownNameError
from codesign.base.files import ending_of
from codesign.base.records import frozen
from codesign.cli import completion
from codesign.cli.campaigns import Folder, Name
from codesign.cli.flag_records import flag
from codesign.cli.output import report_files, say
from codesign.cli.picking import Pick, design_or_pick

if TYPE_CHECKING:
    from codesign.base.columns import StringList
    from codesign.report.chosen import ChosenDesign
    from codesign.report.exports.design_files import Written
    from codesign.search.campaign import Results

_OTHER_NAMES = {
    "yml": "yaml", "excel": "xlsx", "md": "markdown", "journal": "optuna", "log": "optuna",
    "pq": "parquet", "cfg": "scalesim",
}  # fmt: skip


@frozen
class ExportFlags:
    """Designs to write, and their format."""

    form: str | None = flag(
        "Observations: csv, json, yaml, parquet, xlsx, markdown, optuna. One design: spec-sheet, "
        "scalesim, llmcompass, accelforge, genz. [by the file's ending]",
        None,
        "--format",
    )
    scope: str | None = flag(
        "front: non-dominated designs; folded: those of them that are not folded under a cheaper "
        "one; all: every observation. [front; folded for markdown]"
    )
    design: str | None = flag(
        "Export one design: its number on the front, or its name in the space.",
        autocompletion=completion.designs,
    )
    pick: Pick = None
    partial: bool = flag("Also export a campaign that has not ended.", False, "--partial")


def export(
    *,
    name: Name,
    output: Path | None = None,
    selection: ExportFlags,
    folder: Folder = None,
) -> None:
    """Write the results, or one design, to a file that the next tool loads.

    Args:
        output: The file to write. [front.ENDING in the campaign's folder]
    """
    from codesign import api
    from codesign.answers.campaigns import ExportAnswer
    from codesign.base import plugins
    from codesign.report.exports.design_files import export_machines
    from codesign.report.frames import check_scope

    scope = selection.scope
    check_scope(scope or "front")
    design = design_or_pick(selection.design, selection.pick)
    formats = plugins.names("exports")
    design_formats = plugins.names("design_exports")
    chosen_format = _format(selection.form, output, [*formats, *design_formats])
    _check_selection(chosen_format, chosen_format in design_formats, selection, design, output)
    campaign = api.load_campaign(name, folder)
    ending = {"markdown": "md", "optuna": "log"}.get(chosen_format, chosen_format)
    output = output or campaign.folder / f"{scope or 'front'}.{ending}"
    # Of every observation the searched ones; of a front, the one whose numbers name designs.
    results = campaign.results() if scope == "all" else campaign.front_results()
    where = "csv has no place to say so" if chosen_format == "csv" else "the file says so too"
    notes = check_ended(results, selection.partial, "export", where)
    if chosen_format in design_formats:
        subject = api.choose_design(results, str(design))
        write_design: Callable[[ChosenDesign, Path], Written]
        write_design = plugins.load("design_exports", chosen_format)
        # A spec sheet is of a system, too, any other format of machines.
        written = (
            write_design(subject, output)
            if chosen_format == "spec-sheet"
            else export_machines(write_design, subject, output)
        )
        paths = list(written.paths)
        notes += written.notes
        notes += place_notes(subject)
        notes += [subject.standing] if subject.is_folded else []
    else:
        # People choose from a page; programs get every design.
        scope = scope or ("folded" if chosen_format == "markdown" else "front")
        check_evaluated(results, scope != "all", "; --scope all writes them as they are")
        notes += [f"the designs of {results.front_words}"] if scope != "all" else []
        write = plugins.load("exports", chosen_format)
        paths = [write(results, output, scope)]
    report_files(ExportAnswer, campaign, paths, notes)


def _format(form: str | None, output: Path | None, format_names: StringList) -> str:
    ending = "" if output is None else ending_of(output)
    format_name = form or ending
    format_key = _OTHER_NAMES.get(format_name, format_name)
    if format_key not in format_names:
        if not form and not ending:
            raise InputError(f"expected one of {', '.join(format_names)}", "--format")
        raise UnknownNameError("export format", format_name, format_names, "--format")
    return format_key


def _check_selection(
    form: str, is_design: bool, selection: ExportFlags, design: str | None, output: Path | None
) -> None:
    if not is_design:
        if design is not None:
            raise InputError(
                f"{form} holds many designs; expected --scope front, folded or all", "--design"
            )
        return
    if design is None:
        raise InputError(
            f"{form} holds one design; expected its number on the front, or its name", "--design"
        )
    if selection.scope is not None:
        raise InputError(f"{form} holds one design; it has no --scope", "--scope")
    if output is None:
        raise InputError("expected --output, the file to write")


def place_notes(design: ChosenDesign) -> StringList:
    """Notes on a design's place on the front; warns of the limits that it breaks."""
    if design.evaluated.broken:
        say(f"warning: {design.title} breaks {', '.join(design.evaluated.broken)}")
    return [] if design.place is None else [design.place_words]


def check_evaluated(results: Results, has_front: bool, hint: str = "") -> None:
    """Refuse results without a design, or without a front where they are to have one.

    Raises:
        InputError: No design has been evaluated.
        InfeasibleError: None of them keeps every limit.
    """
    name = results.definition.name
    if not len(results.rows):
        raise InputError("no design has been evaluated yet", name)
    if has_front and not results.feasible.any():
        problem = f"none of {len(results):,} evaluated designs keeps every limit"
        raise InfeasibleError(f"{problem}, so there is no front{hint}", name)


def check_ended(results: Results, is_wanted: bool, do: str, where: str) -> StringList:
    """Refuse what is not the whole of a campaign; where it is wanted, what to note of it.

    Raises:
        InputError: The campaign has not ended, and nobody asked for a part.
    """
    from codesign.answers.campaigns import progress_words

    if not results.is_partial:
        return []
    name = results.definition.name
    state = progress_words(results)
    if not is_wanted:
        finish = (
            "wait until it has ended"
            if results.state == "running"
            else f"finish it by 'codesign run {results.definition.asked_as}'"
        )
        raise InputError(f"is {state}; {finish}, or {do} what is stored by --partial", name)
    return [f"{name} is {state}; {where}"]
