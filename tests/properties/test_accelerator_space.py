"""The space ``accelerator``: process, topology and clock as parameters, and published chips."""

from functools import cache

import numpy as np
import pytest

from codesign.base.columns import Column
from codesign.base.records import drop_keys
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.models.accounts.account_constants import constant_ranges
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space

CHIPS = {"H100": 700.0, "H200": 700.0, "B200": 1200.0, "MI300X": 750.0}
"""Board power of chips in watts, from their datasheets."""


@cache
def space():
    return load_space("accelerator", {"memtech": load_library().catalog()})


def evaluator(phase, **options):
    request = Request(model="llama-3-8b", trace="gsm8k", phase=phase)
    return NpuEvaluator(request, NpuOptions(memory_edge_m="132 mm", **options))


def sample(n):
    return space().columns(space().sample(np.random.default_rng(0), n))


def changed(columns, name, value):
    n = len(columns["pe_array"])
    return {**columns, name: Column((value,), np.zeros(n, dtype=np.int64))}


def test_the_space_holds_the_published_chips_and_at_least_1e13_designs():
    assert space().size >= 1e13
    expected = {"H100", "H200", "B200", "MI300X", "TPUv5e", "TPUv6e", "TPUv7", "Rubin"}
    assert set(space().designs) == expected
    found = evaluator("prefill").evaluate(
        space().columns(np.concatenate([space().encode(x) for x in space().designs.values()]))
    )
    watts = dict(zip(space().designs, found.metrics["tdp_watts"], strict=True))
    for name, board in CHIPS.items():
        assert watts[name] == pytest.approx(board, rel=0.25), name


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_options_that_a_design_states_are_those_of_the_evaluator(phase):
    columns = sample(64)
    names = ["throughput_tokens_per_s", "tdp_watts", "area_mm2", "energy_joules_per_token"]
    stated = evaluator(phase).evaluate(columns, names).metrics
    processes, topologies = (columns[x].decoded() for x in ("process", "topology"))
    for i in range(0, 64, 8):
        one = evaluator(phase, process=processes[i], topology=topologies[i])
        alone = {
            name: Column(column.values, column.codes[i : i + 1])
            for name, column in columns.items()
            if name not in ("process", "topology")
        }
        for name, values in one.evaluate(alone, names).metrics.items():
            assert values[0] == stated[name][i], name


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_no_design_of_the_space_beats_its_bounds(phase):
    names = ["throughput_tokens_per_s", "tdp_watts", "energy_joules_per_token", "area_mm2"]
    columns, one = sample(200), evaluator(phase)
    values = one.evaluate(columns, names).metrics
    soft = ("weight_format", "activation_format", "kv_format", "vector_length", "dataflow")
    open_values = {name: columns[name].values for name in soft}
    partial = drop_keys(columns, soft)
    for designs, undecided in ((columns, {}), (partial, open_values)):
        bounds = one.best_case(designs, undecided, names)
        for name in names:
            sign = -1.0 if name == "throughput_tokens_per_s" else 1.0
            excess = sign * (bounds[name] - values[name])
            assert (excess <= 1e-9 * np.abs(values[name])).all(), name


def test_a_faster_clock_costs_the_square_of_its_voltage_and_a_newer_process_saves():
    columns, one = sample(32), evaluator("prefill")
    clocks = [0.7e9, 1.0e9, 1.4e9, 2.0e9]
    watts = np.array(
        [
            one.evaluate(changed(columns, "clock_hz", clock), ["tdp_watts"]).metrics["tdp_watts"]
            for clock in clocks
        ]
    )
    assert (np.diff(watts, axis=0) > 0).all()
    ratio = (watts[3] - watts[1]) / (watts[2] - watts[1])  # memories draw the same
    np.testing.assert_allclose(ratio, (2.0**2.5 - 1) / (1.4**2.5 - 1), rtol=1e-6)
    speeds, powers = [], []
    for process in ("n7", "n5", "n3e", "n2"):
        result = one.evaluate(changed(columns, "process", process)).metrics
        speeds.append(result["throughput_tokens_per_s"])
        powers.append(result["tdp_watts"])
    assert (np.diff(powers, axis=0) < 0).all()
    assert all((speed == speeds[0]).all() for speed in speeds)


@pytest.mark.parametrize("level", ["low", "typical", "high"])
def test_constants_move_within_the_ranges_of_the_process_of_each_design(level):
    designs, names = sample(200), ["area_mm2", "tdp_watts", "unit_cost_usd"]
    assert set(designs["process"].decoded()) == {"n7", "n5", "n3e", "n2"}
    ranges = evaluator("decode").constant_ranges(names)
    moved = {name: item.value_at(level) for name, item in ranges.items()}
    metrics = evaluator("decode").replace_constants(moved).evaluate(designs, names).metrics
    for process in ("n7", "n5", "n3e", "n2"):
        here = np.array([each == process for each in designs["process"].decoded()])
        constants = {
            name: constant_ranges(process)[name].value_at(level)
            if item.low < item.high
            else constant_ranges(process)[name].typical
            for name, item in ranges.items()
        }
        part = {
            name: Column(column.values, column.codes[here])
            for name, column in designs.items()
            if name != "process"
        }
        alone = evaluator("decode", process=process, constants=constants)
        for name, values in alone.evaluate(part, names).metrics.items():
            np.testing.assert_allclose(metrics[name][here], values, rtol=1e-9, err_msg=name)
