"""The reference sample of a campaign: which designs, evaluated how, and as the store has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codesign.base.columns import IntArray, StringTuple
from codesign.base.failures import Failure
from codesign.search.campaign.campaign_definition import SAMPLE_SIZE, ResolvedDefinition
from codesign.search.campaign.execution import Job
from codesign.search.campaign.guarded_evaluation import LOG, evaluation
from codesign.search.campaign.observations import SAMPLE, ObservationBatch
from codesign.search.campaign.reference import (
    TRIALS,
    FailedSampleError,
    Reference,
    admissible_sample,
    find_reference,
)
from codesign.search.execution.guard import is_foreign
from codesign.search.execution.known_answers import AnswerFile
from codesign.search.observations import Observations
from codesign.search.optimizers.base import SearchSpace, initial_designs
from codesign.search.problem import Problem

FILE = "reference.part"
"""File in a campaign's folder with the answers so far, until its store exists."""


def make_reference(
    resolved: ResolvedDefinition,
    job: Job | None = None,
    retries_failed: bool = False,
) -> Reference:
    """The reference point of a campaign.

    Args:
        job: Evaluates the designs of slow evaluators, which become durable in its folder one by
            one, so that an interrupted sample goes on. None: nothing is kept.
        retries_failed: Evaluate designs again that are stored there as failed.

    Raises:
        InputError: The space has no admissible design.
        FailedSampleError: No design of the sample could be evaluated, now or before: something
            else is wrong than the designs.
        JobError: No design can be evaluated any more; what was answered is kept.
    """
    problem = resolved.problem
    stated_point = resolved.reference_point
    rows = _rows(resolved)
    if not is_foreign(problem.evaluator):
        return find_reference(problem, rows, stated_point)
    if job is None:
        with evaluation(resolved) as evaluate:
            return find_reference(problem, rows, stated_point, evaluate, searches=False)
    file = AnswerFile(job.folder / FILE, problem, retries_failed)
    n_known = len(file.answers)
    with job.sample_evaluation() as each:

        def durable(designs: IntArray) -> Observations:
            return file.evaluate(designs, each)

        try:
            return find_reference(problem, rows, stated_point, durable, searches=False)
        except FailedSampleError as error:
            is_new = len(file.answers) > n_known
            log = job.folder / LOG
            printed = f"; {log} has what was printed" if log.exists() else ""
            remedy = (
                f"{'this is stored' if is_new else 'in an earlier run'}, and they are not asked "
                "again: with --retry-failed they are, and if others would not fail, set a larger "
                f"'initial'{printed}"
            )
            raise FailedSampleError(f"{error} ({remedy})") from error


def sample_notices(problem: Problem, folder: Path) -> StringTuple:
    """Stored answers of the sample of a campaign that has no store yet, in words."""
    answers = AnswerFile(folder / FILE, problem).answers.values()
    reasons = [answer.reason for answer in answers if isinstance(answer, Failure)]
    if not answers:
        return ()
    failed = f", {len(reasons)} failed, the last with: {reasons[-1]}" if reasons else ""
    return (f"of the reference sample {len(answers)} designs are stored{failed}",)


def _rows(resolved: ResolvedDefinition) -> IntArray:
    problem = resolved.problem
    definition = resolved.definition
    n = TRIALS if resolved.reference_point is not None else definition.reference_sample
    if is_foreign(problem.evaluator) and definition.reference_sample is None:
        search = SearchSpace(problem.space, problem.admits)
        rows = initial_designs(search, definition.initial, definition.seeds[0])
        # An empty sample has its own words for what stands in the way.
        return rows if len(rows) else admissible_sample(problem, TRIALS)
    return admissible_sample(problem, n or SAMPLE_SIZE)


def sample_batch(reference: Reference) -> ObservationBatch:
    """The sample as the store takes it."""
    n = len(reference.sample)
    return ObservationBatch(SAMPLE, 0, 0, reference.sample, np.zeros(n))
