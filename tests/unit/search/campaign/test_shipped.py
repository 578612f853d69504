"""The campaigns that come with the package: each loads, and its name says how it reads designs."""

from functools import cache

import pytest

from codesign.base import resources
from codesign.base.errors import InputError
from codesign.insight.comparison import comparison_definition
from codesign.search.campaign import load_definition

CALIBRATED = {
    "osworld-prefill-memexplorer",
    "osworld-decode-memexplorer",
    "problem-prefill-qwen3-32b-400w",
}


load_once = cache(load_definition)


@pytest.mark.parametrize("name", resources.listed("runs"))
def test_a_campaign_is_calibrated_to_the_paper_only_if_name_and_description_say_so(name):
    resolved = load_once(resources.find("runs", name))  # as comparisons do
    profile = getattr(resolved.problem.evaluator, "profile", None)
    assert (profile == "memexplorer") == (name in CALIBRATED)
    assert ("calibrated" in resolved.definition.description) == (name in CALIBRATED)
    if resolved.definition.evaluator.name in ("npu", "simulation") and name not in CALIBRATED:
        assert profile == "plain"


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_calibrated_campaign_differs_in_its_reading_alone(phase):
    plain, calibrated = (
        load_definition(f"osworld-{phase}{ending}").definition for ending in ("", "-memexplorer")
    )
    changed = {"name", "description", "evaluator"}
    assert plain.model_dump(exclude=changed) == calibrated.model_dump(exclude=changed)


@pytest.mark.parametrize("name", resources.listed("comparisons"))
def test_a_shipped_comparison_names_campaigns_that_there_are(name, monkeypatch):
    monkeypatch.setattr(comparison_definition, "load_definition", load_once)
    assert comparison_definition.load_comparison(name).definition.problems


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("platform-rag", "fitted"),
        ("platform-price", "fitted"),
        ("forecast-edge", "plain"),
        ("economics-llama", "epoch"),
    ],
)
def test_every_evaluator_with_profiles_names_its_own(name, profile):
    assert load_definition(name).problem.evaluator.profile == profile


def test_a_mistake_in_a_mix_brings_no_further_ones_of_its_metrics(tmp_path):
    path = tmp_path / "mix-caches.yaml"
    text = resources.find("runs", "mix-caches").read_text(encoding="utf-8")
    path.write_text(text.replace("28 %", "20 %").replace("regret]", "chat_sessions_per_s]"))
    with pytest.raises(InputError) as caught:
        load_definition(path)
    assert [x.partition(": ")[2] for x in caught.value.problems] == [
        "workload.mix: expected shares that add up to 1, got 0.92"
    ]
