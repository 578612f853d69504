"""``codesign figure``: one figure of a campaign or of one of its designs, for a paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.campaigns import Folder, Name, shown_path
from codesign.cli.export import say_if_unfinished
from codesign.cli.output import AsJson, report, say
from codesign.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from codesign.campaign import Results

_OF_CAMPAIGN = ("convergence", "front")
_OF_DESIGN = ("roofline", "breakdown", "hierarchy")


def figure(
    kind: Annotated[
        str, typer.Argument(help="convergence, front, roofline, breakdown or hierarchy.")
    ],
    name: Name,
    form: Annotated[str | None, typer.Option("--format", help="pdf, svg or png. [pdf]")] = None,
    design: Annotated[
        str | None,
        typer.Option(
            help="For roofline, breakdown and hierarchy: number on the front, or name in the space."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The file to write. [in the campaign's folder]")
    ] = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Draw one figure for a paper: fonts embedded, the same bytes every time."""
    from codesign import api
    from codesign.report import figures
    from codesign.report.tables import text_line

    known = (*_OF_CAMPAIGN, *_OF_DESIGN)
    if kind not in known:
        raise UnknownNameError("figure", kind, known)
    ending = _ending(form, output)
    figures.check_format(ending)
    if kind in _OF_DESIGN and design is None:
        raise InputError(
            f"{kind} shows one design; expected its number on the front, or its name", "--design"
        )
    if kind in _OF_CAMPAIGN and design is not None:
        raise InputError(f"{kind} shows the whole campaign; it takes no design", "--design")
    campaign = api.load_campaign(name, folder)
    results = campaign.results()
    say_if_unfinished(campaign)
    file = kind if design is None else f"{kind}-{design.replace(' ', '-')}"
    path = output or campaign.folder / f"{file}.{ending}"
    if design is None:
        written = shown_path(_draw_campaign(kind, results, path))
    else:
        written = shown_path(_draw_design(kind, results, design, path))
    report(as_json, lambda: {"files": [written]}, lambda: [text_line(f"wrote {written}")])


def _ending(form: str | None, output: Path | None) -> str:
    """The format: as asked, or of the file's ending; they must agree."""
    if output is None:
        return form or "pdf"
    ending = output.suffix.removeprefix(".").lower()
    if form is not None and form != ending:
        raise InputError(f"expected a file that ends in .{form}, got {output.name!r}", "--output")
    return ending


def _draw_campaign(kind: str, results: Results, path: Path) -> Path:
    from codesign import api
    from codesign.report import figures

    if not len(results.rows):
        raise InputError("no design has been evaluated yet", results.definition.name)
    if kind == "convergence":
        return figures.save_convergence(results, path)
    if not results.feasible.any():
        raise InputError(
            f"none of {len(results):,} evaluated designs keeps every limit, so there is no front",
            results.definition.name,
        )
    return figures.save_front(results, path, api.evaluate_named(results.problem))


def _draw_design(kind: str, results: Results, design: str, path: Path) -> Path:
    from codesign import api
    from codesign.report import design_figures, hierarchy_figure

    chosen = api.choose_design(results, design)
    if chosen.broken:
        say(f"warning: {chosen.title} breaks {', '.join(chosen.broken)}")
    draw = {
        "roofline": design_figures.save_roofline,
        "breakdown": design_figures.save_breakdown,
        "hierarchy": hierarchy_figure.save_hierarchy,
    }[kind]
    return draw(chosen, path)


COMMANDS: list[Callable[..., Any]] = [figure]
