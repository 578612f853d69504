"""Studies as tables and as the page."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.base.errors import UnknownNameError
from validation.findings import read_finding, site_files
from validation.studies.studies import run_study
from validation.studies.study import Study, summarize
from validation.studies.validation_page import store_findings, study_tables

ROWS = [
    {"what": f"case {i}", "group": "even" if i % 2 == 0 else "odd", "reference": 100.0,
     "ours": 100.0 + i, "error": i / 100, "design": "x" * 500}
    for i in range(60)
]  # fmt: skip
STUDY = Study(
    name="trial",
    question="How far is a count from a hundred?",
    rows=ROWS,
    summary=[summarize("all", np.array([row["error"] for row in ROWS]))],
    targets=[{"what": "median error", "target": "<= 10 %", "measured": 0.295, "is_met": False}],
    notes=["a note of its own"],
)


def test_a_summary_gives_the_quantiles_of_the_errors():
    found = summarize("group", np.array([-0.3, 0.1, 0.2]))
    assert found["n"] == 3
    assert found["median_error"] == pytest.approx(0.1)
    assert found["median_absolute_error"] == pytest.approx(0.2)
    assert found["largest_absolute_error"] == pytest.approx(0.3)


def test_the_terminal_shows_the_largest_errors_the_summary_and_the_promises():
    from rich.console import Console

    console = Console(width=80, record=True)
    for table in study_tables(STUDY, 3):
        console.print(table)
    text = console.export_text()
    assert "case 59" in text
    assert "case 56" not in text
    assert "+59.0%" in text
    assert "no" in text.split("Promises")[1]
    assert "a note of its own" in text


def test_the_site_has_page_rows_and_figure_of_a_stored_finding(tmp_path):
    folder = tmp_path / "results"
    written = store_findings([STUDY], folder / "studies.json", "python -m validation trial")
    assert [path.name for path in written] == ["trial.csv", "studies.json"]
    files = site_files(folder, tmp_path / "drawings")
    assert set(files) == {"studies.md", "studies/trial.csv", "studies/trial.png"}
    page = files["studies.md"]
    assert "`python -m validation trial`" in page
    assert "| median error | <= 10 % | 0.295 | no |" in page
    header, first, *_ = (folder / "studies" / "trial.csv").read_text().splitlines()
    assert header == "what,group,reference,ours,error"
    assert first == "case 0,even,100,100,0"
    assert files["studies/trial.png"].startswith(b"\x89PNG")


def test_an_unknown_study_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown study 'kernel'.*'kernels'"):
        run_study("kernel")


def test_the_page_has_the_rows_that_explain_themselves_among_however_many(tmp_path):
    rows = [row | {"explained": "an odd case" if i == 7 else ""} for i, row in enumerate(ROWS)]
    path = tmp_path / "studies.json"
    store_findings([replace(STUDY, rows=rows)], path, "python -m validation trial")
    page = read_finding(path).page_text()
    assert "| case 7 |" in page and "| an odd case |" in page
    assert "| case 8 |" not in page
