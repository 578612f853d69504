"""Tables and exports for people fold plateaus; numbers stay those of the whole front."""

import csv
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from rich.console import Console

from codesign.answers.campaigns import front_observations
from codesign.base.metrics import METRICS
from codesign.insight.plateaus import folded_front, number_ranges
from codesign.report import exports
from codesign.report.chosen import ChosenDesign
from codesign.report.exchange import exchange_words
from codesign.report.front_lines import front_lines

_FRONT = [(3336.0, 630.0), (3335.0, 500.0), (3330.0, 450.0), (3315.0, 407.0), (2054.0, 220.0),
          (2043.0, 217.0), (1000.0, 120.0)]  # fmt: skip
"""Throughput and TDP, the best throughput first: two plateaus and one design alone."""
_KEPT = [4, 6, 7]


@pytest.fixture
def plateaus(results, with_observations):
    """The results with that front in the first observations; the rest is dominated."""
    n = len(results)
    values = np.array(_FRONT + [(10.0, 690.0)] * (n - len(_FRONT)))
    return with_observations(
        results,
        rows=np.column_stack([np.arange(n) % 3, np.arange(n) // 3 % 3, *results.rows.T[2:]]),
        metrics=results.metrics | {
            "throughput_tokens_per_s": values[:, 0], "tdp_watts": values[:, 1],
        },
        objectives=values * [-1.0, 1.0],
        feasible=np.ones(n, dtype=bool),
        failures={},
    )  # fmt: skip


def _lines(table):
    file = io.StringIO()
    Console(width=140, file=file).print(table)
    return file.getvalue()


def _numbers(table):
    return [int(cell) for cell in table.columns[0].cells]


def test_the_table_folds_plateaus_and_keeps_the_numbers(plateaus):
    table = front_lines(plateaus, 140)
    assert _numbers(table) == _KEPT
    text = " ".join(_lines(table).split())
    assert text.count(" +3 ") == text.count(" +1 ") == 1
    assert "4 more points gain at most 2 % over a cheaper one; they are hidden" in text


def test_the_tolerance_is_asked_for_and_zero_shows_the_whole_front(plateaus):
    whole = front_lines(plateaus, 140, tolerance=0.0)
    assert _numbers(whole) == [1, 2, 3, 4, 5, 6, 7]
    assert "folded" not in _lines(whole) and "within" not in _lines(whole)
    half = front_lines(plateaus, 140, tolerance=0.005)
    assert _numbers(half) == [2, 4, 5, 6, 7]
    assert _lines(half).split().count("+1") == 2


def test_a_limit_counts_the_designs_that_are_shown(plateaus):
    table = front_lines(plateaus, 140, limit=2)
    assert _numbers(table) == _KEPT[:2]
    assert "1 more: --all; 4 more points gain" in _lines(table)


def test_the_document_has_every_design_and_says_under_which_it_is_folded(plateaus):
    folded = folded_front(plateaus)
    said = [(item["number"], item["folded_under"]) for item in front_observations(plateaus, folded)]
    assert said == [(1, 4), (2, 4), (3, 4), (4, None), (5, 6), (6, None), (7, None)]
    whole = front_observations(plateaus, folded_front(plateaus, 0.0))
    assert {item["folded_under"] for item in whole} == {None}


def test_the_front_stays_whole_in_files_for_programs(plateaus, tmp_path):
    text = exports.write_csv(plateaus, tmp_path / "front.csv").read_text("utf-8")
    assert len(list(csv.DictReader(text.splitlines()))) == 7
    document = yaml.safe_load(exports.write_yaml(plateaus, tmp_path / "f.yaml").read_text("utf-8"))
    assert list(document["designs"]) == [f"front-{number}" for number in range(1, 8)]


def test_the_folded_front_is_exported_with_the_numbers_of_the_whole_one(plateaus, tmp_path):
    text = exports.write_csv(plateaus, tmp_path / "f.csv", "folded").read_text("utf-8")
    lines = list(csv.DictReader(text.splitlines()))
    assert [int(line["front_number"]) for line in lines] == _KEPT
    assert [float(line["tdp_watts"]) for line in lines] == [407.0, 217.0, 120.0]
    document = yaml.safe_load(
        exports.write_yaml(plateaus, tmp_path / "f.yaml", "folded").read_text("utf-8")
    )
    assert list(document["designs"]) == list(document["results"]) == ["front-4", "front-6",
                                                                      "front-7"]  # fmt: skip
    assert (document["scope"], document["tolerance"]) == ("folded", 0.02)
    document = json.loads(
        exports.write_json(plateaus, tmp_path / "f.json", "folded").read_text("utf-8")
    )
    assert [item["front_number"] for item in document["observations"]] == _KEPT
    page = exports.write_markdown(plateaus, tmp_path / "f.md", "folded").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert [int(line.split("|")[1]) for line in lines[1:]] == _KEPT
    assert "(+3 within 2 %) | 3,315 token/s" in page
    assert "- designs: 3 of 7; 4 more points gain" in page


@pytest.mark.parametrize(
    ("label", "is_folded", "said"),
    [
        ("front 4", False, "+3 within 2 %: the designs 1 to 3 of the front cost no less and are "
                           "better by at most 2 %"),
        ("front 5", True, "front 5 is within 2 % of front 6, which is cheaper: "),
        ("front 2", True, "Against it, front 2 has TDP 500 W instead of 407 W: nothing that "
                          "matters (< 2 %)"),
        ("front 7", False, ""),
        ("P1", False, ""),
    ],
)  # fmt: skip
def test_a_chosen_design_says_where_it_stands(plateaus, monkeypatch, label, is_folded, said):
    monkeypatch.setattr(plateaus.problem.space, "designs", {"P1": {}}, raising=False)
    chosen = ChosenDesign(label, plateaus, SimpleNamespace(design={}))
    assert chosen.is_folded == is_folded
    assert said in chosen.standing and bool(said) == bool(chosen.standing)


def test_numbers_are_told_in_runs():
    assert number_ranges([]) == ""
    assert number_ranges([5, 0, 1, 2, 8, 9]) == "1 to 3, 6, 9, 10"


_OBJECTIVES = (
    SimpleNamespace(metric=METRICS["throughput_tokens_per_s"], sense="maximize"),
    SimpleNamespace(metric=METRICS["tdp_watts"], sense="minimize"),
)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ((1000, 428), (1048, 445), "TDP 445 W instead of 428 W: +48 token/s throughput"),
        ((1000, 428), (1004, 445), "TDP 445 W instead of 428 W: nothing that matters (< 2 %)"),
        ((1048, 445), (1000, 428),
         "throughput 1,000 token/s instead of 1,048 token/s: TDP 428 W instead of 445 W"),
        ((1000, 428), (1500, 430), "+500 token/s throughput"),
        ((1000, 445), (1000.0000001, 428), "TDP 428 W instead of 445 W"),
        ((1000, 428), (1001, 429), "nothing that matters (< 2 %)"),
    ],
)  # fmt: skip
def test_an_exchange_is_told_by_what_it_costs_and_what_it_gives(old, new, said):
    points = [np.array(pair) * [-1.0, 1.0] for pair in (old, new)]
    assert exchange_words(_OBJECTIVES, *points, tolerance=0.02) == said


def test_without_a_tolerance_only_rounding_is_left_out():
    old, new = np.array([-1000.0, 428.0]), np.array([-1000.0 * (1 + 4e-16), 428.5])
    said = exchange_words(_OBJECTIVES, old, new, tolerance=0.0)
    assert said == "TDP 428.5 W instead of 428 W: nothing"
