"""What systems cost: prices of tokens, ports of links and ranges, against hand arithmetic."""

import json
from functools import cache

import numpy as np
import pytest

from codesign import api
from codesign.base.columns import column_of, first_values
from codesign.base.errors import InputError
from codesign.evaluators.npu import NpuOptions
from codesign.evaluators.platform import PlatformOptions
from codesign.evaluators.system import SystemEvaluator
from codesign.evaluators.system.system_options import MachineOptions, SystemOptions
from codesign.evaluators.system.workload import SystemWorkload
from codesign.insight.uncertainty.uncertainty import design_uncertainty
from codesign.models.accounts.account_constants import constants_at
from codesign.models.accounts.rents import list_rents
from codesign.models.memtech import load_library
from codesign.search.enumeration.composition import compose_front
from codesign.search.problem_builder import build_problem
from codesign.space import load_space, parse_space

OSWORLD = SystemWorkload(model="llama-3.3-70b", trace="osworld")
TOKENS = {"prefill": 90_000, "decode": 8_000}
SECONDS_PER_YEAR = 8766 * 3600
PRICE = "usd_per_million_tokens"
CARBON = "kgco2e_per_million_tokens"


@cache
def catalogs():
    return {"memtech": load_library().catalog()}


def problem_of(space, options=None, workload=OSWORLD):
    objectives = ["maximize throughput_tokens_per_s"]
    return build_problem(space, SystemEvaluator(workload, options), objectives, (), "system")


def with_link(**keys):
    link = {"bandwidth": "20 MB/s", "latency": "1 us", "energy": "1.3 pJ/bit", **keys}
    text = {
        "based_on": "system-pd",
        "links": {"handover": {"from": "prefill", "to": "decode", **link}},
    }
    return parse_space(json.dumps(text), catalogs(), "linked")


def metrics_of(space, options=None, **settings):
    row = space.encode({**space.designs["P1-D1"], **settings})
    return problem_of(space, options).evaluate(row).metrics


def machines(problem, row, names):
    columns = problem.space.columns(row)
    evaluator = problem.evaluator
    return {
        name: first_values(pool.evaluate(evaluator.pool_columns(columns, name), names).metrics)
        for name, pool in evaluator.machines.items()
    }


@cache
def system_of(counts):
    space = load_space("system-pd", catalogs())
    settings = dict(zip(("prefill_machines", "decode_machines"), counts, strict=True))
    row = space.encode({**space.designs["P1-D1"], **settings})
    problem = problem_of(space)
    return problem, row, problem.evaluate(row).metrics


@pytest.mark.parametrize("counts", [(1, 1), (5, 1), (1, 8)])
def test_tokens_cost_machines_that_are_written_off_or_worn_out_and_electricity(counts):
    problem, row, metrics = system_of(counts)
    rate = float(metrics["requests_per_s"][0])
    constants = constants_at("n7", "typical")
    usd = float(metrics["energy_joules_per_request"][0])
    usd *= constants.electricity_usd_per_kwh * constants.pue / 3.6e6
    years = []
    names = ["unit_cost_usd", "lifetime_years", "throughput_tokens_per_s"]
    for (pool, machine), count in zip(machines(problem, row, names).items(), counts, strict=True):
        busy = rate / (count * machine["throughput_tokens_per_s"] / TOKENS[pool])
        life = machine["lifetime_years"] / busy
        capital = count * (machine["unit_cost_usd"] + constants.host_usd)
        used = min(life, 1 / constants.write_off_per_year)
        usd += capital / (used * SECONDS_PER_YEAR * rate)
        years.append(life)
    assert float(metrics[PRICE][0]) == pytest.approx(usd / 8_000 * 1e6, rel=1e-9)
    assert float(metrics["lifetime_years"][0]) == pytest.approx(min(*years, 10), rel=1e-12)


@pytest.mark.parametrize("counts", [(1, 1), (5, 1), (1, 8)])
def test_tokens_emit_what_making_machines_and_their_electricity_emit(counts):
    problem, row, metrics = system_of(counts)
    rate = float(metrics["requests_per_s"][0])
    constants = constants_at("n7", "typical")
    kilowatt_hours = float(metrics["energy_joules_per_request"][0]) * constants.pue / 3.6e6
    kg, embodied = kilowatt_hours * constants.grid_kgco2e_per_kwh, 0.0
    names = ["embodied_kgco2e", "lifetime_years", "throughput_tokens_per_s"]
    for (pool, machine), count in zip(machines(problem, row, names).items(), counts, strict=True):
        busy = rate / (count * machine["throughput_tokens_per_s"] / TOKENS[pool])
        used = min(machine["lifetime_years"] / busy, 1 / constants.write_off_per_year)
        made = count * machine["embodied_kgco2e"]
        busy_seconds = used * SECONDS_PER_YEAR * (1 - constants.idle_share)
        kg += made / (busy_seconds * rate)
        embodied += made
    assert float(metrics[CARBON][0]) == pytest.approx(kg / 8_000 * 1e6, rel=1e-9)
    assert float(metrics["embodied_kgco2e"][0]) == pytest.approx(embodied, rel=1e-12)


def test_a_rent_changes_no_carbon():
    space = load_space("system-pd", catalogs())
    rented = metrics_of(space, SystemOptions(npu=NpuOptions(usd_per_hour=2.5)))
    np.testing.assert_array_equal(rented[CARBON], metrics_of(space)[CARBON])


@pytest.mark.parametrize("name", [CARBON, "embodied_kgco2e"])
@pytest.mark.parametrize("space_name", ["system-pd-gpu", "system-mixed"])
def test_systems_with_devices_have_no_carbon_and_say_why(name, space_name):
    space = load_space(space_name, catalogs())
    design = next(iter(space.designs.values()))
    row = space.encode(design)
    assert np.isnan(problem_of(space).evaluate(row).metrics[name]).all()
    with pytest.raises(InputError, match=rf"{name}.*what making .*h100-sxm.* emits is unknown"):
        build_problem(space, SystemEvaluator(OSWORLD), [f"minimize {name}"], (), "system")
    explained = problem_of(space).evaluator.explain(space.columns(row))
    notes = "\n".join(explained.notes)
    assert f"decode: no {name}: what making {design['decode_device']} emits" in notes
    assert "energy counts boards of devices, but only chip and memories of designs" in notes


def test_a_rent_takes_the_place_of_capital_and_electricity():
    space = load_space("system-pd", catalogs())
    options = SystemOptions(npu=NpuOptions(usd_per_hour=2.5))
    metrics = metrics_of(space, options, decode_machines=3)
    expected = 4 * 2.5 / 3600 / metrics["throughput_tokens_per_s"] * 1e6
    np.testing.assert_allclose(metrics[PRICE], expected, rtol=1e-12)


def test_twice_the_ports_are_twice_the_bandwidth():
    two = metrics_of(with_link(ports=2))
    wide = metrics_of(with_link(bandwidth="40 MB/s"))
    assert set(two) == set(wide)
    assert wide["handover_s"] < metrics_of(with_link())["handover_s"]
    for name in two:
        np.testing.assert_array_equal(two[name], wide[name], name)


def test_ports_cost_what_is_written_off_of_them():
    free, priced = (metrics_of(with_link(ports=2, **x), decode_machines=3)
                    for x in ({}, {"port_price": "900 USD"}))  # fmt: skip
    bought = 4 * 2 * 900
    assert priced["unit_cost_usd"] - free["unit_cost_usd"] == pytest.approx(bought)
    years = 1 / constants_at("n7", "typical").write_off_per_year
    per_request = bought / (years * SECONDS_PER_YEAR * free["requests_per_s"][0])
    extra = priced[PRICE][0] - free[PRICE][0]
    assert extra == pytest.approx(per_request / 8_000 * 1e6, rel=1e-6)


# --- devices -------------------------------------------------------------------------------------


def gpu_metrics(options=None, **settings):
    space = load_space("system-pd-gpu", catalogs())
    design = {**next(iter(space.designs.values())), **settings}
    problem = problem_of(space, options)
    return design, problem.evaluate(space.encode(design)).metrics


@pytest.mark.parametrize("stated", [None, 4.0])
def test_devices_cost_their_rent(stated):
    options = SystemOptions(device_usd_per_hour=stated)
    settings = {"prefill_device": "h100-sxm", "decode_device": "h200-sxm"}
    design, metrics = gpu_metrics(options, **settings)
    usd_per_hour = 0.0
    for pool in TOKENS:
        degrees = [design.get(f"{pool}_{x}") or 1 for x in
                   ("tensor_parallel", "pipeline_parallel", "data_parallel")]  # fmt: skip
        listed = list_rents()[design[f"{pool}_device"]].typical
        usd_per_hour += design[f"{pool}_machines"] * np.prod(degrees) * (stated or listed)
    expected = usd_per_hour / 3600 / metrics["throughput_tokens_per_s"] * 1e6
    np.testing.assert_allclose(metrics[PRICE], expected, rtol=1e-12)
    assert "lifetime_years" not in metrics


def test_the_accuracy_of_devices_follows_from_their_formats():
    options = SystemOptions(platform=PlatformOptions(accuracy=True))
    formats = {f"{pool}_{x}_format": "bf16" for pool in TOKENS for x in
               ("weight", "activation", "kv")}  # fmt: skip
    _, exact = gpu_metrics(options, **formats)
    assert exact["accuracy_recovery"] == 1
    narrow = {"decode_weight_format": "fp8", "decode_activation_format": "fp8"}
    _, metrics = gpu_metrics(options, **formats | narrow)
    decode = api.evaluate(
        space="memexplorer", design="D1", evaluator="npu", options={"accuracy": True},
        workload={"model": "llama-3.3-70b", "trace": "osworld", "phase": "decode"},
    )  # fmt: skip
    judge = decode.evaluator.accuracy
    names = ("weight_format", "activation_format", "kv_format")
    columns = {name: column_of([x]) for name, x in zip(names, ("fp8", "fp8", "bf16"), strict=True)}
    for name, values in judge.metrics(columns, list(metrics)).items():
        at_least = max if name.endswith("_high") else min
        assert float(metrics[name][0]) == at_least(float(values[0]), float(exact[name][0]))
    assert metrics["accuracy_recovery"] < 1


def test_systems_are_judged_where_every_pool_is():
    space = load_space("system-mixed", catalogs())
    half = SystemOptions(npu=NpuOptions(accuracy=True))
    whole = half.model_copy(update={"platform": PlatformOptions(accuracy=True)})
    for options, is_judged in ((half, False), (whole, True)):
        metrics = {item.name for item in problem_of(space, options).evaluator.metrics}
        assert ("accuracy_recovery" in metrics) == is_judged


# --- ranges --------------------------------------------------------------------------------------


def test_the_intervals_of_a_system_of_one_machine_are_those_of_the_machine():
    phase = "decode"
    design = "D1"
    alone = api.evaluate(
        space="memexplorer", design=design, evaluator="npu",
        workload={"model": "llama-3.3-70b", "trace": "osworld", "phase": phase},
    )  # fmt: skip
    text = {
        "pools": {phase: {"space": "memexplorer"}},
        "designs": {"one": {"source": "ours", "values": {phase: design, f"{phase}_machines": 1}}},
    }
    space = parse_space(json.dumps(text), catalogs(), "one-pool")
    system = api.evaluate(
        space=space, design=space.designs["one"], evaluator="system",
        workload={"model": "llama-3.3-70b", "trace": "osworld", "phases": [phase]},
    )  # fmt: skip
    of_machine, of_system = (design_uncertainty(x, 6, 3) for x in (alone, system))
    assert of_machine.numbers == of_system.numbers
    common = set(of_machine.intervals) & set(of_system.intervals)
    assert {PRICE, "tdp_watts", "lifetime_years", "unit_cost_usd"} <= common
    for name in common:
        assert of_system.intervals[name] == of_machine.intervals[name], name
        assert of_system.tornado[name] == of_machine.tornado[name], name


def test_one_draw_holds_for_both_pools():
    """Of equal machines each pool has half of price and power, in every draw."""
    space = load_space("system-pd", catalogs())
    both = api.evaluate(
        space=space, design=space.designs["Base-Base"], evaluator="system",
        options={"npu": {"work": "padded"}},  # a decode draws what a prefill does
        workload={"model": "llama-3.3-70b", "trace": "osworld"},
    )  # fmt: skip
    alone = api.evaluate(
        space="memexplorer", design="Base", evaluator="npu", options={"work": "padded"},
        workload={"model": "llama-3.3-70b", "trace": "osworld", "phase": "decode"},
    )  # fmt: skip
    of_system, of_machine = (design_uncertainty(x, 4, 3).intervals for x in (both, alone))
    counts = sum(space.designs["Base-Base"][f"{pool}_machines"] for pool in TOKENS)
    assert counts == 2
    for metric in ("unit_cost_usd", "tdp_watts"):
        system, machine = of_system[metric], of_machine[metric]
        assert system.p95 == pytest.approx(2 * machine.p95, rel=1e-12)
        assert system.maximum == pytest.approx(2 * machine.maximum, rel=1e-12)


def test_pools_of_other_processes_have_constants_of_their_own():
    options = SystemOptions(pools={"decode": MachineOptions(npu=NpuOptions(process="n5"))})
    evaluator = problem_of(load_space("system-pd", catalogs()), options).evaluator
    ranges = evaluator.constant_ranges(["unit_cost_usd"])
    assert {"prefill_wafer_usd", "decode_wafer_usd", "pue"} <= set(ranges)
    changed = evaluator.replace_constants({"prefill_wafer_usd": 1.0, "decode_wafer_usd": 2.0})
    stated = {name: pool.evaluator.options.constants for name, pool in changed.machines.items()}
    assert stated == {"prefill": {"wafer_usd": 1.0}, "decode": {"wafer_usd": 2.0}}


def test_systems_of_devices_have_no_ranges_to_vary():
    space = load_space("system-pd-gpu", catalogs())
    evaluated = api.evaluate(
        space=space, design=next(iter(space.designs.values())), evaluator="system",
        workload={"model": "llama-3.3-70b", "trace": "osworld"},
    )  # fmt: skip
    with pytest.raises(InputError, match="datasheets of devices state single numbers"):
        design_uncertainty(evaluated, 5)


def test_the_lifetime_of_a_system_is_refused_where_fronts_are_composed():
    space = load_space("system-pd", catalogs())
    objectives = ["maximize throughput_tokens_per_s", "maximize lifetime_years"]
    problem = build_problem(space, SystemEvaluator(OSWORLD), objectives, (), "system")
    with pytest.raises(InputError, match=r"lifetime_years'?: expected one of .* never get worse"):
        compose_front(problem, lambda pool, _: pytest.fail("no pool is searched"))
