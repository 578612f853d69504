"""Another package's conventions are a profile by their name, as those of the package itself are."""

import numpy as np
import pytest
from pydantic import ValidationError

from codesign.base.columns import column_of
from codesign.evaluators.forecast import ForecastEvaluator
from codesign.evaluators.forecast.forecast_options import ForecastOptions, ForecastRequest
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.system.device_pool import DevicePool
from codesign.evaluators.system.roles import PoolTask, StageRequest
from codesign.evaluators.system.system_options import MachineOptions
from codesign.evaluators.system.workload import SystemWorkload
from codesign.search.execution.result_cache import evaluator_modules

RULES = """
from codesign.evaluators.platform.serving_rules import ServingRules

class HalfRules(ServingRules):
    defaults = {**ServingRules.defaults, "memory_efficiency": 0.5}
"""
COUNT = """
from codesign.evaluators.forecast.plain import PlainCount

class HalfCount(PlainCount):
    gigabyte = 5e8

    def matrix_ops(self):
        return super().matrix_ops() / 2.0
"""
ENTRIES = """[codesign.conventions]
platform.half = half_rules:HalfRules
platform.broken = no_such_module:Rules
forecast.half = half_count:HalfCount
forecast.broken = no_such_module:Count
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path, monkeypatch):
    """A package with conventions, two of which cannot be imported, as installers leave it."""
    (tmp_path / "half_rules.py").write_text(RULES, encoding="utf-8")
    (tmp_path / "half_count.py").write_text(COUNT, encoding="utf-8")
    for name, text in (("METADATA", "Name: half\nVersion: 1.0\n"), ("entry_points.txt", ENTRIES)):
        path = tmp_path / "half-1.0.dist-info" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


def platform(profile):
    request = PlatformRequest(model="llama-3-8b", prompt_tokens=512, generated_tokens=16)
    return PlatformEvaluator(request, PlatformOptions(profile=profile))


def forecast(profile):
    request = ForecastRequest(model="llama-3-8b", prompt_tokens=512, generated_tokens=16)
    return ForecastEvaluator(request, ForecastOptions(profile=profile))


def test_a_strangers_conventions_of_platform_are_a_profile_by_their_name():
    designs = {"device": column_of(["h100-sxm"]), "batch_size": column_of([1])}
    half, ideal = (
        platform(profile).evaluate(designs).metrics["time_per_output_token_s"][0]
        for profile in ("half", "ideal")
    )
    assert half == pytest.approx(2 * ideal, rel=1e-6)
    schema = PlatformOptions.model_json_schema()["properties"]["profile"]
    assert schema["enum"] == ["fitted", "ideal", "broken", "genz", "half"]


def test_a_strangers_conventions_of_forecast_are_a_profile_by_their_name():
    half, plain = (forecast(profile).forecast({}) for profile in ("half", "plain"))
    np.testing.assert_array_equal(2.0 * half.prefill.values[0], plain.prefill.values[0])
    np.testing.assert_array_equal(half.prefill.values[1:], plain.prefill.values[1:])
    assert half.inference.rules.gigabyte == 5e8
    schema = ForecastOptions.model_json_schema()["properties"]["profile"]
    assert schema["enum"] == ["plain", "broken", "half", "life"]


def test_results_depend_on_the_code_of_the_conventions():
    assert "half_rules" in evaluator_modules(platform("half"))
    assert "codesign.evaluators.conventions.genz" in evaluator_modules(platform("genz"))
    assert "half_count" in evaluator_modules(forecast("half"))
    assert "codesign.evaluators.conventions.life" in evaluator_modules(forecast("life"))
    stage = StageRequest("decode", "decode", 512, 16)
    workload = SystemWorkload(model="llama-3-8b", prompt_tokens=512, generated_tokens=16)
    options = MachineOptions(platform=PlatformOptions(profile="half"))
    assert "half_rules" in evaluator_modules(
        DevicePool(PoolTask(stage, {"model": "llama-3-8b"}), workload, options)
    )


@pytest.mark.parametrize(
    ("build", "profile", "message"),
    [
        (
            platform,
            "hal",
            r"profile 'hal'\. Did you mean 'half'\? Known: broken, fitted, genz, half, ideal\.",
        ),
        (
            forecast,
            "hal",
            r"profile 'hal'\. Did you mean 'half'\? Known: broken, half, life, plain",
        ),
        (platform, "broken", "'platform.broken' cannot be imported: No module named 'no_such_"),
        (forecast, "broken", "'forecast.broken' cannot be imported: No module named 'no_such_"),
    ],
)
def test_a_profile_that_cannot_be_had_is_one_clear_line(build, profile, message):
    with pytest.raises(ValidationError, match=message):
        build(profile)
