"""Scores of quantized models that others published, with their sources.

``published_scores.csv`` has a row for each score: model, formats, algorithm, benchmark, the score
at 16 bits and its source. ``as served`` and ``submitter choice`` are formats that the source does
not state; such rows are shown and not used for estimates. Mixtures of MXFP4 and MXFP8 are named by
the shares of the layers that follow from the bits that their source states, which leaves out
scales: 4.5 bits on average are ``0.875*mxfp4+0.125*mxfp8``. INT4 of SpinQuant's table is ``int4``
for weights (by channel) and activations (by token), ``int4-g128`` for the KV cache (by head of
128).
"""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from typing import Literal

from codesign.base.columns import FloatMap, StringDict, StringTuple
from codesign.base.errors import UnknownNameError
from codesign.base.records import frozen
from codesign.base.schema import read_document
from codesign.models.format_mixture import format_shares, is_mixed
from codesign.models.quantization.block_formats import find_block_format

_FILE = Path(__file__).parent / "published_scores.csv"

_BILLIONS: FloatMap = read_document(_FILE.with_name("published_models.yaml")).data

Measure = Literal["accuracy", "perplexity"]
OPERANDS = ("weights", "activations", "kv_cache")
MEASURES: tuple[Measure, ...] = ("accuracy", "perplexity")


@frozen
class FormatChoice:
    """Formats of what a model stores and multiplies, and how they were reached.

    Attributes:
        weights: Name of a block format, or of a mixture (see ``codesign.models.format_mixture``).
        activations: Likewise, of the inputs of products with weights.
        kv_cache: Likewise, of keys and values.
        algorithm: Such as ``rtn`` or ``gptq``.
    """

    weights: str
    activations: str = "bf16"
    kv_cache: str = "bf16"
    algorithm: str = "rtn"

    @property
    def operands(self) -> StringDict:
        """Format of each operand."""
        return {name: getattr(self, name) for name in OPERANDS}

    def __str__(self) -> str:
        return f"{self.weights} / {self.activations} / {self.kv_cache}, {self.algorithm}"


@frozen
class PublishedScore:
    """A score of a quantized model.

    Attributes:
        model: As the source names it.
        measure: ``accuracy``, of which more is better, or ``perplexity``.
        full_precision: The score at 16 bits; None where the source has only a ratio or none.
        score: The score; None where the source has only a ratio.
        ratio: Score over that at 16 bits; None where nothing to compare with is known.
        note: What limits it.
    """

    identifier: str
    model: str
    formats: FormatChoice
    benchmark: str
    measure: Measure
    full_precision: float | None
    score: float | None
    ratio: float | None
    source: str
    note: str

    @property
    def is_mixed(self) -> bool:
        """Whether layers differ in their formats."""
        return is_mixed(self.formats.weights) or is_mixed(self.formats.activations)

    @property
    def is_comparable(self) -> bool:
        """Whether it can be held against an estimate: its formats and its loss are known."""
        return self.ratio is not None and all(map(_is_block_format, self.formats.operands.values()))


def _is_block_format(name: str) -> bool:
    return not name.startswith(("as served", "submitter"))


@cache
def published_scores() -> tuple[PublishedScore, ...]:
    """Every score, in the order of the file."""
    scores = []
    with _FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            keys = ("weight_format", "activation_format", "kv_format", "algorithm")
            formats = FormatChoice(*(row[key] for key in keys))
            for name in filter(_is_block_format, formats.operands.values()):
                for group in format_shares(name):
                    find_block_format(group.format, f"{_FILE.name}: {row['id']}")
            full_precision, score, ratio = (
                float(row[key]) if row[key] else None
                for key in ("full_precision", "score", "ratio")
            )
            scores.append(
                PublishedScore(
                    row["id"],
                    row["model"],
                    formats,
                    row["benchmark"],
                    "perplexity" if row["measure"] == "perplexity" else "accuracy",
                    full_precision,
                    score,
                    ratio,
                    row["source"],
                    row["note"],
                )
            )
    return tuple(scores)


def model_key(name: str) -> str:
    """The name under which a model's scores are looked up: lower case, tuned or not.

    Examples:
        >>> model_key("Llama-3.3-70B-Instruct"), model_key("qwen3-32b")
        ('llama-3.3-70b', 'qwen3-32b')
    """
    return re.sub(r"-(instruct|it|chat)$", "", name.lower())


def scores_of(model: str) -> tuple[PublishedScore, ...]:
    """The scores of a model, tuned or not."""
    key = model_key(model)
    return tuple(score for score in published_scores() if model_key(score.model) == key)


def n_parameters_of(model: str) -> float:
    """Number of parameters of a model with published scores.

    Raises:
        UnknownNameError: No score of it is known.
    """
    key = model_key(model)
    if key not in _BILLIONS:
        raise UnknownNameError("model with published scores", model, _BILLIONS)
    return _BILLIONS[key] * 1e9


def scored_models() -> StringTuple:
    """The models with published scores, as they are looked up."""
    return tuple(sorted({model_key(score.model) for score in published_scores()}))
