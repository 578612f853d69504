"""Sessions and traces as data: what they say, what is refused, how much is reused."""

import gzip
import json

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.schema import parse_document, parse_record
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.workload import Request
from codesign.models.workload.model_library import load_model
from codesign.models.workload.request_trace import read_request_trace
from codesign.models.workload.reuse import SessionReuse, TraceReuse
from codesign.models.workload.sessions import Session, check_length, list_sessions, load_session

AGENT = """
description: an agent
n_turns: 9
shared_tokens: 500
turns:
  - {turn: 1, new_tokens: 300, generated_tokens: 50}
  - {turn: 2, new_tokens: 200, generated_tokens: 40, think_time: 4 s}
  - {turn: 7, new_tokens: 700, generated_tokens: 10, think_time: 1 min}
sources: {all: invented}
"""


def session(text=AGENT):
    return parse_record(parse_document(text, "agent.yaml"), Session)


def test_a_turn_sees_all_that_came_before_it():
    agent = session()
    assert agent.context_tokens[:3].tolist() == [500, 850, 1090]
    assert agent.longest_tokens == 500 + 350 + 5 * 240 + 3 * 710


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "turn: 7",
            "turn: 2",
            r"agent.yaml:5: turns: expected turns in order from 1, got \[1, 2, 2",
        ),
        ("turn: 1,", "turn: 3,", "expected turns in order from 1"),
        ("4 s", "-4 s", "think_time: .*greater than or equal to 0"),
        ("n_turns: 9", "n_turns: 6", "n_turns: expected at least turn 7, got 6"),
        (
            "shared_tokens: 500",
            "n_prefixes: 3",
            "n_prefixes: needs shared_tokens, the length of a prefix",
        ),
        ("new_tokens: 200", "new_tokens: 0", "new_tokens"),
    ],
)
def test_a_session_that_does_not_fit_is_refused(old, new, message):
    with pytest.raises(InputError, match=message):
        session(AGENT.replace(old, new))


def test_a_session_longer_than_the_context_of_the_model_is_refused():
    check_length(8192, load_model("llama-3-8b"))
    with pytest.raises(InputError, match="the 8,192 tokens of llama-3-8b's context, got 9,"):
        check_length(9000, load_model("llama-3-8b"))
    tokens = {"phase": "decode", "prompt_tokens": 8000, "generated_tokens": 193}
    with pytest.raises(ValueError, match=r"prompt_tokens: expected .* beyond_context"):
        Request(model="llama-3-8b", **tokens)
    with pytest.raises(ValueError, match="trace: expected at most the 8,192 tokens"):
        SystemWorkload(model="llama-3-8b", trace="osworld")
    beyond = Request(model="llama-3-8b", beyond_context=True, **tokens)
    assert "beyond_context" not in beyond.model_dump()  # what was stored keeps its definition


def test_every_shipped_session_says_where_its_numbers_are_from():
    for name in list_sessions():
        sources = load_session(name).sources
        assert {"new_tokens", "generated_tokens", "shared_tokens"} <= sources.keys()
    with pytest.raises(InputError, match=r"unknown session 'coding'. Did you mean 'coding-agent'"):
        load_session("coding")


def test_classes_of_turns_have_the_sums_of_all_turns_and_of_their_squares():
    agent = load_session("coding-agent")
    classes = SessionReuse(agent).classes
    for power in (0, 1, 2):
        whole = (agent.context_tokens**power).sum()
        assert classes.total(classes.context_tokens**power) == pytest.approx(whole, rel=1e-9)


def test_all_contexts_are_found_where_everything_fits_and_none_where_nothing_does():
    for name in list_sessions():
        reuse = SessionReuse(load_session(name))
        shares = reuse.hit_shares(np.array([0.0, 1e15]), np.array([8.0, 8.0]))
        assert (shares[:, 0] == 0).all()
        np.testing.assert_allclose(shares[:, 1], 1.0, atol=1e-6)


def lines(*rows):
    return "\n".join(json.dumps(row) for row in rows)


def row(time, tokens, hashes):
    return {"timestamp": time, "input_length": tokens, "output_length": 9, "hash_ids": hashes}


def test_a_trace_is_found_as_a_cache_that_is_replayed_finds_it(tmp_path):
    rng = np.random.default_rng(0)
    chains = [[0, 1 + a, 10 + 4 * a + b, 100 + 16 * a + 4 * b + c]
              for a, b, c in rng.integers(0, 4, (300, 3)).tolist()]  # fmt: skip
    rows = [row(i, 512 * 4 - 7, chain) for i, chain in enumerate(chains)]
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(lines(*rows).encode()))
    trace = read_request_trace(path)
    distances, tokens, _ = trace.reuse()
    for capacity in (1, 3, 10, 25, 60):
        held, found = [], 0
        for i, block in enumerate(trace.hash_ids.tolist()):
            if block in held:
                found += 505 if i % 4 == 3 else 512
                held.remove(block)
            held = [*held, block][-capacity:]
        assert tokens[distances <= capacity].sum() == found
    reuse = TraceReuse(trace)
    found = reuse.classes.turns * reuse.classes.context_tokens
    shares = reuse.hit_shares(np.array([1e9]), np.array([1.0]))[:-1, 0]
    asked = reuse.classes.total(reuse.classes.context_tokens + reuse.classes.new_tokens)
    whole = tokens[np.isfinite(distances)].sum() / tokens.sum()
    assert found @ shares / asked == pytest.approx(whole, abs=0.002)


def test_a_file_that_is_not_packed_as_its_name_says_is_refused(tmp_path):
    path = tmp_path / "trace.jsonl.gz"
    path.write_text("{}")
    with pytest.raises(InputError, match="expected lines of JSON: Not a gzipped file"):
        read_request_trace(path)


def test_a_diffusion_model_has_no_cached_tokens():
    with pytest.raises(ValueError, match="llada-8b keeps no cache between passes"):
        Request(model="llada-8b", phase="prefill", prompt_tokens=9, generated_tokens=1,
                cached_tokens=4)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "trace.jsonl:1: expected a JSON object"),
        ("[1]", "expected a JSON object, got .1."),
        (
            lines({"timestamp": 0, "output_length": 2, "hash_ids": []}),
            "trace.jsonl:1: input_length: ",
        ),
        (lines(row(5, 9, [0]), row(3, 9, [0])), r":2: timestamp: expected times that do not fall"),
        (lines(row(0, 600, [0])), "hash_ids: expected 2 hashes, one for each block of 512 of 600"),
        (lines(row(0, 0, [])), "trace.jsonl:1: input_length: .*greater than or equal to 1"),
        (lines(row(0, 9, ["a"])), "trace.jsonl:1: hash_ids.0: .*valid integer"),
        (
            lines(row(0, 1030, [3, 4, 5]), row(1, 1024, [7, 4])),
            ":2: hash_ids: block 4: expected 512 tokens that follow block 3, as at its first use, "
            "got 512 tokens that follow block 7",
        ),
        (
            lines(row(0, 600, [3, 4]), row(1, 700, [3, 4])),
            "block 4: expected 88 tokens that follow block 3, as at its first use, got 188 tokens",
        ),
        (lines(row(0, 1024, [3, 3])), "block 3: expected 512 tokens that follow no block"),
        ("", "expected at least one request"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_request_trace(path)
    assert len(caught.value.problems) == 1
