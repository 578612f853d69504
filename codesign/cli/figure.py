"""``codesign report figure``: one figure of a campaign or of one of its designs, for a paper."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import InputError, check_known, mistakes_at
from codesign.base.files import ending_of
from codesign.base.records import drop_none, frozen
from codesign.cli import completion
from codesign.cli.campaigns import Folder, front_to_draw, save_front
from codesign.cli.export import check_ended, check_evaluated, place_notes
from codesign.cli.flag_records import flag
from codesign.cli.flags import quantity
from codesign.cli.output import report_files
from codesign.cli.picking import Pick, design_or_pick

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codesign.report.chart import Chart
    from codesign.report.chosen import ChosenDesign
    from codesign.search.campaign import Campaign, Results

_OF_CAMPAIGN = ("convergence", "front")
_OF_DESIGN = ("roofline", "breakdown", "hierarchy", "system")


@frozen
class DrawingFlags:
    """Subject of a figure, and its size and format."""

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
) -> None:
    """Draw figures for a paper: fonts embedded, the same bytes every time."""
    from codesign import api
    from codesign.answers.campaigns import FigureAnswer
    from codesign.report.campaign_charts import convergence_chart
    from codesign.report.drawing import check_format
    from codesign.report.exports.design_files import write_machines
    from codesign.report.paper import save_chart, save_design_chart

    output = drawing.output
    form = drawing.form
    design = design_or_pick(drawing.design, drawing.pick)
    if len(words) == 1:
        options = {
            "--design": design, "--width": drawing.width, "--partial": drawing.partial or None,
        }  # fmt: skip
        flags = [*drop_none(options)]
        if flags:
            raise InputError(f"expected a kind of figure before {words[0]!r}", ", ".join(flags))
        _draw_both(words[0], form or "pdf", output, folder)
        return
    check_known("figure", words[0], (*_OF_CAMPAIGN, *_OF_DESIGN, "all"))
    if len(words) > 2:
        raise InputError(f"expected a kind and a campaign, got {' '.join(words)!r}")
    figure_name, name = words
    ending = form or ("pdf" if output is None else ending_of(output))
    check_format(ending)
    _check_together(figure_name, design, ending, output)
    width_mm = None if drawing.width is None else parse_width(drawing.width)
    campaign = api.load_campaign(name, folder)
    design_shown = None if design is None else api.choose_design(campaign.front_results(), design)
    if design_shown is not None and figure_name != "all":
        results = design_shown.results
    elif figure_name == "front" and not campaign.store_path.exists():
        results = campaign.front_results()  # of an enumeration alone
    else:
        results = campaign.results()
    notes = check_ended(results, drawing.partial, "draw", "the figure says so too")
    if design_shown is not None:
        notes += place_notes(design_shown)
    file = figure_name if design is None else f"{figure_name}-{design.replace(' ', '-')}"
    path = output or campaign.folder / f"{file}.{ending}"
    if figure_name == "all":
        sheet = output or campaign.folder / f"contact-sheet.{form or 'png'}"
        written = [_draw_all(campaign, results, design_shown, sheet)]
    elif design_shown is None:
        check_evaluated(results, figure_name == "front")
        if figure_name == "convergence":
            written = [save_chart(convergence_chart(results), path, results, width_mm)]
        else:
            written = [save_front(results, campaign.front_results(results), path, width_mm)]
    else:
        written = list(
            write_machines(
                lambda machine, place: (save_design_chart(figure_name, machine, place, width_mm),),
                design_shown,
                path,
            )
            if figure_name != "system"
            else (save_design_chart(figure_name, design_shown, path, width_mm),)
        )
    report_files(FigureAnswer, campaign, written, notes)


def _draw_both(name: str, form: str, output: Path | None, folder: Path | None) -> None:
    """Hypervolume against evaluations, and the front, as far as the campaign has come."""
    from codesign import api
    from codesign.answers.campaigns import FigureAnswer
    from codesign.report.campaign_charts import convergence_chart
    from codesign.report.drawing import check_format
    from codesign.report.paper import save_chart

    check_format(form)
    campaign = api.load_campaign(name, folder)
    results = campaign.results()
    place = output or campaign.folder
    written = [
        save_chart(convergence_chart(results), place / f"convergence.{form}", results),
        save_front(results, campaign.front_results(results), place / f"front.{form}"),
    ]
    report_files(FigureAnswer, campaign, written)


def _check_together(name: str, design: str | None, ending: str, output: Path | None) -> None:
    if name in _OF_DESIGN and design is None:
        raise InputError(
            f"{name} shows one design; expected its number on the front, or its name", "--design"
        )
    if name in _OF_CAMPAIGN and design is not None:
        raise InputError(f"{name} shows the whole campaign; it takes no design", "--design")
    if output is not None and ending != ending_of(output):
        raise InputError(f"expected a file that ends in .{ending}, got {output.name!r}", "--output")


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


def _draw_all(
    campaign: Campaign, results: Results, design_shown: ChosenDesign | None, sheet: Path
) -> Path:
    """Every figure that campaign and design have, at each width, on one sheet."""
    from codesign import api
    from codesign.report.campaign_charts import convergence_chart, front_chart, front_picture
    from codesign.report.paper import design_chart, design_title, save_sheet

    front = front_to_draw(results, campaign.front_results(results))
    picture = front_picture(front, marked=api.evaluate_named(results.problem))
    title = results.definition.name
    rows: list[tuple[str, Results, Callable[[bool], tuple[Chart, Sequence[str]]]]] = [
        (f"{title}: convergence", results, lambda is_narrow: (convergence_chart(results), [])),
        (f"{title}: front", front, lambda is_narrow: (front_chart(picture, is_narrow), [])),
    ]
    for name in _OF_DESIGN if design_shown is not None else ():
        assert design_shown is not None
        pools = [] if name == "system" else [*design_shown.pools.values()]
        for machine in pools or [design_shown]:
            draw = partial(design_chart, name, machine)
            with suppress(InputError):  # such as the links of a machine by itself
                draw(True)
                rows.append((design_title(name, machine), machine.results, draw))
    return save_sheet(rows, sheet)
