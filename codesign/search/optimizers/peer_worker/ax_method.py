"""Ax through its ``Client``; limits are outcome constraints.

"Multi-objective optimization" and the reference of ``Client.configure_generation_strategy``
(Ax 1). With its default strategy the first trial that a client makes is always the center or a
Sobol point, whatever was attached before. Here the initial designs are attached, so the strategy
has no initialization of its own.
"""

from __future__ import annotations

from typing import Any

from .task import Proposal, Task, avoid_compiling, settings_of


def ax(task: Task) -> Proposal:
    """The next trial of a client that was told all."""
    import logging

    logging.disable(logging.WARNING)
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    avoid_compiling()
    client = Client(random_seed=task.seed)
    children: dict[int, dict[Any, list[str]]] = {}
    for i in task.varying:
        if (condition := task.conditions[i]) is not None:
            parent, (level,) = condition
            children.setdefault(parent, {}).setdefault(level, []).append(task.names[i])
    client.configure_experiment(
        parameters=[
            RangeParameterConfig(
                name=task.names[i], bounds=(0, task.levels[i] - 1), parameter_type="int"
            )
            if task.is_ordered[i] and i not in children
            else ChoiceParameterConfig(
                name=task.names[i],
                values=list(range(task.levels[i])),
                parameter_type="int",
                is_ordered=task.is_ordered[i],
                dependent_parameters=children.get(i),
            )
            for i in task.varying
        ],
        parameter_constraints=[
            f"{' + '.join(terms)} <= {bound!r}"
            for coefficients, bound in task.linear
            if (
                terms := [
                    f"{coefficients[i]!r} * {task.names[i]}"
                    for i in task.varying
                    if coefficients[i]
                ]
            )
        ],
    )
    bound = task.reference_point
    client.configure_optimization(
        objective=", ".join(f"-f{j}" for j in range(task.n_objectives)),
        outcome_constraints=[
            *([f"f{j} <= {value!r}" for j, value in enumerate(bound)] if bound else []),
            *(f"c{j} <= 0" for j in range(task.n_limits)),
        ],
    )
    client.configure_generation_strategy(initialization_budget=0, initialize_with_center=False)
    for result in task.known:
        outcomes = {f"f{j}": value for j, value in enumerate(result.objectives or [])}
        outcomes |= {f"c{j}": value for j, value in enumerate(result.violations)}
        client.complete_trial(client.attach_trial(task.values_of(result)), raw_data=outcomes)
    for result in task.unknown:
        client.mark_trial_failed(client.attach_trial(task.values_of(result)))
    ((index, values),) = client.get_next_trials(max_trials=1).items()
    strategy = client._generation_strategy
    node = client._experiment.trials[index].generator_runs[0]._generation_node_name
    generator = strategy.adapter.generator
    return Proposal(
        [task.design(values)],
        f"node {node}",
        (
            settings_of(
                "ax-platform",
                strategy,
                limits="outcome constraints",
                reference_point="objective thresholds" if task.reference_point else "not given",
                strategy=strategy.name,
                generator=type(generator).__name__,
                acquisition=generator.botorch_acqf_class.__name__,
                model=type(generator.surrogate.model).__name__,
            )
        ),
    )
