"""The evaluator of sessions: what it refuses, and what it shows."""

import pytest

from codesign.base.errors import InputError
from codesign.base.schema import Document, to_record
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.sessions import SessionsEvaluator
from codesign.evaluators.sessions.session_workload import SessionWorkload


def workload(**keys):
    return to_record(Document("workload", keys, {}), SessionWorkload)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": "llama-3-8b"}, "expected session or trace"),
        ({"model": "llama-3-8b", "session": "chat", "trace": "a.jsonl"}, "session or trace"),
        ({"model": "llama-3-8b", "session": "coding-agent"}, "session: expected at most the 8,192"),
        ({"model": "llama-3-8b", "session": "chatt"}, "session: unknown session 'chatt'"),
        ({"model": "llama-3-8b", "trace": "none.jsonl"}, "trace: no such file: 'none.jsonl'"),
        ({"model": "llada-8b", "session": "chat"}, "expected a model with a cache, got llada-8b"),
    ],
)
def test_a_workload_that_cannot_be_served_is_refused_in_one_line(keys, message):
    with pytest.raises(InputError, match=message) as caught:
        workload(**keys)
    assert len(caught.value.problems) == 1


def test_machines_that_do_not_report_enough_are_refused(monkeypatch):
    monkeypatch.setattr(NpuEvaluator, "metrics_for_pools", frozenset({"idle_watts"}))
    with pytest.raises(InputError, match="expected machines that report dynamic_joules"):
        SessionsEvaluator(workload(model="llama-3-8b", session="chat"))
