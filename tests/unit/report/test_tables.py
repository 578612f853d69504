"""Tables fit the terminal and lose nothing that matters."""

import io

import pytest
from rich.console import Console

from codesign.report.front_lines import front_lines
from codesign.report.result_tables import optimizers_table
from codesign.report.tables import format_cell, let_break, plain_table, rows_table, unit_and_title

_ROWS = [
    {
        "name": "qkv_projection",
        "count": 80.0,
        "bound": "compute",
        "time_s": 0.25,
        "energy_joules": 3e-3,
        "nothing": 0.0,
        "traffic_bytes": {"on_chip": 4e9, "tier1": 2e9},
        "time_share": 0.2,
    },
    {
        "name": "softmax",
        "count": 80.0,
        "bound": "vector",
        "time_s": 1.0,
        "energy_joules": 5e-3,
        "nothing": 0.0,
        "traffic_bytes": {"on_chip": 0.0, "tier1": 1e6},
        "time_share": 0.8,
    },
]


def _printed(table, width):
    file = io.StringIO()
    Console(width=width, file=file).print(table)
    return file.getvalue()


def test_each_number_is_printed_in_the_unit_of_its_name():
    text = _printed(rows_table("Operators", _ROWS), 140)
    for part in ("250 ms", "20.0 %", "3 mJ", "4 GB", "1 MB", "compute"):
        assert part in text


def test_a_column_without_content_is_left_out():
    assert "nothing" not in _printed(rows_table("Operators", _ROWS), 140)


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width):
    text = _printed(rows_table("Operators", _ROWS, width, ["name", "time_s"]), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "qkv_projection" in text
    assert "250 ms" in text
    assert "…" not in text


def test_columns_that_do_not_fit_are_announced():
    text = _printed(rows_table("Operators", _ROWS, 40), 40)
    assert "more columns fit a wider terminal or --json" in " ".join(text.split())


def test_the_first_columns_are_those_asked_for():
    headers = [c.header for c in rows_table("", _ROWS, 140, ["name", "time_share"]).columns]
    assert headers[:2] == ["name", "time\nshare"]


@pytest.mark.parametrize(
    ("name", "unit", "title"),
    [
        ("time_s", "s", "time"),
        ("bandwidth_bytes_per_s", "B/s", "bandwidth"),
        ("watts", "W", "watts"),
        ("designs_per_s", "/s", "designs"),
        ("traffic_bytes_per_s", "B/s", "traffic"),
        ("bound", "", "bound"),
        ("bytes_per_token", "B/token", "bytes per token"),
        ("area_mm2", "mm^2", "area"),
        ("power_density_w_per_mm2", "W/mm^2", "power density"),
        ("lifetime_years", "year", "lifetime"),
    ],
)
def test_a_name_gives_its_unit(name, unit, title):
    assert unit_and_title(name) == (unit, title)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("bound", None, "–"),
        ("fused", True, "yes"),
        ("model", {"name": "x", "batch": 3}, "name x, batch 3"),
        ("limits", {"time_per_output_token_s": 0.05}, "time per output token 50 ms"),
        ("mix", {"best_usd_per_million_tokens": 0.5}, "best price 0.5 USD/Mtoken"),
        ("pe_array", [2048, 128], "2048x128"),
        ("parts", ["a", "b"], "a, b"),
    ],
)
def test_other_values_are_printed_plainly(name, value, text):
    assert format_cell(name, value) == text


def test_names_are_broken_before_numbers_are_cut_and_a_cut_is_seen():
    table = plain_table("", ["device", "split", "time"], ["split", "time"])
    table.add_row("rtx-pro-6000-server", "1x1x128x10", "47.4 ms")
    text = _printed(table, 30)
    assert "1x1x128x10" in text and "47.4 ms" in text
    assert "1x1x128… " in _printed(table, 17)


def test_brackets_in_names_are_not_taken_for_markup():
    table = plain_table("", ["a", "b"])
    table.add_row("x", "[bold]")
    console = Console(width=40, markup=False)
    with console.capture() as captured:
        console.print(table)
    assert "[bold]" in captured.get()


def test_the_front_table_has_every_design_or_says_how_many_more(results):
    text = _printed(front_lines(results, 140, 99, tolerance=0.0), 140)
    assert f"\n{len(results.front())} " in text
    limited = _printed(front_lines(results, 140, 1, tolerance=0.0), 140)
    assert f"{len(results.front()) - 1} more" in limited
    assert "TDP" in limited


@pytest.mark.parametrize("width", [80, 140])
def test_result_tables_fit(results, width):
    for table in (front_lines(results, width), optimizers_table(results)):
        text = _printed(table, width)
        assert all(len(line) <= width for line in text.splitlines())
        assert "…" not in text


def test_a_column_that_may_break_loses_nothing_in_a_narrow_terminal():
    table = plain_table("", ["name"], (), [["several words of a cell"]])
    let_break(table.columns[0])
    shown = _printed(table, 12)
    assert " ".join(shown.split()).endswith("several words of a cell")
