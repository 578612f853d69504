"""A decoder of the Llama family in torch: Llama, Mistral, Qwen2, Qwen3; whole sequences at a time.

Weights are a dictionary with the names of Hugging Face checkpoints. Activations, keys and values
can be rounded to formats on their way; layers can be run one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from codesign.base.columns import FloatMap, StringList
from codesign.base.records import frozen
from codesign.models.quantization.block_formats import BlockFormat
from codesign.models.quantization.rounding import quantize

Observer = Callable[[str, Tensor], None]
"""Called with the name of a product with weights and its inputs."""

NORM_OF_INPUTS = {
    "self_attn.q_proj": "input_layernorm",
    "self_attn.k_proj": "input_layernorm",
    "self_attn.v_proj": "input_layernorm",
    "mlp.gate_proj": "post_attention_layernorm",
    "mlp.up_proj": "post_attention_layernorm",
}
"""The norm before each product that directly follows one."""
LINEAR_NAMES = (*NORM_OF_INPUTS, "self_attn.o_proj", "mlp.down_proj")
"""Products with weights in a layer."""


@frozen
class DecoderShape:
    """Sizes and constants of a decoder, named as in a Hugging Face configuration.

    Attributes:
        rope_scaling: Scaling of Llama 3.1: factor, low_freq_factor, high_freq_factor, original
            context; None: no scaling.
        windows: Tokens back to which each layer attends, its own among them; None: to all. Empty:
            all of all layers.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: FloatMap | None = None
    tie_word_embeddings: bool = False
    windows: tuple[int | None, ...] = ()


@frozen
class InFlight:
    """Changes of tensors between the products of a pass.

    Attributes:
        activations: Format of the inputs of products with weights; None: not rounded.
        kv_cache: Format of keys and values; None: not rounded.
        activations_of_products: Format of the inputs of single products, in place of that of all.
        rotation_of_heads: (head_dim, head_dim) applied to queries and keys after their positions.
        rotation_of_inner: (intermediate, intermediate) applied before the down projection.
    """

    activations: BlockFormat | None = None
    kv_cache: BlockFormat | None = None
    activations_of_products: Mapping[str, BlockFormat] = field(default_factory=dict)
    rotation_of_heads: Tensor | None = None
    rotation_of_inner: Tensor | None = None


@dataclass
class Decoder:
    """A decoder with its weights.

    Attributes:
        weights: By the names of Hugging Face.
        in_flight: What happens to activations and KV cache.
    """

    shape: DecoderShape
    weights: dict[str, Tensor]
    in_flight: InFlight = field(default_factory=InFlight)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.weights["model.embed_tokens.weight"].device

    @property
    def products(self) -> StringList:
        """Every product with weights but that of the output layer, in the order of a pass."""
        layers = range(self.shape.num_hidden_layers)
        return [f"{layer_prefix(layer)}{name}" for layer in layers for name in LINEAR_NAMES]

    def logits(self, tokens: Tensor, observe: Observer | None = None) -> Tensor:
        """(b, s, vocabulary) logits of (b, s) tokens."""
        hidden = self.embedded(tokens)
        for layer in range(self.shape.num_hidden_layers):
            hidden = self.layer_output(layer, hidden, observe)
        return self.head(hidden)

    def embedded(self, tokens: Tensor) -> Tensor:
        """(b, s, hidden) of (b, s) tokens."""
        return functional.embedding(tokens, self.weights["model.embed_tokens.weight"])

    def layer_output(self, layer: int, hidden: Tensor, observe: Observer | None = None) -> Tensor:
        """(b, s, hidden) behind a layer."""
        prefix = layer_prefix(layer)
        normed = self._normed(hidden, f"{prefix}input_layernorm.weight")
        hidden = hidden + self._attention(layer, normed, observe)
        normed = self._normed(hidden, f"{prefix}post_attention_layernorm.weight")
        gate = self._product(f"{prefix}mlp.gate_proj", normed, observe)
        inner = functional.silu(gate) * self._product(f"{prefix}mlp.up_proj", normed, observe)
        if self.in_flight.rotation_of_inner is not None:
            inner = inner @ self.in_flight.rotation_of_inner
        return hidden + self._product(f"{prefix}mlp.down_proj", inner, observe)

    def head(self, hidden: Tensor) -> Tensor:
        """(b, s, vocabulary) logits of what is behind the last layer; not quantized."""
        normed = self._normed(hidden, "model.norm.weight")
        is_tied = self.shape.tie_word_embeddings and "lm_head.weight" not in self.weights
        name = "model.embed_tokens.weight" if is_tied else "lm_head.weight"
        return normed @ self.weights[name].T

    def _normed(self, values: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt(values.square().mean(-1, keepdim=True) + self.shape.rms_norm_eps)
        return values * scale * self.weights[name]

    def _product(self, name: str, inputs: Tensor, observe: Observer | None) -> Tensor:
        if observe is not None:
            observe(name, inputs)
        of_inputs = self.in_flight.activations_of_products.get(name, self.in_flight.activations)
        if of_inputs is not None:
            inputs = quantize(inputs, of_inputs)
        bias = self.weights.get(f"{name}.bias")
        return functional.linear(inputs, self.weights[f"{name}.weight"], bias)

    def _attention(self, layer: int, normed: Tensor, observe: Observer | None) -> Tensor:
        shape = self.shape
        in_flight = self.in_flight
        prefix = layer_prefix(layer)
        queries = self._heads(prefix, "q", normed, observe, shape.num_attention_heads)
        keys = self._heads(prefix, "k", normed, observe, shape.num_key_value_heads)
        values = self._heads(prefix, "v", normed, observe, shape.num_key_value_heads)
        length = normed.shape[1]
        half = torch.arange(0, self.shape.head_dim, 2, device=self.device, dtype=torch.float32)
        frequencies = self.shape.rope_theta ** (-half / self.shape.head_dim)
        if self.shape.rope_scaling is not None:
            scaling = self.shape.rope_scaling
            factor = scaling["factor"]
            low = scaling["low_freq_factor"]
            high = scaling["high_freq_factor"]
            turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
            share = ((turns - low) / (high - low)).clip(0, 1)
            frequencies = frequencies * (share + (1 - share) / factor)
        positions = torch.arange(length, device=self.device, dtype=torch.float32)
        angles = torch.outer(positions, frequencies).repeat(1, 2)
        cosine = angles.cos()
        sine = angles.sin()
        queries = _turned(queries, cosine, sine)
        keys = _turned(keys, cosine, sine)
        if in_flight.rotation_of_heads is not None:
            queries = queries @ in_flight.rotation_of_heads
            keys = keys @ in_flight.rotation_of_heads
        if in_flight.kv_cache is not None:
            keys = quantize(keys, in_flight.kv_cache)
            values = quantize(values, in_flight.kv_cache)
        # True where a token is within the window of a later one.
        window = shape.windows[layer] if shape.windows else None
        mask = None
        if window is not None and length > window:
            square = torch.ones(length, length, dtype=torch.bool, device=self.device)
            mask = square.tril().triu(1 - window)
        mixed = functional.scaled_dot_product_attention(
            queries, keys, values, mask, is_causal=mask is None, enable_gqa=True
        )
        joined = mixed.transpose(1, 2).flatten(2)
        return self._product(f"{prefix}self_attn.o_proj", joined, observe)

    def _heads(
        self, prefix: str, letter: str, normed: Tensor, observe: Observer | None, n_heads: int
    ) -> Tensor:
        """(b, heads, s, head_dim), normalized where the model does so (Qwen3)."""
        flat = self._product(f"{prefix}self_attn.{letter}_proj", normed, observe)
        heads = flat.view(*flat.shape[:2], n_heads, self.shape.head_dim).transpose(1, 2)
        norm = f"{prefix}self_attn.{letter}_norm.weight"
        return self._normed(heads, norm) if norm in self.weights else heads


def layer_prefix(layer: int) -> str:
    """Prefix of the names of a layer's weights."""
    return f"model.layers.{layer}."


def _turned(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat([-second, first], dim=-1) * sine
