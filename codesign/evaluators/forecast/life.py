"""Operators counted as LIFE does: the profile ``life``; ``conventions.py`` gives the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.forecast.conventions import (
    INVERSE_OPS,
    NORMS,
    ROPE_TABLE_ROWS,
    SCALE_OPS,
    SOFTMAX_OPS,
    CountingRule,
    Profile,
    exponential_ops,
    life_rule,
)
from codesign.evaluators.forecast.plain import PlainCount


class LifeCount(PlainCount):
    """One instance of each operator, counted as LIFE does; see ``conventions.py``."""

    profile: Profile = "life"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        model = self.model
        self.rules: Sequence[CountingRule] = [
            life_rule(operator, model, self.variant) for operator in self.table.rules
        ]
        dims = model.latent_dims if model.is_latent else None
        heads, own = model.num_attention_heads, model.head_dim
        kv_width = 2.0 * model.num_key_value_heads * own
        value_width = float(own)
        if dims is not None:
            kv_width = float(heads) * (
                dims.qk_nope_head_dim + dims.qk_rope_head_dim + dims.v_head_dim
            )
            value_width = float(dims.v_head_dim)
        self.cached_elements_per_token = kv_width
        self.expanded_elements_per_token = heads * value_width
        self.is_qk = self.table.is_kind("attention_qk")
        self.is_pv = self.table.is_kind("attention_pv")
        # Keys and values of the past are in the cache as they are used.
        context = self.past_tokens + self.table.tokens_per_request
        is_up = self.roles == "key_value"
        self.rows_share = np.where(is_up, self.table.tokens_per_request / context, 1.0)
        self.context = float(context)

    def _factor(self, name: str) -> FloatArray:
        return np.array([getattr(rule, name) for rule in self.rules])

    def _outputs(self) -> FloatArray:
        """Everything that an operator makes, what the lowering sends to the cache too."""
        table = self.table
        output_elements = table.output_elements_per_request + table.kv_written_elements_per_request
        return np.asarray(self.batch * output_elements * self.rows_share)

    def _inputs(self) -> FloatArray:
        return np.asarray(self.batch * self.table.input_elements_per_request * self.rows_share)

    def _queries(self) -> FloatArray:
        table = self.table
        return self.batch * table.products_per_request * table.m_per_request * table.k

    def _scores(self) -> FloatArray:
        return self.batch * self.table.score_written_elements_per_request

    def macs(self) -> FloatArray:
        return super().macs() * self.rows_share

    def vector_ops(self) -> FloatArray:
        function = exponential_ops(self.variant, self.profile)
        per_output = self._factor("ops") + function * self._factor("exponentials")
        ops = per_output * self._outputs()
        ops += np.where(self.is_softmax(), (SOFTMAX_OPS + function) * self._scores(), 0.0)
        ops += np.where(self.is_qk, SCALE_OPS * self._queries(), 0.0)
        # The reciprocal of each row's sum, one per head and token.
        rows = self.batch * self.table.products_per_request * self.table.m_per_request
        return ops + np.where(self.is_pv, INVERSE_OPS * rows, 0.0)

    def dequantized_elements(self) -> FloatArray:
        return np.where(self.is_qk, self._operand(), 0.0)

    def _operand(self) -> float:
        """Elements of keys, or of values, expanded to all heads, over the whole context."""
        return float(self.batch * self.context * self.expanded_elements_per_token)

    def weights(self) -> FloatArray:
        # The table is read whole; the rows looked up are part of it. Table 1 and 2 have no
        # weights for norms.
        model, gather = self.model, self.roles == "embedding"
        is_norm = np.isin(self.roles, NORMS)
        own = np.where(gather | is_norm, 0.0, super().weights())
        table_bytes = model.vocab_size * model.hidden_size * self.activation_bytes
        return np.where(gather, table_bytes, own)

    def constants(self) -> FloatArray:
        rotation = 0.0 if self.model.is_latent else 2.0 * ROPE_TABLE_ROWS * self.model.head_dim
        return super().constants() + np.where(self.roles == "rope", rotation, 0.0)

    def activations(self) -> tuple[FloatArray, FloatArray]:
        read = self._factor("reads") * self._inputs() + self._factor("rereads") * self._outputs()
        written = self._factor("writes") * self._outputs()
        is_attention, fused = self.is_qk | self.is_pv, self.variant.fused
        read, written = np.where(is_attention, 0.0, read), np.where(self.is_qk, 0.0, written)
        # The scaling reads queries and factors and writes queries.
        read += np.where(self.is_qk, (1.0 if fused else 3.0) * self._queries(), 0.0)
        if not fused:
            written += np.where(self.is_qk, self._queries(), 0.0)
            read += self.batch * self.table.score_read_elements_per_request
            written += self._scores()
        # Keys and values are in the cache's format; the caller multiplies by the activations'.
        operand = self._operand() * self.kv_bytes / self.activation_bytes
        return read + np.where(self.is_qk | (self.is_pv & (not fused)), operand, 0.0), written

    def cache(self) -> tuple[FloatArray, FloatArray]:
        half = self.batch * self.cached_elements_per_token / 2.0
        moved = np.where(self.is_qk | self.is_pv, half, 0.0)
        return moved * self.past_tokens, moved * self.table.tokens_per_request

    def dispatches(self) -> FloatArray:
        is_latent, fused = self.model.is_latent, self.variant.fused
        scaling = np.where(self.is_qk & (not fused) & (not is_latent), 1.0, 0.0)
        kept = self.is_softmax() | self.is_pv
        inside = np.where(kept & fused, 0.0, self._factor("kernels"))
        return inside + scaling
