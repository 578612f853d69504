"""Answers about campaigns: how far they have come, and their fronts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, Self, cast

from pydantic import SkipValidation
from typing_extensions import TypedDict

from codesign.answers.answer import Answer, Design, Entry, Number, Numbers
from codesign.answers.json_values import plain_value
from codesign.answers.uncertainty import FrontUncertainty
from codesign.base.columns import (
    Fields,
    FloatMap,
    IntArray,
    IntegerMap,
    JsonObject,
    Strings,
    values_at,
)
from codesign.base.metrics import Sense
from codesign.insight.plateaus import FoldedFront, folded_front
from codesign.insight.summary import OptimizerSummary, summarize
from codesign.search.campaign import Results
from codesign.search.campaign.campaign_definition import Definition
from codesign.search.campaign.manifest import FileVerdict
from codesign.search.campaign.observations import RunStatus, State
from codesign.search.campaign.status import CampaignStatus
from codesign.search.enumeration import ExactFront, KeptFront
from codesign.search.pareto import TOLERANCE

CHUNK = 10_000
"""Observations decoded at a time, so that memory does not grow with the campaign."""
Reading = Fields
"""The evaluator, its profile, and the options that differ from its defaults."""


StatusWord = Literal["ok", "infeasible", "failed", "timeout", "bad-output", "lost"]


class Observation(TypedDict):
    """A design with its result; a mapping, because exports write millions."""

    optimizer: str
    """Optimizer that proposed it; ``exact`` for a design of the exact front."""
    seed: int
    step: int
    """Position in its run, from 0."""
    design: Design
    metrics: Numbers
    violations: Numbers
    """Relative excess by limit; at most 0 if the design keeps it."""
    feasible: bool
    """True if it keeps every limit."""
    failed: bool
    """True if it has no result."""
    status: StatusWord
    """Cause of a missing result: the evaluator gave up, it took too long, its answer is no number,
    its process died. Otherwise, ``ok`` if it keeps every limit."""
    reason: str | None
    """Reason of a failure."""
    hypervolume: Number
    """Hypervolume of its run after it."""
    inputs: NotRequired[int]
    """Number of times that changed inputs had been accepted."""


class FrontObservation(Observation):
    """A design of the front with its result.

    Attributes:
        number: Its number on the front.
        folded_under: Number of the cheaper design that is nearly as good; null if it is not folded.
    """

    number: int
    folded_under: int | None


class FrontPoint(FrontObservation):
    """A point of the exact front.

    Attributes:
        n_designs: Designs with these objectives.
    """

    n_designs: int


def observations(results: Results, positions: IntArray) -> Iterator[Observation]:
    """One plain mapping per observation; absent parameters are left out of its design."""
    for start in range(0, len(positions), CHUNK):
        chunk = positions[start : start + CHUNK]
        designs = results.problem.space.decode(results.rows[chunk])
        for position, design in zip(chunk.tolist(), designs, strict=True):
            run = results.runs[results.run_index[position]]
            observation: Observation = {
                "optimizer": run.optimizer,
                "seed": run.seed,
                "step": int(results.step[position]),
                "design": plain_design(design),
                "metrics": values_at(results.metrics, position),
                "violations": values_at(results.violations, position),
                "feasible": bool(results.feasible[position]),
                "failed": bool(results.failed[position]),
                "status": cast("StatusWord", results.status_word(position)),
                "reason": results.reasons.get(position),
                "hypervolume": plain_value(results.hypervolume[position]),
            }
            if results.accepted:
                observation["inputs"] = int(results.epoch[position])
            yield observation


def plain_design(design: Design) -> JsonObject:
    """The present parameters of a design as JSON values."""
    return {name: plain_value(value) for name, value in design.items() if value is not None}


class Provenance(Entry):
    """All that the numbers of a campaign depend on."""

    campaign: str
    """Its name."""
    scope: Literal["front", "folded", "all"]
    tolerance: Number = None
    """Share within which a design is folded under a cheaper one."""
    state: State
    evaluated: str
    """Progress of the campaign, in words."""
    evaluator: Reading
    versions: Mapping[str, str | None]
    """Versions of Python and of the libraries that took part."""
    objectives: Mapping[str, Sense]
    """Direction of each objective."""
    reference_point: Numbers
    """Bound of the hypervolume by objective."""
    definition: SkipValidation[Definition]
    """The keys of the campaign file, with defaults filled in."""
    problem: Fields
    """Resolved space, evaluator with every option, objectives, and limits."""
    accepted_changes: Any = None
    """Changes of inputs that were accepted."""

    @classmethod
    def describe(cls, results: Results, scope: str = "front", **fields: Any) -> Self:
        """The record about a campaign's results.

        Args:
            results: Results of the campaign.
            scope: Observations that follow.
            fields: Further fields of the record.
        """
        objectives = results.problem.objectives
        accepted = {"accepted_changes": results.accepted} if results.accepted else {}
        folds = {"tolerance": TOLERANCE} if scope == "folded" else {}
        return cls.read(
            results,
            campaign=results.definition.name,
            scope=scope,
            evaluated=_evaluated(results),
            evaluator=results.reading,
            versions=dict(results.versions),
            objectives={objective.metric.name: objective.sense for objective in objectives},
            problem=results.problem.provenance(),
            **accepted | folds | fields,
        )


def _evaluated(results: Results) -> str:
    """Progress of a campaign in words: evaluated designs out of those planned."""
    if results.is_enumerated:
        return "the exact front, by enumeration"
    return f"{len(results.rows):,} of {results.definition.budget * len(results.runs):,}"


def progress_words(results: Results) -> str:
    """``complete``, or ``stopped, 120 of 1,200 evaluated``."""
    if results.state == "complete":
        return results.state
    return f"{results.state}, {_evaluated(results)} evaluated"


def front_observations(
    results: Results, folded: FoldedFront, limit: int | None = None
) -> list[FrontObservation]:
    """The front's observations with their numbers, and the number under which each is folded."""
    under = folded.under.tolist()
    return [
        {
            "number": place + 1,
            "folded_under": None if under[place] == place else under[place] + 1,
            **observation,
        }
        for place, observation in enumerate(observations(results, folded.positions[:limit]))
    ]


class Front(Provenance):
    """The front of a campaign, and the record of each optimizer."""

    exact_hypervolume: Number
    """Hypervolume of the exact front; null before ``codesign enumerate``."""
    optimizers: Sequence[OptimizerSummary]
    front_is_exact: bool
    """True for the exact front of ``codesign enumerate``, False for the searched designs."""
    front_size: int
    """Designs of the front, also those beyond --limit."""
    observations: SkipValidation[Sequence[FrontObservation]]
    """The front."""
    files: Strings | None = None
    """Paths of the files that were written."""
    uncertainty: FrontUncertainty | None = None
    """Stability of the front; with --robust."""

    @classmethod
    def describe_front(
        cls,
        results: Results,
        front: Results,
        limit: int | None = None,
        tolerance: float = TOLERANCE,
        **fields: Any,
    ) -> Self:
        """The whole front with its provenance and each optimizer's record.

        Args:
            results: Results of the campaign.
            front: The front whose numbers name designs.
            limit: Largest number of designs.
            tolerance: Share within which a design is folded under a cheaper one.
            fields: Further fields.
        """
        folded = folded_front(front, tolerance)
        return cls.describe(
            results,
            exact_hypervolume=results.exact_hypervolume,
            optimizers=summarize(results),
            front_is_exact=front.front_run is not None,
            front_size=len(folded.positions),
            tolerance=tolerance,
            observations=front_observations(front, folded, limit),
            **fields,
        )


class RunAnswer(Answer, Front):
    """A campaign that was run: its front, the record of each optimizer, the files."""


class ParetoAnswer(Answer, Front):
    """The front of a campaign with all that it depends on."""


class KeptEntry(Entry):
    """Designs that tighter limits may bring to the front.

    Attributes:
        metrics: Metrics that are kept besides the objectives.
        limitable: Objectives and kept metrics for whose tighter limits these designs have the
            front.
        n_points: Distinct values of objectives and kept metrics.
        n_front_designs: Designs with those values.
    """

    metrics: Strings
    limitable: Strings
    n_points: int
    n_front_designs: int
    n_evaluated: int


class EnumerateAnswer(Answer, Provenance):
    """The exact front of the whole space of a campaign.

    Attributes:
        hypervolume: Hypervolume of the exact front.
        n_points: Points of the front.
        n_front_designs: Designs with those objectives.
        n_designs: Designs of the space.
        n_repeated: Designs that must have the same numbers as an evaluated one.
        n_excluded: Designs that proven bounds exclude.
        seconds: Wall time of this command; small if the front was stored.
        files: Paths of the files that were written.
        kept: Designs for tighter limits; with --keep.
    """

    hypervolume: Number
    n_points: int
    n_front_designs: int
    n_designs: int
    n_evaluated: int
    n_repeated: int
    n_excluded: int
    n_failed: int
    seconds: float
    points: SkipValidation[Sequence[FrontPoint]]
    files: Strings | None = None
    kept: KeptEntry | None = None

    @classmethod
    def describe_exact(
        cls,
        results: Results,
        front: ExactFront,
        seconds: float,
        limit: int | None = None,
        tolerance: float = TOLERANCE,
        tighter: KeptFront | None = None,
        **fields: Any,
    ) -> Self:
        """An exact front with its provenance, one design per point, and how it was found.

        Args:
            results: One design per point of the front, in its order.
            front: The front.
            seconds: Wall time.
            limit: Largest number of points.
            tolerance: Share within which a point is folded under a cheaper one.
            kept: The designs that may be on the front under tighter limits.
            fields: Further fields.
        """
        folded = folded_front(results, tolerance)
        observed = front_observations(results, folded, limit)
        if tighter is not None:
            fields["kept"] = KeptEntry(
                metrics=list(tighter.kept),
                limitable=[limitable.metric.name for limitable in tighter.limitable],
                n_points=len(tighter),
                n_front_designs=int(tighter.front.counts.sum()),
                n_evaluated=tighter.front.n_evaluated,
            )
        return cls.describe(
            results,
            hypervolume=results.exact_hypervolume,
            n_points=len(front),
            tolerance=tolerance,
            n_front_designs=int(front.counts.sum()),
            n_designs=front.n_designs,
            n_evaluated=front.n_evaluated,
            n_repeated=front.n_repeated,
            n_excluded=front.n_excluded,
            n_failed=front.n_failed,
            seconds=seconds,
            points=[
                {"n_designs": int(front.counts[position]), **observation}
                for position, observation in zip(
                    folded.positions[: len(observed)].tolist(), observed, strict=True
                )
            ],
            **fields,
        )


class RunEntry(Entry):
    """Progress of one optimizer with one seed."""

    optimizer: str
    seed: int
    state: State
    done: int
    """Designs evaluated."""
    feasible: int
    """Evaluated designs within every limit."""
    failed: int
    """Evaluated designs without a result."""
    hypervolume: Number
    """Hypervolume of the designs so far."""
    seconds: Number
    """Wall time."""
    failures: IntegerMap
    """Number of designs without a result, by cause."""

    @classmethod
    def describe(cls, run: RunStatus, **fields: Any) -> Self:
        """The entry of a run."""
        return cls.read(run, optimizer=run.run.optimizer, seed=run.run.seed, **fields)


class CampaignProgress(Entry):
    """Progress of a campaign."""

    name: str
    folder: Path
    """Folder of its results."""
    state: State
    budget: int
    """Designs per run."""
    runs: Sequence[RunEntry]
    """Runs; empty if the store cannot be read."""
    problem: str | None
    """Reason why definition or store cannot be used."""
    notices: Strings
    """Warnings: inputs that changed, a copy that is not complete."""
    done: int
    """Designs evaluated over all runs."""
    total: int
    """Designs that all runs evaluate if the space has as many."""

    @classmethod
    def describe(cls, status: CampaignStatus, **fields: Any) -> Self:
        """The record about a campaign's status."""
        return cls.read(status, **{"runs": list(map(RunEntry.describe, status.runs))} | fields)


class StatusAnswer(Answer, CampaignProgress):
    """Progress of a campaign."""

    evaluator: Reading


class RunsAnswer(Answer):
    """All campaigns and how far each has come."""

    campaigns: Sequence[CampaignProgress]


class VerifyAnswer(Answer):
    """State of every finished file of a campaign's folder."""

    folder: str
    files: Sequence[FileVerdict]


class WatchedRun(RunEntry):
    """Progress and speed of one optimizer with one seed.

    Attributes:
        designs_per_s: Rate of the latest batches; null if unknown.
        left_s: Time until its end at that rate; null if unknown.
    """

    designs_per_s: Number
    left_s: Number


class WatchAnswer(Answer, CampaignProgress):
    """One frame of a running campaign.

    Attributes:
        exact_hypervolume: Hypervolume of the exact front; null before ``codesign enumerate``.
        observations: The front; left out before the first observation.
    """

    runs: Sequence[WatchedRun]
    evaluator: Reading
    optimizers: Sequence[OptimizerSummary] | None = None
    exact_hypervolume: Number = None
    front_size: int | None = None
    observations: SkipValidation[Sequence[FrontObservation]] | None = None


class Files(Entry):
    """Files that a command wrote."""

    files: Strings
    """Paths of the files that were written; those in the working folder are relative to it."""
    notes: Strings | None = None
    """Limits of the numbers, one sentence each."""


class ExportAnswer(Answer, Files):
    """The files that were written for another tool."""


class FigureAnswer(Answer, Files):
    """The figure that was drawn."""


class ReportAnswer(Answer):
    """The page of a campaign that was written.

    Attributes:
        files: Paths of the files that were written.
        bytes: Size of the page.
        state: State of the campaign that the page shows.
    """

    files: Strings
    bytes: int
    state: State


class TimelineAnswer(Answer):
    """One layer simulated.

    Attributes:
        time_s: Time of the layer.
        busy_share: Share of the time in which a resource is busy.
        files: The chart, and the trace for Perfetto.
    """

    evaluator: Reading
    time_s: float
    busy_share: FloatMap
    files: Strings
