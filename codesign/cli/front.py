"""Explain the exact front of a campaign."""

from __future__ import annotations

from pathlib import Path

from codesign.base.errors import InputError
from codesign.base.text import shown_path
from codesign.cli.campaigns import Folder, Name, Workers
from codesign.cli.output import report, say
from codesign.cli.tolerance import Tolerance, share


def explain_front(
    name: Name,
    step: float = 5.0,
    output: Path | None = None,
    tolerance: Tolerance = None,
    workers: Workers = None,
    thorough: bool = False,
    folder: Folder = None,
) -> None:
    """Say what the exact front of a campaign means for a design.

    It shows what the designs share, which values never appear and why, the price of each limit, and
    the knees. It finds the exact fronts of variations of the problem, which takes minutes where
    the front takes seconds, and stores them: a second call is fast.

    Args:
        step: Percent by which each limit is moved to find its price.
        output: Also write the explanation as Markdown: .md.
        thorough: For a system: also find the fronts of variations, which takes hours.
    """
    from functools import partial

    from codesign import api
    from codesign.answers.front_explanation import ExplainFrontAnswer
    from codesign.base.files import write_text
    from codesign.base.processes import n_cores
    from codesign.insight.explanation import Fronts
    from codesign.insight.explanation import explain_front as explain
    from codesign.report import front_explanation
    from codesign.search.campaign.campaign_definition import load_problem
    from codesign.search.campaign.reference import minimized

    if not 0.0 < step < 100.0:
        raise InputError(f"expected a percentage above 0 and below 100, got {step:g}", "--step")
    if output is not None and output.suffix != ".md":
        raise InputError(f"expected a file that ends in .md, got {str(output)!r}", "--output")
    campaign = api.load_campaign(name, folder)
    is_thorough = thorough or not campaign.problem.space.pools
    if not is_thorough:
        say("note: for a system, absent values and prices of limits are found by --thorough only")
    front = campaign.exact_front(workers)
    reference = campaign.exact_results(front).reference_point
    fronts = Fronts(
        campaign.problem, campaign.variations,
        workers or campaign.definition.workers or n_cores(),
        partial(load_problem, campaign.path),
    )  # fmt: skip
    explanation = explain(
        fronts, front, minimized(campaign.problem, reference), step / 100.0, share(tolerance),
        is_thorough,
    )  # fmt: skip
    title = campaign.definition.name
    reading = campaign.reading
    files = []
    if output is not None:
        write_text(output, front_explanation.markdown(explanation, title, reading))
        files.append(shown_path(output))
    more = {"files": files} if files else {}
    report(
        lambda: ExplainFrontAnswer.describe(explanation, title, evaluator=reading, **more),
        lambda: [
            *front_explanation.tables(explanation, title, reading),
            *(f"wrote {file}" for file in files),
        ],
    )


explain_front.__name__ = "explain-front"
