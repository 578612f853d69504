"""The passes of a request: prefill, whole or in chunks, and the decode step, as streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.base.columns import FloatArray
from codesign.evaluators.platform.device_memory import CachedTokens
from codesign.evaluators.platform.device_work import Stream
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.platform_request import PlatformRequest
from codesign.evaluators.platform.serving_rules import rules_of
from codesign.models.workload.operators import OperatorTable
from codesign.models.workload.storage import sliding_share


@dataclass(frozen=True)
class Prompt:
    """Chunks of a prompt that are alike, but for what came before them.

    Limiting assumption: they are the mean chunk, whose work and traffic are exactly the mean;
    only its time is approximate where the bound of attention changes on the way.

    Attributes:
        table: Operators of one chunk of one request.
        past_tokens: Tokens of the prompt before the chunk.
        count: Number of these chunks.
    """

    table: OperatorTable
    past_tokens: int
    tokens: int
    count: int


class RequestPasses:
    """The operators of a request's passes, lowered once.

    Args:
        request: The requests of the batch.
    """

    def __init__(self, request: PlatformRequest, options: PlatformOptions) -> None:
        self.request = request
        self._rules = rules_of(options)
        self._is_joint = self._rules.joins_contexts and request.n_beams == 1
        self.prompts = list(self._chunks())
        prompt = float(request.prompt)
        generated = self._rules.mean_generated(float(request.generated))
        if self._is_joint:
            prompt, generated = prompt + generated, 0.0
        self._decode_contexts = prompt, generated
        self._prefix = self._decode(prompt, generated)
        self._suffix = self._decode(generated, 0.0) if generated > 0 else None
        self.cached = self._cached_tokens()

    def _chunks(self) -> list[Prompt]:
        prompt = self.request.prompt
        chunk = self.request.chunk_tokens or prompt
        n_full, rest = divmod(prompt, chunk)
        chunks = [self._chunk(chunk, (n_full - 1) * chunk // 2, n_full)]
        if rest:
            chunks.append(self._chunk(rest, n_full * chunk, 1))
        return chunks

    def _chunk(self, tokens: int, past: int, count: int) -> Prompt:
        table = self._rules.prefill_table(self.request.language_model, tokens, past)
        return Prompt(table, past, tokens, count)

    def _decode(self, context: float, later: float) -> OperatorTable:
        return self._rules.decode_table(self.request.language_model, context, later)

    def _cached_tokens(self) -> CachedTokens:
        prompt, generated = float(self.request.prompt), float(self.request.generated)
        model = self.request.language_model
        window, sliding = model.sliding_window or np.inf, sliding_share(model)
        suffix = min(generated, window)
        prefix = min(prompt, window - suffix)
        return CachedTokens(
            of_prompt=(1.0 - sliding) * prompt + sliding * prefix,
            of_beam=(1.0 - sliding) * generated + sliding * suffix,
            beams=self.request.n_beams,
            next_prompts=int(self.request.mixed),
        )

    def prefill(self, prompt: Prompt, micro_batch: FloatArray) -> list[Stream]:
        """A pass that prefills one chunk of every request of a micro-batch."""
        requests = micro_batch
        past = float(prompt.past_tokens)
        return [Stream("", prompt.table, past, requests, requests, requests, True)]

    def decode(self, micro_batch: FloatArray) -> list[Stream]:
        """A decode step of every beam of a micro-batch's requests.

        All beams read a request's prompt once; each reads what it has generated itself.
        """
        beams = micro_batch * self.request.n_beams
        scored = self._rules.scored_requests(micro_batch, beams)
        name = "" if self._is_joint else "_of_prompt"
        past = [max(context - 1.0, 0.0) for context in self._decode_contexts]
        prefix = Stream(name, self._prefix, past[0], beams, micro_batch, scored, False)
        if self._suffix is None:
            return [prefix]
        return [
            prefix,
            Stream(
                "_of_generated", self._suffix, past[1], beams, beams, beams, False,
                has_products=False,
            ),
        ]  # fmt: skip

    def mixed(self, prompt: Prompt, micro_batch: FloatArray, groups: FloatArray) -> list[Stream]:
        """A decode step of a micro-batch, and a chunk of another request's prompt in each group."""
        return [*self.prefill(prompt, groups), *self.decode(micro_batch)]
