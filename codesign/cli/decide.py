"""Decisions of the recommended design of a campaign."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.campaigns import Folder, Name, Workers
from codesign.cli.output import AsJson, report
from codesign.cli.tolerance import Tolerance, share

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.answers.decisions import BreakevenAnswer, DecideAnswer, MemoriesAnswer


def decide(
    name: Name,
    tolerance: Tolerance = None,
    workers: Workers = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Say which decisions of the recommended design hold whatever the constants are.

    A decision holds if no values of the constants within their ranges flip it. For every other
    decision, the command shows the smallest change that flips it, and the design that takes over.
    Results are stored: after an interruption, run the command again.
    """
    from codesign import api
    from codesign.cli.front import VARIATIONS
    from codesign.cli.progress import EnumerationBar
    from codesign.insight.decisions.decide import check_decidable, decide_front

    began = time.perf_counter()
    campaign = api.load_campaign(name, folder)
    check_decidable(campaign.problem)
    front = campaign.exact_front(workers, EnumerationBar())
    decided = decide_front(campaign.problem, front, share(tolerance), campaign.folder / VARIATIONS)
    seconds = time.perf_counter() - began

    def answer() -> DecideAnswer:
        from codesign.answers.decisions import DecideAnswer

        return DecideAnswer.describe(
            decided, campaign.definition.name, seconds=seconds, evaluator=campaign.reading
        )

    def tables() -> list[RenderableType]:
        from codesign.report import decisions

        results = campaign.exact_results(front)
        return decisions.tables(decided, results, seconds, campaign.reading)

    report(as_json, answer, tables)


def memories(
    name: Name, tolerance: Tolerance = None, folder: Folder = None, as_json: AsJson = False
) -> None:
    """Find the exact front without each kind of memory, and the loss from leaving it out.

    The kinds are the families of the technologies and stacked SRAM. The fronts are stored.
    """
    from functools import partial

    from codesign import api
    from codesign.cli.front import VARIATIONS
    from codesign.insight.decisions.memory_kinds import kind_regrets
    from codesign.search.enumeration import exact_front

    began = time.perf_counter()
    campaign = api.load_campaign(name, folder)
    find = partial(exact_front, folder=campaign.folder / VARIATIONS)
    kinds = kind_regrets(campaign.problem, find, share(tolerance))
    seconds = time.perf_counter() - began

    def answer() -> MemoriesAnswer:
        from codesign.answers.decisions import MemoriesAnswer

        return MemoriesAnswer.describe(
            kinds,
            campaign.problem,
            campaign=campaign.definition.name,
            seconds=seconds,
            evaluator=campaign.reading,
        )

    def tables() -> list[RenderableType]:
        from codesign.report import decisions

        return decisions.memory_tables(kinds, campaign.problem)

    report(as_json, answer, tables)


def breakeven(
    name: Name,
    technology: Annotated[
        str, typer.Option(help="The memory: a name in the library, or a file of its own.")
    ],
    free: Annotated[
        str,
        typer.Option(help="bandwidth, latency, idle-power, price, endurance or capacity."),
    ],
    tolerance: Tolerance = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Find the values that a memory must reach to be on the front, on half of it, recommended.

    The quantity goes from a sixteenth of the stated value to 16 times, the rest stays. Every value
    takes an exact front, which is stored: after an interruption, run the command again.
    """
    from codesign import api
    from codesign.cli.front import VARIATIONS
    from codesign.insight.decisions.breakeven import breakeven as find_breakeven
    from codesign.models.memtech import load_technology
    from codesign.search.enumeration import exact_front

    began = time.perf_counter()
    campaign = api.load_campaign(name, folder)
    store = campaign.folder / VARIATIONS
    result = find_breakeven(
        campaign.problem,
        load_technology(technology, "--technology"),
        free,
        lambda problem, wanted: exact_front(problem, store, wanted=wanted),
        share(tolerance),
    )
    seconds = time.perf_counter() - began

    def answer() -> BreakevenAnswer:
        from codesign.answers.decisions import BreakevenAnswer

        return BreakevenAnswer.describe(
            result, campaign=campaign.definition.name, seconds=seconds, evaluator=campaign.reading
        )

    def tables() -> list[RenderableType]:
        from codesign.report import decisions

        return decisions.breakeven_tables(result, campaign.definition.name, seconds)

    report(as_json, answer, tables)
