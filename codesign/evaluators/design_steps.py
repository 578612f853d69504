"""Seconds of a serving engine's steps on a design, interpolated between passes.

The evaluator times whole passes of one phase: decode steps of a batch over a context, prefills of a
prompt. They are tabulated by requests exactly, and by contexts and prompts at points between which
they are interpolated linearly. Points are added until the middle of every gap is within a
tolerance, or the gap is narrow: tiles of the array make times jump from one token to the next. A
chunk of a prompt takes what the prompt takes with it, less what it takes without.

Of an evaluator that is slow (``is_slow``) the passes at few points give a correction, which is
interpolated between them, to its cheaper model (``predict``), which is tabulated as above. Without
such a model the seconds themselves are interpolated, between twice as many points each way.

Limiting assumption: a step with chunks and decoding requests takes the time of both, one after the
other, as a design has no kernels that share the weights between phases. That is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise

import numpy as np

from codesign.base.columns import Fields, FloatArray, FloatList, IntegerList, IntegerSequence
from codesign.base.errors import InputError
from codesign.evaluators.phase_machine import BATCH_SIZE, PhaseMachine
from codesign.evaluators.request_passes import evaluate_requests, predict_requests
from codesign.models.deployments.queueing import EngineStep
from codesign.models.deployments.queueing.token_grid import interpolated, token_grid

_Table = tuple[IntegerList, list[FloatList]]
"""Points, and a row of seconds at each."""
_RATIO = 2.0**0.25
"""Ratio of one point of the first grid to the one before [ours]."""
_SPARSE_RATIO, _SPARSE_RATIO_ALONE = 4.0, 2.0
"""The same of the passes of a slow evaluator, with a cheaper model and without one [ours]."""
_TOLERANCE = 0.005
"""Relative error in the middle of a gap beyond which a point is added there [ours]."""
_NARROW = 8
"""Tokens of a gap that is not parted further [ours]: a jump in it is smeared over so many."""
_TIMES = {"prefill": "time_to_first_token_s", "decode": "time_per_output_token_s"}


class DesignStepTimes:
    """Step times of one design, or of several that serve a model together.

    Args:
        machine: An evaluator of the model; of its workload only model and formats count.
        design: The design, by the evaluator's parameters, without a batch size.
        max_sequences: Requests that decode together at most.
        max_context_tokens: The longest context.

    Raises:
        InputError: The model does not generate token by token.
    """

    def __init__(
        self,
        machine: PhaseMachine,
        design: Fields,
        max_sequences: int,
        max_context_tokens: int,
    ) -> None:
        if machine.workload.language_model.is_diffusion:
            raise InputError("expected a model that generates token by token")
        self._machine = machine
        self._design = {name: value for name, value in design.items() if name != BATCH_SIZE}
        self._batches = list(range(1, max_sequences + 1))
        self._max_context = max_context_tokens

    def step_s(self, step: EngineStep) -> float:
        seconds = 0.0
        for chunk in step.chunks:
            before = self._prefill_s(chunk.past_tokens)
            seconds += self._prefill_s(chunk.past_tokens + chunk.tokens) - before
        if step.n_decoding:
            contexts, rows = self._decodes
            mean_context = step.context_tokens / step.n_decoding
            column = step.n_decoding - 1
            seconds += interpolated(contexts, mean_context, lambda i: rows[i][column])
        return seconds

    @cached_property
    def _decodes(self) -> _Table:
        """Contexts, and seconds of a decode step at each by requests from 1."""
        return self._table("decode", self._batches)

    def _prefill_s(self, tokens: int) -> float:
        if not tokens:
            return 0.0
        points, rows = self._prefills
        return interpolated(points, tokens, lambda i: rows[i][0])

    @cached_property
    def _prefills(self) -> _Table:
        """Tokens of prompts, and seconds of the prefill of each."""
        return self._table("prefill", [1])

    def _table(self, phase: str, batches: IntegerSequence) -> _Table:
        seconds_of = self._pass_s
        if self._machine.is_slow:
            seconds_of = self._sparse_passes(phase, batches[-1])
        return _tabulate(self._max_context, lambda n: seconds_of(phase, n, batches).tolist())

    def _pass_s(self, phase: str, tokens: int, batches: IntegerSequence) -> FloatArray:
        """(n,) seconds of passes of so many requests with so many tokens."""
        metric = _TIMES[phase]
        prompt = _prompt(phase, tokens)
        return evaluate_requests(
            self._machine, self._design, phase, prompt, batches, [metric]
        ).metrics[metric]

    def _predicted_s(self, phase: str, tokens: int, batches: IntegerSequence) -> FloatArray | None:
        metric = _TIMES[phase]
        prompt = _prompt(phase, tokens)
        return predict_requests(self._machine, self._design, phase, prompt, batches, metric)

    def _sparse_passes(self, phase: str, most: int) -> Callable[..., FloatArray]:
        """Seconds like :meth:`_pass_s` of a slow evaluator, which is asked for few passes."""
        has_model = self._predicted_s(phase, 1, [1]) is not None
        ratio = _SPARSE_RATIO if has_model else _SPARSE_RATIO_ALONE
        points = token_grid(self._max_context, ratio)
        tried = token_grid(most, ratio)

        def cheap_s(tokens: int, batches: IntegerSequence) -> FloatArray:
            if not has_model:
                return np.ones(len(batches))
            predicted = self._predicted_s(phase, tokens, batches)
            if predicted is None:
                raise InputError(f"the evaluator predicts no time of a {phase} of {tokens} tokens")
            return predicted

        rows = [self._pass_s(phase, tokens, tried) / cheap_s(tokens, tried) for tokens in points]
        corrections = np.array(rows).T

        def seconds_of(_: str, tokens: int, batches: IntegerSequence) -> FloatArray:
            of_tried = [np.interp(tokens, points, column) for column in corrections]
            return np.asarray(cheap_s(tokens, batches) * np.interp(batches, tried, of_tried))

        return seconds_of


def _prompt(phase: str, tokens: int) -> int:
    """Tokens of the prompt in a pass; a decode step's context ends with its own token."""
    return tokens if phase == "prefill" else max(tokens - 1, 1)


def _tabulate(largest: int, seconds_of: Callable[[int], FloatList]) -> _Table:
    """Points from 1 on, and rows of seconds, between which linear interpolation is good enough."""
    rows = {}
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
