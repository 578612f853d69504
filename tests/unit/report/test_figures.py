"""Figures: what they show, and that the same results give the same bytes."""

import itertools
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from codesign.base.errors import InputError, MissingExtraError
from codesign.base.metrics import METRICS
from codesign.report import drawing, figures
from codesign.report.callouts import write_names
from codesign.report.hierarchy_figure import split_evenly


@pytest.fixture
def marked() -> figures.MarkedDesigns:
    return figures.MarkedDesigns(
        ["Base", "P1"],
        {
            "throughput_tokens_per_s": np.array([1500.0, 4000.0]),
            "tdp_watts": np.array([300.0, 720.0]),
            "batch_size": np.array([2.0, 16.0]),
        },
        np.array([True, False]),
    )


@pytest.mark.parametrize("form", drawing.FORMATS)
def test_the_same_results_give_the_same_bytes(results, marked, tmp_path: Path, form):
    for draw in (figures.save_convergence, lambda r, p: figures.save_front(r, p, marked)):
        once = draw(results, tmp_path / f"a.{form}").read_bytes()
        assert draw(results, tmp_path / f"b.{form}").read_bytes() == once


def test_a_png_is_an_image_and_an_svg_is_xml(results, marked, tmp_path: Path):
    image = matplotlib.image.imread(figures.save_front(results, tmp_path / "a.png", marked))
    assert image.shape[0] > 400
    assert image.shape[1] > 800
    root = ElementTree.parse(figures.save_front(results, tmp_path / "a.svg", marked)).getroot()
    assert root.tag.endswith("svg")
    assert b"<dc:date>" not in (tmp_path / "a.svg").read_bytes()


def test_the_figures_do_not_depend_on_the_reader_s_settings(results, tmp_path: Path):
    once = figures.save_convergence(results, tmp_path / "a.png").read_bytes()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.dpi": 30}):
        assert figures.save_convergence(results, tmp_path / "b.png").read_bytes() == once


def _with_objectives(results, *names):
    objectives = tuple(
        SimpleNamespace(metric=METRICS[name], sense=METRICS[name].sense) for name in names
    )
    problem = SimpleNamespace(
        **{**vars(results.problem), "objectives": objectives, "objective_names": list(names)}
    )
    values = [METRICS[name].flipped(results.metrics[name]) for name in names]
    observations = replace(results.observations, objectives=np.column_stack(values))
    return replace(results, problem=problem, observations=observations)


def _drawn(results, marked, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: kept.append(figure) or path)
    figures.save_front(results, tmp_path / "a.png", marked)
    return kept[0]


@pytest.mark.parametrize(
    ("names", "n_panels"),
    [
        (["throughput_tokens_per_s"], 1),
        (["throughput_tokens_per_s", "tdp_watts"], 1),
        (["throughput_tokens_per_s", "tdp_watts", "batch_size"], 3),
    ],
)
def test_there_is_one_panel_per_pair_of_objectives(
    results, marked, tmp_path, monkeypatch, names, n_panels
):
    figure = _drawn(_with_objectives(results, *names), marked, tmp_path, monkeypatch)
    assert sum(axes.axison for axes in figure.axes) == n_panels


def test_the_front_plot_shows_all_feasible_designs_and_highlights_the_front(
    results, marked, tmp_path, monkeypatch
):
    (axes,) = _drawn(results, marked, tmp_path, monkeypatch).axes
    assert len(axes.collections[0].get_offsets()) == results.feasible.sum()
    front = results.front()
    drawn = {tuple(point) for point in axes.lines[0].get_xydata()}
    assert drawn == {
        (results.metrics["tdp_watts"][i], results.metrics["throughput_tokens_per_s"][i])
        for i in front
    }
    assert axes.get_xlabel() == "TDP (W)  ← better"
    assert axes.get_ylabel() == "Throughput (token/s)  ↑ better"
    names = {text.get_text().partition(":")[0] for text in axes.texts}
    assert names == {"Base", "P1", "frugal", "knee", "fastest"}


@pytest.mark.parametrize(
    ("names", "style"),
    [
        (["throughput_tokens_per_s", "tdp_watts"], "steps-post"),
        (["tdp_watts", "throughput_tokens_per_s"], "steps-pre"),
    ],
)
def test_the_line_bounds_what_the_front_dominates(
    results, marked, tmp_path, monkeypatch, names, style
):
    (axes,) = _drawn(_with_objectives(results, *names), marked, tmp_path, monkeypatch).axes
    assert axes.lines[0].get_drawstyle() == style


def test_the_convergence_plot_has_a_mean_and_every_seed(results, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: kept.append(figure) or path)
    figures.save_convergence(results, tmp_path / "a.png")
    axes = kept[0].axes[0]
    labels = [text.get_text() for text in kept[0].legends[0].get_texts()]
    assert labels == ["random (2 seeds)", "tpe (2 seeds)"]
    mean, *seeds = (line.get_ydata() for line in axes.lines[:3])
    np.testing.assert_array_equal(mean, [1.5, 2.5, 2.5, 4.5])
    np.testing.assert_array_equal(np.mean(seeds, axis=0), mean)
    assert not np.array_equal(*seeds)
    assert axes.get_ylabel() == "Hypervolume (token/s · W)"
    assert "← initial sample" in [text.get_text() for text in axes.texts]


def test_a_campaign_without_a_feasible_design_can_be_drawn_and_says_so(
    results, with_observations, tmp_path: Path, monkeypatch
):
    nothing = with_observations(
        replace(results, hypervolume=np.zeros(16)), feasible=np.zeros(16, dtype=bool)
    )
    with monkeypatch.context() as patch:
        (axes,) = _drawn(nothing, None, tmp_path, patch).axes
    assert [text.get_text() for text in axes.texts] == [
        "none of 16 evaluated designs\nkeeps every limit"
    ]
    assert figures.save_front(nothing, tmp_path / "a.png").is_file()
    assert figures.save_convergence(nothing, tmp_path / "b.png").is_file()


def test_an_unknown_format_is_refused_before_anything_is_written(results, tmp_path: Path):
    with pytest.raises(InputError, match=r"unknown figure format 'pgn'\. Did you mean 'png'"):
        figures.save_front(results, tmp_path / "a.pgn")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_extra_is_named(results, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.style", None)
    with pytest.raises(MissingExtraError, match=r"codesign\[report\]"):
        figures.save_front(results, tmp_path / "a.png")


def test_the_exact_front_is_the_line_at_100_percent(results):
    axes = Figure().subplots()
    figures._draw_convergence(axes, replace(results, exact_hypervolume=40.0))
    labels = {line.get_label(): line for line in axes.get_lines()}
    assert set(labels["exact front (100 %)"].get_ydata()) == {100.0}
    assert labels["random (2 seeds)"].get_ydata()[-1] == pytest.approx(100 * 4.5 / 40.0)
    assert axes.get_ylabel() == "Hypervolume (% of the exact front's)"


def test_a_figure_of_a_part_of_a_campaign_says_so_inside(results, marked, tmp_path, monkeypatch):
    part = replace(results, state="stopped")
    part.definition.budget = 300
    for drawn, said in ((part, "NOT FINISHED: stopped, 16 of 1,200 evaluated"), (results, None)):
        with monkeypatch.context() as patch:
            title = _drawn(drawn, marked, tmp_path, patch).get_suptitle()
        assert title.splitlines()[1:] == ["npu, profile plain", *([said] if said else [])]


@pytest.mark.parametrize(
    ("width_mm", "font", "smallest"), [(None, 10.0, 8.0), (183.0, 10.0, 8.0), (89.0, 8.5, 7.0)]
)
def test_a_figure_is_as_wide_as_asked_and_its_letters_can_be_read(
    results, marked, tmp_path, width_mm, font, smallest
):
    path = figures.save_front(results, tmp_path / "a.pdf", marked, width_mm)
    box = re.search(rb"/MediaBox \[ *0 0 ([\d.]+) ([\d.]+) *\]", path.read_bytes())
    assert float(box[1]) / 72 * 25.4 == pytest.approx(width_mm or 183.0, abs=0.1)
    with drawing.drawing_style(width_mm):
        assert matplotlib.rcParams["font.size"] == font
        assert FontProperties(size="small").get_size_in_points() > smallest


def test_one_column_has_its_panels_one_below_the_other(results, marked, tmp_path, monkeypatch):
    three = _with_objectives(results, "throughput_tokens_per_s", "tdp_watts", "batch_size")
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: kept.append(figure) or path)
    figures.save_front(three, tmp_path / "a.png", marked, 89.0)
    corners = [axes.get_position() for axes in kept[0].axes]
    assert len(corners) == 3
    assert corners[0].y0 > corners[1].y1 > corners[1].y0 > corners[2].y1


@pytest.mark.parametrize(
    ("largest", "unit", "label", "tick"),
    [
        (76_800.0, "W", "kW", "20"),
        (0.8, "s", "ms", "200"),
        (4_000.0, "s", "s", "1,000"),  # nobody reads kiloseconds
        (2e14, "FLOP/s", "TFLOP/s", "50"),
        (3_000.0, "token/s", "token/s", "1,000"),
    ],
)
def test_the_prefix_is_in_the_label_and_not_in_the_ticks(largest, unit, label, tick):
    axes = Figure().subplots()
    axes.set_xlim(0, largest)
    assert drawing.scale_ticks(axes.xaxis, unit) == label
    assert tick in [text.get_text() for text in axes.get_xticklabels()]


def test_an_axis_is_logarithmic_where_a_line_would_press_all_together(
    results, marked, with_observations, tmp_path, monkeypatch
):
    assert drawing.is_crowded(np.array([1.0] * 19 + [100.0]))
    assert not drawing.is_crowded(np.array([0.0] * 19 + [100.0]))  # no logarithm of nothing
    assert not drawing.is_crowded(np.arange(1.0, 20.0))
    stretched = 10.0 ** np.argsort(np.argsort(results.metrics["tdp_watts"]))
    metrics = {**results.metrics, "tdp_watts": np.where(results.failed, np.nan, stretched)}
    spread = with_observations(results, metrics=metrics, feasible=~results.failed)
    (axes,) = _drawn(spread, marked, tmp_path, monkeypatch).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")


def test_names_of_near_points_do_not_cover_each_other():
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    points = np.array([[0.50, 0.5], [0.53, 0.5], [0.50, 0.55], [0.5, 0.5], [0.9, 0.98]])
    axes.set(xlim=(0, 1), ylim=(0, 1))
    write_names(axes, points, ["first", "second", "third", "fourth", "corner"], "black")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == [
        "first\nfourth",
        "second",
        "third",
        "corner",
    ]
    assert not any(one.overlaps(two) for at, one in enumerate(boxes) for two in boxes[:at])
    inside = axes.get_window_extent()
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in boxes)
    assert all(inside.y0 <= box.y0 and box.y1 <= inside.y1 for box in boxes)


@pytest.mark.parametrize(
    "lengths", [(15, 15, 11, 11, 11), (15, 15, 8.25), (15, 15, 15, 8.25, 8.25), (11,) * 6, ()]
)
def test_interfaces_are_split_over_two_edges_as_evenly_as_any_split_is(lengths):
    """Against all splits. 15 + 15 and 3 x 11 fit two edges of 33 mm; longest first does not."""
    blocks = [SimpleNamespace(edge_mm=length) for length in lengths]
    ours = max(sum(block.edge_mm for block in side) for side in split_evenly(blocks))
    best = min(
        max(
            sum(itertools.compress(lengths, chosen)),
            sum(lengths) - sum(itertools.compress(lengths, chosen)),
        )
        for chosen in itertools.product((0, 1), repeat=len(lengths))
    )
    assert ours == pytest.approx(best)
    assert best <= 33.0


@pytest.mark.parametrize("width_mm", [60.0, 89.0, 183.0, 400.0])
def test_ticks_of_many_evaluations_do_not_run_into_each_other(
    results, tmp_path, monkeypatch, width_mm
):
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: kept.append(figure) or path)
    with drawing.drawing_style(width_mm):
        figures.save_convergence(results, tmp_path / "a.png", width_mm)
        axes = kept[0].axes[0]
        axes.set_xlim(0, 94_500)
        kept[0].draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text()]
    assert len(boxes) >= 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
