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
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        reference, ours = row.get("reference"), row.get("ours")
        if _is_positive(reference) and _is_positive(ours):
            group = str(row.get("group") or row.get("kind") or "")
            groups.setdefault(group, []).append((float(row["reference"]), float(row["ours"])))
    largest = [name for name, _ in Counter({k: len(v) for k, v in groups.items()}).most_common()]
    merged: dict[str, list[tuple[float, float]]] = {}
    for name, pairs in groups.items():
        n = len(palette.SERIES)
        is_small = len(largest) > n and name not in largest[: n - 1]
        merged.setdefault("others" if is_small else name, []).extend(pairs)
    predictions: list[Mark] = []
    for (name, pairs), hue in zip(merged.items(), palette.SERIES, strict=False):
        reference, ours = np.array(pairs).T
        label = (name or "case") if len(merged) > 1 else ""
        predictions.append(Points(reference, ours, hue, size=4.0, opacity=0.6, name=label))
    values = [value for pairs in merged.values() for pair in pairs for value in pair] or [1.0]
    ends = log_padded(values, 1.3)
    predictions.insert(0, Line(list(ends), list(ends), width=0.8))
    axes = Axis(ends, "Reference", is_log=True), Axis(ends, "Ours", is_log=True)
    width, _ = width_of(None)
    drawing = titled(Chart([Panel(*axes, predictions)], title), width, [title])
    return save_svg([(drawing, 0.0, 0.0)], path, width, is_print=False)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
