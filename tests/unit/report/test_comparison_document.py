"""A comparison's tables, rows and figures, of results made by hand."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from codesign.answers.comparisons import ComparedProblem, run_rows
from codesign.base.errors import InputError, MissingExtraError
from codesign.base.metrics import METRICS
from codesign.insight.comparison.comparison_definition import ComparisonDefinition
from codesign.insight.comparison.outcome import (
    Outcome,
    ProblemOutcome,
    RunOutcome,
    area_under,
    first_reaching,
)
from codesign.insight.comparison.run_time import RunTime
from codesign.insight.comparison.truth import Truth
from codesign.report import comparison_document as report
from codesign.report import comparison_figures as figures
from codesign.report import comparison_statistics as statistics
from codesign.report import comparison_tables as tables
from codesign.report import comparison_wall_time as wall_time
from codesign.report import text_table
from codesign.report.palette import series_look
from codesign.search.problem import Objective

LABELS = ("steady", "lucky", "lost")
TARGETS = (0.5, 0.9)
BUDGET = 8


def _run(problem, label, seed, final, front):
    share = np.linspace(0.1, final, BUDGET)
    return RunOutcome(
        problem=problem,
        optimizer=label,
        seed=seed,
        n_evaluated=BUDGET,
        n_feasible=BUDGET - 2,
        n_failed=1,
        n_duplicates=0,
        share=share,
        area=area_under(share, 2),
        epsilon=1 - final if len(front) else None,
        igd_plus=(1 - final) / 2 if len(front) else None,
        evaluations_to={target: first_reaching(share, target) for target in TARGETS},
        front=front,
        time=RunTime(
            np.where(np.arange(BUDGET) < 2, 0.0, 0.01 * (1 + LABELS.index(label))),
            np.arange(BUDGET) >= 2,
            0.5,
        ),
    )


def _problem(name, finals, tuned=(), truth="exact", kind="small"):
    metrics = [METRICS["throughput_tokens_per_s"], METRICS["tdp_watts"]]
    front = np.array([[-900.0, 600.0], [-500.0, 300.0]])
    runs = tuple(
        _run(name, label, seed, final, front + 20.0 * seed if final > 0.2 else np.empty((0, 2)))
        for label in LABELS
        for seed, final in enumerate(finals[label])
    )
    return ProblemOutcome(
        name=name,
        kind=kind,
        description="by hand",
        reading={"name": "npu", "profile": "plain"},
        objectives=tuple(Objective(metric, metric.sense) for metric in metrics),
        truth=Truth(truth, front - 10.0, 1000, 3 if truth == "exact" else None),
        reference_point={"throughput_tokens_per_s": 0.0, "tdp_watts": 700.0},
        best_hypervolume=1e5,
        picked_share=0.98,
        tuned=tuned,
        seeds=(0, 1, 2),
        runs=runs,
    )


@pytest.fixture
def outcome():
    """Two problems that are ranked and one that was tuned on."""
    definition = ComparisonDefinition.model_validate(
        {
            "name": "compare-by-hand",
            "problems": ["problem-a", "b_c", "t"],
            "optimizers": list(LABELS),
            "initial": 2,
            "budget": BUDGET,
            "seeds": 3,
            "targets": TARGETS,
        }
    )
    low = [0.1, 0.1, 0.1]
    a = {"steady": [0.9, 0.9, 0.9], "lucky": [0.6, 0.99, 0.5], "lost": low}
    b = {"steady": [0.8, 0.7, 0.9], "lucky": [0.7, 0.7, 0.7], "lost": low}
    t = {"steady": [0.3, 0.3, 0.3], "lucky": [1.0, 1.0, 1.0], "lost": [0.9, 0.9, 0.9]}
    problems = (
        _problem("problem-a", a),
        _problem("b_c", b, truth="best known", kind="large"),
        _problem("t", t, tuned=("lucky",)),
    )
    return Outcome(definition, problems, ("a note",))


def _line(text, start):
    return next(line for line in text.splitlines() if start in line)


def test_the_table_of_shares_gives_mean_deviation_the_best_and_the_mean_rank(outcome):
    text = tables.share_table(outcome).section()
    # Sample deviation of 60, 99, 50 is 25.9; the mean is 69.7.
    assert _line(text, "| a |") == "| a | **90.0 ± 0.0** | 69.7 ± 25.9 | 10.0 ± 0.0 | 98.0 |"
    b_c = "| b_c (best known) | **80.0 ± 10.0** | 70.0 ± 0.0 | 10.0 ± 0.0 | 98.0 |"
    assert _line(text, "b_c") == b_c
    assert _line(text, "| t") == "| t† | 30.0 ± 0.0 | **100.0 ± 0.0** | 90.0 ± 0.0 | 98.0 |"
    # Without the problem that was tuned on.
    assert _line(text, "mean rank") == "| mean rank over 2 kinds | **1.00** | 2.00 | 3.00 | – |"
    assert "Picked: 6 points of the best front" in text


def test_the_table_of_kinds_weighs_them_equally(outcome):
    text = statistics.kinds_table(outcome).section()
    # Without the problem that was tuned on.
    assert _line(text, "| small") == "| small | 1 | **90.0** | 69.7 | 10.0 |"
    assert _line(text, "| mean over") == "| mean over 2 kinds | 2 | **85.0** | 69.8 | 10.0 |"
    assert _line(text, "mean rank") == "| mean rank over 2 kinds | 2 | **1.00** | 2.00 | 3.00 |"
    assert "Friedman: chi-squared 4.00, p 0.135" in text
    assert "less than 2.34 (Nemenyi, 5 %) are not told apart; no difference at all" in text


def test_the_table_of_areas_is_of_the_curves(outcome):
    text = tables.areas_table(outcome).section()
    assert "hypervolume averaged over evaluations 3 to 8" in text
    # From 0.1 to 0.9 in seven steps, the last six of eight values.
    area = 100 * np.linspace(0.1, 0.9, 8)[2:].mean()
    assert f"| a | **{area:.1f} ± 0.0** |" in text


def test_wall_times_have_tables_of_their_own(outcome):
    costs = wall_time.run_cost_table(outcome)
    text = costs.section()
    assert _line(text, "| steady") == "| steady | 9 | 72 | 540 ms | 4.5 s | 5.04 s |"
    assert _line(text, "| all") == "| all | 27 | 216 | 3.24 s | 13.5 s | 16.7 s |"
    balance = wall_time.equal_time_table(outcome).section()
    # With little to wait for an evaluation, "steady" ends before the others have chosen much.
    assert "Best where evaluations are cheapest (100 µs): steady." in balance
    assert [row[0] for row in wall_time.equal_time_table(outcome).rows] == [
        "1 ms", "1 s", "1 min", "10 min",
    ]  # fmt: skip


def test_optimizers_with_and_without_hints_have_tables_of_their_own(outcome):
    assert tables.hint_tables(outcome) == []
    uses = {"steady": "alone", "lucky": "none", "lost": "start"}
    hinted = [replace(problem, hints=uses) for problem in outcome.problems]
    outcome = replace(outcome, problems=tuple(hinted))
    without, with_hints = (table.section() for table in tables.hint_tables(outcome))
    assert "optimizers without hints" in without and "optimizers with hints" in with_hints
    assert _line(without, "| a |") == "| a | **69.7 ± 25.9** | 98.0 |"
    assert _line(with_hints, "| a |") == "| a | **90.0 ± 0.0** | 10.0 ± 0.0 | 98.0 |"
    assert _line(with_hints, "mean rank") == "| mean rank over 2 kinds | **1.00** | 2.00 | – |"


@pytest.mark.parametrize(
    ("final", "use", "is_solved"),
    [(0.99, "alone", True), (0.98, "alone", False), (1.0, "model", False), (1.0, "start", False)],
)
def test_a_problem_that_hints_alone_solve_is_marked(outcome, final, use, is_solved):
    finals = {"steady": [0.1, final, 1.0], "lucky": [1.0] * 3, "lost": [0.1] * 3}
    problem = replace(_problem("problem-a", finals), hints={"steady": use, "lucky": "none"})
    outcome = replace(outcome, problems=(problem,))
    text = tables.problems_table(outcome).section()
    assert ("| a‡ |" in text) == ("‡ solved by hints" in text) == is_solved
    entry = ComparedProblem.describe(problem)
    assert list(entry.solved_by_hints) == (["steady"] if is_solved else [])
    assert next(run_rows(outcome))["hints"] == use


def test_a_run_without_a_design_is_a_dash_in_the_distances(outcome):
    epsilon = next(table for table in tables.paper_tables(outcome) if "epsilon" in table.title)
    assert list(epsilon.rows[0]) == ["a", "0.1000", "0.4000", "–"]


def test_counts_of_failed_and_duplicate_evaluations_are_shown(outcome):
    text = tables.counts_table(outcome).section()
    assert _line(text, "steady") == "| steady | 9 | 72 | 54 | 9 | 0 |"
    assert _line(text, "| all") == "| all | 27 | 216 | 162 | 27 | 0 |"


def test_the_pairs_say_what_so_few_kinds_can_prove(outcome):
    table = statistics.pairs_table(outcome)
    assert [row[0] for row in table.rows] == [
        "steady against lucky", "steady against lost", "lucky against lost",
    ]  # fmt: skip
    assert "2 kinds of problems: Wilcoxon's test cannot give a p below 0.5, 1 after" in table.note
    assert "7 kinds are the fewest that can tell a pair apart at 5 %" in table.note
    # 90 and 80 % against 69.7 and 70 %.
    assert table.rows[0][1].startswith("+15.2 [")
    # A of steady against lucky: 6 of 9 on a; 6 wins and 3 ties of 9 on b_c.
    assert table.rows[0][5] == f"{(6 / 9 + 7.5 / 9) / 2:.2f}"


def test_one_kind_has_intervals_and_no_tests(outcome):
    alone = replace(outcome, problems=outcome.problems[:1])
    table = statistics.pairs_table(alone)
    assert list(table.rows[0][3:]) == ["–", "–", "–"]
    assert "One kind cannot be tested" in table.note
    assert "One kind cannot be tested" in statistics.kinds_table(alone).note


def test_latex_escapes_what_it_must_and_every_row_has_all_columns(outcome):
    text = "\n".join(table.latex_table() for table in tables.paper_tables(outcome))
    assert "b\\_c (best known)" in text
    assert r"\textbf{90.0 $\pm$ 0.0}" in text
    assert re.search(r"(?<!\\)[%_#]", text) is None
    for table in re.findall(
        r"\\begin\{tabular\}\{(l r*|lr*)\}(.*?)\\end\{tabular\}", text, re.DOTALL
    ):
        lines = [line for line in table[1].splitlines() if line.endswith(r"\\")]
        assert {line.count(" & ") for line in lines} == {len(table[0]) - 1}
    assert text_table.latex("a&b_c 5 % ±") == r"a\&b\_c 5 \% $\pm$"


def test_everything_but_wall_time_is_the_same_bytes_for_the_same_results(outcome, tmp_path):
    for name in ("one", "two"):
        report.write_files(outcome, tmp_path / name)
        tables.write_tables(outcome, tmp_path / name)
        wall_time.write_wall_time(outcome, tmp_path / name)
        figures.save_figures(outcome, tmp_path / name, "svg")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == [
        "attainment.csv", "attainment.svg", "comparison.json", "convergence.csv",
        "convergence.svg", "critical_difference.svg", "intervals.csv", "pairs.csv", "regret.svg",
        "runs.csv", "runtimes.csv", "runtimes.svg", "tables.md", "tables.tex", "wall_time.csv",
        "wall_time.md", "wall_time.svg", "wall_time.tex", "wall_time_balance.csv",
        "wall_time_balance.svg",
    ]  # fmt: skip
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        if not name.startswith("wall_time"):
            assert b"seconds" not in (tmp_path / "one" / name).read_bytes()


def test_the_rows_hold_what_the_runs_hold(outcome, tmp_path):
    report.write_files(outcome, tmp_path)
    with (tmp_path / "runs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 27
    assert rows[3]["hypervolume_share"] == "0.6"
    assert rows[3]["evaluations_to_90_percent"] == ""
    assert (rows[6]["epsilon"], rows[18]["tuned"], rows[21]["tuned"]) == ("", "False", "True")
    with (tmp_path / "attainment.csv").open(encoding="utf-8") as file:
        corners = list(csv.DictReader(file))
    # Natural sign: throughput is positive again.
    assert {float(row["first"]) > 0 for row in corners} == {True}
    document = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert document["ranked_problems"] == ["problem-a", "b_c"]
    assert document["ranking"]["mean_rank"] == {"steady": 1.0, "lucky": 2.0, "lost": 3.0}


def _curves(panel):
    return {mark.name: np.asarray(mark.y) for mark in panel.marks if getattr(mark, "name", "")}


def test_the_figures_show_the_curves(outcome):
    panels = figures.convergence_chart(outcome).panels
    assert [panel.title for panel in panels] == ["a", "b_c", "t (tuned on it)"]
    assert _curves(panels[0])["lucky"][-1] == pytest.approx(0.69667, abs=1e-4)
    regret = _curves(figures.regret_chart(outcome).panels[0])
    assert regret["steady"][-1] == pytest.approx(0.1)
    (panel,) = figures.runtimes_chart(outcome).panels
    assert _curves(panel)["lost"].tolist() == [0.0] * BUDGET
    balance = figures.balance_chart(outcome, is_narrow=False).panels
    assert [panel.title for panel in balance] == [
        f"an evaluation takes {cost}" for cost in ("1 ms", "1 s", "1 min", "10 min")
    ]
    # Mean of the two kinds at the end: 90 and 80 %, 69.7 and 70 %, 10 and 10 %.
    ends = [curve[-1] for curve in _curves(balance[1]).values()]
    assert ends == pytest.approx([0.85, 0.698, 0.1], abs=1e-3)


@pytest.mark.parametrize("width_mm", [88.9, 177.8])
def test_no_text_of_any_figure_meets_another(outcome, overprinted_texts, tmp_path, width_mm):
    for path in figures.save_figures(outcome, tmp_path, "svg", width_mm):
        assert overprinted_texts(path) == [], path.name


def test_more_optimizers_than_colors_still_look_different():
    assert len({tuple(series_look(number).values()) for number in range(35)}) == 35


def test_an_unknown_format_is_refused_and_a_missing_library_is_named(
    outcome, tmp_path, monkeypatch
):
    with pytest.raises(InputError, match="unknown figure format 'gif'"):
        figures.save_figures(outcome, tmp_path, "gif")
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    with pytest.raises(MissingExtraError):
        figures.save_figures(outcome, tmp_path, "png")


COLUMNS = {
    "runs": {"seed", "hypervolume_share", "evaluations_to_90_percent", "epsilon", "tuned"},
    "convergence": {"evaluations", "mean", "std", "quartile_1", "median", "quartile_3"},
    "runtimes": {"evaluations", "solved_share"},
    "pairs": {"blocks", "n_blocks", "first", "second", "wilcoxon_p", "holm_p", "vargha_delaney_a"},
    "intervals": {"first", "second", "share", "share_low", "share_high", "area", "area_low"},
    "attainment": {"percentile", "first_objective", "first", "second_objective", "second"},
}
"""Columns that each file of a comparison has beside those of problem and optimizer."""


def test_a_file_of_a_comparison_has_the_columns_of_its_name(outcome, tmp_path):
    paths = report.write_files(outcome, tmp_path)
    assert [path.name for path in paths] == ["comparison.json", *(f"{x}.csv" for x in COLUMNS)]
    assert json.loads(paths[0].read_text(encoding="utf-8"))["problems"]
    for path, columns in zip(paths[1:], COLUMNS.values(), strict=True):
        with path.open(encoding="utf-8", newline="") as file:
            header = set(next(csv.reader(file)))
            assert header - {"problem", "kind", "optimizer"} >= columns, path.name
            assert next(csv.reader(file)), path.name
    headers = [path.read_text(encoding="utf-8").partition("\n")[0] for path in paths[1:]]
    assert len(set(headers)) == len(headers)


def test_what_optimizers_say_of_themselves_is_beside_the_tables(outcome, tmp_path):
    accounts = {"lucky": [{"library": "dice 1.2", "n_startup_trials": 10}]}
    described = replace(outcome, settings=accounts)
    report.write_files(described, tmp_path)
    tables.write_tables(described, tmp_path)
    document = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert document["settings"] == accounts
    markdown = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "- `lucky`: library: dice 1.2; n startup trials: 10\n" in markdown
