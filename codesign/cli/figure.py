"""``codesign figure``: one figure of a campaign or of one of its designs, for a paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import InfeasibleError, InputError, check_known, mistakes_at
from codesign.base.files import ending_of
from codesign.cli import completion
from codesign.cli.campaigns import Folder, front_to_draw, shown_path
from codesign.cli.export import check_ended
from codesign.cli.flag_records import flag
from codesign.cli.flags import quantity
from codesign.cli.output import AsJson, report_files, say
from codesign.cli.picking import Pick, design_or_pick

if TYPE_CHECKING:
    from codesign.report.chosen import ChosenDesign
    from codesign.search.campaign import Campaign, Results

_OF_CAMPAIGN = ("convergence", "front")
_OF_DESIGN = ("roofline", "breakdown", "hierarchy", "system")


@dataclass(frozen=True)
class DrawingFlags:
    """What is drawn, and for which place."""

    form: str | None = flag("pdf, svg or png. [pdf]", None, "--format")
    design: str | None = flag(
        "For roofline, breakdown, hierarchy and system: number on the front, or name in the space. "
        "The first three draw a machine; of a system, one of each pool.",
        autocompletion=completion.designs,
    )
    pick: Pick = None
    output: Path | None = flag(
        "The file to write; without KIND the folder. [in the campaign's folder]"
    )
    width: str | None = flag(
        "How wide it will be printed, such as '89 mm' or 3.5in; letters and panels are laid out "
        "for that. [183 mm, both columns of a page]"
    )
    partial: bool = flag(
        "Also draw a campaign that has not ended; the figure says so.", False, "--partial"
    )


def figure(
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[KIND] CAMPAIGN",
            help="KIND: convergence, front, roofline, breakdown, hierarchy or system; the first "
            "two if none is named; 'all' draws a sheet of all of them, each 3.5 and 7.2 in wide.",
            autocompletion=completion.campaigns,
        ),
    ],
    drawing: DrawingFlags,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Draw figures for a paper: fonts embedded, the same bytes every time."""
    from codesign import api
    from codesign.answers.campaigns import FigureAnswer
    from codesign.report.drawing import check_format

    output, form = drawing.output, drawing.form
    design = design_or_pick(drawing.design, drawing.pick)
    if len(words) == 1:
        options = {
            "--design": design, "--width": drawing.width, "--partial": drawing.partial or None,
        }  # fmt: skip
        flags = [name for name, value in options.items() if value is not None]
        if flags:
            raise InputError(f"expected a kind of figure before {words[0]!r}", ", ".join(flags))
        _draw_both(words[0], form or "pdf", output, folder, as_json)
        return
    kind, name = _kind_and_name(words)
    ending = _ending(form, output)
    check_format(ending)
    _check_design(kind, design)
    width_mm = None if drawing.width is None else parse_width(drawing.width)
    campaign = api.load_campaign(name, folder)
    chosen = None if design is None else api.choose_design(campaign.front_results(), design)
    if chosen is not None and kind != "all":
        results = chosen.results
    elif kind == "front" and not campaign.store_path.exists():
        results = campaign.front_results()  # of an enumeration alone
    else:
        results = campaign.results()
    notes = check_ended(results, name, drawing.partial, "draw", "the figure says so too")
    if chosen is not None:
        notes += [chosen.place_words] if chosen.place is not None else []
        if chosen.evaluated.broken:
            say(f"warning: {chosen.title} breaks {', '.join(chosen.evaluated.broken)}")
    file = kind if design is None else f"{kind}-{design.replace(' ', '-')}"
    path = output or campaign.folder / f"{file}.{ending}"
    if kind == "all":
        sheet = output or campaign.folder / f"contact-sheet.{form or 'png'}"
        written = [_draw_all(campaign, results, chosen, sheet)]
    elif chosen is None:
        written = [_draw_campaign(kind, campaign, results, path, width_mm)]
    else:
        written = list(_draw_design(kind, chosen, path, width_mm))
    campaign.list_files(written)
    report_files(FigureAnswer, as_json, [shown_path(path) for path in written], notes)


def _draw_both(
    name: str, form: str, output: Path | None, folder: Path | None, as_json: bool
) -> None:
    """Hypervolume against evaluations, and the front, as far as the campaign has come."""
    from codesign import api
    from codesign.answers.campaigns import FigureAnswer
    from codesign.report import figures
    from codesign.report.drawing import check_format

    check_format(form)
    campaign = api.load_campaign(name, folder)
    results = campaign.results()
    front = front_to_draw(results, campaign.front_results(results))
    place = output or campaign.folder
    written = [
        figures.save_convergence(results, place / f"convergence.{form}"),
        figures.save_front(front, place / f"front.{form}", api.evaluate_named(results.problem)),
    ]
    campaign.list_files(written)
    report_files(FigureAnswer, as_json, [shown_path(path) for path in written])


def _kind_and_name(words: list[str]) -> tuple[str, str]:
    known = (*_OF_CAMPAIGN, *_OF_DESIGN, "all")
    check_known("figure", words[0], known)
    if len(words) > 2:
        raise InputError(f"expected a kind and a campaign, got {' '.join(words)!r}")
    return words[0], words[1]


def _check_design(kind: str, design: str | None) -> None:
    if kind in _OF_DESIGN and design is None:
        raise InputError(
            f"{kind} shows one design; expected its number on the front, or its name", "--design"
        )
    if kind in _OF_CAMPAIGN and design is not None:
        raise InputError(f"{kind} shows the whole campaign; it takes no design", "--design")


def parse_width(text: str) -> float:
    """The millimetres of ``--width``.

    Raises:
        InputError: It is no length, or nothing can be read at it.
    """
    from codesign.report.drawing import check_width

    width_mm = 1e3 * quantity("--width", text, "mm")
    with mistakes_at("--width"):
        check_width(width_mm)
    return width_mm


def _ending(form: str | None, output: Path | None) -> str:
    """The format: as asked, or of the file's ending; they must agree."""
    if output is None:
        return form or "pdf"
    ending = ending_of(output)
    if form is not None and form != ending:
        raise InputError(f"expected a file that ends in .{form}, got {output.name!r}", "--output")
    return ending


def _draw_campaign(
    kind: str, campaign: Campaign, results: Results, path: Path, width_mm: float | None
) -> Path:
    from codesign import api
    from codesign.report import figures

    if not len(results.rows):
        raise InputError("no design has been evaluated yet", results.definition.name)
    if kind == "convergence":
        return figures.save_convergence(results, path, width_mm)
    if not results.feasible.any():
        raise InfeasibleError(
            f"none of {len(results):,} evaluated designs keeps every limit, so there is no front",
            results.definition.name,
        )
    front = front_to_draw(results, campaign.front_results(results))
    return figures.save_front(front, path, api.evaluate_named(results.problem), width_mm)


def _draw_design(
    kind: str, chosen: ChosenDesign, path: Path, width_mm: float | None
) -> tuple[Path, ...]:
    from codesign.report import design_figures, hierarchy_figure, system_figure
    from codesign.report.exports.design_files import write_machines

    if kind == "system":
        return (system_figure.save_system(chosen, path, width_mm),)
    draw = {
        "roofline": design_figures.save_roofline,
        "breakdown": design_figures.save_breakdown,
        "hierarchy": hierarchy_figure.save_hierarchy,
    }[kind]
    return write_machines(lambda item, place: (draw(item, place, width_mm),), chosen, path)


def _draw_all(
    campaign: Campaign, results: Results, chosen: ChosenDesign | None, sheet: Path
) -> Path:
    """Every figure that campaign and design have, at each width, on one sheet."""
    from tempfile import TemporaryDirectory

    from codesign.report.contact_sheet import SHEET_WIDTHS_MM, save_contact_sheet

    pictures: dict[str, list[Path]] = {}
    with TemporaryDirectory() as folder:
        for kind in (*_OF_CAMPAIGN, *(_OF_DESIGN if chosen is not None else ())):
            for width_mm in SHEET_WIDTHS_MM:
                path = Path(folder, f"{kind}-{width_mm:g}.png")
                drawn: tuple[Path, ...]
                try:
                    if kind in _OF_DESIGN and chosen is not None:
                        drawn = _draw_design(kind, chosen, path, width_mm)
                    else:
                        drawn = (_draw_campaign(kind, campaign, results, path, width_mm),)
                except InputError:
                    break  # such as the links of a machine by itself
                for file in drawn:
                    title = file.stem.replace(f"-{width_mm:g}", "")
                    pictures.setdefault(title, []).append(file)
        return save_contact_sheet(pictures, sheet)
