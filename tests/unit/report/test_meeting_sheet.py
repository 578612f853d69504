"""The sheet says how sure the shadow price of a limit is, and what would flip the choice."""

from types import SimpleNamespace

import pytest

from codesign.base.metrics import ALL_METRICS
from codesign.report import meeting_sheet
from codesign.space import parse_space


@pytest.mark.parametrize(("is_exact", "word"), [(True, ""), (False, " (best known)")])
def test_a_worth_that_is_not_proven_is_said_to_be_known(is_exact, word, monkeypatch):
    step = {"limit": "TDP ≤ 80 W instead of 90 W", "change": [-0.12, 0.0], "is_exact": is_exact}
    monkeypatch.setattr(meeting_sheet, "limit_document", lambda *_, **__: {"steps": [step]})
    names = ("throughput_tokens_per_s", "tdp_watts")
    objectives = [SimpleNamespace(metric=ALL_METRICS[name]) for name in names]
    results = SimpleNamespace(problem=SimpleNamespace(objectives=objectives))
    text = f"TDP ≤ 80 W instead of 90 W: best throughput −12 %{word}"
    assert list(meeting_sheet._shadow_prices(results, True)) == [text]


def test_the_smallest_change_that_flips_a_decision_comes_first_and_once():
    change = {"technology": "hbm4", "number": "price", "low": 1e-8, "typical": 2e-8, "high": 4e-8}
    near, far = (
        SimpleNamespace(
            changes=[SimpleNamespace(**change, value=value)], share=share, design={"banks": 2}
        )
        for value, share in ((3e-8, 0.5), (1e-8, 1.0))
    )
    decision = SimpleNamespace(flip=near, flips_by_one=[far, near])
    broken = SimpleNamespace(change=SimpleNamespace(**change, value=2.4e-8), limit="W", share=0.2)
    decided = SimpleNamespace(decisions=[decision], design={"banks": 1}, limits=[broken])
    problem = SimpleNamespace(space=parse_space("parameters: {banks: [1, 2]}"))
    lines = meeting_sheet.flip_lines(decided, SimpleNamespace(problem=problem))
    assert [line.partition(" (")[0] for line in lines] == [
        "HBM4 price above 24 USD/GB", "HBM4 price above 30 USD/GB", "HBM4 price below 10 USD/GB"
    ]  # fmt: skip
    assert lines[0].endswith(" (typical 20, range 10 to 40): breaks W")
    assert lines[1].endswith(" (typical 20, range 10 to 40): banks 1 → 2")
