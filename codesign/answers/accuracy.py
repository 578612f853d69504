"""Answers about the accuracy of a model in number formats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

from codesign.answers.answer import Answer, Entry, Number
from codesign.base.columns import FloatMap, StringDict, StringMap
from codesign.models.quantization.loss_rule import algorithms, estimate, load_rule
from codesign.models.quantization.measured import (
    Interval,
    MeasuredTable,
)
from codesign.models.quantization.published import (
    MEASURES,
    FormatChoice,
    Measure,
    PublishedScore,
    scores_of,
)


class FormatsEntry(Entry):
    """Number formats of a model, and the algorithm that reached them."""

    weight_format: str
    activation_format: str
    kv_format: str
    quantization_algorithm: str

    @property
    def formats_in_words(self) -> str:
        """All formats in one line."""
        names = f"{self.weight_format} / {self.activation_format} / {self.kv_format}"
        return f"{names}, {self.quantization_algorithm}"

    @staticmethod
    def fields_of(choice: FormatChoice) -> StringDict:
        """The fields of a combination of formats."""
        values = (choice.weights, choice.activations, choice.kv_cache, choice.algorithm)
        return dict(zip(FormatsEntry.model_fields, values, strict=True))


class PublishedEntry(FormatsEntry):
    """A published score beside the rule's estimate.

    Attributes:
        ratio: Score over that at 16 bits.
        ratio_of_rule: The rule's estimate of this ratio; null for formats or algorithms that it
            does not cover.
        log_error_of_rule: Logarithm of the loss by the rule over the published one, the noise of
            benchmarks added to both.
    """

    identifier: str
    model: str
    benchmark: str
    measure: Measure
    full_precision: Number
    score: Number
    ratio: Number
    ratio_of_rule: Number
    log_error_of_rule: Number
    source: str
    note: str

    @classmethod
    def describe(cls, score: PublishedScore, model: str, n_parameters: float) -> Self:
        """The entry of a score."""
        choice = score.formats if score.is_comparable else None
        return cls.read(
            score,
            **FormatsEntry.fields_of(score.formats),
            **_compared(choice, model, n_parameters, score.measure, score.ratio),
        )


class EstimateEntry(FormatsEntry):
    """An estimated or published ratio of scores.

    Attributes:
        ratio: Score over that at 16 bits; above 1 for a perplexity.
    """

    measure: Measure
    ratio: float
    low: float
    high: float
    basis: Literal["published", "estimated"]
    source: str


class MeasuredEntry(FormatsEntry):
    """A measured combination of formats beside what others have of it.

    Attributes:
        log_error_of_rule: Logarithm of the loss by the rule over the measured one, the noise of
            benchmarks added to both.
    """

    divergence_nats: Interval
    perplexity_ratio: Interval
    published_ratio: Number
    ratio_of_rule: Number
    log_error_of_rule: Number
    basis: Literal["measured", "estimated"]
    source: str


class RuleErrors(Entry):
    """Errors of the logarithm of the loss that 80 % of withheld scores keep, by what was
    withheld together."""

    accuracy: FloatMap
    perplexity: FloatMap


class AccuracyAnswer(Answer):
    """Cost of number formats in a model's accuracy.

    Attributes:
        measured: Rows of a table of ``codesign accuracy quantize``; with --table.
    """

    model: str
    n_parameters: float
    published: Sequence[PublishedEntry]
    estimates: Sequence[EstimateEntry]
    measured: Sequence[MeasuredEntry] | None = None
    errors_of_rule: RuleErrors

    @classmethod
    def describe(
        cls,
        model: str,
        n_parameters: float,
        choices: Sequence[FormatChoice],
        table: MeasuredTable | None = None,
        vocab_size: float = math.inf,
    ) -> Self:
        """The answer about a model.

        Args:
            model: Name of the model.
            n_parameters: Its parameters.
            choices: Combinations of formats of interest.
            table: Measurements of the model.
            vocab_size: Its vocabulary, the bound of estimated perplexities.
        """
        rule = load_rule()
        scores = scores_of(model)
        return cls(
            model=model,
            n_parameters=n_parameters,
            published=[PublishedEntry.describe(score, model, n_parameters) for score in scores],
            estimates=[
                EstimateEntry(
                    **FormatsEntry.fields_of(choice),
                    measure=measure,
                    **vars(estimate(choice, model, n_parameters, measure, vocab_size)),
                )
                for choice in choices
                for measure in MEASURES
            ],
            measured=_measured_entries(model, n_parameters, choices, table),
            errors_of_rule=RuleErrors(
                accuracy=rule.accuracy.errors, perplexity=rule.perplexity.errors
            ),
        )


def _measured_entries(
    model: str, n_parameters: float, choices: Sequence[FormatChoice], table: MeasuredTable | None
) -> list[MeasuredEntry]:
    """Each row of the table, then each choice that the table lacks."""
    if table is None:
        return []
    entries = []
    for choice in dict.fromkeys([*(row.formats for row in table.rows), *choices]):
        loss = table.loss(choice, n_parameters)
        if loss is None:
            continue
        published = [
            score.ratio
            for score in scores_of(model)
            if (score.formats, score.measure) == (choice, "perplexity") and score.ratio
        ]
        ratio = loss.perplexity_ratio.mean
        entry = MeasuredEntry.read(
            loss,
            **FormatsEntry.fields_of(choice),
            published_ratio=sum(published) / len(published) if published else None,
            **_compared(choice, model, n_parameters, "perplexity", ratio),
        )
        entries.append(entry)
    return entries


def _compared(
    choice: FormatChoice | None, model: str, n_parameters: float, measure: Measure, ratio: Number
) -> dict[str, Number]:
    """The rule's ratio, and its error against a given ratio; null where the rule does not apply."""
    by_rule = error = None
    if choice is not None and choice.algorithm in algorithms():
        by_rule = estimate(choice, model, n_parameters, measure, is_by_rule=True).ratio
        if ratio is not None:
            sign = -1.0 if measure == "accuracy" else 1.0
            loss_of_rule, true_loss = (sign * math.log(x) for x in (by_rule, ratio))
            rule = load_rule()
            floor = (rule.accuracy if measure == "accuracy" else rule.perplexity).floor
            error = math.log((loss_of_rule + floor) / (max(true_loss, 0.0) + floor))
    return {"ratio_of_rule": by_rule, "log_error_of_rule": error}


class QuantizeAnswer(Answer, MeasuredTable):
    """Measured effect of number formats on a local model.

    Attributes:
        file: Path of the table.
    """

    file: str


class SensitivityEntry(Entry):
    """Divergence that a product of the model causes alone.

    Attributes:
        divergence_nats: Divergence by format of the product; nats per token.
    """

    product: str
    n_weights: int
    divergence_nats: FloatMap


class MixtureEntry(Entry):
    """A format for each product.

    Attributes:
        formats: FormatsEntry by product.
        average_bits: Bits of a weight, scales included.
        expected_divergence_nats: Sum of the sensitivities.
        divergence_nats: Divergence on further sequences; the ends hold 95 % of resamples.
        weight_format: The mixture as a value of a space: its shares of the weights.
    """

    formats: StringMap
    average_bits: float
    expected_divergence_nats: float
    divergence_nats: Interval
    weight_format: str


class MixFormatsAnswer(Answer):
    """A format for each product of a local model.

    Attributes:
        fingerprint: Digest of checkpoint and text.
        file: Path of the table.
    """

    model: str
    fingerprint: str
    text: str
    quantization_algorithm: str
    context_length: int
    n_sequences: int
    n_calibration: int
    device: str
    versions: StringMap
    sensitivities: Sequence[SensitivityEntry]
    mixtures: Sequence[MixtureEntry]
    file: str
