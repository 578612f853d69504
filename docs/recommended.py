"""The README's picture of three designs: ``python docs/recommended.py CAMPAIGN FILE``.

Part of ``make gallery``. The designs are points of the campaign's exact front, without those that
are better by at most 2 % than a cheaper one: the cheapest, the sharpest knee, and the fastest. The
campaign is one of a single machine with two objectives, the second of which is minimized.
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import codesign
from codesign.insight.explanation.choices import knees_of
from codesign.report import palette
from codesign.report.drawing import drawing_style, label_objective, save_figure
from codesign.report.labels import design_words, format_metric, metric_of
from codesign.search.pareto import fold

if TYPE_CHECKING:
    from codesign.search.campaign import Campaign

_RESULTS = ("throughput_tokens_per_s", "tdp_watts", "area_mm2", "unit_cost_usd")
_PARTS = ("peak_flop_per_s", "offchip_bandwidth_bytes_per_s", "memory_capacity_bytes")
_INCHES = (7.6, 3.4)


@dataclass(frozen=True)
class _Recommended:
    title: str
    place: tuple[float, float]
    text: str


def main(name: str, path: Path) -> None:
    """Draw the front with the three designs on it, and say in words what they are."""
    campaign = codesign.load_campaign(name)
    objectives = campaign.problem.objectives
    points = campaign.problem.flipped(campaign.exact_front().objectives)
    chosen = _recommended(campaign)
    with drawing_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=_INCHES, layout="constrained")
        axes, words = figure.subplots(1, 2, width_ratios=(1.0, 1.15))
        axes.plot(points[:, 1], points[:, 0], color="#9A9A9A", marker=".", drawstyle="steps-pre")
        label_objective(axes.xaxis, objectives[1])
        label_objective(axes.yaxis, objectives[0])
        words.set_axis_off()
        for number, item in enumerate(chosen):
            color = palette.LIGHT[palette.PICKS[item.title]]
            axes.plot(*item.place, "o", color=color, markersize=9)
            style = {"textcoords": "offset points", "horizontalalignment": "right"}
            axes.annotate(item.title, item.place, (-8, 4), color=color, **style)
            top = 1.0 - number / len(chosen)
            style = {"transform": words.transAxes, "verticalalignment": "top"}
            words.text(0.0, top, item.title, color=color, fontweight="bold", **style)
            words.text(0.0, top - 0.075, item.text, fontsize=8.5, linespacing=1.35, **style)
        axes.margins(x=0.3, y=0.1)
        print(f"wrote {save_figure(figure, path)}")


def _recommended(campaign: Campaign) -> list[_Recommended]:
    """Frugal, knee and fastest, each with its figures."""
    front = campaign.exact_front()
    kept = np.flatnonzero(fold(front.objectives, cost=1) == np.arange(len(front)))
    points = front.objectives[kept]
    places = {
        "frugal": kept[points[:, 1].argmin()],
        "knee": kept[knees_of(points)[0].point],
        "fastest": kept[points[:, 0].argmin()],
    }
    problem = campaign.problem
    rows = front.representatives()
    result = []
    for title, place in places.items():
        (design,) = problem.space.decode(rows[[place]])
        evaluated = codesign.evaluate(
            design=design, space=problem.space, evaluator=problem.evaluator
        )
        speed, power = (evaluated.metrics[item.metric.name] for item in problem.objectives)
        (words,) = design_words(problem.space, [design])
        result.append(_Recommended(title, (power, speed), _text(words, evaluated)))
    return result


def _text(words: str, evaluated: Any) -> str:
    lines = [
        " · ".join(
            format_metric(evaluated.metrics[name], metric_of(name), digits=3) for name in row
        )
        for row in (_PARTS, _RESULTS)
    ]
    return "\n".join([*textwrap.wrap(words, 58), *lines]).replace("^2", "²")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
