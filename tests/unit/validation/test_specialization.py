"""What a design for each phase buys: on small sub-spaces, by hand and as printed."""

from dataclasses import replace
from functools import cache

import pytest

from codesign.base.errors import InfeasibleError
from validation import specialization
from validation.__main__ import main as run_validation
from validation.findings import read_finding
from validation.specialization import answer_traces, specialization_page
from validation.specialization.system_problems import (
    EIGHT_BITS,
    KINDS,
    SystemSetting,
    problem_of,
)

HELD = (
    *EIGHT_BITS,
    ("vector_length", 512),
    ("sram_dies", 1),
    ("sram_3d_layers", 0),
    ("storage_priority", "equal"),
    ("bandwidth_priority", "matrix"),
    ("tier2_technology", None),
    ("tier1_stacks", 8),
)
"""Left open: array, dataflow and the technology of one tier."""


def small(trace, **changes):
    return replace(SystemSetting(trace, most_machines=4, fixed=HELD), **changes)


@cache
def answers():
    return tuple(answer_traces([small("osworld"), small("code")]))


def request_s(part):
    return part.tokens / part.tokens_per_s


def test_each_kind_of_system_can_do_what_a_narrower_one_does():
    for item in answers():
        assert set(item.systems) == set(KINDS)
        assert 1.0 <= item.gains["one-machine"] <= item.gains["one-design"]
        assert item.gains["turns"] <= item.gains["one-machine"]
        assert all(watts <= item.systems[kind].tdp_watts * (1 + 1e-12)
                   for kind, watts in item.least_watts.items() if kind != "turns")  # fmt: skip


def test_the_rate_of_a_system_is_that_of_its_slower_role():
    for item in answers():
        for kind, system in item.systems.items():
            parts = (system.prefill, system.decode)
            rates = [part.machines / request_s(part) for part in parts]
            tokens_per_s = min(rates) * item.generated_tokens
            assert system.throughput_tokens_per_s == pytest.approx(tokens_per_s, rel=1e-12)
            watts = sum(part.machines * part.tdp_watts for part in parts)
            # Machines that are all alike are built for the phase that draws more.
            assert watts <= system.tdp_watts * (1 + 1e-12) and system.tdp_watts <= 2800.0
            assert kind != "specialized" or system.tdp_watts == pytest.approx(watts, rel=1e-12)
            if kind == "turns":
                assert system.machine_ratio == pytest.approx(system.balanced_ratio, rel=1e-12)
            hardware = [dict(part.design) for part in parts]
            software = [design.pop("dataflow") for design in hardware]
            assert kind == "specialized" or hardware[0] == hardware[1]
            assert kind != "one-design" or software[0] == software[1]


def test_systems_with_as_many_machines_as_they_may_have_are_marked():
    for system in answers()[1].systems.values():
        machines = (system.prefill.machines, system.decode.machines)
        is_in_turns = system.kind == "turns"
        used = round(sum(machines)) / 2 if is_in_turns else max(machines)
        assert replace(system, most_machines=int(used)).is_at_edge
        assert not replace(system, most_machines=int(used) + 1).is_at_edge


def test_the_best_of_each_kind_is_that_of_every_split_of_every_machine():
    """All machines of the small space in both roles, without composition, bounds or software."""
    setting = small("osworld")
    problem = problem_of(setting, "one-design")
    best = answers()[0].systems["one-design"].throughput_tokens_per_s
    rows = problem.space.rows(range(problem.space.size))
    rows = rows[problem.admits(rows)]
    observations = problem.evaluate(rows)
    assert best == -observations.objectives[observations.feasible, 0].min()
    pools = problem_of(setting, "specialized")
    assert pools.space.pools["prefill"].space.size * 7 == problem.space.size  # 2 to 8 machines


def test_the_ratio_on_paper_is_arithmetic_over_bytes():
    part = answers()[0].systems["one-machine"]
    # 70.6e9 weights, 80 layers of 64 heads of 128, 8 KV heads, 90,000 + 8,000 tokens, 1 B each.
    macs_of_tokens = (70.55e9 - 2 * 128256 * 8192) * 90_000
    macs_of_scores = 2 * 80 * 64 * 128 * 90_000**2 / 2
    array = part.prefill.design["pe_array"]
    peak_macs_per_s = array[0] * array[1] * 1e9
    expected_s = (macs_of_tokens + macs_of_scores) / peak_macs_per_s
    assert part.prefill.least_request_s == pytest.approx(expected_s, rel=0.01)
    assert part.prefill.least_request_s <= request_s(part.prefill)
    assert part.decode.least_request_s <= request_s(part.decode)
    assert part.peak_ratio == part.prefill.least_request_s / part.decode.least_request_s


def test_the_page_says_what_the_numbers_say(tmp_path):
    text = specialization_page.study_report(answers(), "ratio.svg").finding("codesign").on_page()
    for item in answers():
        gain = item.gains["one-machine"]
        assert f"{gain - 1.0:.0%} ({item.setting.trace})" in text
        assert f"{gain:.3f}×" in text
        assert f"{item.prompt_tokens:,}:{item.generated_tokens:,}" in text
    assert "![Ratio of prefill to decode machines](ratio.svg)" in text
    assert "weight_format mxint8" in text
    files = [
        specialization_page.save_figure(answers(), tmp_path / name) for name in ("a.svg", "b.svg")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_single_workload_has_no_trend(tmp_path):
    alone = answers()[:1]
    assert not any("with the power" in line for line in specialization_page.reading(alone))
    assert specialization_page.save_figure(alone, tmp_path / "a.png").exists()


def test_specialization_is_printed_and_stored(tmp_path, capsys, monkeypatch):
    def of_small_space(settings, *_):
        assert [item.trace for item in settings] == ["osworld", "code"]
        assert {item.fixed for item in settings} == {EIGHT_BITS}
        return list(answers())

    monkeypatch.setattr(specialization, "answer_traces", of_small_space)
    monkeypatch.chdir(tmp_path)
    words = ["specialization", "osworld", "code", "--output", "p.json"]
    assert run_validation(words) == 0
    assert "a design for each phase" in " ".join(capsys.readouterr().out.split())
    page = read_finding(tmp_path / "p.json").on_page()
    assert "`python -m validation specialization osworld code`" in page
    assert "](p/ratios.svg)" in page and (tmp_path / "p" / "ratios.svg").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["oswrld"], "unknown trace 'oswrld'. Did you mean 'osworld'?"),
        (["--formats", "8"], "--formats: expected '8-bit' or 'all', got '8'"),
        (["--limit", "0"], "--limit: expected a number of watts above 0, got 0"),
        (["--output", "page.md"], "--output: expected a file that ends in .json"),
        (["--model", "lama-3.3-70b"], "'llama-3.3-70b'"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    words, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert run_validation(["specialization", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and "\n" not in error
    assert not list(tmp_path.iterdir())


def test_a_limit_that_nothing_keeps_is_told_with_the_workload():
    with pytest.raises(InfeasibleError, match="osworld: "):
        answer_traces([small("osworld", limit_watts=20.0)])
