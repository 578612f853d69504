"""The answer about a comparison of optimizers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from pydantic import SkipValidation
from typing_extensions import TypedDict

from codesign.answers.answer import Answer, Entry, Number, Numbers
from codesign.answers.campaigns import Reading
from codesign.base.columns import FieldRows, IntegerSequence, Strings
from codesign.insight.comparison import Outcome, ProblemOutcome
from codesign.insight.comparison.bootstrap import PairInterval, pair_intervals
from codesign.insight.comparison.critical_difference import CriticalDifference, critical_difference
from codesign.insight.comparison.kinds import kind_areas, kind_groups, kind_shares
from codesign.insight.comparison.ranking import PairTest, Ranking, rank_optimizers
from codesign.insight.comparison.targets import TargetRecord, target_record
from codesign.insight.comparison.wall_time import Lead, RunCost, equal_time_shares, leads, run_costs
from codesign.search.optimizers.base import HintUse

BestFront = Literal["exact", "best known"]


class ComparedProblem(Entry):
    """A problem and its best front.

    Attributes:
        kind: Problems of one kind are hard for the same reason.
        hypervolume: Hypervolume of the best front.
        picked_share: Share of it of as many points of the best front as an optimizer chooses
            designs, picked greedily.
        tuned: Optimizers whose settings were chosen on it.
        hints: Use of the evaluator's hints by optimizer.
        solved_by_hints: Optimizers without a model of results that reach the front by hints.
    """

    problem: str
    kind: str
    description: str
    evaluator: Reading
    objectives: Strings
    front: BestFront
    n_designs: int | None
    n_front_points: int
    n_front_designs: int | None
    reference_point: Numbers
    hypervolume: Number
    picked_share: float
    tuned: Strings
    seeds: IntegerSequence
    hints: Mapping[str, HintUse]
    solved_by_hints: Strings

    @classmethod
    def describe(cls, problem: ProblemOutcome) -> Self:
        """The entry of a problem."""
        return cls.read(
            problem,
            problem=problem.name,
            evaluator=problem.reading,
            objectives=[str(objective) for objective in problem.objectives],
            front=problem.truth.kind,
            n_designs=problem.truth.n_designs,
            n_front_points=len(problem.truth.objectives),
            n_front_designs=problem.truth.n_front_designs,
            hypervolume=problem.best_hypervolume,
        )


class KindEntry(Entry):
    """Optimizers on the problems of one kind.

    Attributes:
        hypervolume_share: Mean over problems and seeds by optimizer.
        area: Mean over problems and seeds by optimizer.
    """

    kind: str
    problems: Strings
    hypervolume_share: Numbers
    area: Numbers


class RankingEntry(Entry):
    """Ranks over the kinds of problems, with the tests of their differences.

    Attributes:
        mean_rank: Mean rank by optimizer; 1 is best.
        n_blocks: Kinds of problems.
        friedman: Friedman's statistic.
        critical_difference: Nemenyi's test at 5 %; null with one kind.
        least_wilcoxon_p: Least value that so many blocks can give.
        least_holm_p: Least value after Holm's correction.
    """

    mean_rank: Numbers
    n_blocks: int
    friedman: Number
    friedman_p: Number
    critical_difference: CriticalDifference | None
    least_wilcoxon_p: Number
    least_holm_p: Number
    pairs: Sequence[PairTest]

    @classmethod
    def describe(cls, ranking: Ranking) -> Self:
        """Mean ranks, Friedman's test, Nemenyi's groups and the pairs."""
        return cls.read(
            ranking,
            mean_rank=dict(zip(ranking.labels, ranking.mean_ranks.tolist(), strict=True)),
            n_blocks=len(ranking.blocks),
            critical_difference=critical_difference(ranking),
            least_wilcoxon_p=ranking.least_p,
        )


class RunRow(TypedDict):
    """A run; ``evaluations_to_X_percent`` counts the evaluations to each target.

    Attributes:
        hypervolume_share: Share of the best hypervolume.
        area: Mean share of the best hypervolume over the evaluations after the initial ones.
    """

    problem: str
    kind: str
    optimizer: str
    seed: int
    tuned: bool
    hints: HintUse
    front: BestFront
    n_evaluated: int
    n_feasible: int
    n_failed: int
    n_duplicates: int
    hypervolume_share: Number
    regret: Number
    area: Number
    epsilon: Number
    igd_plus: Number


def run_rows(outcome: Outcome) -> Iterator[RunRow]:
    """One row per run."""
    for problem in outcome.problems:
        for run in problem.runs:
            stated = {
                "kind": problem.kind,
                "tuned": run.optimizer in problem.tuned,
                "hints": problem.hints.get(run.optimizer, "none"),
                "front": problem.truth.kind,
                "hypervolume_share": run.final_share,
            }
            row: Any = {
                name: stated[name] if name in stated else getattr(run, name)
                for name in RunRow.__annotations__
            }
            yield row | {
                f"evaluations_to_{100 * target:g}_percent": evaluations
                for target, evaluations in run.evaluations_to.items()
            }


class ComparisonRecord(Entry):
    """A comparison; the same bytes for the same results."""

    name: str
    description: str
    optimizers: Strings
    budget: int
    initial: int
    seeds: IntegerSequence
    tuned_on: Mapping[str, Strings]
    """Problems by optimizer on which its settings were chosen."""
    settings: Mapping[str, FieldRows]
    """Statements of an optimizer's library by optimizer: version, method, settings, knowledge of
    limits and of the reference point. Several if they changed before the comparison went on."""
    notes: Strings
    """Limits of the numbers, one sentence each."""
    problems: Sequence[ComparedProblem]
    ranked_problems: Strings
    kinds: Sequence[KindEntry]
    """Kinds of the ranked problems."""
    ranking: RankingEntry
    """Ranks over the kinds of problems."""
    intervals: Sequence[PairInterval]
    """Differences of pairs, first minus second, with 95 % intervals of a hierarchical bootstrap;
    each kind counts the same."""
    targets: Sequence[TargetRecord]
    runs: SkipValidation[Sequence[RunRow]]

    @classmethod
    def describe(cls, outcome: Outcome, **fields: Any) -> Self:
        """The record of a comparison's outcome."""
        definition = outcome.definition
        labels = outcome.labels
        return cls.read(
            definition,
            optimizers=labels,
            settings=outcome.settings,
            notes=outcome.notes,
            problems=[ComparedProblem.describe(problem) for problem in outcome.problems],
            ranked_problems=[problem.name for problem in outcome.ranked],
            kinds=kind_entries(outcome),
            ranking=RankingEntry.describe(rank_optimizers(outcome)),
            intervals=pair_intervals(outcome),
            targets=[
                target_record(outcome.ranked, label, target)
                for label in labels
                for target in outcome.targets
            ],
            runs=list(run_rows(outcome)),
            **fields,
        )


def kind_entries(outcome: Outcome) -> list[KindEntry]:
    """The ranked problems of each kind, with the means of the optimizers."""
    entries = []
    for kind, problems in kind_groups(outcome.ranked).items():
        shares = kind_shares(problems, outcome.labels)[0]
        areas = kind_areas(problems, outcome.labels)[0]
        entries.append(
            KindEntry(
                kind=kind,
                problems=[problem.name for problem in problems],
                hypervolume_share=dict(zip(outcome.labels, shares.tolist(), strict=True)),
                area=dict(zip(outcome.labels, areas.tolist(), strict=True)),
            )
        )
    return entries


class SuggestionTime(TypedDict):
    """Time per suggestion of an optimizer on a problem, after the initial designs."""

    problem: str
    optimizer: str
    n_suggestions: int
    mean_s: float
    median_s: float
    quantile_05_s: float
    quantile_95_s: float
    largest_s: float


def suggestion_times(outcome: Outcome) -> Iterator[SuggestionTime]:
    """Seconds per suggestion of each optimizer on each problem, after the initial designs."""
    for problem in outcome.problems:
        for label in outcome.labels:
            seconds = problem.suggestion_seconds(label)
            if len(seconds):
                low, middle, high = np.quantile(seconds, [0.05, 0.5, 0.95]).tolist()
                yield {
                    "problem": problem.name,
                    "optimizer": label,
                    "n_suggestions": len(seconds),
                    "mean_s": float(seconds.mean()),
                    "median_s": middle,
                    "quantile_05_s": low,
                    "quantile_95_s": high,
                    "largest_s": float(seconds.max()),
                }


class EqualTimeShare(TypedDict):
    """Share of the best hypervolume of an optimizer in equal wall time.

    Attributes:
        evaluation_s: Assumed time of one evaluation.
    """

    evaluation_s: float
    optimizer: str
    hypervolume_share: float


def equal_time_rows(outcome: Outcome) -> Iterator[EqualTimeShare]:
    """Mean share of the best hypervolume in equal wall time, by the cost of an evaluation."""
    costs = outcome.definition.evaluation_costs
    shares = equal_time_shares(outcome, costs).tolist()
    for cost, row in zip(costs, shares, strict=True):
        for label, share in zip(outcome.labels, row, strict=True):
            yield {"evaluation_s": cost, "optimizer": label, "hypervolume_share": share}


class CompareAnswer(Answer, ComparisonRecord):
    """Optimizers on problems with known fronts.

    Attributes:
        wall_time: Time per suggestion after the initial designs.
        costs: Cost of the runs by optimizer; never the same twice.
        equal_wall_time: Mean share of the best hypervolume in equal wall time, by the cost of an
            evaluation.
        best_in_wall_time: Best optimizer in equal wall time by the cost of an evaluation, cheapest
            first.
        files: Paths of the files that were written.
    """

    wall_time: SkipValidation[Sequence[SuggestionTime]]
    costs: Sequence[RunCost]
    equal_wall_time: SkipValidation[Sequence[EqualTimeShare]]
    best_in_wall_time: Sequence[Lead]
    files: Strings

    @classmethod
    def describe_all(cls, outcome: Outcome, files: Strings) -> Self:
        """The answer with wall times."""
        return cls.describe(
            outcome,
            wall_time=list(suggestion_times(outcome)),
            costs=run_costs(outcome),
            equal_wall_time=list(equal_time_rows(outcome)),
            best_in_wall_time=leads(outcome),
            files=files,
        )
