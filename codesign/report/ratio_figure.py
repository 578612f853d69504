"""Prefill machines to decode machines against prompt to generated tokens, as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codesign.report.drawing import COLORS, drawing_style, plain_log_ticks, save_figure

_MARKERS = ("o", "s", "^", "D")


@dataclass(frozen=True)
class RatioPoint:
    """A workload.

    Attributes:
        name: Of the workload.
        token_ratio: Prompt tokens to generated tokens.
        values: Ratio of prefill to decode by the words of the legend; the same for all points.
        expected: Likewise, the ratio that the closed form has; for some of them.
    """

    name: str
    token_ratio: float
    values: Mapping[str, float]
    expected: Mapping[str, float]


def save_ratios(points: Sequence[RatioPoint], path: Path, title: str) -> Path:
    """Draw the ratios on two logarithmic axes, the closed form as hollow marks.

    Args:
        points: At least one.
    """
    listed = sorted(points, key=lambda item: item.token_ratio)
    across = np.array([item.token_ratio for item in listed])
    with drawing_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 5.6), layout="constrained")
        axes = figure.subplots()
        for number, name in enumerate(listed[0].values):
            color, marker = COLORS[number % len(COLORS)], _MARKERS[number % len(_MARKERS)]
            up = np.array([item.values[name] for item in listed])
            axes.plot(across, up, marker, color=color, label=name)
            if all(name in item.expected for item in listed):
                expected = [item.expected[name] for item in listed]
                label = f"{name}, closed form"
                axes.plot(across, expected, marker, color=color, fillstyle="none", markersize=10,
                          label=label)  # fmt: skip
        every = [value for item in listed for value in item.values.values()]
        middle = float(np.exp(np.mean(np.log(every)) - np.mean(np.log(across))))
        axes.plot(across, middle * across, color="#999999", linestyle="--", linewidth=1.0,
                  label="in proportion")  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            plain_log_ticks(axis)
        lowest, highest = axes.get_ylim()
        axes.set_ylim(lowest / 1.5, highest)
        for item in listed:
            axes.annotate(item.name, (item.token_ratio, 0.0), xycoords=("data", "axes fraction"),
                          xytext=(0, 4), textcoords="offset points", ha="center")  # fmt: skip
        axes.set_xlabel("Prompt tokens / generated tokens")
        axes.set_ylabel("Prefill / decode; closed form (prompt / rate) / (generated / rate)")
        axes.set_title(title, fontsize=11)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8)
        return save_figure(figure, path)
