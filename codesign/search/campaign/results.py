"""The observations of a campaign as arrays, read from its store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from importlib.util import find_spec

import numpy as np

from codesign.base import notebook
from codesign.base.columns import (
    Arrays,
    BoolArray,
    FloatArray,
    FloatMap,
    IntArray,
    JsonObject,
    StringMap,
    StringTuple,
)
from codesign.base.failures import Status
from codesign.base.notebook import metric_text
from codesign.base.records import frozen
from codesign.base.text import one_line
from codesign.search.campaign.campaign_definition import Definition, campaign_reading
from codesign.search.campaign.observations import Run
from codesign.search.campaign.reference import minimized, settled
from codesign.search.campaign.store import Store
from codesign.search.enumeration import ExactFront
from codesign.search.observations import Observations
from codesign.search.optimizers.base import SearchSpace
from codesign.search.problem import Problem

EXACT_RUN = Run("exact", 0)
"""Run of the designs of the exact front, in the place of an optimizer and its seed."""


@frozen
class Results:
    """All observations of a campaign at one moment, in the order of runs and steps.

    Attributes:
        reference_point: Bound of the hypervolume by objective, in natural sign.
        runs: Every optimizer with every seed.
        run_index: (n,) index into ``runs``.
        step: (n,) number of the observation within its run, from 0.
        batch: (n,) number of the batch within its run; those in a batch were asked together.
        observations: What is known of their designs.
        hypervolume: (n,) of the run up to and including the observation.
        epoch: (n,) how often changed inputs had been accepted before the observation.
        versions: Of the libraries with which the campaign was begun.
        accepted: Changes of inputs that were accepted, one tuple of lines each time.
        exact: The exact front of the problem, if it has been enumerated.
        front_run: The run whose designs are the front, one for each point: that of the exact
            front where it is listed; None if the front is what the runs found.
        state: Of the campaign at that moment: ``complete``, ``exhausted`` (no further design
            existed), ``running`` or ``stopped``.
    """

    definition: Definition
    problem: Problem
    reference_point: FloatMap
    runs: tuple[Run, ...]
    run_index: IntArray
    step: IntArray
    batch: IntArray
    observations: Observations
    hypervolume: FloatArray
    versions: StringMap = field(default_factory=dict)
    epoch: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    accepted: tuple[StringTuple, ...] = ()
    exact: ExactFront | None = None
    front_run: int | None = None
    state: str = "complete"

    def __len__(self) -> int:
        return len(self.observations)

    def _repr_html_(self) -> str:
        """The front in a notebook: a figure, and the objectives of its designs."""
        metrics = self.problem.objective_metrics
        rows = (
            [metric_text(self.metrics[metric.name][position], metric) for metric in metrics]
            for position in self.front().tolist()
        )
        title = f"{self.definition.name}: {self.front_words}"
        figure = notebook.front_figure(self) if notebook.front_figure and len(self.front()) else ""
        return figure + notebook.table_html(title, [metric.name for metric in metrics], rows)

    @property
    def rows(self) -> IntArray:
        """(n, d) designs."""
        return self.observations.rows

    @property
    def metrics(self) -> Arrays:
        """(n,) values by name; NaN where failed or not reported."""
        return self.observations.metrics

    @property
    def objectives(self) -> FloatArray:
        """(n, m) values to minimize; NaN where failed."""
        return self.observations.objectives

    @property
    def violations(self) -> Arrays:
        """(n,) excess by limit; ``<= 0`` is within; NaN where failed."""
        return self.observations.violations_by_name

    @property
    def feasible(self) -> BoolArray:
        """(n,) whether every limit is met."""
        return self.observations.feasible

    @property
    def failed(self) -> BoolArray:
        """(n,) whether the evaluator gave no result."""
        return self.observations.failed

    @property
    def broke(self) -> BoolArray:
        """(n,) whether a design has no result, and not because it was refused as infeasible."""
        return np.greater_equal(self.observations.status, Status.FAILED)

    @cached_property
    def reasons(self) -> Mapping[int, str]:
        """Reasons of missing results by position, without control characters."""
        # A program's last words, on their way to tables, files and pages.
        return {i: one_line(failure.reason) for i, failure in self.observations.failures.items()}

    def status_word(self, position: int) -> str:
        """``ok``, ``infeasible``, or how the design came to have no result."""
        return Status(self.observations.status[position]).word

    def front(self) -> IntArray:
        """Positions of the non-dominated feasible designs over all runs.

        Each distinct design once, at its first observation; sorted by the first objective, best
        first. Empty if no design is feasible. Where the exact front is listed, one design for
        each of its points. If the evaluator declares noise, the designs are those whose posterior
        means no other's dominate; their metrics are still the observed ones.
        """
        keys = self.problem.space.keys
        if self.front_run is None:
            kept_posterior_front = (
                self._posterior_front if self.shows_means else self.observations.front
            )
        else:
            kept_posterior_front = np.flatnonzero(self.feasible)
            on_front = keys(self.rows[self.run_index == self.front_run])
            kept_posterior_front = kept_posterior_front[
                np.isin(keys(self.rows[kept_posterior_front]), on_front)
            ]
        _, first = np.unique(keys(self.rows[kept_posterior_front]), return_index=True)
        distinct = kept_posterior_front[np.sort(first)]
        order = np.lexsort(self.objectives[distinct].T[::-1])
        return distinct[order]

    @property
    def shows_means(self) -> bool:
        """True if the front is that of posterior means."""
        return self.problem.is_noisy and self.front_run is None and find_spec("botorch") is not None

    @cached_property
    def _posterior_front(self) -> IntArray:
        # Imported here because it loads PyTorch.
        from codesign.search.optimizers.posterior_front import posterior_front

        problem = self.problem
        space = SearchSpace(problem.space, problem.admits, problem.features)
        return posterior_front(space, self.observations)

    @property
    def reading(self) -> JsonObject:
        """Name, profile and options of the evaluator."""
        return campaign_reading(self.definition, self.problem)

    @property
    def is_enumerated(self) -> bool:
        """Whether these are the designs of the exact front, and nothing that was searched."""
        return self.exact is not None and self.runs == (EXACT_RUN,)

    @property
    def front_words(self) -> str:
        """Front on which the numbers of designs are, in words."""
        if self.front_run is not None:
            return f"the exact front, {len(self.front()):,} points"
        searched = f"{len(self):,} searched designs"
        if self.shows_means:
            return f"the front of posterior means of {searched}, with observed values"
        return f"the front of {searched}"

    @property
    def is_partial(self) -> bool:
        """Whether the campaign had not ended."""
        return self.state not in ("complete", "exhausted")

    @property
    def exact_hypervolume(self) -> float | None:
        """Hypervolume of the exact front, the most that any optimizer can reach; None if it is
        unknown."""
        if self.exact is None:
            return None
        return self.exact.hypervolume(minimized(self.problem, self.reference_point))

    def design(self, position: int) -> JsonObject:
        """The present parameters of one design, as ``codesign evaluate`` takes them."""
        design = self.problem.space.design(self.rows[position])
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in design.items()
        }


def read_results(
    store: Store,
    definition: Definition,
    problem: Problem,
    exact: ExactFront | None = None,
    state: str = "complete",
) -> Results:
    """The observations of an open store, next to the exact front where it is known.

    Raises:
        StoreError: The store is damaged.
    """
    stored = store.read()
    point, hypervolume = settled(store, stored, None if exact is None else exact.objectives)
    return Results(
        definition=definition,
        problem=problem,
        reference_point=point,
        runs=store.runs,
        run_index=stored.run,
        step=stored.step,
        batch=stored.batch,
        observations=stored.observations,
        hypervolume=hypervolume,
        epoch=store.epoch_of(stored),
        accepted=tuple(epoch.changes for epoch in store.epochs),
        versions=store.meta.get("versions", {}),
        exact=exact,
        state=state,
    )
