"""The optimizers of a campaign for its page: a table, and the tests between them.

Ranks and tests are those of :mod:`codesign.insight.comparison.ranking` with the seeds as blocks,
on the hypervolume after as many evaluations as every run has come to.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape
from itertools import combinations

import numpy as np

from codesign.base.columns import FloatArray, IntegerList
from codesign.insight.comparison.ranking import Ranking, ranking, vargha_delaney
from codesign.insight.summary import optimizer_names, summarize
from codesign.report.campaign_charts import (
    FrontPicture,
    convergence_chart,
    front_chart,
)
from codesign.report.page.answer_html import rich_html
from codesign.report.page.design_html import WIDTH
from codesign.report.result_tables import optimizers_table
from codesign.report.svg import draw
from codesign.search.campaign import Results

_CLEAR_P = 0.05


def optimizers_html(results: Results, picture: FrontPicture) -> str:
    """Curves of the search, a table, and tests; empty if nothing was searched.

    Args:
        results: Results of the campaign as searched.
        picture: The front of the page.
    """
    records = summarize(results)
    if not records:
        return ""
    tested = seed_ranking(results)
    ranks = tested and dict(zip(tested[0].labels, tested[0].mean_ranks.tolist(), strict=True))
    charts = {
        "Hypervolume": convergence_chart(results),
        "Searched designs, against the exact front": (
            front_chart(replace(picture, tighter=None), is_narrow=True, with_searched=True)
            if picture.results.exact is not None else None
        ),
    }  # fmt: skip
    drawn = "".join(
        f"<div><h3>{title}</h3>{draw(chart, WIDTH)}</div>"
        for title, chart in charts.items()
        if chart is not None
    )
    return (
        f'<p class="hint">{escape(records[0].optimizer)} came farthest. '
        f"{escape(_test_words(tested))}</p>"
        f'{rich_html(optimizers_table(results, ranks or None))}<div class="pair">{drawn}</div>'
    )


def _test_words(tested: tuple[Ranking, int, int] | None) -> str:
    """The tests between optimizers in sentences."""
    if tested is None:
        return ""
    result, n_seeds, evaluations = tested
    plural = "" if n_seeds == 1 else "s"
    texts = [f"Ranks are over {n_seeds} seed{plural} at {evaluations:,} evaluations (1 is best)."]
    if result.friedman_p is not None:
        texts.append(f"Friedman's test that all are alike: p = {result.friedman_p:.2g}.")
    clear = [pair for pair in result.pairs if pair.p_holm < _CLEAR_P]
    if clear:
        listed = ", ".join(
            f"{pair.first if pair.a >= 0.5 else pair.second} above "
            f"{pair.second if pair.a >= 0.5 else pair.first} (p = {pair.p_holm:.2g})"
            for pair in clear
        )
        texts.append(f"Wilcoxon's signed ranks, corrected by Holm, tell apart: {listed}.")
    elif result.pairs:
        few = result.least_p is not None and result.least_p >= _CLEAR_P
        cannot = f"; with so few seeds they cannot (least p {result.least_p:.2g})" if few else ""
        texts.append(f"Wilcoxon's signed ranks tell no pair apart at p < 0.05{cannot}.")
    else:
        texts.append("One seed is no evidence of which optimizer is better.")
    return " ".join(texts)


def seed_ranking(results: Results) -> tuple[Ranking, int, int] | None:
    """Ranking over the seeds, their number, and evaluations; None if nothing can be compared."""
    names = optimizer_names(results)
    if len(names) < 2:
        return None
    scores, seeds, evaluations = _scores(results)
    if not len(seeds):
        return None
    effects = np.array([vargha_delaney(a, b) for a, b in combinations(scores.T, 2)])
    return ranking(names, [str(seed) for seed in seeds], scores, effects), len(seeds), evaluations


def _scores(results: Results) -> tuple[FloatArray, IntegerList, int]:
    """(seeds, optimizers) hypervolume at equal evaluations, of seeds that every optimizer began."""
    names = optimizer_names(results)
    lengths = np.bincount(results.run_index, minlength=len(results.runs))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = {(run.optimizer, run.seed): i for i, run in enumerate(results.runs)}
    seeds = [
        seed
        for seed in dict.fromkeys(run.seed for run in results.runs)
        if all((name, seed) in places and lengths[places[name, seed]] for name in names)
    ]
    indices = np.array([[places[name, seed] for name in names] for seed in seeds], int)
    if not len(seeds):
        return np.empty((0, len(names))), [], 0
    n = int(lengths[indices].min())
    return results.hypervolume[starts[indices] + n - 1], seeds, n
