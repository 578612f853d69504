"""Progress of campaigns as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from codesign.base.columns import Fields
from codesign.base.text import one_line
from codesign.report.labels import evaluator_words
from codesign.report.tables import Tables, pairs_table, plain_table, record_table, spaced
from codesign.search.campaign import CampaignStatus


def status_tables(status: CampaignStatus, reading: Fields) -> Tables:
    """A campaign's state and each of its runs."""
    facts = {
        "evaluator": evaluator_words(reading),
        "state": status.state,
        "evaluated": _share(status.done, status.total),
        "folder": str(status.folder),
    }
    if status.notices:
        facts["notices"] = "\n".join(status.notices)
    fields = "run.optimizer=optimizer run.seed=seed done=evaluated feasible failed hypervolume"
    table = record_table("Runs", status.runs, f"{fields} seconds state")
    kinds = sum((Counter(run.failures) for run in status.runs), Counter[str]())
    if set(kinds) - {"failed"}:
        facts["without a result"] = ", ".join(
            f"{n:,} {status_word}" for status_word, n in kinds.items()
        )
    return spaced(pairs_table(status.name, facts), table)


def campaigns_tables(campaigns: Sequence[CampaignStatus], n_hidden: int) -> Tables:
    """One line per campaign, and what is wrong with those that cannot be used.

    Args:
        campaigns: By name.
        n_hidden: Problems of comparisons that are not among them.
    """
    rows = (
        (
            one_line(campaign.name),
            str(len(campaign.runs)),
            _share(campaign.done, campaign.total),
            campaign.state if campaign.problem is None else "cannot be used",
        )
        for campaign in campaigns
    )
    columns = ["name", "runs", "evaluated", "state"]
    table = plain_table("Campaigns", columns, columns[1:3], rows)
    problems = [campaign.problem for campaign in campaigns if campaign.problem]
    if n_hidden:
        table.caption = f"{n_hidden} problems of comparisons not shown: --all"
    return [table, *problems]


def _share(done: int, total: int) -> str:
    return f"{done:,} of {total:,}" + (f" ({100 * done / total:.0f} %)" if total else "")
