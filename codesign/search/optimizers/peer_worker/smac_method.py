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
    from ConfigSpace import Configuration
    from smac.runhistory.dataclasses import TrialInfo, TrialValue

    logging.disable(logging.WARNING)
    space = _space(task)
    # SMAC's forest starts threads at each prediction, which takes longer than what they do.
    with tempfile.TemporaryDirectory() as folder, joblib.parallel_config(backend="sequential"):
        facade = _facade(task, space, Path(folder))
        for design, cost in _costs(task).items():
            values = {task.names[i]: design[i] for i in task.varying}
            info = TrialInfo(Configuration(space, values=values), seed=0)
            facade.tell(info, TrialValue(cost=cost))
        config = facade.ask().config
    settings = settings_of(
        "smac",
        facade,
        limits="none; a design that breaks one has the worst cost seen",
        reference_point="takes none",
        **(
            {
                f"{part}.{name}": value
                for part, values in facade.meta.items()
                if isinstance(values, dict) and part not in ("facade", "runner")
                for name, value in values.items()
                if isinstance(value, bool | int | float | str)
                and name not in ("seed", "random_state")
            }
        ),
    )
    return Proposal([task.design(dict(config))], str(config.origin), settings)


def _costs(task: Task) -> dict[tuple[int, ...], list[float]]:
    """Costs by design, each design once."""
    objectives = [item.objectives for item in task.known if item.objectives is not None]
    worst = [max(column) for column in zip(*objectives, strict=True)]
    costs: dict[tuple[int, ...], list[float]] = {}
    for item in (*task.known, *task.unknown):
        is_feasible = all(value <= 0 for value in item.violations)
        cost = item.objectives if is_feasible and item.objectives is not None else worst
        costs.setdefault(tuple(item.design), cost)
    return costs


def _space(task: Task) -> ConfigurationSpace:
    from ConfigSpace import (
        CategoricalHyperparameter,
        ConfigurationSpace,
        UniformIntegerHyperparameter,
    )

    space = ConfigurationSpace(seed=task.seed)
    for i in task.varying:
        last = task.levels[i] - 1
        space.add(
            UniformIntegerHyperparameter(task.names[i], 0, last)
            if task.is_ordered[i]
            else CategoricalHyperparameter(task.names[i], list(range(last + 1)))
        )
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
