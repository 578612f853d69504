"""The operators of linear attention: Gated DeltaNet [Yang2024]_, as Qwen3-Next and Qwen3.5 have it.

Other kinds are in ``state_space.py``.

Each value head keeps a state S of ``key_dim`` by ``value_dim``. A token with query q, key k, value
v, decay α and rate β leaves ``S ← αS + k uᵀ`` with ``u = β(v - αSᵀk)``, and gives ``Sᵀq``
([Yang2024]_, §3). Queries and keys belong to key heads, which several value heads share.

Decode is that recurrence. One read of the state serves both products, ``Sᵀk`` and ``Sᵀq``: the
new state's ``Sᵀq`` is ``αSᵀq + (k·q)u`` of the old one. Then the state is updated and written.

Prefill is the chunkwise form ([Yang2024]_, §3) with the chunks of 64 tokens that
flash-linear-attention and Transformers' code use. With the rows of a chunk in Q, K, V, and
decays and rates left out, a chunk computes per value head

- the scores K·Kᵀ and Q·Kᵀ of its tokens with one another,
- T = (I + strictly lower part of K·Kᵀ)⁻¹ by forward substitution, W = T·K and T·V,
- W·S and Q·S with the state that it finds, U = T·V - W·S,
- the output Q·S + A·U with A the lower part of Q·Kᵀ, and the state S + Kᵀ·U that it leaves.

Limiting assumptions: a product of a chunk's rows is a full tile, masked or not, as kernels compute
it. A last chunk that is not full counts in proportion to its tokens, so the work is linear in
them. The state stays on chip from chunk to chunk: it is read if there are tokens before the pass,
and written once. The scores of a chunk are treated as attention's. Every cumulative sum of decays,
a few operations per token and head, is neglected, and in decode so is k·q.

Operations of the vector unit:

- decay and rate: sum with the bias, exponential, sum, logarithm (together softplus), product
  with the rate of decay, exponential, and a sigmoid: 9 per value head and token;
- decode: 3 per element of the state (decay, outer product, sum), and 6 per element of a value:
  ``v - αSᵀk``, times β, and ``αSᵀq + (k·q)u``;
- prefill: 5 per element of a tile of scores (difference of decays, exponential, product with it
  in both tiles, rate), 2 per multiply-accumulate of the substitution, C(C-1)(C-2)/6 for a chunk of
  C tokens, 2 per element of the state and chunk (decay, sum), and per token and value head 3 for
  each element of a key (rate and decay of K, decays of Q and of the K of the update) and 3 for
  each of a value (rate, difference, sum of the two parts of the output).

.. [Yang2024] S. Yang, J. Kautz, A. Hatamizadeh, Gated Delta Networks: Improving Mamba2 with Delta
   Rule, arXiv:2412.06464, 2024.
"""

from __future__ import annotations

from codesign.models.workload.layer_dims import LinearKind
from codesign.models.workload.layer_pass import LayerPass
from codesign.models.workload.linear_layer import LinearLayer
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operators import Operator, Operators, elementwise
from codesign.models.workload.state_space import ScalarDecay, SelectiveScan, ShortConvolution
from codesign.models.workload.vector_ops import L2_NORM_OPS, SIGMOID_OPS

DECAY_OPS, UPDATE_VALUE_OPS = 6 + SIGMOID_OPS, 6
SCAN_SCORE_OPS, SCAN_STATE_OPS, SCAN_KEY_OPS, SCAN_VALUE_OPS = 5, 2, 3, 3
"""Operations per element; the module's text says what is counted."""


def lower_linear_attention(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """The operators of all layers with linear attention in one pass; none without such layers.

    A prefill scans the prompt in chunks.
    """
    if not model.n_linear_layers:
        return []
    dims = model.linear_dims
    layer = _LAYERS[dims.kind](
        model, model.n_linear_layers, dims, layer_pass.tokens, layer_pass.has_past
    )
    return [
        *layer.inputs(),
        *(layer.scan() if layer_pass.is_prefill else layer.step()),
        *layer.outputs(),
    ]


class GatedDelta(LinearLayer):
    """One pass of a layer with Gated DeltaNet."""

    def inputs(self) -> Operators:
        """Projection, convolution, norm of queries and keys, decays and rates."""
        dims = self.dims
        tokens = self.tokens
        return [
            *super().inputs(),
            elementwise(
                "linear_qk_norm", "attention", self.count, tokens * 2 * dims.key_width, L2_NORM_OPS
            ),
            self.decays(2, DECAY_OPS),
        ]

    def step(self) -> Operators:
        """The recurrence of one token."""
        return self.recurrence(2, UPDATE_VALUE_OPS)

    def scan(self) -> Operators:
        """The chunkwise form; products with a common operand are one."""
        dims = self.dims
        rows = min(float(self.dims.form.chunk_tokens), self.tokens)
        times = dims.n_value_heads * self.tokens / rows
        tile = self.tokens * dims.n_value_heads * rows
        keys = dims.key_width
        values = dims.value_width
        own_keys = dims.n_value_heads * dims.key_dim
        state = dims.state_bytes
        substitution = 2 * (rows * (rows - 1) * (rows - 2)) / 6
        per_chunk = substitution + SCAN_STATE_OPS * dims.key_dim * dims.value_dim
        per_token = SCAN_KEY_OPS * dims.key_dim + SCAN_VALUE_OPS * dims.value_dim
        # Decays, rates, masks and the forward substitution of all chunks.
        decays = Operator(
            "scan_decay",
            "vector",
            "attention",
            self.count,
            input_elements_per_request=self.tokens * 2 * dims.n_value_heads,
            score_read_elements_per_request=2 * tile,
            score_written_elements_per_request=2 * tile,
            vector_ops_per_request=SCAN_SCORE_OPS * tile
            + times * per_chunk
            + self.tokens * dims.n_value_heads * per_token,
        )
        return [
            # [K; Q] Kᵀ
            self.product("scan_scores", rows=2 * rows, k=dims.key_dim, n=rows, times=times,
                          inputs=2 * keys, scores_written=2 * tile),
            decays,
            # T [K V]
            self.product("scan_corrections", rows=rows, k=rows, n=dims.key_dim + dims.value_dim,
                          times=times, inputs=keys + values, outputs=own_keys + values,
                          scores_read=tile),
            # [W; Q] S
            self.product("scan_state_products", rows=2 * rows, k=dims.key_dim, n=dims.value_dim,
                          times=times, inputs=own_keys + keys, outputs=2 * values,
                          state_read=state if self.has_past else 0),
            # A U
            self.product("scan_outputs", rows=rows, k=rows, n=dims.value_dim, times=times,
                          inputs=values, outputs=values, scores_read=tile),
            # Kᵀ U
            self.product("scan_state_update", rows=dims.key_dim, k=rows, n=dims.value_dim,
                          times=times, inputs=keys + values, state_written=state),
        ]  # fmt: skip


_LAYERS: dict[LinearKind, type[LinearLayer]] = {
    "gated_delta": GatedDelta,
    "lightning": ScalarDecay,
    "mamba2": ScalarDecay,
    "mamba": SelectiveScan,
    "convolution": ShortConvolution,
}
