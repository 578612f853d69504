"""Devices fitted to kernels of one card: rows of an H100, and a card that the script measures."""

import json
import subprocess
import sys

import numpy as np
import pytest

from codesign.base.schema import parse_record, read_document
from codesign.cli import main
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.calibration import conformal_error
from codesign.models.machines.device.measured_card import SCRIPT, MeasuredCard
from validation.studies.measured_card import CARD_FILE, ROW_BYTES
from validation.studies.measured_rows import read_rows


def kernel_of(row):
    """A row of the H100 as the script writes it; None for rows that it does not measure."""
    kernel = {"family": "gemm", "median_us": float(row["median_us"] or 0)}
    if row["family"] == "gemm":
        return kernel | {"format": row["format"], "sizes": [int(row[name]) for name in "mnk"]}
    if row["what"] in ROW_BYTES and row["device_state"] == "operands in L2":
        n_bytes = int(row["tokens"]) * int(row["width"]) * ROW_BYTES[row["what"]]
        return kernel | {"family": "rowwise", "role": row["what"], "sizes": [n_bytes]}
    if row["family"] == "memory":
        return kernel | {"family": "stream", "sizes": [float(row["bytes_moved"])]}
    return None


@pytest.fixture(scope="module")
def card():
    """The H100's rows; of several kernels of a shape, the fastest."""
    fastest = {}
    rows = filter(None, map(kernel_of, read_rows(CARD_FILE)[0]))
    for kernel in sorted(rows, key=lambda kernel: kernel["median_us"]):
        fastest.setdefault(str(kernel | {"median_us": 0}), kernel)
    device = {"n_cores": 132, "cache": "50 MB", "capacity": "80 GB", "power": "700 W"}
    kernels = list(fastest.values())
    return {"card": "NVIDIA H100 HBM3", "day": "2026-11-27", "device": device, "kernels": kernels}


@pytest.fixture
def calibrate(card, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*flags, **changes):
        (tmp_path / "card.json").write_text(json.dumps(card | changes))
        return main(["calibrate", "card.json", *flags])

    return run


@pytest.mark.parametrize(("base", "least"), [("h100", 1.03), ("h200", 1.08), ("b200", 1.3)])
def test_kernels_that_were_not_fitted_are_predicted_from_the_right_device_and_from_wrong_ones(
    calibrate, base, least
):
    assert calibrate("--base", base) == 0
    device = load_device("calibrated.yaml")
    error = device.calibration_error
    assert error.median_before > least
    assert error.median < 1.06
    assert 0.82 < error.low < 1 < error.high < 1.22
    assert device.bandwidth == pytest.approx(3.35e12, rel=0.08)
    assert device.capacity == 80e9
    for name in ("peak", "bandwidth", "kernel_start", "sustained_fraction", "time_factors"):
        assert device.sources[name].startswith("calibrated on 2026-11-27 from card.json")


def test_answers_on_the_fitted_device_quote_its_interval(calibrate, capsys):
    assert calibrate() == 0
    assert "held-out kernels: median error factor" in capsys.readouterr().out
    words = "size llama-3-8b --on calibrated.yaml --batch 4 --use-case chat"
    assert main(words.split()) == 0
    assert "This device is calibrated: measured over predicted times" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernels": [{"family": "gemm", "sizes": [1, 2], "median_us": 3}]}, "3 numbers for gemm"),
        ({"kernels": [{"family": "stream", "sizes": [1], "median_us": np.nan}]}, "median_us"),
        (
            {"kernels": [{"family": "stream", "sizes": [1e9], "median_us": 400}]},
            "9 held-out kernels",
        ),
        ({"card": "Abacus"}, "expected a device like 'Abacus', which is not bundled"),
    ],
)
def test_a_card_that_cannot_be_used_gets_one_line(calibrate, capsys, changes, words):
    assert calibrate(**changes) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert words in lines[0]


def test_times_in_another_unit_are_refused(calibrate, card, capsys):
    rows = [row | {"median_us": row["median_us"] / 1e3} for row in card["kernels"]]
    assert calibrate(kernels=rows) == 2
    assert "and median_us in microseconds, got times that are off by" in capsys.readouterr().err
    assert calibrate("--tp", "2", "--format", "fp8") == 2
    assert "--format, --tp: expected it with the log of an engine" in capsys.readouterr().err


LINES = {
    "vllm": "Avg prompt throughput: {} tokens/s, Avg generation throughput: {} tokens/s, "
    "Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: {}%, Prefix cache hit rate: 0.0%",
    "prefill": "Prefill batch, #new-seq: {}, #new-token: {}, #cached-token: 0, token usage: 0.05, "
    "#running-req: 9, #queue-req: 0, input throughput (token/s): {}",
    "decode": "Decode batch, #running-req: {}, #token: {}, token usage: 0.08, cuda graph: True, "
    "gen throughput (token/s): {}, #queue-req: 0",
}
"""Lines of vLLM, and of SGLang."""
VLLM = (
    "vllm 0.0 366.1 2 0.3; vllm 39112.0 0.0 3 0.5; vllm 0.0 718.8 4 0.8; "
    "vllm 40105.0 0.0 5 1.1; vllm 0.0 1052.8 6 1.4; vllm 38569.0 0.0 7 1.8; "
    "vllm 0.0 1364.1 8 2.2; vllm 37498.0 0.0 9 2.7; vllm 0.0 1650.0 10 3.2; "
    "vllm 36868.0 0.0 11 3.8"
)
SGLANG = (
    "decode 2 1160 366.10; prefill 3 2010 39112.24; decode 4 3040 718.85; "
    "prefill 5 4250 40105.18; decode 6 5640 1052.75; prefill 7 7210 38568.91; "
    "decode 8 8960 1364.06; prefill 9 10890 37497.89; decode 10 13000 1650.00; "
    "prefill 11 15290 36868.20"
)
"""Rates of a card whose prefills take 1.2 times as long as an H100's, and whose steps 0.9 times."""


@pytest.mark.parametrize("rows", [VLLM, SGLANG])
def test_ten_lines_of_a_log_give_the_factors_of_both_phases(rows, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["size", "calibrate", "engine.log", "--model", "llama-3-8b", "--base", "h100"]
    lines = [LINES[name].format(*rates) for name, *rates in map(str.split, rows.split(";"))]
    short = "engine.log: expected 9 or more lines of vLLM or"
    unsized = "expected vLLM's line with 'KV cache size'" if rows == VLLM else short
    for count, message, size in (
        (10, "", "400,000"), (8, short, "400,000"), (8, unsized, ",,"),
    ):  # fmt: skip
        text = "\n".join([f"GPU KV cache size: {size} tokens", *lines[:count]])
        (tmp_path / "engine.log").write_text(text)
        assert main(words) == (2 if message else 0)
        assert message in capsys.readouterr().err
    assert main(words[:3]) == 2
    assert (
        "--model and --base: expected the language model and the device" in capsys.readouterr().err
    )
    device = load_device("calibrated.yaml")
    factors = list(map(device.time_factor, ("prefill", "decode")))
    assert factors == pytest.approx([1.2, 0.9], rel=0.1)
    assert device.calibration_error.median < 1.05 < device.calibration_error.median_before


def test_requests_beyond_a_models_context_are_refused_in_a_log(tmp_path, capsys):
    path = tmp_path / "engine.log"
    path.write_text(f"KV cache size: {10**30}\n" + LINES["vllm"].format(0.0, 1.0, 2, 0.3))
    assert main(["calibrate", f"{path}", "--model", "llama-3-8b", "--base", "h100"]) == 2
    assert "requests of fewer than the 8,192 tokens" in capsys.readouterr().err


def test_an_interval_covers_nine_tenths_of_new_errors():
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(400):
        errors = conformal_error(old := rng.standard_t(3, 30) * 0.05, old)
        inside.append(errors["low"] <= np.exp(rng.standard_t(3) * 0.05) <= errors["high"])
    assert 0.86 < np.mean(inside) < 0.95


def test_the_script_writes_what_calibrate_reads(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", "--script", "measure.py"]) == 0
    assert (tmp_path / "measure.py").read_text() == SCRIPT.read_text()
    assert "from codesign" not in SCRIPT.read_text()  # cards have PyTorch alone
    command = [sys.executable, "measure.py", "card.json", "--device", "cpu"]
    subprocess.run(command, check=True, capture_output=True)
    measured = parse_record(read_document("card.json"), MeasuredCard)
    assert {kernel.family for kernel in measured.kernels} == {
        "gemm", "attention", "rowwise", "stream"
    }  # fmt: skip
    assert sum(kernel.is_hot for kernel in measured.kernels) == 1
    assert sum(not kernel.median_us for kernel in measured.kernels) == 16  # two layers of nine
    assert main(["calibrate"]) == 2
    assert "--script FILE writes the measuring script" in capsys.readouterr().err
