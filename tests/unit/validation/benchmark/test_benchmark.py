"""The benchmark measures what it says, and tells when the machine is slow and not the designs."""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest

from codesign.answers.json_values import json_text
from codesign.evaluators.npu import compiled
from codesign.models.workload import load_model
from codesign.search.pareto import non_dominated
from validation.__main__ import main as run_validation
from validation.benchmark import FULL, QUICK, benchmark, timing
from validation.benchmark import benchmark_host as machine_module
from validation.benchmark.benchmark import OTHERS
from validation.benchmark.benchmark_page import benchmark_finding
from validation.benchmark.benchmark_tables import benchmark_tables
from validation.benchmark.evaluation_rates import (
    SWEPT,
    benchmark_space,
    random_rows,
    swept_rows,
)
from validation.benchmark.search import _front
from validation.benchmark.timing import best_seconds, ways, working

SMALL = replace(QUICK, n_designs=256)


@pytest.fixture(scope="module")
def measured():
    return benchmark(SMALL)


def test_every_rate_is_designs_over_seconds(measured):
    for row in measured["rates"]:
        assert row["designs_per_s"] * row["microseconds_per_design"] == pytest.approx(1e6)
        assert 0 < row["designs_per_s"] < 1e9


def test_every_model_phase_way_and_number_of_cores_is_measured(measured):
    batch = f"batch of {SMALL.n_designs:,}"
    found = {
        (row["model"], row["phase"], row["way"], row["cores"])
        for row in measured["rates"]
        if row["what"] == batch
    }
    assert found == {
        (model, phase, way, cores)
        for model in QUICK.model_names
        for phase in ("prefill", "decode")
        for way in ways()
        for cores in (1, 2)
    }


def test_ratios_are_of_the_fastest_batch_to_the_time_of_others(measured):
    for row in measured["ratios"]:
        best = max(
            rate["designs_per_s"]
            for rate in measured["rates"]
            if rate["phase"] == row["phase"]
            and rate["cores"] == 1
            and rate["what"] == f"batch of {SMALL.n_designs:,}"
        )
        assert row["ratio"] == pytest.approx(best * row["its_time_s"])
        if row["against"] in OTHERS:
            assert (row["its_time_s"], row["source"]) == OTHERS[row["against"]]


def test_the_enumeration_counts_the_designs_of_its_space(measured):
    (row,) = measured["enumeration"]
    assert row["designs"] == benchmark_space().fix(QUICK.fixed).size
    assert row["designs_per_s"] == pytest.approx(row["designs"] / row["time_s"])
    assert row["peak_bytes"] is None or 5e7 < row["peak_bytes"] < 1e9


def test_the_start_of_the_command_is_measured(measured):
    (row,) = measured["startup"]
    assert row["what"] == "start of `codesign --help`" and row["time_s"] > 0


def test_a_mix_of_four_stands_beside_one_workload_on_consecutive_and_random_designs(measured):
    (table,) = (table for table in benchmark_tables(measured) if "mixes" in table.title)
    way = ways()[-1]
    assert table.header[1:] == (f"{way}, workloads: 4", f"{way}, workloads: 1")
    assert [row[0] for row in table.rows] == ["2,048 consecutive", "256 random"]
    assert all(map(all, table.rows))


def test_a_benchmark_is_json_and_tables(measured):
    again = json.loads(json_text(measured))
    assert set(again) == set(measured) and again["about"]["version"]
    shown = {row[0] for table in benchmark_tables(measured) for row in table.rows}
    for row in measured["rates"]:
        assert f"{row['phase']}, {row['what']}" in shown
    assert {row["against"] for row in measured["ratios"]} < shown


def test_the_page_says_what_it_was_measured_on_and_shows_every_table(measured):
    text = benchmark_finding(measured).page_text()
    assert f"- version: {measured['about']['version']}" in text
    for table in benchmark_tables(measured):
        assert f"## {table.title}\n" in text


def test_a_sweep_has_every_vector_length_and_format_around_each_design():
    space = benchmark_space()
    columns = [space.names.index(name) for name in SWEPT]
    per_design = int(np.prod([space.structure.n_levels[i] for i in columns]))
    rows = swept_rows(3 * per_design + 5)
    assert space.contains(rows).all()
    assert len(np.unique(rows[:per_design], axis=0)) == per_design
    others = [i for i in range(rows.shape[1]) if i not in columns]
    around = rows[: 3 * per_design].reshape(3, per_design, -1)
    assert (around[:, :, others] == around[:, :1, others]).all()
    assert (around[:, 0, others] == random_rows(3 + 1)[:3, others]).all()


def test_the_full_benchmark_has_two_dense_models_and_one_with_experts():
    has_experts = [load_model(name).is_mixture for name in FULL.model_names]
    assert has_experts == [False, False, True]


@pytest.mark.parametrize("m", [2, 3, 4])
def test_the_points_of_a_measured_front_do_not_dominate_each_other(m):
    front = _front(500, m)
    assert non_dominated(front).all() and (front < 1.1).all()


def test_the_fastest_of_the_repeats_counts_and_the_first_call_does_not(
    monkeypatch,
):
    now = [0.0]
    takes = iter([1.0, 5.0, 3.0, 4.0])

    def call():
        now[0] += next(takes)

    monkeypatch.setattr(timing, "_seconds", lambda: now[0])
    assert best_seconds(call, 3) == 3.0


@pytest.mark.parametrize("before", [None, "0"])
def test_the_way_of_working_is_put_back(before, monkeypatch):
    monkeypatch.delenv(compiled.SWITCH, raising=False)
    if before is not None:
        monkeypatch.setenv(compiled.SWITCH, before)
    with working("compiled"):
        assert compiled.switch() is True
    assert os.environ.get(compiled.SWITCH) == before


def test_outside_a_checkout_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_module.codesign, "__file__", str(tmp_path / "codesign" / "x.py"))
    assert machine_module.surroundings()["commit"] is None
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert machine_module.surroundings()["commit"] is None


def test_the_command_prints_its_tables(measured, capsys, monkeypatch):
    import validation.benchmark

    efforts = []

    def remembered(effort):
        efforts.append(effort)
        return measured

    monkeypatch.setattr(validation.benchmark, "benchmark", remembered)
    assert run_validation(["bench", "--quick"]) == 0
    out, err = capsys.readouterr()
    assert "start of `codesign --help`" in out and err == ""
    assert efforts == [QUICK]
    assert run_validation(["bench", "--quik"]) == 2
    assert re.search("--quick", capsys.readouterr().err)
