"""The evaluator of sessions: what it refuses, and what it shows."""

import pytest

from codesign.base.errors import InputError
from codesign.base.schema import Document, parse_record
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.sessions import SessionsEvaluator
from codesign.evaluators.sessions.mix_evaluator import MixWorkload
from codesign.evaluators.sessions.session_workload import SessionWorkload


def workload(**keys):
    return parse_record(Document("workload", keys, {}), SessionWorkload)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": "llama-3-8b"}, "expected session or trace"),
        ({"model": "llama-3-8b", "session": "chat", "trace": "a.jsonl"}, "session or trace"),
        ({"model": "llama-3-8b", "session": "coding-agent"}, "session: expected at most the 8,192"),
        ({"model": "llama-3-8b", "session": "chatt"}, "session: unknown session 'chatt'"),
        ({"model": "llama-3-8b", "trace": "a", "prompt_scale": 2}, "expected a session, not a"),
        ({"model": "llama-3-8b", "trace": "none.jsonl"}, "trace: no such file: 'none.jsonl'"),
        ({"model": "llada-8b", "session": "chat"}, "expected a model with a cache, got llada-8b"),
    ],
)
def test_a_workload_that_cannot_be_served_is_refused_in_one_line(keys, message):
    with pytest.raises(InputError, match=message) as caught:
        workload(**keys)
    assert len(caught.value.problems) == 1
    with pytest.raises(InputError) as caught:
        workload(**keys | {"batch": 0, "session": "chatt"})
    assert len(caught.value.problems) == 2  # keys are checked one by one


def test_a_scaled_session_has_prompts_so_many_times_as_long_and_the_same_answers():
    stated, half = (
        workload(model="llama-3.3-70b", session="coding-agent", prompt_scale=x).reuse.classes
        for x in (1, 0.5)
    )
    assert (half.new_tokens == stated.new_tokens / 2).all()
    assert half.context_tokens[0] == stated.context_tokens[0] / 2 == 10_000


def test_machines_that_do_not_report_enough_are_refused(monkeypatch):
    monkeypatch.setattr(NpuEvaluator, "metrics_for_pools", frozenset({"idle_watts"}))
    with pytest.raises(InputError, match="expected machines that report dynamic_joules"):
        SessionsEvaluator(workload(model="llama-3-8b", session="chat"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([{}, {"share": 0.4}], "mix: expected shares that add up to 1, got 0.9"),
        ([{}, {"session": "chat"}], "expected a name of letters and digits for each"),
        ([{}, {"limits": {"tdp": 9}}], "unknown metric 'tdp'. Did you mean 'tdp_watts'"),
        ([{}, {"share": 0}], "share: .*greater than 0"),
    ],
)
def test_a_mix_that_does_not_add_up_is_refused(changes, message):
    parts = [
        {"model": "llama-3-8b", "share": 0.5, "session": session} | change
        for session, change in zip(("chat", "rag"), changes, strict=True)
    ]
    parts[1] |= {"model": "llama-3.3-70b"}
    with pytest.raises(InputError, match=message) as caught:
        parse_record(Document("workload", {"mix": parts}, {}), MixWorkload)
    assert len(caught.value.problems) == 1
