"""Price against speed for people: the frontier, its ends, and what they are made of."""

from __future__ import annotations

import numpy as np

from codesign.answers.economics import Mark, PricedPoint, PriceFrontier
from codesign.base.columns import StringList, Strings
from codesign.base.units import format_engineering
from codesign.report.tables import Tables, pairs_table, plain_table, spaced


def economics_tables(title: str, answer: PriceFrontier, n_rows: int, lines: Strings) -> Tables:
    """Conventions, the points that matter, ``n_rows`` points along the frontier, and lines."""
    marked = {
        "cheapest": answer.cheapest,
        f"best token/s^{answer.alpha:g}/USD": answer.alpha_optimal,
        "fastest": answer.fastest,
    }
    points = answer.frontier
    headers = ["token/s/user", "USD/Mtoken", "devices", "requests"]
    has_drafts = any(point.draft_length for point in points)
    headers += ["drafted"] * has_drafts + ["first token"] * (points[0].first_token_s is not None)

    def cells(point: PricedPoint) -> StringList:
        row = [f"{point.tokens_per_s:.1f}", f"{point.usd_per_million_tokens:.3g}"]
        row += [
            f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"
            for count in (point.n_devices, point.batch)
        ]
        row += [str(point.draft_length or "–")] * has_drafts
        if point.first_token_s is not None:
            row.append(format_engineering(point.first_token_s, "s", 3))
        return row

    last = []
    if len(points) > 1:
        speed = np.array([point.tokens_per_s for point in points])
        speeds = np.linspace(speed[0], speed[-1], n_rows)
        spread = sorted({int(np.abs(speed - value).argmin()) for value in speeds})
        rows = [cells(points[i]) for i in spread]
        caption = f"Frontier, {len(spread)} of {len(points)} points"
        last.append(plain_table(caption, headers, headers, rows))
    words = "" if answer.fastest.joules_per_token is None else ", and its energy"
    return spaced(
        pairs_table(title, answer.conventions),
        plain_table(
            "", ["point", *headers], headers,
            ([name, *cells(mark)] for name, mark in marked.items()),
        ),
        pairs_table(
            f"How each is split over devices{words}",
            {name: _split_words(mark) for name, mark in marked.items()},
        ),
        [*last, *lines],
    )  # fmt: skip


def _split_words(mark: Mark) -> str:
    """Division of one point's passes over devices, and its energy."""
    split = mark.split
    words = [f"tensor {split.tensor:.3g} ({split.layout})", f"attention {split.attention:.3g}"]
    if split.experts > 1:
        words.append(f"experts {split.experts:.3g}")
    words.append(f"pipeline {split.pipeline:.3g}")
    if mark.joules_per_token is not None:
        words.append(f"{mark.joules_per_token:.3g} J/token")
    return ", ".join(words)
