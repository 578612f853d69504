"""Cost in quality of several designs in flight, against one after the other.

It is the hypervolume of the same runs after the same number of evaluations. Evaluations end in the
order of made-up durations, spread as those of a simulator, without waiting for them. Run as
``python -m validation.chaos.in_flight CAMPAIGN ... --help``.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from codesign.base.columns import JsonObject, Strings
from codesign.base.records import frozen
from codesign.search.campaign import Campaign
from codesign.search.campaign.asynchronous import execute_in_flight
from codesign.search.campaign.campaign_definition import (
    OptimizerChoice,
    ResolvedDefinition,
    load_definition,
)
from codesign.search.campaign.executor import Recorder
from codesign.search.campaign.farm import Farm
from codesign.search.campaign.loop import Plan
from codesign.search.campaign.reference import minimized
from codesign.search.campaign.store_file import create_store, open_store

SPREAD = 0.3
"""Deviation of the logarithm of the made-up durations. [ours]"""


class VirtualExecutor(Executor):
    """Tasks that end in the order of made-up durations, at once when somebody waits for them."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._now_s, self._n = 0.0, 0
        self._ends: list[tuple[float, int, Future[Any], Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task, which :meth:`wait` completes."""
        future: Future[Any] = Future()
        end_s = self._now_s + float(self._rng.lognormal(0.0, SPREAD))
        heapq.heappush(self._ends, (end_s, self._n, future, partial(fn, *args, **kwargs)))
        self._n += 1
        return future

    def wait(self, futures: Sequence[Future[Any]]) -> None:
        """Do the task that ends first."""
        self._now_s, _, future, task = heapq.heappop(self._ends)
        future.set_result(task())


@frozen
class RunQuality:
    """One run, one design after the other and several in flight.

    Attributes:
        campaign: Its problem.
        sequential: Hypervolume at the end of the budget.
        in_flight: The same with several designs in flight.
    """

    campaign: str
    optimizer: str
    seed: int
    sequential: float
    in_flight: float

    @property
    def ratio(self) -> float:
        """Ratio of the two hypervolumes; 1 where both are 0."""
        return self.in_flight / self.sequential if self.sequential else 1.0 + self.in_flight


def quality(resolved: ResolvedDefinition, in_flight: int) -> list[RunQuality]:
    """Hypervolumes of all runs of a campaign, by run."""
    with tempfile.TemporaryDirectory() as folder:
        first = Campaign(resolved, Path(folder, "sequential"), resolved.definition.name)
        first.run(workers=1)
        with open_store(first.store_path) as store:
            meta, sequential = store.meta, [count.hypervolume for count in store.counts()]
        executor = VirtualExecutor()
        farm = Farm(executor, resolved.problem.evaluate, in_flight, 1, 0, executor.wait)
        beside = _hypervolumes(resolved, meta, Path(folder, "in-flight.sqlite"), farm)
    name, runs = resolved.definition.name, resolved.definition.runs
    return [
        RunQuality(name, run.optimizer, run.seed, a, b)
        for run, a, b in zip(runs, sequential, beside, strict=True)
    ]


def _hypervolumes(
    resolved: ResolvedDefinition, meta: JsonObject, path: Path, farm: Farm
) -> list[float]:
    definition = resolved.definition
    create_store(path, meta, definition.runs)
    with open_store(path, writing=True) as store:
        plan = Plan(
            resolved,
            store.layout,
            minimized(resolved.problem, store.meta["reference_point"]),
            resolved.problem.evaluate,
        )
        execute_in_flight(
            plan, range(len(definition.runs)), Recorder(store, definition.budget), farm
        )
        return [count.hypervolume for count in store.counts()]


def chosen(
    resolved: ResolvedDefinition, optimizers: Strings, seeds: int, budget: int
) -> ResolvedDefinition:
    """A campaign with another search: some of its optimizers, other seeds and budget."""
    definition = resolved.definition.model_copy(
        update={
            "optimizers": tuple(OptimizerChoice(name=name) for name in optimizers),
            "seeds": tuple(range(seeds)),
            "budget": budget,
            "batch": 1,  # so that both know as much as they can at every proposal
        }
    )
    kept_optimizers = tuple(
        optimizer for optimizer in resolved.optimizers if optimizer.label in optimizers
    )
    return replace(resolved, definition=definition, optimizers=kept_optimizers)


def main() -> None:
    """Print the study of some campaigns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaigns", nargs="+", help="campaigns in runs/, or paths of files")
    parser.add_argument("--optimizers", default="random,nsga2,tpe,gp-ehvi")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--in-flight", type=int, default=8)
    inputs = parser.parse_args()
    optimizers = inputs.optimizers.split(",")
    problems = [load_definition(name) for name in inputs.campaigns]
    for optimizer in optimizers:
        print(f"{optimizer}: hypervolume with {inputs.in_flight} in flight over that of one by one")
        for problem in problems:
            resolved = chosen(problem, [optimizer], inputs.seeds, inputs.budget)
            rows = quality(resolved, inputs.in_flight)
            ratios = [row.ratio for row in rows]
            alone = [row.sequential for row in rows]
            print(
                f"  {rows[0].campaign}, {len(rows)} runs: "
                f"median {statistics.median(ratios):.4f}, {min(ratios):.4f} to {max(ratios):.4f}; "
                f"one by one {min(alone):.6g} to {max(alone):.6g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
