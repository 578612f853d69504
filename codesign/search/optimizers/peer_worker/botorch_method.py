"""BoTorch as its tutorial shows it: a Gaussian process per outcome and noisy EHVI.

"Constrained, parallel, multi-objective BO in BoTorch with qNEHVI, and qParEGO", with
``qLogNoisyExpectedHypervolumeImprovement``, which BoTorch recommends by now. It searches the unit
cube, where levels have equal shares. A category has a coordinate for each level; the largest
coordinate selects it. Linear constraints that are known in advance bound the search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .task import Proposal, Task, avoid_compiling, settings_of

if TYPE_CHECKING:
    from torch import Tensor

    from codesign.base.columns import JsonObject

_SEARCH: JsonObject = {
    "num_restarts": 4,
    "raw_samples": 128,
    "options": {"batch_limit": 5, "maxiter": 60},
}
"""Less than the tutorial's 10, 512 and 200, which took 16 s a suggestion with 16 parameters."""
_MC_SAMPLES = 128
"""Samples as in the tutorial."""


def botorch_qlognehvi(task: Task) -> Proposal:
    """The optima of the acquisition from all restarts, the best first."""
    import torch
    from botorch.optim.optimize import optimize_acqf

    torch.set_default_dtype(torch.double)
    torch.set_num_threads(1)
    torch.manual_seed(task.seed)
    acquisition, settings = _acquisition(task)
    blocks = _blocks(task)
    d = sum(map(len, _blocks(task)))
    # A level is its coordinate times the number of levels, less a half; BoTorch bounds from below.
    constraints = [
        (
            torch.tensor([blocks[i][0] for i, c in enumerate(coefficients) if c]),
            torch.tensor([-c * task.levels[i] for i, c in enumerate(coefficients) if c]),
            -bound - 0.5 * sum(coefficients),
        )
        for coefficients, bound in task.linear
    ]
    answer: Any = optimize_acqf(
        acquisition,
        bounds=torch.stack([torch.zeros(d), torch.ones(d)]),
        q=1,
        return_best_only=False,
        inequality_constraints=constraints or None,
        **_SEARCH,
    )
    optima, values = answer
    order = torch.argsort(values.reshape(-1), descending=True, stable=True)
    designs = [
        [
            min(int(point[block[0]] * levels), levels - 1)
            if is_ordered
            else int(point[block].argmax())
            for block, levels, is_ordered in zip(blocks, task.levels, task.is_ordered, strict=True)
        ]
        for point in optima.reshape(len(order), -1)[order]
    ]
    return Proposal(designs, f"acquisition over {len(task.known)} results", settings)


def _blocks(task: Task) -> list[list[int]]:
    """Coordinates of each parameter."""
    blocks = []
    stop = 0
    for levels, is_ordered in zip(task.levels, task.is_ordered, strict=True):
        start = stop
        stop = stop + (1 if is_ordered else levels)
        blocks.append(list(range(start, stop)))
    return blocks


def _acquisition(task: Task) -> tuple[Any, JsonObject]:
    import torch
    from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
    from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
    from botorch.sampling.normal import SobolQMCNormalSampler

    results = task.known
    m = task.n_objectives
    bound = task.reference_point
    x = _points(task, [result.design for result in results])
    # BoTorch maximizes; a violation above 0 breaks a limit.
    y = -torch.tensor([result.objectives for result in results])
    excess = torch.tensor([result.violations for result in results]).reshape(len(results), -1)
    # A limit that no design broke needs no model.
    outcomes = torch.cat([y, excess[:, (excess > 0).any(dim=0)]], dim=1)
    model = _fitted(x, outcomes)
    sampler = SobolQMCNormalSampler(torch.Size([_MC_SAMPLES]), seed=task.seed)
    rejected = [result.design for result in task.rejected]
    avoid_compiling()
    acquisition = qLogNoisyExpectedHypervolumeImprovement(
        model=model,
        ref_point=[-value for value in bound] if bound else y.min(dim=0).values.tolist(),
        X_baseline=x,
        prune_baseline=True,
        sampler=sampler,
        objective=IdentityMCMultiOutputObjective(outcomes=list(range(m))),
        constraints=[_outcome(j) for j in range(m, outcomes.shape[1])] or None,
        X_pending=_points(task, rejected) if rejected else None,
    )
    settings = settings_of(
        "botorch",
        acquisition,
        limits="outcome constraints, each with a model once it was broken",
        reference_point="given" if bound else "the worst seen",
        model=type(model.models[0]).__name__,
        kernel=type(model.models[0].covar_module).__name__,
        categories="a coordinate for each level",
        mc_samples=sampler.sample_shape[0],
        **_SEARCH,
    )
    return acquisition, settings


def _points(task: Task, designs: list[list[int]]) -> Tensor:
    """(k, d) centers of the levels in the unit cube; categories are one-hot."""
    import torch

    return torch.tensor(
        [
            [
                coordinate
                for level, levels, is_ordered in zip(
                    design, task.levels, task.is_ordered, strict=True
                )
                for coordinate in (
                    [(level + 0.5) / levels]
                    if is_ordered
                    else [float(level == category) for category in range(levels)]
                )
            ]
            for design in designs
        ]
    )


def _fitted(x: Tensor, outcomes: Tensor) -> Any:
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.gp_regression import SingleTaskGP
    from botorch.models.model_list_gp_regression import ModelListGP
    from botorch.models.transforms.outcome import Standardize
    from gpytorch.mlls import SumMarginalLogLikelihood

    model = ModelListGP(
        *(
            SingleTaskGP(x, outcomes[:, j : j + 1], outcome_transform=Standardize(m=1))
            for j in range(outcomes.shape[1])
        )
    )
    fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
    return model


def _outcome(j: int) -> Callable[[Any], Any]:
    return lambda samples: samples[..., j]
