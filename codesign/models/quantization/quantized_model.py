"""A decoder in named formats: algorithms in their order, layer after layer.

An algorithm is a word or several joined by ``+``: ``smoothquant``, then ``quarot``, then one of
``rtn``, ``gptq`` and ``clipping`` for the weights. Embedding and output layer stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

import torch
from torch import Tensor

from codesign.base.columns import StringList, StringMap
from codesign.base.errors import InputError, check_known
from codesign.models.quantization.block_formats import BlockFormat, find_block_format
from codesign.models.quantization.decoder import LINEAR_NAMES, Decoder, layer_prefix
from codesign.models.quantization.published import FormatChoice
from codesign.models.quantization.rounding import quantize
from codesign.models.quantization.transformations import largest_inputs, rotated, smoothed
from codesign.models.quantization.weight_algorithms import clipped, gptq

Rounding = Literal["rtn", "gptq", "clipping"]
_ROUNDINGS = ("rtn", "gptq", "clipping")
STEPS = ("smoothquant", "quarot", *_ROUNDINGS)
"""Steps in the order in which they are applied."""


def algorithm_steps(algorithm: str, where: str | None = None) -> StringList:
    """The steps of an algorithm such as ``quarot+gptq``, in their order.

    Raises:
        UnknownNameError: A word is not known.
        InputError: There are two ways to round weights.
    """
    words = algorithm.split("+")
    for word in words:
        check_known("quantization algorithm", word, STEPS, where)
    if sum(word in _ROUNDINGS for word in words) > 1:
        prefix = f"{where}: " if where else ""
        raise InputError(f"{prefix}{algorithm!r}: expected one of {', '.join(_ROUNDINGS)}")
    return [step for step in STEPS if step in words]


def quantized(
    decoder: Decoder,
    formats: FormatChoice,
    calibration: Tensor,
    seed: int = 0,
    formats_of_products: StringMap | None = None,
) -> Decoder:
    """The decoder with its weights rounded, which rounds activations and KV cache on their way.

    Args:
        decoder: In full precision; it stays as it is.
        calibration: (b, s) tokens that algorithms look at.
        formats_of_products: Format of weights and inputs of single products, in place of those of
            ``formats``.

    Raises:
        InputError: An unknown format or algorithm.
    """
    steps = algorithm_steps(formats.algorithm)
    if "smoothquant" in steps:
        decoder = smoothed(decoder, largest_inputs(decoder, calibration))
    if "quarot" in steps:
        decoder = rotated(decoder, seed)
    rounding = cast(Rounding, next((step for step in steps if step in _ROUNDINGS), "rtn"))
    mixed = formats_of_products or {}
    of_weights = {**dict.fromkeys(decoder.products, formats.weights), **mixed}
    rounded_decoder = _rounded_decoder(decoder, of_weights, rounding, calibration)
    in_flight = replace(
        decoder.in_flight,
        activations=_or_none(formats.activations),
        kv_cache=_or_none(formats.kv_cache),
        activations_of_products={name: find_block_format(its) for name, its in mixed.items()},
    )
    return replace(rounded_decoder, in_flight=in_flight)


def _or_none(name: str) -> BlockFormat | None:
    block_format = find_block_format(name)
    return None if block_format.element is None else block_format


def _rounded_decoder(
    decoder: Decoder, names: StringMap, rounding: Rounding, calibration: Tensor
) -> Decoder:
    """Layer after layer; the inputs of a layer are those behind the rounded ones before it."""
    weights = dict(decoder.weights)
    changed = replace(decoder, weights=weights)
    with torch.no_grad():
        needs_inputs = rounding != "rtn" and len(calibration) > 0
        algorithms = {"gptq": gptq, "clipping": clipped}
        hidden = (
            [decoder.embedded(sequence[None]) for sequence in calibration] if needs_inputs else []
        )
        for layer in range(decoder.shape.num_hidden_layers):
            moments = _moments(changed, layer, hidden)
            for linear_name in LINEAR_NAMES:
                key = f"{layer_prefix(layer)}{linear_name}"
                weight = weights[f"{key}.weight"]
                block_format = find_block_format(names[key])
                weights[f"{key}.weight"] = (
                    algorithms[rounding](weight, moments[key], block_format)
                    if needs_inputs
                    else quantize(weight, block_format)
                )
            hidden = [changed.layer_output(layer, hidden_state) for hidden_state in hidden]
    return changed


def _moments(decoder: Decoder, layer: int, hidden: Sequence[Tensor]) -> dict[str, Tensor]:
    """Second moments of the inputs of a layer's products."""
    moments: dict[str, Tensor] = {}
    last: list[tuple[Tensor, Tensor]] = []

    def observe(name: str, inputs: Tensor) -> None:
        if not last or last[-1][0] is not inputs:  # several products share their inputs
            flat = inputs.flatten(0, -2)
            last[:] = [(inputs, flat.T @ flat / (len(flat) * len(hidden)))]
        moment = last[-1][1]
        moments[name] = moments[name] + moment if name in moments else moment

    for hidden_state in hidden:
        decoder.layer_output(layer, hidden_state, observe)
    return moments
