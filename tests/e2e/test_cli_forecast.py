"""``codesign forecast`` as a user types it, and the campaign that searches with it."""

import json
from pathlib import Path

import pytest

from codesign.cli import main

_MACHINE = ["--tops", "50", "--gbps", "256"]
_LLAMA = ["forecast", "llama-2-7b"]


def document(capsys, *words):
    assert main([*_LLAMA, *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_prefill_of_life_is_that_of_table_6(capsys):
    # LIFE Table 6, Ryzen 9 HX 370: 29.29 TOPs in 89.74 s at 0.3264 TOPS; twice that at half.
    words = ["--tops", "0.3264", "--gbps", "240", "--convention", "life", "--prompt-tokens", "2048"]
    one = document(capsys, *words)
    assert one["metrics"]["time_to_first_token_s"] == pytest.approx(89.74, abs=0.02)
    assert one["prefill"]["totals"]["ops"] == pytest.approx(29.2941e12, abs=5e7)
    half = document(capsys, *words, "--option", "compute_efficiency=0.5")
    assert half["metrics"]["time_to_first_token_s"] == pytest.approx(179.47, abs=0.04)


def test_a_decode_of_life_is_that_of_table_10(capsys):
    # LIFE Table 10, iGPU: 33.4 tokens/s at half of 256 GB/s after 128 tokens.
    counts = ["--prompt-tokens", "128", "--generated-tokens", "390", "--variant", "bf16-int4"]
    one = document(
        capsys, *_MACHINE, *counts, "--convention", "life", "--option", "memory_efficiency=50 %"
    )
    assert one["metrics"]["tokens_per_s_per_user"] == pytest.approx(33.4, abs=0.05)


def test_the_generation_slows_as_the_cache_grows(capsys):
    steps = document(capsys, *_MACHINE, "--timeline", "5")["timeline"]
    assert [step["token"] for step in steps] == [1, 65, 128, 192, 256]
    times = [step["time_per_output_token_s"] for step in steps]
    assert times == sorted(times) and times[0] < times[-1]


def test_the_heat_map_has_the_machine_in_it(capsys):
    found = document(capsys, *_MACHINE, "--heat-map")
    ratio = found["ratios"]["ratio"][4][4]  # once the peak, once the bandwidth
    assert ratio == pytest.approx(found["prefill"]["compute_s"] / found["prefill"]["memory_s"])
    assert len(found["ratios"]["ratio"]) == len(found["ratios"]["ratio"][0]) == 10


def test_a_datasheet_gives_what_is_left_out(capsys):
    sheet = document(capsys, "--on", "v100-sxm", "--variant", "fp16-fp16")["machine"]
    assert sheet["bandwidth_bytes_per_s"] == 900e9
    own = document(capsys, "--on", "v100-sxm", "--gbps", "100")["machine"]
    assert own["bandwidth_bytes_per_s"] == 100e9
    assert own["peak_ops_per_s"] == sheet["peak_ops_per_s"]


def test_a_bandwidth_is_in_the_unit_of_the_profile(capsys):
    for words, unit, expected in (
        ([], "GB", 256e9),
        (["--convention", "life"], "GiB", 256 * 2.0**30),
    ):
        found = document(capsys, *_MACHINE, *words)["machine"]
        assert found["bandwidth_bytes_per_s"] == expected
        assert main([*_LLAMA, *_MACHINE, *words]) == 0
        assert f"50 TOPS, 256 {unit}/s" in capsys.readouterr().out


def test_tokens_per_second_say_whose_they_are(capsys):
    metrics = document(capsys, *_MACHINE, "--batch", "4")["metrics"]
    assert metrics["throughput_tokens_per_s"] == 4 * metrics["tokens_per_s_per_user"]
    assert main([*_LLAMA, *_MACHINE, "--batch", "4"]) == 0
    shown = capsys.readouterr().out
    for name, words in (
        ("tokens_per_s_per_user", "generated tokens per user"),
        ("throughput_tokens_per_s", "generated tokens in all"),
    ):
        (line,) = (line for line in shown.splitlines() if line.startswith(words))
        assert line.split()[-2] == f"{metrics[name]:.4g}"
    assert "no prefill is in" in shown


def test_tables_are_printed_for_people(capsys):
    words = [*_MACHINE, "--timeline", "3", "--heat-map", "--option", "lora=inline"]
    assert main([*_LLAMA, *words]) == 0
    out = capsys.readouterr().out
    for text in ("time to first token", "gate_up_projection", "Generation", "Merging", "TOPS"):
        assert text in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tops", "5"], "expected --gbps, or --on with a device"),
        (["--tops", "0", "--gbps", "5"], "--tops: expected a finite number above 0, got 0"),
        (["--tops", "inf", "--gbps", "5"], "--tops: expected a finite number above 0, got inf"),
        (["--tops", "5", "--gbps", "nan"], "--gbps: expected a finite number above 0, got nan"),
        (["--on", "a100", "--batch", "999"], "too much; would fit: --batch 55, 16 devices"),
        (["--on", "h1000"], "--on: unknown device 'h1000'. Did you mean 'h100"),
        ([*_MACHINE, "--variant", "bf16-int5"], "--variant: unknown variant 'bf16-int5'"),
        (
            [*_MACHINE, "--option", "kvformat=int4"],
            "unknown key 'kvformat'. Did you mean 'kv_format'",
        ),
        (
            [*_MACHINE, "--option", "kv_format=int3"],
            "--option: kv_format: unknown number format",
        ),
        (
            [*_MACHINE, "--option", "compute_efficiency=1.2"],
            "expected a share above 0 and at most 1, got",
        ),
        (
            [*_MACHINE, "--option", "memory_efficiency=-1"],
            "expected a share above 0 and at most 1, got",
        ),
        ([*_MACHINE, "--option", "memory_efficiency=nan"], "memory_efficiency: "),
        (
            [*_MACHINE, "--option", "compute_efficiency=liner=0.5"],
            "efficiency: unknown operator 'liner'",
        ),
        (
            [*_MACHINE, "--option", "compute_efficiency=linear=0"],
            "expected a share of linear above 0",
        ),
        (
            [*_MACHINE, "--option", "dispatch_latency_s=-5 us"],
            "dispatch_latency_s: input should be greater",
        ),
        (
            [*_MACHINE, "--convention", "lif"],
            "--convention: unknown profile 'lif'. Did you mean 'life'? Known: life, plain.",
        ),
        ([*_MACHINE, "--prompt-tokens", "0"], "error: --prompt-tokens: input should be"),
        ([*_MACHINE, "--generated-tokens", "0"], "error: --generated-tokens: input should be"),
        (
            [*_MACHINE, "--option", "chunk_tokens=4096"],
            "error: --option: chunk_tokens: expected at most the prompt of 2,048 tokens, got 4,096",
        ),
        ([*_MACHINE, "--option", "attention_tile=0"], "error: --option: attention_tile: input"),
        ([*_MACHINE, "--batch", "0"], "error: --batch: input should be"),
        ([*_MACHINE, "--workload", "osword"], "error: --workload: unknown trace 'osword'"),
        ([*_MACHINE, "--workload", "bfcl", "--prompt-tokens", "9"], "--generated-tokens, got both"),
    ],
)
def test_bad_input_is_one_clear_line(words, message, capsys):
    assert main([*_LLAMA, *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert message in line


def test_the_edge_campaign_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "runs" / "forecast-edge.yaml").read_text()
    small = text.replace("budget: 100", "budget: 24").replace("seeds: 3", "seeds: 1")
    small = small.replace("[nsga2, tpe, random]", "[random]")
    (tmp_path / "edge.yaml").write_text(small.replace("forecast-edge\n", "edge\n", 1))
    assert main(["run", "edge.yaml"]) == 0
    assert main(["status", "front", "edge.yaml", "--json"]) == 0
    assert "time_to_first_token_s" in capsys.readouterr().out
