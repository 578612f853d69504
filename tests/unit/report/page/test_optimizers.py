"""The optimizers of a page: curves, regret, ranks."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from codesign.report.page.optimizers import optimizer_document
from codesign.search.campaign.observations import Run


@dataclass
class _Problem:
    objectives: tuple = ()


@dataclass
class _Definition:
    initial: int = 1


@dataclass
class _Results:
    """Hypervolumes by hand: three optimizers, each a fixed amount above the next."""

    hypervolumes: dict
    exact_hypervolume: float | None = None
    is_enumerated: bool = False
    problem: _Problem = field(default_factory=_Problem)
    definition: _Definition = field(default_factory=_Definition)

    def __post_init__(self):
        self.runs = tuple(Run(name, seed) for name, seed in self.hypervolumes)
        lengths = [len(values) for values in self.hypervolumes.values()]
        self.run_index = np.repeat(np.arange(len(lengths)), lengths)
        self.hypervolume = np.concatenate(list(self.hypervolumes.values()))
        self.feasible = np.ones(len(self.hypervolume), dtype=bool)
        self.broke = ~self.feasible


def _three(seeds: int, exact=None) -> _Results:
    steps = np.array([1.0, 2.0, 3.0])
    return _Results(
        {
            (name, seed): steps + gain + 0.1 * seed
            for name, gain in (("a", 0.0), ("b", 0.5), ("c", 2.0))
            for seed in range(seeds)
        },
        exact,
    )


def test_regret_is_the_share_of_the_exact_hypervolume_that_is_missing():
    found = optimizer_document(_three(1, exact=10.0))
    a = found["curves"][0]
    np.testing.assert_allclose(a["regret"], [0.9, 0.8, 0.7])
    np.testing.assert_allclose(a["regret_low"], a["regret"])  # one seed has no band
    assert found["table"][0]["share"] == pytest.approx(0.5)  # c ends at 5 of 10


def test_the_band_of_regret_is_that_of_the_hypervolume_seen_from_the_exact_front():
    # b over three seeds: 1.6, 2.6, 3.6 with a sample standard deviation of 0.1,.
    curve = optimizer_document(_three(3, exact=3.65))["curves"][1]
    np.testing.assert_allclose(curve["regret"], [2.05 / 3.65, 1.05 / 3.65, 0.05 / 3.65])
    np.testing.assert_allclose(curve["regret_high"], [2.15 / 3.65, 1.15 / 3.65, 0.15 / 3.65])
    np.testing.assert_allclose(curve["regret_low"], [1.95 / 3.65, 0.95 / 3.65, 0.0])


def test_without_an_exact_front_nothing_is_said_of_regret():
    found = optimizer_document(_three(2))
    assert found["exact"] is None and "regret" not in found["curves"][0]


def test_the_band_is_one_sample_standard_deviation_around_the_mean():
    curve = optimizer_document(_three(3))["curves"][1]
    np.testing.assert_allclose(curve["mean"], [1.6, 2.6, 3.6])
    np.testing.assert_allclose(np.subtract(curve["high"], curve["mean"]), 0.1)


def test_ranks_and_friedman_are_those_of_a_textbook_table():
    # Six blocks that all rank c, b, a: Friedman's statistic is 12 (Demsar 2006, with k = 3, N = 6),
    # p = exp(-6); Wilcoxon's exact p is 2 / 2^6, times 3 by Holm.
    tests = optimizer_document(_three(6))["tests"]
    assert tests["ranks"] == {"a": 3.0, "b": 2.0, "c": 1.0}
    assert tests["friedman_p"] == pytest.approx(np.exp(-6.0))
    assert [pair["p"] for pair in tests["pairs"]] == pytest.approx([3 / 32] * 3)


def test_runs_of_unequal_length_are_compared_where_all_have_come():
    results = _three(2)
    longer = {key: list(value) + [99.0] * (key[0] == "a") for key, value in
              results.hypervolumes.items()}  # fmt: skip
    tests = optimizer_document(_Results(longer))["tests"]
    assert tests["evaluations"] == 3
    assert tests["ranks"]["a"] == 3.0


def test_a_seed_that_not_every_optimizer_has_begun_is_left_out():
    begun = _three(3)
    begun.hypervolumes["c", 2] = np.empty(0)
    tests = optimizer_document(_Results(begun.hypervolumes))["tests"]
    assert tests["n_seeds"] == 2


def test_a_single_optimizer_is_not_compared():
    alone = {("a", 0): np.array([1.0])}
    assert optimizer_document(_Results(alone))["tests"] is None
