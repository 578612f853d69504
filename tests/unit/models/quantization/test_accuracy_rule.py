"""Published scores, and the rule that estimates what nobody published."""

import math

import numpy as np
import pytest

from codesign.base.errors import UnknownNameError, UnusableValueError
from codesign.models.quantization.loss_rule import (
    algorithms,
    estimate,
    load_rule,
    loss,
    noise,
    noise_shares,
    part_noise,
)
from codesign.models.quantization.published import (
    FormatChoice,
    model_key,
    n_parameters_of,
    published_scores,
    scores_of,
)
from validation.studies.fit_accuracy import ConcentrationFit, LossFit, usable_scores


def test_no_estimate_of_a_perplexity_is_beyond_the_vocabulary():
    formats = FormatChoice("int3-g128", "mxint4", "mxint4")
    free = estimate(formats, "llama-3-70b", 70.6e9, "perplexity")
    ends = estimate(formats, "llama-3-70b", 70.6e9, "perplexity", 128_256)
    assert ends.high == pytest.approx(128_256)
    assert free.high > 1e6
    assert ends.low == free.low <= ends.ratio <= ends.high


def test_every_score_has_a_source_and_its_ratio_is_that_of_its_numbers():
    scores = published_scores()
    assert len({score.identifier for score in scores}) == len(scores) > 150
    for score in scores:
        assert score.source
        if score.score and score.full_precision and score.ratio:
            expected = score.score / score.full_precision
            assert score.ratio == pytest.approx(expected, rel=2e-3), score.identifier


def test_a_published_combination_is_not_estimated():
    formats = FormatChoice("int4", "int4", "int4-g128", "quarot")
    result = estimate(formats, "llama-3-8b", 8e9)
    assert (result.basis, result.ratio) == ("published", 0.9095)
    assert estimate(formats, "llama-3-8b", 8e9, is_by_rule=True).basis == "estimated"


def test_several_published_scores_give_their_mean_and_range():
    result = estimate(FormatChoice("mxfp4", "mxfp4"), "Qwen3-32B", 32.8e9)
    ratios = [
        score.ratio
        for score in scores_of("qwen3-32b")
        if score.formats == FormatChoice("mxfp4", "mxfp4") and score.ratio
    ]
    assert len(ratios) == 3
    assert (result.low, result.high) == (min(ratios), max(ratios))
    assert result.ratio == pytest.approx(sum(ratios) / 3)


def test_an_estimate_is_flagged_and_lies_in_its_interval():
    for algorithm in algorithms():
        formats = FormatChoice("mxfp4", "mxfp8", "mxint4", algorithm)
        for measure in ("accuracy", "perplexity"):
            result = estimate(formats, "llama-3.3-70b", 70.6e9, measure)
            assert result.basis == "estimated"
            assert result.low < result.ratio < result.high


def test_an_unknown_model_has_a_wider_interval_than_a_known():
    formats = FormatChoice("mxfp4", "mxfp4")
    known = estimate(formats, "llama-3-8b", 8e9, "perplexity", is_by_rule=True)
    unknown = estimate(formats, "some-model", 8e9, "perplexity", is_by_rule=True)
    width_known = math.log(math.log(known.high) / math.log(known.ratio))
    assert math.log(math.log(unknown.high) / math.log(unknown.ratio)) > width_known


def test_noise_adds_over_parts_and_more_of_it_costs_more():
    parts = [part_noise(part, "mxfp4", "rtn") for part in ("weights", "activations", "kv_cache")]
    losses = [loss(sum(parts[:n]), "llama-3-8b", 8e9, "accuracy") for n in (1, 2, 3)]
    assert 0 < losses[0] < losses[1] < losses[2] < load_rule().accuracy.worst
    names = ["int8-g32", "mxint8", "mxfp6", "mxfp8", "mxfp8-e5m2", "nvfp4", "mxfp4", "int3-g32"]
    noises = [noise(name) for name in names]
    assert noises == sorted(noises)
    assert estimate(FormatChoice("bf16"), "llama-3-8b", 8e9).ratio == 1.0


def test_an_algorithm_changes_weights_and_one_with_rotation_tames_outliers():
    assert part_noise("weights", "int4", "gptq") < part_noise("weights", "int4", "rtn")
    by_row = part_noise("activations", "int4", "rtn")
    assert part_noise("activations", "int4", "quarot") < by_row / 5
    assert part_noise("activations", "int4", "gptq") == by_row


def test_unknown_names_are_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'gptq'"):
        part_noise("weights", "mxfp4", "gtpq")
    with pytest.raises(UnknownNameError, match="number format"):
        estimate(FormatChoice("mxfp5"), "llama-3-8b", 8e9)
    with pytest.raises(UnknownNameError, match="model with published scores"):
        n_parameters_of("nobody")
    assert model_key("Qwen2.5-7B-Instruct") == "qwen2.5-7b"


@pytest.fixture(scope="module")
def fit():
    return LossFit(usable_scores())


def test_the_shipped_constants_are_those_of_a_fit(fit):
    constants = fit.fit(np.ones(len(fit.scores), dtype=bool))
    factors, _, _ = fit.split(constants)
    shipped = load_rule().factors
    assert dict(zip(fit.factors, factors.tolist(), strict=True)) == pytest.approx(shipped, abs=5e-3)


def test_the_fitted_function_is_the_rule(fit):
    constants = fit.fit(np.ones(len(fit.scores), dtype=bool))
    for item, predicted in zip(fit.scores, fit.predicted(constants).tolist(), strict=True):
        size = n_parameters_of(item.score.model)
        ratio = estimate(
            item.formats, item.score.model, size, item.score.measure, is_by_rule=True
        ).ratio
        assert abs(math.log(ratio)) == pytest.approx(predicted, rel=5e-3)


def test_a_withheld_fifth_is_predicted_as_well_as_is_stated(fit):
    is_accuracy = np.array([item.score.measure == "accuracy" for item in fit.scores])
    generator = np.random.default_rng(99)  # other fifths than those of the stated error
    order = generator.permutation(len(fit.scores)) % 5
    errors = fit.withheld_errors(lambda i: int(order[i]))
    stated = load_rule().accuracy.errors["scores"]
    assert fit.stated_error(errors, is_accuracy) == pytest.approx(stated, rel=0.2)
    assert np.median(abs(errors[is_accuracy])) < 0.25


def test_an_error_is_that_of_benchmarks_where_few_have_most_scores(fit):
    names = [item.score.benchmark for item in fit.scores]
    is_common = np.array([names.count(name) > 10 for name in names])
    errors = np.where(is_common, 0.1, 1.0)  # right for three benchmarks, wrong for all others
    everything = np.ones(len(names), dtype=bool)
    assert np.quantile(errors, 0.8) == 0.1
    assert fit.stated_error(errors, everything) == 1.0


def test_agentic_scores_are_checked_and_change_no_constant(fit):
    checked = [item for item in fit.scores if not item.is_fitted]
    assert {item.score.identifier for item in checked} == {"ME3Q1", "ME3Q2"}
    is_fitted = np.array([item.is_fitted for item in fit.scores])
    everything = fit.fit(np.ones(len(fit.scores), dtype=bool))
    assert np.array_equal(fit.fit(is_fitted), everything)
    assert (
        min(abs(fit.errors(everything)[~is_fitted]))
        < 0.1
        < 2.0
        < max(abs(fit.errors(everything)[~is_fitted]))
    )


def mixed(share):
    return f"{1 - share:g}*mxfp4+{share:g}*mxfp8"


def test_a_mixture_lies_between_its_formats_and_more_bits_cost_less():
    losses = [part_noise("weights", "mxfp4", "rtn")]
    losses += [part_noise("weights", mixed(share), "rtn") for share in (0.01, 0.125, 0.5, 0.99)]
    losses.append(part_noise("weights", "mxfp8", "rtn"))
    assert losses == sorted(losses, reverse=True)
    assert part_noise("weights", mixed(0.125), "rtn") == part_noise(
        "weights", "0.125*mxfp8+0.875*mxfp4", "rtn"
    )


def test_the_most_sensitive_layers_have_the_least_noisy_format():
    power = load_rule().mixtures.concentration
    shares = noise_shares("0.25*mxfp4+0.5*mxfp8+0.25*mxint8")
    assert [group.format for group in shares] == ["mxint8", "mxfp8", "mxfp4"]
    assert shares[0].share == pytest.approx(0.25**power)
    assert sum(group.share for group in shares) == pytest.approx(1.0)
    alike = noise_shares("0.25*mxfp4+0.75*mxfp8", concentration=1.0)
    assert [group.share for group in alike] == [0.75, 0.25]


def test_a_mixture_of_what_nobody_knows_is_refused():
    with pytest.raises(UnusableValueError, match=r"mixture '0\.5\*mxfp4.*'mxfp9'. Did you mean"):
        estimate(FormatChoice("0.5*mxfp4+0.5*mxfp9"), "llama-3-8b", 8e9)


def test_published_mixtures_are_estimated_within_the_stated_error():
    fit = ConcentrationFit(load_rule().model_dump())
    rule = load_rule().mixtures
    assert fit.fit(fit.scores) == pytest.approx(rule.concentration, abs=1e-3)
    errors = [abs(error) for error in fit.withheld_errors()]
    assert np.quantile(errors, 0.8) == pytest.approx(rule.error, abs=1e-3)
    alike = [fit.error(score, 1.0) for score in fit.scores]
    assert np.quantile(np.abs(alike), 0.8) > 1.5 * rule.error
    # The mixture that no constant has seen.
    (withheld,) = (score for score in published_scores() if score.identifier == "FO038")
    assert withheld not in fit.scores
    assert abs(fit.error(withheld, rule.concentration)) < rule.error


def test_a_published_mixture_is_known_by_its_shares():
    choice = FormatChoice(mixed(0.25), mixed(0.25))
    result = estimate(choice, "qwen3-32b", 32.8e9)
    assert (result.basis, result.ratio) == ("published", 0.9836)
    by_rule = estimate(choice, "qwen3-32b", 32.8e9, is_by_rule=True)
    assert by_rule.low < 0.9836 < by_rule.high
    assert by_rule.source == "80 % of withheld scores and formats and mixtures lie in this interval"
