"""The optimizers of a page: curves, ranks."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from codesign.report.campaign_charts import convergence_chart
from codesign.report.page.optimizers import seed_ranking
from codesign.search.campaign.observations import Run


@dataclass
class _Problem:
    objectives: tuple = ()


@dataclass
class _Definition:
    initial: int = 1
    name: str = "by-hand"


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


def _three(seeds, exact=None):
    steps = np.array([1.0, 2.0, 3.0])
    return _Results(
        {
            (name, seed): steps + gain + 0.1 * seed
            for name, gain in (("a", 0.0), ("b", 0.5), ("c", 2.0))
            for seed in range(seeds)
        },
        exact,
    )


def test_the_mean_over_seeds_is_drawn_in_percent_of_the_exact_hypervolume():
    # b over three seeds: 1.6, 2.6, 3.6.
    marks = convergence_chart(_three(3, exact=10.0)).panels[0].marks
    mean = next(mark for mark in marks if getattr(mark, "name", "").startswith("b ("))
    np.testing.assert_allclose(mean.y, [16.0, 26.0, 36.0])
    assert sum(getattr(mark, "width", 0) == 0.6 for mark in marks) == 9


def test_ranks_and_friedman_are_those_of_a_textbook_table():
    # Six blocks that all rank c, b, a: Friedman's statistic is 12 (Demsar 2006, with k = 3, N = 6),
    # p = exp(-6); Wilcoxon's exact p is 2 / 2^6, times 3 by Holm.
    ranking, n_seeds, _ = seed_ranking(_three(6))
    assert dict(zip(ranking.labels, ranking.mean_ranks, strict=True)) == {"a": 3, "b": 2, "c": 1}
    assert n_seeds == 6 and ranking.friedman_p == pytest.approx(np.exp(-6.0))
    assert [pair.p_holm for pair in ranking.pairs] == pytest.approx([3 / 32] * 3)


def test_runs_of_unequal_length_are_compared_where_all_have_come():
    results = _three(2)
    longer = {key: list(value) + [99.0] * (key[0] == "a") for key, value in
              results.hypervolumes.items()}  # fmt: skip
    ranking, _, evaluations = seed_ranking(_Results(longer))
    assert evaluations == 3
    assert ranking.mean_ranks[ranking.labels.index("a")] == 3.0


def test_a_seed_that_not_every_optimizer_has_begun_is_left_out():
    begun = _three(3)
    begun.hypervolumes["c", 2] = np.empty(0)
    assert seed_ranking(_Results(begun.hypervolumes))[1] == 2


def test_a_single_optimizer_is_not_compared():
    alone = {("a", 0): np.array([1.0])}
    assert seed_ranking(_Results(alone)) is None
