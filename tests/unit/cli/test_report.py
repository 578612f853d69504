"""Whom the page asks about designs besides the campaign's evaluator."""

import numpy as np

from codesign.api import _judge
from codesign.search.campaign import Campaign

_CAMPAIGN = """\
space: memexplorer
evaluator: {name: npu, profile: plain}
workload: {model: qwen3-32b, prompt_tokens: 4096, generated_tokens: 100, phase: decode}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
metrics: {speedup: {value: throughput_tokens_per_s / 1 token/s, sense: maximize}}
constraints: [tdp_watts <= 400, time_per_output_token_s <= 60 ms, speedup >= 0]
optimizers: [random]
budget: 20
reference_point: {throughput_tokens_per_s: 0, tdp_watts: 400}
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8, pe_array: [2048, 64],
        vector_length: 512, tier1_technology: lpddr6, tier2_technology: none, dataflow: ws,
        storage_priority: equal, bandwidth_priority: matrix, sram_3d_layers: 0}
"""


def test_other_readings_choose_within_the_limits_of_the_campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "slo.yaml").write_text(_CAMPAIGN, encoding="utf-8")
    campaign = Campaign.load("slo")
    front = campaign.exact_front()
    readings = _judge(campaign.exact_results(front), 0).readings
    assert [reading.title for reading in readings] == [
        "profile memexplorer", "82 % of the off-chip bandwidth", "simulation"
    ]  # fmt: skip
    expected = campaign.problem.evaluate(front.rows)
    simulated = readings[2].problem.evaluate(front.rows)
    np.testing.assert_array_equal(simulated.metrics["batch_size"], expected.metrics["batch_size"])
    assert expected.metrics["batch_size"].max() > 1
    rate = simulated.metrics["throughput_tokens_per_s"]
    np.testing.assert_allclose(simulated.metrics["speedup"], rate)
