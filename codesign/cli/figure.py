"""``codesign figure``: one figure of a campaign or of one of its designs, for a paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.campaigns import Folder, Name, shown_path
from codesign.cli.export import check_ended
from codesign.cli.output import AsJson, report, say
from codesign.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from codesign.campaign import Results

_OF_CAMPAIGN = ("convergence", "front")
_OF_DESIGN = ("roofline", "breakdown", "hierarchy", "system")


def figure(
    kind: Annotated[
        str, typer.Argument(help="convergence, front, roofline, breakdown, hierarchy or system.")
    ],
    name: Name,
    form: Annotated[str | None, typer.Option("--format", help="pdf, svg or png. [pdf]")] = None,
    design: Annotated[
        str | None,
        typer.Option(
            help="For roofline, breakdown, hierarchy and system: number on the front, or name in "
            "the space. The first three draw a machine; of a system, one of each pool."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The file to write. [in the campaign's folder]")
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            help="How wide it will be printed, such as '89 mm' or 3.5in; letters and panels are "
            "laid out for that. [183 mm, both columns of a page]"
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Also of a campaign that has not ended; the figure says so."
        ),
    ] = False,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Draw one figure for a paper: fonts embedded, the same bytes every time."""
    from codesign import api
    from codesign.report.drawing import check_format
    from codesign.report.tables import text_line

    known = (*_OF_CAMPAIGN, *_OF_DESIGN)
    if kind not in known:
        raise UnknownNameError("figure", kind, known)
    ending = _ending(form, output)
    check_format(ending)
    if kind in _OF_DESIGN and design is None:
        raise InputError(
            f"{kind} shows one design; expected its number on the front, or its name", "--design"
        )
    if kind in _OF_CAMPAIGN and design is not None:
        raise InputError(f"{kind} shows the whole campaign; it takes no design", "--design")
    width_mm = None if width is None else _width_mm(width)
    campaign = api.load_campaign(name, folder)
    results = campaign.results()
    notes = check_ended(results, name, partial, "draw", "the figure says so too")
    file = kind if design is None else f"{kind}-{design.replace(' ', '-')}"
    path = output or campaign.folder / f"{file}.{ending}"
    if design is None:
        written = [shown_path(_draw_campaign(kind, results, path, width_mm))]
    else:
        written = [shown_path(x) for x in _draw_design(kind, results, design, path, width_mm)]
    lines = [*(f"wrote {file}" for file in written), *(f"note: {note}" for note in notes)]
    more = {"notes": notes} if notes else {}
    report(
        "figure",
        as_json,
        lambda: {"files": written} | more,
        lambda: [text_line(line) for line in lines],
    )


def _width_mm(text: str) -> float:
    from codesign.report.drawing import check_width
    from codesign.units import parse_quantity

    try:
        width_mm = 1e3 * parse_quantity(text, "mm")
        check_width(width_mm)
    except InputError as error:
        raise InputError(error.problems, "--width") from error
    return width_mm


def _ending(form: str | None, output: Path | None) -> str:
    """The format: as asked, or of the file's ending; they must agree."""
    if output is None:
        return form or "pdf"
    ending = output.suffix.removeprefix(".").lower()
    if form is not None and form != ending:
        raise InputError(f"expected a file that ends in .{form}, got {output.name!r}", "--output")
    return ending


def _draw_campaign(kind: str, results: Results, path: Path, width_mm: float | None) -> Path:
    from codesign import api
    from codesign.report import figures

    if not len(results.rows):
        raise InputError("no design has been evaluated yet", results.definition.name)
    if kind == "convergence":
        return figures.save_convergence(results, path, width_mm)
    if not results.feasible.any():
        raise InputError(
            f"none of {len(results):,} evaluated designs keeps every limit, so there is no front",
            results.definition.name,
        )
    return figures.save_front(results, path, api.evaluate_named(results.problem), width_mm)


def _draw_design(
    kind: str, results: Results, design: str, path: Path, width_mm: float | None
) -> tuple[Path, ...]:
    from codesign import api
    from codesign.report import design_figures, hierarchy_figure, system_figure
    from codesign.report.exports.designs import write_machines

    chosen = api.choose_design(results, design)
    if chosen.evaluated.broken:
        say(f"warning: {chosen.title} breaks {', '.join(chosen.evaluated.broken)}")
    if kind == "system":
        return (system_figure.save_system(chosen, path, width_mm),)
    draw = {
        "roofline": design_figures.save_roofline,
        "breakdown": design_figures.save_breakdown,
        "hierarchy": hierarchy_figure.save_hierarchy,
    }[kind]
    return write_machines(lambda item, place: (draw(item, place, width_mm),), chosen, path)


COMMANDS: list[Callable[..., Any]] = [figure]
