"""Throughput at saturation that others published: the table, the predictor, and its command."""

import csv
import json
import shlex
from pathlib import Path

import pytest

from codesign.base.errors import InputError
from codesign.cli import main
from validation.studies.measured_rows import read_rows
from validation.studies.request_cases import LeftOutError
from validation.studies.saturation import (
    MOST_REQUESTS,
    PEER_FILE,
    THROUGHPUT_FILE,
    compare,
    read_case,
    run,
)
from validation.studies.study import DATA

REPOSITORY = Path(__file__).parents[4]
with THROUGHPUT_FILE.open(encoding="utf-8") as _file:
    PUBLISHED = {row["id"]: row for row in csv.DictReader(_file)}


def published(**cells):
    """Rows of the shipped table with these cells."""
    return [row for row in PUBLISHED.values() if cells.items() <= row.items()]


def write(path, rows):
    with path.open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def case_of(**cells):
    (row,) = published(**cells)
    return read_case(row)


LLAMA = {"engine": "TensorRT-LLM 0.17", "model": "llama-3.1-70b", "device": "H100 SXM"}
SHORT = {"prompt_tokens": "1000", "generated_tokens": "1000"}


@pytest.mark.slow
def test_dense_models_keep_what_is_promised_and_no_row_beats_its_roofline():
    study = run()
    kept = {target["what"]: target["is_met"] for target in study.targets}
    assert all(kept.values())
    assert len(study.rows) + 45 == len(PUBLISHED)
    assert all(row["reference"] < row["roofline"] for row in study.rows)


def test_aisimulate_is_asked_published_rows_at_our_batch_and_may_refuse():
    questions = read_rows(DATA / "aisimulate_questions.csv")[0]
    answers = read_rows(PEER_FILE)[0]
    assert [row["id"] for row in questions] == [row["id"] for row in answers]
    assert all(bool(row["tokens_per_s"]) != bool(row["refusal"]) for row in answers)
    for question in questions[::9]:
        case = read_case(PUBLISHED[question["id"]])
        stages = case.degrees["--ep"] * case.degrees["--pp"]
        asked = [int(question[name]) for name in ("isl", "osl", "tp_size", "batch_size")]
        batch = max(round(case.batch / stages), 1)
        assert asked == [case.prompt, case.generated, case.degrees["--tp"], batch]


def test_every_row_is_read_or_says_why_it_is_left_out():
    reasons = set()
    for row in PUBLISHED.values():
        try:
            case = read_case(row)
        except LeftOutError as error:
            reasons.add(str(error))
            continue
        assert case.tokens_per_s > 0 and case.source.count("@") == 1
    assert len(reasons) == 2
    assert len({tuple(list(row.values())[1:-1]) for row in PUBLISHED.values()}) == len(PUBLISHED)


@pytest.mark.parametrize(
    "cells",
    [
        {**LLAMA, **SHORT, "tensor_parallel": "2"},
        {**LLAMA, **SHORT, "tensor_parallel": "2", "device": "A100 SXM 80GB"},
        {**LLAMA, **SHORT, "tensor_parallel": "1", "device": "gh200-96gb"},
        {"engine": "MLPerf 4.1", "device": "H100 SXM", "model": "llama-2-70b"},
        {
            "engine": "TensorRT-LLM 1.0", "model": "llama-3.3-70b", **SHORT,
            "device": "RTX PRO 6000 Server", "pipeline_parallel": "2",
        },
        {"engine": "TensorRT-LLM after 1.0", "model": "deepseek-v3", **SHORT, "device": "H200 SXM"},
    ],
)  # fmt: skip
def test_a_prediction_is_what_its_command_prints(cells, capsys, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    case = case_of(**cells)
    assert main([*shlex.split(case.command())[1:], "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["instance"]["metrics"]["output_tokens_per_s"]
    assert printed == pytest.approx(case.predict(), rel=1e-12)


def test_as_many_requests_run_as_memory_the_queue_and_the_engine_allow():
    held = case_of(**LLAMA, **SHORT, tensor_parallel="2")
    assert held.batch == held.evaluator.most_requests(held.design) < held.requests
    queued = case_of(
        engine="TensorRT-LLM 1.0", model="llama-4-maverick", device="B200 SXM",
        prompt_tokens="1000", generated_tokens="2000",
    )  # fmt: skip
    assert queued.batch == queued.requests
    limited = case_of(
        engine="TensorRT-LLM 0.17", model="llama-3.1-8b", device="H200 SXM",
        prompt_tokens="128", generated_tokens="128",
    )  # fmt: skip
    assert limited.batch == MOST_REQUESTS < limited.evaluator.most_requests(limited.design)
    replicated = case_of(engine="MLPerf 4.1", device="H200 SXM")
    assert replicated.batch % 8 == 0


def test_a_table_of_ones_own_is_compared_and_says_what_it_leaves_out(tmp_path):
    (row,) = published(**LLAMA, **SHORT, tensor_parallel="4")
    changed = [
        {"left_out": "why not"},
        {"format": "fp6"},
        {"model": "llama-9"},
        {"prompt_tokens": ""},
    ]
    rows = [row, *(row | {"tensor_parallel": "4"} | change for change in changed)]
    study = compare(write(tmp_path / "own.csv", rows))
    assert len(study.rows) == 1
    notes = " ".join(study.notes)
    for words in (
        "why not",
        "format 'fp6' is not one of fp16",
        "'llama-9'",
        "prompt_tokens is not",
    ):
        assert words in notes
    with pytest.raises(InputError, match="why not"):
        compare(write(tmp_path / "none.csv", [row | {"left_out": "why not"}]))
    crowded = row | {"tensor_parallel": "1", "format": "fp16"}
    with pytest.raises(InputError, match="no request fits NVIDIA H100"):
        compare(write(tmp_path / "crowded.csv", [crowded]))
