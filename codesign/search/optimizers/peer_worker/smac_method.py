"""SMAC3 with ParEGO: random forests over weighted sums of the objectives.

Its example "ParEGO" with ask and tell. SMAC3 knows no limits: a design that breaks one has the
worst cost seen, and so has one that is inadmissible. A fifth of its proposals are random by its
own default.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .task import Proposal, Task, settings_of

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


def smac_parego(task: Task) -> Proposal:
    """The next configuration of a facade that was told all."""
    import logging

    import joblib
    from ConfigSpace import Configuration, ForbiddenValueError
    from smac.runhistory.dataclasses import TrialInfo, TrialValue

    logging.disable(logging.WARNING)
    space = _space(task)
    # SMAC's forest starts threads at each prediction, which takes longer than what they do.
    with tempfile.TemporaryDirectory() as folder, joblib.parallel_config(backend="sequential"):
        facade = _facade(task, space, Path(folder))
        for values, cost in _costs(task):
            try:
                info = TrialInfo(Configuration(space, values=values), seed=0)
            except ForbiddenValueError:
                continue  # SMAC knows that; it cannot be told a cost.
            facade.tell(info, TrialValue(cost=cost))
        config = facade.ask().config
    settings = settings_of(
        "smac",
        facade,
        limits="none; a design that breaks one has the worst cost seen",
        reference_point="takes none",
        **(
            {
                f"{section}.{name}": value
                for section, values in facade.meta.items()
                if isinstance(values, dict) and section not in ("facade", "runner")
                for name, value in values.items()
                if isinstance(value, bool | int | float | str)
                and name not in ("seed", "random_state")
            }
        ),
    )
    return Proposal([task.design(dict(config))], str(config.origin), settings)


def _costs(task: Task) -> list[tuple[dict[str, int], list[float]]]:
    """Levels by name and costs of each design, each design once."""
    objectives = [result.objectives for result in task.known if result.objectives is not None]
    worst = [max(column) for column in zip(*objectives, strict=True)]
    costs: dict[tuple[tuple[str, int], ...], list[float]] = {}
    for result in (*task.known, *task.unknown):
        is_feasible = all(value <= 0 for value in result.violations)
        cost = result.objectives if is_feasible and result.objectives is not None else worst
        costs.setdefault(tuple(task.values_of(result).items()), cost)
    return [(dict(pairs), cost) for pairs, cost in costs.items()]


def _space(task: Task) -> ConfigurationSpace:
    from ConfigSpace import (
        CategoricalHyperparameter,
        ConfigurationSpace,
        ForbiddenAndConjunction,
        ForbiddenEqualsClause,
        InCondition,
        UniformIntegerHyperparameter,
    )

    space = ConfigurationSpace(seed=task.seed)
    for i in task.varying:
        # A default must keep the rules, so it is the first design.
        name = task.names[i]
        last = task.levels[i] - 1
        default = task.known[0].design[i]
        space.add(
            UniformIntegerHyperparameter(name, 0, last, default_value=default)
            if task.is_ordered[i]
            else CategoricalHyperparameter(name, list(range(last + 1)), default_value=default)
        )
    for i in task.varying:
        if (condition := task.conditions[i]) is not None and condition[0] in task.varying:
            parent, levels = condition
            space.add(InCondition(space[task.names[i]], space[task.names[parent]], levels))
    for combination in task.forbidden:
        clauses = [
            ForbiddenEqualsClause(space[task.names[i]], level)
            for i, level in combination
            if i in task.varying
        ]
        space.add(clauses[0] if len(clauses) == 1 else ForbiddenAndConjunction(*clauses))
    return space


def _facade(task: Task, space: ConfigurationSpace, folder: Path) -> Any:
    from smac import HyperparameterOptimizationFacade, Scenario
    from smac.multi_objective.parego import ParEGO

    scenario = Scenario(
        space,
        name="peer",
        objectives=[f"f{j}" for j in range(task.n_objectives)],
        output_directory=folder,
        deterministic=True,
        n_trials=10_000,
        seed=task.seed,
    )
    return HyperparameterOptimizationFacade(
        scenario,
        _never_called,
        multi_objective_algorithm=ParEGO(scenario),
        # The initial designs are told.
        initial_design=HyperparameterOptimizationFacade.get_initial_design(scenario, n_configs=0),
        overwrite=True,
    )


def _never_called(config: Any, seed: int = 0) -> float:
    """SMAC wants a function, though it is only asked and told."""
    raise RuntimeError("designs are evaluated elsewhere")
