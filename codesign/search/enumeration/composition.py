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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
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


class FrontOfPool(Protocol):
    """Finds the exact front of a pool's problem, or reads it from where it is kept."""

    def __call__(self, problem: Problem, rebuild: Rebuild | None) -> ExactFront:
        """The front; ``rebuild`` builds the same problem in another process."""
        ...


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
    evaluator = _checked(problem)
    space = problem.space
    columns = set(_shared_columns(space).tolist())
    names = {space.names[column] for column in columns}
    for item in problem.constraints:
        stray = sorted(item.expression.names & set(space.names) - names) if item.is_known else []
        if stray:
            raise InputError(
                f"constraint {item.text!r} names {stray[0]}, a parameter of a machine: state it in "
                "the space of its pool",
                item.where,
            )
    parts = [part for part in space.components if set(part.columns.tolist()) <= columns]
    size = math.prod(part.size for part in parts)
    if size * math.prod(pool.space.size for pool in space.pools.values()) != space.size:
        raise InputError(
            f"a constraint of space {space.name} joins designs of its pools: state it in the space "
            "of one pool, or as a limit on a metric",
            _joining_place(space),
        )
    if size > _MOST_SHARED:
        raise InputError(f"{size:,} settings of machines and links are too many to list")
    shared = np.full((size, len(space.names)), -1, dtype=np.int64)
    digits = np.unravel_index(np.arange(size), [part.size for part in parts]) if parts else []
    for part, digit in zip(parts, digits, strict=True):
        shared[:, part.columns] = part.rows[digit]
    known = [item for item in problem.constraints if item.is_known]
    values = space.values(shared)
    for item in known:
        shared = shared[np.broadcast_to(item.expression.violation(values) <= 0, len(shared))]
        values = space.values(shared)
    pools = []
    for name in evaluator.pool_evaluators():
        rebuild_pool = None if rebuild is None else partial(_rebuilt_pool, rebuild, name)
        pools.append(_pool_front(problem, name, front_of_pool, rebuild_pool))
    composition = SystemSearch(problem, pools, shared)
    archive, n_evaluated = composition.search()
    if not len(archive):
        raise UnattainableError(*nearest_miss(problem, pools, composition))
    front = _front_of(problem, archive, pools, shared, n_evaluated)
    evaluated = problem.evaluate(front.representatives(), problem.deciding_metrics)
    if not evaluated.feasible.all() or not (evaluated.objectives == front.objectives).all():
        worst = int(np.argmax(np.abs(evaluated.objectives - front.objectives).max(axis=1)))
        raise JobError(
            f"evaluator {problem.evaluator_name!r} composes other metrics than it evaluates: "
            f"{front.objectives[worst]} and {evaluated.objectives[worst]}"
        )
    return front


def _checked(problem: Problem) -> Evaluator:
    """The evaluator, if the problem's front can be composed."""
    evaluator = problem.evaluator
    listed = ", ".join(sorted(evaluator.monotone_metrics))
    known = evaluator.monotone_metrics | {
        item.metric.name
        for item in problem.derived
        if item.sources <= evaluator.monotone_metrics and item.follows(evaluator.metrics)
    }
    problems = [
        f"{_place_of(item)}objective '{item}': expected one of {listed}, in its own sense, or a "
        "metric of these that gets better with each of them: "
        "the exact front of systems follows from those of their pools for these alone, as only "
        "they never get worse if a machine gets better"
        for item in problem.objectives
        if item.metric.name not in known or item.sense != item.metric.sense
    ]
    problems += [
        f"{_place_of(item)}constraint {item.text!r}: expected a limit on one of {listed}, "
        "or on a metric of these that gets better with each of them, from its bad side, as only "
        "they never get worse if a machine gets better"
        for item in problem.constraints
        if not item.is_known and not (item.is_limit and item.expression.names <= known)
    ]
    if problems:
        raise InputError(problems)
    return evaluator


def _place_of(item: Objective | Constraint) -> str:
    return f"{item.where}: " if item.where else ""


# --- pools -----------------------------------------------------------------------------------


def pool_problem(problem: Problem, name: str) -> Problem:
    """The search for the designs of one pool that systems on the front may have."""
    evaluator = _checked(problem)
    machine = evaluator.pool_evaluators()[name]
    metrics = {metric.name: metric for metric in machine.metrics}
    needed = evaluator.pool_metrics(_deciding_metrics(problem, evaluator))[name]
    objectives = [Objective(metrics[metric], metrics[metric].sense) for metric in needed]
    limits = {
        next(iter(item.expression.names)): item.bound
        for item in problem.constraints
        if item.bound is not None
    }
    space = problem.space.pools[name].space
    texts = [
        f"{metric} {'<=' if metrics[metric].sense == 'minimize' else '>='} {bound!r}"
        for metric, bound in evaluator.pool_limits(limits)[name].items()
    ]
    constraints = tuple(read_constraint(text, space, machine.metrics) for text in texts)
    return Problem(space, machine, tuple(objectives), constraints, f"pool {name}")


def _deciding_metrics(problem: Problem, evaluator: Evaluator) -> list[str]:
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
        raise UnattainableError(
            f"pool {name}: {error}", _place_of_limit(problem, of_pool)
        ) from None
    pool = problem.space.pools[name]
    columns = [problem.space.names.index(pool.full_name(item)) for item in pool.space.names]
    metrics = tuple(item.metric for item in of_pool.objectives)
    return PoolFront(
        name, metrics, np.array(columns), front.objectives, front.counts, front.representatives()
    ).ordered()


def _place_of_limit(problem: Problem, of_pool: Problem) -> str | None:
    """Place of the first limit that a pool has from the system."""
    own = {name for item in of_pool.constraints for name in item.expression.names}
    places = [item.where for item in problem.constraints if item.expression.names & own]
    return places[0] if places else None


# --- what is shared --------------------------------------------------------------------------


def _shared_columns(space: DesignSpace) -> IntArray:
    """Entries of a system's row that belong to no machine."""
    own = {pool.full_name(item) for pool in space.pools.values() for item in pool.parameter_names}
    return np.array([column for column, name in enumerate(space.names) if name not in own])


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
    """The search of all systems of the pools' fronts."""

    def __init__(self, problem: Problem, pools: Sequence[PoolFront], shared: IntArray) -> None:
        self._problem = problem
        self._pools = pools
        columns = problem.space.columns(shared)
        self._shared = {
            problem.space.names[column]: columns[problem.space.names[column]].lookup(float)
            for column in _shared_columns(problem.space).tolist()
        }
        self._n_shared = len(shared)
        self._depth = max(pool.depth for pool in pools)
        self._ideals = [
            [pool.ideals(min(depth, pool.depth)) for pool in pools]
            for depth in range(self._depth + 1)
        ]
        self._starts = [boundaries(len(pool.values), pool.depth) for pool in pools]
        self._evaluator = _checked(problem)
        limits = [item for item in problem.constraints if item.is_limit]
        self._limits = [
            item for item in limits if not item.expression.names <= self._evaluator.kept_by_pools
        ]
        self._archive = Archive(len(problem.objectives))
        self._incumbents = np.empty((0, len(problem.objectives)))
        self._n_evaluated = 0

    @property
    def limits(self) -> Sequence[Constraint]:
        """Limits on metrics of systems that the pools do not settle."""
        return self._limits

    @property
    def n_shared(self) -> int:
        """Settings of machines and links."""
        return self._n_shared

    def setting_words(self, setting: int) -> str:
        """Numbers of machines, and what of the links is chosen."""
        return ", ".join(
            f"{name} {values[setting]:.4g}"
            for name, values in self._shared.items()
            if name.endswith("_machines") or np.ptp(values) > 0
        )

    def search(self) -> tuple[Archive, int]:
        """The front, and how many systems were evaluated."""
        known = np.empty((0, len(self._problem.objectives)))
        for part, values in self._first_chunks():
            objectives, feasible = self.evaluate(part, values)
            known = np.concatenate([known, objectives[feasible]])
            known = known[non_dominated(known)]
        self._incumbents = known[np.lexsort(known.T[::-1])]
        shared = np.arange(self._n_shared)
        self._descend(0, shared, [np.zeros(len(shared), dtype=np.int64) for _ in self._pools])
        return self._archive, self._n_evaluated

    def _first_chunks(self) -> Iterator[tuple[IntArray, list[FloatArray]]]:
        """Settings and values of every pool, evenly spread, each with all of the others."""
        picks = [
            np.unique(np.linspace(0, len(pool.values) - 1, _FIRST).astype(np.int64))
            for pool in self._pools
        ]
        grids = np.meshgrid(np.arange(self._n_shared), *picks, indexing="ij")
        shared, *chosen = (grid.ravel() for grid in grids)
        for start in range(0, len(shared), _CHUNK):
            part = slice(start, start + _CHUNK)
            yield (
                shared[part],
                [pool.values[x[part]] for pool, x in zip(self._pools, chosen, strict=True)],
            )

    def nearest(self) -> tuple[int, dict[str, float], dict[str, float]]:
        """System whose worst excess is least.

        Returns:
            Its setting, its metrics by name, its excess by limit.
        """
        best: tuple[int, dict[str, float], dict[str, float]] | None = None
        for part, values in self._first_chunks():
            metrics, excess = self.limited(part, values)
            worst = np.max(list(excess.values()), axis=0)
            i = int(np.argmin(worst))
            if best is None or worst[i] < max(best[2].values()):
                best = (
                    int(part[i]),
                    {name: float(x[i]) for name, x in metrics.items()},
                    {text: float(x[i]) for text, x in excess.items()},
                )
        assert best is not None  # there is a setting
        return best

    def limited(
        self, shared: IntArray, values: Sequence[FloatArray]
    ) -> tuple[Mapping[str, FloatArray], dict[str, FloatArray]]:
        """(n,) limited metrics by name, and relative excess by limit."""
        names = sorted({name for item in self._limits for name in item.expression.names})
        metrics = self._composed(shared, values, names)
        excess = {
            item.text: np.broadcast_to(item.expression.violation(metrics), len(shared))
            for item in self._limits
        }
        return metrics, excess

    def _composed(
        self, shared: IntArray, values: Sequence[FloatArray], names: Sequence[str]
    ) -> Mapping[str, FloatArray]:
        """(n,) metrics of systems by name, and those that are derived from them."""
        natural = {
            pool.name: pool.natural(own) for pool, own in zip(self._pools, values, strict=True)
        }
        settings = {name: numbers[shared] for name, numbers in self._shared.items()}
        composed = self._evaluator.compose(natural, settings, self._problem.sources_of(names))
        return self._problem.with_derived(dict(composed))

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
            item.minimized(metrics[item.metric.name]) for item in self._problem.objectives
        ]
        table = np.column_stack(objectives)
        # A system that does not keep up with its arrivals waits for ever.
        feasible: BoolArray = np.asarray(np.isfinite(table).all(axis=1))
        for item in self._limits:
            feasible &= item.expression.violation(metrics) <= 0
        return table, feasible

    def _descend(self, depth: int, shared: IntArray, parts: list[IntArray]) -> None:
        """Search combinations of parts at a depth, chunk by chunk."""
        for start in range(0, len(shared), _CHUNK):
            piece = slice(start, start + _CHUNK)
            self._look_at(depth, shared[piece], [part[piece] for part in parts])

    def _look_at(self, depth: int, shared: IntArray, parts: list[IntArray]) -> None:
        values = [ideals[part] for ideals, part in zip(self._ideals[depth], parts, strict=True)]
        objectives, feasible = self.evaluate(shared, values)
        kept = np.flatnonzero(feasible)
        kept = kept[~dominated_by(self._incumbents, objectives[kept])]
        kept = kept[~dominated_by(self._archive.points, objectives[kept])]
        shared, parts = shared[kept], [part[kept] for part in parts]
        if depth < self._depth:
            self._split(depth, shared, parts)
            return
        self._n_evaluated += len(kept)
        chosen = [starts[part] for starts, part in zip(self._starts, parts, strict=True)]
        numbers, weights = shared, np.ones(len(shared), dtype=np.int64)
        for pool, place in zip(self._pools, chosen, strict=True):
            numbers = numbers * len(pool.values) + place
            weights = weights * pool.counts[place]
        self._archive.add(objectives[kept], numbers, weights)

    def _split(self, depth: int, shared: IntArray, parts: list[IntArray]) -> None:
        for pool_number, pool in enumerate(self._pools):
            if depth >= pool.depth:
                continue
            halves = 2 * parts[pool_number][:, None] + np.array([0, 1])
            exists = np.isfinite(self._ideals[depth + 1][pool_number][:, 0])[halves]
            which = np.repeat(np.arange(len(shared)), 2)[exists.ravel()]
            shared = shared[which]
            parts = [part[which] for part in parts]
            parts[pool_number] = halves[exists]
        self._descend(depth + 1, shared, parts)


def _front_of(
    problem: Problem,
    archive: Archive,
    pools: Sequence[PoolFront],
    shared: IntArray,
    n_evaluated: int,
) -> ExactFront:
    numbers = np.concatenate(archive.members)
    point = np.repeat(np.arange(len(archive)), [len(group) for group in archive.members])
    digits = np.unravel_index(numbers, (len(shared), *(len(pool.values) for pool in pools)))
    rows = shared[digits[0]]
    for pool, place in zip(pools, digits[1:], strict=True):
        rows[:, pool.columns] = pool.rows[place]
    size = problem.space.size
    return ExactFront(
        objectives=archive.points,
        counts=archive.counts,
        rows=rows,
        point=point,
        n_designs=size,
        n_evaluated=n_evaluated,
        n_repeated=0,
        n_excluded=size - n_evaluated,
        n_failed=0,
    )
