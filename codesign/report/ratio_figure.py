"""Prefill machines to decode machines against prompt to generated tokens, as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codesign.report import palette
from codesign.report.chart import Axis, Chart, Label, Line, Mark, Panel, Points, log_padded
from codesign.report.paper import save_svg, titled, width_of

_SHAPES = ("circle", "square", "triangle", "diamond")


@dataclass(frozen=True)
class RatioPoint:
    """A workload.

    Attributes:
        name: Name of the workload.
        token_ratio: Prompt tokens to generated tokens.
        values: Ratio of prefill to decode by the words of the legend; the same for all points.
        expected: Ratio of the closed form by the same words, for some of them.
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
    listed = sorted(points, key=lambda point: point.token_ratio)
    across = np.array([point.token_ratio for point in listed])
    marks: list[Mark] = []
    ratios: list[float] = []
    for number, name in enumerate(listed[0].values):
        hue, shape = palette.SERIES[number], _SHAPES[number % len(_SHAPES)]
        up = [point.values[name] for point in listed]
        ratios += up
        marks.append(Points(across, up, hue, shape, 7.0, name=name))
        if all(name in point.expected for point in listed):
            expected = [point.expected[name] for point in listed]
            ratios += expected
            marks.append(
                Points(across, expected, hue, shape, 11.0, True, name=f"{name}, closed form")
            )
    middle = float(np.exp(np.mean(np.log(ratios)) - np.mean(np.log(across))))
    ends = log_padded(ratios, 2.0)
    marks.append(Line(across, middle * across, "gray", 1.0, "dash", name="in proportion"))
    marks += [
        Label(point.token_ratio, ends[0] * 1.2, point.name, anchor="middle") for point in listed
    ]
    panel = Panel(
        Axis(log_padded(across, 1.6), "Prompt tokens / generated tokens", is_log=True),
        Axis(ends, "Prefill / decode", is_log=True), marks, height=360.0,
    )  # fmt: skip
    width, _ = width_of(None)
    note = "Closed form: (prompt / rate) / (generated / rate)."
    drawing = titled(Chart([panel], title), width, [title], [note])
    return save_svg([(drawing, 0.0, 0.0)], path, width, is_print=False)
