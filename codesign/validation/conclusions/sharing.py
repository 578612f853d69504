"""The best memory system that both phases share, found among all of the space, by proof.

A request takes prompt tokens / prefill throughput + generated tokens / decode throughput of device
time, and the same with tokens per joule for its energy. Each phase has its own array, vector length
and software; memory is what they share. For every memory system the bounds that exact fronts rest
on (``docs/exact-fronts.md``) say what it takes at least. Memory systems are evaluated in the order
of that bound, all their designs, until the next bound is no better than the best that is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.enumeration.decomposition import Decomposition
from codesign.errors import InfeasibleError, InputError
from codesign.evaluators.base import Bounds
from codesign.problem import Problem
from codesign.validation.conclusions.claims import Measure
from codesign.workload.lowering import Phase

OWN = "pe_array"
"""What each phase chooses for itself, besides what bounds may leave open."""
_METRICS = ("throughput_tokens_per_s", "tdp_watts")
_AT_ONCE = 1 << 15
"""Partial designs bounded, or designs evaluated, together."""
_MEMORIES = 64
"""Memory systems evaluated before the next look at the bounds."""


@dataclass(frozen=True)
class Shared:
    """The best memory system for both phases.

    Attributes:
        cost: Device seconds, or joules, of a request.
        rows: (1, d) the design of each phase, which have the same memory.
        n_memories: Memory systems of the space.
        n_evaluated: Of these, evaluated; the others cannot be better.
    """

    cost: float
    rows: Mapping[Phase, IntArray]
    n_memories: int
    n_evaluated: int


def cost_of(measure: Measure, n_tokens: float, rate: FloatArray, tdp: FloatArray) -> FloatArray:
    """(n,) seconds, or joules of TDP, that ``n_tokens`` of a phase take."""
    return n_tokens / rate if measure == "rate" else n_tokens * tdp / rate


def best_shared(
    problems: Mapping[Phase, Problem],
    n_tokens: Mapping[Phase, float],
    measure: Measure,
    cap_watts: float,
) -> Shared:
    """The memory system with which a request costs least.

    Args:
        problems: Of each phase, over one space, with an evaluator that has bounds.
        n_tokens: Tokens of a request by phase.
        measure: What costs are of.
        cap_watts: Limit on the TDP of every device.

    Raises:
        InfeasibleError: No memory system serves both phases.
        InputError: An evaluator without bounds, or a space that cannot be listed.
    """
    phases = {
        phase: _PhaseCosts(problem, n_tokens[phase], measure, cap_watts)
        for phase, problem in problems.items()
    }
    memory = next(iter(phases.values())).memories()
    n_memories = int(memory.max()) + 1
    least = {phase: _least(memory, costs.bounds, n_memories) for phase, costs in phases.items()}
    total = np.sum(list(least.values()), axis=0)
    order = np.argsort(total, kind="stable")
    best = Shared(float("inf"), {}, n_memories, 0)
    for start in range(0, n_memories, _MEMORIES):
        chosen = order[start : start + _MEMORIES]
        chosen = chosen[total[chosen] < best.cost]
        if not len(chosen):
            break
        best = _better(best, phases, memory, least, chosen)
    if not best.rows:
        raise InfeasibleError(f"no memory system serves both phases within {cap_watts:g} W")
    return best


def _better(
    best: Shared,
    phases: Mapping[Phase, _PhaseCosts],
    memory: IntArray,
    least: Mapping[Phase, FloatArray],
    chosen: IntArray,
) -> Shared:
    """The best known, or one of the chosen memory systems if that costs less."""
    exact: dict[Phase, FloatArray] = {}
    rows: dict[Phase, IntArray] = {}
    candidates = np.isin(memory, chosen)
    for phase, costs in phases.items():
        others = np.sum([exact.get(p, least[p]) for p in phases if p != phase], axis=0)
        roots = np.flatnonzero(candidates & (costs.bounds + others[memory] < best.cost))
        exact[phase], rows[phase] = costs.evaluate(roots, memory, len(others))
    total = np.sum(list(exact.values()), axis=0)
    winner = int(total.argmin())
    n_evaluated = best.n_evaluated + len(chosen)
    if not total[winner] < best.cost:
        return Shared(best.cost, best.rows, best.n_memories, n_evaluated)
    designs = {phase: rows[phase][winner][None, :] for phase in phases}
    return Shared(float(total[winner]), designs, best.n_memories, n_evaluated)


def _least(groups: IntArray, values: FloatArray, n: int) -> FloatArray:
    """(n,) the least value of each group; infinite where there is none."""
    least = np.full(n, np.inf)
    np.minimum.at(least, groups, values)
    return least


class _PhaseCosts:
    """What designs of one phase cost, at least or exactly."""

    def __init__(
        self, problem: Problem, n_tokens: float, measure: Measure, cap_watts: float
    ) -> None:
        if not isinstance(problem.evaluator, Bounds):
            raise InputError(f"evaluator {problem.evaluator_name!r} has no bounds")
        self._problem, self._evaluator = problem, problem.evaluator
        self._n_tokens, self._measure, self._cap_watts = n_tokens, measure, cap_watts
        self._decomposition = Decomposition(problem)
        self.bounds = np.concatenate([self._bounds(part) for part in self._pieces()])

    def memories(self) -> IntArray:
        """(r,) the memory system of each partial design, numbered from 0."""
        space = self._problem.space
        parts = [self._decomposition.roots(piece.start, piece.stop) for piece in self._pieces()]
        rows = np.concatenate([part.rows for part in parts])
        rows[:, space.names.index(OWN)] = 0
        _, memory = np.unique(rows, axis=0, return_inverse=True)
        return np.asarray(memory.ravel(), dtype=np.int64)

    def evaluate(
        self, roots: IntArray, memory: IntArray, n_memories: int
    ) -> tuple[FloatArray, IntArray]:
        """Of each memory system the least cost, and the design that has it, over these roots."""
        d = len(self._problem.space.parameters)
        least, rows = np.full(n_memories, np.inf), np.zeros((n_memories, d), dtype=np.int64)
        completions = self._decomposition.remaining(0)
        for piece in np.array_split(roots, max(1, len(roots) * completions // _AT_ONCE)):
            designs, owner = self._completed(piece, memory)
            costs = self._costs(designs)
            ranked = np.lexsort((costs, owner))
            first = ranked[np.diff(owner[ranked], prepend=-1) > 0]
            gains = first[costs[first] < least[owner[first]]]
            least[owner[gains]], rows[owner[gains]] = costs[gains], designs[gains]
        return least, rows

    def _pieces(self) -> Sequence[slice]:
        n = self._decomposition.n_roots
        return [slice(i, min(i + _AT_ONCE, n)) for i in range(0, n, _AT_ONCE)]

    def _bounds(self, piece: slice) -> FloatArray:
        part = self._decomposition.roots(piece.start, piece.stop)
        columns, undecided = self._decomposition.columns(part, 0)
        best = self._evaluator.best_case(columns, undecided, _METRICS)
        rate, tdp = (best[name] for name in _METRICS)
        return self._within(
            cost_of(self._measure, self._n_tokens, rate, tdp), tdp <= self._cap_watts
        )

    def _completed(self, roots: IntArray, memory: IntArray) -> tuple[IntArray, IntArray]:
        """All designs of some partial ones, and the memory system of each."""
        walk = self._decomposition
        designs, owners = [], []
        for root in roots.tolist():
            part = walk.roots(root, root + 1)
            for level in range(len(walk.undecided)):
                part = walk.decide(part, level)
            designs.append(part.rows)
            owners.append(np.full(len(part), memory[root]))
        if not designs:
            d = len(self._problem.space.parameters)
            return np.empty((0, d), dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate(designs), np.concatenate(owners)

    def _costs(self, rows: IntArray) -> FloatArray:
        found = self._problem.evaluate(rows, _METRICS)
        rate, tdp = (found.metrics[name] for name in _METRICS)
        inside = found.feasible & (tdp <= self._cap_watts) & self._problem.admits(rows)
        return self._within(cost_of(self._measure, self._n_tokens, rate, tdp), inside)

    @staticmethod
    def _within(costs: FloatArray, inside: BoolArray) -> FloatArray:
        return np.asarray(np.where(inside, costs, np.inf))
