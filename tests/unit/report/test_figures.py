"""Figures: what they show, and that the same results give the same bytes."""

import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest

from codesign.errors import InputError, MissingExtraError
from codesign.metrics import METRICS
from codesign.report import figures


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


@pytest.mark.parametrize("form", figures.FORMATS)
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
    problem = SimpleNamespace(**{**vars(results.problem), "objectives": objectives})
    values = [METRICS[name].sign * results.metrics[name] for name in names]
    return replace(results, problem=problem, objectives=np.column_stack(values))


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
    assert len(figure.axes) == n_panels


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
    assert {text.get_text() for text in axes.texts} == {"Base", "P1"}


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


def test_the_convergence_plot_has_a_line_with_a_band_per_optimizer(results, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: kept.append(figure) or path)
    figures.save_convergence(results, tmp_path / "a.png")
    axes = kept[0].axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["random (2 seeds)", "tpe (2 seeds)"]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [1.5, 2.5, 2.5, 4.5])
    assert axes.get_ylabel() == "Hypervolume (token/s · W)"
    assert "← initial sample" in [text.get_text() for text in axes.texts]


def test_a_campaign_without_a_feasible_design_can_be_drawn(results, tmp_path: Path):
    nothing = replace(results, feasible=np.zeros(16, dtype=bool), hypervolume=np.zeros(16))
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


def test_the_exact_front_is_the_line_at_100_percent_and_below_what_was_found(results):
    points = np.array([[-6000.0, 690.0], [-300.0, 180.0]])
    known = replace(results, exact=SimpleNamespace(objectives=points), exact_hypervolume=40.0)
    for objective in known.problem.objectives:
        objective.sign = objective.metric.sign
    figure = figures._new_figure(2)
    with figures.drawing_style():
        figures._draw_convergence(figure.axes[0], known)
        figures._draw_front(figure.axes[1], known, 1, 0, None)
    labels = {line.get_label(): line for axes in figure.axes for line in axes.get_lines()}
    assert set(labels["exact front (100 %)"].get_ydata()) == {40.0}
    assert labels["exact front (2)"].get_xdata().tolist() == [180.0, 690.0]
    assert labels["exact front (2)"].get_ydata().tolist() == [300.0, 6000.0]
