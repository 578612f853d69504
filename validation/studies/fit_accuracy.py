"""Fit the rule of accuracy losses: ``python -m validation.studies.fit_accuracy``.

The rule is ``codesign.models.quantization.loss_rule``'s; this writes its constants and the errors
on scores that were withheld from a fit of the others. Nothing is random but the fifths, whose seed
is fixed. Each constant has a prior so that what few scores tell stays near its neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import yaml

from codesign.base.columns import Fields, FloatArray, JsonObject
from codesign.base.files import replacing
from codesign.base.records import frozen
from codesign.models.quantization import loss_rule
from codesign.models.quantization.loss_rule import REFERENCE_NOISE, REFERENCE_PARAMETERS
from codesign.models.quantization.published import (
    MEASURES,
    FormatChoice,
    PublishedScore,
    model_key,
    n_parameters_of,
    published_scores,
)

SAME_KIND = {
    "rtn": "rtn",
    "gptq": "gptq",
    "gptq-smoothquant": "gptq",
    "llmcompressor": "gptq",
    "quarot": "quarot",
    "rotation": "quarot",
    "spinquant": "spinquant",
    "autoround": "autoround",
    "autoround-extended": "autoround",
}
"""Algorithms that share factors; scores of others, such as training, are not fitted [ours]."""
_CHECKED_AS = {"unstated": "rtn"}
"""Algorithms whose scores are checked and never fitted: those of agentic work, whose source names
no algorithm. Read so, they are as near to the rule as they can be [ours]."""
FLOORS = {"accuracy": 0.01, "perplexity": 0.02}
"""Losses within the noise of a benchmark and of printed digits [ours]."""
WORST = {"accuracy": 0.78, "perplexity": 14.0}
"""Losses of guessing: of the published zero-shot means 0.46 is left, of perplexities 1e6."""
_SCATTER = 0.35
"""Error of the logarithm of a loss from which an outlier counts less [ours]."""
_PRIORS = {
    "activations by row": (2.0, 2.0),
    "factor": (0.0, 1.0),
    "model": (0.0, 0.5),
    "level": (0.5, 5.0),
    "size_power": (0.0, 0.3),
    "noise_power": (0.0, 0.5),
}
"""Mean and deviation of a constant; of the noise's power, of its logarithm [ours]."""
_FOLDS, _FOLD_SEED = 5, 1
_WITHHELD_MIXTURES = {"FO038"}
"""Scores that only check the concentration; of the mixture with the fewest bits of Qwen3-32B."""
QUANTILE = 0.8
"""Share of withheld scores within an error that is stated."""


@frozen
class FittedScore:
    """A score in the form of the fit.

    Attributes:
        formats: With the algorithm whose factors it shares.
        loss: Of it, not below 0.
    """

    score: PublishedScore
    formats: FormatChoice
    loss: float

    @property
    def is_fitted(self) -> bool:
        """Whether constants may follow from it."""
        return self.score.formats.algorithm in SAME_KIND

    @property
    def model(self) -> str:
        """Key of its model."""
        return model_key(self.score.model)


def usable_scores() -> list[FittedScore]:
    """The scores with known formats, a ratio and an algorithm of several, or that nobody states."""
    kinds = SAME_KIND | _CHECKED_AS
    scores = []
    for score in published_scores():
        if not score.is_comparable or score.is_mixed or score.formats.algorithm not in kinds:
            continue
        assert score.ratio is not None
        sign = -1.0 if score.measure == "accuracy" else 1.0
        formats = score.formats
        shared = FormatChoice(
            formats.weights, formats.activations, formats.kv_cache, kinds[formats.algorithm]
        )
        scores.append(FittedScore(score, shared, max(sign * float(np.log(score.ratio)), 0.0)))
    return scores


class LossFit:
    """The rule over some scores as a function of a vector of its constants.

    Args:
        scores: The scores; all of them, also those that a fit leaves out.
    """

    def __init__(self, scores: Sequence[FittedScore]) -> None:
        self.scores = scores
        self._is_fitted = np.array([score.is_fitted for score in scores])
        noise_parts = [loss_rule.noise_parts(score.formats) for score in scores]
        self.factors = sorted({key for of_score in noise_parts for key, _ in of_score})
        self.models = sorted({(score.score.measure, score.model) for score in scores})
        self._noise = np.zeros((len(scores), len(self.factors)))
        for row, of_score in enumerate(noise_parts):
            for key, value in of_score:
                self._noise[row, self.factors.index(key)] += value
        measures = [score.score.measure for score in scores]
        self.measure = np.array([MEASURES.index(name) for name in measures])
        self._model = np.array([self.models.index((i.score.measure, i.model)) for i in scores])
        sizes = [n_parameters_of(score.score.model) for score in scores]
        self._size = np.log(np.array(sizes) / REFERENCE_PARAMETERS)
        self.loss = np.array([score.loss for score in scores])
        self.floor = np.array([FLOORS[name] for name in measures])
        self._worst = np.array([WORST[name] for name in measures])

    @cached_property
    def priors(self) -> tuple[FloatArray, FloatArray]:
        """Means and deviations of the constants."""
        pairs = [_PRIORS.get(key, _PRIORS["factor"]) for key in self.factors]
        pairs += [_PRIORS["model"]] * len(self.models)
        for name in ("level", "size_power", "noise_power"):
            pairs += [_PRIORS[name]] * len(MEASURES)
        means, deviations = zip(*pairs, strict=True)
        return np.array(means), np.array(deviations)

    def split(self, constants: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Factors, models, and (3, 2) level, power of size and power of noise of the measures."""
        n, m = len(self.factors), len(self.models)
        return constants[:n], constants[n : n + m], constants[n + m :].reshape(3, len(MEASURES))

    def predicted(self, constants: FloatArray) -> FloatArray:
        """Losses of all scores."""
        factors, models, (level, size_power, noise_power) = self.split(constants)
        noise = self._noise @ np.exp(factors) / REFERENCE_NOISE
        logarithm = (
            level[self.measure]
            + models[self._model]
            + size_power[self.measure] * self._size
            + np.exp(noise_power)[self.measure] * np.log(noise)
        )
        return np.asarray(1.0 / np.hypot(np.exp(-logarithm), 1.0 / self._worst))

    def errors(self, constants: FloatArray) -> FloatArray:
        """Errors of the logarithm of the losses, the noise of benchmarks added to each."""
        return np.asarray(
            np.log((self.predicted(constants) + self.floor) / (self.loss + self.floor))
        )

    def fit(self, is_fitted: Any, start: FloatArray | None = None) -> FloatArray:
        """The constants for the scores that are kept."""
        from scipy.optimize import least_squares

        mean, deviation = self.priors
        is_fitted = np.asarray(is_fitted) & self._is_fitted

        def residuals(constants: FloatArray) -> FloatArray:
            errors = self.errors(constants)[is_fitted] / _SCATTER
            robust = np.sign(errors) * np.sqrt(2.0 * (np.sqrt(1.0 + errors**2) - 1.0))
            return np.concatenate([robust, (constants - mean) / deviation])

        return np.asarray(least_squares(residuals, mean if start is None else start).x)

    def withheld_errors(self, group_of: Callable[[int], Hashable]) -> FloatArray:
        """Error of each score by a fit without the scores of its group."""
        groups = [group_of(i) for i in range(len(self.scores))]
        errors = np.empty(len(groups))
        everything = self.fit(np.ones(len(groups), dtype=bool))
        for group in dict.fromkeys(groups):
            is_out = np.array([score == group for score in groups])
            errors[is_out] = self.errors(self.fit(~is_out, everything))[is_out]
        return errors

    def error_tables(self) -> dict[str, FloatArray]:
        """(scores,) errors by what was withheld together."""
        order = np.random.default_rng(_FOLD_SEED).permutation(len(self.scores)) % _FOLDS
        return {
            "scores": self.withheld_errors(lambda i: int(order[i])),
            "models": self.withheld_errors(lambda i: self.scores[i].model),
            "formats": self.withheld_errors(
                lambda i: loss_rule.combination(self.scores[i].formats)
            ),
        }

    def stated_error(self, errors: FloatArray, of_measure: Any) -> float:
        """The error that 80 % of scores keep, and 80 % of benchmarks if each counts alike.

        Most scores are of two benchmarks, and nobody knows which one a design is judged by.

        Args:
            errors: (scores,) of scores that were withheld.
            of_measure: (scores,) whether a score is of the measure.
        """
        sizes = abs(errors[of_measure])
        names = [self.scores[i].score.benchmark for i in np.flatnonzero(of_measure).tolist()]
        weights = np.array([1.0 / names.count(name) for name in names])
        order = np.argsort(sizes)
        share = np.cumsum(weights[order]) / weights.sum()
        by_benchmark = sizes[order][np.searchsorted(share, QUANTILE)]
        return float(max(np.quantile(sizes, QUANTILE), by_benchmark))

    def document(self, constants: FloatArray) -> JsonObject:
        """The constants as the rule's file has them."""
        factors, models, rest = self.split(constants)
        tables = self.error_tables()
        document: JsonObject = {
            "factors": _rounded(dict(zip(self.factors, factors.tolist(), strict=True)))
        }
        for place, measure in enumerate(MEASURES):
            level, size_power, noise_power = rest[:, place].tolist()
            errors = {
                error_kind: self.stated_error(values, self.measure == place)
                for error_kind, values in tables.items()
            }
            of_models = {
                name: float(value)
                for (error_kind, name), value in zip(self.models, models, strict=True)
                if error_kind == measure
            }
            document[measure] = _rounded(
                {"level": level, "size_power": size_power, "noise_power": np.exp(noise_power)}
            ) | {
                "worst": WORST[measure],
                "floor": FLOORS[measure],
                "models": _rounded(of_models),
                "errors": _rounded(errors),
            }
        fitted = [score for score in self.scores if score.is_fitted]
        combinations = {loss_rule.combination(score.formats) for score in fitted}
        document["fitted_formats"] = sorted(combinations)
        document["source"] = (
            f"[fit] to {len(fitted)} rows of published_scores.csv by "
            "validation/studies/fit_accuracy.py; our code"
        )
        return document


class ConcentrationFit:
    """Concentration of the noise in published mixtures of formats, with the rule's other constants
    fixed.

    The mixtures are of MXFP4 and MXFP8 in weights and activations, chosen by sensitivity and
    rounded to nearest.

    Args:
        rule: The constants but those of mixtures.
    """

    def __init__(self, rule: Fields) -> None:
        self._factors, self._constants = rule["factors"], rule["accuracy"]
        self.scores = [
            score
            for score in published_scores()
            if score.is_mixed and score.identifier not in _WITHHELD_MIXTURES
        ]

    def error(self, score: PublishedScore, concentration: float) -> float:
        """Error of the logarithm of a loss, the noise of benchmarks added to both."""
        assert score.ratio is not None
        noise = sum(
            np.exp(self._factors[key]) * of_format
            for key, of_format in loss_rule.noise_parts(score.formats, concentration)
        )
        constants = self._constants
        logarithm = (
            constants["level"]
            + constants["models"].get(model_key(score.model), 0.0)
            + constants["size_power"] * np.log(n_parameters_of(score.model) / REFERENCE_PARAMETERS)
            + constants["noise_power"] * np.log(noise / REFERENCE_NOISE)
        )
        predicted = loss_rule.bounded(float(np.exp(logarithm)), constants["worst"])
        floor = FLOORS["accuracy"]
        return float(np.log((predicted + floor) / (floor - np.log(score.ratio))))

    def fit(self, scores: Sequence[PublishedScore]) -> float:
        """The concentration with the least squares of errors."""
        from scipy.optimize import minimize_scalar

        def squares(concentration: float) -> float:
            return sum(self.error(score, concentration) ** 2 for score in scores)

        return float(minimize_scalar(squares, bounds=(0.01, 1.0), method="bounded").x)

    def withheld_errors(self) -> list[float]:
        """Error of each score by a fit without the scores of its model."""
        errors = []
        for score in self.scores:
            others = [item for item in self.scores if item.model != score.model]
            errors.append(self.error(score, self.fit(others)))
        return errors

    def document(self) -> JsonObject:
        """The constants as the rule's file has them."""
        error = float(np.quantile(np.abs(self.withheld_errors()), QUANTILE))
        return _rounded({"concentration": self.fit(self.scores), "error": error}) | {
            "source": f"[fit] to {len(self.scores)} published mixtures of MXFP4 and MXFP8, intel/"
            "auto-round@b9f3d00 docs/auto_scheme_acc.md Table 1; our code"
        }


def _rounded(values: JsonObject) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in values.items()}


def main() -> None:
    """Fit and ship the constants."""
    fit = LossFit(usable_scores())
    document = fit.document(fit.fit(np.ones(len(fit.scores), dtype=bool)))
    document["mixtures"] = ConcentrationFit(document).document()
    text = yaml.safe_dump(document, sort_keys=False, width=100)
    header = "# Written by python -m validation.studies.fit_accuracy\n"
    with replacing(loss_rule.RULE_FILE) as path:
        path.write_text(header + text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
