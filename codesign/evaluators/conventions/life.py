"""Counting rules of the paper [LIFE]_: profile ``life`` of the ``forecast`` evaluator.

With these conventions its tables come out (``python -m validation life``). The paper gives its
counts as formulas (Table 1, Appendix 8.1) and as totals (Tables 4 to 8 and 11). Where only a total
is printed, the share of one operator is ours and marked [fit]: another split with the same sum
would print the same tables.

- A product of (m, k) and (k, n) is 2mkn operations, in projections (Table 1) and in attention [fit:
  the shares of Table 4; Table 1 has 2bmkn - bmn for BMM, Appendix 8.1 2mkn - mn for GEMM]. All
  scores are computed, masked ones too, and the LM head runs on every token.
- Q, K and V, and gate and up, are products of their own, each of which reads the input.
- Every pass reads the whole embedding table, no weights of norms (Tables 1 and 2), and in every
  layer the cosines and sines of 4,096 positions [fit: 2 MiB in Table 11].
- A layer has 19 dispatches (Table 8): seven projections, two norms, two rotations, two attention
  products, softmax, activation, gate, two residuals, and one more with two inputs and an output
  of the model's width, taken to be the scaling of the queries [fit: Tables 5 and 8 need it].
- Operations per element: norm 4, rotation 3, residual 1, scaling 1, activation 2 (a
  piecewise-linear function, Table 1), gate 1, softmax 6 (maximum, subtraction, two of the
  piecewise-linear exponential, sum, product), inverses 2 (Table 2) [fit: Table 5 gives the sum of
  a token and layer, 17 h + 3 I and the inverses, to ±90 of 103,000; h is the model's width and I
  the MLP's].
- The cache is read once as it is; the products then read K and V again, expanded to all heads.
  Dequantizing the cache is 2 operations per element of one such tensor.
- Fused, the second of these reads is gone, and with it all traffic of scores, rotation, scaling,
  inside the MLP, the output of the residuals and the input of the LM head [fit: Tables 5, 7
  and 11].
- MLA is expanded in decode too: per head, the cache holds keys with their rotated part and
  values, and the products read tensors of the values' width; no table of positions [fit:
  Table 11].

.. [LIFE] R. Patwari, A. Sirasao, D. Das, "Forecasting LLM Inference Performance via
   Hardware-Agnostic Analytical Modeling", 2025.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from codesign.base.columns import ArrayPair, FloatArray
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.evaluators.forecast.operator_work import NORMS
from codesign.evaluators.forecast.plain import PlainCount, exponential_ops, n_matrices
from codesign.evaluators.forecast.variants import Variant
from codesign.models.workload.model import LanguageModel, describe_unlike_attention
from codesign.models.workload.operator_rules import OperatorRule, Role
from codesign.models.workload.vector_ops import NORM_OPS, ROPE_OPS

INVERSE_OPS = 2.0
"""Operations of a reciprocal or inverse square root: an addition and a product (LIFE Table 2)."""
RESIDUAL_OPS, SCALE_OPS, GATE_OPS = 1.0, 1.0, 1.0
"""Operations of an element: one addition or product [fit: see above]."""
SOFTMAX_OPS = 4.0
"""Operations of a score without the exponential: maximum, subtraction, sum, product [fit: see
above]."""
ROPE_TABLE_ROWS = 4096
"""Positions of the rotation's tables (LIFE, Appendix 8.2: ``rope_table_size``)."""
_UNCOUNTED: tuple[Role, ...] = ("qk_norm", "router", "combination")
"""Operators that LIFE's Table 8 has no dispatch for: Qwen3 and DeepSeek have 19 a layer too."""


@frozen
class CountingRule:
    """Counting rule of one operator, as factors on the columns of the lowering.

    Attributes:
        kernels: Dispatches of the operator.
        reads: Times that the inputs are read.
        rereads: Times that the outputs are read.
        writes: Times that the outputs are written, with what goes to the cache.
        ops: Elementwise operations per output element, with what goes to the cache.
        exponentials: Approximated functions per output element, as a part of ``ops``.
    """

    kernels: float = 1.0
    reads: float = 1.0
    rereads: float = 0.0
    writes: float = 1.0
    ops: float = 0.0
    exponentials: float = 0.0


class LifeCount(PlainCount):
    """The paper's conventions; what is not here is as in the profile ``plain``."""

    is_causal = False
    logits = "all"
    decodes_as_prefill = True
    is_decode_memory_bound = True  # Eqs. 4-5
    nonlinear = "pwl"
    # Table 10: 24 GB/s over 12.85 GiB is printed as 1.87 tokens/s.
    gigabyte = 2.0**30
    gigabyte_name = "GiB"

    @classmethod
    def check(cls, model: LanguageModel) -> None:
        """Layers that differ in their attention are not counted."""
        unlike = describe_unlike_attention(model)
        if unlike is not None:
            raise InputError(f"profile life: {unlike}", f"model {model.name}")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        model = self.model
        self.rules = [life_rule(operator, model, self.variant) for operator in self.table.rules]
        dims = model.latent_dims if model.is_latent else None
        heads = model.num_attention_heads
        width = model.head_dim
        kv_width = 2.0 * model.num_key_value_heads * width
        value_width = float(width)
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
        return self.batch * output_elements * self.rows_share

    def _queries(self) -> FloatArray:
        table = self.table
        return self.batch * table.products_per_request * table.m_per_request * table.k

    def _scores(self) -> FloatArray:
        return self.batch * self.table.score_written_elements_per_request

    def macs(self) -> FloatArray:
        return super().macs() * self.rows_share

    def vector_ops(self) -> FloatArray:
        function = exponential_ops(self.variant)
        ops = (self._factor("ops") + function * self._factor("exponentials")) * self._outputs()
        ops += np.where(self.is_softmax, (SOFTMAX_OPS + function) * self._scores(), 0.0)
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
        model = self.model
        gather = self.roles == "embedding"
        weights = np.where(gather | np.isin(self.roles, NORMS), 0.0, super().weights())
        table_bytes = model.vocab_size * model.hidden_size * self.activation_bytes
        return np.where(gather, table_bytes, weights)

    def constants(self) -> FloatArray:
        rotation = 0.0 if self.model.is_latent else 2.0 * ROPE_TABLE_ROWS * self.model.head_dim
        return super().constants() + np.where(self.roles == "rope", rotation, 0.0)

    def activations(self) -> ArrayPair:
        read = (
            self._factor("reads")
            * (self.batch * self.table.input_elements_per_request * self.rows_share)
            + self._factor("rereads") * self._outputs()
        )
        written = self._factor("writes") * self._outputs()
        is_attention = self.is_qk | self.is_pv
        fused = self.variant.fused
        read = np.where(is_attention, 0.0, read)
        written = np.where(self.is_qk, 0.0, written)
        # The scaling reads queries and factors and writes queries.
        read += np.where(self.is_qk, (1.0 if fused else 3.0) * self._queries(), 0.0)
        if not fused:
            written += np.where(self.is_qk, self._queries(), 0.0)
            read += self.batch * self.table.score_read_elements_per_request
            written += self._scores()
        # Keys and values are in the cache's format; the caller multiplies by the activations'.
        operand = self._operand() * self.kv_bytes / self.activation_bytes
        return read + np.where(self.is_qk | (self.is_pv & (not fused)), operand, 0.0), written

    def cache(self) -> ArrayPair:
        half = self.batch * self.cached_elements_per_token / 2.0
        moved = np.where(self.is_qk | self.is_pv, half, 0.0)
        return moved * self.past_tokens, moved * self.table.tokens_per_request

    def dispatches(self) -> FloatArray:
        fused = self.variant.fused
        scaling = np.where(self.is_qk & (not fused) & (not self.model.is_latent), 1.0, 0.0)
        inside = np.where((self.is_softmax | self.is_pv) & fused, 0.0, self._factor("kernels"))
        return inside + scaling


def life_rule(operator: OperatorRule, model: LanguageModel, variant: Variant) -> CountingRule:
    """LIFE's counting rule of an operator; attention's products are counted apart."""
    role = operator.role
    split = 1.0 if variant.fused_projections else n_matrices(role, model)
    rule = CountingRule(kernels=split, reads=split)
    if role == "activation":
        rule = _activation_rule(model)
    elif role in NORMS:
        rule = CountingRule(ops=NORM_OPS["rmsnorm"] + INVERSE_OPS / model.hidden_size)
    elif role == "rope":
        rule = CountingRule(kernels=2.0, ops=ROPE_OPS)
    elif role == "residual":
        rule = CountingRule(ops=RESIDUAL_OPS)
    if variant.fused:
        rule = _fused(role, rule)
    is_uncounted = role in _UNCOUNTED or operator.dimension == "shared"
    return replace(rule, kernels=0.0) if is_uncounted else rule


def _activation_rule(model: LanguageModel) -> CountingRule:
    if not model.is_gated:
        return CountingRule(exponentials=1.0)
    # The function is a kernel of one input and one output, the gate one of two inputs.
    return CountingRule(kernels=2.0, rereads=1.0, writes=2.0, ops=GATE_OPS, exponentials=1.0)


def _fused(role: Role, rule: CountingRule) -> CountingRule:
    if role in ("rope", "activation"):
        return replace(rule, kernels=0.0, reads=0.0, rereads=0.0, writes=0.0)
    if role == "residual":
        return replace(rule, kernels=0.0, writes=0.0)
    if role == "up":
        return replace(rule, writes=0.0)
    if role in ("down", "lm_head"):
        return replace(rule, reads=0.0)
    return rule
