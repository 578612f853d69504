"""Decisions of the recommended design of a campaign."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import InputError, check_known
from codesign.base.text import shown_path
from codesign.cli.campaigns import Folder, Name, Workers
from codesign.cli.output import report
from codesign.cli.tolerance import Tolerance, share

if TYPE_CHECKING:
    from codesign.answers.decisions import MapAnswer, MapsAnswer
    from codesign.base.columns import JsonObject, StringList
    from codesign.insight.decisions.plane import DecisionPlane
    from codesign.search.campaign import Campaign
    from codesign.search.enumeration import ExactFront


def decide(
    name: Name,
    tolerance: Tolerance = None,
    regret: Annotated[
        float,
        typer.Option(
            min=0.1, max=100.0, metavar="PERCENT",
            help="Cost of keeping a decision above which it flips.",
        ),
    ] = 5.0,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.0, help="Stop then and show what is proven; run again for more. [none]"),
    ] = None,
    workers: Workers = None,
    folder: Folder = None,
) -> None:  # fmt: skip
    """Say which decisions of the recommended design hold over the ranges of all constants.

    A decision holds if no values of the constants within their ranges flip it. For every other
    decision, the command shows the smallest change at which keeping it costs more than 5 %, and the
    design that takes over. Results are stored: after an interruption, run the command again. The
    meeting sheet shows the flips.
    """
    from codesign import api
    from codesign.answers.decisions import DecideAnswer
    from codesign.answers.json_values import json_text
    from codesign.base.files import replacing
    from codesign.base.loop_progress import limited_time
    from codesign.base.processes import n_cores
    from codesign.insight.decisions.decide import check_decidable, decide_front, decisions_path
    from codesign.report import decisions

    began = time.perf_counter()
    campaign = api.load_campaign(name, folder)
    problem = campaign.problem
    check_decidable(problem)
    equal = share(tolerance)
    with limited_time(minutes):
        front = campaign.exact_front(workers)
        decided = decide_front(
            problem, front, equal, campaign.variations, regret / 100.0,
            workers or campaign.definition.workers or n_cores(),
        )  # fmt: skip
    more = _context(campaign, began)
    results = campaign.exact_results(front)
    answer = DecideAnswer.describe(decided, tolerance=equal, **more)
    path = decisions_path(problem, equal, campaign.variations)
    with replacing(path) as unfinished:
        unfinished.write_text(json_text(answer), encoding="utf-8")
    report(
        lambda: answer,
        lambda: decisions.tables(decided, results, equal, more["seconds"], campaign.reading),
    )


def memories(name: Name, tolerance: Tolerance = None, folder: Folder = None) -> None:
    """Find the exact front without each family of memories, and the loss from leaving it out.

    Families are HBM, LPDDR, flash and others of the space, and stacked SRAM. Fronts are stored.
    """
    from functools import partial

    from codesign import api
    from codesign.answers.decisions import MemoriesAnswer
    from codesign.insight.decisions.memory_kinds import kind_regrets
    from codesign.report import decisions
    from codesign.search.enumeration import exact_front

    began = time.perf_counter()
    campaign = api.load_campaign(name, folder)
    find = partial(exact_front, folder=campaign.variations)
    problem = campaign.problem
    kinds = kind_regrets(problem, find, share(tolerance))
    more = _context(campaign, began)
    report(
        lambda: MemoriesAnswer.describe(kinds, problem, **more),
        lambda: decisions.memory_tables(kinds, problem),
    )


def breakeven(
    name: Name,
    technology: Annotated[
        str, typer.Option(help="Memory technology: a name in memtech/, or the path of a file.")
    ],
    free: Annotated[
        str,
        typer.Option(
            help="Quantity to vary: bandwidth, latency, idle-power, price, endurance or capacity."
        ),
    ],
    tolerance: Tolerance = None,
    folder: Folder = None,
) -> None:
    """Find the values of a quantity at which a memory is on the front, on half of it, recommended.

    The quantity varies from a sixteenth to 16 times its value in the file. Exact fronts are stored:
    after an interruption, run the command again.
    """
    from codesign import api
    from codesign.answers.decisions import BreakevenAnswer
    from codesign.insight.decisions.breakeven import breakeven as find_breakeven
    from codesign.models.memtech import load_technology
    from codesign.report import decisions
    from codesign.search.enumeration import exact_front

    began = time.perf_counter()
    campaign = api.load_campaign(name, folder)
    store = campaign.variations
    result = find_breakeven(
        campaign.problem,
        load_technology(technology, "--technology"),
        free,
        lambda problem, wanted: exact_front(problem, store, wanted=wanted),
        share(tolerance),
    )
    more = _context(campaign, began)
    report(
        lambda: BreakevenAnswer.describe(result, **more),
        lambda: decisions.breakeven_tables(result, more["campaign"], more["seconds"]),
    )


def map_(
    name: Name,
    x: str | None = None,
    y: str | None = None,
    output: list[Path] | None = None,
    workers: Workers = None,
    folder: Folder = None,
) -> None:
    """Map which memories are recommended over the ranges of two constants.

    Without --x and --y, one page has the five pairs of constants whose changes flip decisions
    first. By exact fronts, no other design is better anywhere by more than 0.1 %. Fronts are
    stored: after an interruption, run the command again.

    Args:
        x: Constant with a range, such as hbf.background_power.
        y: Another constant, such as lpddr6.price.
        output: Also write the map: .csv, .svg, .pdf or .png; repeatable. Without --x and --y
            the page. [maps.html in the campaign's folder]
    """
    from functools import partial

    from codesign import api
    from codesign.base.files import ending_of
    from codesign.insight.decisions.decide import check_decidable, decide_front
    from codesign.insight.decisions.plane import leading_planes, plane_of
    from codesign.report.drawing import FORMATS
    from codesign.search.enumeration import exact_front

    began = time.perf_counter()
    is_page = x is None and y is None
    endings = ("html",) if is_page else ("csv", *FORMATS)
    for path in output or ():
        check_known("format of a map", ending_of(path), endings, "--output")
    if not is_page and (x is None or y is None):
        raise InputError("expected --x and --y, or neither of them for a page of five maps")
    campaign = api.load_campaign(name, folder)
    problem = campaign.problem
    check_decidable(problem)
    front = campaign.exact_front(workers)
    store = campaign.variations
    find = partial(exact_front, folder=store)
    if is_page:
        planes, notes = leading_planes(decide_front(problem, front, folder=store), front, find)
        output = output or [campaign.folder / "maps.html"]
    else:
        planes = [plane_of(problem, front, (str(x), str(y)), find)]
        notes = []
    _report_maps(campaign, front, planes, notes, output or [], is_page, began)


def _context(campaign: Campaign, began: float) -> JsonObject:
    """Fields that all answers have."""
    return {
        "campaign": campaign.definition.name,
        "seconds": time.perf_counter() - began,
        "evaluator": campaign.reading,
    }


def _report_maps(
    campaign: Campaign,
    front: ExactFront,
    planes: list[DecisionPlane],
    notes: StringList,
    output: list[Path],
    is_page: bool,
    began: float,
) -> None:
    from codesign.answers.decisions import MapAnswer, MapsAnswer
    from codesign.base.files import ending_of
    from codesign.report import decision_map, decisions
    from codesign.report.paper import save_chart

    more = _context(campaign, began)
    name = more["campaign"]
    seconds = more["seconds"]
    for path in output:
        if is_page:
            decision_map.write_page(planes, path, campaign.exact_results(front))
        elif ending_of(path) == "csv":
            decision_map.write_csv(planes[0], path)
        else:
            save_chart(decision_map.plane_chart(planes[0]), path, campaign.exact_results(front))
    files = [shown_path(path) for path in output]
    written = {"files": files} if files else {}

    def answer() -> MapAnswer | MapsAnswer:
        if not is_page:
            return MapAnswer.describe(planes[0], **more, **written)
        maps = [MapAnswer.describe(plane, **more) for plane in planes]
        return MapsAnswer(campaign=name, maps=maps, files=files, notes=notes)

    report(
        answer,
        lambda: [
            *(table for plane in planes for table in decisions.plane_tables(plane, name, seconds)),
            *notes,
            *(f"wrote {file}" for file in files),
        ],
    )


map_.__name__ = "map"
