"""Changes of a decoder that leave its answers alone and make it easier to round.

- QuaRot [Ashkboos2024]_: the hidden state, the values of each head, the inner state of the
  feed-forward part, and queries and keys are rotated by Hadamard matrices, so that no channel is an
  outlier. All but the last two rotations are folded into weights; those two stay in the pass.
- SmoothQuant [Xiao2023]_: channels of the inputs are divided by a factor that the weights take,
  so that both are equally hard.

.. [Ashkboos2024] S. Ashkboos et al., QuaRot: outlier-free 4-bit inference in rotated LLMs, 2024,
   section 4.
.. [Xiao2023] G. Xiao et al., SmoothQuant, ICML 2023, Eq. 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from codesign.models.quantization.decoder import NORM_OF_INPUTS, Decoder, layer_prefix

SMOOTHING = 0.5
"""Share of the difficulty that moves to the weights (SmoothQuant, section 4)."""


def hadamard(size: int, seed: int = 0) -> Tensor:
    """A (size, size) orthogonal matrix that spreads every channel over all.

    The Kronecker product of an orthogonal matrix of the odd part of the size, drawn at random,
    and of the Hadamard matrix of its power of two, with random signs.
    """
    odd = size
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while odd % 2 == 0:
        top = torch.cat([matrix, matrix], dim=1)
        matrix = torch.cat([top, torch.cat([matrix, -matrix], dim=1)]) / 2**0.5
        odd //= 2
    generator = torch.Generator().manual_seed(seed)
    if odd > 1:
        normal = torch.randn(odd, odd, generator=generator, dtype=torch.float64)
        matrix = torch.kron(torch.linalg.qr(normal).Q.contiguous(), matrix)
    signs = torch.randint(0, 2, (size,), generator=generator).double() * 2 - 1
    return signs[:, None] * matrix


def rotated(decoder: Decoder, seed: int = 0) -> Decoder:
    """The decoder with QuaRot's rotations, equal to the original up to the rounding of float32."""
    shape = decoder.shape
    weights = {name: value.double() for name, value in decoder.weights.items()}
    _fold_norms(decoder, weights)
    device = decoder.device
    hidden = hadamard(shape.hidden_size, seed).to(device)
    head = hadamard(shape.head_dim, seed + 1).to(device)
    inner = hadamard(shape.intermediate_size, seed + 2).to(device)
    weights["model.embed_tokens.weight"] = weights["model.embed_tokens.weight"] @ hidden
    weights["lm_head.weight"] = weights["lm_head.weight"] @ hidden
    for layer in range(shape.num_hidden_layers):
        prefix = layer_prefix(layer)
        for linear_name in NORM_OF_INPUTS:
            weights[f"{prefix}{linear_name}.weight"] = (
                weights[f"{prefix}{linear_name}.weight"] @ hidden
            )
        values = f"{prefix}self_attn.v_proj"  # where the values of each head are made
        rows = _split_heads(weights[f"{values}.weight"], shape.num_key_value_heads)
        weights[f"{values}.weight"] = (head.T @ rows).flatten(0, 1)
        if f"{values}.bias" in weights:
            bias = weights[f"{values}.bias"].reshape(shape.num_key_value_heads, -1)
            weights[f"{values}.bias"] = (bias @ head).flatten()
        out = _split_heads(weights[f"{prefix}self_attn.o_proj.weight"].T, shape.num_attention_heads)
        out = (head.T @ out).flatten(0, 1).T
        weights[f"{prefix}self_attn.o_proj.weight"] = hidden.T @ out
        down = weights[f"{prefix}mlp.down_proj.weight"]
        weights[f"{prefix}mlp.down_proj.weight"] = hidden.T @ down @ inner
        for linear_name in ("self_attn.o_proj", "mlp.down_proj"):
            if f"{prefix}{linear_name}.bias" in weights:
                weights[f"{prefix}{linear_name}.bias"] = (
                    weights[f"{prefix}{linear_name}.bias"] @ hidden
                )
    in_flight = replace(
        decoder.in_flight, rotation_of_heads=head.float(), rotation_of_inner=inner.float()
    )
    folded = {name: value.float() for name, value in weights.items()}
    return Decoder(replace(shape, tie_word_embeddings=False), folded, in_flight)


def _split_heads(rows: Tensor, n_heads: int) -> Tensor:
    return rows.reshape(n_heads, len(rows) // n_heads, -1)


def _fold_norms(decoder: Decoder, weights: dict[str, Tensor]) -> None:
    """Move the gains of norms into the products behind them, so that a rotation passes."""
    if "lm_head.weight" not in weights or decoder.shape.tie_word_embeddings:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    weights["lm_head.weight"] = weights["lm_head.weight"] * weights["model.norm.weight"]
    weights["model.norm.weight"] = torch.ones_like(weights["model.norm.weight"])
    for layer in range(decoder.shape.num_hidden_layers):
        prefix = layer_prefix(layer)
        for linear_name, norm in NORM_OF_INPUTS.items():
            gain = weights[f"{prefix}{norm}.weight"]
            weights[f"{prefix}{linear_name}.weight"] = (
                weights[f"{prefix}{linear_name}.weight"] * gain
            )
        for norm in dict.fromkeys(NORM_OF_INPUTS.values()):
            gain = weights[f"{prefix}{norm}.weight"]
            weights[f"{prefix}{norm}.weight"] = torch.ones_like(gain)


def largest_inputs(decoder: Decoder, tokens: Tensor) -> dict[str, Tensor]:
    """(in,) largest magnitude of each input channel of each product, over a text."""
    largest: dict[str, Tensor] = {}

    def observe(name: str, inputs: Tensor) -> None:
        seen = inputs.abs().flatten(0, -2).amax(0)
        largest[name] = torch.maximum(largest[name], seen) if name in largest else seen

    with torch.no_grad():
        for sequence in tokens:
            decoder.logits(sequence[None], observe)
    return largest


def smoothed(decoder: Decoder, largest: Mapping[str, Tensor]) -> Decoder:
    """The decoder with SmoothQuant's scales, folded into norms and weights.

    Args:
        largest: Of :func:`largest_inputs`.
    """
    weights = dict(decoder.weights)
    for layer in range(decoder.shape.num_hidden_layers):
        prefix = layer_prefix(layer)
        for norm in dict.fromkeys(NORM_OF_INPUTS.values()):
            names = [
                f"{prefix}{linear_name}"
                for linear_name, its in NORM_OF_INPUTS.items()
                if its == norm
            ]
            inputs = largest[names[0]].clip(min=1e-5)
            columns = [weights[f"{name}.weight"].abs().amax(0) for name in names]
            of_weights = torch.stack(columns).amax(0).clip(min=1e-5)
            scale = (inputs**SMOOTHING / of_weights ** (1 - SMOOTHING)).clip(min=1e-5)
            weights[f"{prefix}{norm}.weight"] = weights[f"{prefix}{norm}.weight"] / scale
            for name in names:
                weights[f"{name}.weight"] = weights[f"{name}.weight"] * scale
    return Decoder(decoder.shape, weights, decoder.in_flight)
