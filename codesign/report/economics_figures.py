"""Cost per token against speed as a figure (Epoch Figs. 1 and 3 to 10)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codesign.answers.economics import PriceFrontier
from codesign.base.columns import StringList
from codesign.report.chart import Axis, Chart, Label, Line, Mark, Panel, Points, log_padded
from codesign.report.labels import format_value
from codesign.report.paper import save_plain


def save_frontier(answer: PriceFrontier, words: str, path: Path, title: str) -> Path:
    """Draw a frontier: price of a million tokens against tokens per second of a request.

    The cheapest, the fastest and the one with most ``tokens_per_s ** alpha`` per dollar are marked
    with their devices.
    """
    across = np.array([point.tokens_per_s for point in answer.frontier])
    up = np.array([point.usd_per_million_tokens for point in answer.frontier], np.float64)
    marks: list[Mark] = [
        Line(across, up, "blue", 0.6),
        Points(across, up, "blue", size=4.0, name=words, texts=[
            f"{format_value(x, 'token/s', 3)}, {format_value(y, 'USD/Mtoken', 3)}"
            for x, y in zip(across.tolist(), up.tolist(), strict=True)
        ]),
    ]  # fmt: skip
    names: dict[float, StringList] = {}
    for name, mark in (
        ("cheapest", answer.cheapest),
        ("fastest", answer.fastest),
        (f"most (token/s)^{answer.alpha:g}/USD", answer.alpha_optimal),
    ):
        names.setdefault(mark.tokens_per_s, []).append(name)
    for place in [int(np.flatnonzero(across == speed)[0]) for speed in names]:
        n = answer.frontier[place].n_devices
        devices = f"{n:g} device{'' if n == 1 else 's'}"
        marks.append(Points(across[[place]], up[[place]], "ink", "diamond", 8.0))
        label = f"{', '.join(names[across[place]])}: {devices}"
        marks.append(Label(float(across[place]), float(up[place]), label))
    panel = Panel(
        Axis((0.0, 1.05 * float(across.max())), "Speed of one request (token/s)"),
        Axis(log_padded(up, 1.3), "Price (USD per million served tokens)", is_log=True),
        marks, height=360.0,
    )  # fmt: skip
    return save_plain(Chart([panel], title), path, title)
