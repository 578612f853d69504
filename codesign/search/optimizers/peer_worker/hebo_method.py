"""HEBO for several objectives and constraints, ``GeneralBO``, with its defaults.

Reference implementation of Cowen-Rivers et al., "HEBO: pushing the limits of sample-efficient
hyperparameter optimisation", 2022. It takes a reference point only where there are no limits.
"""

from __future__ import annotations

from .task import Proposal, Task, settings_of


def hebo(task: Task) -> Proposal:
    """A suggestion of an optimizer that was told all."""
    import numpy as np
    import pandas as pd
    import torch
    from hebo.design_space.design_space import DesignSpace
    from hebo.optimizers.general import GeneralBO

    torch.set_num_threads(1)
    torch.manual_seed(task.seed)
    np.random.seed(task.seed)  # noqa: NPY002 # the only generator that HEBO draws from
    space = DesignSpace().parse(
        [
            {"name": task.names[i], "type": "int", "lb": 0, "ub": task.levels[i] - 1}
            if task.is_ordered[i]
            else {"name": task.names[i], "type": "cat", "categories": list(range(task.levels[i]))}
            for i in task.varying
        ]
    )
    bound = task.reference_point
    is_bounded = bound is not None and not task.n_limits
    optimizer = GeneralBO(
        space,
        num_obj=task.n_objectives,
        num_constr=task.n_limits,
        ref_point=np.array(bound) if is_bounded else None,
    )
    observed = pd.DataFrame([task.values_of(result) for result in task.known])
    outcomes = [[*(result.objectives or []), *result.violations] for result in task.known]
    optimizer.observe(observed, np.array(outcomes))
    suggestion = optimizer.suggest(n_suggestions=1)
    model = optimizer.model
    settings = settings_of(
        "HEBO",
        optimizer,
        limits="constraints",
        reference_point="given" if is_bounded else "taken only without limits",
    )
    origin = "at random" if model is None else f"model {type(model).__name__}"
    return Proposal([task.design(suggestion.iloc[0].to_dict())], origin, settings)
