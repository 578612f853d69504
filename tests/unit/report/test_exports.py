"""Exports are read again by the tools they are meant for."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from codesign.base import plugins
from codesign.base.errors import InputError
from codesign.base.records import drop_none
from codesign.base.schema import read_document
from codesign.report import exports
from codesign.report.frames import results_frame

FORMATS = {
    "csv": exports.write_csv,
    "json": exports.write_json,
    "yaml": exports.write_yaml,
    "parquet": exports.write_parquet,
    "xlsx": exports.write_excel,
    "markdown": exports.write_markdown,
    "optuna": exports.write_optuna,
}


def test_the_formats_are_registered_by_entry_point():
    assert {name: plugins.load("exports", name) for name in FORMATS} == FORMATS


def _assert_frame_has_the_observations(frame, results, positions):
    assert frame["throughput_tokens_per_s"].tolist() == pytest.approx(
        results.metrics["throughput_tokens_per_s"][positions].tolist(), rel=1e-14, nan_ok=True
    )
    assert frame["step"].tolist() == results.step[positions].tolist()
    assert frame["optimizer"].tolist() == [
        results.runs[index].optimizer for index in results.run_index[positions]
    ]
    limit = results.violations["tdp_watts <= 700"][positions]
    assert frame["violation.tdp_watts <= 700"].to_numpy() == pytest.approx(limit, nan_ok=True)


@pytest.mark.parametrize("scope", ["front", "all"])
def test_pandas_reads_the_csv_as_it_was_written(results, tmp_path, scope):
    path = exports.write_csv(results, tmp_path / "out.csv", scope)
    positions = results.front() if scope == "front" else np.arange(16)
    frame = pd.read_csv(path)
    _assert_frame_has_the_observations(frame, results, positions)


def test_the_csv_quotes_and_leaves_missing_values_empty(results, tmp_path):
    path = exports.write_csv(results, tmp_path / "out.csv", "all")
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert lines[5]["reason"] == results.reasons[5]
    assert lines[5]["tdp_watts"] == ""
    assert lines[0]["tier1_technology"] == ""
    assert lines[1]["pe_array"] == "x".join(
        map(str, results.problem.space.decode(results.rows)[1]["pe_array"])
    )
    assert [line["step"] for line in lines[:5]] == ["0", "1", "2", "3", "0"]


@pytest.mark.parametrize("scope", ["front", "all"])
def test_pyarrow_and_pandas_read_the_parquet(results, tmp_path, scope):
    path = exports.write_parquet(results, tmp_path / "out.parquet", scope)
    positions = results.front() if scope == "front" else np.arange(16)
    _assert_frame_has_the_observations(pd.read_parquet(path), results, positions)
    metadata = pq.read_schema(path).metadata
    assert json.loads(metadata[b"codesign"])["reference_point"] == results.reference_point


@pytest.mark.parametrize("scope", ["front", "all"])
def test_the_json_is_one_document_without_nan(results, tmp_path, scope):
    def refuse(text):
        raise AssertionError(text)

    path = exports.write_json(results, tmp_path / "out.json", scope)
    document = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    positions = results.front() if scope == "front" else np.arange(16)
    assert [item["hypervolume"] for item in document["observations"]] == (
        results.hypervolume[positions].tolist()
    )
    assert document["campaign"] == "by-hand"
    assert document["reference_point"] == results.reference_point
    assert document["objectives"]["tdp_watts"] == "minimize"


def test_the_json_of_an_empty_scope_is_still_a_document(results, with_observations, tmp_path):
    nothing = with_observations(results, feasible=np.zeros(16, dtype=bool))
    path = exports.write_json(nothing, tmp_path / "out.json", "front")
    assert json.loads(path.read_text(encoding="utf-8"))["observations"] == []


def test_a_failed_observation_is_null_with_its_reason_in_the_json(results, tmp_path):
    path = exports.write_json(results, tmp_path / "out.json", "all")
    failed = json.loads(path.read_text(encoding="utf-8"))["observations"][5]
    assert failed["metrics"]["tdp_watts"] is None
    assert failed["failed"] is True
    assert failed["reason"] == results.reasons[5]


def test_any_yaml_reader_and_ours_read_the_same_designs(results, tmp_path):
    path = exports.write_yaml(results, tmp_path / "out.yaml", "front")
    theirs = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert read_document(path).data == theirs
    decoded = results.problem.space.decode(results.rows[results.front()])
    expected = [
        {name: list(value) if isinstance(value, tuple) else value for name, value in item.items()}
        for item in decoded
    ]
    assert [item["values"] for item in theirs["designs"].values()] == [
        drop_none(item) for item in expected
    ]
    assert theirs["designs"].keys() == theirs["results"].keys()


def test_the_yaml_is_what_pyyaml_writes(results, tmp_path):
    results.reasons[5] = "no: 'quoted', # and a \"long\" line\nof two, " + "word " * 40
    results.metrics["tdp_watts"][0] = 1e22
    text = exports.write_yaml(results, tmp_path / "out.yaml", "all").read_text(encoding="utf-8")

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data):
            return True

    Dumper.add_representer(
        list, lambda dumper, data: dumper.represent_sequence(
            "tag:yaml.org,2002:seq", data,
            flow_style=not any(isinstance(item, list | dict) for item in data),
        ),
    )  # fmt: skip
    theirs = yaml.dump(yaml.safe_load(text), Dumper=Dumper, sort_keys=False, allow_unicode=True,
                       width=100)  # fmt: skip
    assert text == theirs
    assert yaml.safe_load(text)["results"]["all-1"]["metrics"]["tdp_watts"] == 1e22


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_results_give_the_same_bytes(results, tmp_path, name):
    once = FORMATS[name](results, tmp_path / "a", "all").read_bytes()
    assert FORMATS[name](results, tmp_path / "b", "all").read_bytes() == once


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(
    results, tmp_path, name, monkeypatch
):
    path = tmp_path / "out"
    path.write_text("old", encoding="utf-8")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="out: cannot be written: No space left on device"):
        FORMATS[name](results, path, "all")
    assert [item.name for item in tmp_path.iterdir()] == ["out"]
    assert path.read_text(encoding="utf-8") == "old"


def test_a_failed_observation_is_a_failed_trial_with_its_reason(results, tmp_path):
    optuna = pytest.importorskip("optuna")
    path = str(exports.write_optuna(results, tmp_path / "out.journal", "all"))
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))
    study = optuna.load_study(study_name="by-hand, random, seed 1", storage=storage)
    failed = study.trials[1]
    assert failed.state.name == "FAIL"
    assert failed.user_attrs["reason"] == results.reasons[5]
    assert [trial.state.name for trial in study.trials].count("COMPLETE") == 3


def test_text_that_looks_like_a_formula_stays_text_in_excel(results, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    results.reasons[5] = "=1+1"
    path = exports.write_excel(results, tmp_path / "out.xlsx", "all")
    sheet = openpyxl.load_workbook(path)["observations"]
    header = [cell.value for cell in sheet[1]]
    cell = sheet.cell(row=7, column=header.index("reason") + 1)
    assert (cell.value, cell.data_type) == ("=1+1", "s")
    assert sheet.cell(row=7, column=header.index("TDP [W]") + 1).value is None


def test_text_that_looks_like_a_formula_stays_text_in_a_csv(results, tmp_path):
    results.reasons[5] = "=1+1"
    path = exports.write_csv(results, tmp_path / "out.csv", "all")
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert lines[5]["reason"] == "'=1+1"


def test_more_observations_than_a_sheet_has_lines_are_refused(results, tmp_path, monkeypatch):
    monkeypatch.setattr("codesign.report.exports.observation_tables.MOST_EXCEL_ROWS", 16)
    with pytest.raises(InputError, match="a sheet of Excel holds 15 observations, got 16; csv"):
        exports.write_excel(results, tmp_path / "out.xlsx", "all")
    assert not list(tmp_path.iterdir())


def test_an_unknown_scope_is_refused(results, tmp_path):
    with pytest.raises(InputError, match=r"unknown scope 'fornt'\. Did you mean 'front'"):
        exports.write_csv(results, tmp_path / "out.csv", "fornt")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_refused_as_a_file(results, tmp_path):
    with pytest.raises(InputError, match="is a folder, expected a file"):
        exports.write_csv(results, tmp_path, "all")


def test_the_frame_has_one_row_per_observation(results):
    frame = results_frame(results)
    assert len(frame) == 16
    assert frame["failed"].sum() == 1
    assert len(results_frame(results, "front")) == len(results.front())
