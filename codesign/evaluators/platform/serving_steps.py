"""Seconds of a serving engine's steps on devices, from tables of passes.

A step carries chunks of prompts and decoding requests. Its kernels are of four sorts, and each has
a table that is made of whole passes (:mod:`.passes`):

- products, norms and messages of the layers run once for all tokens: by tokens, exactly;
- the ends of the model run once for all requests, each of which gets a token or is ignored: by
  requests, exactly;
- attention and states of the decoding requests: by requests exactly, by mean context on a grid;
- attention and states of a chunk: by tokens and by those before it, on a grid.

Between the points of a grid times are interpolated linearly: ``tests`` bound the error of a step.

Limiting assumptions: each sort runs at the sustained clock of its own pass; contexts of requests
that decode together are alike; chunks of several prompts run one after the other; groups of devices
with requests of their own are in step. With a draft model every verification yields the mean
number of tokens, spread over as many steps.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from math import ceil

import numpy as np

from codesign.base.columns import (
    Fields,
    FloatArray,
    FloatList,
    IntegerPair,
    column_of,
    design_columns,
)
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.base.units import format_engineering
from codesign.evaluators.platform.device_memory import rank_storage
from codesign.evaluators.platform.device_work import Stream
from codesign.evaluators.platform.operator_time import Rooflines
from codesign.evaluators.platform.pass_messages import BETWEEN_GROUPS
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_limits import describe_limits
from codesign.evaluators.platform.platform_request import PlatformRequest
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.evaluators.platform.serving_rules import rules_of
from codesign.evaluators.platform.timed_pass import TimedPass
from codesign.models.deployments.queueing import EngineLimits, EngineStep
from codesign.models.deployments.queueing.engine_limits import BLOCK_TOKENS
from codesign.models.deployments.queueing.step_times import StepTimes
from codesign.models.deployments.queueing.token_grid import interpolated, token_grid
from codesign.models.workload.request import served_operators

_GRID_RATIO = 2.0**0.5
"""Ratio of neighbouring points of a grid [ours]; :mod:`tests` bound its error."""
_UNSUPPORTED = ("pipeline_parallel", "sequence_parallel", "data_parallel")
"""Degrees that must be 1: replicas are machines, and stages would overlap steps."""


@frozen
class DraftedStepTimes:
    """Step times of a machine that checks the tokens of a draft model.

    Limiting assumption: a request's tokens come at the mean pace of its verifications.

    Attributes:
        checking: Steps in which the model checks drafted tokens.
        draft: Steps of the draft model.
        latency_s: Of a message, two of which go with a verification, where the draft model has
            devices of its own; it then prefills a prompt beside the model. None: on the same ones.
    """

    checking: StepTimes
    draft: StepTimes
    request: PlatformRequest
    latency_s: float | None = None

    def step_s(self, step: EngineStep) -> float:
        prompts = EngineStep(step.chunks, 0, 0)
        prompts_s = self.checking.step_s(prompts), self.draft.step_s(prompts)
        tokens_s = self.checking.step_s(step) - prompts_s[0]
        tokens_s += self.request.n_drafted * self.draft.step_s(replace(step, chunks=()))
        tokens_s += 2.0 * (self.latency_s or 0.0) * (step.n_decoding > 0)
        prompt_s = sum(prompts_s) if self.latency_s is None else max(prompts_s)
        return prompt_s + tokens_s / self.request.tokens_per_verification


class DeviceStepTimes:
    """Step times of one machine: devices that serve a model together.

    Args:
        evaluator: The evaluator; the tokens of its workload do not matter.
        design: Device, formats and degrees of one machine, by the evaluator's parameters.
        limits: The largest step that will be asked for.
        max_context_tokens: The longest context that will be asked for.

    Raises:
        InputError: The options or degrees have no steps that can be told apart, or the machine
            cannot hold the model.
    """

    def __init__(
        self,
        evaluator: PlatformEvaluator,
        design: Fields,
        limits: EngineLimits,
        max_context_tokens: int,
    ) -> None:
        _check(evaluator, design)
        self._evaluator = evaluator
        self._design = dict(design)
        request = evaluator.workload
        self._model = request.language_model
        self._layers = request.layers
        self._n_new = request.n_drafted + request.checked_tokens
        self._rules = rules_of(evaluator.options)
        self._limits = limits
        engine = evaluator.options.engine_record
        self._has_host = engine.starter == "eager" or engine.host_request > 0
        self._n_groups = int(self._serving(1).platform.attention_groups[0])
        self._contexts = token_grid(max_context_tokens, _GRID_RATIO)
        self._chunks = token_grid(limits.max_batched_tokens, _GRID_RATIO)
        self._pasts = [0, *self._contexts]
        self._decode_rows: dict[int, FloatList] = {}
        self._chunk_times: dict[IntegerPair, float] = {}

    def step_s(self, step: EngineStep) -> float:
        if not step.chunks and not step.n_decoding:
            return 0.0
        n_prefilled = 0
        n_chunks = len(step.chunks)
        seconds = 0.0
        for chunk in step.chunks:
            n_prefilled += chunk.tokens
            seconds += interpolated(
                self._chunks, chunk.tokens, partial(self._chunk_after, past=chunk.past_tokens)
            )
        n_tokens = fullest = step.n_decoding * self._n_new + n_prefilled
        if self._n_groups > 1:
            fullest = ceil(step.n_decoding / self._n_groups) * self._n_new
            if n_chunks:
                longest = max(chunk.tokens for chunk in step.chunks)
                share = max(longest / n_prefilled, 1.0 / self._n_groups)
                seconds *= share
                fullest += ceil(share * n_prefilled)
        if step.n_decoding:
            mean_context = step.context_tokens / step.n_decoding
            seconds += interpolated(
                self._contexts, mean_context, lambda i: self._decode_row(i)[step.n_decoding]
            )
        tokens_s, routed_s, requests_s = self._shared_s
        layers = tokens_s[fullest] + routed_s[n_tokens] + seconds
        if self._has_host:
            shared, decoding, chunk_s = self._starts_s
            layers = max(layers, shared + decoding * (step.n_decoding > 0) + chunk_s * n_chunks)
            layers += self._host_own_s[n_chunks > 0][ceil(step.n_decoding / self._n_groups)]
        return layers + requests_s[step.n_decoding * self._n_new + n_chunks]

    # Tables of passes.

    def _serving(self, n: int) -> PlatformServing:
        design = self._design | {"batch_size": 1}
        return self._evaluator.serving(
            {name: column_of([value] * n) for name, value in design.items()}
        )

    def _time(self, stream: Stream, n: int) -> TimedPass:
        serving = self._serving(n)
        return serving.time([stream], serving.decode_footprint)

    def _decoding(self, requests: FloatArray, context: float, n_new: int = 1) -> Stream:
        """Decoding requests whose newest token is the last of a context."""
        table = self._rules.decode_table(self._model, context, 0.0, n_new)
        table = served_operators(table, self._layers)
        return Stream("", table, max(context - 1.0, 0.0), requests, requests, requests, False)

    def _chunk(self, tokens: int, past: int) -> Stream:
        request = np.ones(1)
        table = served_operators(self._rules.prefill_table(self._model, tokens, past), self._layers)
        return Stream("", table, float(past), request, request, request, True)

    def _own_s(self, stream: Stream, n: int) -> FloatArray:
        """(n,) seconds of the operators that belong to the requests of a stream alone."""
        work = self._serving(n).work([stream])
        timing = self._timing_of(n)
        phase_work = [operator for operator in work if operator.rule.scope == "phase"]
        # Feed-forward layers have none.
        phase_operators = (
            timing.sustained(timing.times(phase_work), np.zeros(n)) if phase_work else []
        )
        return sum((operator.time_s for operator in phase_operators), np.zeros(n))

    @cached_property
    def _shared_s(self) -> list[FloatList]:
        """Seconds of what all requests share.

        Kernels and messages by tokens of the fullest group, experts by tokens of all groups, logits
        by requests. A pass of each number of tokens is taken as if all were decoding.
        """
        n = self._limits.max_batched_tokens + (self._n_new - 1) * self._limits.max_sequences
        passes = {
            n_groups: self._time(self._decoding(np.arange(1.0, n + 1.0) * n_groups, 1.0), n)
            for n_groups in {1, self._n_groups}
        }

        def total(n_groups: int, scope: str, is_routed: bool) -> FloatList:
            times = [
                operator.time_s
                for operator in passes[n_groups].sustained.operators
                if operator.scope == scope
                and (operator.kernel == "experts") == is_routed
                and (self._layers == "all" or operator.name not in BETWEEN_GROUPS)
            ]
            return [0.0, *np.sum([np.zeros(n), *times], axis=0).tolist()]

        shared = total(self._n_groups, "tokens", False)
        return [shared, total(1, "tokens", True), total(1, "logits", False)]

    @cached_property
    def _starts_s(self) -> tuple[float, float, float]:
        """Seconds in which the host starts the shared kernels, and those of either stream."""
        seconds = []
        for stream in (self._decoding(np.ones(1), 1.0), self._chunk(1, 0)):
            operators = self._time(stream, 1).operators
            for is_shared in (True, False):
                started = [
                    operator for operator in operators if (operator.scope != "phase") == is_shared
                ]
                seconds.append(float(self._timing_of(1).host_starts_s(started)[0]))
        return seconds[0], seconds[1], seconds[3]

    @cached_property
    def _host_own_s(self) -> list[FloatList]:
        """Seconds of the host that no kernel hides, in steps without and with prompts, by decoding
        requests."""
        decoding = np.arange(self._limits.max_sequences + 1.0)
        timing = self._timing_of(len(decoding))
        return [
            timing.host_own_s(decoding, has_prompts=has_prompts).tolist()
            for has_prompts in (False, True)
        ]

    def _timing_of(self, n: int) -> Rooflines:
        """The times of operators, and of the host, of so many passes."""
        serving = self._serving(n)
        residence = serving.residence(serving.decode_footprint)
        return self._rules.timing(self._model, serving.platform, residence)

    # What belongs to requests, on grids.

    def _decode_row(self, i: int) -> FloatList:
        """Seconds by decoding requests at a point of the grid of contexts."""
        if i not in self._decode_rows:
            n = self._limits.max_sequences
            requests = np.arange(1.0, n + 1.0)
            stream = self._decoding(requests, float(self._contexts[i]), self._n_new)
            self._decode_rows[i] = [0.0, *self._own_s(stream, n).tolist()]
        return self._decode_rows[i]

    def _chunk_after(self, chunk: int, past: int) -> float:
        """Seconds of a chunk of the grid after so many tokens."""

        def seconds_at(i: int) -> float:
            if (chunk, i) not in self._chunk_times:
                stream = self._chunk(self._chunks[chunk], self._pasts[i])
                self._chunk_times[chunk, i] = float(self._own_s(stream, 1)[0])
            return self._chunk_times[chunk, i]

        return interpolated(self._pasts, past, seconds_at)


def _check(evaluator: PlatformEvaluator, design: Fields) -> None:
    stray = [name for name in _UNSUPPORTED if design.get(name, 1) != 1]
    if stray:
        raise InputError(f"expected 1 in a machine of a fleet, got {design[stray[0]]}", stray[0])
    options = evaluator.options
    if not rules_of(options).has_mixed_passes:
        raise InputError(f"expected profile fitted or ideal, got {options.profile}", "profile")
    if options.overlap or options.offload:
        name = "overlap" if options.overlap else "offload"
        raise InputError("expected false where requests arrive, got true", name)


def cache_tokens(
    evaluator: PlatformEvaluator,
    design: Fields,
    limits: EngineLimits,
    memory_fraction: float,
    reserved_bytes: float = 0.0,
) -> int:
    """Tokens whose keys and values a machine can hold beside the weights.

    Limiting assumption: sliding layers hold as many tokens as others.

    Args:
        design: Device, formats and degrees of one machine.
        limits: Requests that run at a time, each of which has its states of linear attention.
        memory_fraction: Part of the devices' memory that the engine takes.
        reserved_bytes: Bytes of each device for activations and buffers.

    Raises:
        InputError: The weights leave no room.
    """
    _check(evaluator, design)
    serving = evaluator.serving(design_columns({**design, "batch_size": 1}))
    platform = serving.platform
    broken = describe_limits(serving, besides="memory")
    if broken:
        raise InputError(broken)
    groups = int(platform.attention_groups[0])
    weights = float(serving.decode_footprint.weight_bytes[0])
    room = float(platform.fast_capacity[0]) * memory_fraction - weights - reserved_bytes
    sequences = -(-limits.max_sequences // groups)
    stored = rank_storage(serving.sharding)
    room -= sequences * float(stored.request_bytes[0])
    token_bytes = float(stored.token_bytes[0]) or 1.0  # feed-forward layers keep none
    if serving.draft is not None:
        token_bytes += float(rank_storage(serving.draft.sharding).token_bytes[0])
    tokens = int(room // token_bytes) if room > 0 else 0
    if tokens < BLOCK_TOKENS:
        raise InputError(
            f"weights of {format_engineering(weights, 'B')} leave no room for a cache in "
            f"{memory_fraction:.0%} of {format_engineering(float(platform.fast_capacity[0]), 'B')}",
            "memory",
        )
    return tokens * groups
