"""Decisions over the ranges of constants, against flips on paper and brute force."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from codesign import api
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import Metric
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.insight.decisions.box import box_of, rivals_over
from codesign.insight.decisions.decide import (
    check_decidable,
    decide,
    decide_front,
    traits_of,
)
from codesign.insight.decisions.recommendation import recommend
from codesign.models.memtech import Range, load_library
from codesign.models.workload import Request
from codesign.search.enumeration import enumerate_front
from codesign.search.problem_builder import build_problem
from codesign.space import load_space, parse_space

_TOLERANCE = 0.02
_LIBRARY = load_library()
_LIBRARY_CATALOG = _LIBRARY.catalog()


class _Watts(Evaluator):
    """One memory draws its idle power, the other 80 W; more lanes cost and give alike."""

    metrics = (
        Metric("rate", "maximize", "token/s", "Rate."),
        Metric("watts", "minimize", "W", "Power."),
    )
    required_parameters = frozenset({"flash", "lanes"})

    def __init__(self, library=_LIBRARY):
        self._library = library

    def evaluate(self, designs, metrics=None):
        """Power by the idle power of HBM3E, in mW/GB."""
        idle = self._library["hbm3e_8h"].background_power.typical * 1e12
        lanes = designs["lanes"].lookup(float)
        watts = np.where(designs["flash"].lookup(float) == 1, 80.0, idle)
        return Evaluation({"rate": lanes, "watts": watts * lanes**1.5})

    def technologies(self):
        """The memories."""
        return self._library

    def replace_library(self, library):
        """The evaluator of other memories."""
        return _Watts(library)

    def provenance(self):
        """The memories."""
        return {"idle": self._library["hbm3e_8h"].background_power.typical}


def _planted(space="flash: [0, 1]\n  lanes: [1, 2]"):
    parsed = parse_space(f"parameters:\n  {space}\n")
    return build_problem(parsed, _Watts(), ["maximize rate", "minimize watts"], ())


def test_a_flip_on_paper_is_found_to_a_part_in_a_million():
    # HBM idles at 75 mW/GB (50 to 100); flash is preferred by 2 % above 80 * 1.02 mW/GB.
    problem = _planted()
    decided = decide_front(problem, enumerate_front(problem), _TOLERANCE)
    memory, lanes = decided.decisions
    assert (memory.value, memory.verdict) == ((0,), "flips by one")
    (change,) = memory.flip.changes
    assert (str(change.number), change.value) == (
        "hbm3e_8h background power",
        pytest.approx(81.6e-12, rel=1e-6),
    )
    assert lanes.verdict == "holds everywhere"
    assert lanes.flip is None


def test_a_problem_without_a_range_that_matters_is_refused():
    problem = _planted("flash: [1]\n  lanes: [1, 2]")
    with pytest.raises(InputError, match="no constant with a range moves rate or watts"):
        decide_front(problem, enumerate_front(problem), _TOLERANCE)


def test_a_system_is_refused_before_its_front_is_looked_for():
    system = api.load_campaign("system-osworld").problem
    with pytest.raises(InputError, match="constants prefer; expected a campaign of one device"):
        check_decidable(system)
    check_decidable(_planted())


def test_objectives_that_are_not_positive_are_refused():
    problem = _planted("flash: [0, 1]\n  lanes: [0, 1]")
    with pytest.raises(InputError, match="expected objectives above 0"):
        decide_front(problem, enumerate_front(problem), _TOLERANCE)


@cache
def _small():
    """A sub-space of 1,680 designs decided, and all its designs."""
    absent = {f"tier{i}_{x}": None for i in (2, 3) for x in ("technology", "stacks")}
    formats = dict.fromkeys(("weight_format", "activation_format", "kv_format"), "mxint8")
    policies = {"storage_priority": "equal", "dataflow": "ws", "bandwidth_priority": "matrix"}
    space = load_space("memexplorer", {"memtech": _LIBRARY_CATALOG}).fix(
        {**formats, **policies, **absent, "vector_length": 128, "sram_dies": 1}
    )
    request = Request(model="llama-3.3-70b", trace="osworld", phase="decode")
    objectives = ["maximize throughput_tokens_per_s", "minimize tdp_watts"]
    evaluator = NpuEvaluator(request, NpuOptions(profile="plain"))
    problem = build_problem(space, evaluator, objectives, ["tdp_watts <= 700"])
    decided = decide_front(problem, enumerate_front(problem), _TOLERANCE)
    rows = space.rows(np.arange(space.size))
    return decided, rows[problem.admits(rows)]


def _margin(decided, rows, values, trait):
    """Lead of the best design without a decision over the best with it, by all designs."""
    burdens = decided.rivals.box.burdens(rows, values)
    products = np.where((burdens[:, 1:] <= 0).all(axis=1), burdens[:, 0], np.inf)
    has = trait.has(rows, decided.row)
    return float(products[has].min() / (products[~has].min() * (1 + _TOLERANCE)))


def test_every_flip_is_where_all_designs_say_that_it_is():
    decided, rows = _small()
    box = decided.rivals.box
    places = {number: k for k, number in enumerate(box.numbers)}
    pairs = zip(decided.decisions, traits_of(decided.problem), strict=True)
    flips = [(decision, trait) for decision, trait in pairs if decision.flip is not None]
    assert flips
    for decision, trait in flips:
        for factor, is_flipped in ((0.999, False), (1.001, True)):
            values = box.typical
            for change in decision.flip.changes:
                k = places[change.number]
                values[k] += factor * (change.value - values[k])
            assert (_margin(decided, rows, values, trait) > 1.0) == is_flipped, decision.name


def test_what_is_proven_holds_at_random_corners_by_all_designs():
    decided, rows = _small()
    box = decided.rivals.box
    pairs = zip(decided.decisions, traits_of(decided.problem), strict=True)
    proven = [trait for decision, trait in pairs if decision.verdict == "holds everywhere"]
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = np.where(rng.random(len(box)) < 0.5, box.low, box.high)
        if (box.burdens(decided.row[None], values)[0, 1:] > 0).any():
            continue
        for trait in proven:
            assert _margin(decided, rows, values, trait) <= 1.0 + 1e-9, trait.name


def test_a_box_with_too_many_rivals_is_split_and_then_made_smaller():
    decided, _ = _small()
    whole = decided.rivals
    box = box_of(decided.problem, decided.row[None])
    split = rivals_over(box, decided.row[None], most=max(len(whole.rows) // 4, 1))
    assert split.n_searches > whole.n_searches
    assert 0 < split.share <= 1.0
    if split.share == 1.0:
        verdicts = [x.verdict for x in decide(split, _TOLERANCE).decisions]
        assert verdicts == [x.verdict for x in decided.decisions]
    smaller = decide(replace(whole, box=box.shrunk(0.01), stated=box, share=0.01), _TOLERANCE)
    for decision, before in zip(smaller.decisions, decided.decisions, strict=True):
        assert decision.flip is None
        beyond, before_flip = decision.beyond, next(iter(before.breaks), None)
        assert (beyond and beyond.share) == (before_flip and before_flip.share)
    with pytest.raises(InputError, match="more than 0 designs match the recommended one"):
        rivals_over(box, decided.row[None], most=0)


def test_stored_parts_of_the_box_give_the_same_rivals(tmp_path):
    decided, _ = _small()
    box = decided.rivals.box
    first, second = (rivals_over(box, decided.row[None], tmp_path).rows for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(first, decided.rivals.rows)
    assert list(tmp_path.glob("within-*.npz"))


_SENSES = ("maximize", "minimize")


def _front(*points):
    return np.array([(-rate, watts) for rate, watts in points])


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(10, 10), (90, 30), (100, 200)], 1),  # a knee
        ([(10, 20), (20, 30), (40, 50)], 2),  # no knee: the larger, the more per watt
        ([(10, 10), (19, 20), (36, 40)], 0),  # no knee: the smaller, the more per watt
        ([(100, 100), (50, 50), (202, 200)], 1),  # equal within 2 %: the cheapest
    ],
)
def test_the_most_rate_per_watt_is_recommended_with_a_knee_and_without(points, expected):
    recommendation = recommend(_front(*points), _SENSES, cost=1)
    assert (recommendation.point, recommendation.rule) == (expected, "product")


def test_the_regret_is_the_loss_of_rate_per_watt():
    recommendation = recommend(_front((10, 10), (90, 30), (100, 200)), _SENSES, cost=1)
    assert recommendation.regret == pytest.approx([2.0, 0.0, 5.0])


def test_the_most_even_point_is_recommended_where_percents_mean_nothing():
    front = np.array([[0.0, 4.0], [1.0, 1.0], [4.0, 0.0]])
    recommendation = recommend(front, ("minimize", "minimize"), cost=1)
    assert (recommendation.point, recommendation.rule) == (1, "most even")


def test_a_range_of_one_value_is_no_range():
    hbm = _LIBRARY["hbm3e_8h"]
    typical = hbm.background_power.typical
    settled = hbm.model_copy(
        update={"background_power": Range(low=typical, typical=typical, high=typical)}
    )
    problem = build_problem(
        parse_space("parameters:\n  flash: [0, 1]\n  lanes: [1, 2]\n"),
        _Watts({**_LIBRARY, "hbm3e_8h": settled}),
        ["maximize rate", "minimize watts"],
        (),
    )
    with pytest.raises(InputError, match="no constant with a range"):
        decide_front(problem, enumerate_front(problem), _TOLERANCE)
