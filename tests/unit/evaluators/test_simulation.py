"""The simulation against closed forms, sums done by hand, and the evaluator's contract."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.base.columns import column_of
from codesign.evaluators.conformance import check_evaluator
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.evaluators.simulation import SimulationEvaluator, SimulationOptions
from codesign.models.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.models.machines.npu.traffic import array_passes, blocked_passes
from codesign.models.machines.simulation.events import Schedule
from codesign.models.machines.simulation.simulated_npu import SimulatedNpu, simulate
from codesign.models.machines.simulation.tiles import (
    OperatorWork,
    Steps,
    Tiling,
    step_ends,
    steps,
    tiles,
)
from codesign.models.memtech import Range, load_library
from codesign.models.workload import Request
from codesign.space import load_space

SPACE = load_space("memexplorer", {"memtech": load_library().catalog()})


def base(**changes):
    return SPACE.columns(SPACE.encode({**SPACE.designs["Base"], **changes}))


def machine(bandwidth, latency, own, **changes):
    return replace(
        SimulatedNpu(
            clock_hz=1.0,
            bandwidth_bytes_per_s=bandwidth,
            latency_s=latency,
            stream_share=(1.0, 1.0),
            has_one_port=False,
            is_staged=True,
            own=np.array([own] * 3),
            slowdowns=np.ones((3, len(own))),
        ),
        **changes,
    )


def only(n, **moved):
    """``n`` equal steps that move what is named, in all."""
    names = (
        "cycles", "active_cycles", "array_reads", "array_writes", "weight_reads", "kv_reads",
        "activation_reads", "kv_writes", "activation_writes",
    )  # fmt: skip
    return Steps(**{name: np.full(n, moved.get(name, 0.0) / n) for name in names})


GEMM = OperatorWork(
    n_products=1.0, rows=100.0, is_per_head=False, inner=70.0, columns=50.0,
    weight_bytes=3500.0, kv_bytes=0.0, n_requests=1.0, input_bytes=7000.0, output_bytes=5000.0,
    kv_written_bytes=0.0, sum_bytes=1.0, port_stationary_bytes=0.0, port_output_bytes=0.0,
    port_written_bytes=0.0, kv_written_elements=0.0, score_in_bytes=0.0, score_out_bytes=0.0,
    is_scored=False,
)  # fmt: skip
TILING = Tiling(
    depth=32.0, width=16.0, dataflow="ws", organization="flattened",
    on_chip_bytes=1e9, held_bytes=(0.0, 0.0, 0.0), pinned=(0.0, 0.0, 0.0), tile_bytes=512.0,
    is_padded=True, is_local=False,
)  # fmt: skip


_TAKE = ("on_chip", "matrix read")


# Events.


def test_a_resource_serves_one_at_a_time_in_order_of_arrival():
    schedule = Schedule(2)
    first = schedule.add(0, 2.0)
    late = schedule.add(0, 1.0, earliest_s=1.5)
    early = schedule.add(0, 1.0, earliest_s=1.0)
    after = schedule.add(1, 4.0, [(first, 0.5)])
    assert schedule.run() == 6.5
    assert [schedule.starts[i] for i in (first, early, late, after)] == [0.0, 2.0, 3.0, 2.5]


def test_transactions_that_wait_for_one_another_are_an_error():
    schedule = Schedule(1)
    schedule.add(0, 1.0)
    schedule._followers[0].append((0, 0.0))
    schedule._n_awaited[0] = 1
    with pytest.raises(RuntimeError, match="1 of 1 transactions wait for one another"):
        schedule.run()


# Closed forms.


def test_one_level_takes_its_bytes_over_its_bandwidth_and_its_latency():
    run = simulate(only(50, weight_reads=1000.0), machine([1e15, 4.0], [0.0, 7.0], [1.0]), True)
    assert run.time_s == pytest.approx(1000.0 / 4.0 + 7.0, rel=1e-12)


def test_two_levels_share_the_port_of_the_upper_one():
    # Steady (x1 + x2) / B1 and x2 / B2; the first of 2000 steps fills the hierarchy.
    hardware = machine([1e15, 4.0, 1.0], [0.0, 0.0, 0.0], [0.74, 0.26])
    run = simulate(only(2000, weight_reads=1.0), hardware, True)
    assert run.time_s == pytest.approx(0.315, rel=2e-3)


def test_a_level_that_owns_nothing_takes_no_time():
    deep = machine([1e15, 4.0, 1e-6], [0.0, 1.0, 50.0], [1.0, 0.0])
    alone = machine([1e15, 4.0], [0.0, 1.0], [1.0])
    moved = only(20, weight_reads=100.0, activation_writes=10.0)
    assert simulate(moved, deep, True).time_s == simulate(moved, alone, True).time_s


def test_interfaces_side_by_side_take_the_slowest_of_them():
    hardware = machine([1e15, 4.0, 1.0], [0.0, 0.5, 2.0], [0.6, 0.4], is_staged=False)
    run = simulate(only(1, weight_reads=100.0), hardware, True)
    assert run.time_s == pytest.approx(max(60.0 / 4.0 + 0.5, 40.0 / 1.0 + 2.0), rel=1e-12)


def test_infinite_bandwidth_leaves_the_compute():
    hardware = machine([1e30, 1e30], [0.0, 0.0], [1.0])
    run = simulate(only(30, cycles=600.0, weight_reads=1e3, array_reads=1e4), hardware)
    assert run.time_s == pytest.approx(600.0, rel=1e-12)


def test_compute_and_transfers_overlap_but_for_the_first_and_last_step():
    hardware = machine([1e30, 1.0], [0.0, 0.0], [1.0])
    run = simulate(only(100, cycles=500.0, weight_reads=1000.0), hardware)
    assert run.time_s == pytest.approx(1000.0 + 5.0, rel=1e-9)
    run = simulate(only(100, cycles=1000.0, weight_reads=500.0), hardware)
    assert run.time_s == pytest.approx(1000.0 + 5.0, rel=1e-9)


def test_one_landing_buffer_cannot_hide_the_array():
    # With a single buffer the next step's bytes set off when the array has taken this one's.
    hardware = machine([1.0, 1.0], [0.0, 0.0], [1.0], landing_steps=1)
    run = simulate(only(100, weight_reads=100.0, array_reads=100.0), hardware)
    assert run.time_s == pytest.approx(300.0, rel=1e-9)
    double = simulate(
        only(100, weight_reads=100.0, array_reads=100.0), replace(hardware, landing_steps=2)
    )
    assert double.time_s == pytest.approx(201.0, rel=0.02)


def test_the_array_takes_operands_for_two_steps_at_most():
    moved = only(9, cycles=90.0, weight_reads=9.0, array_reads=9.0)
    run = simulate(moved, machine([1e3, 1e3], [0.0, 0.0], [1.0]), keeps_transactions=True)
    worked = {item.step: item.end_s for item in run.transactions if item.activity == "work"}
    taken = [item for item in run.transactions if (item.resource, item.activity) == _TAKE]
    assert len(taken) == 9
    assert all(item.start_s >= worked[item.step - 2] for item in taken if item.step > 1)


def test_streams_of_fixed_shares_overlap_and_those_of_one_port_take_turns():
    shares = machine([1e30, 4.0], [0.0, 0.0], [1.0], stream_share=(0.75, 0.25))
    moved = only(100, weight_reads=300.0, activation_reads=50.0)
    assert simulate(moved, shares, True).time_s == pytest.approx(300.0 / 3.0)
    turns = replace(shares, has_one_port=True)
    run = simulate(moved, turns, True, keeps_transactions=True)
    assert run.time_s == pytest.approx(300.0 / 3.0 + 50.0 / 1.0)
    named = [
        {item.resource for item in each.transactions if "tier" in item.resource}
        for each in (simulate(moved, shares, True, keeps_transactions=True), run)
    ]
    assert named == [{"tier1 matrix", "tier1 vector"}, {"tier1"}]


# Conservation.


def test_what_leaves_a_level_is_what_it_owns_and_what_came_from_below():
    hardware = machine([9.0, 4.0, 2.0, 1.0], [0.1, 0.2, 0.3, 0.4], [0.5, 0.3, 0.2])
    moved = only(
        7, weight_reads=70.0, activation_reads=30.0, activation_writes=40.0,
        cycles=5.0, array_reads=200.0, array_writes=60.0,
    )  # fmt: skip
    run = simulate(moved, hardware)
    up, down = [100.0, 50.0, 20.0, 0.0], [40.0, 20.0, 8.0, 0.0]
    # On chip: the array's own traffic, what lands from the tiers, what leaves for them.
    assert run.reads == pytest.approx([200.0 + down[0], *(up[i] + down[i + 1] for i in range(3))])
    assert run.writes == pytest.approx([60.0 + up[0], *(up[i + 1] + down[i] for i in range(3))])
    assert run.off_chip_bytes == pytest.approx(140.0)


def test_two_chunks_by_hand():
    # Two steps of 4 bytes, half of each from tier 1 (2 byte/s) and half from tier 2 (1 byte/s),
    # onto a port of 8 byte/s; each then keeps the array for one second.
    hardware = machine([8.0, 2.0, 1.0], [0.0, 0.0, 0.0], [0.5, 0.5])
    run = simulate(only(2, weight_reads=8.0, array_reads=16.0, cycles=2.0), hardware)
    # Tier 2 reads for 2 s, tier 1 takes it for 1 s and gives it for 1 s; the second step's half
    # left tier 2 at 4 s, so its landing on chip ends at 6.25 s. The array takes 8 bytes in 1 s.
    assert run.time_s == pytest.approx(2 + 2 + 1 + 1 + 0.25 + 1 + 1)
    assert run.reads.tolist() == [16.0, 8.0, 4.0]
    assert run.writes.tolist() == [8.0, 4.0, 0.0]
    # Energy of each transaction at 1, 10 and 100 to read and 2, 20 and 200 to write a byte.
    joules = run.reads @ [1.0, 10.0, 100.0] + run.writes @ [2.0, 20.0, 200.0]
    assert joules == 16 * 1 + 8 * 10 + 4 * 100 + 8 * 2 + 4 * 20


def test_a_run_repeats_itself():
    hardware = machine([9.0, 4.0, 2.0], [0.1, 0.2, 0.3], [0.5, 0.5])
    moved = only(40, weight_reads=70.0, activation_reads=30.0, cycles=9.0, array_reads=90.0)
    one, two = (simulate(moved, hardware, keeps_transactions=True) for _ in range(2))
    assert one.time_s == two.time_s
    assert one.transactions == two.transactions


# Tiles.


HEAD = replace(GEMM, is_per_head=True, inner=9.0)
"""Three columns of nine fit into a depth of 32."""


@pytest.mark.parametrize(("work", "slots"), [(GEMM, 1.0), (HEAD, 3.0)])
@pytest.mark.parametrize("organization", ORGANIZATIONS)
@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_counted_visits_stream_what_the_closed_form_says(work, slots, organization, dataflow):
    got = steps(work, replace(TILING, dataflow=dataflow, organization=organization), 1000)
    codes = np.array([[DATAFLOWS.index(dataflow)]]), np.array([[ORGANIZATIONS.index(organization)]])
    near = array_passes(
        np.array([[100.0]]), np.array([work.inner]), np.array([50.0]), np.array([[32.0]]),
        np.array([[16.0]]), *codes, np.array([[1.0 if organization == "systolic" else slots]]),
    )  # fmt: skip
    stationary, inputs, spills = (float(np.asarray(item).ravel()[0]) for item in near)
    sums = 4.0 * 5000.0 * spills
    assert got.array_reads.sum() == pytest.approx(3500 * stationary + 7000 * inputs + sums)
    assert got.array_writes.sum() == pytest.approx(5000 + sums)


def test_a_visit_of_a_flattened_array_takes_a_cycle_for_each_column_of_its_block():
    got = steps(GEMM, TILING, 1000)
    assert got.cycles == pytest.approx([16.0] * (7 * 3 * 4))
    # Of a head, 48 positions are worked on in the same time.
    assert steps(HEAD, TILING, 1000).cycles == pytest.approx([16.0] * (7 * 1 * 2))


@pytest.mark.parametrize(
    ("dataflow", "fold", "n_folds"),
    [
        # Loading and draining the 32 x 16 grid takes 2 R + C - 2 = 78 cycles; sums that leave as
        # they are finished take 32 less.
        ("ws", [78 + 16, 16, 16, 16, 16, 16, 4], 3 * 4),
        ("is", [78 + 16, 16, 16, 2], 7 * 3),
        ("os", [46 + 32, 32, 6], 4 * 4),
    ],
)
def test_the_visits_of_a_systolic_fold_load_the_grid_and_stream_past_it(dataflow, fold, n_folds):
    got = steps(GEMM, replace(TILING, dataflow=dataflow, organization="systolic"), 1000)
    assert got.cycles == pytest.approx(fold * n_folds)


def test_an_ideal_array_works_in_every_cycle():
    got = steps(GEMM, replace(TILING, organization="ideal"), 1000)
    assert got.cycles.sum() == pytest.approx(100 * 70 * 50 / (32 * 16))


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_counted_blocks_come_from_off_chip_as_often_as_the_closed_form_says(dataflow):
    got = steps(GEMM, replace(TILING, dataflow=dataflow, on_chip_bytes=2000.0), 1000)
    weight_passes, input_passes = blocked_passes(
        np.array([[100.0]]), np.array([50.0]), np.array([[3500.0]]), np.array([[7000.0]]),
        np.array([[1000.0]]), np.array([[DATAFLOWS.index(dataflow)]]),
    )  # fmt: skip
    assert got.weight_reads.sum() == pytest.approx(3500 * float(weight_passes[0, 0]))
    assert got.activation_reads.sum() == pytest.approx(7000 * float(input_passes[0, 0]))


def test_coarser_steps_move_the_same():
    work = replace(GEMM, rows=5000.0, input_bytes=350_000.0, output_bytes=250_000.0)
    fine, coarse = steps(work, TILING, 10**6), steps(work, TILING, 20)
    assert len(coarse.cycles) < 60 < len(fine.cycles)
    for name, values in vars(fine).items():
        assert getattr(coarse, name).sum() == pytest.approx(values.sum())


def test_steps_begin_and_end_with_single_visits():
    sizes = np.diff(step_ends(1e6, 256), prepend=0.0)
    assert sizes[0] == pytest.approx(1.0)
    assert sizes[-1] == pytest.approx(1.0)
    assert len(sizes) < 300
    assert sizes.sum() == pytest.approx(1e6)


def test_tiles_cover_what_they_cut():
    assert tiles(70.0, 32.0).tolist() == [32.0, 32.0, 6.0]
    assert tiles(0.5, 4.0).tolist() == [0.5]


def test_bytes_at_first_use_come_in_the_first_sweep():
    tiling = replace(TILING, dataflow="os", is_paced=False)
    got = steps(GEMM, tiling, 1000)
    n = len(got.cycles)  # seven sweeps, one per tile of rows
    assert got.weight_reads[: n // 7].sum() == pytest.approx(3500.0)
    assert got.weight_reads.sum() == pytest.approx(3500.0)


# The evaluator.


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_evaluator_keeps_the_contract(phase):
    request = Request(
        model="llama-3-8b", phase=phase, prompt_tokens=64, generated_tokens=16, batch=2
    )
    evaluator = SimulationEvaluator(request, SimulationOptions(most_steps=8))
    designs = SPACE.columns(SPACE.sample(np.random.default_rng(1), 3))
    check_evaluator(evaluator, designs, n_single=2)


def gsm8k():
    request = Request(model="llama-3-8b", trace="gsm8k", phase="prefill")
    return SimulationEvaluator(request, SimulationOptions(most_steps=16))


def test_what_it_tells_in_advance_is_what_npu_has(monkeypatch):
    monkeypatch.setattr(
        "codesign.evaluators.simulation.simulation_evaluator.simulate", None
    )  # not needed
    evaluator = gsm8k()
    npu = NpuEvaluator(evaluator.workload)
    rows = SPACE.sample(np.random.default_rng(2), 200)
    names = ["tdp_watts", "throughput_tokens_per_s", "energy_joules_per_token"]
    told, predicted = (
        [evaluator.features(SPACE.columns(part)), evaluator.predict(SPACE.columns(part), names)]
        for part in (rows, rows[::-1])
    )
    assert list(told[0]) == list(npu.features(SPACE.columns(rows)))
    assert list(told[1]) == names
    for name, values in npu.evaluate(SPACE.columns(rows), names).metrics.items():
        assert np.array_equal(told[1][name], values)
    for first, second in zip(told, predicted, strict=True):
        for name, values in first.items():
            assert np.isfinite(values).all()
            assert np.array_equal(values, second[name][::-1])


def test_a_memory_at_its_power_limit_waits():
    dear_write = Range(low=1e-9, typical=1e-9, high=1e-9)
    technologies = {
        name: item.model_copy(update={"write_energy": dear_write})
        for name, item in load_library().items()
    }
    request = Request(model="llama-3-8b", trace="gsm8k", phase="prefill")
    options = SimulationOptions(most_steps=16, fused=False)
    designs = base()
    cheap, dear = (
        SimulationEvaluator(request, options, library=library).explain(designs)
        for library in (None, technologies)
    )
    assert not any(row["bound"] == "power" for row in cheap.operators)
    for explanation in (cheap, dear):
        for row in explanation.power:
            assert row["average_watts"] <= row["tdp_watts"] * (1 + 1e-9)
    (waiting,) = (row for row in dear.operators if row["bound"] == "power")
    assert waiting["steps"] == 0
    level = waiting["name"].removeprefix("power_limit_of_")
    (power,) = (row for row in dear.power if row["name"] == level)
    assert power["average_watts"] == pytest.approx(power["tdp_watts"], rel=1e-9)


def test_predictions_are_near_what_is_simulated():
    evaluator = gsm8k()
    designs = SPACE.columns(SPACE.sample(np.random.default_rng(3), 30))
    names = ["tdp_watts", "throughput_tokens_per_s", "energy_joules_per_token"]
    predicted = evaluator.predict(designs, names)
    for name, values in evaluator.evaluate(designs, names).metrics.items():
        assert np.median(np.abs(predicted[name] / values - 1)) < 0.02


def decode_operator(library=None):
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
    evaluator = SimulationEvaluator(request, library=library)
    rows = evaluator.explain(base(tier1_stacks=1, sram_3d_layers=1)).operators
    return dict(next(row for row in rows if row["name"] == "down_projection"))


def by_hand():
    """Seconds and joules of the down projection, one HBM3E stack at half its bandwidth.

    With 1.256 GB on chip of which half is shared evenly: what the kinds hold is in the
    explanation; here it follows from the placement: activations need next to nothing.
    """
    weights = 28_672 * 8_192
    activations = 8_192 + 128_256
    pinned = (0.5 * 1.256e9 - activations) / 2 / 70_553_706_496
    off_chip = weights * (1.0 - pinned)
    seconds = off_chip / 0.5e12 + 100e-9
    on_chip = 28_672 * 64 + 8_192 + weights + off_chip
    memory = off_chip * 3e-12 * 8 + on_chip * 0.1e-12 * 8
    cycles = (28_672 / 2048) * (8_192 / 128) * 128
    array = cycles * 2048 * 128 * 0.722e-12 / 128  # one of 128 rows has data
    return seconds, memory + array


def test_time_and_energy_of_an_operator_worked_out_by_hand():
    row = decode_operator()
    seconds, joules = by_hand()
    assert row["time_s"] / 80 == pytest.approx(seconds, rel=3e-3)
    assert row["energy_joules"] / 80 == pytest.approx(joules, rel=1e-6)


def test_a_tenth_less_bandwidth_would_be_noticed():
    library = dict(load_library())
    rate = library["hbm3e_8h"].bandwidth
    slower = rate.model_copy(update={"typical": 0.9 * rate.typical})
    library["hbm3e_8h"] = library["hbm3e_8h"].model_copy(update={"bandwidth": slower})
    seconds, _ = by_hand()
    assert decode_operator(library)["time_s"] / 80 == pytest.approx(seconds / 0.9, rel=1e-2)


def test_read_and_write_energy_are_not_swapped():
    library = dict(load_library())
    stack = library["hbm3e_8h"]
    swapped = {"read_energy": stack.write_energy, "write_energy": stack.read_energy}
    library["hbm3e_8h"] = stack.model_copy(update=swapped)
    _, joules = by_hand()
    assert decode_operator(library)["energy_joules"] / 80 > 1.02 * joules


def test_finer_steps_converge():
    request = Request(
        model="llama-3-8b", phase="prefill", prompt_tokens=512, generated_tokens=64, batch=1
    )
    times = [
        SimulationEvaluator(request, SimulationOptions(most_steps=n))
        .evaluate(base(), ["time_to_first_token_s"])
        .metrics["time_to_first_token_s"][0]
        for n in (32, 128, 512)
    ]
    assert abs(times[1] / times[2] - 1.0) < 0.01
    assert abs(times[1] / times[2] - 1.0) <= abs(times[0] / times[2] - 1.0)


def test_simulation_and_closed_form_share_what_does_not_move():
    request = Request(model="llama-3-8b", trace="chat", phase="decode")
    names = ["batch_size", "tdp_watts", "memory_used_bytes", "shoreline_mm"]
    simulated = SimulationEvaluator(request).evaluate(base(), names).metrics
    closed = NpuEvaluator(request, NpuOptions()).evaluate(base(), names).metrics
    assert {name: simulated[name][0] for name in names} == {name: closed[name][0] for name in names}


def test_the_simulation_has_the_accuracy_of_the_closed_form():
    request = Request(model="llama-3-8b", trace="gsm8k", phase="decode", batch=1)
    names = ["accuracy_recovery", "accuracy_recovery_low"]
    evaluator = SimulationEvaluator(request, SimulationOptions(accuracy=True, most_steps=8))
    closed = NpuEvaluator(request, NpuOptions(accuracy=True)).evaluate(base(), names).metrics
    assert evaluator.evaluate(base(), names).metrics == closed
    assert evaluator.explain(base()).metrics["accuracy_recovery"] == closed["accuracy_recovery"][0]


def test_an_explanation_has_the_limits_of_the_evaluation():
    request = Request(model="llama-3-8b", trace="gsm8k", phase="decode", batch=1)
    designs = {**base(), "expert_parallel": column_of([8])}  # a dense model has one expert
    evaluator = SimulationEvaluator(request, SimulationOptions(most_steps=8))
    evaluated = evaluator.evaluate(designs, ["tdp_watts"]).violations
    assert evaluator.explain(designs).violations == {
        name: excess[0] for name, excess in evaluated.items()
    }
    assert evaluated["devices"][0] == 7.0
