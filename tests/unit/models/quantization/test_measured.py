"""Tables of codesign accuracy quantize: read, looked up, put together from parts, searched."""

import json
import math
from functools import cache

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from codesign.answers.accuracy import AccuracyAnswer
from codesign.answers.answer import schema_of
from codesign.answers.json_values import stamped
from codesign.base.errors import InputError
from codesign.base.metrics import ACCURACY_METRICS, DIVERGENCE_METRICS
from codesign.evaluators.conformance import check_evaluator
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.models.memtech import load_library
from codesign.models.quantization.loss_rule import noise_shares
from codesign.models.quantization.measured import (
    ADDITIVITY_ERROR,
    read_measured_table,
)
from codesign.models.quantization.published import FormatChoice
from codesign.models.workload import Request
from codesign.search.enumeration import enumerate_front
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem
from codesign.space import load_space

N_PARAMETERS = 70_553_706_496
COSTS = {"mxfp4": 0.08, "mxfp8": 0.004, "mxint8": 0.0005, "mxint4": 0.1}
SHARES = (1.0, 1.5, 0.5)


def row(*names, divergence, algorithm="rtn"):
    ends = {"mean": divergence, "low": 0.9 * divergence, "high": 1.1 * divergence}
    ratio = {key: math.exp(value) for key, value in ends.items()}
    keys = ("weight_format", "activation_format", "kv_format", "quantization_algorithm")
    return {
        **dict(zip(keys, (*names, algorithm), strict=True)),
        "perplexity": {"mean": 6.0, "low": 5.0, "high": 7.0},
        "perplexity_ratio": ratio,
        "divergence_nats": ends,
        "agreement": {"mean": 0.9, "low": 0.8, "high": 0.95},
        "layer_sqnr_db": [20.0, None],
    }


def document(**changed):
    rows = [
        row(*("bf16",) * place, name, *("bf16",) * (2 - place), divergence=cost * SHARES[place])
        for name, cost in COSTS.items()
        for place in range(3)
    ]
    rows += [
        row("mxfp4", "mxfp4", "mxfp4", divergence=0.25),
        row("mxfp4", "bf16", "bf16", divergence=0.03, algorithm="quarot+gptq"),
        row("mxfp4", "mxfp8", "bf16", divergence=0.09),
    ]
    head = {
        "model": "folder",
        "n_parameters": N_PARAMETERS,
        "fingerprint": "0" * 16,
        "text": "book.txt",
        "context_length": 256,
        "n_evaluation": 32,
        "n_calibration": 16,
        "seed": 0,
        "device": "cpu",
        "versions": {"torch": "2"},
    }
    return {**head, "rows": rows, **changed}


def write(path, **changed):
    path.write_text(json.dumps(document(**changed)), "utf-8")
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("tables") / "table.json")


@pytest.fixture(scope="module")
def table(path):
    return read_measured_table(path)


def test_a_row_is_measured_and_another_model_s_is_an_estimate(table):
    loss = table.loss(FormatChoice("mxfp4", "mxfp4", "mxfp4"), N_PARAMETERS)
    assert loss is not None
    assert (loss.basis, loss.divergence_nats.mean, loss.divergence_nats.low) == (
        "measured",
        0.25,
        0.9 * 0.25,
    )
    of_another = table.loss(FormatChoice("mxfp4", "mxfp4", "mxfp4"), 8e9)
    assert of_another is not None
    assert of_another.basis == "estimated"
    assert "another model, of 7.055e+10 parameters" in of_another.source
    nothing = table.loss(FormatChoice("bf16", "fp16", "bf16", "gptq"), 8e9)
    assert nothing is not None
    assert (nothing.basis, nothing.divergence_nats.high, nothing.perplexity_ratio.mean) == (
        "measured",
        0.0,
        1.0,
    )


def test_a_missing_row_is_the_sum_of_its_fewest_parts_and_flagged(table):
    loss = table.loss(FormatChoice("mxfp4", "mxfp8", "mxint8"), N_PARAMETERS)
    assert loss is not None
    assert loss.basis == "estimated"
    assert "mxfp4 / mxfp8 / bf16, rtn + bf16 / bf16 / mxint8, rtn" in loss.source
    expected = 0.09 + 0.5 * COSTS["mxint8"]
    assert loss.divergence_nats.mean == pytest.approx(expected)
    width = math.exp(ADDITIVITY_ERROR)
    assert loss.divergence_nats.high == pytest.approx(1.1 * expected * width)
    assert loss.perplexity_ratio.mean == pytest.approx(math.exp(expected))
    assert loss.perplexity_ratio.low < loss.perplexity_ratio.mean < loss.perplexity_ratio.high


def test_a_mixture_is_estimated_from_its_formats_and_at_most_as_if_layers_were_alike(
    table,
):
    mixture = "0.75*mxfp4+0.25*mxfp8"
    loss = table.loss(FormatChoice(mixture, "mxint8", "mxint8"), N_PARAMETERS)
    assert loss is not None
    assert loss.basis == "estimated"
    assert "75 % of layers mxfp4, 25 % mxfp8" in loss.source
    of_least_noisy, of_noisiest = (group.share for group in noise_shares(mixture))
    others = (1.5 + 0.5) * COSTS["mxint8"]
    by_sensitivity = of_least_noisy * COSTS["mxfp8"] + of_noisiest * COSTS["mxfp4"]
    assert loss.divergence_nats.mean == pytest.approx(by_sensitivity + others)
    assert loss.perplexity_ratio.mean == pytest.approx(math.exp(by_sensitivity + others))
    alike = 0.25 * COSTS["mxfp8"] + 0.75 * COSTS["mxfp4"]
    width = math.exp(ADDITIVITY_ERROR)
    assert loss.divergence_nats.high == pytest.approx(1.1 * (alike + others) * width**2)
    unknown = FormatChoice("0.5*mxfp4+0.5*nvfp4")
    assert table.loss(unknown, N_PARAMETERS) is None
    assert table.missing(unknown) == [FormatChoice("nvfp4")]


def test_an_algorithm_of_weights_changes_no_other_part(table):
    by_gptq = table.loss(FormatChoice("bf16", "mxfp4", "mxfp8", "gptq"), N_PARAMETERS)
    assert by_gptq is not None
    assert by_gptq.divergence_nats.mean == pytest.approx(0.12 + 0.002)
    assert table.loss(FormatChoice("mxfp4", algorithm="gptq"), N_PARAMETERS) is None
    rotated = FormatChoice("mxfp4", "mxfp8", "bf16", "gptq+quarot")
    assert table.loss(rotated, N_PARAMETERS) is None  # a rotation changes activations too
    assert [str(item) for item in table.missing(rotated)] == ["bf16 / mxfp8 / bf16, quarot"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [row("mxfp5", "bf16", "bf16", divergence=0.1)]}, "number format 'mxfp5'"),
        (
            {"rows": [{**row("mxfp4", "bf16", "bf16", divergence=0.1), "agreement": 1}]},
            r"rows\.0\.agreement",
        ),
        ({"rows": [row("mxfp4", "bf16", "bf16", divergence=-1)]}, "expected low <= mean <= high"),
        ({"seed": "x"}, r"table\.json:1: seed: input should be a valid integer"),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(change, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read_measured_table(write(tmp_path / "table.json", **change))


def test_what_is_no_table_is_refused_in_a_line(tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("name: x\n", "utf-8")
    with pytest.raises(
        InputError, match="expected a table that codesign accuracy quantize wrote"
    ) as caught:
        read_measured_table(other)
    assert len(caught.value.problems) == 1


# --- in a search -----------------------------------------------------------------------------


@cache
def space():
    formats = {"weight_format": "mxfp4", "kv_format": "mxint8"}
    fixed = {"tier2_technology": None, "tier3_technology": None, "sram_dies": 0}
    built = load_space("memexplorer", {"memtech": load_library().catalog()})
    return built.fix({**formats, **fixed, "pe_array": (512, 64), "vector_length": 512})


def evaluator(path, **options):
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
    return NpuEvaluator(request, NpuOptions(accuracy_table=str(path), **options))


def test_the_metric_is_the_table_s_and_a_note_says_so(path, table):
    built = space().fix({"activation_format": "mxfp8"})
    columns = built.columns(built.sample(np.random.default_rng(0), 1))
    machine = evaluator(path)
    expected = table.loss(FormatChoice("mxfp4", "mxfp8", "mxint8"), N_PARAMETERS)
    assert expected is not None
    values = machine.evaluate(columns).metrics
    assert values["divergence_nats"][0] == expected.divergence_nats.mean
    assert values["divergence_nats_low"][0] == expected.divergence_nats.low
    assert "accuracy_recovery" not in values
    notes = machine.explain(columns).notes
    assert any("divergence_nats is estimated: folder on book.txt" in note for note in notes)


def test_results_depend_on_what_the_table_says_and_not_on_its_path(path, tmp_path):
    same = evaluator(write(tmp_path / "same.json"))
    assert same.provenance() == evaluator(path).provenance()
    rows = document()["rows"]
    rows[0] = row("mxfp4", "bf16", "bf16", divergence=0.081)
    changed = evaluator(write(tmp_path / "changed.json", rows=rows))
    assert changed.provenance() != evaluator(path).provenance()
    plain = NpuEvaluator(Request(model="llama-3.3-70b", trace="osworld", phase="decode"))
    assert "accuracy_table" not in plain.provenance()["options"]


def test_formats_that_nobody_measured_are_refused_before_the_search(path):
    objectives = ["maximize throughput_tokens_per_s", "minimize divergence_nats"]
    with pytest.raises(InputError, match="has neither mxfp4 / mxfp16 / mxint8, rtn nor bf16 / mxf"):
        build_problem(space(), evaluator(path), objectives)
    build_problem(space().fix({"activation_format": "mxfp8"}), evaluator(path), objectives)
    both = evaluator(path, accuracy=True, quantization_algorithm="quarot+gptq")
    with pytest.raises(InputError, match=r"accuracy_recovery has no value .* 'quarot\+gptq'"):
        build_problem(space(), both, ["maximize accuracy_recovery"])
    assert set(ACCURACY_METRICS | DIVERGENCE_METRICS) <= {item.name for item in both.metrics}


def test_an_exact_front_of_measured_formats_is_that_of_every_design(path):
    catalog = {"memtech": load_library().catalog()}
    fixed = {
        "pe_array": (512, 64), "sram_3d_layers": 1, "sram_dies": 0, "dataflow": "ws",
        "vector_length": 512, "storage_priority": "equal", "bandwidth_priority": "equal",
        "tier2_technology": None, "tier3_technology": None, "tier1_stacks": 4,
        "activation_format": "mxfp8",
    }  # fmt: skip
    rows = document()["rows"]
    rows += [
        row(*names, divergence=1e-5)
        for wide in ("mxfp16", "mxint16")
        for names in ((wide, "bf16", "bf16"), ("bf16", "bf16", wide))
    ]
    table = write(path.with_name("wide.json"), rows=rows)
    objectives = ["maximize throughput_tokens_per_s", "minimize divergence_nats"]
    built = build_problem(
        load_space("memexplorer", catalog).fix(fixed), evaluator(table), objectives
    )
    everything = built.space.rows(np.arange(built.space.size))
    everything = everything[built.admits(everything)]
    results = built.evaluate(everything)
    points = results.objectives[results.feasible]
    expected = {tuple(point) for point in points[non_dominated(points)].tolist()}
    sample = built.space.sample(np.random.default_rng(1), 12)
    check_evaluator(evaluator(table), built.space.columns(sample))
    front = enumerate_front(built)
    assert {tuple(point) for point in front.objectives.tolist()} == expected
    assert len(expected) > 1


def test_an_algorithm_that_nobody_knows_is_refused(path):
    with pytest.raises(ValueError, match=r"'gtpq'\. Did you mean 'gptq'"):
        NpuOptions(quantization_algorithm="gtpq")
    with pytest.raises(ValueError, match=r"quarot\+gptq"):
        NpuOptions(quantization_algorithm="quarot+rtn", accuracy_table=str(path))
    with pytest.raises(ValueError, match=r"missing\.json: cannot be read"):
        PlatformOptions(accuracy_table=str(path.with_name("missing.json")))


def test_a_platform_has_the_metric_too(path):
    request = PlatformRequest(model="llama-3.3-70b", prompt_tokens=128, generated_tokens=8)
    machine = PlatformEvaluator(request, PlatformOptions(accuracy_table=str(path)))
    formats = {"weight_format": ["mxfp4"], "activation_format": ["mxint4"]}
    assert machine.absent_metrics(formats) == {}
    assert set(machine.absent_metrics({"kv_format": ["int8"]})) == set(DIVERGENCE_METRICS)


def test_published_and_measured_stand_beside_each_other(table):
    choice = FormatChoice("mxfp8", "mxint4", "mxfp4")
    rows = AccuracyAnswer.describe("llama-3.3-70b", N_PARAMETERS, [choice], table).measured
    assert [row.basis for row in rows[-2:]] == ["measured", "estimated"]
    assert len(rows) == len(table.rows) + 1
    floor = 0.02
    first = rows[0]
    expected = math.log((math.log(first.ratio_of_rule) + floor) / (COSTS["mxfp4"] + floor))
    assert first.log_error_of_rule == pytest.approx(expected)
    assert first.published_ratio is None


def test_the_document_with_a_table_follows_its_schema(table):
    choices = [FormatChoice("mxfp8", "mxint4", "mxfp4")]
    answer = AccuracyAnswer.describe("llama-3-8b", 8e9, choices, table)
    Draft202012Validator(schema_of(AccuracyAnswer)).validate(stamped(answer))
