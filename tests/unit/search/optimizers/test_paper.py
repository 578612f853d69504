"""The published recipe: BoTorch's models and the largest improvement of a random subset."""

import warnings

import numpy as np
import pytest

from codesign.search.optimizers import initial_designs
from codesign.search.optimizers.paper import GpEhviPaper

pytestmark = pytest.mark.usefixtures("gp")


def test_its_choice_is_that_of_botorchs_models_and_acquisition_function(grid, bowls):
    import torch
    from botorch.acquisition.multi_objective.analytic import ExpectedHypervolumeImprovement
    from botorch.exceptions.warnings import InputDataWarning
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.utils.multi_objective.box_decompositions.non_dominated import (
        FastNondominatedPartitioning,
    )
    from gpytorch.mlls import SumMarginalLogLikelihood

    search = grid(2, 12)
    rows = initial_designs(search, 15, 0)
    values = bowls(search, rows)
    reference = np.array([2.0, 2.0])
    # The subset is everything that was not evaluated.
    options = GpEhviPaper.Options(candidates=144)
    optimizer = GpEhviPaper(search, 2, 0, options, reference)
    optimizer.tell(rows, values, np.zeros((15, 0)), np.zeros(15, dtype=bool))

    mean, spread = values.mean(axis=0), values.std(axis=0)
    y = torch.as_tensor(-(values - mean) / spread)
    x = torch.as_tensor(search.space.points(rows))
    # Scaled by the deviation of the population, which BoTorch remarks.
    warnings.simplefilter("ignore", InputDataWarning)
    parts = [SingleTaskGP(x, y[:, [j]], outcome_transform=None) for j in range(2)]
    model = ModelListGP(*parts)
    fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
    bound = torch.as_tensor(-(reference - mean) / spread)
    cells = FastNondominatedPartitioning(bound, Y=y)
    improvement = ExpectedHypervolumeImprovement(model, bound.tolist(), cells)
    everything = search.space.rows(np.arange(144))
    others = everything[~np.isin(search.space.keys(everything), search.space.keys(rows))]
    worth = improvement(torch.as_tensor(search.space.points(others))[:, None, :]).detach().numpy()
    chosen = (others == optimizer.ask(1)).all(axis=1)
    assert worth[chosen][0] == pytest.approx(worth.max(), rel=1e-3)


def test_infeasible_designs_are_no_part_of_the_front(grid, bowls):
    search = grid(2, 12)
    rows = initial_designs(search, 15, 0)
    violations = np.ones((15, 1))
    optimizer = GpEhviPaper(
        search, 2, 0, GpEhviPaper.Options(candidates=50, iterations=5), np.array([2.0, 2.0])
    )
    optimizer.tell(rows, bowls(search, rows), violations, np.zeros(15, dtype=bool))
    assert len(optimizer._memory.history().front) == 0
    assert len(optimizer.ask(3)) == 3
