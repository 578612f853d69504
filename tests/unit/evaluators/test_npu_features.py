"""What the npu evaluator tells and predicts of designs in advance, against its metrics."""

import numpy as np
import pytest

from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space
from tests.laws import is_at_most

SPACE = load_space("memexplorer", {"memtech": load_library().catalog()})
EVALUATOR = NpuEvaluator(
    Request(model="llama-3.3-70b", trace="osworld", phase="decode"),
    NpuOptions(profile="memexplorer"),
)


def test_those_of_base_worked_out_by_hand():
    told = EVALUATOR.features(SPACE.columns(SPACE.encode(SPACE.designs["Base"])))
    assert EVALUATOR.offers("features")
    assert told["peak_flop_per_s"][0] == 2 * 2048 * 128 * 1e9
    assert told["batch_size"][0] == 1
    # Weights, and the KV cache of 90,000 + 8,000 tokens (MemExplorer Table 3), of 8 bits each;
    # 256 MB are on chip, of which the activations of the LM head take what they need.
    on_chip = 256e6 - (8192 + 128256)
    resident = 70_553_706_496 + 163_840 * 98_000 - on_chip
    assert told["resident_bytes"][0] == pytest.approx(resident, rel=1e-9)
    # There is one tier of 4 TB/s.
    assert told["slowest_tier_s"][0] == pytest.approx(resident / 4e12, rel=1e-9)
    assert told["all_tiers_s"][0] == told["slowest_tier_s"][0]


def test_those_that_are_metrics_too_have_the_same_values():
    rows = SPACE.sample(np.random.default_rng(0), 200)
    told = EVALUATOR.features(SPACE.columns(rows))
    metrics = EVALUATOR.evaluate(SPACE.columns(rows)).metrics
    shared = set(told) & set(metrics)
    assert len(shared) == 5
    for name in shared:
        assert told[name] == pytest.approx(metrics[name], rel=1e-12), name
    assert all(np.isfinite(values).all() for values in told.values())
    assert is_at_most(told["slowest_tier_s"], told["all_tiers_s"])


def decode(**limits):
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
    return NpuEvaluator(request).keep_limits(limits)


def test_what_is_predicted_is_the_bound_that_no_design_beats():
    evaluator = decode()
    assert evaluator.offers("predict")
    columns = SPACE.columns(SPACE.sample(np.random.default_rng(1), 200))
    names = [metric.name for metric in evaluator.metrics]
    predicted = evaluator.predict(columns, names)
    bounds = evaluator.best_case(columns, {}, names)
    # The bound of the life of memories says the same of every design.
    assert bounds.keys() - predicted.keys() == {"lifetime_years"}
    for name, values in predicted.items():
        assert np.array_equal(values, bounds[name]), name
    metrics = evaluator.evaluate(columns, names).metrics
    assert np.array_equal(predicted["tdp_watts"], metrics["tdp_watts"])
    ratio = metrics["throughput_tokens_per_s"] / predicted["throughput_tokens_per_s"]
    assert np.median(ratio) > 0.95


def test_batch_sizes_that_cannot_keep_a_limit_are_not_predicted():
    limit = 0.15
    free, limited = decode(), decode(time_per_output_token_s=limit)
    rows = SPACE.sample(np.random.default_rng(1), 400)
    keeps = free.known_violations(SPACE.columns(rows))
    rows = rows[np.all([excess <= 0 for excess in keeps.values()], axis=0)]
    columns, names = SPACE.columns(rows), ["throughput_tokens_per_s", "time_per_output_token_s"]
    actual = limited.evaluate(columns, names).metrics
    is_kept = actual["time_per_output_token_s"] <= limit
    assert 0.1 < is_kept.mean() < 0.9
    error = {
        name: actual["throughput_tokens_per_s"] / predicted["throughput_tokens_per_s"]
        for name, predicted in (
            ("free", free.predict(columns, names)),
            ("limited", limited.predict(columns, names)),
        )
    }
    assert np.median(error["free"][is_kept]) < 0.7
    assert np.median(error["limited"][is_kept]) > 0.9
    assert (error["limited"][is_kept] <= 1).all()
