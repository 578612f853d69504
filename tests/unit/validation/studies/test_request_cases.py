"""Rows of tables of measured requests, and why some are left out."""

import csv
from pathlib import Path

import pytest

from codesign.base.errors import InputError
from validation.studies.request_cases import (
    CALIBRATION_FILE,
    DEPLOYMENTS_FILE,
    SPLITWISE_FILE,
    LeftOut,
    RequestCase,
    find_model,
    read_requests,
)

CALIBRATION = {
    "kind": "e2e", "device": "H100 SXM", "n_devices": "8", "parallelism": "TP=4 PP=2",
    "model": "Llama-2-7b-chat-hf", "precision": "fp16", "batch": "2", "prompt": "128",
    "output": "32", "metric": "TTFT", "value": "12", "unit": "ms", "source": "nobody",
}  # fmt: skip
SPLITWISE = {
    "device": "A100 80GB", "model": "Llama-2-70b", "tp": "4", "batch": "2", "prompt_tokens": "512",
    "output_tokens": "128", "prefill_s": "0.2", "token_s": "0.04", "power_capped": "0",
    "source": "nobody",
}  # fmt: skip
DEPLOYMENT = {
    "model": "DeepSeek-V3", "device": "H800", "phase": "decode", "tensor_parallel": "2",
    "expert_parallel": "16", "batch_per_device": "32", "micro_batches": "2",
    "prompt_tokens": "4096", "generated_tokens": "1", "weight_format": "fp8",
    "activation_format": "fp8", "kv_format": "bf16", "overlap": "yes",
    "tokens_per_s_per_device": "2000", "infersim_tokens_per_s_per_device": "", "left_out": "",
    "source": "nobody", "settings": "[ours]",
}  # fmt: skip
TABLES = {"calibration": CALIBRATION, "splitwise": SPLITWISE, "deployment": DEPLOYMENT}


def read(tmp_path, table, **changes):
    row = TABLES[table] | changes
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    return read_requests(path)


def only(entries):
    assert len(entries) == 1
    assert isinstance(entries[0], RequestCase)
    return entries[0]


def test_a_row_of_the_calibration_table_says_what_ran_in_seconds(tmp_path):
    case = only(read(tmp_path, "calibration"))
    assert case.quantity == "TTFT"
    assert case.value == pytest.approx(0.012)
    assert (case.device.key, case.model) == ("h100-sxm", "llama-2-7b")
    assert (case.batch, case.prompt, case.output) == (2, 128, 32)
    assert (case.tensor_parallel, case.pipeline_parallel) == (4, 2)
    assert (case.formats, case.engine) == (("bf16", "bf16", "bf16"), "graphs")
    assert (case.expert_parallel, case.overlap, case.infersim) == (1, False, None)


def test_rows_of_single_operators_are_no_requests(tmp_path):
    assert read(tmp_path, "calibration", kind="gemm") == []


def test_a_row_of_splitwise_is_a_first_token_and_a_later_one(tmp_path):
    first, later = read(tmp_path, "splitwise")
    assert isinstance(first, RequestCase)
    assert isinstance(later, RequestCase)
    assert (first.quantity, first.value) == ("TTFT", 0.2)
    assert (later.quantity, later.value) == ("TPOT", 0.04)
    assert (first.device.key, first.engine) == ("a100-sxm-80gb", "eager")


def test_a_deployment_is_one_micro_batch_of_all_devices(tmp_path):
    case = only(read(tmp_path, "deployment", infersim_tokens_per_s_per_device="2675"))
    assert (case.quantity, case.value) == ("decode tokens/s", 2000.0)
    assert case.batch == 32 * 2 * 16 // 2
    assert (case.tensor_parallel, case.expert_parallel) == (2, 16)
    assert (case.formats, case.overlap) == (("fp8", "fp8", "bf16"), True)
    assert (case.infersim, case.settings) == (2675.0, "[ours]")
    assert "TP 2, EP 16" in str(case)


@pytest.mark.parametrize(
    ("table", "changes", "reason"),
    [
        ("calibration", {"batch": ""}, "batch is not stated"),
        ("calibration", {"batch": "many"}, "batch: expected a number, got 'many'"),
        ("calibration", {"precision": "fp3"}, "unknown precision 'fp3'"),
        ("calibration", {"device": "H9000"}, "unknown device 'H9000'"),
        ("calibration", {"model": "llama-9-1t"}, "unknown language model 'llama-9-1t'"),
        ("calibration", {"unit": "fortnights"}, "unit 'fortnights' is not understood"),
        ("calibration", {"metric": "goodput"}, "metric 'goodput' of whole requests is not modeled"),
        ("calibration", {"metric": "throughput"},
         "metric 'throughput' of whole requests is not modeled"),
        ("calibration", {"metric": "throughput", "unit": "tok/s", "output": ""},
         "output is not stated"),
        ("calibration", {"value": "0"}, "expected a value above 0, got 0"),
        ("deployment", {"batch_per_device": ""}, "batch_per_device is not stated"),
        ("deployment", {"phase": "training"}, "phase 'training' is not modeled"),
        ("deployment", {"weight_format": "fp3"}, "unknown number format 'fp3'"),
        ("deployment", {"expert_parallel": "1", "tensor_parallel": "1", "batch_per_device": "3"},
         "1.5 requests of a micro-batch are no whole number"),
        ("deployment", {"left_out": "it was a rehearsal"}, "it was a rehearsal"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_predicted_says_why(tmp_path, table, changes, reason):
    (entry,) = read(tmp_path, table, **changes)
    assert entry == LeftOut(2, reason)


def test_a_file_that_is_no_such_table_is_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("kind,device\n")
    with pytest.raises(InputError, match=r"other\.csv: columns are missing: metric, model"):
        read_requests(path)
    with pytest.raises(InputError, match="cannot be read as UTF-8 text"):
        read_requests(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("llama3-8b", "llama-3-8b"),
        ("Qwen2.5-7B-Instruct", "qwen-2.5-7b"),
        ("Qwen3-32B", "qwen3-32b"),
        ("Qwen/Qwen3-8B-Base", "qwen3-8b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("Llama-3.1-70B-Instruct", "llama-3.3-70b"),
    ],
)
def test_a_model_is_found_by_the_name_that_its_publisher_gives_it(name, stem):
    assert Path(find_model(name)).name.removesuffix(".yaml") == stem


@pytest.mark.parametrize(
    ("path", "n_cases", "reasons"),
    [
        (CALIBRATION_FILE, 204, set()),
        (SPLITWISE_FILE, 100, set()),
        (DEPLOYMENTS_FILE, 11, {"batch_per_device is not stated"}),
    ],
)
def test_the_shipped_tables_are_read(path, n_cases, reasons):
    entries = read_requests(path)
    assert sum(isinstance(entry, RequestCase) for entry in entries) >= n_cases
    assert reasons <= {entry.reason for entry in entries if isinstance(entry, LeftOut)}
    assert not [
        entry for entry in entries if isinstance(entry, LeftOut) and "unknown" in entry.reason
    ]
