"""A comparison: one campaign per problem, run one after the other, and what they came to.

Each campaign has its file and its store in the comparison's folder. Commands of campaigns read it:
``codesign status front runs/compare-small/zdt1.yaml --folder runs/compare-small`` shows its front.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from codesign.base.errors import InputError, JobError
from codesign.base.files import write_text
from codesign.base.records import frozen
from codesign.base.schema import read_document
from codesign.insight.comparison.comparison_definition import (
    ComparisonDefinition,
    ResolvedComparison,
    load_comparison,
)
from codesign.insight.comparison.notes import outcome_notes
from codesign.insight.comparison.outcome import Outcome, ProblemOutcome, measure_run
from codesign.insight.comparison.run_time import run_time
from codesign.insight.comparison.settings import FILE as SETTINGS
from codesign.insight.comparison.settings import note_settings, read_settings
from codesign.insight.comparison.truth import (
    best_known,
    exact_truth,
    published_truth,
)
from codesign.search.campaign import Campaign, CampaignStatus, Interrupted, Results
from codesign.search.campaign.current_inputs import library_versions
from codesign.search.campaign.execution_settings import Execution
from codesign.search.campaign.manifest import Origin, digest_of, list_files, results_digest
from codesign.search.campaign.reference import minimized
from codesign.search.campaign.reference_range import far_words, reference_words
from codesign.search.campaign.status import command_arguments, results_folder
from codesign.search.optimizers.base import SearchSpace
from codesign.search.optimizers.peer import Peer
from codesign.search.optimizers.peer_space import PeerSpace
from codesign.search.pareto import greedy_subset, hypervolume

FRONTS = "fronts"
"""Folder of the exact fronts, next to those of the campaigns, shared by all comparisons."""


Tell = Callable[[str], None]


@frozen
class Finished:
    """A campaign as far as it can be compared.

    Attributes:
        number: Of the problem, in the order of the definition.
        seeds: Those that every optimizer finished.
    """

    campaign: Campaign
    results: Results
    number: int
    seeds: tuple[int, ...]


class Comparison:
    """Optimizers, problems, and the campaigns in which they meet.

    Args:
        fronts: Where exact fronts are kept.
        asked_as: What the user called it, for messages.
    """

    def __init__(
        self, resolved: ResolvedComparison, folder: Path, fronts: Path, asked_as: str
    ) -> None:
        self._resolved = resolved
        self._fronts = fronts
        self._command = f"codesign compare {asked_as}"
        self.folder = folder
        self.campaigns = tuple(
            Campaign(
                replace(problem, path=self._file(problem.definition.name).resolve()),
                folder / problem.definition.name,
                command_arguments(self._file(problem.definition.name), folder),
            )
            for problem in resolved.problems
        )

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
        asked_as = command_arguments(name_or_path, folder)
        return cls(resolved, root / resolved.definition.name, root / FRONTS, asked_as)

    @property
    def definition(self) -> ComparisonDefinition:
        """The comparison file's definition."""
        return self._resolved.definition

    def run(
        self,
        workers: int | None = None,
        tell: Tell = lambda line: None,
        execution: Execution | None = None,
        accept_changes: bool = False,
        retry_failed: bool = False,
    ) -> None:
        """Start the comparison or continue it, to the same results in either case.

        Args:
            workers: Processes; the definition's number, or one per core, if None.
            tell: Is told in one line which problem comes next.
            execution: How designs are evaluated; as the definition says if None.
            accept_changes: Go on with campaigns whose inputs or code have changed.
            retry_failed: Evaluate initial designs again of campaigns that could not begin, because
                all of them failed.

        Raises:
            InputError: A campaign cannot be used; nothing after it was done.
            JobError: Runs failed. The others, of all problems, were done.
            Interrupted: Ctrl-C; everything that was reported is stored.
        """
        failures = []
        if any(not campaign.status().has_ended for campaign in self.campaigns):
            note_settings(self._resolved.optimizers, self.folder, tell)
        for number, campaign in enumerate(self.campaigns):
            is_done = campaign.status().has_ended
            if not is_done:
                tell(f"[{number + 1}/{len(self.campaigns)}] {campaign.definition.name}")
            data = self._resolved.data[number]
            path = self._file(data["name"])
            source = self._resolved.problems[number].path.name
            maker = self.definition.name
            text = f"# Made from {source} by the comparison {maker}; written anew at every run.\n"
            text += json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n"
            write_text(path, text)
            try:
                # What is complete is only compared with the definition.
                retries = retry_failed and not campaign.store_path.exists()
                campaign.run(workers, execution, accept_changes, retries)
            except Interrupted:
                raise Interrupted(
                    f"stopped; what was done is stored in {self.folder}, "
                    "the same command goes on from there"
                ) from None
            except JobError as error:
                failures += [
                    f"{campaign.definition.name}: {line}" for line in str(error).splitlines()
                ]
        if failures:
            hint = f"'{self._command}' tries again, with --partial it reports the others"
            raise JobError("\n".join([*failures, hint]))

    def status(self) -> list[CampaignStatus]:
        """Progress of each campaign; disturbs nobody who runs them."""
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
            InputError: Not everything is finished, or with ``partial``, nothing; no feasible
                design of a problem is within its reference point.
            JobError: A problem has no feasible design, or its exact front is wrong.
            StoreError: A store is damaged.
        """
        statuses = self.status()
        if not partial:
            self._check_finished(statuses)
        finished = []
        for number, (status, campaign) in enumerate(zip(statuses, self.campaigns, strict=True)):
            missing = {run.run.seed for run in status.runs if not run.has_ended}
            seeds = tuple(seed for seed in self.definition.seeds if seed not in missing)
            if seeds:
                finished.append(Finished(campaign, campaign.results(), number, seeds))
        if not finished:
            raise InputError(
                f"no seed of any problem is finished; '{self._command}' goes on",
                str(self.folder),
            )
        n_workers = workers or self.definition.workers or 1
        problems = tuple(self._measured(compared, n_workers, tell) for compared in finished)
        settings = read_settings(self.folder)
        notes = outcome_notes(self.definition, problems)
        return Outcome(self.definition, problems, notes, settings)

    def list_files(self, files: Iterable[Path]) -> None:
        """Enter finished files of the comparison's folder into its manifest.

        Raises:
            StoreError: A campaign's store is damaged.
        """
        stored = [campaign for campaign in self.campaigns if campaign.store_path.exists()]
        definition = self.definition.model_dump(mode="json")
        problems = json.loads(json.dumps(self._resolved.data, default=str))
        origin = Origin(
            inputs=digest_of({"comparison": definition, "problems": problems}),
            code="",
            campaigns={
                campaign.folder.name: results_digest(campaign.folder) for campaign in stored
            },
            versions=library_versions(),
        )
        definitions = [self._file(data["name"]) for data in self._resolved.data]
        list_files(
            self.folder, self.definition.name,
            [*files, *definitions, self.folder / SETTINGS], origin,
        )  # fmt: skip

    def _file(self, name: str) -> Path:
        """The campaign file of a problem."""
        return self.folder / f"{name}.yaml"

    def _check_finished(self, statuses: Sequence[CampaignStatus]) -> None:
        runs = [run for status in statuses for run in status.runs]
        missing = sum(not run.has_ended for run in runs)
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

    def _measured(self, compared: Finished, workers: int, tell: Tell) -> ProblemOutcome:
        results = compared.results
        definition = self.definition
        problem = results.problem
        name = results.definition.name
        resolved = self._resolved.problems[compared.number]
        if problem.space.size <= definition.exact_up_to:
            truth = exact_truth(
                problem, self._file(name), self._fronts, workers, lambda x: tell(f"{name}: {x}")
            )
        else:
            truth = published_truth(problem, results.reference_point) or best_known(
                problem, results.objectives[results.feasible]
            )
        reference = minimized(problem, results.reference_point)
        best = truth.hypervolume(reference)
        picked = greedy_subset(truth.objectives, reference, definition.n_chosen)
        if best <= 0:
            document = read_document(resolved.path)
            raise InputError(
                reference_words(results, truth.objectives), document.where("reference_point")
            )
        far = far_words(results, best)
        gives_hints = problem.is_predicted or problem.evaluator.offers("features")
        run_numbers = [i for i, run in enumerate(results.runs) if run.seed in compared.seeds]
        timings = compared.campaign.timings()
        search = SearchSpace(resolved.problem.space, resolved.problem.admits)
        configured = resolved.optimizers
        return ProblemOutcome(
            name=name,
            kind=self._resolved.kinds[compared.number],
            description=results.definition.description,
            reading=results.reading,
            objectives=problem.objectives,
            truth=truth,
            reference_point=results.reference_point,
            best_hypervolume=best,
            picked_share=hypervolume(truth.objectives[picked], reference) / best,
            tuned=tuple(label for label, names in definition.tuned_on.items() if name in names),
            seeds=compared.seeds,
            runs=tuple(
                measure_run(results, i, truth, definition, run_time(results, i, timings))
                for i in run_numbers
            ),
            warnings=() if far is None else (far,),
            hints={x.label: x.hint_use if gives_hints else "none" for x in configured},
            uninformed=tuple(
                optimizer.label
                for optimizer in configured
                if isinstance(optimizer.options, Peer.Options)
                and PeerSpace.read(search).unexpressed(optimizer.options.method)
            ),
        )
