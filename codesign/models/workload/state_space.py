"""The operators of state-space layers and of lightning attention.

``ScalarDecay`` is Mamba 2 [Dao2024]_ and lightning attention [Qin2024]_: linear attention whose
state S of ``key_dim`` by ``value_dim`` a value head decays by one number, ``S ← αS + k vᵀ``,
and gives ``Sᵀq``. In Mamba 2 v is the input times a rate, and the input times a learned number
is added to the output; the value heads of a group share queries and keys.

- Decode reads the state once: the new state's ``Sᵀq`` is ``αSᵀq + (k·q)v`` of the old one.
- Prefill is the chunkwise form ([Dao2024]_, §6) with chunks of 256 tokens, the default of both
  projects' kernels: Q·Kᵀ of a chunk once a key head, its decayed lower part A for each value head,
  the output A·V + Q·S and the state S + Kᵀ·V.

``SelectiveScan`` is Mamba 1 [Gu2023]_: every channel has a state of ``key_dim`` numbers, each
with a decay of its own, so nothing is a product of matrices but the projections. Rate, k and q
come from the convolved values. In a prefill the state stays on chip from token to token.

``ShortConvolution`` is LFM2's block: its input is gated, convolved over a few tokens, and gated
again, by parts of one projection. There is no other state than the convolution's inputs.

The limiting assumptions are those of ``linear_attention.py``. Operations of the vector unit:

- scalar decay, decode: 3 per element of the state (decay, outer product, sum), 3 per element of
  a value (decay, ``(k·q)v``, sum); prefill: 3 per element of a tile of scores (difference of
  decays, exponential, product), 2 per element of the state and chunk (decay, sum), 3 per element
  of a value (decays of V and of Q·S, sum); Mamba 2 in both: 3 more per element of a value (rate,
  learned number, sum), and 8 per value head and token for decay and rate (bias, softplus of 3,
  rate of decay, exponential, and the cumulative sum and its difference);
- selective scan: 7 per element of the state and token (rate times A, exponential, decay, k times
  the value, sum, q times the state, sum), and per channel and token 12: bias and softplus of 3,
  rate times value, learned number and its sum, gate of 5;
- short convolution: 1 per channel and token for each of two gates.

.. [Dao2024] T. Dao, A. Gu, Transformers are SSMs, arXiv:2405.21060, 2024.
.. [Qin2024] Z. Qin et al., Lightning Attention-2, arXiv:2401.04658, 2024.
.. [Gu2023] A. Gu, T. Dao, Mamba: Linear-time sequence modeling with selective state spaces,
   arXiv:2312.00752, 2023.
"""

from __future__ import annotations

from codesign.models.workload.linear_layer import LinearLayer
from codesign.models.workload.operators import Operator, Operators, elementwise, projection

VALUE_OPS, SCAN_SCORE_OPS, SCAN_STATE_OPS = 3, 3, 2
RATE_VALUE_OPS, RATE_HEAD_OPS = 3, 8
CHANNEL_STATE_OPS, CHANNEL_OPS = 7, 12
"""Operations per element; the module's text says what is counted."""


class ScalarDecay(LinearLayer):
    """One pass of a layer with Mamba 2 or lightning attention."""

    @property
    def _has_rate(self) -> bool:
        return self.dims.form.projected_per_head > 0

    @property
    def _value_ops(self) -> int:
        return VALUE_OPS + RATE_VALUE_OPS * self._has_rate

    def inputs(self) -> Operators:
        """Projection; in Mamba 2 convolution, decays and rates."""
        if not self._has_rate:
            return super().inputs()
        return [*super().inputs(), self.decays(1, RATE_HEAD_OPS)]

    def step(self) -> Operators:
        """The recurrence of one token."""
        return self.recurrence(1, self._value_ops)

    def scan(self) -> Operators:
        """The chunkwise form."""
        dims = self.dims
        rows = min(float(self.dims.form.chunk_tokens), self.tokens)
        chunks = self.tokens / rows
        state = self.dims.state_bytes
        keys = dims.key_width
        values = dims.value_width
        times = dims.n_value_heads * chunks
        tile = self.tokens * dims.n_value_heads * rows
        own_tile = self.tokens * dims.n_key_heads * rows
        ops = SCAN_SCORE_OPS * tile + SCAN_STATE_OPS * chunks * dims.state_elements
        decay = Operator(
            "scan_decay",
            "vector",
            "attention",
            self.count,
            input_elements_per_request=self.tokens * dims.n_value_heads,
            score_read_elements_per_request=own_tile,
            score_written_elements_per_request=tile,
            vector_ops_per_request=ops + self._value_ops * self.tokens * values,
        )
        return [
            # Q Kᵀ
            self.product("scan_scores", rows=rows, k=dims.key_dim, n=rows,
                         times=dims.n_key_heads * chunks, inputs=2 * keys,
                         scores_written=own_tile),
            decay,
            # Q S
            self.product("scan_state_products", rows=rows, k=dims.key_dim, n=dims.value_dim,
                         times=times, inputs=keys, outputs=values,
                         state_read=state if self.has_past else 0),
            # A V
            self.product("scan_outputs", rows=rows, k=rows, n=dims.value_dim, times=times,
                         inputs=values, outputs=values, scores_read=tile),
            # Kᵀ V
            self.product("scan_state_update", rows=dims.key_dim, k=rows, n=dims.value_dim,
                         times=times, inputs=keys + values, state_written=state),
        ]  # fmt: skip


class SelectiveScan(LinearLayer):
    """One pass of a layer with Mamba 1."""

    def inputs(self) -> Operators:
        """Projection, convolution, and the projections that give rates, keys and queries."""
        rank = self.dims.time_step_rank
        channels = self.dims.value_width
        low = rank + 2 * self.dims.key_dim
        return [
            *super().inputs(),
            projection("scan_projection", "attention", self.count, self.tokens, channels, low),
            projection(
                "time_step_projection", "attention", self.count, self.tokens, rank, channels
            ),
        ]

    def step(self) -> Operators:
        """The recurrence of one token."""
        return [self._scanned(has_past=True)]

    def scan(self) -> Operators:
        """The recurrence of all tokens."""
        return [self._scanned(has_past=self.has_past)]

    def _scanned(self, *, has_past: bool) -> Operator:
        dims = self.dims
        tokens = self.tokens
        channels = self.dims.value_width
        state = self.dims.state_bytes
        return Operator(
            "selective_scan",
            "vector",
            "attention",
            self.count,
            weight_elements=dims.head_parameters,
            # Values, rates and gates of every channel; a key and a query for all.
            input_elements_per_request=tokens * (3 * channels + 2 * dims.key_dim),
            output_elements_per_request=tokens * channels,
            state_read_bytes_per_request=state if has_past else 0,
            state_written_bytes_per_request=state,
            stored_bytes_per_request=state,
            vector_ops_per_request=tokens
            * (CHANNEL_STATE_OPS * dims.state_elements + CHANNEL_OPS * channels),
        )

    def outputs(self) -> Operators:
        """The output projection; the gate is part of the scan."""
        return super().outputs()[1:]


class ShortConvolution(LinearLayer):
    """One pass of a layer with a short convolution, whose input and output are gated."""

    def step(self) -> Operators:
        """The gates of one token."""
        return self.scan()

    def scan(self) -> Operators:
        """The gates of all tokens."""
        gated = 2 * self.tokens * self.dims.value_width
        return [elementwise("convolution_gates", "attention", self.count, gated, 1)]

    def outputs(self) -> Operators:
        """The output projection."""
        return super().outputs()[1:]
