"""Single passes of a design over requests of any length and number, by the evaluator of its phase.

An evaluator is built anew for each length, of whose workload only model and formats count.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codesign.base.columns import (
    Columns,
    Fields,
    FloatArray,
    IntegerSequence,
    Strings,
    column_of,
    design_columns,
    joined,
)
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation
from codesign.evaluators.phase_machine import BATCH_SIZE, PhaseMachine, machine_for


def evaluate_requests(
    machine: PhaseMachine,
    design: Fields,
    phase: str,
    prompt_tokens: int,
    batches: IntegerSequence,
    metrics: Strings,
) -> Evaluation:
    """Metrics of a design that generates one token of each request.

    Args:
        machine: The evaluator.
        design: The design, by the evaluator's parameters, without a batch size.
        phase: ``prefill`` or ``decode``.
        batches: (n,) requests processed together.
        metrics: Names of those wanted.

    Raises:
        InputError: The evaluator does not report them, fails, or processes another number of
            requests together.
    """
    names = [*metrics] if _states_batch(machine) else [*dict.fromkeys([*metrics, BATCH_SIZE])]
    evaluations = [
        _evaluated(evaluator, columns, names)
        for evaluator, columns in _requests(machine, design, phase, prompt_tokens, batches)
    ]
    values = joined([result.metrics for result in evaluations])
    if not _states_batch(machine) and (values[BATCH_SIZE] != np.array(batches)).any():
        raise InputError(
            f"expected an evaluator that takes the batch of its workload, but of {batches[0]} "
            f"requests it processes {values[BATCH_SIZE][0]:g} together"
        )
    return Evaluation(
        {name: values[name] for name in metrics},
        joined([result.violations for result in evaluations]),
    )


def predict_requests(
    machine: PhaseMachine,
    design: Fields,
    phase: str,
    prompt_tokens: int,
    batches: IntegerSequence,
    metric: str,
) -> FloatArray | None:
    """(n,) of a metric by the evaluator's cheaper model; None if it has none, or not this metric.

    Arguments as of :func:`evaluate_requests`.
    """
    predictions = []
    for evaluator, columns in _requests(machine, design, phase, prompt_tokens, batches):
        values = evaluator.predict(columns, [metric])
        if metric not in values or not np.isfinite(values[metric]).all():
            return None
        predictions.append(values[metric])
    return np.concatenate(predictions)


def _states_batch(machine: PhaseMachine) -> bool:
    return BATCH_SIZE in machine.required_parameters | machine.optional_parameters


def _requests(
    machine: PhaseMachine,
    design: Fields,
    phase: str,
    prompt_tokens: int,
    batches: IntegerSequence,
) -> Iterator[tuple[PhaseMachine, Columns]]:
    """Evaluators with designs: one for all batches if designs state them, else one for each."""
    counts = {"trace": None, "prompt_tokens": prompt_tokens, "generated_tokens": 1}
    # The caller checks the lengths; a table ends beyond the longest request.
    request = machine.workload.model_dump() | {"phase": phase, "beyond_context": True, **counts}
    factory = type(machine)
    options = machine.options
    if _states_batch(machine):
        columns = {name: column_of([value] * len(batches)) for name, value in design.items()}
        columns[BATCH_SIZE] = column_of(list(batches))
        yield machine_for(factory, request | {"batch": 1}, options, machine), columns
        return
    for batch in batches:
        requests = request | {"batch": batch}
        yield machine_for(factory, requests, options, machine), design_columns(design)


def _evaluated(machine: PhaseMachine, designs: Columns, metrics: Strings) -> Evaluation:
    declared = set(machine.metric_names)
    if missing := [name for name in metrics if name not in declared]:
        raise InputError(f"expected an evaluator that reports {', '.join(missing)}")
    evaluation = machine.evaluate(designs, metrics)
    if evaluation.failures:
        reason = next(iter(evaluation.failures.values()))
        raise InputError(f"the evaluator failed on this design: {reason}")
    return evaluation
