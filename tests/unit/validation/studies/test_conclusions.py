"""Which of the paper's conclusions hold: on small sub-spaces, against brute force and by hand."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.insight.explanation import Variation
from codesign.insight.explanation.absence import recoded
from codesign.search.pareto import non_dominated
from validation.__main__ import main as run_validation
from validation.conclusions import CLAIMS, answer_claims, conclusions_page
from validation.conclusions.claims import (
    ACTIVATIONS_FIRST,
    HBF,
    HBM,
    HBM_AND_HBF,
    LPDDR,
    STACKED,
    STRATEGY,
    WEIGHT_STATIONARY,
)
from validation.conclusions.loss import Curve, Loss
from validation.conclusions.setting import FrontStore, Setting, problem_of, varied
from validation.conclusions.sharing import Sharing, cost_of

CHOICES = (
    STACKED,
    WEIGHT_STATIONARY,
    ACTIVATIONS_FIRST,
    STRATEGY,
    HBF,
    HBM,
    HBM_AND_HBF,
    LPDDR,
)
PREFILL_ARRAY = (
    ("pe_array", (2048, 256)),
    ("vector_length", 1024),
    ("bandwidth_priority", "matrix"),
    ("tier2_technology", None),
)
LOCAL = Setting("plain", fixed=PREFILL_ARRAY, options=(("score_path", "local"),))
"""Scores that pass by the on-chip port, whose bandwidth would decide otherwise."""
CLAIM_OF = {claim.key: claim for claim in CLAIMS}


def only(key, *settings):
    """A claim that is asked in few settings."""
    return replace(CLAIM_OF[key], varied=settings)


def answer(base, claim):
    """The answer of one setting."""
    (found,) = answer_claims(FrontStore(), [claim], [base])
    return found


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.name)
def test_designs_without_a_choice_are_those_that_lack_it(choice):
    problem = problem_of(Setting("plain"), "prefill")
    space, rng = problem.space, np.random.default_rng(5)
    condition = space.parse(choice.condition)
    rows = space.sample(rng, 400)
    lacks = condition.evaluate(space.values(rows)) == 0
    covered = np.zeros(len(rows), dtype=bool)
    for variation in choice.without:
        part = variation.apply(problem).space
        theirs = recoded(part.sample(rng, 400), part, space)
        assert not condition.evaluate(space.values(theirs)).any()
        inside = np.ones(len(rows), dtype=bool)
        for name, value in variation.fixed:
            inside &= np.array([design[name] == value for design in space.decode(rows)])
        for _, rule in variation.space_constraints:
            assert rule is not None
            inside &= space.parse(rule).evaluate(space.values(rows)) > 0
        covered |= inside
    assert 0 < lacks.sum() < len(rows)
    np.testing.assert_array_equal(covered, lacks)


def test_a_planted_shortage_of_bandwidth_turns_the_answer_on_stacked_memory():
    starved = replace(LOCAL, options=(*LOCAL.options, ("offchip_efficiency", 0.02)))
    assert answer(LOCAL, only("3d-sram")).verdict == "slightly"
    assert answer(starved, only("3d-sram")).verdict == "yes"


def test_a_setting_that_turns_an_answer_is_named():
    found = answer(LOCAL, only("3d-sram", "blocking"))
    (label,) = [name for name in found.flips if not name.startswith("cap")]
    assert label == "blocking `array` instead of `capacity`"
    assert found.flips[label].verdict(found.claim.measures) == "yes"
    assert found.shifts[label] == found.flips[label]


def test_losses_are_those_of_all_designs_of_a_small_space():
    base = Setting("memexplorer", fixed=(*PREFILL_ARRAY, ("tier1_stacks", 8)))
    problem = problem_of(base, "prefill")
    space = problem.space
    rows = space.rows(np.arange(space.size))
    found = problem.evaluate(rows[problem.admits(rows)])
    has_pair = space.parse(STRATEGY.condition).evaluate(space.values(found.rows)) > 0
    rate, tdp = (found.metrics[name] for name in ("throughput_tokens_per_s", "tdp_watts"))
    inside = found.feasible & (tdp <= 700)
    loss = answer(base, only("strategy")).losses[700.0]
    assert loss.rate == (rate[inside].max(), rate[inside & ~has_pair].max())
    per_joule = rate / tdp
    assert loss.per_joule == (per_joule[inside].max(), per_joule[inside & ~has_pair].max())


@pytest.mark.parametrize("measure", ["rate", "per_joule"])
@pytest.mark.parametrize("profile", ["plain", "memexplorer"])
def test_the_best_shared_memory_is_that_of_all_designs(profile, measure):
    base = Setting(
        profile,
        fixed=(
            ("pe_array", (1024, 64)),
            ("vector_length", 128),
            ("bandwidth_priority", "matrix"),
            ("dataflow", "ws"),
            ("sram_dies", 1),
            ("tier3_technology", None),
            ("tier2_stacks", 8),
        ),
    )
    tokens = {"prefill": 90_000.0, "decode": 8_000.0}
    problems = {phase: problem_of(base, phase) for phase in tokens}
    shared = Sharing(problems, tokens).best(measure, 400.0)
    least = {}
    memory = [
        i
        for i, name in enumerate(problems["prefill"].space.names)
        if name.startswith(("sram", "tier"))
    ]
    for phase, problem in problems.items():
        rows = problem.space.rows(np.arange(problem.space.size))
        found = problem.evaluate(rows)
        rate, tdp = (found.metrics[name] for name in ("throughput_tokens_per_s", "tdp_watts"))
        costs = cost_of(measure, tokens[phase], rate, tdp)
        inside = found.feasible & problem.admits(rows) & (tdp <= 400.0)
        mine = {}
        for row, cost in zip(rows[inside][:, memory].tolist(), costs[inside].tolist(), strict=True):
            mine[tuple(row)] = min(cost, mine.get(tuple(row), np.inf))
        least = (
            {key: mine[key] + least[key] for key in mine.keys() & least.keys()} if least else mine
        )
    assert shared.cost == pytest.approx(min(least.values()), rel=1e-12)
    assert 0 < shared.n_evaluated <= shared.n_memories
    both = [shared.rows[phase][:, memory] for phase in problems]
    np.testing.assert_array_equal(*both)


def test_a_loss_is_read_under_its_cap():
    everything = Curve(np.array([10.0, 20.0, 40.0]), np.array([100.0, 300.0, 900.0]))
    without = Curve(np.array([10.0, 19.0]), np.array([110.0, 300.0]))
    loss = Loss.compare(everything, without, 700.0)
    assert loss == Loss(700.0, (20.0, 19.0), (0.1, 10.0 / 110.0))
    assert loss.share("rate") == pytest.approx(0.05)
    assert Loss.compare(everything, without, 50.0).rate == (0.0, 0.0)


@pytest.mark.parametrize(
    ("without", "verdict"), [(100.0, "no"), (98.5, "no"), (95.0, "slightly"), (89.0, "yes")]
)
def test_a_verdict_goes_by_the_larger_loss(without, verdict):
    loss = Loss(700.0, (100.0, 100.0), (100.0, without))
    assert loss.verdict(("rate", "per_joule")) == verdict
    assert loss.verdict(("rate",)) == "no"


def test_the_largest_cap_holds_the_front_of_a_lower_one():
    base = Setting("plain", fixed=PREFILL_ARRAY)
    store = FrontStore()
    wide, narrow = (
        store.front(replace(base, cap_watts=cap), "prefill", Variation()) for cap in (1400.0, 700.0)
    )
    assert wide is not None and narrow is not None
    kept = wide.objectives[wide.objectives[:, 1] <= 700]
    np.testing.assert_array_equal(kept, narrow.objectives)
    assert non_dominated(kept).all()


def test_every_claim_names_settings_that_can_be_built():
    for name in {name for claim in CLAIMS for name in claim.varied}:
        setting = varied(Setting("memexplorer"), name)
        assert setting.label
        assert problem_of(setting, "decode").space.size > 0


def test_page_and_tables_state_the_same_answer():
    found = [answer(LOCAL, only("3d-sram", "blocking"))]
    command = "python -m validation conclusions"
    text = conclusions_page.conclusions_finding(found, command).page_text()
    assert f"`{command}`" in text
    assert "### plain: slightly" in text
    assert "| 700 W, blocking `array` instead of `capacity` |" in text
    brief, detailed = (list(conclusions_page.terminal_tables(found, x)) for x in (False, True))
    assert len(detailed) > len(brief)


@pytest.mark.parametrize(
    ("words", "message"),
    [(["3d-sran"], "Did you mean '3d-sram'"), (["--output", "page.md"], "ends in .json")],
)
def test_what_cannot_be_asked_is_refused(words, message, capsys):
    assert run_validation(["conclusions", *words]) == 2
    assert message in capsys.readouterr().err
