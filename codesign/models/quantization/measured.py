"""Measurements of ``codesign accuracy quantize``, and estimates for formats that it left out.

Divergences add: that of weights, activations and KV cache together is taken as the sum of the three
alone. :data:`ADDITIVITY_ERROR` states the error of this rule. A combination that a table lacks is
estimated from rows with some of its formats, and flagged as estimated. A mixture of formats by
layers is estimated from rows with one format for all layers. Torch is not needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from codesign.base.columns import FloatSequence, JsonObject, StringDict, StringTuple
from codesign.base.errors import InputError, KeyedValueError, reraised_as_value_error
from codesign.base.records import frozen
from codesign.base.schema import Record, parse_record, read_document
from codesign.models.format_mixture import format_shares, is_mixed, mixture_words
from codesign.models.quantization.block_formats import find_block_format
from codesign.models.quantization.loss_rule import noise_shares
from codesign.models.quantization.published import OPERANDS, FormatChoice

ADDITIVITY_ERROR = 0.2
"""Error of the logarithm of a sum of divergences. Over 122 sums of two or three rows, of the
byte-level decoder of the tests by ``rtn`` and ``quarot+gptq``, the largest was 0.17. 80 % were
within 0.08 (``docs/accuracy.md``); rounded up, for other models were not measured."""
_SAME_SIZE = 1e-3
"""Relative difference of numbers of parameters up to which two models count as one [ours]."""
_WIDE = "bf16"
_OF_WEIGHTS = ("rtn", "gptq", "clipping")
"""Steps of an algorithm that change nothing but weights."""
_SPLITS: tuple[tuple[StringTuple, ...], ...] = (
    (OPERANDS,),
    (("weights", "activations"), ("kv_cache",)),
    (("weights",), ("activations", "kv_cache")),
    (("weights", "kv_cache"), ("activations",)),
    (("weights",), ("activations",), ("kv_cache",)),
)
"""Ways to put a combination together, fewest parts first."""


@frozen
class Interval:
    """A mean and the interval that 95 % of resamples keep."""

    mean: float
    low: float
    high: float


class MeasuredRow(Record):
    """Effect of one combination of formats on a model."""

    weight_format: str
    activation_format: str
    kv_format: str
    quantization_algorithm: str
    perplexity: Interval
    perplexity_ratio: Interval
    divergence_nats: Interval
    agreement: Interval
    layer_sqnr_db: list[float | None]

    def check_fields(self) -> None:
        with reraised_as_value_error():
            for name in (self.weight_format, self.activation_format, self.kv_format):
                find_block_format(name)
        for name in ("perplexity_ratio", "divergence_nats"):
            ends: Interval = getattr(self, name)
            if not -math.inf < ends.low <= ends.mean <= ends.high < math.inf:
                raise KeyedValueError(
                    name,
                    f"expected low <= mean <= high, got {ends.low:g}, {ends.mean:g}, {ends.high:g}",
                )

    @property
    def formats(self) -> FormatChoice:
        """Formats and algorithm."""
        return FormatChoice(
            self.weight_format, self.activation_format, self.kv_format, self.quantization_algorithm
        )


@frozen
class MeasuredLoss:
    """Loss of a model by its formats, from a table.

    Attributes:
        divergence_nats: Kullback-Leibler divergence from 16 bits, nats per token.
        perplexity_ratio: Perplexity over that at 16 bits.
        basis: ``measured``, or ``estimated`` from other rows or another model.
        source: Which model and text, and which rows.
    """

    divergence_nats: Interval
    perplexity_ratio: Interval
    basis: Literal["measured", "estimated"]
    source: str


class MeasuredTable(Record):
    """A table of ``codesign accuracy quantize``."""

    model: str
    n_parameters: float
    fingerprint: str
    text: str
    context_length: int
    n_evaluation: int
    n_calibration: int
    seed: int
    device: str
    """Processor of the measurement: ``cpu``, or torch's name and that of the device."""
    versions: StringDict
    rows: list[MeasuredRow]

    @cached_property
    def _rows_of_formats(self) -> Mapping[FormatChoice, MeasuredRow]:
        return {_canonical(row.formats): row for row in reversed(self.rows)}

    @property
    def algorithms(self) -> StringTuple:
        """Algorithms that were measured."""
        return tuple(dict.fromkeys(row.quantization_algorithm for row in self.rows))

    def content(self) -> JsonObject:
        """Content from which losses follow, as plain JSON values."""
        unused = {"perplexity", "agreement", "layer_sqnr_db"}
        return self.model_dump(mode="json", exclude={"versions": True, "rows": {"__all__": unused}})

    def is_of(self, n_parameters: float) -> bool:
        """Whether the table is of a model of that size; names of folders tell nothing."""
        return math.isclose(self.n_parameters, n_parameters, rel_tol=_SAME_SIZE)

    def loss(self, formats: FormatChoice, n_parameters: float) -> MeasuredLoss | None:
        """Loss of a combination, measured or estimated from its parts; None: neither.

        A mixture of formats by layers is estimated from the combinations with one of them each.

        Args:
            n_parameters: Of the model of interest; a table of another is an estimate for it.

        Raises:
            UnknownNameError: No such format.
            UnusableValueError: A mixture that is not one.
        """
        if is_mixed(formats.weights):
            return self._loss_of_mixture(formats, n_parameters)
        for split in _SPLITS:
            splits = [_canonical(_only(formats, kept)) for kept in split]
            measured_splits = [part for part in splits if part != FormatChoice(_WIDE)]
            rows = [
                self._rows_of_formats[part]
                for part in measured_splits
                if part in self._rows_of_formats
            ]
            if len(rows) == len(measured_splits):
                return self._sum(rows, self.is_of(n_parameters))
        return None

    def _loss_of_mixture(self, formats: FormatChoice, n_parameters: float) -> MeasuredLoss | None:
        """The mean over the formats of the weights, by what their layers have of the noise.

        The upper end is as if all layers were alike.
        """
        layers = {group.format: group.share for group in format_shares(formats.weights)}
        sensitive_first = noise_shares(formats.weights)
        losses = [
            self.loss(replace(formats, weights=group.format), n_parameters)
            for group in sensitive_first
        ]
        known_losses = [loss for loss in losses if loss is not None]
        if len(known_losses) < len(losses):
            return None
        shares = [group.share for group in sensitive_first]
        alike = [layers[group.format] for group in sensitive_first]
        divergence = _mean([loss.divergence_nats for loss in known_losses], shares, alike)
        ratio = _mean([loss.perplexity_ratio for loss in known_losses], shares, alike, math.log)
        return MeasuredLoss(
            *_widened(divergence, ratio, ADDITIVITY_ERROR),
            "estimated",
            f"{known_losses[0].source}; the mean over {mixture_words(formats.weights)}, of which "
            "the most sensitive layers have the least noisy format",
        )

    def missing(self, formats: FormatChoice) -> list[FormatChoice]:
        """The formats of single parts without a row of their own."""
        splits = [
            _canonical(_only(replace(formats, weights=group.format), (operand,)))
            for group in format_shares(formats.weights)
            for operand in OPERANDS
        ]
        return [
            part
            for part in splits
            if part != FormatChoice(_WIDE) and part not in self._rows_of_formats
        ]

    def _sum(self, rows: list[MeasuredRow], is_same_model: bool) -> MeasuredLoss:
        """The sum of rows; that of several has the error of adding them up."""
        ones = [1.0] * len(rows)
        divergence = _mean([row.divergence_nats for row in rows], ones, ones)
        ratio = _mean([row.perplexity_ratio for row in rows], ones, ones, math.log)
        source = f"{self.model} on {self.text}, {self.n_evaluation} sequences"
        if self.device != "cpu":  # its sums are rounded in another order
            source += f", by {self.device}"
        if len(rows) > 1:
            source += f"; the sum of {' + '.join(str(row.formats) for row in rows)}"
        if not is_same_model:
            source += f"; another model, of {self.n_parameters:.4g} parameters"
        return MeasuredLoss(
            *_widened(divergence, ratio, ADDITIVITY_ERROR if len(rows) > 1 else 0.0),
            "measured" if not rows or (len(rows) == 1 and is_same_model) else "estimated",
            source,
        )


def _widened(
    divergence: Interval, ratio: Interval, logarithmic_error: float
) -> tuple[Interval, Interval]:
    """Divergence and perplexity ratio, which comes as its logarithm, with the error of a rule."""
    error = math.exp(logarithmic_error)
    slack = (error - 1.0) * abs(divergence.mean)
    return (
        Interval(divergence.mean, divergence.low / error, divergence.high * error),
        Interval(*map(math.exp, (ratio.mean, ratio.low - slack, ratio.high + slack))),
    )


def _mean(
    groups: Sequence[Interval],
    shares: FloatSequence,
    alike: FloatSequence,
    of: Callable[[float], float] = float,
) -> Interval:
    """Weighted mean, or sum, of losses; its upper end is that of the larger of two weightings.

    The sum of intervals is wider than the interval of a sum.

    Args:
        groups: Of each group of layers, if all layers were like it.
        shares: Weights by sensitivity.
        alike: Weights if no layer is more sensitive than another.
        of: What is averaged.
    """
    low, mean, high = (
        sum(share * of(getattr(group, end)) for share, group in zip(shares, groups, strict=True))
        for end in ("low", "mean", "high")
    )
    if_alike = sum(share * of(group.high) for share, group in zip(alike, groups, strict=True))
    return Interval(mean, low, max(high, if_alike))


def _only(formats: FormatChoice, kept: Collection[str]) -> FormatChoice:
    """These formats for some parts, and 16 bits for the others."""
    return replace(formats, **{operand: _WIDE for operand in OPERANDS if operand not in kept})


def _canonical(formats: FormatChoice) -> FormatChoice:
    """The same for all choices that give the same model."""
    rounded = [
        operand for operand, name in formats.operands.items() if find_block_format(name).element
    ]
    if not rounded:
        return FormatChoice(_WIDE)
    idle = ("rtn",) if "weights" in rounded else _OF_WEIGHTS
    words = [word for word in formats.algorithm.split("+") if word not in idle] or ["rtn"]
    return replace(_only(formats, rounded), algorithm="+".join(sorted(words)))


def read_measured_table(path: str | Path) -> MeasuredTable:
    """Read a table that ``codesign accuracy quantize`` wrote.

    Raises:
        InputError: The file cannot be read or is no such table.
    """
    document = read_document(path)
    if not {"fingerprint", "rows"} <= document.data.keys():
        raise InputError(f"{path}: expected a table that codesign accuracy quantize wrote")
    return parse_record(document, MeasuredTable)
