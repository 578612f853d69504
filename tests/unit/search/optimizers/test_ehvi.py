"""GP with EHVI: models, limits, caps, threads, and that it wins on a known front."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from codesign.search.observations import Observations
from codesign.search.optimizers import SearchSpace, initial_designs
from codesign.search.optimizers.acquisition_function import (
    AcquisitionFunction,
)
from codesign.search.optimizers.ehvi import GpEhvi, _parents, _share
from codesign.search.optimizers.modeling import Modeling
from codesign.search.optimizers.mutation import strides
from codesign.search.optimizers.prediction import QueryPoints
from codesign.search.optimizers.sampling import RandomSearch
from codesign.search.optimizers.surrogate import Fitting, GaussianProcess
from codesign.search.optimizers.training_data import TrainingData, training_rows
from codesign.search.optimizers.violations import violation_scales
from codesign.search.pareto import hypervolume

pytestmark = pytest.mark.usefixtures("gp")

QUICK = {"candidates": 64, "mutants": 32, "iterations": 8, "neighborhoods": 2, "local_search": 1}


def botorch_kernel(hyperparameters, n_features):
    """BoTorch's kernel of a product and a sum, over warped features."""
    from gpytorch.kernels import MaternKernel, ScaleKernel

    product = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=n_features))
    product.outputscale = hyperparameters.variance
    product.base_kernel.lengthscale = hyperparameters.length_scales
    kernel, contributions = product, hyperparameters.contributions
    for j, scale in enumerate(contributions.length_scales.tolist()):
        one = ScaleKernel(MaternKernel(nu=2.5, active_dims=[j]))
        one.outputscale = contributions.variance / n_features
        one.base_kernel.lengthscale = scale
        kernel = kernel + one
    return kernel


def test_posteriors_equal_those_of_botorch():
    import torch
    from botorch.models import SingleTaskGP

    rng = np.random.default_rng(0)
    features, values = rng.random((30, 4)), rng.normal(size=(30, 2))
    points = rng.random((9, 4))
    fitting = Fitting(features, 20)
    for j in range(2):
        hyperparameters = fitting.fit(values[:, j]).modes[0].hyperparameters
        ours = GaussianProcess.observed(features, values[:, j], hyperparameters)
        x, y = hyperparameters.warped(features), torch.as_tensor(values[:, [j]])
        model = SingleTaskGP(
            x,
            y,
            torch.full_like(y, hyperparameters.noise),
            covar_module=botorch_kernel(hyperparameters, 4),
            outcome_transform=None,
        ).double()
        model.mean_module.constant.data = torch.tensor(ours.mean).double()
        posterior = model.posterior(hyperparameters.warped(points))
        mean, deviation = ours.predict(points)
        assert mean == pytest.approx(posterior.mean[:, 0].detach().numpy(), abs=1e-5)
        expected = posterior.variance[:, 0].sqrt().detach().numpy()
        assert deviation == pytest.approx(expected, abs=1e-5)


def test_the_loss_is_botorchs():
    import torch
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    rng = np.random.default_rng(1)
    features, values = rng.random((25, 3)), rng.normal(size=25)
    observed, fitting = torch.as_tensor(values), Fitting(features, 1)
    hyperparameters = fitting.fit(values).modes[0].hyperparameters
    logs = fitting.fit(values).modes[0].logs
    loss, _, mean = fitting.loss(logs, observed)
    y = observed[:, None]
    model = SingleTaskGP(
        hyperparameters.warped(features),
        y,
        torch.full_like(y, hyperparameters.noise),
        covar_module=botorch_kernel(hyperparameters, 3),
        outcome_transform=None,
    ).double()
    model.mean_module.constant.data = torch.tensor(mean).double()
    likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
    model.train()
    theirs = 25 * likelihood(model(*model.train_inputs), model.train_targets).item()
    assert loss == pytest.approx(-theirs - fitting._log_prior(logs)[0], rel=1e-3)


def test_a_feature_that_does_not_matter_gets_a_long_scale():
    features = np.random.default_rng(0).random((40, 2))
    values = np.sin(6 * features[:, :1])
    learned = Fitting(features, 50).fit(values[:, 0] / values.std()).modes[0].hyperparameters
    scales, added = learned.length_scales.numpy(), learned.contributions.length_scales
    assert max(scales[1] / scales[0], added[1] / added[0]) > 5


def zdt1(search, rows):
    """ZDT1 on its grid (Zitzler, Deb, Thiele 2000); the front is ``1 - sqrt(first)``."""
    points = rows / (np.array([len(item.values) for item in search.space.parameters]) - 1)
    first, rest = points[:, 0], 1.0 + 9.0 * points[:, 1:].mean(axis=1)
    return np.column_stack([first, rest * (1.0 - np.sqrt(first / rest))])


def hypervolume_after(factory, search, seed, budget, **options):
    optimizer = factory(search, 2, seed, factory.Options(**options))
    rows = initial_designs(search, 20, seed)
    values = np.empty((0, 2))
    while True:
        results = zdt1(search, rows)
        values = np.concatenate([values, results])
        if len(values) == budget:
            return hypervolume(values, np.array([1.1, 6.0]))
        optimizer.tell(rows, results, np.zeros((len(rows), 0)), np.zeros(len(rows), dtype=bool))
        rows = optimizer.ask(1)


def test_it_beats_random_search_on_a_known_front_at_32_evaluations(grid):
    search = grid(4, 21)
    ideal = np.column_stack([np.linspace(0, 1, 21), 1 - np.sqrt(np.linspace(0, 1, 21))])
    best = hypervolume(ideal, np.array([1.1, 6.0]))
    lost = best - hypervolume_after(GpEhvi, search, 0, 32, **QUICK)
    chance = [hypervolume_after(RandomSearch, search, seed, 32) for seed in range(3)]
    assert lost < 0.25 * (best - np.median(chance))


def told(search, n, limit=None, n_objectives=2, reference_point=None, **options):
    optimizer = GpEhvi(
        search, n_objectives, 0, GpEhvi.Options(**{**QUICK, **options}), reference_point
    )
    rows = initial_designs(search, n, 0)
    points = search.space.points(rows)
    targets = np.linspace(0.1, 0.9, n_objectives)
    objectives = ((points[:, :, None] - targets) ** 2).sum(axis=1)
    violations = np.zeros((n, 0)) if limit is None else points[:, :1] - limit
    optimizer.tell(rows, objectives, violations, np.zeros(n, dtype=bool))
    return optimizer


def test_without_anything_feasible_it_looks_for_the_feasible(grid):
    search = grid(3, 30)
    rows = initial_designs(search, 400, 0)
    rows = rows[search.space.points(rows)[:, 0] > 0.4][:30]
    optimizer = GpEhvi(search, 2, 0, GpEhvi.Options(**QUICK))
    points = search.space.points(rows)
    objectives = np.column_stack([points.sum(axis=1), -points.sum(axis=1)])
    optimizer.tell(rows, objectives, points[:, :1] - 0.2, np.zeros(len(rows), dtype=bool))
    assert search.space.points(optimizer.ask(1))[0, 0] <= 0.2


def test_suggestions_keep_within_a_learned_limit(grid):
    optimizer = told(grid(3, 30), 40, limit=0.4)
    assert (grid(3, 30).space.points(optimizer.ask(6))[:, 0] <= 0.4).all()


def test_what_fails_is_learned_to_be_avoided(grid):
    search = grid(3, 30)
    optimizer = GpEhvi(search, 1, 0, GpEhvi.Options(**QUICK))
    rows = initial_designs(search, 40, 0)
    points = search.space.points(rows)
    failed = points[:, 0] > 0.5
    # The best would be where it fails.
    objectives = np.where(failed, np.nan, 3.0 - points[:, 0] - points[:, 1])[:, None]
    optimizer.tell(rows, objectives, np.zeros((40, 0)), failed)
    proposed = search.space.points(optimizer.ask(6))[:, 0]
    # Half may find out where failing begins, none goes to the best values.
    assert (proposed <= 0.55).sum() >= 3
    assert proposed.max() < 0.7
    assert (proposed < 0.75).all()


def test_a_limit_that_the_reference_point_expresses_is_modeled_once(grid):
    search = grid(2, 30)
    rows = initial_designs(search, 30, 0)
    values = search.space.points(rows) + 0.1
    limits = values[:, :1] - 0.6
    for reference, expected in ((np.array([0.6, 2.0]), 0), (None, 1)):
        optimizer = GpEhvi(search, 2, 0, GpEhvi.Options(**QUICK), reference_point=reference)
        optimizer.tell(rows, values, limits, np.zeros(30, dtype=bool))
        acquisition = optimizer._acquisition(optimizer._memory.history(), np.random.default_rng(0))
        assert len(acquisition.limits) == expected


def test_as_long_as_nothing_is_feasible_that_limit_counts_too(grid):
    search = grid(2, 30)
    rows = initial_designs(search, 200, 0)
    points = search.space.points(rows)
    rows = rows[(points[:, 0] > 0.5) & (points[:, 1] > 0.5)][:30]
    values = search.space.points(rows) + 0.1
    # The first objective is to stay below the reference, the second parameter below 0.4.
    limits = np.column_stack([values[:, 0] - 0.5, values[:, 1] - 0.5])
    values[:, 1] = 2.0 - values[:, 1]
    optimizer = GpEhvi(search, 2, 0, GpEhvi.Options(**QUICK), np.array([0.5, 2.0]))
    optimizer.tell(rows, values, limits, np.zeros(len(rows), dtype=bool))
    acquisition = optimizer._acquisition(optimizer._memory.history(), np.random.default_rng(0))
    assert len(acquisition.limits) == 2
    assert (search.space.points(optimizer.ask(1))[0] <= 0.4).all()


def test_doubt_of_a_limit_gives_what_it_excludes_a_chance(grid):
    search = grid(3, 60)
    optimizer = told(search, 20, limit=0.4, reference_point=np.array([4.0, 4.0]))
    acquisition = optimizer._acquisition(optimizer._memory.history(), np.random.default_rng(0))
    row = np.array([[50, 25, 25]])
    sure, doubted = (optimizer._values(row, acquisition, by)[0] for by in (8.0, 100.0))
    assert doubted > 10 * sure


@pytest.mark.parametrize(
    ("spread", "is_logarithmic"),
    # The logarithm of the exponential is a sum over the parameters, however little that varies.
    [(2.0, True), (0.3, True), (0.0, False)],
)
def test_an_objective_is_modeled_on_the_scale_that_explains_it(grid, spread, is_logarithmic):
    search = grid(2, 40)
    rows = initial_designs(search, 30, 0)
    points = search.space.points(rows)
    smooth = points @ [3.0, 1.0] + np.sin(5 * points[:, 0])
    objectives = (np.exp(spread * smooth) if spread else smooth - smooth.min() + 1e-3)[:, None]
    history = Observations(rows, objectives, np.zeros((30, 0)))
    data = TrainingData(history, QueryPoints(search.features(rows)))
    modeling = Modeling(True, 50, 200)
    acquisition = modeling.acquisition_function(
        data, objectives.max(axis=0), True, np.random.default_rng(0)
    )
    assert acquisition.objectives[0].target.scale.sign == int(is_logarithmic)


def told_infeasible(search, n, violations_of, failed_of=None):
    """An optimizer that was told designs of which none is feasible."""
    optimizer = GpEhvi(search, 2, 0, GpEhvi.Options(**QUICK))
    rows = initial_designs(search, n, 0)
    points = search.space.points(rows)
    failed = np.zeros(n, dtype=bool) if failed_of is None else failed_of(points)
    numbers = [np.where(failed[:, None], np.nan, item) for item in (points, violations_of(points))]
    optimizer.tell(rows, *numbers, failed)
    return optimizer


class Limit:
    """Beliefs about the violations of two designs."""

    def __init__(self, mean, deviation):
        self._mean, self._deviation = np.array(mean), np.array(deviation)

    def violation(self, points):
        return self._mean, self._deviation

    def log_probability_within(self, points, inflation):
        return norm.logcdf(-self._mean / self._deviation)


@pytest.mark.parametrize(("mean", "best"), [(0.05, 1), (0.5, 0)])
def test_a_good_chance_to_be_feasible_goes_before_a_small_decrease_that_is_sure(mean, best):
    limit = Limit([0.005, mean], [0.001, 0.1])
    nothing = np.empty((0, 2))
    acquisition = AcquisitionFunction((), (limit,), (), nothing, np.zeros(2), 0.02, 1.0, 0.0)
    worth = acquisition.values(QueryPoints(np.zeros((2, 1))))
    assert np.argmax(worth) == best


def test_what_may_be_worth_more_than_the_least_is_worth_the_same(grid):
    search = grid(2, 30)
    optimizer = GpEhvi(search, 2, 0, GpEhvi.Options(**QUICK))
    rows = initial_designs(search, 30, 0)
    points = search.space.points(rows)
    violations = np.column_stack([0.4 - points[:, 0], 0.5 - points[:, 1]])
    optimizer.tell(rows, points, violations, points.sum(axis=1) > 1.6)
    acquisition = optimizer._fitted(optimizer._memory.history())
    assert acquisition.has_feasible
    assert len(acquisition.limits) == 2
    assert len(acquisition.failing) == 1
    candidates = search.space.sample(np.random.default_rng(1), 200)
    exact = optimizer._values(candidates, acquisition)
    least = 0.1 * float(exact.max())
    worth = optimizer._values(candidates, acquisition, 1.0, least)
    assert worth[exact > least] == pytest.approx(exact[exact > least], rel=1e-9)
    assert (worth[exact <= least] <= least).all()


def test_a_climb_ends_where_another_has_been(grid, monkeypatch):
    expanded = []

    def watched(space, row):
        expanded.append(tuple(row.tolist()))
        return strides(space, row)

    monkeypatch.setattr("codesign.search.optimizers.ehvi.strides", watched)
    told(grid(3, 20), 24, local_search=3).ask(1)
    assert len(expanded) == len(set(expanded)) > 1


def test_very_many_parameters_share_a_length_scale_and_it_says_so(grid, caplog):
    search = grid(201, 10)
    optimizer = told(search, 20)
    rows = optimizer.ask(2)
    assert len(search.unseen(rows, optimizer._seen)) == 2
    assert "201 parameters" in caplog.text


def test_far_from_the_feasible_it_follows_what_violates_less(grid):
    def violations(points):
        """Nothing is feasible; all but a narrow valley is as bad, and the corners are unknown."""
        return 1.1 - np.exp(-20.0 * (points[:, :1] - 0.7) ** 2)

    search = grid(2, 201)
    optimizer = told_infeasible(search, 30, violations)
    rows = optimizer.ask(1)
    told_rows = optimizer._memory.history().rows
    assert violations(search.space.points(rows)) < violations(search.space.points(told_rows)).min()


def test_without_anything_feasible_failing_is_avoided(grid):
    search = grid(2, 30)
    optimizer = told_infeasible(
        search, 40, lambda points: 2.0 - points[:, 1:], lambda points: points[:, 0] > 0.6
    )
    assert (search.space.points(optimizer.ask(6))[:, 0] <= 0.65).all()


@pytest.mark.parametrize(
    ("violations", "expected"),
    [
        ([-0.5, 0.0, 3.0], np.log([0.5, 1.0, 4.0])),
        ([-2.0, 0.0, 2.0], np.log(2.0) * np.array([-1.0, 0.0, 1.0])),
        ([-0.5, np.inf, 3.0], np.log([0.5, 4.0, 4.0])),
    ],
)
def test_a_limit_is_modeled_by_the_logarithm_of_what_it_limits(violations, expected):
    scale = violation_scales(np.array(violations))[0]
    assert scale.modeled(np.array(violations)) == pytest.approx(expected)


@pytest.mark.parametrize("m", [1, 3, 5])
def test_any_number_of_objectives_is_served(grid, m):
    optimizer = told(grid(3, 20), 25, n_objectives=m)
    assert len(optimizer.ask(2)) == 2


def test_beyond_the_cap_the_models_see_the_front_and_the_latest(grid):
    search = grid(3, 30)
    optimizer = told(search, 300, training=40)
    history = optimizer._memory.history()
    known = training_rows(history, np.arange(300), 40, np.random.default_rng(0))
    assert len(known) == 40
    assert set(range(290, 300)) <= set(known)
    assert set(history.front[:20]) & set(known)
    assert len(optimizer.ask(1)) == 1


def test_the_number_of_threads_is_as_before(grid):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        told(grid(2, 10), 8).ask(1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_nothing_to_model_is_no_reason_to_stop(grid):
    search = grid(2, 5)
    optimizer = GpEhvi(search, 2, 0, GpEhvi.Options(**QUICK))
    assert len(optimizer.ask(3)) == 3
    rows = initial_designs(search, 6, 0)
    nothing = np.full((6, 2), np.nan)
    optimizer.tell(rows, nothing, np.full((6, 1), np.nan), np.ones(6, dtype=bool))
    assert len(optimizer.ask(3)) == 3


def test_inadmissible_neighbors_are_never_proposed(grid):
    space = grid(2, 30).space
    search = SearchSpace(space, lambda rows: space.contains(rows) & (rows.sum(axis=1) % 2 == 0))
    for options in ({"candidates": 1, "local_search": 0}, {"neighborhoods": 0, "local_search": 3}):
        assert (told(search, 20, **options).ask(8).sum(axis=1) % 2 == 0).all()


def test_as_long_as_nothing_is_feasible_mutants_are_of_what_violates_least(grid):
    search = grid(3, 30)
    rows = initial_designs(search, 40, 0)
    optimizer = GpEhvi(search, 2, 0, GpEhvi.Options(**QUICK))
    violations = 1.0 + search.space.points(rows)[:, :1]
    optimizer.tell(rows, search.space.points(rows)[:, :2], violations, np.zeros(40, dtype=bool))
    history = optimizer._memory.history()
    assert set(_parents(history)) == set(np.argsort(violations[:, 0], kind="stable")[:8])


def test_what_cannot_be_told_from_the_front_is_worth_nothing(grid):
    search = grid(4, 20)
    optimizer = told(search, 30, reference_point=np.array([4.0, 4.0]), iterations=15)
    history = optimizer._memory.history()
    acquisition = optimizer._acquisition(history, np.random.default_rng(0))
    again = optimizer._values(history.rows[history.front], acquisition, 8.0)
    assert (again < 1e-9).all()


def test_what_a_pending_design_is_expected_to_dominate_is_worth_little(grid):
    search = grid(3, 60)
    optimizer = told(search, 40, reference_point=np.array([4.0, 4.0]))
    acquisition = optimizer._acquisition(optimizer._memory.history(), np.random.default_rng(0))
    pending = np.array([[30, 30, 30]])
    near = search.space.neighbors(pending[0])
    before = optimizer._values(near, acquisition).max()
    after = optimizer._values(near, acquisition.fantasized(optimizer._points(pending))).max()
    assert after < 0.1 * before


def test_a_pending_design_that_is_hardly_feasible_does_not_join_the_front(grid):
    search = grid(3, 60)
    optimizer = told(search, 20, limit=0.4, reference_point=np.array([4.0, 4.0]))
    acquisition = optimizer._acquisition(optimizer._memory.history(), np.random.default_rng(0))
    # Neither is dominated; the limit of the first parameter lies between them.
    rows = np.array([[[15, 15, 15]], [[42, 42, 42]]])
    fronts = [acquisition.fantasized(optimizer._points(row)).front for row in rows]
    assert not np.array_equal(fronts[0], acquisition.front)
    assert np.array_equal(fronts[1], acquisition.front)


def test_where_nothing_is_feasible_pending_designs_count_by_what_is_expected_of_them(grid):
    search = grid(3, 60)
    rows = search.space.sample(np.random.default_rng(0), 200)
    points = search.space.points(rows)
    told_rows, limit = rows[points[:, 0] > 0.3][:30], 0.25
    optimizer = GpEhvi(search, 2, 0, GpEhvi.Options(**QUICK), reference_point=np.array([4.0, 4.0]))
    points = search.space.points(told_rows)
    optimizer.tell(told_rows, points[:, :2], points[:, :1] - limit, np.zeros(30, dtype=bool))
    acquisition = optimizer._acquisition(optimizer._memory.history(), np.random.default_rng(0))
    assert not acquisition.has_feasible
    # The first parameter alone decides: 3, 17 and 30 of 59 are 0.05, 0.29 and 0.51.
    likely, nearer, worse = (
        acquisition.fantasized(optimizer._points(np.array([[level, 30, 30]])))
        for level in (3, 17, 30)
    )
    assert likely.has_feasible and len(likely.front) == 1
    assert 0 < nearer.least_violation < acquisition.least_violation and not len(nearer.front)
    assert worse.least_violation == acquisition.least_violation


def test_models_that_hope_for_nothing_are_doubted(grid, monkeypatch):
    factors = []
    monkeypatch.setattr(
        AcquisitionFunction,
        "values",
        lambda self, points, inflation=1.0, *others: (
            factors.append(inflation) or np.full(len(points.features), 1e-12)
        ),
    )
    told(grid(3, 20), 24, local_search=0, reference_point=np.array([4.0, 4.0])).ask(1)
    assert factors == [1.0, 8.0, 64.0]


def test_a_thousand_results_are_all_conditioned_on(grid):
    search = grid(3, 60)
    optimizer = told(search, 1000, iterations=2, candidates=32, mutants=32)
    history = optimizer._memory.history()
    acquisition = optimizer._acquisition(history, np.random.default_rng(0))
    processes = [model.posterior.processes[0] for model in acquisition.objectives]
    assert [len(process.values) for process in processes] == [1000, 1000]


def test_with_many_results_fewer_candidates_compete():
    histories = [SimpleNamespace(rows=np.zeros((n, 2))) for n in (0, 20, 300, 600, 3000)]
    assert [_share(history) for history in histories] == [1.0, 1.0, 1.0, 0.5, 0.1]
