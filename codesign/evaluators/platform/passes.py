"""The passes of a request: prefill, whole or in chunks, and the decode step, as streams."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.evaluators.platform.device_memory import CachedTokens
from codesign.evaluators.platform.device_work import Stream
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.platform_request import PlatformRequest
from codesign.evaluators.platform.serving_rules import rules_of
from codesign.models.workload.operators import OperatorTable
from codesign.models.workload.request import served_operators
from codesign.models.workload.storage import sliding_share


@frozen
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

    Attributes:
        draft: The passes of the draft model; None: there is none.
    """

    def __init__(self, request: PlatformRequest, options: PlatformOptions) -> None:
        self.request = request
        self._rules = rules_of(options)
        self._is_joint = self._rules.joins_contexts and request.n_beams == 1
        model = request.language_model
        prompt = request.prompt
        generated = request.generated
        chunk = request.chunk_tokens or prompt
        n_full, rest = divmod(prompt, chunk)
        chunks = [(chunk, (n_full - 1) * chunk // 2, n_full), (rest, n_full * chunk, 1)]
        self.prompts = [
            Prompt(
                self._served(self._rules.prefill_table(model, tokens, past)), past, tokens, count
            )
            for tokens, past, count in chunks
            if tokens
        ]
        mean = self._rules.mean_generated(float(generated))
        contexts = (prompt + mean, 0.0) if self._is_joint else (float(prompt), mean)
        self._decode_contexts = contexts
        n_new = request.n_drafted + request.checked_tokens
        self._prefix = self._served(self._rules.decode_table(model, *contexts, n_new))
        self._suffix = None
        if contexts[1] > 0:
            suffix_table = self._rules.decode_table(model, contexts[1], 0.0, n_new)
            self._suffix = self._served(suffix_table)
        draft = request.draft_request
        self.draft = None if draft is None else RequestPasses(draft, options)
        window = model.sliding_window or np.inf
        sliding = sliding_share(model)
        suffix = min(float(generated), window)
        self.cached = CachedTokens(
            of_prompt=(1.0 - sliding) * prompt + sliding * min(float(prompt), window - suffix),
            of_beam=(1.0 - sliding) * generated + sliding * suffix,
            beams=request.n_beams,
            next_prompts=int(request.mixed),
        )

    def _served(self, table: OperatorTable) -> OperatorTable:
        return served_operators(table, self.request.layers)

    def prefill(self, prompt: Prompt, micro_batch: FloatArray) -> list[Stream]:
        """A pass that prefills one chunk of every request of a micro-batch."""
        requests = micro_batch
        past = float(prompt.past_tokens)
        return [Stream("", prompt.table, past, requests, requests, requests, True)]

    def decode(self, micro_batch: FloatArray) -> list[Stream]:
        """A decode step of every beam of a micro-batch's requests, or a verification.

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
