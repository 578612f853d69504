"""Exact fronts of systems from exact fronts of their pools.

Every objective and limit of such a problem never gets worse if a pool's metrics get better, numbers
of machines and links being equal (``monotone_metrics``, and metrics derived from these
that get better with each of them). So a system with a design that another one dominates within its
pool can be replaced by a system that is at least as good, and the front's points are all among the
systems of non-dominated designs. These are not visited one by one either: each pool's designs are
halved again and again, and a combination of halves is left out if the system of their ideal points
breaks a limit or is dominated. See docs/exact-fronts.md.

Limiting assumption: nothing but numbers of machines and links joins the pools. Of systems with
equal objectives those are counted and listed whose designs are all non-dominated in their pools.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    ArrayList,
    Arrays,
    BoolArray,
    FloatArray,
    FloatDict,
    IntArray,
    StringList,
    Strings,
    values_at,
)
from codesign.base.errors import InfeasibleError, InputError, JobError, UnattainableError
from codesign.base.evaluator import Evaluator
from codesign.search.enumeration.front import Archive, ExactFront, dominated_by
from codesign.search.enumeration.nearest_miss import nearest_miss
from codesign.search.enumeration.pool_front import PoolFront, boundaries
from codesign.search.pareto import non_dominated
from codesign.search.problem import Constraint, Objective, Problem
from codesign.search.problem_builder import read_constraint
from codesign.space import DesignSpace

_CHUNK = 1 << 15
"""Combinations looked at together."""
_FIRST = 48
"""Designs of each pool whose systems are evaluated first, so that much can be left out."""
_MOST_SHARED = 1 << 20
"""Settings of machines and links that are listed."""

Rebuild = Callable[[], Problem]


FrontOfPool = Callable[[Problem, Rebuild | None], ExactFront]
"""Function that finds the exact front of a pool's problem, or reads the stored one. Its second
argument builds the problem again in another process."""


def is_composed(problem: Problem) -> bool:
    """Whether a problem's designs are systems of pools."""
    return bool(problem.space.pools) and problem.evaluator.offers("compose")


def compose_front(
    problem: Problem, front_of_pool: FrontOfPool, rebuild: Rebuild | None = None
) -> ExactFront:
    """The exact front of a problem of systems.

    Args:
        problem: Its evaluator composes the metrics of pools.
        front_of_pool: Finds the front of a pool.
        rebuild: How another process gets the problem.

    Raises:
        InputError: An objective or a limit that is not monotone, or a constraint that joins
            designs of pools.
        UnattainableError: No system keeps the limits.
        JobError: The front's systems evaluate to other numbers than those composed.
    """
    shared = settings_of(problem)
    pools = []
    for name in problem.evaluator.pool_evaluators():
        rebuild_pool = None if rebuild is None else partial(_rebuilt_pool, rebuild, name)
        pools.append(_pool_front(problem, name, front_of_pool, rebuild_pool))
    composition = SystemSearch(problem, pools, shared)
    archive, n_evaluated = composition.search()
    if not len(archive):
        raise UnattainableError(*nearest_miss(problem, pools, composition))
    size = problem.space.size
    front = ExactFront(
        objectives=archive.points,
        counts=archive.counts,
        rows=composition.rows_of(np.concatenate(archive.members)),
        point=np.repeat(np.arange(len(archive)), [len(group) for group in archive.members]),
        n_designs=size,
        n_evaluated=n_evaluated,
        n_repeated=0,
        n_excluded=size - n_evaluated,
        n_failed=0,
    )
    evaluated = problem.evaluate(front.representatives(), problem.deciding_metrics)
    if not evaluated.feasible.all() or not (evaluated.objectives == front.objectives).all():
        worst = int(np.argmax(np.abs(evaluated.objectives - front.objectives).max(axis=1)))
        raise JobError(
            f"evaluator {problem.evaluator_name!r} composes other metrics than it evaluates: "
            f"{front.objectives[worst]} and {evaluated.objectives[worst]}"
        )
    return front


def settings_of(problem: Problem) -> IntArray:
    """(s, d) settings of machines and links that keep known constraints; -1 for machines.

    Raises:
        InputError: An objective or a limit that is not monotone, or a constraint that joins
            designs of pools.
    """
    _checked(problem)
    space = problem.space
    columns = set(_shared_columns(space).tolist())
    names = {space.names[column] for column in columns}
    for constraint in problem.constraints:
        stray = (
            sorted(constraint.expression.names & set(space.names) - names)
            if constraint.is_known
            else []
        )
        if stray:
            raise InputError(
                f"constraint {constraint.text!r} names {stray[0]}, a parameter of a machine: state "
                "it in the space of its pool",
                constraint.where,
            )
    joint_components = [
        component for component in space.components if set(component.columns.tolist()) <= columns
    ]
    size = math.prod(component.size for component in joint_components)
    if size * math.prod(pool.space.size for pool in space.pools.values()) != space.size:
        raise InputError(
            f"a constraint of space {space.name} joins designs of its pools: state it in the space "
            "of one pool, or as a limit on a metric",
            _joining_place(space),
        )
    if size > _MOST_SHARED:
        raise InputError(f"{size:,} settings of machines and links are too many to list")
    shared = np.full((size, len(space.names)), -1, np.int64)
    digits = (
        np.unravel_index(np.arange(size), [component.size for component in joint_components])
        if joint_components
        else []
    )
    for component, digit in zip(joint_components, digits, strict=True):
        shared[:, component.columns] = component.rows[digit]
    known_constraints = [constraint for constraint in problem.constraints if constraint.is_known]
    values = space.values(shared)
    for constraint in known_constraints:
        shared = shared[np.broadcast_to(constraint.expression.violation(values) <= 0, len(shared))]
        values = space.values(shared)
    return shared


def _checked(problem: Problem) -> Evaluator:
    """The evaluator, if the problem's front can be composed."""
    evaluator = problem.evaluator
    listed = ", ".join(sorted(evaluator.monotone_metrics))
    monotone = evaluator.monotone_metrics | {
        derived_metric.metric.name
        for derived_metric in problem.derived
        if derived_metric.sources <= evaluator.monotone_metrics
        and derived_metric.follows(evaluator.metrics)
    }
    problems = [
        f"{_place_of(objective)}objective '{objective}': expected one of {listed}, in its own "
        "sense, or a metric of these that gets better with each of them: "
        "the exact front of systems follows from those of their pools for these alone, as only "
        "they never get worse if a machine gets better"
        for objective in problem.objectives
        if objective.metric.name not in monotone or objective.sense != objective.metric.sense
    ]
    problems += [
        f"{_place_of(constraint)}constraint {constraint.text!r}: expected a limit on one of "
        f"{listed}, or on a metric of these that gets better with each of them, from its bad "
        "side, as only they never get worse if a machine gets better"
        for constraint in problem.constraints
        if not constraint.is_known
        and not (constraint.is_limit and constraint.expression.names <= monotone)
    ]
    if problems:
        raise InputError(problems)
    return evaluator


def _place_of(statement: Objective | Constraint) -> str:
    return f"{statement.where}: " if statement.where else ""


# --- pools -----------------------------------------------------------------------------------


def pool_problem(problem: Problem, name: str) -> Problem:
    """The search for the designs of one pool that systems on the front may have."""
    evaluator = _checked(problem)
    machine = evaluator.pool_evaluators()[name]
    metrics = {metric.name: metric for metric in machine.metrics}
    needed = evaluator.pool_metrics(_deciding_metrics(problem, evaluator))[name]
    objectives = [Objective(metrics[metric], metrics[metric].sense) for metric in needed]
    limits = {
        next(iter(constraint.expression.names)): constraint.bound
        for constraint in problem.constraints
        if constraint.bound is not None
    }
    space = problem.space.pools[name].space
    texts = [
        f"{metric} {'<=' if metrics[metric].sense == 'minimize' else '>='} {bound!r}"
        for metric, bound in evaluator.pool_limits(limits)[name].items()
    ]
    constraints = tuple(read_constraint(text, space, machine.metrics) for text in texts)
    return Problem(space, machine, tuple(objectives), constraints, f"pool {name}")


def _deciding_metrics(problem: Problem, evaluator: Evaluator) -> StringList:
    """Metrics of systems that decide on the front once every pool keeps its own limits."""
    objectives = set(problem.objective_names)
    settled = evaluator.kept_by_pools - objectives
    deciding = [name for name in problem.deciding_metrics if name not in settled]
    return list(problem.sources_of(deciding))


def _rebuilt_pool(rebuild: Rebuild, name: str) -> Problem:
    return pool_problem(rebuild(), name)


def _pool_front(
    problem: Problem, name: str, front_of_pool: FrontOfPool, rebuild: Rebuild | None
) -> PoolFront:
    of_pool = pool_problem(problem, name)
    try:
        front = front_of_pool(of_pool, rebuild)
    except InfeasibleError as error:
        limited = {limit for x in of_pool.constraints for limit in x.expression.names}
        places = [x.where for x in problem.constraints if x.expression.names & limited]
        raise UnattainableError(f"pool {name}: {error}", places[0] if places else None) from None
    return pool_front(problem, name, front.objectives, front.counts, front.representatives())


def pool_front(
    problem: Problem, name: str, points: FloatArray, counts: IntArray, rows: IntArray
) -> PoolFront:
    """Designs of a pool with their points, halved again and again."""
    pool = problem.space.pools[name]
    metrics = pool_problem(problem, name).objectives
    columns = np.array([problem.space.names.index(pool.full_name(x)) for x in pool.space.names])
    return PoolFront(
        name, tuple(x.metric for x in metrics), columns, points, counts, rows
    ).ordered()


# --- what is shared --------------------------------------------------------------------------


def _shared_columns(space: DesignSpace) -> IntArray:
    """Entries of a system's row that belong to no machine."""
    pool_parameters = {
        pool.full_name(parameter)
        for pool in space.pools.values()
        for parameter in pool.parameter_names
    }
    return np.array(
        [column for column, name in enumerate(space.names) if name not in pool_parameters]
    )


def _joining_place(space: DesignSpace) -> str:
    """Place of the first constraint that names several pools."""
    for rule in space.constraints:
        names = rule.expression.names
        named = [x for x in space.pools if any(name.startswith(f"{x}_") for name in names)]
        if len(named) > 1:
            return rule.where
    return space.where()


# --- search ----------------------------------------------------------------------------------


class SystemSearch:
    """The search of all systems of the pools' fronts.

    Attributes:
        limits: Limits on metrics of systems that the pools do not settle.
        n_shared: Settings of machines and links.
    """

    def __init__(self, problem: Problem, pools: Sequence[PoolFront], shared: IntArray) -> None:
        self._problem = problem
        self._pools = pools
        self._settings = shared
        columns = problem.space.columns(shared)
        self._shared = {
            problem.space.names[column]: columns[problem.space.names[column]].lookup(float)
            for column in _shared_columns(problem.space).tolist()
        }
        self.n_shared = len(shared)
        self._depth = max(pool.depth for pool in pools)
        self._ideals = [
            [pool.ideals(min(depth, pool.depth)) for pool in pools]
            for depth in range(self._depth + 1)
        ]
        self._starts = [boundaries(len(pool.values), pool.depth) for pool in pools]
        self._evaluator = _checked(problem)
        limits = [constraint for constraint in problem.constraints if constraint.is_limit]
        self.limits = [
            limit for limit in limits if not limit.expression.names <= self._evaluator.kept_by_pools
        ]
        self._archive = Archive(len(problem.objectives))
        self._incumbents = np.empty((0, len(problem.objectives)))
        self._n_evaluated = 0

    def setting_words(self, setting: int) -> str:
        """Numbers of machines, and what of the links is chosen."""
        return ", ".join(
            f"{name} {values[setting]:.4g}"
            for name, values in self._shared.items()
            if name.endswith("_machines") or np.ptp(values) > 0
        )

    def search(self) -> tuple[Archive, int]:
        """The front, and how many systems were evaluated."""
        front = np.empty((0, len(self._problem.objectives)))
        for rows, values in self._first_chunks():
            objectives, feasible = self.evaluate(rows, values)
            front = np.concatenate([front, objectives[feasible]])
            front = front[non_dominated(front)]
        self._incumbents = front[np.lexsort(front.T[::-1])]
        shared = np.arange(self.n_shared)
        self._descend(0, shared, [np.zeros(len(shared), np.int64) for _ in self._pools])
        return self._archive, self._n_evaluated

    def _first_chunks(self) -> Iterator[tuple[IntArray, ArrayList]]:
        """Settings and values of every pool, evenly spread, each with all of the others."""
        picks = [
            np.unique(np.linspace(0, len(pool.values) - 1, _FIRST).astype(np.int64))
            for pool in self._pools
        ]
        grids = np.meshgrid(np.arange(self.n_shared), *picks, indexing="ij")
        shared, *starts_of_pools = (grid.ravel() for grid in grids)
        for start in range(0, len(shared), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            yield (
                shared[chunk],
                [
                    pool.values[x[chunk]]
                    for pool, x in zip(self._pools, starts_of_pools, strict=True)
                ],
            )

    def nearest(self) -> tuple[int, FloatDict, FloatDict]:
        """System whose worst excess is least.

        Returns:
            Its setting, its metrics by name, its excess by limit.
        """
        best: tuple[int, FloatDict, FloatDict] | None = None
        for rows, values in self._first_chunks():
            metrics, excess = self.limited(rows, values)
            worst = np.max(list(excess.values()), axis=0)
            i = int(np.argmin(worst))
            if best is None or worst[i] < max(best[2].values()):
                best = int(rows[i]), values_at(metrics, i), values_at(excess, i)
        assert best is not None  # there is a setting
        return best

    def limited(self, shared: IntArray, values: Sequence[FloatArray]) -> tuple[Arrays, ArrayDict]:
        """(n,) limited metrics by name, and relative excess by limit."""
        names = sorted({name for limit in self.limits for name in limit.expression.names})
        metrics = self._composed(shared, values, names)
        excess = {
            limit.text: np.broadcast_to(limit.expression.violation(metrics), len(shared))
            for limit in self.limits
        }
        return metrics, excess

    def _composed(self, shared: IntArray, values: Sequence[FloatArray], names: Strings) -> Arrays:
        """(n,) metrics of systems by name, and those that are derived from them."""
        natural = {
            pool.name: pool.natural(pool_values)
            for pool, pool_values in zip(self._pools, values, strict=True)
        }
        settings = {name: numbers[shared] for name, numbers in self._shared.items()}
        composed = self._evaluator.compose(natural, settings, self._problem.sources_of(names))
        return self._problem.add_derived(dict(composed))

    def evaluate(
        self, shared: IntArray, values: Sequence[FloatArray]
    ) -> tuple[FloatArray, BoolArray]:
        """(n, m) minimized objectives, and (n,) whether the limits are kept.

        A derived metric that is undefined has a value that no finite one beats.
        """
        deciding = _deciding_metrics(self._problem, self._evaluator)
        names = [name for name in deciding if name not in self._shared]
        metrics = dict(self._composed(shared, values, names))
        for derived in self._problem.derived:
            name = derived.metric.name
            if name in metrics and np.isnan(metrics[name]).any():
                bound = derived.best_case(metrics, self._problem.evaluator.metrics, len(shared))
                metrics[name] = np.where(np.isnan(metrics[name]), bound, metrics[name])
        objectives = [
            objective.minimized(metrics[objective.metric.name])
            for objective in self._problem.objectives
        ]
        table = np.column_stack(objectives)
        # A system that does not keep up with its arrivals waits for ever.
        feasible = np.asarray(np.isfinite(table).all(axis=1))
        for limit in self.limits:
            feasible &= limit.expression.violation(metrics) <= 0
        return table, feasible

    def _descend(self, depth: int, shared: IntArray, rows_of_pools: list[IntArray]) -> None:
        """Search combinations of parts at a depth, chunk by chunk."""
        for start in range(0, len(shared), _CHUNK):
            piece = slice(start, start + _CHUNK)
            self._look_at(
                depth, shared[piece], [rows_of_pool[piece] for rows_of_pool in rows_of_pools]
            )

    def _look_at(self, depth: int, shared: IntArray, rows_of_pools: list[IntArray]) -> None:
        values = [
            ideals[rows_of_pool]
            for ideals, rows_of_pool in zip(self._ideals[depth], rows_of_pools, strict=True)
        ]
        objectives, feasible = self.evaluate(shared, values)
        survivors = np.flatnonzero(feasible)
        survivors = survivors[self._is_candidate(objectives[survivors])]
        shared = shared[survivors]
        rows_of_pools = [rows_of_pool[survivors] for rows_of_pool in rows_of_pools]
        if depth < self._depth:
            for pool_number, pool in enumerate(self._pools):
                if depth >= pool.depth:
                    continue
                halves = 2 * rows_of_pools[pool_number][:, None] + np.array([0, 1])
                exists = np.isfinite(self._ideals[depth + 1][pool_number][:, 0])[halves]
                which = np.repeat(np.arange(len(shared)), 2)[exists.ravel()]
                shared = shared[which]
                rows_of_pools = [rows_of_pool[which] for rows_of_pool in rows_of_pools]
                rows_of_pools[pool_number] = halves[exists]
            self._descend(depth + 1, shared, rows_of_pools)
            return
        self._n_evaluated += len(survivors)
        starts_of_pools = [
            starts[rows_of_pool]
            for starts, rows_of_pool in zip(self._starts, rows_of_pools, strict=True)
        ]
        numbers = shared
        weights = np.ones(len(shared), np.int64)
        for pool, place in zip(self._pools, starts_of_pools, strict=True):
            numbers = numbers * len(pool.values) + place
            weights = weights * pool.counts[place]
        self._add(objectives[survivors], numbers, weights)

    def _is_candidate(self, objectives: FloatArray) -> BoolArray:
        survives = ~dominated_by(self._incumbents, objectives)
        survives[survives] = ~dominated_by(self._archive.points, objectives[survives])
        return survives

    def _add(self, objectives: FloatArray, numbers: IntArray, weights: IntArray) -> None:
        self._archive.add(objectives, numbers, weights)

    def rows_of(self, numbers: IntArray) -> IntArray:
        """(n, d) systems by their numbers."""
        sizes = (self.n_shared, *(len(pool.values) for pool in self._pools))
        settings, *places = np.unravel_index(numbers, sizes)
        rows = self._settings[settings]
        for pool, place in zip(self._pools, places, strict=True):
            rows[:, pool.columns] = pool.rows[place]
        return rows
