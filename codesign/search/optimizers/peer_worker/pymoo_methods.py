"""pymoo's evolutionary algorithms for several objectives, through ask and tell.

"Ask and Tell" and "Mixed Variable Problem" of its documentation: integers and choices mate each in
their own way, limits are ``G <= 0``. A generation is complete when as many designs were evaluated
as the population holds; until then proposals are offspring of the same population.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

from .task import POPULATION, Proposal, Result, Task, settings_of


def pymoo_nsga3(task: Task) -> Proposal:
    """NSGA-III with the directions of Das and Dennis, as many as the population can follow."""
    from pymoo.algorithms.moo.nsga3 import NSGA3
    from pymoo.operators.selection.tournament import TournamentSelection
    from pymoo.util.ref_dirs import get_reference_directions

    m = task.n_objectives
    partitions = max(p for p in range(1, POPULATION + 1) if comb(p + m - 1, p) <= POPULATION)
    directions = get_reference_directions("das-dennis", m, n_partitions=partitions)
    selection = TournamentSelection(func_comp=_violation_tournament)
    return _offspring(
        task, lambda **common: NSGA3(ref_dirs=directions, selection=selection, **common)
    )


def _violation_tournament(population: Any, pairs: Any, random_state: Any = None, **_: Any) -> Any:
    """(k, 1) winners of (k, 2) positions, as NSGA-III's own tournament chooses them.

    That one draws without a seed where two designs violate equally (pymoo 0.6.2).
    """
    import numpy as np

    first, second = population.get("CV")[:, 0][pairs].T
    is_tie = first == second
    is_second = np.where(is_tie, random_state.random(len(pairs)) < 0.5, second < first)
    return np.take_along_axis(pairs, is_second.astype(int)[:, None], axis=1)


def pymoo_agemoea(task: Task) -> Proposal:
    """AGE-MOEA."""
    from pymoo.algorithms.moo.age import AGEMOEA

    return _offspring(task, AGEMOEA)


def pymoo_smsemoa(task: Task) -> Proposal:
    """SMS-EMOA, with pymoo's generations, not one offspring at a time."""
    from pymoo.algorithms.moo.sms import SMSEMOA

    return _offspring(task, SMSEMOA)


def _offspring(task: Task, create: Callable[..., Any]) -> Proposal:
    """Offspring of the algorithm after the complete generations."""
    from pymoo.core.mixed import (
        MixedVariableDuplicateElimination,
        MixedVariableMating,
        MixedVariableSampling,
    )
    from pymoo.core.problem import Problem
    from pymoo.core.variable import Choice, Integer

    duplicates = MixedVariableDuplicateElimination()
    algorithm = create(
        pop_size=POPULATION, sampling=MixedVariableSampling(), eliminate_duplicates=duplicates
    )
    # The algorithm's own tournament chooses the parents.
    algorithm.mating = MixedVariableMating(
        selection=algorithm.mating.selection, eliminate_duplicates=duplicates
    )
    variables = {
        task.names[i]: Integer(bounds=(0, task.levels[i] - 1))
        if task.is_ordered[i]
        else Choice(options=list(range(task.levels[i])))
        for i in task.varying
    }
    problem = Problem(vars=variables, n_obj=task.n_objectives, n_ieq_constr=task.n_limits)
    algorithm.setup(problem, seed=task.run_seed, termination=("n_gen", 10**9))
    evaluated = [result for result in task.results if result.objectives is not None]
    for start in range(0, len(evaluated) - POPULATION + 1, POPULATION):
        if start:
            # The draws of mating come before those of selection.
            algorithm.ask()
        algorithm.tell(infills=_individuals(task, algorithm, evaluated[start:][:POPULATION]))
    for _ in range(task.attempt + 1):
        offspring = algorithm.ask()
    bred = [] if offspring is None else [task.design(individual.X) for individual in offspring]
    is_first = not algorithm.is_initialized
    origin = (
        "at random"
        if is_first
        else f"generation {algorithm.n_iter}, offspring of {len(algorithm.pop)}"
    )
    crossover, mutation = (
        {variable.__name__: type(operator).__name__ for variable, operator in operators.items()}
        for operators in (algorithm.mating.crossover, algorithm.mating.mutation)
    )
    return Proposal(
        bred,
        origin,
        (
            settings_of(
                "pymoo",
                algorithm,
                limits="inequality constraints G <= 0",
                reference_point="takes none",
                survival=type(algorithm.survival).__name__,
                crossover=crossover,
                mutation=mutation,
            )
        ),
    )


def _individuals(task: Task, algorithm: Any, results: Sequence[Result]) -> Any:
    import numpy as np
    from pymoo.core.evaluator import Evaluator
    from pymoo.core.population import Population
    from pymoo.problems.static import StaticProblem

    population = Population.new(X=[task.values_of(result) for result in results])
    values = {"F": np.array([result.objectives for result in results])}
    if task.n_limits:
        values["G"] = np.array([result.violations for result in results])
    Evaluator().eval(StaticProblem(algorithm.problem, **values), population)
    return population
