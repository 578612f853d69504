"""The reference sample of a campaign: which designs, evaluated how, and as the store has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codesign.campaign.definition import SAMPLE_SIZE, ResolvedDefinition
from codesign.campaign.evaluation import LOG, evaluation
from codesign.campaign.loop import recorded_numbers
from codesign.campaign.observations import (
    SAMPLE,
    Layout,
    ObservationBatch,
    status_of,
)
from codesign.campaign.reference import (
    TRIALS,
    FailedSampleError,
    Reference,
    admissible_sample,
    find_reference,
)
from codesign.columns import IntArray
from codesign.execution.guard import is_foreign
from codesign.execution.known_answers import AnswerFile
from codesign.optimizers.base import SearchSpace, initial_designs
from codesign.problem import Observations

FILE = "reference.part"
"""In a campaign's folder until its store is there: the answers so far, where they are slow."""


def make_reference(resolved: ResolvedDefinition, folder: Path | None = None) -> Reference:
    """The reference point of a campaign.

    Args:
        resolved: The campaign.
        folder: Of the campaign; designs of slow evaluators become durable there one by one, and an
            interrupted sample goes on. None: nothing is kept.

    Raises:
        InputError: The space has no admissible design.
        FailedSampleError: No design of the sample could be evaluated; of it only the log is kept,
            because what all designs have in common may be mended from outside.
        JobError: No design can be evaluated any more; what was answered is kept.
    """
    problem, stated_point = resolved.problem, resolved.reference_point
    rows = _rows(resolved)
    if not is_foreign(problem.evaluator):
        return find_reference(problem, rows, stated_point)
    with evaluation(resolved, folder) as evaluate:
        if folder is None:
            return find_reference(problem, rows, stated_point, evaluate, searches=False)
        file = AnswerFile(folder / FILE, problem)

        def durable(designs: IntArray) -> Observations:
            return file.evaluate(designs, evaluate)

        try:
            return find_reference(problem, rows, stated_point, durable, searches=False)
        except FailedSampleError as error:
            file.discard()
            remedy = "if others would not, set a larger 'initial'"
            log = f"; {folder / LOG} has what was printed" if (folder / LOG).exists() else ""
            raise FailedSampleError(f"{error} ({remedy}{log})") from error


def _rows(resolved: ResolvedDefinition) -> IntArray:
    problem, definition = resolved.problem, resolved.definition
    n = TRIALS if resolved.reference_point is not None else definition.reference_sample
    if is_foreign(problem.evaluator) and definition.reference_sample is None:
        search = SearchSpace(problem.space, problem.admits)
        rows = initial_designs(search, definition.initial, definition.seeds[0])
        # An empty sample has its own words for what stands in the way.
        return rows if len(rows) else admissible_sample(problem, TRIALS)
    return admissible_sample(problem, n or SAMPLE_SIZE)


def sample_batch(reference: Reference, layout: Layout) -> ObservationBatch:
    """The sample as the store takes it."""
    observations = reference.sample
    return ObservationBatch(
        run=SAMPLE,
        batch=0,
        first_step=0,
        rows=observations.rows,
        numbers=recorded_numbers(observations, layout),
        status=status_of(observations),
        reasons={i: failure.reason for i, failure in observations.failures.items()},
        hypervolume=np.zeros(len(observations.rows)),
        ask_seconds=0.0,
        evaluate_seconds=0.0,
    )
