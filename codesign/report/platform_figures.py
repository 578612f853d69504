"""Figures of platforms: time of both phases by parts as one number varies (GenZ Figs. 10-14)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codesign.base.units import format_engineering
from codesign.evaluators.platform.scaling import Scaling
from codesign.report.chart import Axis, Bars, Chart, Panel, row_axis
from codesign.report.paper import save_plain
from codesign.report.svg import axis_unit

_PARTS = {
    "linear": ("products with weights", "blue", ""), "attention": ("attention", "vermilion", "/"),
    "collective": ("messages", "green", "."),
}  # fmt: skip
_PHASES = {
    "prefill": ("Time to first token", "time_to_first_token_s"),
    "decode": ("Time per output token", "time_per_output_token_s"),
}


def save_scaling(study: Scaling, title: str, path: Path) -> Path:
    """Draw both phases as stacked bars, one per value of the varied number.

    Args:
        study: The times of both phases for every value of the varied number.
    """
    panels = [_phase_panel(study, phase) for phase in _PHASES]
    return save_plain(Chart(panels, title, columns=2), path, title)


def _phase_panel(study: Scaling, phase: str) -> Panel:
    words, total = _PHASES[phase]
    totals = study.metrics[total]
    rows = np.arange(len(totals))
    start = np.zeros_like(totals)
    marks = []
    fits = np.all([values <= 0 for values in study.violations.values()], axis=0)
    labels = [
        f"{totals[0] / value:.2f}×" + ("" if is_valid else ", does not fit")
        for value, is_valid in zip(totals.tolist(), fits.tolist(), strict=True)
    ]
    for name, (label, hue, hatch) in _PARTS.items():
        times = study.metrics[f"{phase}_{name}_s"]
        is_last = name == list(_PARTS)[-1]
        marks.append(Bars(rows, times, start, hue=hue, hatch=hatch, name=label,
                          labels=labels if is_last else ()))  # fmt: skip
        start = start + times
    end = 1.35 * float(start.max())
    values = [format_engineering(value, study.axis.unit, 3) for value in study.values]
    return Panel(
        Axis((0.0, end), f"{words} ({axis_unit((0.0, end), 's')})", "s"),
        row_axis(values), marks,
        f"{phase.capitalize()}, by {study.axis.words}", height=30.0 * len(totals),
    )  # fmt: skip
