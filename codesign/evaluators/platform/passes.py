"""The passes of a request: prefill, whole or in chunks, and the decode step, as streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.request import PlatformRequest
from codesign.evaluators.platform.work import Stream
from codesign.workload.lowering import lower
from codesign.workload.model import sliding_share
from codesign.workload.operators import OperatorTable


@dataclass(frozen=True)
class Prompt:
    """Chunks of a prompt that are alike, but for what came before them.

    Limiting assumption: they are the mean chunk, whose work and traffic are exactly the mean;
    only its time is approximate where the bound of attention changes on the way.

    Attributes:
        table: Operators of one chunk of one request.
        past_tokens: Tokens of the prompt before the chunk.
        tokens: Tokens of a chunk.
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
        options: Resolved options.
    """

    def __init__(self, request: PlatformRequest, options: PlatformOptions) -> None:
        self.request = request
        self._is_genz = options.is_genz
        # One kernel attends to prompt and answer, unless the beams share the prompt's cache.
        self._is_joint = options.is_fitted and request.n_beams == 1
        self.prompts = list(self._chunks())
        prompt, generated = float(self.request.prompt), self._mean_generated()
        if self._is_joint:
            prompt, generated = prompt + generated, 0.0
        self._decode_contexts = prompt, generated
        self._prefix = self._decode(prompt, generated)
        self._suffix = self._decode(generated, 0.0) if generated > 0 else None
        self.prefix_tokens, self.suffix_tokens = self._final_contexts()

    def _chunks(self) -> list[Prompt]:
        prompt = self.request.prompt
        chunk = self.request.chunk_tokens or prompt
        n_full, rest = divmod(prompt, chunk)
        chunks = [self._chunk(chunk, (n_full - 1) * chunk // 2, n_full)]
        if rest:
            chunks.append(self._chunk(rest, n_full * chunk, 1))
        return chunks

    def _chunk(self, tokens: int, past: int, count: int) -> Prompt:
        return Prompt(self._prefill(tokens, past), past, tokens, count)

    def _prefill(self, tokens: int, past: int) -> OperatorTable:
        model = self.request.language_model
        if self._is_genz:
            return lower(model, "prefill", tokens, 1, causal=False, logits="all",
                         embedding="dense", past_tokens=past)  # fmt: skip
        return lower(model, "prefill", tokens, 1, past_tokens=past)

    def _decode(self, context: float, later: float) -> OperatorTable:
        model = self.request.language_model
        table = lower(model, "decode", 1, 1, context=context, later_tokens=later)
        if not self._is_genz:
            return table
        # Its tool has no embedding in a decode step.
        return table.take(np.flatnonzero([group != "embedding" for group in table.groups]))

    def _mean_generated(self) -> float:
        """Tokens of its own beam that a decode step attends to.

        The mean step: step ``i`` of ``G`` sees its own token too, so ``(G + 1) / 2`` on average.
        GenZ looks at the step after the given tokens and does not count its own.
        """
        generated = float(self.request.generated)
        if not self._is_genz:
            generated = (max(generated, 1.0) + 1.0) / 2.0
        return generated

    def _final_contexts(self) -> tuple[float, float]:
        """Tokens of prompt, and of each beam, that the cache holds at the end.

        Sliding layers hold no more than their window; the mean over all layers.
        """
        prompt, generated = float(self.request.prompt), float(self.request.generated)
        model = self.request.language_model
        window, sliding = model.sliding_window or np.inf, sliding_share(model)
        suffix = min(generated, window)
        prefix = min(prompt, window - suffix)
        return (
            (1.0 - sliding) * prompt + sliding * prefix,
            (1.0 - sliding) * generated + sliding * suffix,
        )

    def prefill(self, prompt: Prompt, micro_batch: FloatArray) -> list[Stream]:
        """A pass that prefills one chunk of every request of a micro-batch."""
        requests = micro_batch
        past = float(prompt.past_tokens)
        return [Stream("", prompt.table, past, requests, requests, requests, True)]

    def decode(self, micro_batch: FloatArray) -> list[Stream]:
        """A decode step of every beam of a micro-batch's requests.

        All beams read a request's prompt once; each reads what it has generated itself. GenZ's
        tool also computes the prompt's scores once, as if for one beam.
        """
        beams = micro_batch * self.request.n_beams
        scored = micro_batch if self._is_genz else beams
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

    def mixed(self, prompt: Prompt, micro_batch: FloatArray) -> list[Stream]:
        """A decode step of a micro-batch together with a chunk of one other request's prompt."""
        single_request = np.ones_like(micro_batch)
        return [*self.prefill(prompt, single_request), *self.decode(micro_batch)]
