"""A comparison: one campaign per problem, run one after the other, and what they came to.

Each campaign has its file and its store in the comparison's folder and is a campaign like any
other: ``codesign pareto runs/compare-small/zdt1.yaml --folder runs/compare-small`` shows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from codesign.analysis.comparison.definition import (
    ComparisonDefinition,
    ResolvedComparison,
    load_comparison,
)
from codesign.analysis.comparison.outcome import (
    SOLVED_SHARE,
    Outcome,
    ProblemOutcome,
    measure_run,
)
from codesign.analysis.comparison.truth import Truth, best_known, exact_truth, is_enumerable
from codesign.campaign import Campaign, CampaignStatus, Interrupted, Progress, Results
from codesign.campaign.execution_settings import Execution
from codesign.campaign.reference import minimized
from codesign.campaign.status import results_folder
from codesign.columns import FloatArray
from codesign.errors import InputError, JobError
from codesign.evaluators.base import Features
from codesign.files import replacing
from codesign.optimizers.base import HintUse
from codesign.problem import Problem

FRONTS = "fronts"
"""Folder of the exact fronts, next to those of the campaigns, shared by all comparisons."""

_ENDED = ("complete", "exhausted")

Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Finished:
    """A campaign as far as it can be compared.

    Attributes:
        campaign: Of one problem.
        results: Its observations.
        seeds: Those that every optimizer finished.
    """

    campaign: Campaign
    results: Results
    seeds: tuple[int, ...]


class Comparison:
    """Optimizers, problems, and the campaigns in which they meet.

    Args:
        resolved: The definition.
        folder: Of this comparison.
        fronts: Where exact fronts are kept.
        asked_as: What the user called it, for messages.
    """

    def __init__(
        self, resolved: ResolvedComparison, folder: Path, fronts: Path, asked_as: str
    ) -> None:
        self._resolved, self._fronts = resolved, fronts
        self._command = f"codesign compare {asked_as}"
        self.folder = folder
        self.campaigns = tuple(self._campaign(i) for i in range(len(resolved.problems)))

    @classmethod
    def load(cls, name_or_path: str | Path, folder: str | Path | None = None) -> Comparison:
        """The comparison of a definition.

        Args:
            name_or_path: ``compare-small`` for ``runs/compare-small.yaml``, or a path.
            folder: In which it has its folder; ``runs`` in the working folder if None.

        Raises:
            InputError: The definition, or what it names, cannot be used.
        """
        resolved = load_comparison(name_or_path)
        root = results_folder(folder)
        name = resolved.definition.name
        return cls(resolved, root / name, root / FRONTS, str(name_or_path))

    @property
    def definition(self) -> ComparisonDefinition:
        """What the comparison file says."""
        return self._resolved.definition

    def run(
        self,
        progress: Callable[[Campaign], Progress | None] | None = None,
        workers: int | None = None,
        tell: Tell = lambda line: None,
        execution: Execution | None = None,
    ) -> None:
        """Start the comparison or continue it, to the same results in either case.

        Args:
            progress: Makes what is told of every durable batch of a campaign.
            workers: Processes; the definition's number, or one per core, if None.
            tell: Is told in one line which problem comes next.
            execution: How designs are evaluated; as the definition says if None.

        Raises:
            InputError: A campaign cannot be used; nothing after it was done.
            JobError: Runs failed. The others, of all problems, were done.
            Interrupted: Ctrl-C; everything that was reported is stored.
        """
        failures: list[str] = []
        for number, campaign in enumerate(self.campaigns):
            is_done = campaign.status().state in _ENDED
            if not is_done:
                tell(f"[{number + 1}/{len(self.campaigns)}] {campaign.definition.name}")
            self._write_file(number)
            try:
                # What is complete is only compared with the definition.
                watcher = progress(campaign) if progress and not is_done else None
                campaign.run(watcher, workers, execution)
            except Interrupted:
                raise Interrupted(
                    f"stopped; what was done is stored in {self.folder}, "
                    f"'{self._command}' goes on from there"
                ) from None
            except JobError as error:
                failures += [f"{campaign.definition.name}: {line}" for line in _lines(error)]
        if failures:
            hint = f"'{self._command}' tries again, with --partial it reports the others"
            raise JobError("\n".join([*failures, hint]))

    def status(self) -> list[CampaignStatus]:
        """How far each campaign has come; disturbs nobody who runs them."""
        return [campaign.status() for campaign in self.campaigns]

    def outcome(
        self, partial: bool = False, workers: int | None = None, tell: Tell = lambda line: None
    ) -> Outcome:
        """Every run measured against the best possible front.

        Args:
            partial: Take what is finished: of each problem the seeds that every optimizer has
                completed, and problems with such a seed.
            workers: Processes for exact fronts.
            tell: Is told in one line of an exact front that must be computed.

        Raises:
            InputError: Not everything is finished, or with ``partial``, nothing.
            JobError: A problem has no feasible design, or its exact front is wrong.
            StoreError: A store is damaged.
        """
        statuses = self.status()
        if not partial:
            self._check_finished(statuses)
        finished = [
            finished_problem
            for campaign, status in zip(self.campaigns, statuses, strict=True)
            if (finished_problem := self._finished(campaign, status)) is not None
        ]
        if not finished:
            raise InputError(
                f"no seed of any problem is finished; '{self._command}' goes on",
                str(self.folder),
            )
        n_workers = workers or self.definition.workers or 1
        problems = tuple(self._measured(item, n_workers, tell) for item in finished)
        return Outcome(self.definition, problems, self._notes(problems))

    def _campaign(self, number: int) -> Campaign:
        problem = self._resolved.problems[number]
        path = self._file(problem.definition.name)
        located = replace(problem, path=path.resolve())
        return Campaign(located, self.folder / problem.definition.name, str(path))

    def _file(self, name: str) -> Path:
        """The campaign file of a problem."""
        return self.folder / f"{name}.yaml"

    def _write_file(self, number: int) -> None:
        """Write a problem's campaign file, which workers read; JSON is YAML without its traps."""
        data = self._resolved.data[number]
        path = self._file(data["name"])
        source = self._resolved.problems[number].path.name
        maker = self.definition.name
        text = f"# Made from {source} by the comparison {maker}; written anew at every run.\n"
        text += json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n"
        with replacing(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")

    def _check_finished(self, statuses: Sequence[CampaignStatus]) -> None:
        runs = [run for status in statuses for run in status.runs]
        missing = sum(run.state not in _ENDED for run in runs)
        if not missing:
            return
        if any(status.state == "running" for status in statuses):
            how = "another process is running it"
        elif any(run.done for run in runs):
            how = f"'{self._command}' goes on"
        else:
            how = f"'{self._command}' starts it"
        raise InputError(
            f"{missing:,} of {len(runs):,} runs are not finished; {how}, "
            "--partial reports what every optimizer has finished",
            str(self.folder),
        )

    def _finished(self, campaign: Campaign, status: CampaignStatus) -> Finished | None:
        missing = {item.run.seed for item in status.runs if item.state not in _ENDED}
        seeds = tuple(seed for seed in self.definition.seeds if seed not in missing)
        return Finished(campaign, campaign.results(), seeds) if seeds else None

    def _measured(self, item: Finished, workers: int, tell: Tell) -> ProblemOutcome:
        results, definition = item.results, self.definition
        problem, name = results.problem, results.definition.name
        truth = self._truth(item, workers, tell)
        best = truth.hypervolume(minimized(problem, results.reference_point))
        if best <= 0:
            raise JobError(
                f"{name}: no point of the {truth.kind} front lies within the reference point; "
                "give the campaign file another reference_point"
            )
        kept = [i for i, run in enumerate(results.runs) if run.seed in item.seeds]
        return ProblemOutcome(
            name=name,
            description=results.definition.description,
            reading=results.reading,
            objectives=problem.objectives,
            truth=truth,
            reference_point=results.reference_point,
            best_hypervolume=best,
            tuned=tuple(label for label, names in definition.tuned_on.items() if name in names),
            seeds=item.seeds,
            runs=tuple(
                measure_run(results, i, truth, definition.targets, definition.budget) for i in kept
            ),
            seconds_per_suggestion=_seconds_per_suggestion(item.campaign, kept),
            hints=self._hints_on(problem),
        )

    def _hints_on(self, problem: Problem) -> dict[str, HintUse]:
        """By optimizer, what hints do in its search of a problem."""
        gives_hints = problem.is_predicted or isinstance(problem.evaluator, Features)
        configured = self._resolved.problems[0].optimizers
        return {item.label: item.hint_use if gives_hints else "none" for item in configured}

    def _truth(self, item: Finished, workers: int, tell: Tell) -> Truth:
        results, name = item.results, item.campaign.definition.name
        if not is_enumerable(results.problem, self.definition.exact_up_to):
            return best_known(results.problem, results.objectives[results.feasible])
        file = self._file(name)
        return exact_truth(
            results.problem, file, self._fronts, workers, lambda line: tell(f"{name}: {line}")
        )

    def _notes(self, problems: Sequence[ProblemOutcome]) -> tuple[str, ...]:
        definition = self.definition
        notes = []
        short = sorted({len(p.seeds) for p in problems if len(p.seeds) < len(definition.seeds)})
        if len(problems) < len(self.campaigns) or short:
            notes.append(
                f"partial: {len(problems)} of {len(self.campaigns)} problems, some with fewer than "
                f"{len(definition.seeds)} seeds"
            )
        if all(len(problem.seeds) < 2 for problem in problems):
            notes.append("one seed: no spread and no test within a problem can be given")
        if len(problems) < 2:
            notes.append("one problem: nothing can be said of other problems")
        unknown = [p.name for p in problems if p.truth.kind != "exact"]
        if unknown:
            notes.append(
                f"no exact front (too many designs) of {', '.join(unknown)}: shares are of the "
                "best front that any run here has found, so they flatter"
            )
        return (*notes, *_tuning_notes(problems), *_hint_notes(problems))


def _hint_notes(problems: Sequence[ProblemOutcome]) -> list[str]:
    solved = [problem for problem in problems if problem.solved_by_hints]
    if not solved:
        return []
    names = ", ".join(f"{p.name} ({', '.join(p.solved_by_hints)})" for p in solved)
    return [
        f"solved by hints, with which {SOLVED_SHARE:.0%} of the best hypervolume need no model of "
        f"results: {names}"
    ]


def _tuning_notes(problems: Sequence[ProblemOutcome]) -> list[str]:
    tuned = [problem for problem in problems if problem.tuned]
    if not tuned:
        return []
    names = ", ".join(f"{p.name} ({', '.join(p.tuned)})" for p in tuned)
    if len(tuned) == len(problems):
        return [f"every problem was used to tune an optimizer, so none is held back: {names}"]
    return [f"used to tune and therefore left out of ranks and runtimes: {names}"]


def _seconds_per_suggestion(campaign: Campaign, kept: Sequence[int]) -> dict[str, FloatArray]:
    """(suggestions,) by optimizer; a batch counts each of its designs with an equal part."""
    seconds: dict[str, list[FloatArray]] = {run.optimizer: [] for run in campaign.runs}
    for timing in campaign.timings():
        # Batch 0 is the initial sample, which no optimizer chooses.
        if timing.batch and timing.run in kept:
            each = timing.ask_seconds / timing.n_designs
            seconds[campaign.runs[timing.run].optimizer].append(np.full(timing.n_designs, each))
    return {label: np.concatenate([np.empty(0), *parts]) for label, parts in seconds.items()}


def _lines(error: JobError) -> list[str]:
    return str(error).splitlines()
