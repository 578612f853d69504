"""Every registered optimizer keeps its contract, and a broken promise is named."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from codesign.base import plugins
from codesign.base.errors import MissingExtraError
from codesign.search.optimizers import Optimizer, ehvi, peer
from codesign.search.optimizers.base import BaseOptimizer
from codesign.search.optimizers.peer_process import PeerProcess
from codesign.search.optimizers.sampling import RandomSearch
from codesign.testing import check_optimizer

QUICK = {
    "gp-ehvi": {
        "candidates": 16,
        "mutants": 8,
        "iterations": 1,
        "neighborhoods": 0,
        "local_search": 1,
    },
    "gp-ehvi-paper": {"candidates": 16, "iterations": 1},
    "nsga2": {"population": 4},
    # Useless proposals are many in a small space.
    "peer": {"attempts": 2},
}


class Bare(BaseOptimizer):
    """The least that a plug-in writes: it has no options and does not say so."""

    def ask(self, n):
        return self._space.sample_unseen(self._rng(), n, self._seen)


def test_an_optimizer_need_not_say_that_it_has_no_options():
    check_optimizer(Bare)


@pytest.fixture(scope="module")
def quick_peers():
    """One process for all peers: with every question it gets the setup and the whole history."""
    started, first = PeerProcess._started, []

    def of_the_first(process):
        first.append(process)
        return started(first[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PeerProcess, "_started", of_the_first)
        yield


@pytest.mark.usefixtures("gp", "quick_peers")
@pytest.mark.parametrize("name", plugins.names("optimizers"))
def test_every_registered_optimizer_keeps_the_contract(name, tiered, monkeypatch):
    monkeypatch.setattr(ehvi, "_LOCAL_STEPS", 1)
    if name.startswith("gp-ehvi"):
        monkeypatch.setattr("codesign.testing._BATCH_SIZES", (2,))
    factory = plugins.load("optimizers", name)
    space = tiered if name == "gp-ehvi" else None  # one space costs it as much as all others two
    check_optimizer(factory, options=factory.Options(**QUICK.get(name, {})), space=space)


@pytest.mark.usefixtures("quick_peers")
@pytest.mark.parametrize(
    "method", ["optuna-nsga2", pytest.param("pymoo-nsga3", marks=pytest.mark.slow)]
)
def test_peers_that_keep_generations_keep_it_too(method):
    check_optimizer(peer.Peer, options=peer.Peer.Options(method=method, **QUICK["peer"]))


@pytest.mark.parametrize("name", ["nsga2", pytest.param("tpe", marks=pytest.mark.slow), "pls"])
def test_learning_optimizers_keep_it_on_repeated_parts_too(name, tiered):
    factory = plugins.load("optimizers", name)
    options = factory.Options(**QUICK.get(name, {}))
    check_optimizer(factory, options=options, space=tiered, seed=1)
    assert isinstance(factory(tiered, 2, 0, options), Optimizer)


SCRIPT = """
import json, sys
import codesign.testing
from codesign.base import plugins
for name in plugins.names("optimizers"):
    plugins.load("optimizers", name).Options()
import numpy as np
from codesign.search.optimizers import SearchSpace, initial_designs
from codesign.space import parse_space
space = parse_space("parameters: {a: {low: 0, high: 30}, b: {low: 0, high: 30}, c: [x, y, z]}", {})
search = SearchSpace(space, space.contains)
rows = initial_designs(search, 20, 0)
heavy = {"torch", "botorch", "gpytorch", "pymoo", "optuna", "scipy.stats", "matplotlib"}
heavy = sorted(heavy & set(sys.modules))
points = space.points(rows)
values = np.column_stack([points.sum(axis=1), (1 - points).prod(axis=1)])
def suggest(options_by_name):
    suggestions = {}
    for name, options in options_by_name.items():
        factory = plugins.load("optimizers", name)
        optimizer = factory(search, 2, 0, factory.Options(**options))
        optimizer.tell(rows, values, points[:, :1] - 0.7, np.zeros(20, dtype=bool))
        suggestions[name] = optimizer.ask(2).tolist()
    return suggestions
if __name__ == "__main__":
    print(json.dumps([heavy, suggest(json.loads(sys.argv[1]))]))
"""


@pytest.mark.usefixtures("gp")
def test_another_process_loads_no_library_by_itself_and_suggests_the_same_with_other_threads():
    names = {name: QUICK.get(name, {}) for name in plugins.names("optimizers")}
    here = {"__name__": "here"}
    exec(SCRIPT, here)
    import torch

    threads = 2 if torch.get_num_threads() == 1 else 1
    hash_seed = 2 if os.environ.get("PYTHONHASHSEED") == "1" else 1
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(names)],
        env={"OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded, there = json.loads(done.stdout)
    suggested = here["suggest"](names)
    assert loaded == [], "the classes are there without their libraries"
    assert there == suggested
    assert all(len(rows) == 2 for rows in suggested.values())


class Repeats(RandomSearch):
    def tell(self, rows, objectives, violations, failed):
        self._n_told += len(rows)


class RepeatsInABatch(RandomSearch):
    def ask(self, n):
        return np.repeat(super().ask(n)[:1], n, axis=0)


class Impure(RandomSearch):
    def ask(self, n):
        self._n_told += 1
        return super().ask(n)


class RemembersAsking(RandomSearch):
    asked_after = frozenset()

    def ask(self, n):
        self.asked_after |= {self._n_told}
        rng = np.random.default_rng([self._seed, len(self.asked_after)])
        return self._space.sample_unseen(rng, n, self._seen)


class CountsTells(RandomSearch):
    def tell(self, rows, objectives, violations, failed):
        self._seen.add(self._space.space.keys(rows))
        self._n_told += 1


class LeavesTheSpace(RandomSearch):
    def ask(self, n):
        return super().ask(n) + 100


class IgnoresConstraints(RandomSearch):
    def ask(self, n):
        space = self._space.space
        points = np.random.default_rng([self._seed, self._n_told]).random((50, len(space.names)))
        points[:, :2] = 0.99  # the largest of everything
        return self._space.distinct(space.rows_near(points), self._seen)[:n]


class NotCanonical(RandomSearch):
    def ask(self, n):
        rows = super().ask(n)
        rows[rows < 0] = 0
        return rows


class Greedy(RandomSearch):
    def ask(self, n):
        return super().ask(n + 1)


class GivesUp(RandomSearch):
    def ask(self, n):
        return super().ask(n if self._n_told < 15 else 0)


class Floats(RandomSearch):
    def ask(self, n):
        return super().ask(n).astype(float)


class Crashes(RandomSearch):
    def tell(self, rows, objectives, violations, failed):
        assert not failed.any(), "no result"
        super().tell(rows, objectives, violations, failed)


class Meddles(RandomSearch):
    def tell(self, rows, objectives, violations, failed):
        super().tell(rows, objectives, violations, failed)
        objectives[np.isnan(objectives)] = 0.0
        objectives *= -1


class TakesNoInfinity(RandomSearch):
    def tell(self, rows, objectives, violations, failed):
        assert not np.isinf(violations).any(), "no infinity"
        super().tell(rows, objectives, violations, failed)


class ProposesPending(RandomSearch):
    def ask(self, n, pending=None):
        return super().ask(n)


class ChangesForNone(RandomSearch):
    def ask(self, n, pending=None):
        rng = self._rng() if pending is None else np.random.default_rng(9)
        return self._space.sample_unseen(rng, n, self._excluded(pending))


class GlobalRandom(RandomSearch):
    def ask(self, n):
        np.random.seed(0)  # noqa: NPY002 # the fault
        return super().ask(n)


@pytest.mark.parametrize(
    ("faulty", "promise"),
    [
        (Repeats, "no design is proposed that was told before"),
        (ProposesPending, "proposes no pending design"),
        (ChangesForNone, "without pending designs it proposes the same as ever"),
        (RepeatsInABatch, "a batch proposes no design twice"),
        (Impure, "asking twice gives the same"),
        (RemembersAsking, "told the same history at once goes on"),
        (CountsTells, "told the same history at once goes on"),
        (LeavesTheSpace, "a level is out of range"),
        (IgnoresConstraints, "every design lies in the space"),
        (NotCanonical, "canonical form"),
        (Greedy, "at most 1 designs, got 2"),
        (GivesUp, "as long as there are any"),
        (Floats, "integers"),
        (Crashes, "no result"),
        (TakesNoInfinity, "no infinity"),
        (Meddles, "tell leaves the arrays as they are"),
        (GlobalRandom, "NumPy's global ones"),
    ],
)
def test_a_faulty_optimizer_is_told_which_promise_it_broke(faulty, promise):
    with pytest.raises(AssertionError, match=promise):
        check_optimizer(faulty)


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("nsga2", "pymoo", "nsga2"),
        ("tpe", "optuna", "tpe"),
        ("gp-ehvi", "botorch", "gp"),
        ("gp-ehvi-paper", "botorch", "gp"),
    ],
)
def test_a_missing_library_is_named_when_the_optimizer_is_built(
    name, library, extra, tiered, monkeypatch
):
    factory = plugins.load("optimizers", name)
    for module in [item for item in sys.modules if item.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"optimizer {name} needs .*codesign\[{extra}\]"):
        factory(tiered, 2, 0, factory.Options())
