"""Positions of categories: what is learned of them, and where they are believed."""

import numpy as np
import pytest
import yaml

from codesign.search.observations import Observations
from codesign.search.optimizers import SearchSpace
from codesign.search.optimizers.ehvi import GpEhvi
from codesign.search.optimizers.embedding import LEAST_VALUES, PositionFitting, categories_of
from codesign.search.optimizers.evidence import Evidence, embedded_at
from codesign.search.optimizers.modeling import Modeling
from codesign.space import parse_space

pytestmark = pytest.mark.usefixtures("gp")

N_VALUES = 20
GROUPS = np.repeat([0, 1, 2], [N_VALUES, 1, N_VALUES])
REFERENCE = np.array([10.0, 10.0])


def designs(rng, n):
    """(n, 3) two categories with a number between them."""
    return rng.integers([N_VALUES, 21, N_VALUES], size=(n, 3))


def features_of(rows):
    values = np.eye(N_VALUES)
    return np.hstack([values[rows[:, 0]], rows[:, [1]] / 20.0, values[rows[:, 2]]])


def hidden_order(rows):
    """(n, 2) objectives of numbers that the categories stand for in an order without meaning."""
    order = np.random.default_rng(100).permutation(N_VALUES) / (N_VALUES - 1)
    first, number, second = order[rows[:, 0]], rows[:, 1] / 20.0, order[rows[:, 2]]
    return np.column_stack(
        [first**2 + first * number + np.sin(3 * second), (1 - first) * second + number * second]
    )


def pairs_of_their_own(rows):
    """(n, 2) objectives in which each pair of values has an effect of its own."""
    effects = np.random.default_rng(101).normal(size=(2, N_VALUES, N_VALUES))
    return effects[:, rows[:, 0], rows[:, 2]].T + rows[:, [1]] / 20.0


def beliefs_after(rows, objectives, predicted=None):
    n = len(rows)
    history = Observations(rows, objectives, np.empty((n, 0)))
    modeling = Modeling(logarithmic=False, iterations=50, training=200, groups=GROUPS)
    evidence = Evidence(history, features_of(rows), predicted)
    return modeling.beliefs(evidence, REFERENCE, True, np.random.default_rng(0))


def error(beliefs, rows, objectives):
    features = features_of(rows)
    means = [
        scale.of_model(process.predict(features)[0])
        for process, scale in zip(beliefs.objectives, beliefs.scales, strict=True)
    ]
    return float(np.sqrt(((np.column_stack(means) - objectives) ** 2).mean()))


def fitting(n=30, seed=3):
    rows = designs(np.random.default_rng(seed), n)
    values = hidden_order(rows)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    return PositionFitting(features_of(rows), values, GROUPS)


def numbers_at_random(n_scales=2 * 7):
    rng = np.random.default_rng(4)
    return np.concatenate(
        [rng.normal(size=4 * N_VALUES), rng.normal(0.5, 0.5, n_scales), np.full(2, -5.0)]
    )


def test_only_categories_of_many_values_are_embedded():
    groups = np.repeat([0, 1, 2], [LEAST_VALUES, 1, LEAST_VALUES - 1])
    (columns,) = categories_of(groups)
    assert columns.tolist() == list(range(LEAST_VALUES))


def test_the_gradient_is_that_of_the_density():
    positions, numbers = fitting(), numbers_at_random()
    gradient = positions.loss(numbers)[1]
    for i in range(0, len(numbers), 3):
        step = np.zeros(len(numbers))
        step[i] = 1e-5
        difference = (positions.loss(numbers + step)[0] - positions.loss(numbers - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_the_information_is_the_mean_square_of_slopes():
    """Fisher's: of results drawn from the process, whose mean is taken to be known."""
    import torch

    from codesign.search.optimizers.additive import distance, matern

    positions, rng = fitting(n=12), np.random.default_rng(5)
    points, scales, noise = rng.normal(size=(2 * N_VALUES, 2)), np.full(7, 1.3), 1e-2

    def kernel(flat):
        scaled = positions._features(flat.reshape(-1, 2)) / 1.3
        return matern(distance(scaled, scaled)) + noise * torch.eye(12)

    flat, slopes = points.ravel(), []
    inverse = torch.linalg.inv(kernel(flat))
    for i in range(len(flat)):
        step = np.zeros(len(flat))
        step[i] = 1e-5
        slopes.append(inverse @ (kernel(flat + step) - kernel(flat - step)) / 2e-5)
    expected = [[0.5 * float((a @ b).trace()) for b in slopes] for a in slopes]
    information = positions.information(points, scales, noise).numpy()
    np.testing.assert_allclose(information, expected, rtol=1e-4, atol=1e-5)


def test_a_value_that_was_never_seen_is_the_least_certain():
    rows = designs(np.random.default_rng(6), 60)
    rows[:, 0] //= 2
    is_seen = np.isin(np.arange(N_VALUES), rows[:, 0])
    assert 0 < is_seen.sum() < N_VALUES
    values = hidden_order(rows)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    embedding = PositionFitting(features_of(rows), values, GROUPS).fit().embeddings[0]
    spread = np.diag(embedding.matrix[:N_VALUES, 3 : 3 + N_VALUES])
    assert spread[~is_seen].min() > 2.0 * spread[is_seen].max()


def test_an_order_that_is_hidden_is_learned_from_fewer_results(monkeypatch):
    rng = np.random.default_rng(1)
    rows, others = designs(rng, 90), designs(rng, 300)
    embedded = beliefs_after(rows, hidden_order(rows))
    assert all(process.hyperparameters.embedding for process in embedded.objectives)
    monkeypatch.setattr("codesign.search.optimizers.modeling.categories_of", lambda groups: ())
    plain = beliefs_after(rows, hidden_order(rows))
    truth = hidden_order(others)
    assert error(embedded, others, truth) < 0.5 * error(plain, others, truth)


def test_values_whose_pairs_have_effects_of_their_own_have_no_positions():
    rows = designs(np.random.default_rng(2), 60)
    beliefs = beliefs_after(rows, pairs_of_their_own(rows))
    assert not any(process.hyperparameters.embedding for process in beliefs.objectives)


def test_what_is_predicted_has_no_positions():
    rows = designs(np.random.default_rng(1), 60)
    predicted = np.zeros((60, 2))
    beliefs = beliefs_after(rows, hidden_order(rows), predicted)
    assert not any(process.hyperparameters.embedding for process in beliefs.objectives)


def test_positions_serve_until_they_are_learned_anew():
    assert [embedded_at(n, 3) for n in range(40, 50)] == [40] * 10
    assert embedded_at(113, 3) == 113


def test_a_fresh_optimizer_with_positions_goes_on_in_the_same_way():
    values = [f"c{i}" for i in range(N_VALUES)]
    parameters = {"a": values, "b": {"low": 0, "high": 20}, "c": values}
    search = SearchSpace(
        parse_space(yaml.safe_dump({"parameters": parameters})), lambda rows: rows[:, 0] >= 0
    )
    rows = designs(np.random.default_rng(7), 95)
    results = hidden_order(rows), np.empty((95, 0)), np.zeros(95, dtype=bool)
    options = GpEhvi.Options(candidates=64, mutants=64, iterations=20, local_search=1)

    def told(*pieces):
        optimizer, start = GpEhvi(search, 2, 0, options), 0
        for end in pieces:
            optimizer.tell(rows[start:end], *(column[start:end] for column in results))
            proposal, start = optimizer.ask(1), end
        beliefs = optimizer._fitted(optimizer._memory.history())
        hyperparameters = [process.hyperparameters for process in beliefs.objectives]
        assert all(item.embedding for item in hyperparameters)
        matrices = [item.embedding.matrix.ravel() for item in hyperparameters]
        return np.concatenate([proposal[0], *matrices])

    assert np.array_equal(told(80, 88, 91, 93, 95), told(95))
