"""A tool's conventions are rules of their own, and the physics of platforms knows none of them."""

import re
from pathlib import Path

import numpy as np
import pytest

import codesign
from codesign.base.columns import design_columns
from codesign.evaluators.conventions.genz import GenzRules
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.platform_options import PROFILES
from codesign.evaluators.platform.serving_rules import ServingRules, rules_of

PHYSICS = Path(codesign.__file__).parent / "evaluators" / "platform"


def test_the_physics_of_platforms_names_no_tool():
    assert [path.name for path in PHYSICS.glob("*.py") if "genz" in path.read_text("utf-8")] == []


@pytest.mark.parametrize("evaluator", ["platform", "forecast"])
def test_the_physics_never_asks_which_profile_it_serves(evaluator):
    """Rules are looked up by a profile's name; nothing is compared with one."""
    question = re.compile(r"profile\s*(==|!=|in\b)|is_(fitted|ideal)\b")
    folder = PHYSICS.with_name(evaluator)
    texts = {path.name: path.read_text("utf-8") for path in folder.glob("*.py")}
    assert [name for name, text in texts.items() if question.search(text)] == []


@pytest.mark.parametrize("profile", PROFILES.names())
def test_every_profile_has_rules_that_fill_in_its_options(profile):
    rules = rules_of(PlatformOptions(profile=profile).resolved())
    assert isinstance(rules, ServingRules)
    for name, value in rules.defaults.items():
        assert getattr(rules.options, name) == value


@pytest.mark.parametrize(("batch", "stages", "dropped", "kept"), [(10, 4, 2, 3), (2, 4, 1, 1)])
def test_the_tool_drops_the_rest_of_a_batch_that_its_stages_do_not_divide(
    batch, stages, dropped, kept
):
    design = {"device": "h100-sxm", "batch_size": batch, "pipeline_parallel": stages}
    sizes = []
    for profile in ("genz", "ideal"):
        request = PlatformRequest(model="llama-2-7b", prompt_tokens=64, generated_tokens=8)
        evaluator = PlatformEvaluator(request, PlatformOptions(profile=profile))
        serving = evaluator.serving(design_columns(design))
        sizes.append(float(serving.micro_batch[0]))
    assert sizes == [dropped, kept]


def test_the_tool_attends_to_generated_tokens_without_the_step_s_own():
    options = PlatformOptions(profile="genz").resolved()
    assert GenzRules(options).mean_generated(9.0) == 9.0
    assert ServingRules(options).mean_generated(9.0) == 5.0
    assert ServingRules(options).mean_generated(0.0) == 1.0


def test_the_tool_takes_the_stages_of_a_pipeline_as_balanced():
    options = PlatformOptions(profile="genz").resolved()
    times = np.array([2.0]), np.array([1.5]), np.array([4.0])
    assert GenzRules(options).paced_s(*times)[0] == 2.0
    assert ServingRules(options).paced_s(*times)[0] == 6.0
