"""codesign from Python in a few lines."""

import numpy as np
import pytest

import codesign
from codesign import api
from codesign.base.errors import InputError, JobError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import METRICS
from codesign.base.schema import Record
from codesign.insight.evaluated_design import AssessedDesign
from codesign.report.labels import bank_words
from codesign.search import study
from codesign.search.problem_builder import build_problem

P1 = {"model": "llama-3.3-70b", "workload": "osworld", "phase": "prefill"}


def test_every_public_name_is_there_and_listed():
    for name in codesign.__all__:
        assert getattr(codesign, name) is not None
    assert set(dir(codesign)) == set(codesign.__all__)
    here = {"__version__", "problems", *study.__all__}
    assert set(api.__all__) == set(codesign.__all__) - here


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'codesign' has no attribute 'evalaute'"):
        codesign.evalaute  # noqa: B018 - looking it up is the test


def test_a_named_design_and_its_values_are_the_same_design():
    named = codesign.evaluate(design="P1", **P1)
    given = codesign.evaluate(design=dict(named.design), **P1)
    assert given.metrics == named.metrics
    assert named.metrics["batch_size"] == 1  # a prefill takes one request after the other
    assert named.is_feasible
    assert {row["name"] for row in named.operators} >= {"qkv_projection", "softmax"}
    assert [bank_words(row) for row in named.levels][1:] == ["hbm4_12h ×2", "hbf ×1"]
    assert sum(row["tdp_watts"] for row in named.power) == pytest.approx(named.metrics["tdp_watts"])
    assert named.notes


def test_a_tier_keeps_its_power_where_another_order_of_the_tiers_is_faster():
    values = {
        "pe_array": (2048, 128), "sram_dies": 1, "sram_3d_layers": 0, "tier1_technology": "lpddr6",
        "tier1_stacks": 8, "tier2_technology": "hbf", "tier2_stacks": 1,
    }  # fmt: skip
    p1 = dict(codesign.evaluate(design="P1", **P1).design)
    found = codesign.evaluate(design=p1 | values, **P1 | {"phase": "decode"})
    assert [bank_words(row) for row in found.levels][1:] == ["hbf ×1", "lpddr6 ×8"]
    assert [row["title"] for row in found.levels] == ["on-chip", "tier 2", "tier 1"]
    watts = {row["name"]: row for row in found.power}
    # Nearly all reads come from flash, which is near its limit then; LPDDR6 only passes some on.
    assert 0.5 < watts["tier2"]["average_watts"] / watts["tier2"]["tdp_watts"] <= 1
    assert watts["tier1"]["average_watts"] < 0.1 * watts["tier1"]["tdp_watts"]


def test_a_space_may_be_given_loaded_or_by_name():
    space = codesign.load_space("memexplorer")
    by_name = codesign.evaluate(design="Base", space="memexplorer", **P1)
    assert codesign.evaluate(design="Base", space=space, **P1).metrics == by_name.metrics


def test_an_evaluator_may_be_given_built():
    built = codesign.build_evaluator("npu", {"trace": "osworld", **_without_workload()})
    assert (
        codesign.evaluate(design="H1", evaluator=built).metrics
        == codesign.evaluate(design="H1", **P1).metrics
    )


def _without_workload():
    return {key: value for key, value in P1.items() if key != "workload"}


def test_a_workload_may_be_token_counts():
    counts = {"prompt_tokens": 90_000, "generated_tokens": 8_000}
    given = codesign.evaluate(design="P1", workload=counts, **_without_workload())
    assert given.metrics == codesign.evaluate(design="P1", **P1).metrics


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"design": "P9"}, "unknown design 'P9'"),
        ({"design": {"pe_aray": 1}}, "Did you mean 'pe_array'"),
        ({"design": "P1", "space": "mem"}, "unknown space 'mem'"),
        ({"design": "P1", "phase": "idle"}, "workload: phase"),
        ({"design": "P1", "options": {"toplogy": "x"}}, "Did you mean 'topology'"),
        ({"design": "P1", "evaluator": "gpu"}, "unknown evaluator 'gpu'"),
    ],
)
def test_mistakes_are_explained(arguments, said):
    with pytest.raises(InputError, match=said):
        codesign.evaluate(**{**P1, **arguments})


class _Area(Evaluator):
    """A stranger's evaluator that cannot explain itself."""

    Workload = Record
    Options = Record
    metrics = (METRICS["tdp_watts"],)
    required_parameters = frozenset({"pe_array"})
    optional_parameters = frozenset(codesign.load_space("memexplorer").names)

    def known_violations(self, designs):
        return {}

    def evaluate(self, designs, metrics=None):
        watts = designs["pe_array"].lookup(lambda dims: dims[0] * dims[1] / 1e3)
        failures = dict.fromkeys(np.flatnonzero(watts < 50).tolist(), "too small")
        return Evaluation({"tdp_watts": watts}, {"power": watts - 200}, failures)

    def provenance(self):
        return {}


def test_what_is_no_evaluator_is_refused_in_one_line():
    with pytest.raises(InputError, match="expected a name or an evaluator, got"):
        api.prepare(evaluator={"name": "npu"})


def test_an_evaluator_that_cannot_explain_gives_metrics_and_limits():
    shown = codesign.evaluate(design="P1", evaluator=_Area())
    assert shown.metrics == {"tdp_watts": 2048 * 256 / 1e3}
    assert shown.violations["power"] == pytest.approx(2048 * 256 / 1e3 - 200)
    assert not shown.is_feasible
    assert list(shown.operators) == []


def test_a_design_on_which_the_evaluator_fails_is_a_failed_job():
    base = dict(codesign.load_space("memexplorer").designs["Base"])
    with pytest.raises(JobError, match="failed on this design: too small"):
        codesign.evaluate(design={**base, "pe_array": [512, 64]}, evaluator=_Area())


def _problem(**fixed):
    space = codesign.load_space("memexplorer")
    built = codesign.build_evaluator("npu", {"trace": "osworld", **_without_workload()})
    return build_problem(
        space.fix(fixed) if fixed else space,
        built,
        ["maximize throughput_tokens_per_s", "minimize tdp_watts"],
        ["tdp_watts <= 700"],
    )


def test_the_named_designs_of_a_problem_are_evaluated_with_its_limits():
    marked = api.evaluate_named(_problem())
    feasible = dict(zip(marked.names, marked.feasible.tolist(), strict=True))
    # MemExplorer Table 5: H3 takes 719 W.
    assert feasible["P1"]
    assert not feasible["H3"]
    p1 = marked.metrics["tdp_watts"][list(marked.names).index("P1")]
    assert p1 == codesign.evaluate(design="P1", **P1).metrics["tdp_watts"]


def test_named_designs_that_a_campaign_excludes_are_not_marked():
    assert list(api.evaluate_named(_problem(pe_array=[2048, 256])).names) == ["P1"]
    assert api.evaluate_named(_problem(pe_array=[2048, 512])) is None


def test_only_designs_of_the_problems_own_space_are_marked():
    problem = _problem()
    marked = api.evaluate_named(problem)
    assert list(marked.names) == list(problem.space.designs)


@pytest.mark.parametrize(("gpu", "watts"), [("H100", 700.0), ("A100", 400.0)])
def test_a_gpu_is_evaluated_with_its_datasheet_power_and_said_to_be_an_ideal_array(gpu, watts):
    shown = codesign.evaluate(design=gpu, space=gpu.lower(), **P1)
    assert shown.metrics["tdp_watts"] == pytest.approx(watts)
    assert not shown.is_feasible  # 70.6 GB of weights and the KV cache of 98,000 tokens
    assert any("array is ideal" in note for note in shown.notes)
    npu = codesign.evaluate(design="P1", **P1)
    assert not any("array is ideal" in note for note in npu.notes)


def test_a_prepared_evaluator_says_what_evaluate_says():
    prepared = codesign.prepare(**P1)
    expected = codesign.evaluate(design="P1", **P1)
    assessed = prepared.evaluate("P1")
    assert assessed.metrics == pytest.approx(dict(expected.metrics), nan_ok=True)
    assert assessed.design == expected.design and assessed.is_feasible and not assessed.broken
    assert {name for name, _ in assessed.violations.items()} >= {"capacity", "shoreline"}
    assert prepared.explain(expected.design).operators == expected.operators
    few = prepared.evaluate("P1", ["tdp_watts"])
    assert few.metrics == {"tdp_watts": assessed.metrics["tdp_watts"]}
    with pytest.raises(InputError, match=r"unknown metric 'tdp'. Did you mean 'tdp_watts'"):
        prepared.evaluate("P1", ["tdp"])


def test_a_prepared_evaluator_names_what_a_design_breaks():
    prepared = codesign.prepare(**P1)
    small = {**prepared.evaluate("Base").design, "tier1_stacks": 1}
    assessed = prepared.evaluate(small)
    assert not assessed.is_feasible and assessed.broken[0].startswith("capacity (by ")


def test_records_show_themselves_in_a_notebook_with_every_text_escaped():
    prepared = codesign.prepare(**P1)
    html = prepared.explain("P1")._repr_html_()
    assert "keeps every limit" in html and "tdp_watts" in html and len(html) < 4000
    assert "tdp_watts" in prepared.evaluate("P1")._repr_html_()
    design = AssessedDesign({}, {"<script>": 1.0}, {"<b>": 1.0})
    assert "<script>" not in design._repr_html_() and "<b>" not in design._repr_html_()
