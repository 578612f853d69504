"""Dimensions of layers that only some models have: latent and linear attention, experts."""

from __future__ import annotations

from typing import Literal, NamedTuple

StateFormat = Literal["float32", "bfloat16", "float16"]
LinearKind = Literal["gated_delta", "lightning", "mamba", "mamba2", "convolution"]


class LatentDims(NamedTuple):
    """Dimensions of multi-head latent attention (MLA)."""

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


class IndexDims(NamedTuple):
    """Dimensions of the indexer of sparse latent attention (DSA).

    Attributes:
        n_heads: Heads of queries, whose weighted scores are added up.
        head_dim: Width of a query, and of the one key of a token.
        top_k: Tokens that are chosen.
        pool: Tokens that share a key.
    """

    n_heads: int
    head_dim: int
    top_k: int
    pool: int

    @property
    def key_bytes(self) -> float:
        """Bytes that a token takes in keys: 8 bits an element and a float32 scale for each, as
        DeepSeek-V3.2's code caches them."""
        return (self.head_dim + 4) / self.pool


class MixtureDims(NamedTuple):
    """Dimensions of a mixture of experts (MoE); all shared experts together are one MLP.

    Attributes:
        routed_width: Width of what routed experts read and write.
    """

    n_routed_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_width: int
    has_shared_gate: bool
    has_router_bias: bool
    routed_width: int


class LinearForm(NamedTuple):
    """Properties that differ among the kinds of linear attention.

    ``linear_attention.py`` has the recurrences and their sources.

    Attributes:
        convolves_keys: Whether the convolution is over queries and keys too; if not, over the
            values.
        has_conv_bias: Whether the convolution has a bias per channel.
        projects_keys: Whether queries and keys come from the input projection; if not, from the
            values.
        projected_per_head: Numbers of each value head that the input projection gives besides:
            decay, rate.
        weights_per_head: Weights of each value head: decay, bias of the rate, skipped value.
        norms_all_heads: Whether the output's norm has weights for all value heads; if not, those of
            one.
        chunk_tokens: Tokens of a chunk of a prefill: the default of the code of
            flash-linear-attention and Transformers for Gated DeltaNet, ``chunk_size`` of Mamba 2's
            configurations, block of lightning attention. Mamba 1 scans token by token; laws of
            kernels take it for Mamba 2.
    """

    convolves_keys: bool
    has_conv_bias: bool
    projects_keys: bool
    projected_per_head: int
    weights_per_head: int
    norms_all_heads: bool
    chunk_tokens: int


LINEAR_FORMS: dict[LinearKind, LinearForm] = {
    "gated_delta": LinearForm(True, False, True, 2, 2, False, 64),
    "lightning": LinearForm(True, False, True, 0, 0, True, 256),
    "mamba2": LinearForm(True, True, True, 1, 3, True, 256),
    "mamba": LinearForm(False, True, False, 0, 0, False, 256),
    "convolution": LinearForm(False, False, False, 1, 0, False, 1),
}


class LinearDims(NamedTuple):
    """Dimensions of linear attention, whose kinds have queries, keys and values in common.

    In Mamba's words, the queries are C, the keys B, the values x; in Mamba 1 each channel is a
    value head of width 1 with ``time_step_rank`` numbers for its rate. So is each channel of a
    short convolution (LFM2), which has no recurrent state, and a gate before and after it.
    """

    n_key_heads: int
    n_value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    kind: LinearKind = "gated_delta"
    time_step_rank: int = 0
    state_format: StateFormat = "float32"

    @property
    def form(self) -> LinearForm:
        """Properties of the kind."""
        return LINEAR_FORMS[self.kind]

    @property
    def key_width(self) -> int:
        """Width of all keys of a token, and of all its queries: a head of either serves its value
        heads."""
        return self.n_key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        """Width of all values of a token."""
        return self.n_value_heads * self.value_dim

    @property
    def conv_channels(self) -> int:
        """Queries, keys and values that a filter of their own convolves; 0 without any."""
        if not self.conv_kernel:
            return 0
        return 2 * self.key_width * self.form.convolves_keys + self.value_width

    @property
    def conv_weights(self) -> int:
        """Weights of the convolution."""
        return self.conv_channels * (self.conv_kernel + self.form.has_conv_bias)

    @property
    def gate_width(self) -> int:
        """Outputs of the input projection besides queries, keys and values."""
        return self.value_width + self.form.projected_per_head * self.n_value_heads

    @property
    def projected_width(self) -> int:
        """Outputs of the input projection: queries, keys, values, gate, decays and rates."""
        return 2 * self.key_width * self.form.projects_keys + self.value_width + self.gate_width

    @property
    def norm_width(self) -> int:
        """Weights of the norm of the output; Mamba 1 and short convolutions have none."""
        if self.kind in ("mamba", "convolution"):
            return 0
        return self.value_width if self.form.norms_all_heads else self.value_dim

    @property
    def head_parameters(self) -> int:
        """Weights of the value heads that are no matrix; in Mamba 1 one per element of the state
        and two per channel."""
        if self.kind == "mamba":
            return self.state_elements + 2 * self.n_value_heads
        return self.form.weights_per_head * self.n_value_heads

    @property
    def state_elements(self) -> int:
        """Elements of the recurrent state of a layer: one matrix per value head, if it has any."""
        has_state = self.kind != "convolution"
        return self.n_value_heads * self.key_dim * self.value_dim * has_state

    @property
    def state_bytes(self) -> int:
        """Bytes of the recurrent state of a request in a layer."""
        return self.state_elements * (4 if self.state_format == "float32" else 2)

    @property
    def window_bytes(self) -> int:
        """Bytes of earlier inputs that the convolution still needs, in 16 bits as activations."""
        return 2 * max(self.conv_kernel - 1, 0) * self.conv_channels
