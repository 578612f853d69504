"""Enumeration on toy problems: every design by hand against blocks, bounds, workers, restarts."""

import random
import re
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.base.columns import Column
from codesign.base.errors import InputError, JobError, StoreError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.locks import exclusive
from codesign.base.loop_progress import running_loops
from codesign.base.metrics import Metric
from codesign.base.schema import Record
from codesign.search.enumeration import enumerate_front, exact_front, stored_front
from codesign.search.enumeration.checkpoint import load_state
from codesign.search.enumeration.front_cache import front_path
from codesign.search.enumeration.within import Trait, designs_within
from codesign.search.pareto import non_dominated
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem
from codesign.space import parse_space

FAMILIES = Path(__file__).parents[2] / "space" / "families.yaml"
SPACE = """
parameters:
  width: {low: 1, high: 12}
  depth: {low: 1, high: 12}
  color: {values: [red, green, blue, crimson]}
  grade: {low: 0, high: 5}
constraints: [width + depth <= 20]
"""
SPEED = Metric("speed_tokens", "maximize", "token", "how fast")
POWER = Metric("power_watts", "minimize", "W", "how hot")
AREA = Metric("area_units", "minimize", "", "how large")
HEAT = {"red": 3.0, "crimson": 3.0, "green": 0.0, "blue": 1.0}


class Toy(Evaluator):
    """Speed peaks in the middle of the grades; power adds up; red and crimson are the same."""

    class Workload(Record):
        pass

    class Options(Record):
        pass

    metrics = (SPEED, POWER, AREA)
    required_parameters = frozenset({"width", "depth", "color", "grade"})
    optional_parameters = frozenset()
    fails_at = None

    def known_violations(self, designs):
        return {"odd": designs["width"].lookup(lambda w: 1.0 if w == 7 else -1.0)}

    def evaluate(self, designs, metrics=None):
        w, d, g = (designs[name].lookup(float) for name in ("width", "depth", "grade"))
        heat = designs["color"].lookup(HEAT.__getitem__)
        values = {
            "speed_tokens": np.minimum(w * d, 60.0) - (g - 2.0) ** 2,
            "power_watts": 2.0 * w + d + heat,
            "area_units": w * d + heat,
        }
        asked = list(values) if metrics is None else metrics
        failures = {}
        if self.fails_at is not None:
            failures = dict.fromkeys(np.flatnonzero(w == self.fails_at).tolist(), "melted")
        result = {name: values[name] for name in asked}
        return Evaluation(result, self.known_violations(designs), failures)

    def provenance(self):
        return {"fails_at": self.fails_at}


class Bounded(Toy):
    """The same with bounds: color and grade can be left open."""

    undecided_parameters = ("color", "grade")
    generosity = 0.0

    def interchangeable(self, parameter, values):
        return [HEAT[value] for value in values] if parameter == "color" else list(values)

    def best_case(self, designs, undecided, metrics):
        best = dict(designs)
        for name, better in (("color", HEAT.__getitem__), ("grade", lambda g: (g - 2.0) ** 2)):
            if name in undecided:
                value = min(undecided[name], key=better)
                best[name] = Column((value,), np.zeros(len(designs["width"]), dtype=np.int64))
        found = dict(self.evaluate(best, list(metrics)).metrics)
        if "speed_tokens" in found:
            found["speed_tokens"] = found["speed_tokens"] + self.generosity
        return found


class TooStrict(Bounded):
    """A wrong bound: it promises less speed than there is."""

    generosity = -8.0


OBJECTIVES = {
    1: ("maximize speed_tokens",),
    2: ("maximize speed_tokens", "minimize power_watts"),
    3: ("maximize speed_tokens", "minimize power_watts", "minimize area_units"),
}


def problem(evaluator=Bounded, m=2, constraints=("power_watts <= 30",), space=SPACE, fails_at=None):
    built = evaluator()
    built.fails_at = fails_at
    return build_problem(parse_space(space), built, OBJECTIVES[m], constraints, "toy")


def by_hand(built):
    """Points, counts and designs of the front, from all designs at once."""
    rows = built.space.rows(np.arange(built.space.size))
    rows = rows[built.admits(rows)]
    found = built.evaluate(rows)
    kept = np.flatnonzero(found.feasible)
    kept = kept[non_dominated(found.objectives[kept])]
    points, counts = np.unique(found.objectives[kept], axis=0, return_counts=True)
    designs = {tuple(point): set() for point in points.tolist()}
    for i in kept:
        designs[tuple(found.objectives[i].tolist())].add(tuple(rows[i].tolist()))
    return points, counts, designs


def agree(front, built):
    points, counts, designs = by_hand(built)
    listed = {tuple(point): set() for point in front.objectives.tolist()}
    for row, place in zip(front.rows.tolist(), front.point.tolist(), strict=True):
        listed[tuple(front.objectives[place].tolist())].add(tuple(row))
    return (
        np.array_equal(front.objectives, points)
        and np.array_equal(front.counts, counts)
        and listed == designs
    )


def equal(first, second):
    names = ("objectives", "counts", "rows", "point")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


@pytest.mark.parametrize("evaluator", [Toy, Bounded])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize(
    "constraints",
    [(), ("power_watts <= 30",), ("power_watts <= 30", "color != crimson", "speed_tokens >= 5")],
)
def test_the_front_is_that_of_every_design_evaluated(evaluator, m, constraints):
    built = problem(evaluator, m, constraints)
    front = enumerate_front(built)
    assert agree(front, built)
    assert front.n_evaluated + front.n_repeated + front.n_excluded == built.space.size


def test_bounds_leave_most_designs_out_and_equal_designs_are_evaluated_once():
    everything, bounded = enumerate_front(problem(Toy)), enumerate_front(problem())
    assert everything.n_repeated == 0
    assert bounded.n_evaluated < everything.n_evaluated / 4
    # Without a limit on power, crimson and red are on the front of speed alone.
    assert enumerate_front(problem(m=1, constraints=())).n_repeated > 0


def test_designs_in_a_region_are_found_and_most_others_left_out(monkeypatch):
    built, evaluate, n_evaluated = problem(), Problem.evaluate, []

    def counting(self, rows, metrics=None):
        n_evaluated.append(len(rows))
        return evaluate(self, rows, metrics)

    every = built.space.rows(np.arange(built.space.size))
    every = every[built.admits(every)]
    observed = built.evaluate(every)
    inside = observed.feasible & (observed.objectives[:, 1] <= 8.0)
    monkeypatch.setattr(Problem, "evaluate", counting)
    best = [(built, built.deciding_metrics)]
    region = (best, lambda objectives: objectives[:, 1] <= 8.0)
    traits = [Trait("", np.empty(0, np.int64))]
    rows = designs_within([region], every[0], traits, 10**6, 10**9).rows
    is_first = every[:, 2] != 3  # red and crimson are the same
    assert sorted(rows.tolist()) == sorted(every[inside & is_first].tolist())
    assert sum(n_evaluated) < len(every) / 4


def test_values_that_a_constraint_tells_apart_are_not_taken_together():
    front = enumerate_front(problem(constraints=("color != green", "color != red")))
    colors = {design["color"] for design in problem().space.decode(front.rows)}
    assert "red" not in colors


def test_a_bound_that_excludes_a_design_of_the_front_is_found_out():
    with pytest.raises(JobError, match=r"the exact front lacks .* a bound .* --every-design"):
        enumerate_front(problem(TooStrict))


def test_every_design_can_be_evaluated_despite_a_wrong_bound(tmp_path):
    built = problem(TooStrict)
    front = exact_front(built, tmp_path, every_design=True)
    assert agree(front, built)
    assert front.n_evaluated == enumerate_front(problem(Toy)).n_evaluated
    assert stored_front(built, tmp_path) is not None


def test_a_front_that_lacks_one_point_differs_from_the_one_by_hand():
    built = problem()
    front = enumerate_front(built)
    kept = front.point != 1
    cut = replace(
        front,
        objectives=np.delete(front.objectives, 1, axis=0),
        counts=np.delete(front.counts, 1),
        rows=front.rows[kept],
        point=front.point[kept] - (front.point[kept] > 1),
    )
    assert agree(front, built)
    assert not agree(cut, built)
    assert cut.hypervolume(np.array([0.0, 40.0])) < front.hypervolume(np.array([0.0, 40.0]))


def test_designs_that_fail_are_counted_and_on_no_front():
    built = problem(fails_at=5)
    front = enumerate_front(built)
    assert front.n_failed > 0
    assert agree(front, built)


def test_a_space_without_a_feasible_design_is_refused_with_the_count():
    with pytest.raises(InputError, match=r"no design of space .* is feasible: all 3,216"):
        enumerate_front(problem(constraints=("power_watts <= 1",)))


def test_the_limit_that_stands_in_the_way_is_named_with_how_near_a_design_comes():
    built = problem(constraints=("power_watts <= 1", "power_watts <= 1000"))
    with pytest.raises(InputError) as caught:
        enumerate_front(built)
    said = re.search(r"of 256 random ones 256 break 'power_watts <= 1', nearest over by (.*)%$",
                     str(caught.value))  # fmt: skip
    everyone = built.evaluate(built.space.rows(np.arange(built.space.size)))
    excess = everyone.violations[:, everyone.violation_names.index("power_watts <= 1")]
    # As near as the nearest of a sample, so no nearer than the nearest of all.
    assert said is not None
    assert 100 * excess.min() - 0.05 <= float(said[1]) <= 100 * np.median(excess)


def test_limits_that_designs_keep_one_by_one_and_not_together_are_told_so():
    built = problem(constraints=("power_watts <= 12", "power_watts >= 13"))
    with pytest.raises(InputError, match=r"break 'power_watts .*', some keep it and break another"):
        enumerate_front(built)


def test_a_limit_that_is_known_before_evaluation_is_named_too():
    built = problem(constraints=("width <= 0",))
    with pytest.raises(InputError, match=r"of 1,024 random ones 1,024 break 'width <= 0'"):
        enumerate_front(built)


def test_a_space_too_large_to_be_listed_is_refused():
    wide = "parameters:\n" + "".join(f"  p{i}: {{low: 0, high: 99}}\n" for i in range(5))
    space = parse_space(wide + "constraints: [p0 + p1 + p2 + p3 + p4 <= 300]")
    with pytest.raises(InputError, match="choices of p0, p1, p2, p3, p4 are too many to be listed"):
        enumerate_front(replace(problem(), space=space))


@pytest.mark.parametrize("after", [1, 3, 40])
def test_an_interrupted_enumeration_goes_on_to_the_same_front(
    tmp_path, after, monkeypatch, told, ctrl_c
):
    monkeypatch.setattr("codesign.search.enumeration.enumerate._LEAST_ROOTS", 1)
    built = problem(m=3)
    whole = enumerate_front(built)
    file = tmp_path / "front.part"
    ctrl_c(after, "designs")
    with pytest.raises(KeyboardInterrupt):
        enumerate_front(built, checkpoint=file)
    assert not running_loops()
    state = load_state(file, 3)
    assert 0 < state.done.sum() < len(state.done)
    told.clear()
    front = enumerate_front(built, checkpoint=file)
    begin, *steps = told
    assert begin == ("designs", built.space.size, state.tally.total)
    assert sum(n for _, n in steps) + state.tally.total == built.space.size
    assert equal(front, whole)
    assert vars(front)["n_evaluated"] == whole.n_evaluated
    assert not file.exists()


def test_without_bounds_each_design_is_evaluated_once_and_soon_told(monkeypatch, told):
    monkeypatch.setattr("codesign.search.enumeration.enumerate._LEAST_EVALUATED", 64)
    evaluated = []

    class Counting(Toy):
        def evaluate(self, designs, metrics=None):
            evaluated.append(len(designs["width"]))
            return super().evaluate(designs, metrics)

    # Of others, a 256th of the space: it may take hours.
    for module, largest in [("codesign.evaluators.toy", 64), ("simulator", 13)]:
        monkeypatch.setattr(Counting, "__module__", module)
        evaluated.clear()
        told.clear()
        front = enumerate_front(problem(Counting))
        assert sum(n for _, n in told[1:]) == front.n_designs
        assert agree(front, problem(Toy))
        assert sum(evaluated) == front.n_evaluated
        assert max(evaluated) <= largest


def test_a_damaged_checkpoint_is_begun_anew(tmp_path):
    file = tmp_path / "front.part"
    file.write_bytes(b"PK\x03\x04 half a file")
    assert equal(enumerate_front(problem(), checkpoint=file), enumerate_front(problem()))


def test_a_stored_front_is_found_again_and_belongs_to_its_problem_alone(tmp_path):
    built = problem()
    assert stored_front(built, tmp_path) is None
    front = exact_front(built, tmp_path)
    assert equal(stored_front(built, tmp_path), front)
    assert vars(stored_front(built, tmp_path)).keys() == vars(front).keys()
    assert stored_front(problem(constraints=("power_watts <= 29",)), tmp_path) is None
    assert stored_front(problem(fails_at=2), tmp_path) is None
    assert [path.name for path in tmp_path.iterdir()] == [front_path(built, tmp_path).name]


def test_a_damaged_stored_front_is_no_absent_one(tmp_path):
    built, chance = problem(), random.Random(0)
    front = exact_front(built, tmp_path)
    path = front_path(built, tmp_path)
    content = path.read_bytes()
    for n in range(60):
        damage = bytearray(content)
        place = chance.randrange(len(content))
        if n % 2:
            del damage[place:]
        else:
            damage[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damage)
        try:
            assert equal(stored_front(built, tmp_path), front)  # a date of the archive, say
        except StoreError as error:
            assert str(error).startswith(f"{path}: is damaged; ")


def test_two_processes_do_not_enumerate_the_same_space(tmp_path):
    path = front_path(problem(), tmp_path).with_suffix(".lock")
    with exclusive(path), pytest.raises(StoreError, match="enumerates this space; wait for it"):
        exact_front(problem(), tmp_path)
    exact_front(problem(), tmp_path)
    assert not path.exists()


def test_a_damaged_stored_front_is_found_anew_by_an_enumeration_which_says_so(tmp_path, caplog):
    built = problem()
    front_path(built, tmp_path).write_bytes(b"not an archive")
    assert equal(exact_front(built, tmp_path), enumerate_front(built))
    assert "is damaged" in caplog.text
    assert stored_front(built, tmp_path) is not None


def test_rebuilding_is_needed_for_more_than_one_process():
    built = problem()
    assert equal(enumerate_front(built, workers=4), enumerate_front(built))


class Repeating(Executor):
    """Does blocks at once; of the first, each third future gets the result of the one before."""

    def __init__(self, n_alive=10**6):
        self.n, self.n_alive, self.before = 0, n_alive, None

    def submit(self, fn, /, *args):
        self.n += 1
        if self.n > self.n_alive:
            raise RuntimeError("the interchange\nis gone")
        if self.n % 3 or self.n > 12:
            self.before = fn(*args)
        future = Future()
        future.set_result(self.before)
        return future


@pytest.fixture
def on_executor(monkeypatch):
    """Enumerate in blocks of a few roots on an executor."""

    def on_executor(executor):
        monkeypatch.setattr("codesign.search.enumeration.enumerate._block", lambda *_: 5)
        monkeypatch.setattr(
            "codesign.search.execution.executors.open_executor", lambda *_: executor
        )
        return enumerate_front(problem(), workers=2, rebuild=problem, executor="ours")

    return on_executor


def test_a_block_that_is_delivered_twice_counts_once_and_none_is_missing(on_executor):
    executor = Repeating()
    front = on_executor(executor)
    assert executor.n > 12
    assert equal(front, enumerate_front(problem()))
    assert front.n_evaluated == enumerate_front(problem()).n_evaluated


def test_an_executor_that_takes_no_blocks_any_more_ends_it_in_one_line(on_executor):
    with pytest.raises(JobError, match=r"no longer works \(.*is gone\); .* run again"):
        on_executor(Repeating(n_alive=3))


class Families(Toy):
    """Each family has a speed of its own; all else adds to speed and to power."""

    required_parameters = frozenset({"family"})
    optional_parameters = frozenset(parse_space(FAMILIES.read_text("utf-8")).names[1:])

    def known_violations(self, designs):
        return {"odd": designs["bits"].lookup(lambda bits: 1.0 if bits == 7 else -1.0)}

    def evaluate(self, designs, metrics=None):
        levels = {name: column.codes + 1.0 for name, column in designs.items()}
        total = sum(levels.values())
        speed = 3.0 * levels["family"] + np.minimum(total, 20.0) % 7
        values = {"speed_tokens": speed, "power_watts": total, "area_units": total}
        asked = list(values) if metrics is None else metrics
        return Evaluation({name: values[name] for name in asked}, self.known_violations(designs))


def test_the_front_of_a_space_of_families_is_that_of_all_its_designs():
    built = problem(Families, constraints=(), space=FAMILIES.read_text("utf-8"))
    assert built.space.keys(built.space.rows(np.array([0]))).dtype == object
    front = enumerate_front(built)
    assert front.n_designs == 103_800
    assert front.n_evaluated + front.n_repeated + front.n_excluded == 103_800
    assert len(front) > 5
    assert agree(front, built)
