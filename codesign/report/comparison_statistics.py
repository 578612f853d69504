"""Tables of what a comparison proves: kinds of problems, intervals and tests of pairs."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, StringList, StringTuple
from codesign.insight.comparison import Outcome, rank_optimizers
from codesign.insight.comparison.bootstrap import LEVEL, pair_intervals
from codesign.insight.comparison.critical_difference import (
    CriticalDifference,
    critical_difference,
)
from codesign.insight.comparison.kinds import kind_groups
from codesign.insight.comparison.notes import few_kinds_words
from codesign.insight.comparison.ranking import ALPHA, Ranking
from codesign.report.text_table import TextTable, marked_cell


def kinds_table(outcome: Outcome) -> TextTable:
    """Mean share of the best hypervolume on each kind of problems, and over the kinds."""
    ranking = rank_optimizers(outcome)
    kinds = kind_groups(outcome.ranked)
    total = str(len(outcome.ranked))
    rows = [
        (group, str(len(problems)), *_percent_cells(shares))
        for (group, problems), shares in zip(kinds.items(), ranking.scores, strict=True)
    ]
    rows.append(
        (f"mean over {_kinds(len(kinds))}", total, *_percent_cells(ranking.scores.mean(axis=0)))
    )
    words, *ranks = mean_rank_row(ranking)
    rows.append((words, total, *ranks))
    return TextTable(
        f"Kinds of problems: hypervolume after {outcome.definition.budget} evaluations, % of the "
        "best front's, mean over problems and seeds",
        ("kind", "problems", *outcome.labels),
        rows,
        ranking_words(ranking),
    )


def mean_rank_row(ranking: Ranking) -> StringTuple:
    """The last row of a table by optimizer: mean ranks over the kinds of problems."""
    ranks = ranking.mean_ranks
    cells = (marked_cell(f"{rank:.2f}", rank == ranks.min()) for rank in ranks.tolist())
    return (f"mean rank over {_kinds(len(ranking.blocks))}", *cells)


def _percent_cells(shares: FloatArray) -> StringList:
    return [marked_cell(f"{100 * share:.1f}", share == shares.max()) for share in shares.tolist()]


def _kinds(number: int) -> str:
    return f"{number} kind{'s' if number != 1 else ''}"


def ranking_words(ranking: Ranking) -> str:
    """Friedman's test and Nemenyi's critical difference in words, for a ranking over kinds."""
    nemenyi = critical_difference(ranking)
    if nemenyi is None:
        return "One kind cannot be tested."
    if ranking.friedman is None or ranking.friedman_p is None:
        test = "Friedman's test needs three optimizers that the kinds tell apart."
    else:
        test = f"Friedman: chi-squared {ranking.friedman:.2f}, p {p_text(ranking.friedman_p)}."
    return f"{test} {nemenyi_words(nemenyi)}"


def nemenyi_words(nemenyi: CriticalDifference) -> str:
    """The critical difference and who is told apart by it."""
    level = f"{100 * ALPHA:g} %"
    words = f"Mean ranks that differ by less than {nemenyi.difference:.2f} (Nemenyi, {level})"
    if not nemenyi.is_rejected:
        return f"{words} are not told apart; no difference at all is shown at {level}."
    groups = "; ".join(", ".join(group) for group in nemenyi.groups)
    return f"{words} are not told apart: {groups or 'none'}."


def pairs_table(outcome: Outcome) -> TextTable:
    """Whether differences over the kinds could be chance, and how large they are."""
    ranking = rank_optimizers(outcome)
    caution = f"{few_kinds_words(ranking)}."
    if len(ranking.blocks) < 2:
        caution = "One kind cannot be tested, and its intervals are about problems of this kind."
    tests = {(pair.first, pair.second): pair for pair in ranking.pairs}
    rows = []
    for interval in pair_intervals(outcome):
        test = tests.get((interval.first, interval.second))
        p_cells = ("–", "–", "–")
        if test is not None:
            p_cells = (p_text(test.p), p_text(test.p_holm), f"{test.a:.2f}")
        share = _interval_text(interval.share, interval.share_low, interval.share_high)
        area = _interval_text(interval.area, interval.area_low, interval.area_high)
        rows.append((f"{interval.first} against {interval.second}", share, area, *p_cells))
    return TextTable(
        f"Pairs over {_kinds(len(ranking.blocks))} of problems: first minus second in points of %",
        ("pair", f"final share [{100 * LEVEL:g} %]", "area", "p", "p (Holm)", "A"),
        rows,
        "Intervals: kinds, problems within and seeds within drawn anew (hierarchical bootstrap). "
        f"p: Wilcoxon over the kinds. {caution} A (Vargha and Delaney): "
        "probability that a run of the first ends higher.",
    )


def _interval_text(middle: float, low: float, high: float) -> str:
    ends = [100 * end for end in (middle, low, high)]
    # No sign before what is printed as zero.
    first, second, third = (f"{np.round(end, 1) + 0.0:+.1f}" for end in ends)
    return f"{first} [{second}, {third}]"


def p_text(p: float) -> str:
    """A p with three decimals, small ones as a power of ten."""
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"
