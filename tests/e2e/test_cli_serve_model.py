"""``codesign arrivals`` and fleets of ``codesign requirements`` on real and on bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codesign.cli import main

MACHINE = ["--model", "llama-3-8b", "--device", "h100-sxm"]
TOKENS = ["--prompt-tokens", "500", "--generated-tokens", "20"]
LONG = ["--prompt-tokens", "1000000", "--generated-tokens", "1"]
DRAWN = [*TOKENS, "--requests-per-s", "5", "--requests", "40"]
LIMITS = ["--first-token", "1 s", "--output-token", "50 ms"]


def answer(capsys: Any, *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_drawn_requests_are_served_the_same_way_each_time(capsys: Any) -> None:
    results = [answer(capsys, "arrivals", *MACHINE, *DRAWN, *LIMITS) for _ in range(2)]
    assert results[0] == results[1]
    times = results[0]["times"]["time_to_first_token_s"]
    assert times["p50"] <= times["p90"] <= times["p99"]
    assert results[0]["service_level"]["attainment"] == 1.0
    assert main(["arrivals", *MACHINE, *DRAWN, *LIMITS]) == 0
    shown = capsys.readouterr().out
    for words in ("time to first token", "goodput", "busy", "100.0% of the requests"):
        assert words in shown


def test_a_trace_file_is_served_and_pools_may_be_split(capsys: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,generated_tokens\n0,100,5\n0.1,2000,1\n0.2,50,9\n")
    words = ["arrivals", *MACHINE, "--trace", str(trace)]
    joint = answer(capsys, *words)
    assert (joint["requests"], joint["seed"], len(joint["pools"])) == (3, None, 1)
    split = answer(capsys, *words, "--prefill-machines", "1", "--link-bandwidth", "1 GB/s")
    assert [pool["role"] for pool in split["pools"]] == ["prefill", "decode"]
    assert split["times"]["request_latency_s"]["p99"] > joint["times"]["request_latency_s"]["p50"]


def test_requests_that_are_all_there_are_those_of_a_trace_without_time(
    capsys: Any, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE + "0,500,20\n" * 40)
    words = ["arrivals", *MACHINE, "--reserve-answers"]
    offline = answer(capsys, *words, *TOKENS, "--at-once", "--requests", "40")
    same = answer(capsys, *words, "--trace", str(trace))
    assert offline["offered_requests_per_s"] is None and offline["seed"] is None
    assert offline["reserves_answers"] and offline["pools"][0]["preempted"] == 0
    assert [offline[key] for key in ("times", "tokens_per_s")] == [
        same[key] for key in ("times", "tokens_per_s")
    ]
    assert main([*words, *TOKENS, "--at-once"]) == 0
    assert "1,000, all at once" in capsys.readouterr().out


FOUND = ["arrivals", "--campaign", "osworld-decode"]
SMALL = ["--prompt-tokens", "300", "--generated-tokens", "4", "--requests-per-s", "2"]
FEW = [*SMALL, "--requests", "8", "--max-sequences", "4"]


def test_a_design_of_a_campaign_serves_requests_that_arrive(capsys: Any) -> None:
    alone, two = (
        answer(capsys, *FOUND, "--design", "D1", *FEW, "--machines", n) for n in ("1", "2")
    )
    assert alone["model"] == "llama-3.3-70b"
    assert alone["design"] == "osworld-decode, design D1"
    (pool,) = alone["pools"]
    assert pool["design"]["tier1_technology"] == "hbm3e_8h"
    assert two["pools"][0]["board_power_watts"] == 2 * pool["board_power_watts"]
    waits = [run["times"]["queueing_s"]["mean"] for run in (alone, two)]
    assert waits[0] > waits[1]
    assert main([*FOUND, "--design", "D1", *FEW]) == 0
    assert "osworld-decode, design D1" in capsys.readouterr().out


def test_a_fleet_has_machines_watts_and_dollars(capsys: Any) -> None:
    words = ["requirements", "--model", "llama-3-8b", *TOKENS, *LIMITS, "--device", "h100-sxm"]
    few, many = (answer(capsys, *words, "--requests-per-s", rate) for rate in ("2", "150"))
    (small,), (large,) = few["devices"], many["devices"]
    assert small["machines"] == 1 < large["machines"]
    assert small["attainment"] >= 0.9 <= large["attainment"]
    assert large["board_power_watts"] == 700.0 * large["devices"]
    assert large["rent_usd_per_hour"] == 3.0 * large["devices"]
    assert many["requests_per_s"] == 150.0 and many["users"] is None
    users = answer(capsys, *words, "--users", "10")
    assert users["devices"][0]["machines"] == 1
    assert main([*words, "--requests-per-s", "2"]) == 0
    assert "Machines, watts and dollars" in capsys.readouterr().out


TRACE = "arrival_s,prompt_tokens,generated_tokens\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TRACE + "1,5,5\n0,5,5\n", "trace.csv:3: arrival_s: expected times that do not fall"),
        (TRACE + "-1,5,5\n", "trace.csv:2: arrival_s: expected a time from 0, got -1"),
        ("arrival_s\n1\n", "trace.csv:1: no column prompt_tokens, generated_tokens"),
        (TRACE + "0,900000,5\n", "trace.csv: request 1: expected at most the"),
    ],
)
def test_a_wrong_trace_file_is_one_line(capsys: Any, tmp_path: Path, text: str, words: str) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(text)
    assert main(["arrivals", *MACHINE, "--trace", str(trace)]) == 2
    problem = capsys.readouterr().err
    assert words in problem
    assert problem.count("\n") == 1


SPLIT = ["--prefill-machines", "1"]
FLEET = ["requirements", "--model", "llama-3-8b", *TOKENS, "--device", "h100-sxm"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["arrivals", *DRAWN], "--model: expected --model and --device, or --campaign"),
        (["arrivals", *MACHINE, *DRAWN, "--design", "D1"], "expected --campaign with --design"),
        ([*FOUND, *FEW], "expected --design or --pick with --campaign"),
        ([*FOUND, "--design", "D1", *FEW, "--tp", "2"], "expected no --campaign with --tp"),
        ([*FOUND, "--design", "D1", *FEW, "--model", "x"], "expected no --campaign with --model"),
        ([*FOUND, "--design", "E1", *FEW], "E1"),
        (
            ["arrivals", "--campaign", "platform-rag", "--design", "1", *FEW],
            "--campaign: expected an evaluator with machines for one phase of a request",
        ),
        (
            ["arrivals", "--campaign", "deepseek-decode-experts", "--design", "D1x32", *FEW],
            "design: expert_parallel: expected 1 in a machine of a fleet, got 32",
        ),
        (["arrivals", *MACHINE], "expected --trace, or --requests-per-s"),
        (["arrivals", *MACHINE, *DRAWN, "--trace", "x.csv"], "got both (--prompt-tokens"),
        (["arrivals", *MACHINE, *DRAWN, "--policy", "chunk"], "Did you mean 'chunked'?"),
        (["arrivals", *MACHINE, *DRAWN, "--routing", "random"], "unknown routing 'random'"),
        (["arrivals", *MACHINE, *DRAWN, "--machines", "0"], "--machines: expected a whole number"),
        (["arrivals", *MACHINE, *DRAWN, "--at-once"], "or else --at-once with the tokens"),
        (["arrivals", *MACHINE, *LONG, "--at-once"], "--at-once: request 1: expected at most"),
        (["arrivals", *MACHINE, *DRAWN, "--prefill-tp", "2"], "expected --prefill-machines with"),
        (["arrivals", *MACHINE, *DRAWN, *SPLIT, "--link-bandwidth", "0 GB/s"], "above 0"),
        (["arrivals", *MACHINE, *DRAWN, *SPLIT, "--link-latency", "-1 s"], "a time from 0"),
        (["arrivals", *MACHINE, *DRAWN, "--memory-fraction", "2"], "--memory-fraction: expected"),
        (["arrivals", *MACHINE, *DRAWN, "--first-token", "1 s"], "--output-token: expected a time"),
        (
            ["arrivals", *MACHINE, *DRAWN, "--first-token", "1 ms", "--output-token", "1 s"],
            "no request keeps both limits; the nearest is request",
        ),
        ([*FLEET, *LIMITS, "--requests-per-s", "2", "--users", "3"], "expected one of"),
        ([*FLEET, *LIMITS, "--requests-per-s", "0"], "--requests-per-s: expected a rate above 0"),
        (
            [*FLEET, *LIMITS, "--requests-per-s", "2", "--attainment", "2"],
            "--attainment: expected a share",
        ),
        (
            [*FLEET, "--first-token", "1 ms", "--output-token", "1 s", "--requests-per-s", "2"],
            "no fleet keeps the limits; nearest: h100-sxm: a request alone: first token",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_one_line(capsys: Any, line: list[str], words: str) -> None:
    assert main(line) == 2
    problem = capsys.readouterr().err
    assert words in problem
    assert problem.count("\n") == 1
