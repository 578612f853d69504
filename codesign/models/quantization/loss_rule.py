r"""An estimate of what formats cost in accuracy, for combinations that nobody published.

The rule: the noise that each part of a model gets adds up,

.. math:: N = \sum_{p} k_{p, algorithm} \varepsilon(format_p),

over weights, activations and KV cache, where :math:`\varepsilon` is the relative energy of the
rounding error of normally distributed numbers (computed by the format's own arithmetic, so every
format has one). The Kullback-Leibler divergence of answers grows like this noise; the loss is a
power of it, with a level of the model:

.. math:: L = e^{a + u_{model}} (n_{parameters} / 10^{10})^{b} (N / 0.03)^{c},

with :math:`L = -\ln(score / score_{16 bit})` of an accuracy and :math:`+\ln` of a perplexity. It
approaches the loss of guessing. Rows of activations that are rounded to one scale without
rotation have a factor of their own: outliers set their scale.

In a mixture of formats the most sensitive layers have the least noisy format, and the first
:math:`x` of them have :math:`x^q` of the noise that all would have in one format; :math:`q` is
fitted to published mixtures, which were chosen so.

All constants are fitted to ``published_scores.csv`` by
``python -m validation.studies.fit_accuracy``, which also measures the errors on scores
that were withheld; ``loss_rule.yaml`` has both. Estimates are flagged as such.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatDict, FloatPair, StringList, StringTuple
from codesign.base.errors import InputError, UnusableValueError, check_known
from codesign.base.records import frozen
from codesign.base.schema import Record, parse_record, read_document
from codesign.models.format_mixture import FormatShare, format_shares, is_mixed
from codesign.models.quantization.block_formats import find_block_format
from codesign.models.quantization.published import FormatChoice, Measure, model_key, scores_of
from codesign.models.quantization.rounding import relative_noise

Basis = Literal["published", "estimated"]

RULE_FILE = Path(__file__).parent / "loss_rule.yaml"
REFERENCE_NOISE = 0.03
"""Noise at which the level of a loss is stated: about that of MXFP4 weights and activations."""
REFERENCE_PARAMETERS = 1e10
_WIDE = 128
"""Elements up to which a block keeps an outlier from its neighbors; rows are longer."""
_SAMPLE_ROWS = 64
_SAMPLE_COLUMNS = 4096
_DIGITS = 6
"""Digits of a noise that are kept, so that the order of a sum changes nothing."""
ROTATED = ("quarot", "spinquant")
"""Algorithms that spread outliers over all channels."""


class MeasureConstants(Record):
    """Constants of a measure.

    Attributes:
        level: Logarithm of the loss of a model of 10 billion parameters at the noise of reference.
        size_power: Power of the number of parameters in the loss.
        noise_power: Power of the noise in the loss.
        worst: Loss of guessing, which no loss exceeds.
        floor: Loss below which a score is within the noise of its benchmark.
        models: Deviation of a model's level from that of its size.
        errors: Error of the logarithm of the loss that 80 % of withheld scores keep, also if each
            benchmark counts alike: ``scores`` a random fifth, ``models`` all of a model,
            ``formats`` all of a combination of formats.
    """

    level: float
    size_power: float
    noise_power: float
    worst: float
    floor: float
    models: FloatDict
    errors: FloatDict


class MixtureConstants(Record):
    """Constants of mixtures of formats by layers.

    Attributes:
        concentration: Power of a share of the most sensitive layers that gives their share of the
            noise.
        error: Error of the logarithm of the loss that 80 % of published mixtures keep, by a fit
            that did not see their model.
    """

    concentration: float
    error: float
    source: str


class LossRule(Record):
    """The constants of the rule; see the module.

    Attributes:
        factors: Logarithms of the factors of noise, by part and algorithm.
        fitted_formats: The combinations of formats among the scores that were fitted.
        mixtures: Constants of mixtures alone; they are no part of the identity of campaigns.
    """

    factors: FloatDict
    accuracy: MeasureConstants
    perplexity: MeasureConstants
    fitted_formats: StringList
    source: str
    mixtures: MixtureConstants = Field(exclude=True)


@frozen
class ScoreEstimate:
    """A ratio of scores, quantized over 16 bits, and how sure it is.

    Attributes:
        ratio: Of an accuracy, the recovery; of a perplexity, above 1.
        low: With ``high`` an interval that holds 80 % of withheld scores.
        high: Its upper end.
        basis: ``published`` for exactly these formats, algorithm and model, or ``estimated``.
        source: Sources of what is published, or the error that is expected.
    """

    ratio: float
    low: float
    high: float
    basis: Basis
    source: str


@cache
def load_rule() -> LossRule:
    """The fitted constants."""
    return parse_record(read_document(RULE_FILE), LossRule)


@cache
def noise(name: str) -> float:
    """Relative energy of the rounding error of normally distributed numbers in a format.

    Raises:
        UnknownNameError: No such format.
    """
    block_format = find_block_format(name)
    if block_format.element is None:
        return 0.0
    generator = np.random.default_rng(0)
    sample = generator.standard_normal((_SAMPLE_ROWS, _SAMPLE_COLUMNS), dtype=np.float32)
    return float(f"{relative_noise(sample, block_format):.{_DIGITS}g}")


def algorithms() -> StringTuple:
    """The algorithms that the rule has factors of."""
    return tuple(key.removeprefix("weights ") for key in load_rule().factors if "weights" in key)


def noise_parts(
    formats: FormatChoice, concentration: float | None = None
) -> list[tuple[str, float]]:
    """The factor and the noise of each part in each of its formats, but those of 16 bits.

    Args:
        concentration: Of the noise of a mixture in few layers; that of the rule if None.
    """
    return [
        noise
        for operand, name in formats.operands.items()
        for noise in _noise_of_part(operand, name, formats.algorithm, concentration)
    ]


def _noise_of_part(
    part: str, name: str, algorithm: str, concentration: float | None
) -> list[tuple[str, float]]:
    return [
        (factor_key(part, group.format, algorithm), group.share * noise(group.format))
        for group in noise_shares(name, concentration)
        if noise(group.format)
    ]


def noise_shares(name: str, concentration: float | None = None) -> list[FormatShare]:
    """Formats of a mixture, the least noisy first, each with what its layers have of the noise.

    As a share of what all layers would have in this format. Limiting assumption: the mixture gives
    the most sensitive layers the least noisy formats.

    Args:
        name: Of a mixture or a format.
        concentration: See :class:`MixtureConstants`; that of the rule if None. 1: all layers alike.

    Raises:
        UnknownNameError: No such format.
        UnusableValueError: A mixture that is not one.
    """
    groups = format_shares(name)
    if len(groups) == 1:
        return list(groups)
    try:
        groups = tuple(sorted(groups, key=lambda group: noise(group.format)))
    except InputError as error:
        raise UnusableValueError(f"mixture {name!r}: {error}", name) from None
    power = load_rule().mixtures.concentration if concentration is None else concentration
    shares = []
    before = 0.0
    for group in groups:
        layers = before + group.share
        shares.append(FormatShare(min(layers, 1.0) ** power - before**power, group.format))
        before = layers
    return shares


def factor_key(part: str, name: str, algorithm: str) -> str:
    """The name of the factor of a part in a format."""
    if part == "kv_cache":
        return "kv_cache rotated" if algorithm in ROTATED else "kv_cache"
    block_size = find_block_format(name).block_size
    is_wide = not block_size or block_size > _WIDE
    if part == "activations" and algorithm not in ROTATED and is_wide:
        return "activations by row"
    if part == "activations" and algorithm == "gptq":
        return "activations rtn"  # it changes weights alone
    return f"{part} {algorithm}"


def part_noise(part: str, name: str, algorithm: str) -> float:
    """Noise that a part of a model adds, such as ``weights`` in ``mxfp4`` by ``gptq``.

    Raises:
        UnknownNameError: No such format, or no such algorithm.
        UnusableValueError: A mixture that is not one.
    """
    check_known("quantization algorithm", algorithm, algorithms())
    factors = load_rule().factors
    return sum(
        math.exp(factors[key]) * of_format
        for key, of_format in _noise_of_part(part, name, algorithm, None)
    )


def loss(total_noise: float, model: str, n_parameters: float, measure: Measure) -> float:
    """Loss of a model at a noise; 0 where there is none.

    Args:
        total_noise: Sum of :func:`part_noise`.
        model: Name; one that nobody published has the level of its size.
    """
    if not total_noise:
        return 0.0
    constants: MeasureConstants = getattr(load_rule(), measure)
    logarithm = (
        constants.level
        + constants.models.get(model_key(model), 0.0)
        + constants.size_power * math.log(n_parameters / REFERENCE_PARAMETERS)
        + constants.noise_power * math.log(total_noise / REFERENCE_NOISE)
    )
    return bounded(math.exp(logarithm), constants.worst)


def bounded(unbounded_loss: float, worst: float) -> float:
    """A loss that approaches its worst case, and is itself where it is small."""
    return float(1.0 / math.hypot(1.0 / unbounded_loss, 1.0 / worst))


def estimate(
    formats: FormatChoice,
    model: str,
    n_parameters: float,
    measure: Measure = "accuracy",
    vocab_size: float = math.inf,
    is_by_rule: bool = False,
) -> ScoreEstimate:
    """Published or estimated score of a model in some formats.

    Args:
        model: Name; published scores of exactly these formats are looked up.
        measure: ``accuracy`` or ``perplexity``.
        vocab_size: Perplexity of guessing among all tokens, which no estimate exceeds.
        is_by_rule: True to ignore published scores of the model.

    Raises:
        UnknownNameError: No such format, or an algorithm that the rule does not know.
    """
    published = [
        (score.ratio, score.source)
        for score in scores_of(model)
        if score.formats == formats and score.measure == measure and score.ratio is not None
    ]
    if published and not is_by_rule:
        values, sources_of_values = zip(*published, strict=True)
        sources = "; ".join(dict.fromkeys(sources_of_values))
        return ScoreEstimate(
            sum(values) / len(values), min(values), max(values), "published", sources
        )
    total = sum(
        part_noise(operand, name, formats.algorithm) for operand, name in formats.operands.items()
    )
    if not total:
        return ScoreEstimate(
            1.0, 1.0, 1.0, "published", "16 bits are what scores are compared with"
        )
    value = loss(total, model, n_parameters, measure)
    rule = load_rule()
    constants: MeasureConstants = getattr(rule, measure)
    kinds = ["scores"]
    if model_key(model) not in constants.models:
        kinds.append("models")
    if combination(formats) not in rule.fitted_formats:
        kinds.append("formats")
    width = max(constants.errors[error_kind] for error_kind in kinds)
    if any(map(is_mixed, formats.operands.values())):
        kinds.append("mixtures")
        width = max(width, rule.mixtures.error)
    low, high = interval(value, width, constants.floor)
    if measure == "perplexity":  # a model without error has a perplexity of 1
        low, value, high = (min(x, math.log(vocab_size)) for x in (low, value, high))
    lower, upper = sorted(_ratio(end, measure) for end in (low, high))
    source = f"80 % of withheld {' and '.join(kinds)} lie in this interval"
    return ScoreEstimate(_ratio(value, measure), lower, upper, "estimated", source)


def combination(formats: FormatChoice) -> str:
    """The formats of the parts as one word."""
    return "/".join(formats.operands.values())


def interval(value: float, width: float, floor: float) -> FloatPair:
    """Losses between which 80 % of withheld scores are.

    Args:
        value: The estimate.
        width: Error of its logarithm.
        floor: Loss within the noise of a benchmark.
    """
    least = max((value + floor) * math.exp(-width) - floor, 0.0)
    return least, (value + floor) * math.exp(width) - floor


def _ratio(value: float, measure: Measure) -> float:
    return math.exp(-value) if measure == "accuracy" else math.exp(value)
