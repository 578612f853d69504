"""The best memory system that both phases share, found among all of the space, by proof.

A request takes prompt tokens / prefill throughput + generated tokens / decode throughput of device
time, and the same with tokens per joule for its energy. Each phase has its own array, vector length
and software; memory is what they share. For every memory system the bounds that exact fronts rest
on (``docs/exact-fronts.md``) say what it takes at least. Memory systems are evaluated in the order
of that bound, all their designs, until the next bound is no better than the best that is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.base.errors import InfeasibleError, InputError
from codesign.base.records import frozen
from codesign.models.workload.lowering import Phase
from codesign.search.enumeration.decomposition import Decomposition
from codesign.search.problem import Problem
from validation.conclusions.claims import Measure

OWN = "pe_array"
"""Parameter that each phase chooses for itself, besides those that bounds leave open."""
_METRICS = ("throughput_tokens_per_s", "tdp_watts")
_AT_ONCE = 1 << 15
"""Partial designs bounded, or designs evaluated, together."""
_MEMORIES = 64
"""Memory systems evaluated before the next look at the bounds."""


@frozen
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


class Sharing:
    """Memory systems that two phases may share; their bounds are computed once.

    Args:
        problems: Of each phase, over one space, with an evaluator that has bounds.
        n_tokens: Tokens of a request by phase.

    Raises:
        InputError: An evaluator without bounds, or a space that cannot be listed.
    """

    def __init__(self, problems: Mapping[Phase, Problem], n_tokens: Mapping[Phase, float]) -> None:
        self._phases = {
            phase: _PhaseDesigns(problem, n_tokens[phase]) for phase, problem in problems.items()
        }
        self._memory = next(iter(self._phases.values())).memories()
        self._n_memories = int(self._memory.max()) + 1

    def best(self, measure: Measure, cap_watts: float) -> Shared:
        """The memory system with which a request costs least.

        Args:
            measure: What costs are of.
            cap_watts: Limit on the TDP of every device.

        Raises:
            InfeasibleError: No memory system serves both phases.
        """
        bounds = {
            phase: designs.bounds(measure, cap_watts) for phase, designs in self._phases.items()
        }
        least = {
            phase: _least(self._memory, values, self._n_memories)
            for phase, values in bounds.items()
        }
        total = np.sum(list(least.values()), axis=0)
        order = np.argsort(total, kind="stable")
        best = Shared(float("inf"), {}, self._n_memories, 0)
        for start in range(0, self._n_memories, _MEMORIES):
            chosen_order = order[start : start + _MEMORIES]
            chosen_order = chosen_order[total[chosen_order] < best.cost]
            if not len(chosen_order):
                break
            exact: dict[Phase, FloatArray] = dict(least)
            rows: dict[Phase, IntArray] = {}
            for phase, designs in self._phases.items():
                others = np.sum(
                    [exact[other_phase] for other_phase in exact if other_phase != phase], axis=0
                )
                may_win = bounds[phase] + others[self._memory] < best.cost
                roots = np.flatnonzero(np.isin(self._memory, chosen_order) & may_win)
                exact[phase], rows[phase] = designs.cheapest(
                    roots, self._memory, self._n_memories, measure, cap_watts
                )
            best = _better(best, exact, rows, len(chosen_order))
        if not best.rows:
            raise InfeasibleError(f"no memory system serves both phases within {cap_watts:g} W")
        return best


def _better(
    best: Shared, exact: Mapping[Phase, FloatArray], rows: Mapping[Phase, IntArray], n: int
) -> Shared:
    """The best known, or one of ``n`` memory systems just evaluated if that costs less."""
    total = np.sum(list(exact.values()), axis=0)
    winner = int(total.argmin())
    seen = replace(best, n_evaluated=best.n_evaluated + n)
    if not total[winner] < best.cost:
        return seen
    designs = {phase: candidates[winner][None, :] for phase, candidates in rows.items()}
    return replace(seen, cost=float(total[winner]), rows=designs)


def _least(groups: IntArray, values: FloatArray, n: int) -> FloatArray:
    """(n,) the least value of each group; infinite where there is none."""
    least = np.full(n, np.inf)
    np.minimum.at(least, groups, values)
    return least


class _PhaseDesigns:
    """Designs of one phase: what they cost, at least or exactly."""

    def __init__(self, problem: Problem, n_tokens: float) -> None:
        if not problem.has_bounds:
            raise InputError(f"evaluator {problem.evaluator_name!r} has no bounds")
        self._problem, self._evaluator, self._n_tokens = problem, problem.evaluator, n_tokens
        on_chip = [name for name in problem.space.names if name.startswith("sram")]
        self._decomposition = Decomposition(problem, always_decided=on_chip)
        best_cases = [self._best_case(piece) for piece in self._pieces()]
        self._most_tokens_per_s, self._least_tdp = np.concatenate(best_cases, axis=1)

    def bounds(self, measure: Measure, cap_watts: float) -> FloatArray:
        """(r,) what every design of a partial one costs at least."""
        costs = cost_of(measure, self._n_tokens, self._most_tokens_per_s, self._least_tdp)
        return np.asarray(np.where(self._least_tdp <= cap_watts, costs, np.inf))

    def memories(self) -> IntArray:
        """(r,) the memory system of each partial design, numbered from 0."""
        space = self._problem.space
        root_slices = [
            self._decomposition.roots(np.arange(piece.start, piece.stop))
            for piece in self._pieces()
        ]
        rows = np.concatenate([piece_rows.rows for piece_rows in root_slices])
        rows[:, space.names.index(OWN)] = 0
        _, memory = np.unique(rows, axis=0, return_inverse=True)
        return np.asarray(memory.ravel(), dtype=np.int64)

    def cheapest(
        self,
        roots: IntArray,
        memory: IntArray,
        n_memories: int,
        measure: Measure,
        cap_watts: float,
    ) -> tuple[FloatArray, IntArray]:
        """Least cost of each memory system over these roots, and the design that has it."""
        d = len(self._problem.space.parameters)
        least, rows = np.full(n_memories, np.inf), np.zeros((n_memories, d), dtype=np.int64)
        completions = self._decomposition.remaining(0)
        for piece in np.array_split(roots, max(1, len(roots) * completions // _AT_ONCE)):
            designs, owner = self._completed(piece, memory)
            observations = self._problem.evaluate(designs, _METRICS)
            rate, tdp = (observations.metrics[name] for name in _METRICS)
            inside = observations.feasible & (tdp <= cap_watts) & self._problem.admits(designs)
            costs = np.asarray(
                np.where(inside, cost_of(measure, self._n_tokens, rate, tdp), np.inf)
            )
            ranked = np.lexsort((costs, owner))
            first = ranked[np.diff(owner[ranked], prepend=-1) > 0]
            gains = first[costs[first] < least[owner[first]]]
            least[owner[gains]], rows[owner[gains]] = costs[gains], designs[gains]
        return least, rows

    def _pieces(self) -> Sequence[slice]:
        n = self._decomposition.n_roots
        return [slice(i, min(i + _AT_ONCE, n)) for i in range(0, n, _AT_ONCE)]

    def _best_case(self, piece: slice) -> FloatArray:
        piece_rows = self._decomposition.roots(np.arange(piece.start, piece.stop))
        columns, undecided = self._decomposition.columns(piece_rows, 0)
        best = self._evaluator.best_case(columns, undecided, _METRICS)
        return np.stack([best[name] for name in _METRICS])

    def _completed(self, roots: IntArray, memory: IntArray) -> tuple[IntArray, IntArray]:
        """All designs of some partial ones, and the memory system of each."""
        walk = self._decomposition
        designs, owners = [], []
        for root in roots.tolist():
            piece_rows = walk.roots(np.arange(root, root + 1))
            for level in range(len(walk.undecided)):
                piece_rows = walk.decide(piece_rows, level)
            designs.append(piece_rows.rows)
            owners.append(np.full(len(piece_rows), memory[root]))
        if not designs:
            d = len(self._problem.space.parameters)
            return np.empty((0, d), dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate(designs), np.concatenate(owners)
