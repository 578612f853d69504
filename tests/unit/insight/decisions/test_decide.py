"""Decisions over the ranges of constants, against flips on paper and brute force."""

from functools import cache
from unittest.mock import MagicMock

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.loop_progress import OutOfTimeError
from codesign.base.metrics import Metric
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.insight.decisions.box import _alone, rivals_over
from codesign.insight.decisions.decide import decide, decide_front, traits_of
from codesign.insight.decisions.recommendation import recommend
from codesign.models.memtech import Range, load_library
from codesign.models.workload import Request
from codesign.search.enumeration import enumerate_front
from codesign.search.enumeration.within import Within
from codesign.search.execution.executors import opened
from codesign.search.problem_builder import build_problem
from codesign.space import load_space, parse_space

_TOLERANCE = 0.02
_LIBRARY = load_library()
_LIBRARY_CATALOG = _LIBRARY.catalog()


class _Watts(Evaluator):
    """One memory draws a power of its idle power, the other 80 W; lanes cost and give alike."""

    metrics = (
        Metric("rate", "maximize", "token/s", "Rate."),
        Metric("watts", "minimize", "W", "Power."),
    )
    required_parameters = frozenset({"flash", "lanes"})

    def __init__(self, library=_LIBRARY, **formulas):
        self._library, self._formulas = library, formulas

    def evaluate(self, designs, metrics=None):
        """Power and rate by the idle power of HBM3E, in mW/GB."""
        idle = self._library["hbm3e_8h"].background_power.typical * 1e12
        formulas = {"hbm": lambda mw: mw, "flash": lambda mw: 80.0, "rate": lambda mw: 1.0}
        values = {name: formula(idle) for name, formula in {**formulas, **self._formulas}.items()}
        lanes, has_flash = (designs[name].lookup(float) for name in ("lanes", "flash"))
        watts = np.where(has_flash, values["flash"], values["hbm"])
        rate = np.where(has_flash, 1.0, values["rate"])
        return Evaluation({"rate": lanes * rate, "watts": watts * lanes**1.5})

    def best_case(self, designs, undecided, metrics):
        """The metrics: all is decided."""
        return self.evaluate(designs).metrics

    def technologies(self):
        """The memories."""
        return self._library

    def replace_library(self, library):
        """The evaluator of other memories."""
        return _Watts(library, **self._formulas)

    def provenance(self):
        """The memories."""
        return {"idle": self._library["hbm3e_8h"].background_power.typical}


def _planted(space="flash: [0, 1]\n  lanes: [1, 2]", **formulas):
    parsed = parse_space(f"parameters:\n  {space}\n")
    evaluator = _Watts(**formulas)
    return build_problem(parsed, evaluator, ["maximize rate", "minimize watts"], ())


def _decided(problem, regret=_TOLERANCE):
    return decide_front(problem, enumerate_front(problem), _TOLERANCE, regret=regret)


@pytest.mark.parametrize(
    ("exponent", "memory", "share"), [(1.0, 0, 0.264), (0.99, 0, 0.25), (1.05, 1, 0.25)]
)
def test_a_decision_is_proven_up_to_the_flip_on_paper(exponent, memory, share):
    # 75 W grow to 81.6 W at 0.264 of the way to 100, and 75**0.99 W at 0.42. Flash beats 75**1.05 W
    # up to 0.44 of the way to 50. Proofs halve the range of what is not linear.
    problem = _planted(hbm=lambda mw: mw**exponent)
    decided = _decided(problem)
    assert len(decided.rivals.box.untied) == (exponent != 1.0)
    assert decided.decisions[0].value == (memory,)
    assert decided.decisions[0].share == pytest.approx(share, abs=1e-6)


class _Dollars(_Watts):
    """100 GB of flash with a markup and a board of 250 USD, or 100 GB of LPDDR6."""

    metrics = (_Watts.metrics[0], Metric("usd", "minimize", "USD", "Price."))
    markup = 1.0

    def evaluate(self, designs, metrics=None):
        """Price by the prices of both memories, in USD/GB."""
        flash, lpddr = (1e11 * self._library[key].price.typical for key in ("hbf", "lpddr6"))
        has_flash, lanes = (designs[name].lookup(float) for name in ("flash", "lanes"))
        usd = np.where(has_flash == 1, flash * self.markup + 250.0, lpddr)
        return Evaluation({"rate": lanes, "usd": usd * lanes**1.5})

    def constant_ranges(self, metrics):
        """The markup."""
        return {"markup": Range(low=0.9, typical=1.0, high=1.1)}

    def replace_library(self, library):
        """The evaluator of other memories."""
        return _Dollars(library)

    def replace_constants(self, values):
        """The evaluator of another markup."""
        evaluator = _Dollars(self._library)
        evaluator.markup = values["markup"]
        return evaluator


@pytest.mark.parametrize(
    ("flash", "lpddr", "verdict", "flip"),
    [
        # LPDDR6 is preferred by 2 % where 100 GB of it cost less than 550 / 1.02 USD.
        ((3.0, 3.0, 3.0), (3.6, 6.0, 12.0), "flips by one", {"lpddr6 price": 5.5e-9 / 1.02}),
        # 100 (3 + 0.4 s) (1 + 0.1 s) + 250 USD are 612 USD at s = 0.84493.
        (
            (2.6, 3.0, 3.4), (6.0, 6.0, 6.0), "flips by two",
            {"hbf price": 3.337972e-9, "markup": 1.084493},
        ),
    ],
)  # fmt: skip
def test_a_flip_by_prices_is_where_paper_says_also_if_they_multiply(flash, lpddr, verdict, flip):
    library = dict(_LIBRARY)
    for key, prices in (("hbf", flash), ("lpddr6", lpddr)):
        ends = zip(("low", "typical", "high"), prices, strict=True)
        price = Range(**{name: 1e-9 * usd for name, usd in ends})
        library[key] = library[key].model_copy(update={"price": price})
    space = parse_space("parameters:\n  flash: [0, 1]\n  lanes: [1, 2]\n")
    problem = build_problem(space, _Dollars(library), ["maximize rate", "minimize usd"], ())
    decision = _decided(problem).decisions[0]
    assert (decision.value, decision.verdict) == ((1,), verdict)
    changes = {str(change.number): change.value for change in decision.flip.changes}
    assert changes == pytest.approx(flip, rel=1e-6)


@pytest.mark.parametrize(
    ("regret", "idle"), [(0.0, 80.0), (0.02, 81.6), (0.05, 84.0), (0.2, 96.0), (0.3, None)]
)
def test_a_decision_flips_where_keeping_it_costs_more_than_the_regret(regret, idle):
    # Idle power from 50 to 100 W, typically 75 W, against 80 W of flash.
    decided = _decided(_planted(), regret)
    memory, lanes = decided.decisions
    assert memory.value == (0,)
    assert lanes.verdict == "holds everywhere"
    if idle is None:
        assert (memory.verdict, memory.breaks) == ("holds everywhere", ())
    else:
        ((change,),) = [flip.changes for flip in memory.breaks]
        assert (str(change.number), change.value * 1e12) == (
            "hbm3e_8h background power", pytest.approx(idle, rel=1e-6),
        )  # fmt: skip


def test_a_flip_amid_the_range_of_a_constant_that_is_not_linear_is_found():
    # Flash of 77.7 W is preferred by 2 % from 79.3 to 91 W of HBM, and at neither end.
    decided = _decided(_planted(flash=lambda mw: 77.7 + 0.01 * (mw - 75.0) + 3 * max(mw - 90.0, 0)))
    assert decided.rivals.box.untied
    ((change,),) = [flip.changes for flip in decided.decisions[0].breaks]
    assert change.value * 1e12 == pytest.approx((77.7 - 0.75) * 1.02 / (1 - 0.0102), rel=1e-6)


@pytest.mark.parametrize("flash", ["[1]", "[0, 1]"])
def test_a_problem_without_a_range_that_is_better_at_one_end_is_refused(flash):
    problem = _planted(f"flash: {flash}\n  lanes: [1, 2]", hbm=lambda mw: 75.0 + (mw - 75.0) ** 2)
    with pytest.raises(InputError, match="moves rate or watts in one direction"):
        _decided(problem)


def test_objectives_that_are_not_positive_are_refused():
    problem = _planted("flash: [0, 1]\n  lanes: [0, 1]")
    with pytest.raises(InputError, match="expected objectives above 0"):
        _decided(problem)


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
    decided = _decided(problem)
    rows = space.rows(np.arange(space.size))
    return decided, rows[problem.admits(rows)]


def _margin(decided, rows, values, trait):
    """Lead of the best design without a decision over the best with it, by all designs."""
    burdens = decided.rivals.box.burdens(rows, values)
    products = np.where((burdens[:, 1:] <= 0).all(axis=1), burdens[:, 0], np.inf)
    has = trait.has(rows, decided.row)
    return float(products[has].min() / (products[~has].min() * (1 + decided.regret)))


def check_flips(decided, rows):
    """Compare all designs just before and just behind every flip."""
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


def test_every_flip_is_where_all_designs_say_that_it_is():
    check_flips(*_small())


def check_proven(decided, rows):
    """Compare all designs at random points of the share of each range that is proven."""
    rng = np.random.default_rng(1)
    for decision, trait in zip(decided.decisions, traits_of(decided.problem), strict=True):
        box = decided.rivals.box.shrunk(decision.share)
        for _ in range(8):
            along = rng.random(len(box))
            along = along.round() if rng.random() < 0.7 else along
            values = box.low + along * (box.high - box.low)
            if (box.burdens(decided.row[None], values)[0, 1:] <= 0).all():
                assert _margin(decided, rows, values, trait) <= 1.0 + 1e-9, trait.name


def test_what_is_proven_holds_at_random_points_by_all_designs():
    check_proven(*_small())


def test_a_decision_with_too_many_rivals_is_given_up_and_the_box_made_smaller():
    decided, rows = _small()
    box, row, traits = decided.rivals.box, decided.row[None], traits_of(decided.problem)
    fewer = rivals_over(box, row, None, len(decided.rivals.rows) // 4, traits, _TOLERANCE)
    assert 0 < fewer.share < max(share for share, _, _ in fewer.wider)
    smaller = decide(fewer, _TOLERANCE)
    assert max(decision.share for decision in smaller.decisions) > fewer.share
    check_proven(smaller, rows)
    # As one constant moves, no rival is missing.
    assert not fewer.unlisted
    flips = [
        [
            (str(flip.changes[0].number), flip.share)
            for decision in x.decisions
            for flip in decision.breaks
        ]
        for x in (decided, smaller)
    ]
    assert flips[0] == flips[1] != []
    with pytest.raises(InputError, match="more than 0 designs match the recommended one"):
        rivals_over(box, row, most=0)


def test_two_processes_list_the_same_rivals_and_stored_parts_give_them_again(tmp_path):
    decided, _ = _small()
    box, row, traits = decided.rivals.box, decided.row[None], traits_of(decided.problem)
    with opened(None, 2) as executor:
        first = rivals_over(box, row, tmp_path, traits=traits, executor=executor)
    again = rivals_over(box, row, tmp_path, traits=traits)
    for rivals in (first, again):
        assert rivals.rows.tolist() == decided.rivals.rows.tolist()
        assert rivals.share == decided.rivals.share
    assert first.n_searches == again.n_searches
    assert list(tmp_path.glob("within-*.npz"))


def test_constants_beyond_a_limit_of_work_are_named(monkeypatch):
    monkeypatch.setattr("codesign.insight.decisions.box._MOST_ALONG", 0)
    rivals = _decided(_planted()).rivals
    assert (rivals.unlisted, rivals.is_partial) == (tuple(rivals.box.numbers), False)


class _Moving(np.ndarray):
    """Constants that move, which are also their region."""

    def __new__(cls, places):
        return np.asarray(places).view(cls)

    def region(self, *_):
        return self.tolist()


def test_constants_of_small_effect_come_first_and_only_those_with_a_leading_rival_are_searched(
    monkeypatch,
):
    tried = []

    def search(moving, _, __, lead=0.0):
        tried.append((moving.tolist(), lead))
        return Within(np.full((1, 1), 7), np.array([len(moving) < 3 or lead == 0]), 1)

    def is_within(region, rows):
        """Only constant 1 gives the rival its lead."""
        return np.array([1 in region])

    monkeypatch.setattr("codesign.insight.decisions.box.is_within", is_within)
    box = MagicMock(swings=lambda _: np.array([0.5, 0.001, 0.3, 0.002, 0.003]))
    box.leads = lambda *_: np.arange(5)[:, None] == 4
    box.moving = lambda places: _Moving(np.atleast_1d(places))
    box.__len__.return_value = 5
    listed = list(_alone(box, np.zeros((1, 1)), np.zeros((1, 1)), search, 0.05))
    assert tried == [([1, 3], 0.05), ([1], 0.0), ([4], 0.0), ([2], 0.05), ([0], 0.05)]
    assert [group.tolist() for group, _ in listed] == [[3], [1], [], [4], [2], [0]]
    assert [len(rows) for _, rows in listed] == [0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("stop", [OutOfTimeError, KeyboardInterrupt])
def test_a_stopped_search_tells_what_is_proven_so_far(stop, monkeypatch):
    def interrupted(*_):
        raise stop

    problem = _planted()
    monkeypatch.setattr("codesign.insight.decisions.box._alone", interrupted)
    decided = _decided(problem)
    rivals = decided.rivals
    assert (rivals.is_partial, rivals.share) == (True, 1 / 16)
    assert rivals.unlisted == tuple(rivals.box.numbers)
    assert [decision.share for decision in decided.decisions] == [1 / 16, 1 / 16]
    monkeypatch.undo()
    assert not _decided(problem).rivals.is_partial


@pytest.mark.parametrize(
    "formulas",
    [
        {"rate": lambda mw: mw**0.6},  # more rate, for more power
        {"flash": lambda mw: 300.0 * mw**-0.3},  # one memory improves, the other does not
    ],
)
def test_each_objective_is_bounded_at_the_constants_that_are_best_for_it(formulas):
    problem = _planted(**formulas)
    decided = _decided(problem)
    box, rows = decided.rivals.box, problem.space.rows(np.arange(4))
    assert not box.unmoved
    best, worst = (box.extremes(rows, is_good) for is_good in (True, False))
    for values in np.linspace(box.low, box.high, 9):
        burdens = box.burdens(rows, values)
        assert ((best <= burdens * (1 + 1e-9)) & (burdens <= worst * (1 + 1e-9))).all()
    check_proven(decided, rows)


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
