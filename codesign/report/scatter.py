"""The figure of a comparison: ours against the reference, and how the errors are distributed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from codesign.report.drawing import COLORS, drawing_style, save_figure


def save_predictions(rows: Sequence[Mapping[str, Any]], title: str, path: Path) -> Path:
    """Draw rows with ``reference`` and ``ours``; those without a positive pair are left out.

    Args:
        rows: Of a study; ``group`` or ``kind``, where there is one, gives the color.
        path: Of a PNG or SVG file.
    """
    pairs = [
        (
            str(row.get("group") or row.get("kind") or ""),
            float(row["reference"]),
            float(row["ours"]),
        )
        for row in rows
        if _is_positive(row.get("reference")) and _is_positive(row.get("ours"))
    ]
    pairs = _with_few_groups(pairs)
    groups = list(dict.fromkeys(group for group, _, _ in pairs))
    with drawing_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10.0, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        figure.suptitle(title, fontsize=10, wrap=True)
        for number, group in enumerate(groups):
            reference = np.array([r for name, r, _ in pairs if name == group])
            ours = np.array([o for name, _, o in pairs if name == group])
            color = COLORS[number % len(COLORS)]
            left.scatter(reference, ours, s=10, alpha=0.6, color=color, label=group or "case")
            errors = np.clip(ours / reference - 1.0, -_FARTHEST, _FARTHEST)
            right.hist(errors, bins=_BINS, histtype="step", color=color, linewidth=1.5)
        if pairs:
            ends = [min(min(r, o) for _, r, o in pairs), max(max(r, o) for _, r, o in pairs)]
            left.plot(ends, ends, color="black", linewidth=0.8, zorder=0)
            left.set(xscale="log", yscale="log")
        left.set(xlabel="Reference", ylabel="Ours")
        right.set(xlabel="Relative error (beyond ±1 drawn at ±1)", ylabel="Cases")
        if len(groups) > 1:
            left.legend(fontsize=9)
        return save_figure(figure, path)


_FARTHEST = 1.0
_BINS = np.linspace(-_FARTHEST, _FARTHEST, 81)


def _with_few_groups(pairs: list[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """The same with the smallest groups as one, so that every group has its own color."""
    largest = [group for group, _ in Counter(group for group, _, _ in pairs).most_common()]
    if len(largest) <= len(COLORS):
        return pairs
    kept_groups = set(largest[: len(COLORS) - 1])
    return [(group if group in kept_groups else "others", r, o) for group, r, o in pairs]


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
