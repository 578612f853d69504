"""Seconds of a serving engine's steps on an accelerator design, interpolated between passes.

The evaluator times whole passes of one phase: decode steps of a batch over a context, prefills of a
prompt. They are tabulated by requests exactly, and by contexts and prompts at points between which
they are interpolated linearly. Points are added until the middle of every gap is within a
tolerance, or the gap is narrow: tiles of the array make times jump from one token to the next. A
chunk of a prompt takes what the prompt takes with it, less what it takes without.

Limiting assumption: a step with chunks and decoding requests takes the time of both, one after the
other, as a design has no kernels that share the weights between phases. That is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from codesign.columns import column_of
from codesign.deployments.queueing import EngineStep
from codesign.deployments.queueing.token_grid import place_on, token_grid
from codesign.errors import InputError
from codesign.evaluators.base import Evaluation
from codesign.evaluators.npu.npu_evaluator import NpuEvaluator
from codesign.evaluators.npu.preparation import BATCH_SIZE
from codesign.workload import Request

_RATIO = 2.0**0.25
"""From one point of the first grid to the next [ours]."""
_TOLERANCE = 0.005
"""Relative error in the middle of a gap beyond which a point is added there [ours]."""
_NARROW = 8
"""Tokens of a gap that is not parted further [ours]: a jump in it is smeared over so many."""


class DesignStepTimes:
    """Step times of one accelerator design, or of several that serve a model together.

    Args:
        evaluator: An evaluator of the model; of its workload only model and formats count.
        design: The design, by the evaluator's parameters, without a batch size.
        max_sequences: Requests that decode together at most.
        max_context_tokens: The longest context.

    Raises:
        InputError: The model does not generate token by token.
    """

    def __init__(
        self,
        evaluator: NpuEvaluator,
        design: Mapping[str, Any],
        max_sequences: int,
        max_context_tokens: int,
    ) -> None:
        if evaluator.workload.language_model.is_diffusion:
            raise InputError("expected a model that generates token by token")
        self._evaluator = evaluator
        self._design = {name: value for name, value in design.items() if name != BATCH_SIZE}
        self._batches = list(range(1, max_sequences + 1))
        self._max_context = max_context_tokens

    def step_s(self, step: EngineStep) -> float:
        seconds = 0.0
        for chunk in step.chunks:
            before = self._prefill_s(chunk.past_tokens)
            seconds += self._prefill_s(chunk.past_tokens + chunk.tokens) - before
        if step.n_decoding:
            seconds += self._decode_s(step.n_decoding, step.context_tokens / step.n_decoding)
        return seconds

    def _decode_s(self, requests: int, context: float) -> float:
        contexts, rows = self._decodes
        i, share = place_on(contexts, context)
        low = rows[i][requests - 1]
        return low + share * (rows[i + 1][requests - 1] - low) if share else low

    @cached_property
    def _decodes(self) -> tuple[list[int], list[list[float]]]:
        """Contexts, and seconds of a decode step at each by requests from 1."""
        return _tabulate(self._max_context, lambda n: self._pass_s("decode", n, self._batches))

    def _prefill_s(self, tokens: int) -> float:
        if not tokens:
            return 0.0
        prompts, seconds = self._prefills
        i, share = place_on(prompts, tokens)
        low = seconds[i][0]
        return low + share * (seconds[i + 1][0] - low) if share else low

    @cached_property
    def _prefills(self) -> tuple[list[int], list[list[float]]]:
        """Tokens of prompts, and seconds of the prefill of each."""
        return _tabulate(self._max_context, lambda n: self._pass_s("prefill", n, [1]))

    def _pass_s(self, phase: str, tokens: int, batches: Sequence[int]) -> list[float]:
        """Seconds of passes of so many requests with so many tokens."""
        metric = "time_per_output_token_s" if phase == "decode" else "time_to_first_token_s"
        # A decode step's context ends with its own token.
        prompt = tokens if phase == "prefill" else max(tokens - 1, 1)
        evaluation = evaluate_requests(
            self._evaluator, self._design, phase, prompt, batches, [metric]
        )
        return [float(value) for value in evaluation.metrics[metric]]


def evaluate_requests(
    evaluator: NpuEvaluator,
    design: Mapping[str, Any],
    phase: str,
    prompt_tokens: int,
    batches: Sequence[int],
    metrics: Sequence[str],
) -> Evaluation:
    """Metrics of a design that generates one token of each request.

    Args:
        evaluator: The evaluator; of its workload only model and formats count.
        design: The design, by the evaluator's parameters, without a batch size.
        phase: ``prefill`` or ``decode``.
        batches: (n,) requests processed together.
        metrics: Names of those wanted.
    """
    counts = {"prompt_tokens": prompt_tokens, "generated_tokens": 1}
    request = Request.model_validate(
        evaluator.workload.model_dump() | {"phase": phase, "trace": None, "batch": 1, **counts}
    )
    own = NpuEvaluator(request, evaluator.options, library=evaluator.technologies())
    columns = {name: column_of([value] * len(batches)) for name, value in design.items()}
    return own.evaluate(columns | {BATCH_SIZE: column_of(list(batches))}, metrics)


def _tabulate(
    largest: int, seconds_of: Callable[[int], list[float]]
) -> tuple[list[int], list[list[float]]]:
    """Points from 1 on, and rows of seconds, between which linear interpolation is good enough."""
    rows: dict[int, list[float]] = {}
    grid = token_grid(largest, _RATIO)
    gaps = list(pairwise(grid))
    for point in grid:
        rows[point] = seconds_of(point)
    while gaps:
        low, high = gaps.pop()
        if high - low <= _NARROW:
            continue
        middle = (low + high) // 2
        rows[middle] = seconds_of(middle)
        share = (middle - low) / (high - low)
        straight = (1.0 - share) * np.array(rows[low]) + share * np.array(rows[high])
        if np.max(np.abs(straight / np.array(rows[middle]) - 1.0)) > _TOLERANCE:
            gaps += [(low, middle), (middle, high)]
    points = sorted(rows)
    return points, [rows[point] for point in points]
