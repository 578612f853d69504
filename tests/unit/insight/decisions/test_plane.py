"""Maps of memories over two constants, against a border on paper and dense samples."""

import csv

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation
from codesign.insight.decisions.box import product_of
from codesign.insight.decisions.decide import decide_front
from codesign.insight.decisions.plane import PRECISION, constant_name, leading_pairs, plane_of
from codesign.insight.uncertainty.sweep import Sweep
from codesign.models.memtech import Range, load_library
from codesign.report.decision_map import plane_chart, write_csv
from codesign.report.svg import draw
from codesign.search.enumeration import enumerate_front
from codesign.search.problem_builder import build_problem
from codesign.space import parse_space
from tests.unit.insight.decisions.test_breakeven import _Idle, _planted, _problem, system_problem
from tests.unit.insight.decisions.test_decide import check_flips, check_proven

_LIBRARY = load_library()
_X = "hbm3e_8h.background_power"
_Y = "hbf.background_power"


def _plane(problem, x, y):
    return plane_of(problem, enumerate_front(problem), (x, y), enumerate_front)


def _crossed(values="hbm3e_8h, hbf", limits=()):
    """HBM3E idles at 50 to 100 mW/GB, this flash at 60 to 120."""
    idle = Range(low=60e-12, typical=70e-12, high=120e-12)
    flash = _LIBRARY["hbf"].model_copy(update={"background_power": idle})
    text = f"parameters:\n  memory: {{from: memtech, values: [{values}]}}\n  lanes: [1, 2]\n"
    space = parse_space(text, {"memtech": _LIBRARY.catalog()})
    evaluator = _Idle({**_LIBRARY, "hbf": flash})
    return build_problem(space, evaluator, ["maximize rate", "minimize watts"], limits)


def test_the_border_of_two_memories_that_idle_alike_is_the_diagonal(tmp_path):
    plane = _plane(_crossed(), _X, _Y)
    assert plane.is_linear
    assert plane.n_fronts <= 16
    for strip in plane.strips:
        assert plane.memories_at(strip) in {("hbf",), ("hbm3e_8h",)}
        if plane.memories_at(strip) == ("hbf",):
            assert strip.y_high == pytest.approx(strip.x, rel=1e-9)
        else:
            assert strip.y_low == pytest.approx(max(strip.x, 60e-12), rel=1e-9)
    # Below the diagonal of 50 to 100 by 60 to 120: 40 by 40 of 50 by 60, halved.
    assert plane.shares[("hbf",)] == pytest.approx(40 * 40 / 2 / (50 * 60), abs=0.01)
    write_csv(plane, tmp_path / "map.csv")
    with (tmp_path / "map.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(plane.strips)
    assert float(lines[-1][f"{_Y} from"]) == plane.strips[-1].y_low
    drawing = draw(plane_chart(plane), 600.0)
    assert "HBF" in drawing
    assert "typical constants" in drawing
    bare = draw(plane_chart(plane, dict.fromkeys(plane.shares, "green")), 600.0)
    assert "HBF</text>" not in bare


class _Between(_Idle):
    """LPDDR6 draws 60 W, and less than both rivals only while HBM3E idles at 60 to 70 mW/GB."""

    def evaluate(self, designs, metrics=None):
        """Power by the idle powers of HBM3E and of flash."""
        x, y = (1e12 * self._library[key].background_power.typical for key in ("hbm3e_8h", "hbf"))
        power = {"hbm3e_8h": x, "hbf": 130 - x + 1e-3 * y, "lpddr6": 60.0}
        lanes = designs["lanes"].lookup(float)
        return Evaluation({"rate": lanes, "watts": designs["memory"].lookup(power.get) * lanes})

    def replace_library(self, library):
        """The evaluator of other memories."""
        return _Between(library)


def test_a_memory_that_wins_at_no_corner_and_not_at_typical_constants_is_found():
    problem = _crossed("hbm3e_8h, hbf, lpddr6")
    evaluator = _Between(problem.evaluator.technologies())
    problem = build_problem(problem.space, evaluator, ["maximize rate", "minimize watts"], ())
    plane = _plane(problem, _X, _Y)
    assert plane.shares[("lpddr6",)] == pytest.approx(10 / 50, abs=0.03)


def test_the_map_is_that_of_all_designs_at_random_points():
    x = "hbm4_12h.access_energy"
    y = "lpddr6.access_energy"
    plane = _plane(_problem(_LIBRARY), x, y)
    assert len(plane.shares) == 2
    _check_map(plane, _every_row(plane.problem), x, y)


def test_decisions_and_the_map_of_systems_are_those_of_all_systems(tmp_path):
    problem = system_problem(memories=("hbf", "lpddr6"))
    decided = decide_front(problem, enumerate_front(problem), folder=tmp_path, workers=2)
    rows = _every_row(problem)
    assert len(list(tmp_path.glob("exact-*.npz"))) == 2  # one of each pool, for all ranges
    assert [decision.share for decision in decided.decisions[:4]] == [1.0] * 4
    check_flips(decided, rows)
    check_proven(decided, rows)
    x = "hbf.background_power"
    y = "lpddr6.access_energy"
    plane = _plane(problem, x, y)
    assert ("prefill lpddr6", "decode hbf") in plane.shares
    _check_map(plane, rows, x, y)


def _every_row(problem):
    rows = problem.space.rows(np.arange(problem.space.size))
    return rows[problem.admits(rows)]


def _check_map(plane, rows, x, y):
    """Compare all designs at random points of the map."""
    problem = plane.problem
    sweep = Sweep(problem, problem.deciding_metrics)
    names = [f"{number.technology}.{number.number}" for number in sweep.numbers]
    names_of_tiers = [name for name in problem.space.names if name.endswith("technology")]
    pools = [name.split("tier")[0].replace("_", " ") for name in names_of_tiers]
    rng = np.random.default_rng(3)
    for strip in rng.choice(np.array(plane.strips, dtype=object), 30):
        values = sweep.typical.copy()
        values[names.index(x)] = strip.x
        values[names.index(y)] = strip.y_low + rng.random() * (strip.y_high - strip.y_low)
        observed = sweep.observe(rows, values)
        products = product_of(problem, observed.objectives)
        products[~observed.feasible] = np.inf
        has = np.array([
            tuple(dict.fromkeys(
                f"{pool}{design[name]}"
                for pool, name in zip(pools, names_of_tiers, strict=True) if design[name]
            )) == plane.memories_at(strip)
            for design in problem.space.decode(rows)
        ])  # fmt: skip
        assert products[has].min() <= products.min() * (1 + PRECISION)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (
            "hbf.capacity",
            _Y,
            "unknown constant with a range 'hbf.capacity'. .*Known: hbf.access_energy",
        ),
        (_X, "gddr6.background_power", "unknown constant that moves rate or watts: 'gddr6.backgr"),
        (_X, _X, "expected another constant than that of --x, got hbm3e_8h.background_power"),
    ],
)
def test_a_constant_that_spans_no_plane_is_refused(x, y, message):
    with pytest.raises(InputError, match=message):
        _plane(_planted("hbm3e_8h, hbf"), x, y)


def test_a_space_without_memories_or_a_plane_without_designs_is_refused():
    with pytest.raises(InputError, match="has no choice of off-chip memories; expected a param"):
        _plane(_crossed("hbf"), _X, _Y)
    with pytest.raises(InputError, match="expected looser limits"):
        _plane(_crossed(limits=["watts <= 90"]), _X, _Y)


def test_the_pairs_of_a_page_are_those_whose_changes_flip_decisions_first():
    problem = _crossed()
    decided = decide_front(problem, enumerate_front(problem))
    shares = {
        constant_name(flip.changes[0].number): flip.share
        for decision in decided.decisions
        for flip in decision.breaks
    }
    assert shares == {_Y: pytest.approx(0.175), _X: pytest.approx(1 / 3)}
    assert leading_pairs(decided) == [(_Y, _X)]
