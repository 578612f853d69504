"""The sheet says how sure the worth of a limit is."""

from types import SimpleNamespace

import pytest

from codesign.base.metrics import ALL_METRICS
from codesign.report import meeting_sheet


@pytest.mark.parametrize(("is_exact", "word"), [(True, ""), (False, " (best known)")])
def test_a_worth_that_is_not_proven_is_said_to_be_known(is_exact, word, monkeypatch):
    step = {"limit": "TDP ≤ 80 W instead of 90 W", "change": [-0.12, 0.0], "is_exact": is_exact}
    monkeypatch.setattr(meeting_sheet, "limit_document", lambda *_, **__: {"steps": [step]})
    names = ("throughput_tokens_per_s", "tdp_watts")
    objectives = [SimpleNamespace(metric=ALL_METRICS[name]) for name in names]
    results = SimpleNamespace(problem=SimpleNamespace(objectives=objectives))
    text = f"TDP ≤ 80 W instead of 90 W: best throughput −12 %{word}"
    assert list(meeting_sheet._worth(results, True)) == [text]
