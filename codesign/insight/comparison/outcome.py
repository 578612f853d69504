"""Outcome of a comparison: every run measured against the best possible front.

Hypervolume is given as a share of the exact front's, so that problems can be compared. Epsilon
and IGD+ mix objectives of different units, so they are taken after each objective is scaled by
the exact front's range to 0 .. 1; a run without a feasible design has neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from codesign.base.columns import Fields, FloatArray, FloatMap, IntegerTuple, Strings, StringTuple
from codesign.base.errors import JobError
from codesign.base.records import frozen
from codesign.insight.comparison.comparison_definition import ComparisonDefinition
from codesign.insight.comparison.run_time import RunTime
from codesign.insight.comparison.settings import Settings
from codesign.insight.comparison.truth import Truth
from codesign.search.campaign import Results
from codesign.search.campaign.reference import minimized
from codesign.search.optimizers.base import HintUse
from codesign.search.pareto import non_dominated
from codesign.search.problem import Objective

SOLVED_SHARE = 0.99
"""Share of the best hypervolume that hints without a model must reach for a problem to count as
solved by them: in the median over the seeds. [ours]"""
ROUNDING = 1e-9
"""A share of hypervolume above 1 by no more is a sum taken in another order. [ours]"""


@frozen
class RunOutcome:
    """One optimizer with one seed on one problem.

    Attributes:
        problem: Name of the campaign.
        n_evaluated: Designs evaluated.
        n_feasible: Of those, within every limit.
        n_failed: Of those, without a result.
        n_duplicates: Evaluations of a design that the run had evaluated before.
        share: (budget,) hypervolume after each evaluation over that of the best front; where the
            space ran out of designs, the last value goes on.
        area: Mean of ``share`` over the evaluations after the initial ones: the area under the
            curve of convergence, 1 if the first choice completes the front.
        epsilon: Additive epsilon to the best front, scaled objectives; None without a design.
        igd_plus: IGD+ to the best front, scaled objectives; None without a design.
        evaluations_to: By target, evaluations until the share is reached; None if it was not.
        front: (k, m) non-dominated feasible objectives, minimized.
        time: What it cost; never the same twice.
    """

    problem: str
    optimizer: str
    seed: int
    n_evaluated: int
    n_feasible: int
    n_failed: int
    n_duplicates: int
    share: FloatArray
    area: float
    epsilon: float | None
    igd_plus: float | None
    evaluations_to: Mapping[float, int | None]
    front: FloatArray
    time: RunTime

    @property
    def final_share(self) -> float:
        """Share of the best front's hypervolume at the end."""
        return float(self.share[-1])

    @property
    def regret(self) -> float:
        """Share of the best front's hypervolume that is missing at the end."""
        return 1.0 - self.final_share


@frozen
class ProblemOutcome:
    """All optimizers on one problem.

    Attributes:
        kind: Name of the group of problems that count as one.
        reading: Name, profile and options of the evaluator.
        reference_point: Bound of the hypervolume by objective, in natural sign.
        picked_share: Share of the best hypervolume that greedily picked points of the best front
            reach, one for each design that an optimizer chooses. Full knowledge of the problem
            would reach it within the budget.
        tuned: Optimizers that were tuned on this problem.
        uninformed: Peers whose libraries cannot be told some rule of this problem's space.
        seeds: Seeds that every optimizer finished.
        runs: Runs in the order of optimizer and seed.
        warnings: What is wrong with the reference point.
        hints: By optimizer, the use of the evaluator's hints in its search.
    """

    name: str
    kind: str
    description: str
    reading: Fields
    objectives: tuple[Objective, ...]
    truth: Truth
    reference_point: FloatMap
    best_hypervolume: float
    picked_share: float
    tuned: StringTuple
    seeds: IntegerTuple
    runs: tuple[RunOutcome, ...]
    warnings: StringTuple = ()
    hints: Mapping[str, HintUse] = field(default_factory=dict)
    uninformed: StringTuple = ()

    def runs_of(self, optimizer: str) -> tuple[RunOutcome, ...]:
        """The runs of one optimizer, in the order of the seeds."""
        return tuple(run for run in self.runs if run.optimizer == optimizer)

    @property
    def solved_by_hints(self) -> StringTuple:
        """The optimizers without a model that follow hints, and that come to the front by them."""
        alone = [label for label, use in self.hints.items() if use == "alone"]
        return tuple(x for x in alone if np.median(self.final_shares(x)) >= SOLVED_SHARE)

    def shares(self, optimizer: str) -> FloatArray:
        """(seeds, budget) share of the best hypervolume after each evaluation."""
        return np.array([run.share for run in self.runs_of(optimizer)])

    def final_shares(self, optimizer: str) -> FloatArray:
        """(seeds,) share of the best hypervolume at the end."""
        return self.shares(optimizer)[:, -1]

    def areas(self, optimizer: str) -> FloatArray:
        """(seeds,) area under the curve of convergence."""
        return np.array([run.area for run in self.runs_of(optimizer)])

    def suggestion_seconds(self, optimizer: str) -> FloatArray:
        """(suggestions,) wall time of each suggestion after the initial designs, over the seeds."""
        seconds = [run.time.chosen_seconds for run in self.runs_of(optimizer)]
        return np.concatenate([np.empty(0), *seconds])


@frozen
class Outcome:
    """A comparison's results.

    Attributes:
        problems: In the order of the definition.
        notes: What a reader must know before the numbers, one sentence each.
        settings: What the optimizers said of themselves when they were run.
    """

    definition: ComparisonDefinition
    problems: tuple[ProblemOutcome, ...]
    notes: StringTuple
    settings: Settings = field(default_factory=dict)

    @property
    def labels(self) -> StringTuple:
        """The optimizers, in the order of the definition."""
        return self.definition.labels

    @property
    def hinted_labels(self) -> StringTuple:
        """The optimizers whose search hints served on any problem."""
        uses = [{p.hints.get(label, "none") for p in self.problems} for label in self.labels]
        return tuple(x for x, use in zip(self.labels, uses, strict=True) if use - {"none"})

    def selected_labels(self, labels: Strings) -> Outcome:
        """The same problems and some of the optimizers."""
        pairs = zip(self.labels, self.definition.optimizers, strict=True)
        choices = tuple(choice for label, choice in pairs if label in labels)
        definition = self.definition.model_copy(update={"optimizers": choices})
        return replace(self, definition=definition)

    @property
    def ranked(self) -> tuple[ProblemOutcome, ...]:
        """The problems that count in the ranking.

        A problem counts if no optimizer was tuned on it and every peer was told its rules. If there
        is no such problem, every untuned problem counts. If all were used to tune, all count.
        """
        untuned = tuple(problem for problem in self.problems if not problem.tuned)
        fair = tuple(problem for problem in untuned if not problem.uninformed)
        return fair or untuned or self.problems

    @property
    def targets(self) -> tuple[float, ...]:
        """Shares of the best hypervolume whose first reaching is recorded."""
        return self.definition.targets


def measure_run(
    results: Results, index: int, truth: Truth, definition: ComparisonDefinition, time: RunTime
) -> RunOutcome:
    """One run of a campaign against the best front.

    Args:
        definition: Its budget, initial designs and targets.

    Raises:
        JobError: The run is better than the exact front, which is therefore wrong.
    """
    run = results.runs[index]
    positions = np.flatnonzero(results.run_index == index)
    reference = minimized(results.problem, results.reference_point)
    share = padded(results.hypervolume[positions] / truth.hypervolume(reference), definition.budget)
    name = results.definition.name
    if share[-1] > 1 + ROUNDING:
        raise JobError(
            f"{name}: run {run} found more hypervolume than the {truth.kind} front has "
            f"({share[-1]:.9f} of it): enumeration and evaluator disagree"
        )
    feasible = positions[results.feasible[positions]]
    points = results.objectives[feasible]
    front = np.unique(points[non_dominated(points)], axis=0)
    epsilon, igd_plus = distances(front, truth)
    n_distinct = len(np.unique(results.problem.space.keys(results.rows[positions])))
    return RunOutcome(
        problem=name,
        optimizer=run.optimizer,
        seed=run.seed,
        n_evaluated=len(positions),
        n_feasible=len(feasible),
        n_failed=int(results.broke[positions].sum()),
        n_duplicates=len(positions) - n_distinct,
        share=share,
        area=area_under(share, definition.initial),
        epsilon=epsilon,
        igd_plus=igd_plus,
        evaluations_to={target: first_reaching(share, target) for target in definition.targets},
        front=front,
        time=time,
    )


def padded(values: FloatArray, length: int) -> FloatArray:
    """``values``, going on with the last one up to ``length``."""
    last = values[-1] if len(values) else 0.0
    return np.concatenate([values[:length], np.full(max(length - len(values), 0), last)])


def area_under(share: FloatArray, n_initial: int) -> float:
    """Mean share over the evaluations after the first ``n_initial``; the last if none follow."""
    return float(share[min(n_initial, len(share) - 1) :].mean())


def first_reaching(share: FloatArray, target: float) -> int | None:
    """Evaluations until ``share`` is at least ``target``; None if it never is."""
    reached = np.flatnonzero(share >= target - ROUNDING)
    return int(reached[0]) + 1 if len(reached) else None


def distances(front: FloatArray, truth: Truth) -> tuple[float | None, float | None]:
    """Additive epsilon and IGD+ of a front to the best one, in its ranges; None if empty.

    Zitzler et al. 2003 and Ishibuchi et al. 2015, as moocore computes them.
    """
    if not len(front):
        return None, None
    import moocore

    low, width = truth.scale
    ours = (front - low) / width
    best = (truth.objectives - low) / width
    return float(moocore.epsilon_additive(ours, ref=best)), float(moocore.igd_plus(ours, ref=best))
