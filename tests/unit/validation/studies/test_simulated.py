"""The study analytical versus simulated, small, and its timeline."""

import json
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from codesign.evaluators.npu import operator_times
from codesign.evaluators.simulation import SimulationEvaluator, SimulationOptions
from codesign.models.hardware.array import ORGANIZATIONS
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.report.block_timeline import (
    block_timeline,
    occupancy,
    occupancy_chart,
    save_trace,
)
from codesign.report.paper import save_plain
from codesign.space import load_space
from validation.studies import simulated

SPACE = load_space("memexplorer", {"memtech": load_library().catalog()})


@pytest.fixture(scope="module")
def study():
    return simulated.run(seed=3, size=72)


@pytest.fixture(scope="module")
def timeline():
    request = Request(
        model="llama-3-8b", phase="prefill", prompt_tokens=256, generated_tokens=16, batch=1
    )
    evaluator = SimulationEvaluator(request, SimulationOptions(most_steps=32))
    return block_timeline(evaluator, SPACE.columns(SPACE.encode(SPACE.designs["P1"])))


def test_the_closed_form_is_close_to_the_simulation(study):
    measured = {target["what"]: target["measured"] for target in study.targets}
    assert measured["transfers, median error"] <= 0.01
    assert measured["block time, median error"] <= 0.03
    assert measured["block time, 95th percentile"] <= 0.10


def test_the_closed_form_counts_the_cycles_of_the_visited_tiles(study):
    assert study.targets[-1]["what"] == "array cycles of every product, largest error"
    assert study.targets[-1]["is_met"]
    rows = [row for row in study.rows if row["kind"] == "array"]
    settings = {(row["phase"], row["array"]) for row in rows}
    assert settings == set(product(("prefill", "decode"), ORGANIZATIONS))
    assert {"attention_qk", "attention_pv", "lm_head"} <= {row["operator"] for row in rows}


def test_one_key_per_cycle_in_the_closed_form_would_show(monkeypatch):
    def wrong(k, depth, organization, is_per_head):  # type: ignore[no-untyped-def]  # a fault
        return np.ones(np.broadcast(k, depth).shape)

    monkeypatch.setattr(operator_times, "column_slots", wrong)
    study = simulated.run(seed=3, size=24)
    target = study.targets[-1]
    assert not target["is_met"]
    # Only heads narrower than the array were counted wrong, and as too slow.
    off = [row for row in study.rows if row["kind"] == "array" and abs(row["error"]) > 1e-9]
    assert "attention_qk" in {row["operator"] for row in off}
    assert all(row["error"] > 0 and row["array"] == "flattened" for row in off)


def test_every_outlier_has_a_name(study):
    for row in study.rows:
        assert (abs(row["error"]) > 0.2) == bool(row["explanation"])


def test_errors_are_those_of_the_two_times(study):
    for row in study.rows:
        assert row["error"] == pytest.approx(row["ours"] / row["reference"] - 1.0, abs=1e-12)
    assert sum(row["kind"] == "transfers" for row in study.rows) == 72


def test_the_strata_are_all_there(study):
    moved = [row for row in study.rows if row["kind"] == "transfers"]
    for key, n in {"phase": 2, "dataflow": 3, "tiers": 3, "technology": 7}.items():
        assert len({row[key] for row in moved}) == n


def test_a_seed_gives_the_same_rows_and_another_seed_others(study):
    small = simulated.run(seed=3, size=12)
    assert small.rows == simulated.run(seed=3, size=12).rows
    assert small.rows != simulated.run(seed=4, size=12).rows
    json.dumps([*study.rows, *study.summary, *study.targets, *study.notes], allow_nan=False)


def test_no_resource_does_two_things_at_once(timeline):
    for resource in timeline.resources:
        mine = [item for item in timeline.transactions if item.resource == resource]
        for one, other in pairwise(mine):
            assert other.start_s >= one.end_s - 1e-15


def test_occupancy_of_an_interval_is_the_busy_time_within_it(timeline):
    long = replace(timeline.transactions[0], start_s=0.25, end_s=0.75)
    for layer in (timeline, replace(timeline, transactions=[long], time_s=1.0)):
        shown = occupancy(layer)
        begins, ends = shown.edges_s[:-1], shown.edges_s[1:]
        for resource, share in shown.busy.items():
            busy = sum(
                np.maximum(np.minimum(ends, i.end_s) - np.maximum(begins, i.start_s), 0.0)
                for i in layer.transactions
                if i.resource == resource
            )
            np.testing.assert_allclose(share * (ends - begins), busy, atol=1e-9 * layer.time_s)
            assert 0.0 <= share.min() <= share.max() <= 1.0


def test_a_layer_has_its_operators_as_often_as_the_model_says(timeline):
    names = [name for name, _, _ in timeline.operators]
    assert names.count("norm") == 2
    assert names.count("down_projection") == 1
    assert "lm_head" not in names
    assert timeline.operators[-1][2] == pytest.approx(timeline.time_s)


def test_the_trace_has_what_a_viewer_needs(timeline, tmp_path):
    trace = json.loads(save_trace(timeline, tmp_path / "trace.json").read_text(encoding="utf-8"))
    events = trace["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(timeline.operators) + len(timeline.transactions)
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in spans} <= named
    assert all(event["ts"] >= 0 and event["dur"] > 0 for event in spans)


def test_the_chart_is_the_same_file_every_time(timeline, tmp_path):
    shown = occupancy(timeline)
    files = [
        save_plain(occupancy_chart(timeline, shown), tmp_path / name, "One layer").read_bytes()
        for name in ("a.png", "b.png")
    ]
    assert files[0] == files[1]
    assert files[0].startswith(b"\x89PNG")
