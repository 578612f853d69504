"""A comparison as one document and as rows for files.

Wall times are never the same twice, so they have a document and files of their own
(:mod:`codesign.report.comparison_wall_time`); everything else is the same bytes for the same
results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.files import replacing, write_text
from codesign.base.text import spreadsheet_text
from codesign.insight.comparison import rank_optimizers
from codesign.insight.comparison.attainment import attainment_surfaces
from codesign.insight.comparison.bootstrap import pair_intervals
from codesign.insight.comparison.critical_difference import critical_difference
from codesign.insight.comparison.kinds import by_kind, kind_means, mean_areas, mean_shares
from codesign.insight.comparison.ranking import Ranking, rank_on
from codesign.insight.comparison.targets import solved_share, target_record
from codesign.report.json_values import to_json_text
from codesign.report.labels import evaluator_words

if TYPE_CHECKING:
    from codesign.insight.comparison import Outcome, ProblemOutcome, RunOutcome

_RANKED = "(all ranked)"
_FULLY_NAMED = 4
"""Readings that are named with all options; of more, the table of problems has them. [ours]"""


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """Everything that is the same for the same results, as plain values."""
    definition = outcome.definition
    return {
        "name": definition.name,
        "description": definition.description,
        "optimizers": list(outcome.labels),
        "budget": definition.budget,
        "initial": definition.initial,
        "seeds": list(definition.seeds),
        "tuned_on": definition.tuned_on,
        "settings": outcome.settings,
        "notes": list(outcome.notes),
        "problems": [problem_record(problem) for problem in outcome.problems],
        "ranked_problems": [problem.name for problem in outcome.ranked],
        "kinds": list(kind_records(outcome)),
        "ranking": ranking_record(rank_optimizers(outcome)),
        "intervals": list(pair_intervals(outcome)),
        "targets": [
            target_record(outcome.ranked, label, target)
            for label in outcome.labels
            for target in outcome.targets
        ],
        "runs": list(run_rows(outcome)),
    }


def evaluators_line(outcome: Outcome) -> str:
    """The evaluators of all problems, each once; with profile and options if they are few."""
    words = dict.fromkeys(evaluator_words(problem.reading) for problem in outcome.problems)
    if len(words) <= _FULLY_NAMED:
        return "Evaluated by " + "; ".join(words)
    names = dict.fromkeys(problem.reading["name"] for problem in outcome.problems)
    return "Evaluated by " + ", ".join(names)


def problem_record(problem: ProblemOutcome) -> dict[str, Any]:
    """What a problem is and what its best front is."""
    return {
        "problem": problem.name,
        "kind": problem.kind,
        "description": problem.description,
        "evaluator": problem.reading,
        "objectives": [str(objective) for objective in problem.objectives],
        "front": problem.truth.kind,
        "n_designs": problem.truth.n_designs,
        "n_front_points": len(problem.truth.objectives),
        "n_front_designs": problem.truth.n_front_designs,
        "reference_point": problem.reference_point,
        "hypervolume": problem.best_hypervolume,
        "picked_share": problem.picked_share,
        "tuned": list(problem.tuned),
        "seeds": list(problem.seeds),
        "hints": dict(problem.hints),
        "solved_by_hints": list(problem.solved_by_hints),
    }


def ranking_record(ranking: Ranking) -> dict[str, Any]:
    """Mean ranks over the kinds, Friedman's test, Nemenyi's groups and the pairs."""
    return {
        "mean_rank": dict(zip(ranking.labels, ranking.mean_ranks.tolist(), strict=True)),
        "n_blocks": len(ranking.blocks),
        "friedman": ranking.friedman,
        "friedman_p": ranking.friedman_p,
        "critical_difference": critical_difference(ranking),
        "least_wilcoxon_p": ranking.least_p,
        "least_holm_p": ranking.least_holm_p,
        "pairs": list(ranking.pairs),
    }


def kind_records(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """The ranked problems of each kind and what the optimizers have on them in the mean."""
    for kind, problems in by_kind(outcome.ranked).items():
        shares = kind_means(problems, lambda problem: mean_shares(problem, outcome.labels))[0]
        areas = kind_means(problems, lambda problem: mean_areas(problem, outcome.labels))[0]
        yield {
            "kind": kind,
            "problems": [problem.name for problem in problems],
            "hypervolume_share": dict(zip(outcome.labels, shares.tolist(), strict=True)),
            "area": dict(zip(outcome.labels, areas.tolist(), strict=True)),
        }


def run_rows(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """One row per run."""
    for problem in outcome.problems:
        for run in problem.runs:
            yield _run_row(problem, run)


def _run_row(problem: ProblemOutcome, run: RunOutcome) -> dict[str, Any]:
    reached = {
        f"evaluations_to_{100 * target:g}_percent": evaluations
        for target, evaluations in run.evaluations_to.items()
    }
    return {
        "problem": run.problem,
        "kind": problem.kind,
        "optimizer": run.optimizer,
        "seed": run.seed,
        "tuned": run.optimizer in problem.tuned,
        "hints": problem.hints.get(run.optimizer, "none"),
        "front": problem.truth.kind,
        "n_evaluated": run.n_evaluated,
        "n_feasible": run.n_feasible,
        "n_failed": run.n_failed,
        "n_duplicates": run.n_duplicates,
        "hypervolume_share": run.final_share,
        "regret": run.regret,
        "area": run.area,
        "epsilon": run.epsilon,
        "igd_plus": run.igd_plus,
        **reached,
    }


def convergence_rows(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Share of the best hypervolume by problem, optimizer and evaluations, over the seeds."""
    for problem in outcome.problems:
        for label in outcome.labels:
            shares = problem.shares(label)
            spread = (
                shares.std(axis=0, ddof=1) if len(shares) > 1 else np.full(shares.shape[1], np.nan)
            )
            quartiles = np.quantile(shares, [0.25, 0.5, 0.75], axis=0)
            for step in range(shares.shape[1]):
                yield {
                    "problem": problem.name,
                    "optimizer": label,
                    "evaluations": step + 1,
                    "mean": float(shares[:, step].mean()),
                    "std": float(spread[step]),
                    "quartile_1": float(quartiles[0, step]),
                    "median": float(quartiles[1, step]),
                    "quartile_3": float(quartiles[2, step]),
                }


def runtime_rows(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Share of targets reached by evaluations: of each problem, and of all that are ranked."""
    groups: dict[str, tuple[ProblemOutcome, ...]] = {_RANKED: outcome.ranked}
    groups |= {problem.name: (problem,) for problem in outcome.problems}
    budget = outcome.definition.budget
    for name, problems in groups.items():
        for label in outcome.labels:
            solved = solved_share(problems, label, outcome.targets, budget)
            for step, share in enumerate(solved.tolist()):
                yield {
                    "problem": name,
                    "optimizer": label,
                    "evaluations": step + 1,
                    "solved_share": share,
                }


def pair_rows(outcome: Outcome) -> Iterator[dict[str, Any]]:
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


def interval_rows(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Differences of every pair with their 95 % intervals, kinds weighed equally."""
    for interval in pair_intervals(outcome):
        yield asdict(interval)


def attainment_rows(outcome: Outcome) -> Iterator[dict[str, Any]]:
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


def write_rows(path: Path, rows: Iterator[Mapping[str, Any]]) -> Path:
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
            writer.writerow({key: _cell(value) for key, value in row.items()})
    return path


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if np.isnan(value) else repr(value)
    return spreadsheet_text(value) if isinstance(value, str) else value


def write_files(outcome: Outcome, folder: Path) -> list[Path]:
    """The document and every CSV file that is the same twice; returns their paths.

    Raises:
        InputError: A file cannot be written.
    """
    path = folder / "comparison.json"
    write_text(path, to_json_text(outcome_document(outcome)) + "\n")
    tables = {
        "runs": run_rows(outcome),
        "convergence": convergence_rows(outcome),
        "runtimes": runtime_rows(outcome),
        "pairs": pair_rows(outcome),
        "intervals": interval_rows(outcome),
        "attainment": attainment_rows(outcome),
    }
    return [path, *(write_rows(folder / f"{name}.csv", rows) for name, rows in tables.items())]
