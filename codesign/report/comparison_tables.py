"""A comparison's tables: problems, what was reached on them, and what the runs evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from codesign.base.columns import FloatArray, StringTuple
from codesign.insight.comparison import Outcome, ProblemOutcome, RunOutcome, rank_optimizers
from codesign.insight.comparison.outcome import SOLVED_SHARE
from codesign.insight.comparison.targets import target_record
from codesign.report.comparison_document import evaluators_line
from codesign.report.comparison_statistics import kinds_table, mean_rank_row, pairs_table
from codesign.report.comparison_wall_time import wall_time_tables
from codesign.report.labels import evaluator_words
from codesign.report.text_table import TextTable, marked_cell, write_forms

_NOTHING = "–"
_TUNED = "†"
_SOLVED = "‡"


def paper_tables(outcome: Outcome) -> list[TextTable]:
    """Every table that is the same for the same results."""
    return [
        problems_table(outcome),
        share_table(outcome),
        *hint_tables(outcome),
        quartiles_table(outcome),
        areas_table(outcome),
        kinds_table(outcome),
        _distance_table(outcome, "Additive epsilon to the best front", lambda run: run.epsilon),
        _distance_table(outcome, "IGD+ to the best front", lambda run: run.igd_plus),
        targets_table(outcome),
        pairs_table(outcome),
        counts_table(outcome),
    ]


def problems_table(outcome: Outcome) -> TextTable:
    """Table of the problems of a comparison, and of the fronts that are exact."""
    rows = [
        (
            _name(problem),
            problem.kind,
            evaluator_words(problem.reading),
            ", ".join(_words(str(objective)) for objective in problem.objectives),
            f"{problem.truth.n_designs:,}",
            problem.truth.kind,
            f"{len(problem.truth.objectives):,}",
            ", ".join(problem.tuned) or _NOTHING,
        )
        for problem in outcome.problems
    ]
    columns = ("problem", "kind", "evaluator", "objectives", "designs", "front", "points of it",
               "tuned on it")  # fmt: skip
    sentences = []
    if any(problem.tuned for problem in outcome.problems):
        sentences.append(f"{_TUNED} used to tune an optimizer, so not ranked.")
    if any(problem.solved_by_hints for problem in outcome.problems):
        sentences.append(
            f"{_SOLVED} solved by hints: following them without a model reaches "
            f"{SOLVED_SHARE:.0%} in the median."
        )
    return TextTable("Problems", columns, rows, " ".join(sentences))


def share_table(outcome: Outcome) -> TextTable:
    """Share of the best front's hypervolume at the end: mean and standard deviation."""
    rows = _rows(outcome, ProblemOutcome.final_shares, np.mean, _mean_and_deviation)
    shares = [f"{100 * problem.picked_share:.1f}" for problem in outcome.problems]
    return TextTable(
        f"Hypervolume after {outcome.definition.budget} evaluations, % of the best front's, "
        "mean ± standard deviation over the seeds",
        ("problem", *outcome.labels, "picked"),
        (
            *((*row, cell) for row, cell in zip(rows, shares, strict=True)),
            (*mean_rank_row(rank_optimizers(outcome)), _NOTHING),
        ),
        f"{_seeds_note(outcome)} Picked: {outcome.definition.n_chosen} points of the best front, "
        "each because it adds most: what knowing the front would reach.",
    )


def hint_tables(outcome: Outcome) -> list[TextTable]:
    """The shares of optimizers without and with hints apart; none if all are alike."""
    hinted = outcome.hinted_labels
    groups = {
        "without hints": tuple(label for label in outcome.labels if label not in hinted),
        "with hints": hinted,
    }
    if not all(groups.values()):
        return []
    tables = []
    for words, labels in groups.items():
        table = share_table(outcome.selected_labels(labels))
        tables.append(replace(table, title=f"{table.title}: optimizers {words}"))
    return tables


def quartiles_table(outcome: Outcome) -> TextTable:
    """Share of the best front's hypervolume at the end: median, quartiles and the worst seed."""

    def quartiles(values: FloatArray) -> str:
        low, middle, high = (100 * np.quantile(values, [0.25, 0.5, 0.75])).tolist()
        return f"{middle:.1f} [{low:.1f}, {high:.1f}] {100 * values.min():.1f}"

    return TextTable(
        f"Hypervolume after {outcome.definition.budget} evaluations, % of the best front's, "
        "median [quartiles] worst seed",
        ("problem", *outcome.labels),
        _rows(outcome, ProblemOutcome.final_shares, np.median, quartiles),
    )


def areas_table(outcome: Outcome) -> TextTable:
    """Area under the curve of convergence: mean and standard deviation."""
    definition = outcome.definition
    return TextTable(
        f"Area under the curve: hypervolume averaged over evaluations {definition.initial + 1} to "
        f"{definition.budget}, % of the best front's, mean ± standard deviation over the seeds",
        ("problem", *outcome.labels),
        _rows(outcome, ProblemOutcome.areas, np.mean, _mean_and_deviation),
        _seeds_note(outcome),
    )


def _rows(
    outcome: Outcome,
    values: Callable[[ProblemOutcome, str], FloatArray],
    score: Callable[[FloatArray], np.floating[Any]],
    text: Callable[[FloatArray], str],
) -> list[StringTuple]:
    """One row per problem of an optimizer's values over the seeds; the best score is marked."""
    rows = []
    for problem in outcome.problems:
        columns = [values(problem, label) for label in outcome.labels]
        scores = [float(score(column)) for column in columns]
        cells = [
            marked_cell(text(column), cell_score == max(scores))
            for column, cell_score in zip(columns, scores, strict=True)
        ]
        rows.append((_name(problem), *cells))
    return rows


def _mean_and_deviation(values: FloatArray) -> str:
    spread = f" ± {100 * values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100 * values.mean():.1f}{spread}"


def _distance_table(
    outcome: Outcome, title: str, distance: Callable[[RunOutcome], float | None]
) -> TextTable:
    rows = []
    for problem in outcome.problems:
        # A run without a feasible design is infinitely far away.
        distances = ([distance(run) for run in problem.runs_of(label)] for label in outcome.labels)
        medians = [
            float(np.median([np.inf if x is None else x for x in each])) for each in distances
        ]
        best = min(medians)
        texts = (f"{m:.4f}" if np.isfinite(m) else _NOTHING for m in medians)
        rows.append((_name(problem), *map(marked_cell, texts, (m == best for m in medians))))
    return TextTable(
        f"{title}, median over the seeds",
        ("problem", *outcome.labels),
        rows,
        "Objectives are scaled to the best front's range; smaller is better.",
    )


def targets_table(outcome: Outcome) -> TextTable:
    """Evaluations until a share of the best hypervolume is reached."""
    rows = []
    for label in outcome.labels:
        cells = []
        for target in outcome.targets:
            record = target_record(outcome.ranked, label, target)
            median, expected = (
                _NOTHING if value is None else f"{value:.0f}"
                for value in (record.median, record.expected)
            )
            cells.append(f"{median} / {expected} ({record.n_reached}/{record.n_runs})")
        rows.append((label, *cells))
    return TextTable(
        "Evaluations to a share of the best front's hypervolume: median / expected (reached)",
        ("optimizer", *(f"{100 * target:g} %" for target in outcome.targets)),
        rows,
        "Reached: runs that did. Expected: all evaluations before the target over these runs. "
        f"{_NOTHING}: too few runs did.",
    )


def counts_table(outcome: Outcome) -> TextTable:
    """Evaluations that gave nothing, over all problems and seeds."""
    names = ("n_evaluated", "n_feasible", "n_failed", "n_duplicates")
    runs = [run for problem in outcome.problems for run in problem.runs]
    groups = {label: [run for run in runs if run.optimizer == label] for label in outcome.labels}
    rows = []
    for label, group in [*groups.items(), ("all", runs)]:
        counts = [len(group), *(sum(getattr(run, name) for run in group) for name in names)]
        rows.append((label, *map("{:,}".format, counts)))
    columns = ("optimizer", "runs", "evaluated", "feasible", "failed", "duplicates")
    return TextTable("Evaluations", columns, rows)


def _name(problem: ProblemOutcome) -> str:
    inexact = "" if problem.truth.kind == "exact" else " (best known)"
    marks = (_TUNED if problem.tuned else "") + (_SOLVED if problem.solved_by_hints else "")
    return f"{short_name(problem)}{marks}{inexact}"


def short_name(problem: ProblemOutcome) -> str:
    """The name without what all of the shipped problems begin with."""
    return problem.name.removeprefix("problem-")


def _words(text: str) -> str:
    return text.replace("_", " ")


def _seeds_note(outcome: Outcome) -> str:
    seeds = len(outcome.definition.seeds)
    return f"{seeds} seed{'s' if seeds != 1 else ''}; the best of a row is marked."


def write_tables(outcome: Outcome, folder: Path) -> list[Path]:
    """``tables.md`` and ``tables.tex``; returns their paths.

    Raises:
        InputError: A file cannot be written.
    """
    definition = outcome.definition
    head = [
        f"# {definition.name}",
        "",
        definition.description,
        "",
        f"{evaluators_line(outcome)}.",
        "",
        *(f"- {note}" for note in outcome.notes),
        # Statements of the optimizers on themselves, one line each; changed ones have another.
        *(
            f"- `{label}`: " + "; ".join(f"{_words(name)}: {value}" for name, value in row.items())
            for label, accounts in outcome.settings.items()
            for row in accounts
        ),
        "",
    ]
    return write_forms(paper_tables(outcome), folder, "tables", head)


def shown_tables(outcome: Outcome) -> Sequence[TextTable]:
    """Tables for a terminal; the rest is in the files."""
    tables = [share_table(outcome), kinds_table(outcome), targets_table(outcome)]
    if len(outcome.ranked) > 1:
        tables.append(pairs_table(outcome))
    return [*tables, counts_table(outcome), *wall_time_tables(outcome)]
