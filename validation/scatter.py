"""The figure of a comparison: ours against the reference."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from codesign.base.columns import FieldRows
from codesign.report import palette
from codesign.report.chart import Axis, Chart, Line, Mark, Panel, Points, log_padded
from codesign.report.paper import save_svg, titled, width_of


def save_predictions(rows: FieldRows, title: str, path: Path) -> Path:
    """Draw rows with ``reference`` and ``ours``; those without a positive pair are left out.

    Args:
        rows: Rows of a study; ``group`` or ``kind``, where there is one, gives the color.
        path: File that ends in ``.png``, ``.svg`` or ``.pdf``.
    """
    cases = [
        (str(row.get("group") or row.get("kind") or ""), row["reference"], row["ours"])
        for row in rows
        if min(row.get("reference") or 0.0, row.get("ours") or 0.0) > 0
    ]
    counts, n = Counter(case[0] for case in cases), len(palette.SERIES)
    largest = dict(counts.most_common(n if len(counts) <= n else n - 1))
    merged: dict[str, list[tuple[float, float]]] = {}
    for group, reference, ours in cases:
        merged.setdefault(group if group in largest else "others", []).append((reference, ours))
    predictions: list[Mark] = []
    for (name, pairs), hue in zip(merged.items(), palette.SERIES, strict=False):
        label = (name or "case") if len(merged) > 1 else ""
        x, y = np.array(pairs).T
        predictions.append(Points(x, y, hue, size=4.0, opacity=0.6, name=label))
    ends = log_padded([value for case in cases for value in case[1:]] or [1.0], 1.3)
    predictions.insert(0, Line(list(ends), list(ends), width=0.8))
    axes = Axis(ends, "Reference", is_log=True), Axis(ends, "Ours", is_log=True)
    width, _ = width_of(None)
    drawing = titled(Chart([Panel(*axes, predictions)], title), width, [title])
    return save_svg([(drawing, 0.0, 0.0)], path, width, is_print=False)
