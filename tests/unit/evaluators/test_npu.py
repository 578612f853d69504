"""The npu evaluator's parts against brute force, and two operators worked out by hand."""

import math

import numpy as np
import pytest

from codesign.base.columns import column_of
from codesign.base.errors import UnknownNameError
from codesign.base.records import drop_keys
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.npu.npu_options import NpuOptions
from codesign.models.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.models.machines.npu.placement import PRIORITIES, onchip_bytes, tier_tails
from codesign.models.machines.npu.traffic import (
    array_passes,
    blocked_passes,
    read_off_chip_bytes,
)
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space

SPACE = load_space("memexplorer", {"memtech": load_library().catalog()})


def evaluator(phase, **options):
    request = Request(model="llama-3.3-70b", trace="osworld", phase=phase)
    return NpuEvaluator(request, NpuOptions(**options))


def operator(name, phase, dataflow="os", **options):
    base = SPACE.columns(SPACE.encode({**SPACE.designs["Base"], "dataflow": dataflow}))
    rows = evaluator(phase, **options).explain(base).operators
    return dict(next(row for row in rows if row["name"] == name))


def test_a_decode_operator_of_base_worked_out_by_hand():
    # Down projection, 28672 x 8192, batch 1, profile memexplorer, all formats 8 bits.
    row = operator("down_projection", "decode", profile="memexplorer")
    weights = 28672 * 8192
    # On chip: 256 MB, of which the activations of the widest operator (LM head) take what they
    # need and weights and KV cache an even half of the rest each.
    on_chip = (256e6 - (8192 + 128256)) / 2
    from_tier = weights * (1 - on_chip / 70_553_706_496)
    # Half of 4 TB/s is for weights and KV cache; then latencies, and the first column's landing.
    off_chip = from_tier / 2e12 + 100e-9 + 1.5e-9 + 2048 / 4e12
    assert row["off_chip_s"] == pytest.approx(80 * off_chip, rel=1e-9)
    # One row keeps the array busy with streaming the weights, 2048 a cycle.
    compute = weights / 2048 / 1e9
    assert row["compute_s"] == pytest.approx(80 * compute, rel=1e-12)
    assert row["traffic_bytes"]["tier1"] == pytest.approx(80 * from_tier, rel=1e-9)
    # The on-chip port takes what comes from the tier, gives it to the array, and serves the
    # activations: the input once per 128 columns, the output once.
    served = from_tier + weights + 28672 * 64 + 8192
    assert row["traffic_bytes"]["on_chip"] == pytest.approx(80 * served, rel=1e-9)
    assert row["time_s"] == pytest.approx(80 * (served / 4e12 + 1.5e-9), rel=1e-9)
    assert row["bound"] == "on-chip port"


@pytest.mark.parametrize(
    # Times that weights and inputs come.
    ("dataflow", "weight_passes", "input_passes"),
    [("os", 90_000 / 64, 8_192 / 64), ("is", 90_000 / 64, 1), ("ws", 1, 8_192 / 64)],
)
def test_a_prefill_operator_blocked_by_the_array_worked_out_by_hand(
    dataflow, weight_passes, input_passes
):
    # Down projection of 90,000 rows: operands come anew for every tile of 128 / 2 = 64.
    row = operator("down_projection", "prefill", dataflow, profile="memexplorer")
    rows = 90_000
    k = 28_672
    n = 8_192
    third = 256e6 / 3
    weights = k * n * weight_passes * (1 - third / 70_553_706_496)
    activations = rows * (k * input_passes + n) * (1 - third / (rows * k))
    # Each has half of 4 TB/s; they come one after the other, each with latency and landing.
    fill = 100e-9 + 1.5e-9 + 2048 / 4e12
    off_chip = (weights + activations) / 2e12 + 2 * fill
    assert row["off_chip_s"] == pytest.approx(80 * off_chip, rel=1e-9)
    assert row["traffic_bytes"]["tier1"] == pytest.approx(80 * (weights + activations), rel=1e-9)
    compute = math.ceil(rows / 128) * k * n / 2048 / 1e9
    assert row["compute_s"] == pytest.approx(80 * compute, rel=1e-12)
    keys = operator("attention_qk", "prefill", dataflow, profile="memexplorer")
    once = 80 * rows * (1024 + 8192)  # keys, queries
    assert 0 < keys["traffic_bytes"]["tier1"] < once


def test_the_vector_unit_reads_and_writes_two_bytes_for_each_operation():
    row = operator("softmax", "prefill", profile="memexplorer")
    told = evaluator("prefill", profile="memexplorer")
    table = told.pass_.all_operators
    operations = float((table.vector_ops_per_request * table.count)[table.is_softmax].sum())
    assert row["traffic_bytes"]["on_chip"] == pytest.approx(4 * operations, rel=1e-9)
    assert row["vector_s"] == pytest.approx(4 * operations / 4e12, rel=1e-9)


def test_a_prefill_operator_of_base_worked_out_by_hand():
    # Down projection of 90,000 rows, profile plain: half of 256 MB for tiles, output stationary.
    row = operator("down_projection", "prefill", profile="plain")
    rows = 90_000
    k = 28_672
    n = 8_192
    cycles = math.ceil(rows / 128) * (k // 2048) * (n // 128) * 128
    assert row["compute_s"] == pytest.approx(80 * cycles / 1e9, rel=1e-12)
    # 128 MB of 4-byte sums are blocks of 5656 x 5656: 16 of rows, 2 of columns.
    side = math.sqrt(128e6 / 4)
    row_blocks, column_blocks = math.ceil(rows / side), math.ceil(n / side)
    assert (row_blocks, column_blocks) == (16, 2)
    # The other half holds a third of each kind of data; weights at hand are re-read from there.
    third = 128e6 / 3
    weights = k * n * (1 + (1 - third / (k * n)) * (row_blocks - 1))
    spilled = 1 - third / (rows * (k + n))
    activations = (rows * k * column_blocks + rows * n) * spilled
    assert row["traffic_bytes"]["tier1"] == pytest.approx(80 * (weights + activations), rel=1e-9)
    slowest = activations / 2e12 + 100e-9 + 1.5e-9 + 2048 / 4e12  # of the first column
    assert row["off_chip_s"] == pytest.approx(80 * slowest, rel=1e-9)
    # Output stationary, the array streams the weights once per 128 rows and the inputs once per
    # 128 columns; the port of the die, which also takes what comes from the tier, is the limit.
    streamed = k * n * math.ceil(rows / 128) + rows * k * (n // 128) + rows * n
    on_chip = (streamed + weights + activations) / 4e12 + 1.5e-9
    assert row["on_chip_s"] == pytest.approx(80 * on_chip, rel=1e-9)
    assert row["time_s"] == row["on_chip_s"]
    assert row["bound"] == "on-chip port"


@pytest.mark.parametrize(
    ("priority", "share"), [("matrix", 0.75), ("equal", 0.5), ("vector", 0.25)]
)
def test_weights_and_activations_have_the_shares_of_the_bandwidth_priority(priority, share):
    # MemExplorer Table 4: 1.5 of 2 TB/s for the weights, or 0.5.
    base = dict(SPACE.columns(SPACE.encode(SPACE.designs["Base"])))
    base["bandwidth_priority"] = column_of([priority])
    rows = 90_000
    k = 28_672
    n = 8_192
    third = 128e6 / 3
    weights = k * n * (1 + (1 - third / (k * n)) * 15)
    activations = (rows * k * 2 + rows * n) * (1 - third / (rows * (k + n)))
    streams = [weights / (share * 4e12), activations / ((1 - share) * 4e12)]
    fill = 100e-9 + 1.5e-9 + 2048 / 4e12
    told = evaluator("prefill", profile="plain").explain(base)
    row = next(row for row in told.operators if row["name"] == "down_projection")
    assert row["off_chip_s"] == pytest.approx(80 * (max(streams) + fill), rel=1e-9)


def test_violations_are_relative_excess_over_capacity_and_edge():
    columns = SPACE.columns(np.concatenate([SPACE.encode(d) for d in SPACE.designs.values()]))
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode", batch=4)
    result = NpuEvaluator(request).evaluate(columns)
    metric = result.metrics
    weights, per_request = 70_553_706_496, 98_000 * 2 * 80 * 8 * 128  # one byte each
    used = weights + 4 * per_request
    assert metric["memory_used_bytes"].tolist() == [used] * 8
    capacity = metric["memory_capacity_bytes"]
    assert capacity[:3].tolist() == [96.256e9, 99e9, 227e9]
    np.testing.assert_allclose(result.violations["capacity"], used / capacity - 1)
    np.testing.assert_allclose(result.violations["shoreline"], metric["shoreline_mm"] / 66 - 1)
    # Base: four HBM3E of 11 mm; H3: two HBF of 8.25 mm more, and eight LPDDR5X of 4.1 mm, which
    # the space does not charge.
    assert metric["shoreline_mm"][[0, 3]] == pytest.approx([44.0, 60.5])
    assert metric["uncharged_shoreline_mm"][[0, 3]] == pytest.approx([0.0, 32.8])
    everything = {key: item for key, item in columns.items() if key != "uncharged_edge"}
    charged = NpuEvaluator(request).evaluate(everything)
    assert charged.metrics["shoreline_mm"][[0, 3]] == pytest.approx([44.0, 93.3])
    assert (charged.violations["shoreline"] > 0).tolist() == [0, 0, 1, 1, 0, 1, 0, 1]


def test_an_explanation_tells_the_edge_that_is_not_charged():
    assumption = "the interfaces of LPDDR take none of the die edge reserved for memory"
    for name, edges in {"H2": [(0, 0), (44, 0), (0, 32.8)], "Base": [(0, 0), (44, 0)]}.items():
        design = SPACE.columns(SPACE.encode(SPACE.designs[name]))
        account = evaluator("decode").explain(design)
        levels = [(row["shoreline_mm"], row["uncharged_shoreline_mm"]) for row in account.levels]
        assert np.array(levels) == pytest.approx(np.array(edges))
        assert (assumption in account.notes) == (name == "H2")


def test_the_edge_of_a_design_decided_in_part_is_known_exactly():
    columns = SPACE.columns(SPACE.sample(np.random.default_rng(0), 500))
    names = ["shoreline_mm", "uncharged_shoreline_mm"]
    undecided = {"dataflow": columns["dataflow"].values}
    rest = drop_keys(columns, undecided)
    npu = evaluator("decode")
    bounds, metrics = npu.best_case(rest, undecided, names), npu.evaluate(columns, names).metrics
    for name in names:
        assert bounds[name].tolist() == metrics[name].tolist()
        assert bounds[name].max() > 0


def test_an_operator_bound_by_the_array_exposes_its_first_chunk():
    # Scores in prefill: the array starts with a key of 128 elements in each of 2048 / 128 slots;
    # padded, with 128 of them in each.
    for work, columns in (("proportional", 1), ("padded", 128)):
        row = operator("attention_qk", "prefill", dataflow="ws", work=work, score_path="uncharged")
        _check_first_chunk(row, 128 * 16 * columns)


def _check_first_chunk(row, tile):
    first_chunk = (1.5e-9 + tile / 4e12) + (100e-9 + tile / 4e12)
    assert row["bound"] == "compute"
    assert row["time_s"] - row["compute_s"] == pytest.approx(80 * first_chunk, rel=1e-3)


def test_on_chip_memory_is_shared_like_water_poured_into_vessels():
    rng = np.random.default_rng(0)
    n = 400
    needs = rng.integers(0, 100, (3, n)).astype(float)
    capacity = rng.integers(0, 250, n).astype(float)
    priority = rng.integers(0, 4, n)
    given = np.stack(onchip_bytes(tuple(needs), capacity, priority))
    for i in range(n):
        need, left, expected = needs[:, i], capacity[i], np.zeros(3)
        if priority[i] < 3:
            expected[priority[i]] = min(need[priority[i]], left)
            left -= expected[priority[i]]
        others = [kind for kind in range(3) if kind != priority[i]]
        level = water_level(need[others], left)
        expected[others] = np.minimum(need[others], level)
        np.testing.assert_allclose(given[:, i], expected, atol=1e-9)


def water_level(needs, amount):
    low = 0.0
    high = 1e3
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(needs, middle).sum() < amount else (low, middle)
    return high


def test_bytes_fill_the_tiers_one_after_the_other_nearest_first():
    rng = np.random.default_rng(0)
    n = 300
    sizes = rng.integers(1, 30, (3, n)).astype(float)
    tiers = rng.integers(1, 40, (3, n)).astype(float)
    tiers[2, rng.random(n) < 0.4] = 0.0
    tiers[1:, rng.random(n) < 0.3] = 0.0
    priority = rng.integers(0, len(PRIORITIES), n)
    tails = np.ones((3, 3, n))
    tails[:, 1:] = tier_tails(
        (sizes[0], sizes[1], sizes[2]), (tiers[0], tiers[1], tiers[2]), priority
    )
    # After the preferred kind: activations, then weights, then the KV cache; weights last of all
    # where what is written comes first.
    orders = {0: [0, 2, 1], 1: [1, 0, 2], 2: [2, 0, 1], 4: [0, 1, 2]}
    for i in range(n):
        last = int(np.flatnonzero(tiers[:, i])[-1])
        ends = np.cumsum(tiers[: last + 1, i])

        def tier_of(byte, ends=ends, last=last):
            return min(int(np.searchsorted(ends, byte, side="right")), last)

        total = int(sizes[:, i].sum())
        if priority[i] == PRIORITIES.index("equal"):
            lives = {kind: [tier_of(byte) for byte in range(total)] for kind in range(3)}
        else:
            lives, start = {}, 0
            for kind in orders[int(priority[i])]:
                stop = start + int(sizes[kind, i])
                lives[kind] = [tier_of(byte) for byte in range(start, stop)]
                start = stop
        for kind, tier in ((kind, tier) for kind in range(3) for tier in range(3)):
            deeper = np.mean([where >= tier for where in lives[kind]])
            assert tails[kind, tier, i] == pytest.approx(deeper, abs=1e-12)


def loads_of_an_array(m, k, n, depth, row_tile, column_tile, dataflow):
    """Elements of weights and inputs that enter the array, and sums that are put back."""
    weights = inputs = sums = 0
    if dataflow == "os":
        for i in range(0, m, row_tile):
            for j in range(0, n, column_tile):
                inputs += min(row_tile, m - i) * k
                weights += k * min(column_tile, n - j)
        return weights, inputs, sums
    kept, tile, streamed = (n, column_tile, m) if dataflow == "ws" else (m, row_tile, n)
    for inner in range(0, k, depth):
        for block in range(0, kept, tile):
            deep, wide = min(depth, k - inner), min(tile, kept - block)
            own, other = deep * wide, streamed * deep
            weights += own if dataflow == "ws" else other
            inputs += other if dataflow == "ws" else own
            sums += streamed * wide if inner else 0
    return weights, inputs, sums


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("organization", ORGANIZATIONS)
@pytest.mark.parametrize(
    ("m", "k", "n", "depth", "width"),
    [(8, 16, 12, 4, 4), (9, 17, 13, 4, 4), (1, 64, 5, 16, 8), (100, 3, 70, 16, 8)],
)
def test_the_array_streams_what_a_loop_over_its_tiles_loads(
    dataflow, slots, organization, m, k, n, depth, width
):
    # The sums that stay in a systolic grid are as many rows as it is deep.
    row_tile = depth if (organization, dataflow) == ("systolic", "os") else width
    weights, inputs, sums = loads_of_an_array(m, k, n, depth, row_tile, slots * width, dataflow)
    codes = np.array([[DATAFLOWS.index(dataflow)]]), np.array([[ORGANIZATIONS.index(organization)]])
    sizes = (np.array([[float(size)]]) for size in (m, k, n, depth, width))
    passes = array_passes(*sizes, *codes, np.array([[float(slots)]]))
    elements = (k * n, m * k, m * n)
    streamed = [times.item() * many for times, many in zip(passes, elements, strict=True)]
    assert streamed == [weights, inputs, sums]


def room(size):
    """This many bytes for tiles."""
    return np.array([[size]])


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_an_operand_that_fits_whole_is_read_once(dataflow):
    code = np.array([[DATAFLOWS.index(dataflow)]])
    small, large = np.array([[10.0]]), np.array([[1000.0]])
    for weights, inputs in ((small, large), (large, small)):
        passes = blocked_passes(
            np.array([[50.0]]), np.array([[40.0]]), weights, inputs, room(40.0), code
        )
        assert [times.item() for times in passes] == [1.0, 1.0]


def test_a_stationary_operand_is_read_once_and_the_other_once_per_block():
    sizes = [np.array([[size]]) for size in (100.0, 100.0, 450.0, 300.0)]
    expected = {"ws": (1.0, 5.0), "is": (3.0, 1.0)}  # blocks of 100 bytes
    for dataflow, times in expected.items():
        passes = blocked_passes(*sizes, room(100.0), np.array([[DATAFLOWS.index(dataflow)]]))
        assert tuple(item.item() for item in passes) == times


def test_on_chip_memory_pins_or_caches_whichever_saves_more():
    def read(passes, pinned, cache):
        values = (np.array(value) for value in (100.0, passes, pinned, cache))
        return float(read_off_chip_bytes(*values))

    assert read(1.0, 0.25, 100.0) == 75.0  # read once: only what is pinned is saved
    assert read(5.0, 0.25, 100.0) == 100.0  # read often: comes once, then from the cache
    assert read(5.0, 0.25, 50.0) == 300.0  # half of it stays: 1 + 4 / 2 times
    assert read(5.0, 1.0, 0.0) == 0.0


def test_staged_bytes_pass_every_level_above_their_own():
    # P1 in decode: HBM4 above HBF. What comes from HBF is written to HBM and read again.
    design = SPACE.columns(SPACE.encode(SPACE.designs["P1"]))
    staged, direct = (
        {
            row["name"]: (row["read_bytes"], row["written_bytes"])
            for row in evaluator("decode", topology=topology, batch="capacity")
            .explain(design)
            .levels
        }
        for topology in ("staged", "parallel")
    )
    (near_read, near_written), (far_read, far_written) = staged["tier1"], staged["tier2"]
    assert far_read > 0 and far_written > 0
    moved = near_read - far_written, near_written - far_read
    # Side by side, what a tier does not own it neither reads nor writes.
    assert moved == pytest.approx(np.add(direct["tier1"], direct["tier2"]), rel=1e-9)
    assert staged["on_chip"] == pytest.approx(direct["on_chip"], rel=1e-12)


def test_a_metric_nobody_reports_is_named_with_the_nearest():
    base = SPACE.columns(SPACE.encode(SPACE.designs["Base"]))
    with pytest.raises(UnknownNameError, match="Did you mean 'tdp_watts'"):
        evaluator("prefill").evaluate(base, ["tdp_wats"])
    with pytest.raises(UnknownNameError, match="time_per_output_token_s"):
        evaluator("prefill").evaluate(base, ["time_per_output_token_s"])


def test_a_strategy_nobody_knows_is_named():
    base = dict(SPACE.columns(SPACE.encode(SPACE.designs["Base"])))
    base["dataflow"] = column_of(["oss"])
    with pytest.raises(UnknownNameError, match=r"unknown dataflow 'oss'\. Did you mean 'os'"):
        evaluator("prefill").evaluate(base)


def test_a_design_without_memory_is_a_violation_and_not_an_error():
    base = dict(SPACE.columns(SPACE.encode(SPACE.designs["Base"])))
    base["sram_dies"] = column_of([0])
    result = evaluator("prefill").evaluate(base)
    assert result.violations["levels"][0] > 0
    assert all(np.isfinite(values).all() for values in result.metrics.values())


def test_a_stated_power_replaces_the_modelled_one():
    base = dict(SPACE.columns(SPACE.encode(SPACE.designs["Base"])))
    base["stated_tdp_watts"] = column_of([123.0])
    assert evaluator("prefill").evaluate(base).metrics["tdp_watts"].tolist() == [123.0]


@pytest.mark.parametrize(("softmax", "cycles"), [("pipelined", 1), ("unpipelined", 3)])
def test_scores_of_an_indexer_go_through_the_pipeline_of_a_softmax(softmax, cycles):
    request = Request(
        model="deepseek-v3.2", phase="decode", prompt_tokens=32768, generated_tokens=1
    )
    options = NpuOptions.model_validate({"softmax": softmax})
    passed = NpuEvaluator(request, options).pass_
    position = passed.all_operators.names.index("index_scores")
    assert passed.lane_cycles_per_request[position] == cycles * 64 * 32769
