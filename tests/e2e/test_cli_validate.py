"""``python -m validation`` and ``codesign evaluate timeline`` on real input."""

import json
from pathlib import Path

import pytest

from codesign.cli import main
from validation.__main__ import main as run_validation
from validation.studies.studies import STUDIES


def test_the_help_names_every_study(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert run_validation(["studies", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert f"{', '.join(STUDIES)}; all if none" in words


def test_a_timeline_is_a_chart_and_a_trace_whose_events_fill_the_layer(tmp_path, capsys):
    words = ["--design", "Base", "--model", "llama-3-8b", "--phase", "prefill"]
    counts = ["--prompt-tokens", "256", "--output", str(tmp_path)]
    assert main(["evaluate", "timeline", *words, *counts, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    chart, trace = (Path(path) for path in shown["files"])
    assert chart.read_bytes().startswith(b"\x89PNG")
    events = [item for item in json.loads(trace.read_text())["traceEvents"] if item["ph"] == "X"]
    ends = [item["ts"] + item["dur"] for item in events if item["cat"] == "operator"]
    assert max(ends) * 1e-6 == pytest.approx(shown["time_s"])


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    words = ["--design", "Base", "--model", "llama-3-8b", "--phase", "prefill"]
    place = ["--prompt-tokens", "256", "--output", str(tmp_path / "file" / "folder")]
    assert main(["evaluate", "timeline", *words, *place]) == 2
    assert run_validation(["memexplorer", "--output", str(tmp_path / "file" / "a.json")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert all("cannot be written" in line for line in errors)


def test_a_table_of_ones_own_measurements_is_compared_with_the_shipped_constants(tmp_path, capsys):
    header = (
        "kind,device,n_devices,parallelism,model,precision,batch,prompt,output,metric,value,unit,"
        "source"
    )
    table = tmp_path / "own.csv"
    row = "e2e,a100-sxm-80gb,1,,llama-2-7b,fp16,1,512,1,TPOT,9,ms,own"
    table.write_text(f"{header}\n{row}\n{row.replace('fp16', 'fp3')}\n")
    assert run_validation(["requests", "--table", str(table)]) == 0
    shown = capsys.readouterr().out
    assert "1 rows left out: unknown precision 'fp3'." in " ".join(shown.split())
    assert "90 %" in shown
    assert "bare" in shown  # folds to "bare roofline"
    assert "InferSim" not in shown


def test_a_table_is_refused_for_studies_that_read_none(tmp_path, capsys):
    table = str(tmp_path / "none.csv")
    assert run_validation(["genz", "--table", table]) == 2
    assert run_validation(["--table", table]) == 2
    assert run_validation(["kernels", "requests", "--table", table]) == 2
    assert run_validation(["requests", "--table", table]) == 2
    first, second, third, last = capsys.readouterr().err.splitlines()
    assert (
        "--table: study genz reads no table; expected kernels, requests, arrivals or throughput"
        in first
    )
    assert "--table: expected one study, kernels, requests, arrivals or throughput" in second
    assert second == third
    assert "cannot be read as UTF-8 text" in last


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["memexplore"], ["unknown study 'memexplore'", "'memexplorer'"]),
        (["bench", "--output", "page.md"], ["--output: ", "ends in .json"]),
    ],
)
def test_a_mistake_is_answered_in_one_line(words, messages, capsys):
    assert run_validation(words) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert all(message in error for message in messages)
