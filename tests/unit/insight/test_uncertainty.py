"""Ranges of technologies: intervals, swings and shares against hand arithmetic."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from codesign import api
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import Metric
from codesign.base.records import drop_keys
from codesign.base.schema import Record
from codesign.evaluators.npu import NpuEvaluator, NpuOptions, npu_evaluator
from codesign.evaluators.npu.cost_metrics import COST_METRICS
from codesign.insight.uncertainty.limits_over_ranges import worst_excess
from codesign.insight.uncertainty.sweep import Sweep, draw, ranged_numbers
from codesign.insight.uncertainty.uncertainty import (
    _nearest,
    design_swings,
    design_uncertainty,
    front_spread,
    metric_quantiles,
)
from codesign.models.accounts.account_constants import CONSTANTS, constant_ranges
from codesign.models.memtech import Range, TechnologyLibrary, load_library
from codesign.models.memtech.technology import ACCOUNT_NUMBERS, NUMBERS
from codesign.models.workload import Request
from codesign.search.campaign import Campaign
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem
from codesign.space import load_space

LIBRARY = load_library()
REQUEST = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
OPTIONS = NpuOptions(profile="memexplorer")
ENERGIES = {"mac_energy_joules": 0.7e-12, "lane_energy_joules": 0.3e-12}
TYPICAL = {name: constant.typical for name, constant in constant_ranges("n7").items()}
STATED = NpuOptions(profile="memexplorer", constants=TYPICAL | ENERGIES)
"""With constants that are stated, and so do not vary."""
FEW = STATED.model_copy(
    update={"constants": {x: STATED.constants[x] for x in TYPICAL if x not in ENERGIES}}
)
"""With energies of an operation alone that vary."""


def only(**ranges):
    """The library without a range but those given, by technology and number."""
    changed = {}
    for key, item in LIBRARY.items():
        typical = {number: getattr(item, number).typical for number in NUMBERS}
        settled = {number: Range(low=x, typical=x, high=x) for number, x in typical.items()}
        for number, (low, middle, high) in ranges.get(key, {}).items():
            settled[number] = Range(low=low, typical=middle, high=high)
        changed[key] = item.model_copy(update=settled)
    return changed


def base(library, options=STATED):
    return api.evaluate(design="Base", evaluator=NpuEvaluator(REQUEST, options, library=library))


def quantile_of(share, low, middle, high):
    if share <= 0.5:
        return low + math.sqrt(2 * share) * (middle - low)
    return high - math.sqrt(2 * (1 - share)) * (high - middle)


def share_below(x, low, middle, high):
    if x <= middle:
        return ((x - low) / (middle - low)) ** 2 / 2
    return 1 - ((high - x) / (high - middle)) ** 2 / 2


HBM = (50e-12, 75e-12, 100e-12)  # W/B, MemExplorer Table 1
SRAM = (10e-9, 17.55e-9, 50e-9)
POWERS = {"hbm3e_8h": {"background_power": HBM}, "sram": {"background_power": SRAM}}


def test_the_interval_of_tdp_is_that_of_the_distribution():
    # Base: four stacks of 24 GB, so TDP = constant + 96 GB x background power.
    evaluated = base(only(hbm3e_8h={"background_power": HBM}))
    samples = 250
    found = design_uncertainty(evaluated, samples, seed=3).intervals["tdp_watts"]
    low, middle, high = HBM
    for share, got in ((0.05, found.p5), (0.5, found.median), (0.95, found.p95)):
        quantile = quantile_of(share, *HBM)
        nearest_end = min(quantile - low, high - quantile)
        density = 2 * nearest_end / ((high - low) * (high - middle))  # symmetric range
        error = 96e9 * math.sqrt(share * (1 - share) / samples) / density
        expected = evaluated.metrics["tdp_watts"] + 96e9 * (quantile - middle)
        assert got == pytest.approx(expected, abs=4 * error)
    assert found.n_values == samples


def test_corners_and_swings_of_tdp_are_those_worked_out_by_hand():
    # Base: 256 MB of SRAM and 96 GB of HBM3E.
    evaluated = base(only(hbm3e_8h={"background_power": HBM}, sram={"background_power": SRAM}))
    found = design_uncertainty(evaluated, 5)
    tdp = evaluated.metrics["tdp_watts"]
    sram = [0.256e9 * (end - SRAM[1]) for end in (SRAM[0], SRAM[2])]
    hbm = [96e9 * (end - HBM[1]) for end in (HBM[0], HBM[2])]
    largest, second = found.tornado["tdp_watts"]
    assert (largest.technology, largest.number) == ("sram", "background_power")
    assert [largest.at_low, largest.at_high] == pytest.approx([tdp + x for x in sram])
    assert largest.swing == pytest.approx(10.24)
    assert largest.relative_swing == pytest.approx(10.24 / tdp)
    assert (second.technology, second.swing) == ("hbm3e_8h", pytest.approx(4.8))
    assert [second.at_low, second.at_high] == pytest.approx([tdp + x for x in hbm])
    interval = found.intervals["tdp_watts"]
    assert interval.typical == tdp
    assert interval.minimum == pytest.approx(tdp + sram[0] + hbm[0])
    assert interval.maximum == pytest.approx(tdp + sram[1] + hbm[1])
    assert (interval.minimum_at, interval.maximum_at) == ("all low", "all high")
    assert interval.minimum <= interval.p5 <= interval.median <= interval.p95 <= interval.maximum


def test_a_metric_that_no_range_touches_has_no_width():
    found = design_uncertainty(base(only(sram={"background_power": SRAM})), 5)
    interval = found.intervals["throughput_tokens_per_s"]
    values = {interval.typical, interval.p5, interval.p95, interval.minimum, interval.maximum}
    assert len(values) == 1
    assert found.tornado["throughput_tokens_per_s"] == ()


def test_without_ranges_every_interval_has_no_width():
    energies = NpuOptions(profile="memexplorer", constants=ENERGIES)
    evaluated = base(only(), energies)
    found = design_uncertainty(evaluated, 3)
    assert {item.number for item in found.numbers} <= {*ACCOUNT_NUMBERS, *CONSTANTS}
    for name, value in evaluated.metrics.items():
        if name in COST_METRICS:
            continue
        interval = found.intervals[name]
        ends = (interval.p5, interval.median, interval.p95, interval.minimum, interval.maximum)
        assert (interval.typical, *ends) == (value,) * 6
        assert (interval.minimum_at, found.tornado[name]) == ("all typical", ())


def test_a_range_of_any_number_counts():
    # A user's file: the bandwidth of HBM3E is uncertain, and decode waits for it.
    bandwidth = (0.8e12, 1e12, 1.1e12)
    evaluated = base(only(hbm3e_8h={"bandwidth": bandwidth}))
    found = design_uncertainty(evaluated, 50)
    interval = found.intervals["offchip_bandwidth_bytes_per_s"]
    assert (interval.minimum, interval.typical, interval.maximum) == (3.2e12, 4e12, 4.4e12)
    (swing,) = found.tornado["throughput_tokens_per_s"]
    assert (swing.technology, swing.number) == ("hbm3e_8h", "bandwidth")
    typical = evaluated.metrics["throughput_tokens_per_s"]
    assert swing.at_low < typical < swing.at_high
    # No more than in proportion.
    assert 0.8 * typical <= swing.at_low
    assert swing.at_high <= 1.1 * typical


def test_the_share_of_draws_within_the_limits_follows_the_capacity():
    # 70.55 GB of weights and the KV cache of one request: Base has 96 GB plus its SRAM, of which
    # HBM3E with 24 GB a stack. Feasible where four stacks and 0.256 GB hold all that is used.
    evaluated = base(only(hbm3e_8h={"capacity": (15e9, 24e9, 25e9)}))
    needed = 70_553_706_496 + 98_000 * 2 * 80 * 8 * 128
    enough = (needed - 0.256e9) / 4
    share = 1 - share_below(enough, 15e9, 24e9, 25e9)
    samples = 200
    found = design_uncertainty(evaluated, samples).feasible_share
    assert 0.2 < share < 0.9
    assert found == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / samples))


def test_a_seed_gives_the_same_intervals_and_another_seed_others():
    evaluated = base(only(hbm3e_8h={"background_power": HBM}), FEW)
    first, again, other = (design_uncertainty(evaluated, 20, seed) for seed in (1, 1, 2))
    assert first == again
    assert first.intervals["tdp_watts"].p5 != other.intervals["tdp_watts"].p5


def test_half_of_the_draws_are_below_the_typical_value_and_numbers_are_independent():
    numbers = ranged_numbers(only(hbm3e_8h={"background_power": HBM}, sram={"read_energy": SRAM}))
    n = 40_000
    drawn = draw(numbers, n, 0)
    for number, values in zip(numbers, drawn.T, strict=True):
        low = number.low
        middle = number.typical
        high = number.high
        mean = (low + 4 * middle + high) / 6  # of either half a third from the middle to its end
        squares = ((middle - low) ** 2 + (high - middle) ** 2) / 12
        variance = squares - (mean - middle) ** 2
        assert np.mean(values < middle) == pytest.approx(0.5, abs=2 / math.sqrt(n))
        assert low <= values.min()
        assert values.max() <= high
        assert values.mean() == pytest.approx(mean, abs=4 * math.sqrt(variance / n))
        assert values.var() == pytest.approx(variance, rel=0.03)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 4 / math.sqrt(n)


def test_a_further_technology_does_not_change_the_draws_of_another():
    one = ranged_numbers(only(sram={"read_energy": SRAM}))
    two = ranged_numbers(only(hbm3e_8h={"read_energy": HBM}, sram={"read_energy": SRAM}))
    assert [str(number) for number in two] == ["hbm3e_8h read energy", "sram read energy"]
    assert (draw(one, 10, 5)[:, 0] == draw(two, 10, 5)[:, 1]).all()


def test_other_technologies_give_what_building_with_them_gives():
    space = load_space("memexplorer", {"memtech": LIBRARY.catalog()})
    designs = space.columns(space.sample(np.random.default_rng(0), 200))
    changed = only(sram={"bandwidth": (1e12, 2e12, 3e12)})
    npu = NpuEvaluator(REQUEST, OPTIONS)
    assert npu.offers("replace_library")
    before = npu.evaluate(designs).metrics
    exchanged = npu.replace_library(changed).evaluate(designs).metrics
    built = NpuEvaluator(REQUEST, OPTIONS, library=changed).evaluate(designs).metrics
    assert (exchanged["tdp_watts"] != before["tdp_watts"]).any()
    for name, values in built.items():
        assert (values == exchanged[name]).all()
        assert (npu.evaluate(designs).metrics[name] == before[name]).all()


SPACE = """\
parameters:
  kind: [own, shifted, fixed, stuck, paired]
"""


class Toy(Evaluator):
    """``own`` costs the read energy of HBM3E, ``shifted`` 1 more, ``fixed`` always 25."""

    class Workload(Record):
        pass

    class Options(Record):
        pass

    metrics = (
        Metric("cost", "minimize", "", "to pay"),
        Metric("gain", "maximize", "", "to have"),
    )
    required_parameters = frozenset({"kind"})
    optional_parameters = frozenset()

    def __init__(self, library):
        self._library = library

    def technologies(self):
        return self._library

    def replace_library(self, library):
        return Toy(library)

    def known_violations(self, designs):
        return {}

    def evaluate(self, designs, metrics=None):
        hbm, sram = (self._library[key].read_energy.typical for key in ("hbm3e_8h", "sram"))
        written = self._library["hbm3e_8h"].write_energy.typical
        costs = {"own": hbm, "shifted": hbm + 1, "fixed": 25.0, "stuck": hbm - sram}
        costs["paired"] = hbm + written - sram
        gains = {"own": 1.0, "shifted": 1.0, "fixed": 2.0, "stuck": 0.0, "paired": 0.0}
        found = {
            "cost": designs["kind"].lookup(costs.get),
            "gain": designs["kind"].lookup(gains.get),
        }
        return Evaluation(found)

    def provenance(self):
        return {}


def _stranger():
    """The toy without technologies."""
    absent = {"technologies", "replace_library"}
    kept = drop_keys(vars(Toy), absent)
    return type("Stranger", (Evaluator,), kept)(only())


RANGE = (10.0, 20.0, 50.0)


@pytest.fixture
def toy(tmp_path):
    """A function: the toy's problem with ranges and constraints."""
    path = tmp_path / "kinds.yaml"
    path.write_text(SPACE)
    space = load_space(str(path), {})

    def build(constraints=(), **ranges):
        evaluator = Toy(only(**ranges))
        return build_problem(space, evaluator, ["minimize cost", "maximize gain"], constraints)

    return build


def rows_of(problem, *kinds):
    return np.concatenate([problem.space.encode({"kind": kind}) for kind in kinds])


def test_the_share_on_the_front_is_the_probability_of_not_being_dominated(toy):
    # fixed has the larger gain, so own stays as long as it is cheaper.
    problem = toy(hbm3e_8h={"read_energy": RANGE})
    samples = 1500
    spread = front_spread(problem, rows_of(problem, "own", "fixed"), (), samples, seed=7)
    shares = spread.non_dominated_share
    feasible = spread.feasible_share
    share = share_below(25.0, *RANGE)
    assert shares[0] == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / samples))
    assert shares[1] == 1.0
    assert feasible.tolist() == [1.0, 1.0]
    drawn = draw(ranged_numbers(problem.evaluator.technologies()), samples, 7)
    assert shares[0] == np.mean(drawn[:, 0] < 25)


def test_one_draw_holds_for_all_designs(toy):
    problem = toy(hbm3e_8h={"read_energy": RANGE})
    spread = front_spread(problem, rows_of(problem, "own", "shifted"), (), 200)
    assert spread.non_dominated_share.tolist() == [1.0, 0.0]


def test_constraints_follow_the_draw(toy):
    # Without the constraint fixed would never leave the front; with it, own is alone below 22.
    problem = toy(["cost <= 22"], hbm3e_8h={"read_energy": RANGE})
    samples = 1500
    spread = front_spread(problem, rows_of(problem, "own", "fixed"), (), samples)
    shares = spread.non_dominated_share
    feasible = spread.feasible_share
    share = share_below(22.0, *RANGE)
    assert shares[0] == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / samples))
    assert feasible[0] == shares[0]
    assert shares[1] == feasible[1] == 0.0


def test_the_worst_ends_decide_whether_a_limit_is_always_kept(toy):
    # own costs what read energy is, 10 to 50; fixed is 25 whatever it is.
    problem = toy(["cost <= 40"], hbm3e_8h={"read_energy": RANGE})
    worst = worst_excess(problem, rows_of(problem, "own", "fixed"))
    assert worst.excess == pytest.approx([50.0 / 40.0 - 1.0, 25.0 / 40.0 - 1.0])
    assert set(worst.limits) == {"cost <= 40"}


def test_each_design_and_limit_has_its_own_worst_ends(toy):
    # stuck costs the read energy of HBM less that of SRAM: the worst ends are opposite ones.
    ranges = {"hbm3e_8h": {"read_energy": RANGE}, "sram": {"read_energy": (1.0, 2.0, 3.0)}}
    problem = toy(["cost <= 40", "gain >= 0.5"], **ranges)
    kinds = ("own", "stuck", "fixed")
    worst = worst_excess(problem, rows_of(problem, *kinds))
    for kind, excess in zip(kinds, worst.excess, strict=True):
        evaluated = api.evaluate(
            space=problem.space, design={"kind": kind}, evaluator=problem.evaluator
        )
        intervals = design_uncertainty(evaluated, 1).intervals
        cost = intervals["cost"].maximum
        gain = intervals["gain"].minimum
        assert excess == pytest.approx(max(cost / 40.0 - 1.0, 1.0 - gain / 0.5))


def test_without_limits_none_is_broken(toy):
    problem = toy(hbm3e_8h={"read_energy": RANGE})
    assert worst_excess(problem, rows_of(problem, "own")).excess[0] == -np.inf


def test_a_cost_limit_holds_over_all_draws_where_it_holds_at_worst():
    space = api.load_space("memexplorer")
    rows = _rows_of(space, "Base", "P1", "D1")
    limits = ["unit_cost_usd <= 9000", "tdp_watts <= 800"]
    evaluator = NpuEvaluator(REQUEST, OPTIONS)
    problem = build_problem(space, evaluator, ["minimize tdp_watts"], limits, "npu")
    worst = worst_excess(problem, rows)
    spread = front_spread(problem, rows, ["unit_cost_usd"], 20)
    assert (spread.feasible_share[worst.excess <= 0] == 1.0).all()
    assert 0 < (worst.excess <= 0).sum() < len(rows)
    assert (spread.intervals["unit_cost_usd"][:, 1] / 9000 - 1 < worst.excess).all()


def test_a_typical_value_lies_inside_its_interval_however_skewed_the_ranges_are():
    # As carbon, whose range reaches far above its typical value.
    skewed = {"embodied_carbon": (48e-12, 65e-12, 230e-12)}
    intervals = design_uncertainty(base(only(hbm3e_8h=skewed)), 80).intervals
    carbon = intervals["embodied_kgco2e"]
    assert carbon.median == pytest.approx(carbon.typical, rel=0.2)
    assert all(item.p5 <= item.typical <= item.p95 for item in intervals.values() if item.is_moved)


@pytest.mark.parametrize(
    "name",
    [
        "osworld-decode",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("osworld-prefill", "osworld-decode-density", "deepseek-decode-experts",
                         "osworld-decode-mixed", "deepseek-system", "system-osworld-price",
                         "system-afd", "system-early-late", "system-llada", "system-moe")
        ),
    ],
)  # fmt: skip
def test_numbers_of_a_shipped_campaign_lie_inside_their_intervals(name, tmp_path):
    problem = Campaign.load(name, tmp_path).problem
    rows = problem.space.sample(np.random.default_rng(0), 200)
    rows = rows[problem.admits(rows)][:5]
    values = problem.evaluate(rows).metrics
    names = [metric for metric in problem.metric_names if np.isfinite(values[metric]).all()]
    sweep = Sweep(problem, list(dict.fromkeys([*problem.deciding_metrics, *names])))
    quantiles = metric_quantiles(sweep, rows, names, (2, 98), 40)
    assert quantiles
    for metric, ends in quantiles.items():
        assert (ends[:, 0] <= values[metric]).all(), metric
        assert (values[metric] <= ends[:, 1]).all(), metric


def test_where_nothing_varies_the_front_is_always_the_front(toy):
    problem = toy()
    rows = rows_of(problem, "own", "shifted", "fixed")
    spread = front_spread(problem, rows, (), 3)
    on_front = non_dominated(problem.evaluate(rows).objectives)
    assert (spread.non_dominated_share == on_front).all()
    assert (spread.feasible_share == 1.0).all()


def test_the_extreme_corner_has_each_number_at_its_own_end(toy):
    problem = toy(hbm3e_8h={"read_energy": RANGE}, sram={"read_energy": (1.0, 2.0, 3.0)})
    evaluated = api.evaluate(
        space=problem.space, design={"kind": "stuck"}, evaluator=problem.evaluator
    )
    found = design_uncertainty(evaluated, 300)
    interval = found.intervals["cost"]
    assert (interval.minimum, interval.typical, interval.maximum) == (7.0, 18.0, 49.0)
    assert interval.minimum_at == "hbm3e_8h read energy low, sram read energy high"
    assert interval.maximum_at == "hbm3e_8h read energy high, sram read energy low"
    assert interval.minimum < interval.p5 < interval.p95 < interval.maximum
    assert [swing.swing for swing in found.tornado["cost"]] == [40.0, 2.0]
    # The gain is zero, so a share of it says nothing; and nothing moves it.
    assert found.tornado["gain"] == ()


def test_a_number_that_is_best_at_its_typical_value_stays_there_in_a_corner(toy):
    # The cost falls with SRAM's read energy, whose low end is its typical value.
    problem = toy(
        hbm3e_8h={"read_energy": RANGE, "write_energy": RANGE},
        sram={"read_energy": (2.0, 2.0, 3.0)},
    )
    evaluated = api.evaluate(
        space=problem.space, design={"kind": "paired"}, evaluator=problem.evaluator
    )
    interval = design_uncertainty(evaluated, 1).intervals["cost"]
    assert interval.maximum == 50.0 + 50.0 - 2.0
    assert interval.maximum_at == "hbm3e_8h access energy high"


def test_of_many_designs_the_front_comes_first_then_the_feasible_by_distance():
    # The first is as near as can be, for it ties with the front in one objective.
    results = SimpleNamespace(
        objectives=np.array([[1.0, 2.0], [1.0, 1.0], [0.0, 0.0], [3.0, 3.0], [2.0, 2.0]]),
        feasible=np.array([True, True, False, True, True]),
    )
    distinct, front = np.arange(5), np.array([1])
    chosen = [_nearest(results, distinct, front, most).tolist() for most in range(1, 6)]
    assert chosen == [[1], [0, 1], [0, 1, 4], [0, 1, 3, 4], [0, 1, 2, 3, 4]]
    # (1.5, 1.25) is dominated by (1, 1) until both sink by 0.25; (3, 3) until they sink by 2.
    results.objectives = np.array([[0.0, 2.0], [1.0, 1.0], [2.0, 0.0], [3.0, 3.0], [1.5, 1.25]])
    results.feasible = np.full(5, True)
    assert _nearest(results, distinct, np.arange(3), 4).tolist() == [0, 1, 2, 4]


def test_an_evaluator_without_technologies_is_refused_in_one_line(toy):
    problem = dataclasses.replace(toy(), evaluator=_stranger(), evaluator_name="mine")
    with pytest.raises(InputError, match="evaluator 'mine' has no technologies") as caught:
        front_spread(problem, rows_of(problem, "own"), (), 3)
    assert len(caught.value.problems) == 1
    evaluated = api.evaluate(
        space=problem.space, design={"kind": "own"}, evaluator=problem.evaluator
    )
    with pytest.raises(InputError, match="has no technologies with ranges to vary"):
        design_uncertainty(evaluated, 3)


@pytest.mark.parametrize(
    ("samples", "seed", "message"),
    [
        (0, 0, "expected at least 1 sample, got 0"),
        (-3, 0, "expected at least 1 sample, got -3"),
        (5, -1, "expected a seed of at least 0, got -1"),
    ],
)
def test_no_samples_and_a_negative_seed_are_refused(toy, samples, seed, message):
    problem = toy()
    with pytest.raises(InputError, match=f"^{message}$"):
        front_spread(problem, rows_of(problem, "own"), (), samples, seed)
    with pytest.raises(InputError, match=f"^{message}$"):
        design_uncertainty(base(only()), samples, seed)


def test_the_shipped_library_varies_only_what_its_sources_give_as_ranges():
    names = {str(number) for number in ranged_numbers(TechnologyLibrary(LIBRARY))}
    assert {"sram background power", "hbm4_12h background power"} <= names
    assert "lpddr6 access energy" in names  # of reads and writes together
    assert not {"lpddr6 capacity", "lpddr6 read energy", "lpddr6 write energy"} & names


def test_the_energy_of_a_mac_moves_tdp_by_all_macs_at_once_and_shrinks_with_its_range(monkeypatch):
    # Base: 2048 x 128 MACs of 8 bits at 1 GHz, and 2048 lanes of six stages.
    all_rows = OPTIONS.model_copy(update={"work": "padded"})
    evaluated = api.evaluate(design="Base", evaluator=NpuEvaluator(REQUEST, all_rows))
    ranges = dict(constant_ranges("n7"))
    macs, lanes = 2048 * 128 * 1e9, 2048 * 6 * 1e9

    def found():
        result = design_uncertainty(evaluated, 25)
        interval = result.intervals["tdp_watts"]
        swings = {swing.number: swing for swing in result.tornado["tdp_watts"]}
        return swings, interval.p95 - interval.p5

    swings, width = found()
    mac, lane = (ranges[f"{name}_energy_joules"] for name in ("mac", "lane"))
    typical = evaluated.metrics["tdp_watts"]
    swing = swings["mac_energy_joules"]
    assert swing.at_low == pytest.approx(typical - macs * (mac.typical - mac.low))
    assert swing.at_high == pytest.approx(typical + macs * (mac.high - mac.typical))
    assert swings["lane_energy_joules"].swing == pytest.approx(lanes * (lane.high - lane.low))
    assert max(swings, key=lambda name: swings[name].swing) == "mac_energy_joules"
    # Planted: no range, nor of what moves no TDP. Then the interval is that of memories and lanes.
    settled = mac.model_copy(update={"low": mac.typical, "high": mac.typical})
    planted = {name: ranges[name] for name in ranges if name in swings}
    planted["mac_energy_joules"] = settled
    monkeypatch.setattr(npu_evaluator, "constant_ranges", lambda process: planted)
    swings, narrow = found()
    assert "mac_energy_joules" not in swings
    assert 0 < narrow < 0.3 * width


def test_energies_move_no_speed_and_every_metric_that_they_move_is_known():
    energies = [dict.fromkeys(ENERGIES, value) for value in (0.1e-12, 2e-12)]
    for phase in ("prefill", "decode"):
        request = Request(model="llama-3.3-70b", trace="osworld", phase=phase)
        few, many = (
            api.evaluate(
                design="D1",
                evaluator=NpuEvaluator(request, NpuOptions(constants=values)),
            ).metrics
            for values in energies
        )
        moved = {name for name, value in few.items() if many[name] != value}
        assert moved <= npu_evaluator.POWER_METRICS | set(COST_METRICS)
        power = npu_evaluator.POWER_METRICS - {
            "dynamic_joules_per_token", "energy_joules_per_request"  # of pools and systems
        }  # fmt: skip
        assert power <= moved


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_ranges_of_energies_move_no_throughput(phase):
    # A byte written takes the same multiple of one read at all ends, so no memory waits for power.
    evaluator = NpuEvaluator(Request(model="llama-3.3-70b", trace="osworld", phase=phase))
    space = api.load_space("memexplorer")
    problem = build_problem(space, evaluator, ["minimize tdp_watts"], (), "npu")
    rows = space.sample(np.random.default_rng(5), 100)
    for swings in design_swings(problem, rows, ["throughput_tokens_per_s"]):
        moving = [item for item in swings["throughput_tokens_per_s"] if item.relative_swing > 1e-12]
        assert {(item.technology, item.number) for item in moving} <= {("hbf", "latency")}


def _rows_of(space, *names):
    return np.concatenate([space.encode(space.designs[name]) for name in names])


def _of_powers():
    evaluator = NpuEvaluator(REQUEST, FEW, library=only(**POWERS))
    space = api.load_space("memexplorer")
    return build_problem(space, evaluator, ["minimize tdp_watts"], (), "npu")


def test_writes_are_as_far_along_their_range_as_reads():
    ranges = {"read_energy": (2e-11, 3e-11, 5e-11), "write_energy": (4e-11, 5e-11, 6e-11)}
    evaluated = base(only(hbm3e_8h=ranges))
    sweep = Sweep.single(evaluated)
    (place,) = [i for i, item in enumerate(sweep.numbers) if item.number == "access_energy"]
    for reads, writes in ((2e-11, 4e-11), (3e-11, 5e-11), (4e-11, 5.5e-11), (5e-11, 6e-11)):
        values = sweep.typical.copy()
        values[place] = reads
        memory = sweep.evaluator_at(values).technologies()["hbm3e_8h"]
        assert memory.read_energy.typical == reads
        assert memory.write_energy.typical == pytest.approx(writes)


def test_the_swings_of_many_designs_are_those_of_each_alone():
    problem = _of_powers()
    names = ("Base", "D1")
    rows = _rows_of(problem.space, *names)
    metrics = ["tdp_watts", "throughput_tokens_per_s"]
    found = design_swings(problem, rows, metrics)
    for name, swings in zip(names, found, strict=True):
        alone = design_uncertainty(
            api.evaluate(design=name, evaluator=problem.evaluator), 1
        ).tornado
        assert swings == {metric: alone[metric] for metric in metrics}
    assert all(swings["tdp_watts"] for swings in found)


def test_the_intervals_of_many_designs_are_those_of_each_alone():
    problem = _of_powers()
    rows = _rows_of(problem.space, "Base", "D1")
    spread = front_spread(problem, rows, ["tdp_watts"], samples=9)
    for name, ends in zip(("Base", "D1"), spread.intervals["tdp_watts"], strict=True):
        alone = design_uncertainty(api.evaluate(design=name, evaluator=problem.evaluator), 9)
        expected = alone.intervals["tdp_watts"]
        assert ends.tolist() == pytest.approx([expected.p5, expected.p95])
        assert expected.p5 < expected.p95
    names = ["tdp_watts", "shoreline_mm"]  # of the die edge no source states a range
    sweep = Sweep(problem, list(dict.fromkeys([*problem.deciding_metrics, *names])))
    quantiles = metric_quantiles(sweep, rows, names, (5, 50, 95), samples=9)
    assert list(quantiles) == ["tdp_watts"]
    assert np.array_equal(quantiles["tdp_watts"][:, [0, 2]], spread.intervals["tdp_watts"])
