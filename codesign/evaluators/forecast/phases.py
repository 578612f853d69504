"""The work of a prefill, in one pass or in chunks, and of decode steps at any context."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from codesign.base.records import frozen
from codesign.evaluators.forecast.operator_work import PassWork, added
from codesign.evaluators.forecast.plain import PlainCount, rules_of
from codesign.evaluators.forecast.variants import (
    Variant,
    attention_variant,
    format_bytes,
    weight_bytes_per_element,
)
from codesign.models.workload import OperatorTable, lower
from codesign.models.workload.lowering import Logits
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.storage import kv_elements, parameters_by_part, state_bytes


@frozen
class Inference:
    """A model under a variant, ready to be characterized.

    Attributes:
        model: Model with the variant's attention.
        variant: Formats, fusion and the rest.
        profile: How work and traffic are counted.
        is_causal: Whether masked scores are skipped; the profile's choice if None.
        logits: Tokens that go through the LM head; the profile's choice if None.
        tile: Sizes of attention's products are rounded up to multiples of this.
    """

    model: LanguageModel
    variant: Variant
    profile: str = "plain"
    is_causal: bool | None = None
    logits: Logits | None = None
    tile: int = 1

    @classmethod
    def build(
        cls, model: LanguageModel, variant: Variant, profile: str = "plain", **choices: Any
    ) -> Inference:
        """The inference of a model as it was published.

        Args:
            choices: Causality, logits and tile.

        Raises:
            UnknownNameError: There is no such profile.
            InputError: The model cannot have the variant's attention, or the profile cannot count
                it.
        """
        rules_of(profile).check(model)
        return cls(attention_variant(model, variant), variant, profile, **choices)

    @property
    def rules(self) -> type[PlainCount]:
        """Counting rules of the profile."""
        return rules_of(self.profile)

    def prefill(self, prompt_tokens: int, chunk_tokens: int | None = None) -> PassWork:
        """The work of a prompt, over all its chunks.

        Args:
            prompt_tokens: Tokens of one request's prompt.
            chunk_tokens: Tokens of each chunk but the last; the whole prompt if None. A chunk
                attends to the cache of those before it and to itself (LIFE §3.3.4).
        """
        size = min(chunk_tokens or prompt_tokens, prompt_tokens)
        starts = range(0, prompt_tokens, size)
        return added(
            self._pass(min(size, prompt_tokens - start), start, 1, start == starts[-1])
            for start in starts
        )

    def _pass(self, tokens: int, past: int, batch_size: int, predicts: bool = True) -> PassWork:
        logits = self.logits or self.rules.logits
        table = lower(
            self.model,
            "prefill",
            tokens,
            1,
            causal=self.rules.is_causal if self.is_causal is None else self.is_causal,
            logits=logits,
            past_tokens=past,
        )
        work = self._characterized(table, past, batch_size)
        if predicts or logits == "all":
            return work
        has_no_head = np.array([group != "lm_head" for group in work.groups], np.float64)
        return work.substituted(work.values * has_no_head)

    def decode(self, contexts: ArrayLike, batch_size: int = 1) -> PassWork:
        """The work of one decode step at each of ``c`` contexts; values are (c, q, o).

        Everything but padded products is affine in the context, so two steps give all others
        exactly.

        Args:
            contexts: (c,) tokens that the new token attends to, itself included.
            batch_size: Requests processed together.
        """
        first, second = (self._step(float(n * self.tile), batch_size) for n in (1, 2))
        # Operators of sliding layers attend to their window, sparse attention to what is chosen.
        is_mixed = len(self.model.layers_by_type) > 1
        slides = [
            rule.kernel == "attention" and (not is_mixed or rule.is_windowed)
            for rule in first.rules
        ]
        most = self.model.sliding_window or self.model.index_topk or np.inf
        lengths = np.asarray(contexts, np.float64)[:, None]
        lengths = np.minimum(lengths, np.where(slides, most, np.inf))
        slope = (second.values - first.values) / self.tile
        values = first.values + (lengths - self.tile)[:, None, :] * slope
        if self.tile > 1:
            row = 0  # matrix_ops, the only quantity that grows with the padded context
            padded = np.ceil(lengths / self.tile) * self.tile - self.tile
            values[:, row] = first.values[row] + padded * slope[row]
        return first.substituted(values)

    def _step(self, context: float, batch_size: int) -> PassWork:
        if self.rules.decodes_as_prefill:
            return self._pass(1, int(context) - 1, batch_size)
        table = lower(self.model, "decode", 1, 1, context=context)
        return self._characterized(table, context - 1, batch_size)

    def _characterized(self, table: OperatorTable, past: float, batch_size: int) -> PassWork:
        return self.rules(table, self.model, self.variant, past, batch_size, self.tile).work()

    def mean_step(self, prompt_tokens: int, generated_tokens: int, batch_size: int = 1) -> PassWork:
        """The mean of the decode steps that follow a prompt; values are (q, o).

        Step ``i`` of ``G`` attends to the prompt and ``i`` generated tokens.
        """
        contexts = prompt_tokens + np.arange(1, generated_tokens + 1, dtype=np.float64)
        steps = self.decode(contexts, batch_size)
        return steps.substituted(steps.values.mean(axis=0))

    def kv_bytes(self, n_tokens: int) -> float:
        """Bytes of one sequence's cache: the latents under MLA, whatever a pass expands.

        The state of linear attention and the keys of indexers are part of it.
        """
        held = kv_elements(self.model, n_tokens) * format_bytes(self.variant.kv_format)
        return held + state_bytes(self.model, n_tokens)

    def weight_bytes(self) -> float:
        """Bytes of all weights: projections in their format, the rest in the activations'.

        Limiting assumption: adapters, a percent or so of the weights, are not counted.
        """
        parameters = parameters_by_part(self.model)
        others = parameters["embedding"] + parameters["norm"]
        projections = sum(parameters.values()) - others
        variant = self.variant
        projection_bytes = projections * weight_bytes_per_element(variant)
        return projection_bytes + others * format_bytes(variant.activation_format)
