"""Laws of the npu evaluator over random designs of the MemExplorer space, several models, both
profiles, both phases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest

from codesign.columns import Column, Columns, FloatArray, IntArray
from codesign.evaluators.base import Explanation
from codesign.evaluators.conformance import check_evaluator
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.npu.evaluator import CHUNK
from codesign.evaluators.npu.options import NpuOptions
from codesign.memtech import Range, TechnologyLibrary, load_library
from codesign.space import DesignSpace, load_space
from codesign.workload import Request

MODELS = {
    "llama-3.3-70b": "osworld",
    "mixtral-8x7b": "gsm8k",
    "deepseek-v3": "bfcl",
    "llada-8b": "gsm8k",
    "gpt-3-175b": "gsm8k",
}
PROFILES, PHASES = ("plain", "memexplorer"), ("prefill", "decode")
CASES = list(itertools.product(MODELS, PROFILES, PHASES))
LIBRARY = load_library()
ON_CHIP = ("sram", "sram_3d")
TIER_TECHNOLOGIES = ("hbm3e_8h", "hbm4_12h", "hbf", "gddr6", "gddr7", "lpddr5x", "lpddr6")
EVERY_TECHNOLOGY = ON_CHIP + TIER_TECHNOLOGIES
N = 200

every_case = pytest.mark.parametrize(("model", "profile", "phase"), CASES)


@cache
def space() -> DesignSpace:
    return load_space("memexplorer", {"memtech": LIBRARY.catalog()})


@cache
def designs(n: int = N) -> Columns:
    """Random designs, the published ones among them."""
    published = [space().encode(design) for design in space().designs.values()]
    sampled = space().sample(np.random.default_rng(0), n - len(published))
    return space().columns(np.concatenate([*published, sampled]))


Change = tuple[tuple[str, ...], str, float]
"""Technologies, an attribute, and the factor that it is multiplied by."""


@cache
def library(*changes: Change) -> TechnologyLibrary:
    """The technologies with some attributes multiplied."""
    technologies = dict(LIBRARY)
    for names, attribute, factor in changes:
        for name in names:
            old = getattr(technologies[name], attribute)
            new = Range(**{end: value * factor for end, value in old.model_dump().items()})
            technologies[name] = technologies[name].model_copy(update={attribute: new})
    return TechnologyLibrary(technologies)


@cache
def evaluator(
    model: str,
    profile: str,
    phase: str,
    batch: int | str = "capacity",
    changes: tuple[Change, ...] = (),
    **options: Any,
) -> NpuEvaluator:
    request = Request(model=model, phase=phase, trace=MODELS[model], batch=batch)
    return NpuEvaluator(request, NpuOptions(profile=profile, **options), library=library(*changes))


def with_values(name: str, change: Callable[[Any], Any], base: Columns) -> Columns:
    """The designs with one parameter changed where they have it."""
    old = base[name]
    return {**base, name: Column(tuple(change(value) for value in old.values), old.codes)}


def take(columns: Columns, positions: IntArray) -> Columns:
    return {name: Column(item.values, item.codes[positions]) for name, item in columns.items()}


def assert_never_lower(better: FloatArray, base: FloatArray, what: object) -> None:
    # The sums of a pass are rounded, so that equal ones may differ in the last digits.
    worst = np.max(1.0 - better / base)
    assert worst <= 1e-12, f"{what} made design {np.argmax(1.0 - better / base)} worse by {worst:g}"


BETTER_MEMORIES: list[Change] = [
    (names, attribute, factor)
    for names in ((name,) for name in EVERY_TECHNOLOGY)
    for attribute, factor in (("bandwidth", 1.3), ("bandwidth", 50.0), ("latency", 0.0))
] + [
    (group, attribute, factor)
    for group in (ON_CHIP, TIER_TECHNOLOGIES, EVERY_TECHNOLOGY)
    for attribute, factor in (("latency", 0.5), ("capacity", 1.1), ("capacity", 16.0))
]


@every_case
@pytest.mark.parametrize("batch", [1, 4])
def test_a_better_memory_never_lowers_the_throughput(
    model: str, profile: str, phase: str, batch: int
) -> None:
    names = ["throughput_tokens_per_s"]
    base = evaluator(model, profile, phase, batch).evaluate(designs(), names)
    before = base.metrics[names[0]]
    n_faster = 0
    for better in BETTER_MEMORIES:
        improved = evaluator(model, profile, phase, batch, (better,))
        after = improved.evaluate(designs(), names).metrics[names[0]]
        assert_never_lower(after, before, better)
        n_faster += int((after > before).any())
    assert n_faster > len(BETTER_MEMORIES) / 3  # the sweep touches what limits designs


@every_case
@pytest.mark.parametrize("batch", [1, 4])
def test_a_better_machine_never_lowers_the_throughput(
    model: str, profile: str, phase: str, batch: int
) -> None:
    base = designs()
    faster_clock = {**base, "clock_hz": Column((1.5e9,), np.zeros(N, dtype=np.int64))}
    better: dict[str, Columns] = {"a faster clock": faster_clock}
    better["a longer vector"] = with_values("vector_length", lambda length: 2 * length, base)
    better["one more layer"] = with_values("sram_3d_layers", lambda layers: layers + 1, base)
    better["an SRAM die"] = with_values("sram_dies", lambda _: 1, base)
    for tier in (1, 2, 3):
        name = f"tier{tier}_stacks"
        better[f"more {name}"] = with_values(name, lambda stacks: 2 * stacks, base)
    one = evaluator(model, profile, phase, batch)
    names = ["throughput_tokens_per_s"]
    before = one.evaluate(base, names).metrics[names[0]]
    for what, columns in better.items():
        assert_never_lower(one.evaluate(columns, names).metrics[names[0]], before, what)


CHOICES: dict[str, dict[str, Any]] = {
    "parallel": {"topology": "parallel"},
    "shared": {"bandwidth_sharing": "shared"},
    "in-flight": {"requests_in_flight": 8.0},
    "systolic": {"array": "systolic"},
    "ideal": {"array": "ideal"},
    "unfused": {"fused": False},
    "serial": {"vector": "serial"},
    "half-usable": {"offchip_efficiency": 0.5, "streams": "serial"},
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_faster_memory_never_lowers_the_throughput_under_any_choice(
    case: tuple[str, str, str], choice: str
) -> None:
    names = ["throughput_tokens_per_s"]
    one = evaluator(*case, 4, **CHOICES[choice])
    before = one.evaluate(designs(), names).metrics[names[0]]
    faster: list[Change] = [
        (EVERY_TECHNOLOGY, "bandwidth", 1.5),
        (EVERY_TECHNOLOGY, "latency", 0.2),
    ]
    faster += [(ON_CHIP, "capacity", 2.0)]
    faster += [((name,), "bandwidth", 3.0) for name in EVERY_TECHNOLOGY]
    # In parallel, more room in a tier may draw bytes from one that would work beside it.
    faster += [(TIER_TECHNOLOGIES, "capacity", 2.0)] if choice != "parallel" else []
    for better in faster:
        improved = evaluator(*case, 4, (better,), **CHOICES[choice])
        assert_never_lower(improved.evaluate(designs(), names).metrics[names[0]], before, better)
    faster_clock = {**designs(), "clock_hz": Column((1.5e9,), np.zeros(N, dtype=np.int64))}
    assert_never_lower(one.evaluate(faster_clock, names).metrics[names[0]], before, "clock")


@pytest.mark.parametrize("format_name", ["weight_format", "activation_format", "kv_format"])
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_narrower_format_never_lowers_throughput_or_raises_energy(
    case: tuple[str, str, str], format_name: str
) -> None:
    half = {"mxfp16": "mxfp8", "mxint16": "mxint8", "mxfp8": "mxfp4", "mxint8": "mxint4"}
    narrower = with_values(format_name, lambda name: half.get(name, name), designs())
    names = ["throughput_tokens_per_s", "tokens_per_joule"]
    one = evaluator(*case, 4)
    before, after = (one.evaluate(item, names).metrics for item in (designs(), narrower))
    for name in names:
        assert_never_lower(after[name], before[name], f"a narrower {format_name}")


@every_case
def test_more_capacity_never_lowers_the_batch_size(model: str, profile: str, phase: str) -> None:
    names = ["batch_size"]
    before = evaluator(model, profile, phase).evaluate(designs(), names).metrics["batch_size"]
    for factor in (1.001, 1.5, 8.0):
        more = ((EVERY_TECHNOLOGY, "capacity", factor),)
        bigger = evaluator(model, profile, phase, "capacity", more)
        after = bigger.evaluate(designs(), names).metrics["batch_size"]
        assert (after >= before).all()
    assert (after > before).any()


@every_case
def test_the_batch_is_the_largest_power_of_two_that_fits(
    model: str, profile: str, phase: str
) -> None:
    result = evaluator(model, profile, phase).evaluate(designs())
    batch, used = result.metrics["batch_size"], result.metrics["memory_used_bytes"]
    capacity, fits = result.metrics["memory_capacity_bytes"], result.violations["capacity"] <= 0
    assert set(batch.tolist()) <= {2.0**i for i in range(8)}
    assert (used <= capacity)[fits].all()
    assert (batch[~fits] == 1).all()
    one = evaluator(model, profile, phase, 1).evaluate(designs(), ["memory_used_bytes"])
    two = evaluator(model, profile, phase, 2).evaluate(designs(), ["memory_used_bytes"])
    per_request = two.metrics["memory_used_bytes"] - one.metrics["memory_used_bytes"]
    could_double = used + batch * per_request <= capacity * (1 - 1e-9)
    assert not (could_double & fits & (batch < 128)).any()


@every_case
def test_metrics_keep_their_bounds_and_their_definitions(
    model: str, profile: str, phase: str
) -> None:
    got = evaluator(model, profile, phase).evaluate(designs())
    metric = got.metrics
    assert all(np.isfinite(values).all() for values in (*metric.values(), *got.violations.values()))
    for name in ("compute_utilization", "bandwidth_utilization"):
        assert (metric[name] > 0).all() and (metric[name] <= 1).all(), name
    for name in ("energy_joules_per_token", "average_power_watts", "tdp_watts", "phase_time_s"):
        assert (metric[name] > 0).all(), name
    tokens = metric["throughput_tokens_per_s"] * metric["phase_time_s"] / metric["batch_size"]
    counts = evaluator(model, profile, phase).workload.tokens
    asked = counts.prompt_tokens if phase == "prefill" else counts.generated_tokens
    np.testing.assert_allclose(tokens, asked, rtol=1e-12)
    joules = metric["average_power_watts"] / metric["throughput_tokens_per_s"]
    np.testing.assert_allclose(metric["energy_joules_per_token"], joules, rtol=1e-12)
    np.testing.assert_allclose(metric["tokens_per_joule"], 1 / joules, rtol=1e-12)
    per_tdp = metric["throughput_tokens_per_s"] / metric["tdp_watts"]
    np.testing.assert_allclose(metric["tokens_per_joule_tdp"], per_tdp, rtol=1e-12)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_evaluator_keeps_its_contract(case: tuple[str, str, str]) -> None:
    check_evaluator(evaluator(*case), take(designs(), np.arange(24)), n_single=4)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_batch_is_its_designs_one_by_one_wherever_they_stand(case: tuple[str, str, str]) -> None:
    one = evaluator(*case)
    whole = one.evaluate(designs())
    rng = np.random.default_rng(0)
    some = [np.array([i]) for i in rng.integers(0, N, 12)]
    some += [rng.integers(0, N, n) for n in (2, 3, 5, 7, 8, 9, 16, 31)]
    for positions in some:
        part = one.evaluate(take(designs(), positions))
        for got, expected in (
            (part.metrics, whole.metrics),
            (part.violations, whole.violations),
        ):
            for name, values in got.items():
                assert values.tobytes() == expected[name][positions].tobytes(), name


def test_a_batch_longer_than_a_chunk_is_its_parts() -> None:
    one = evaluator("llama-3.3-70b", "plain", "prefill")
    positions = np.random.default_rng(0).integers(0, N, 2 * CHUNK + 3)
    small = one.evaluate(designs())
    long = one.evaluate(take(designs(), positions))
    for name, values in long.metrics.items():
        assert values.tobytes() == small.metrics[name][positions].tobytes(), name
    for name, values in long.violations.items():
        assert values.tobytes() == small.violations[name][positions].tobytes(), name


def test_what_is_known_before_evaluation_is_what_evaluation_reports() -> None:
    one = evaluator("llama-3.3-70b", "plain", "decode")
    known, told = one.known_violations(designs()), one.evaluate(designs(), []).violations
    assert known.keys() == told.keys()
    for name, values in known.items():
        assert values.tobytes() == told[name].tobytes()
    assert (known["capacity"] > 0).any() and (known["capacity"] <= 0).any()


def expected_tdp(design: dict[str, Any]) -> float:
    """MemExplorer Eq. 6 at the peak, component by component, from the technology files."""
    bits = {"mxfp4": 4, "mxint4": 4, "mxfp8": 8, "mxint8": 8, "mxfp16": 16, "mxint16": 16}
    depth, width = design["pe_array"]
    wider = max(bits[design["weight_format"]], bits[design["kv_format"]])
    per_mac = 0.722e-12 * bits[design["activation_format"]] * wider / 64
    watts = (depth * width * per_mac + design["vector_length"] * 0.32e-12) * 1e9
    counts = [("sram", design["sram_dies"]), ("sram_3d", design["sram_3d_layers"])]
    counts += [(design[f"tier{i}_technology"], design[f"tier{i}_stacks"]) for i in (1, 2, 3)]
    for name, count in counts:
        if count:
            item = LIBRARY[name]
            background = item.background_power.typical * item.capacity.typical
            watts += count * (background + item.read_energy.typical * item.bandwidth.typical)
    return watts


def test_thermal_design_power_is_the_sum_of_its_components() -> None:
    one = evaluator("llama-3.3-70b", "plain", "prefill")
    got = one.evaluate(designs(), ["tdp_watts"]).metrics["tdp_watts"]
    values = {name: column.to_list() for name, column in designs().items()}
    expected = [expected_tdp({name: values[name][i] for name in values}) for i in range(N)]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_every_added_part_adds_thermal_design_power() -> None:
    one = evaluator("llama-3.3-70b", "plain", "prefill")
    base = designs()
    before = one.evaluate(base, ["tdp_watts"]).metrics["tdp_watts"]
    changes: list[tuple[str, Callable[[Any], Any]]] = [
        ("pe_array", lambda dims: (dims[0] * 2, dims[1])),
        ("vector_length", lambda length: length + 1),
        ("sram_3d_layers", lambda layers: layers + 1),
        ("tier1_stacks", lambda stacks: stacks + 1),
        ("tier2_stacks", lambda stacks: stacks + 1),
        ("tier3_stacks", lambda stacks: stacks + 1),
    ]
    for name, change in changes:
        more = one.evaluate(with_values(name, change, base), ["tdp_watts"]).metrics["tdp_watts"]
        has_it = base[name].codes >= 0
        assert (more[has_it] > before[has_it]).all(), name
        assert (more[~has_it] == before[~has_it]).all(), name


def test_thermal_design_power_does_not_depend_on_the_work() -> None:
    watts = [
        evaluator(*case).evaluate(designs(), ["tdp_watts"]).metrics["tdp_watts"] for case in CASES
    ]
    assert all((values == watts[0]).all() for values in watts)


EXPLAINED = (0, 3, 5, 20, 40, 60, 80)


def explanations(case: tuple[str, str, str], **options: Any) -> Iterable[tuple[Explanation, float]]:
    """Explanations of some designs, each with the seconds of one pass."""
    one = evaluator(*case, **options)
    n_passes = one.workload.operators().n_passes
    for position in EXPLAINED:
        told = one.explain(take(designs(), np.array([position])))
        requests = told.metrics["batch_size"] if case[2] == "prefill" else 1.0
        yield told, told.metrics["phase_time_s"] / (n_passes * requests)


@pytest.mark.parametrize("vector", ["hidden", "serial"])
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_operators_times_sum_to_the_time_of_a_pass(
    case: tuple[str, str, str], vector: str
) -> None:
    for told, seconds in explanations(case, vector=vector):
        assert sum(row["time_s"] for row in told.operators) == pytest.approx(seconds, rel=1e-12)
        assert sum(row["time_share"] for row in told.operators) == pytest.approx(1.0)
        for row in told.operators:
            bounds = [row[f"{bound}_time_s"] for bound in ("compute", "on_chip", "off_chip")]
            assert row["time_s"] >= max(bounds) * (1 - 1e-12)


@pytest.mark.parametrize("topology", ["staged", "parallel"])
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_operators_traffic_and_energy_sum_to_those_of_a_pass(
    case: tuple[str, str, str], topology: str
) -> None:
    for told, seconds in explanations(case, topology=topology):
        for level in told.levels:
            moved = sum(row["traffic_bytes"][level["name"]] for row in told.operators)
            assert moved == pytest.approx(level["read_bytes"] + level["written_bytes"], rel=1e-9)
            assert 0 <= level["utilization"] <= 1 + 1e-12
        dynamic = sum(row["energy_joules"] for row in told.operators)
        average = sum(row["average_watts"] for row in told.power)
        background = (
            sum(
                row["average_watts"]
                for row in told.power
                if row["component"] not in ("array", "vector")
            )
            - sum(level["energy_joules"] for level in told.levels) / seconds
        )
        assert average == pytest.approx(told.metrics["average_power_watts"], rel=1e-12)
        assert (dynamic / seconds + background) == pytest.approx(average, rel=1e-9)
        assert sum(row["tdp_watts"] for row in told.power) == pytest.approx(
            told.metrics["tdp_watts"], rel=1e-12
        )


LIMIT: tuple[Change, ...] = (
    (EVERY_TECHNOLOGY, "bandwidth", 1e30),
    (EVERY_TECHNOLOGY, "latency", 0.0),
)


@every_case
def test_infinite_bandwidth_and_no_latency_leave_the_time_of_the_array(
    model: str, profile: str, phase: str
) -> None:
    limit = evaluator(model, profile, phase, "capacity", LIMIT, vector="hidden")
    for position in EXPLAINED:
        told = limit.explain(take(designs(), np.array([position])))
        for row in told.operators:
            assert row["time_s"] == pytest.approx(row["compute_time_s"], rel=1e-12)
    ideal = evaluator(model, profile, phase, "capacity", LIMIT, vector="hidden", array="ideal")
    used = ideal.evaluate(designs(), ["compute_utilization"]).metrics["compute_utilization"]
    np.testing.assert_allclose(used, 1.0, rtol=1e-12)


@every_case
def test_with_everything_on_chip_the_tiers_do_not_matter(
    model: str, profile: str, phase: str
) -> None:
    spacious: Change = (ON_CHIP, "capacity", 1e7)
    slow: Change = (TIER_TECHNOLOGIES, "bandwidth", 0.01)
    names = ["throughput_tokens_per_s", "offchip_bytes_per_token"]
    near, far = (
        evaluator(model, profile, phase, 1, changes).evaluate(designs(), names).metrics
        for changes in ((spacious,), (spacious, slow))
    )
    for metrics in (near, far):
        assert (metrics["offchip_bytes_per_token"] == 0.0).all()
    assert (near["throughput_tokens_per_s"] == far["throughput_tokens_per_s"]).all()
