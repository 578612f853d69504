"""Accuracy as a metric of the npu evaluator: published or estimated, bounded, on exact fronts."""

import json
from functools import cache

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.metrics import ACCURACY_METRICS
from codesign.evaluators.conformance import check_evaluator
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.models.memtech import load_library
from codesign.models.quantization.loss_rule import estimate
from codesign.models.quantization.published import FormatChoice
from codesign.models.workload import Request
from codesign.search.enumeration import enumerate_front
from codesign.search.problem_builder import build_problem
from codesign.space import load_space, parse_space

CATALOG = {"memtech": load_library().catalog()}
OBJECTIVES = (
    "maximize throughput_tokens_per_s",
    "minimize tdp_watts",
    "maximize accuracy_recovery",
)
FIXED = {
    "pe_array": (512, 64),
    "sram_3d_layers": 1,
    "sram_dies": 0,
    "dataflow": "ws",
    "vector_length": 512,
    "storage_priority": "equal",
    "tier2_technology": None,
    "tier3_technology": None,
    "tier1_stacks": 4,
}


@cache
def evaluator(model="llama-3.3-70b", **options):
    request = Request(model=model, trace="osworld", phase="decode")
    return NpuEvaluator(request, NpuOptions(**{"accuracy": True, **options}))


@cache
def space():
    return load_space("memexplorer", CATALOG).fix(FIXED)


@cache
def space_with_algorithm():
    overlay = {
        "based_on": "memexplorer",
        "parameters": {"quantization_algorithm": {"values": ["rtn", "gptq", "quarot"]}},
        "designs": dict.fromkeys(load_space("memexplorer", CATALOG).designs),
    }
    built = parse_space(json.dumps(overlay), CATALOG, "algorithms")
    return built.fix({**FIXED, "bandwidth_priority": "equal", "activation_format": "mxfp8"})


def test_the_metric_is_the_estimate_of_the_design_s_formats():
    rows = space().sample(np.random.default_rng(0), 40)
    metrics = evaluator(quantization_algorithm="gptq").evaluate(space().columns(rows)).metrics
    for i, design in enumerate(space().decode(rows)):
        formats = FormatChoice(
            design["weight_format"], design["activation_format"], design["kv_format"], "gptq"
        )
        expected = estimate(formats, "llama-3.3-70b", 70_553_706_496)
        for name, value in zip(ACCURACY_METRICS, ("ratio", "low", "high"), strict=True):
            assert metrics[name][i] == pytest.approx(getattr(expected, value), rel=1e-6)


def test_without_the_option_nothing_of_accuracy_is_offered():
    plain = evaluator(accuracy=False)
    assert not {metric.name for metric in plain.metrics} & set(ACCURACY_METRICS)
    with pytest.raises(InputError, match="accuracy_recovery"):
        build_problem(space(), plain, OBJECTIVES, ["accuracy_recovery >= 0.95"])
    with pytest.raises(InputError, match="quantization_algorithm"):
        build_problem(space_with_algorithm(), plain, OBJECTIVES[:2])


@pytest.fixture
def few_boxes(monkeypatch):
    """Bounds of few random boxes: those of many are checked for the plain evaluator."""
    monkeypatch.setattr("codesign.evaluators.conformance_optional._N_BOXES", 6)


def test_it_keeps_the_contract_of_evaluators(few_boxes):
    rows = space_with_algorithm().sample(np.random.default_rng(1), 12)
    check_evaluator(evaluator(), space_with_algorithm().columns(rows), n_single=3)


class Wrong(NpuEvaluator):
    """It leaves out the narrow formats, which are worse in accuracy alone."""

    def superseded(self, values, objectives):
        return {"weight_format": [value == "mxfp4" for value in values["weight_format"]]}


def test_a_wrong_word_on_superseded_values_is_noticed(few_boxes):
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
    rows = space().sample(np.random.default_rng(1), 12)
    with pytest.raises(AssertionError, match="superseded value of 'weight_format' must be worse"):
        check_evaluator(
            Wrong(request, NpuOptions(accuracy=True)), space().columns(rows), n_single=1
        )


def test_an_explanation_says_whether_the_number_is_estimated():
    rows = space().sample(np.random.default_rng(2), 1)
    account = evaluator().explain(space().columns(rows))
    assert set(ACCURACY_METRICS) <= set(account.metrics)
    assert any("accuracy_recovery is estimated" in note for note in account.notes)


def problem(built, *constraints):
    return build_problem(built, evaluator(), OBJECTIVES, constraints)


def front_of_all(built):
    from codesign.search.pareto import non_dominated

    rows = built.space.rows(np.arange(built.space.size))
    rows = rows[built.admits(rows)]
    results = built.evaluate(rows, built.deciding_metrics)
    points = results.objectives[results.feasible]
    return {tuple(point) for point in points[non_dominated(points)].tolist()}


@pytest.mark.parametrize(
    ("with_algorithm", "constraints"),
    [
        (False, ("tdp_watts <= 300",)),
        (True, ("tdp_watts <= 300", "accuracy_recovery >= 0.93")),
        (False, ("accuracy_recovery <= 0.95",)),
    ],
    ids=["formats", "algorithms", "a limit from the good side"],
)
def test_an_exact_front_is_that_of_every_design(with_algorithm, constraints):
    built = problem(space_with_algorithm() if with_algorithm else space(), *constraints)
    front = enumerate_front(built)
    assert {tuple(point) for point in front.objectives.tolist()} == front_of_all(built)
    assert front.n_evaluated + front.n_repeated + front.n_excluded == built.space.size


def test_formats_that_others_of_their_width_beat_are_left_out():
    values = {item.name: item.values for item in space_with_algorithm().parameters}
    names = ["accuracy_recovery"]
    beaten = evaluator().superseded(values, names)
    left = {
        name: [value for value, is_beaten in zip(values[name], flags, strict=True) if not is_beaten]
        for name, flags in beaten.items()
    }
    assert left["weight_format"] == ["mxfp4", "mxint8"]
    assert left["kv_format"] == ["mxfp4", "mxint8"]
    assert left["quantization_algorithm"] == ["quarot"]
    assert evaluator().superseded(values, ["tdp_watts"]) == {}
    assert evaluator(accuracy=False).superseded(values, names) == {}
