"""A comparison as one document and as rows for files.

Wall times are never the same twice, so they have a document and files of their own
(:mod:`codesign.report.comparison_wall_time`); everything else is the same bytes for the same
results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from codesign.answers.comparisons import ComparisonRecord, run_rows
from codesign.answers.json_values import json_text
from codesign.base.columns import Fields, JsonObject, values_at
from codesign.base.files import replacing, write_text
from codesign.base.text import spreadsheet_text
from codesign.insight.comparison import Outcome, ProblemOutcome, rank_optimizers
from codesign.insight.comparison.attainment import attainment_surfaces
from codesign.insight.comparison.bootstrap import pair_intervals
from codesign.insight.comparison.ranking import rank_on
from codesign.insight.comparison.targets import solved_share
from codesign.report.labels import evaluator_words

_RANKED = "(all ranked)"
_FULLY_NAMED = 4
"""Readings that are named with all options; of more, the table of problems has them. [ours]"""


def evaluators_line(outcome: Outcome) -> str:
    """The evaluators of all problems, each once; with profile and options if they are few."""
    words = dict.fromkeys(evaluator_words(problem.reading) for problem in outcome.problems)
    if len(words) <= _FULLY_NAMED:
        return "Evaluated by " + "; ".join(words)
    names = dict.fromkeys(problem.reading["name"] for problem in outcome.problems)
    return "Evaluated by " + ", ".join(names)


def convergence_rows(outcome: Outcome) -> Iterator[JsonObject]:
    """Share of the best hypervolume by problem, optimizer and evaluations, over the seeds."""
    for problem in outcome.problems:
        for label in outcome.labels:
            shares = problem.shares(label)
            spread = (
                shares.std(axis=0, ddof=1) if len(shares) > 1 else np.full(shares.shape[1], np.nan)
            )
            columns = {
                "mean": shares.mean(axis=0),
                "std": spread,
                **dict(zip(
                    ("quartile_1", "median", "quartile_3"),
                    np.quantile(shares, [0.25, 0.5, 0.75], axis=0), strict=True,
                )),
            }  # fmt: skip
            names = {"problem": problem.name, "optimizer": label}
            for step in range(shares.shape[1]):
                yield names | {"evaluations": step + 1} | values_at(columns, step)


def runtime_rows(outcome: Outcome) -> Iterator[JsonObject]:
    """Share of targets reached by evaluations: of each problem, and of all that are ranked."""
    groups = {_RANKED: outcome.ranked}
    groups |= {problem.name: (problem,) for problem in outcome.problems}
    budget = outcome.definition.budget
    for name, problems in groups.items():
        for label in outcome.labels:
            solved = solved_share(problems, label, outcome.targets, budget)
            names = {"problem": name, "optimizer": label}
            for step, share in enumerate(solved.tolist()):
                yield names | {"evaluations": step + 1, "solved_share": share}


def pair_rows(outcome: Outcome) -> Iterator[JsonObject]:
    """Every pair of optimizers: over the kinds that are ranked, and over each problem's seeds."""
    rankings = {_RANKED: rank_optimizers(outcome)}
    rankings |= {problem.name: rank_on(problem, outcome.labels) for problem in outcome.problems}
    for name, ranking in rankings.items():
        for pair in ranking.pairs:
            yield {
                "problem": name,
                "blocks": "kinds" if name == _RANKED else "seeds",
                "n_blocks": pair.n_blocks,
                "first": pair.first,
                "second": pair.second,
                "wilcoxon_p": pair.p,
                "holm_p": pair.p_holm,
                "vargha_delaney_a": pair.a,
            }


def attainment_rows(outcome: Outcome) -> Iterator[JsonObject]:
    """Corners of the attainment surfaces and of the best front, in natural sign."""
    for problem in two_objective_problems(outcome):
        surfaces = {("best front", 100.0): problem.truth.objectives}
        for label in outcome.labels:
            for level, points in attainment_surfaces(problem, label).items():
                surfaces[label, level] = points
        first, second = problem.objectives
        for (label, level), points in surfaces.items():
            for x, y in points.tolist():
                yield {
                    "problem": problem.name,
                    "optimizer": label,
                    "percentile": level,
                    "first_objective": first.metric.name,
                    "first": first.flipped(x),
                    "second_objective": second.metric.name,
                    "second": second.flipped(y),
                }


def two_objective_problems(outcome: Outcome) -> list[ProblemOutcome]:
    """The problems of which attainment surfaces are drawn."""
    return [problem for problem in outcome.problems if len(problem.objectives) == 2]


def write_rows(path: Path, rows: Iterator[Fields]) -> Path:
    """Write rows of the same keys as CSV; an empty cell is a value that does not exist.

    Raises:
        InputError: The file cannot be written.
    """
    import csv

    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow({
                key: ("" if np.isnan(value) else repr(value)) if isinstance(value, float)
                else spreadsheet_text(value) if isinstance(value, str) else value
                for key, value in row.items()
            })  # fmt: skip
    return path


def write_files(outcome: Outcome, folder: Path) -> list[Path]:
    """The document and every CSV file that is the same twice; returns their paths.

    Raises:
        InputError: A file cannot be written.
    """
    path = folder / "comparison.json"
    write_text(path, json_text(ComparisonRecord.describe(outcome)) + "\n")
    tables = {
        "runs": run_rows(outcome),
        "convergence": convergence_rows(outcome),
        "runtimes": runtime_rows(outcome),
        "pairs": pair_rows(outcome),
        "intervals": map(asdict, pair_intervals(outcome)),
        "attainment": attainment_rows(outcome),
    }
    return [path, *(write_rows(folder / f"{name}.csv", rows) for name, rows in tables.items())]
