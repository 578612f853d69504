"""``codesign serve-model`` on real and on bad input."""

import json

import pytest

from codesign.cli import main

MACHINE = ["llama-3-8b", "--on", "h100-sxm"]
TOKENS = ["--prompt-tokens", "500", "--generated-tokens", "20"]
LONG = ["--prompt-tokens", "8000", "--generated-tokens", "1", "--option", "memory_fraction=0.21"]
DRAWN = [*TOKENS, "--requests-per-s", "5", "--requests", "40"]
SERVED = ["serve-model", *MACHINE, *DRAWN]
LIMITS = ["--first-token", "1 s", "--output-token", "50 ms"]


def answer(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_drawn_requests_are_served_the_same_way_each_time(capsys):
    results = [answer(capsys, *SERVED, *LIMITS) for _ in range(2)]
    assert results[0] == results[1]
    times = results[0]["times"]["time_to_first_token_s"]
    assert times["p50"] <= times["p90"] <= times["p99"]
    assert results[0]["service_level"]["attainment"] == 1.0
    assert main([*SERVED, *LIMITS]) == 0
    shown = capsys.readouterr().out
    for words in ("time to first token", "goodput", "busy", "100.0% of the requests"):
        assert words in shown


def test_a_trace_file_is_served_and_pools_may_be_split(capsys, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,generated_tokens\n0,100,5\n0.1,2000,1\n0.2,50,9\n")
    words = ["serve-model", *MACHINE, "--trace", str(trace)]
    joint = answer(capsys, *words)
    assert (joint["requests"], joint["seed"], len(joint["pools"])) == (3, None, 1)
    split = answer(capsys, *words, "--prefill-machines", "1", "--option", "link_bandwidth=1 GB/s")
    assert [pool["role"] for pool in split["pools"]] == ["prefill", "decode"]
    assert split["times"]["request_latency_s"]["p99"] > joint["times"]["request_latency_s"]["p50"]


def test_attention_and_experts_apart_are_replayed_at_the_pace_of_their_size(capsys):
    tokens = ["deepseek-v3", "--on", "h200-sxm", *TOKENS[:-1], "40"]
    search = "--users 1500 --output-token 30ms --option policies=attention-ffn"
    search += " --option most_devices=32"
    sized = answer(capsys, "size", *tokens, *search.split())["deployments"][0]
    split = (
        "--ffn-on h200 --ffn-tp {tensor_parallel} --ffn-ep {expert_parallel} "
        "--overlapped-batches {overlapped_batches} --prefill-machines {batch_size} "
        "--prefill-tp 8 --at-once --requests {batch_size}"
    ).format(**sized["pools"][2])
    served = answer(capsys, "serve-model", *tokens, *split.split())
    pace_s = served["times"]["time_per_output_token_s"]["p99"]
    assert pace_s == pytest.approx(sized["time_per_output_token_s"], rel=0.001)


def test_requests_that_are_all_there_are_those_of_a_trace_without_time(capsys, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE + "0,500,20\n" * 40)
    words = ["serve-model", *MACHINE, "--option", "reserves_answers=true"]
    offline = answer(capsys, *words, *TOKENS, "--at-once", "--requests", "40")
    same = answer(capsys, *words, "--trace", str(trace))
    assert offline["offered_requests_per_s"] is None and offline["seed"] is None
    assert offline["reserves_answers"] and offline["pools"][0]["preempted"] == 0
    assert [offline[key] for key in ("times", "tokens_per_s")] == [
        same[key] for key in ("times", "tokens_per_s")
    ]
    assert main([*words, *TOKENS, "--at-once"]) == 0
    assert "1,000, all at once" in capsys.readouterr().out


FOUND = ["serve-model", "llama-3.3-70b", "--on", "osworld-decode#D1"]
SMALL = ["--prompt-tokens", "300", "--generated-tokens", "4", "--requests-per-s", "2"]
FEW = [*SMALL, "--requests", "8", "--option", "max_sequences=4"]


def test_a_design_of_a_campaign_serves_requests_that_arrive(capsys):
    alone, two = (answer(capsys, *FOUND, *FEW, "--machines", n) for n in ("1", "2"))
    assert alone["model"] == "llama-3.3-70b"
    assert alone["design"] == "osworld-decode#D1"
    (pool,) = alone["pools"]
    assert pool["design"]["tier1_technology"] == "hbm3e_8h"
    assert two["pools"][0]["board_power_watts"] == 2 * pool["board_power_watts"]
    waits = [run["times"]["queueing_s"]["mean"] for run in (alone, two)]
    assert waits[0] > waits[1]
    assert main([*FOUND, *FEW, "--tp", "2"]) == 0
    assert "osworld-decode#D1" in capsys.readouterr().out


def test_overloaded_machines_are_said_to_be_so_with_how_many_are_needed(capsys):
    words = ["serve-model", *MACHINE, *TOKENS, "--requests", "600", "--requests-per-s", "150"]
    assert main([*words, "--json"]) == 0
    printed = capsys.readouterr()
    needed = json.loads(printed.out)["machines_needed"]
    assert needed > 1
    assert f"overloaded: {needed} machines needed, got 1" in printed.err
    enough = answer(capsys, *words, "--machines", str(needed))
    assert enough["machines_needed"] is None


TRACE = "arrival_s,prompt_tokens,generated_tokens\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TRACE + "1,5,5\n0,5,5\n", "trace.csv:3: arrival_s: expected times that do not fall"),
        (TRACE + "-1,5,5\n", "trace.csv:2: arrival_s: expected a time from 0, got -1"),
        ("arrival_s\n1\n", "trace.csv:1: no column prompt_tokens, generated_tokens"),
        (TRACE + "0,900000,5\n", "--trace: expected at most the 8,192 tokens"),
    ],
)
def test_a_wrong_trace_file_is_one_line(capsys, tmp_path, text, words):
    trace = tmp_path / "trace.csv"
    trace.write_text(text)
    assert main(["serve-model", *MACHINE, "--trace", str(trace)]) == 2
    problem = capsys.readouterr().err
    assert words in problem
    assert problem.count("\n") == 1


SPLIT = ["--prefill-machines", "1"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["serve-model", MACHINE[0], *DRAWN], "--on: expected one device, such as h200"),
        ([*FOUND, *FEW, "--format", "fp8"], "expected a device with --format"),
        ([*FOUND[:3], "osworld-decode#E1", *FEW], "E1"),
        ([*FOUND[:3], "osworld-decod#1", *FEW], "unknown campaign 'osworld-decod'. Did you"),
        (
            [*FOUND[:3], "platform-rag#1", *FEW],
            "--on platform-rag#1: expected an evaluator with machines for one phase of a request",
        ),
        (
            ["serve-model", "deepseek-v3", "--on", "deepseek-decode-experts#D1x32", *FEW],
            "design: expert_parallel: expected 1 in a machine of a fleet, got 32",
        ),
        (["serve-model", *MACHINE, "--on", "l4", *DRAWN], "--on: expected one device"),
        (["serve-model", *MACHINE], "expected --trace, --session, or the tokens of a request"),
        (
            [*SERVED, "--trace", "x.csv"],
            "of --trace alone, got --prompt-tokens",
        ),
        (
            [*SERVED, "--option", "policy=chunk"],
            "policy: input should be 'chunked'",
        ),
        (
            [*SERVED, "--machines", "0"],
            "--machines: expected a whole number",
        ),
        (
            [*SERVED, "--at-once"],
            "or the tokens of a request with either --requests-per-s",
        ),
        (["serve-model", *MACHINE, *LONG, "--at-once"], "--at-once: request 1: expected at most"),
        (
            [*SERVED, "--prefill-tp", "2"],
            "expected --prefill-machines with",
        ),
        ([*SERVED, "--ffn-tp", "2"], "expected --ffn-on with --ffn-tp"),
        ([*SERVED, "--pp", "2"], "no such option: --pp; only codesign size has pipelines"),
        (
            [*SERVED, *SPLIT, "--ffn-on", "l4", "--ffn-tp", "3"],
            "--ffn-tp: expected a divisor of the MLP's width",
        ),
        (
            [*SERVED, *SPLIT, "--option", "link_bandwidth=0 GB/s"],
            "greater than 0",
        ),
        (
            [*SERVED, "--first-token", "1 s"],
            "--output-token: expected a time",
        ),
        (
            [*SERVED, "--first-token", "1 ms", "--output-token", "1 s"],
            "no request keeps both limits; the nearest is request",
        ),
    ],
)
def test_what_cannot_be_served_is_one_line(capsys, line, words):
    assert main(line) == 2
    problem = capsys.readouterr().err
    assert words in problem
    assert problem.count("\n") == 1


def test_sessions_are_served_with_caches_and_stores(capsys):
    words = ["serve-model", *MACHINE, "--session", "chat", "--sessions-per-s", "2",
             "--requests", "400", "--machines", "2"]  # fmt: skip
    alone = answer(capsys, *words, "--option", "caches_prompts=false")
    assert alone["caches"] == [] and alone["session"] == "chat"
    routed = answer(capsys, *words, "--option", "routing=session")
    assert routed["caches"][0]["hit_share"] > 0.6
    small = [*words, "--option", "memory_fraction=0.23", "--option", "max_sequences=64"]
    shares = [
        [cache["hit_share"] for cache in answer(capsys, *small, *store)["caches"]]
        for store in ([], ["--cache", "ddr5_rdimm=1", "--option", "shares_stores=true"])
    ]
    assert sum(shares[1]) > sum(shares[0]) + 0.02 and shares[1][1] > 0
    assert main([*words]) == 0
    assert "own cache" in capsys.readouterr().out


def test_a_trace_with_hashes_is_served(capsys, tmp_path):
    trace = tmp_path / "trace.jsonl"
    lines = [
        {
            "timestamp": 9000 * i,
            "input_length": 1000,
            "output_length": 3,
            "hash_ids": [1, 2 + i % 2],
        }
        for i in range(4)
    ]
    trace.write_text("\n".join(map(json.dumps, lines)))
    served = answer(capsys, "serve-model", *MACHINE, "--trace", str(trace))
    assert served["caches"][0]["hit_share"] == pytest.approx((512 + 2 * 999) / 4000)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--session chat", "--sessions-per-s: expected a rate with --session"),
        ("--session chat --trace a.csv", "expected requests of --session alone, got --trace too"),
        ("--at-once --sessions-per-s 1", "expected --session with --sessions-per-s"),
        ("--session chat --sessions-per-s 1 --cache ddr5_rdimm=x",
         "--cache ddr5_rdimm: expected a whole number from 1, got 'x'"),
        ("--session chat --sessions-per-s 1 --cache ddr9=1", "unknown memory technology 'ddr9'"),
        ("--session chat --sessions-per-s 1 --cache sram=1", "--cache: expected off-chip memory"),
        ("--session chat --sessions-per-s 1 --cache a.yaml=1", "the name of a memory, not a file"),
    ],
)  # fmt: skip
def test_sessions_that_are_not_described_are_refused(words, message, capsys):
    assert main(["serve-model", *MACHINE, *words.split()]) == 2
    assert message in capsys.readouterr().err
