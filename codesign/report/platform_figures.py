"""Figures of platforms: time of both phases by parts as one number varies (GenZ Figs. 10-14)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.units import format_engineering
from codesign.evaluators.platform.scaling import Scaling
from codesign.report.drawing import COLORS, drawing_style, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PARTS = {"linear": "products with weights", "attention": "attention", "collective": "messages"}
_HATCHES = ("", "//", "..")
_PHASES = {
    "prefill": ("Prefill", "Time to first token", "time_to_first_token_s"),
    "decode": ("Decode", "Time per output token", "time_per_output_token_s"),
}


def save_scaling(study: Scaling, title: str, path: Path) -> Path:
    """Draw both phases as stacked bars over the varied number.

    Args:
        study: The times of both phases for every value of the varied number.
    """
    with drawing_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10.0, 4.4), layout="constrained")
        for axes, phase in zip(figure.subplots(1, 2), _PHASES, strict=True):
            _draw_phase(axes, study, phase)
        figure.suptitle(title, fontsize=11)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
        return save_figure(figure, path)


def _draw_phase(axes: Axes, study: Scaling, phase: str) -> None:
    name, words, total = _PHASES[phase]
    parts: Mapping[str, FloatArray] = {part: study.metrics[f"{phase}_{part}_s"] for part in _PARTS}
    totals = study.metrics[total]
    scale, unit = (1.0, "s") if totals.max() >= 1 else (1e3, "ms")
    places = np.arange(len(totals))
    below = np.zeros_like(totals)
    for number, (part, label) in enumerate(_PARTS.items()):
        height = parts[part] * scale
        axes.bar(places, height, 0.62, bottom=below, color=COLORS[number], label=label,
                 hatch=_HATCHES[number], edgecolor="white", linewidth=0.4)  # fmt: skip
        below = below + height
    fits = np.all([values <= 0 for values in study.violations.values()], axis=0)
    for place, top, value, is_kept in zip(places, below, totals, fits, strict=True):
        text = f"{totals[0] / value:.2f}×" + ("" if is_kept else "\ndoes not fit")
        axes.annotate(text, (place, top), xytext=(0, 3), textcoords="offset points",
                      ha="center", fontsize=8)  # fmt: skip
    axes.set_xticks(places, [format_engineering(v, study.axis.unit, 3) for v in study.values])
    axes.set_ylim(0, float(below.max()) * 1.15)
    axes.grid(visible=False, axis="x")
    axes.set(xlabel=study.axis.words.capitalize(), ylabel=f"{words} ({unit})", title=name)
