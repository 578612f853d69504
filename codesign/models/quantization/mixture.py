"""Formats by product: few bits where a model is insensitive, more where it is not.

The sensitivity of a product is the divergence of the model with this product alone in a format.
Divergences add (to within some percent, see ``docs/accuracy.md``), so the choice with the least sum
for so many bits on average is a knapsack, which is solved exactly over choices that are not
dominated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import Tensor

from codesign.base.columns import FloatMap, StringMap, Strings, StringTuple
from codesign.base.errors import InfeasibleError
from codesign.base.records import frozen
from codesign.models.quantization.block_formats import find_block_format
from codesign.models.quantization.decoder import Decoder
from codesign.models.quantization.measurement import measure
from codesign.models.quantization.published import FormatChoice
from codesign.models.quantization.quantized_model import quantized

_MOST_CHOICES = 4096
"""Partial choices that are kept; more are thinned evenly by their bits."""


@frozen
class Sensitivity:
    """Cost of a product in each format.

    Attributes:
        product: Name of its weights, without ``.weight``.
        divergence_nats: By format; of the product alone in it.
    """

    product: str
    n_weights: int
    divergence_nats: FloatMap

    def measure(self, formats: Strings) -> Sensitivity:
        """The same for some formats."""
        return replace(self, divergence_nats={name: self.divergence_nats[name] for name in formats})


@frozen
class Mixture:
    """A format for each product.

    Attributes:
        formats: By product.
        average_bits: Of a weight, scales included.
        expected_divergence_nats: Sum of the sensitivities.
    """

    formats: StringMap
    average_bits: float
    expected_divergence_nats: float


def mixed_decoder(
    decoder: Decoder, formats: StringMap, calibration: Tensor, algorithm: str = "rtn"
) -> Decoder:
    """The decoder with weights and inputs of each product in its format; others stay."""
    choice = FormatChoice("bf16", algorithm=algorithm)
    return quantized(decoder, choice, calibration, formats_of_products=formats)


def sensitivities(
    decoder: Decoder,
    formats: Strings,
    calibration: Tensor,
    tokens: Tensor,
    algorithm: str = "rtn",
    earlier_sensitivities: Sequence[Sensitivity] = (),
    advance: Callable[[Sequence[Sensitivity]], None] = lambda so_far: None,
) -> list[Sensitivity]:
    """Divergence with one product quantized alone, for every product and every format.

    Negative measurements are noise and count as 0.

    Args:
        decoder: Decoder in full precision.
        formats: Formats to measure.
        calibration: (b, s) tokens that the algorithm looks at.
        tokens: (b, s) tokens to measure on.
        algorithm: Quantization algorithm of the weights.
        earlier_sensitivities: Earlier results, which are not measured again.
        advance: Called after each measurement with all results so far.
    """
    costs = {
        sensitivity.product: dict(sensitivity.divergence_nats)
        for sensitivity in earlier_sensitivities
    }

    def so_far() -> list[Sensitivity]:
        return [
            Sensitivity(product, decoder.weights[f"{product}.weight"].numel(), costs[product])
            for product in decoder.products
            if product in costs
        ]

    for product in decoder.products:
        of_product = costs.setdefault(product, {})
        for name in formats:
            if name not in of_product:
                trial = mixed_decoder(decoder, {product: name}, calibration, algorithm)
                divergence = measure(decoder, trial, tokens).divergence_nats.mean
                of_product[name] = max(divergence, 0.0)
                advance(so_far())
    return so_far()


def best_mixture(measured: Sequence[Sensitivity], average_bits: float) -> Mixture:
    """The mixture with the least expected divergence for at most so many bits on average.

    Raises:
        InfeasibleError: The narrowest formats have more bits.
    """
    n_weights = sum(sensitivity.n_weights for sensitivity in measured)
    within = [mix for mix in mixtures(measured) if mix.average_bits <= average_bits * (1 + 1e-12)]
    if not within:
        least = sum(
            sensitivity.n_weights * min(find_block_format(name).bits_per_element for name in costs)
            for sensitivity in measured
            for costs in [sensitivity.divergence_nats]
        )
        raise InfeasibleError(
            f"expected {least / n_weights:.4g} bits or more on average, got {average_bits:g}"
        )
    return min(within, key=lambda mix: mix.expected_divergence_nats)


def narrowest_mixture(measured: Sequence[Sensitivity], divergence_nats: float) -> Mixture:
    """The mixture of fewest bits whose expected divergence is within a limit.

    Raises:
        InfeasibleError: No mixture is.
    """
    front = mixtures(measured)
    within = [mix for mix in front if mix.expected_divergence_nats <= divergence_nats]
    if not within:
        least = min(mix.expected_divergence_nats for mix in front)
        raise InfeasibleError(
            f"expected a limit of {least:.3g} nats or more, got {divergence_nats:g}"
        )
    return min(within, key=lambda mix: mix.average_bits)


def mixtures(measured: Sequence[Sensitivity]) -> list[Mixture]:
    """All mixtures that no other beats in bits and expected divergence, by their bits."""
    names = sorted({name for sensitivity in measured for name in sensitivity.divergence_nats})
    n_weights = sum(sensitivity.n_weights for sensitivity in measured)
    front: list[tuple[float, float, StringTuple]] = [(0.0, 0.0, ())]
    for sensitivity in measured:
        extended = [
            (
                bits + sensitivity.n_weights * find_block_format(name).bits_per_element,
                cost + sensitivity.divergence_nats[name],
                (*format_names, name),
            )
            for bits, cost, format_names in front
            for name in names
        ]
        staircase: list[tuple[float, float, StringTuple]] = []
        for choice in sorted(extended):
            if not staircase or choice[1] < staircase[-1][1]:
                staircase.append(choice)
        front = staircase
        if len(staircase) > _MOST_CHOICES:
            step = (len(staircase) - 1) / (_MOST_CHOICES - 1)
            front = [staircase[round(place * step)] for place in range(_MOST_CHOICES)]
    return [
        Mixture(
            {
                sensitivity.product: name
                for sensitivity, name in zip(measured, format_names, strict=True)
            },
            bits / n_weights,
            cost,
        )
        for bits, cost, format_names in front
    ]
