"""Tasks of workers for a campaign: evaluate designs, or carry a run on for a while.

A worker builds the campaign from its file, so that it must see the file and what that names under
the same paths, and be able to import the same plug-ins.
"""

from __future__ import annotations

import threading
import time
import weakref
from contextlib import ExitStack, chdir
from functools import lru_cache, partial
from pathlib import Path

from codesign.base.columns import FloatArray, IntArray
from codesign.base.errors import CodesignError, InputError
from codesign.base.records import frozen
from codesign.search.campaign.campaign_definition import ResolvedDefinition, load_definition
from codesign.search.campaign.execution_settings import Execution
from codesign.search.campaign.guarded_evaluation import evaluation
from codesign.search.campaign.loop import Plan, run_batches
from codesign.search.campaign.manifest import digest_of
from codesign.search.campaign.observations import Layout, ObservationBatch, StoredObservations
from codesign.search.campaign.store_file import STORE
from codesign.search.execution.guard import Refusal
from codesign.search.observations import Observations


@frozen
class Site:
    """A campaign, for workers that are to find the same.

    Attributes:
        identity: Digest of all that its results depend on.
        execution: How designs are evaluated, whatever the file says.
        folder: Of its results, for logs; None: no log is kept.
        has_store: Whether its store is there, and with it the reference sample, whose designs
            nobody evaluates again.
        working_folder: In which names of spaces and models are looked up.
    """

    path: Path
    identity: str
    execution: Execution
    folder: Path | None
    has_store: bool
    working_folder: Path

    @classmethod
    def describe(cls, resolved: ResolvedDefinition, folder: Path | None) -> Site:
        """The site of a campaign that was loaded in this process."""
        digest = digest_of(resolved.identity())
        execution = resolved.definition.execution
        has_store = folder is not None and (folder / STORE).exists()
        place = folder and folder.resolve()
        return cls(resolved.path, digest, execution, place, has_store, Path.cwd())


class _Workplace:
    """A campaign as a worker has it, with the evaluation that belongs to one thread."""

    def __init__(self, site: Site) -> None:
        with chdir(site.working_folder):
            self.resolved = load_definition(site.path).replace_execution(site.execution)
        if digest_of(self.resolved.identity()) != site.identity:
            raise InputError("a worker finds another campaign than was started", str(site.path))
        stack = ExitStack()
        self.evaluate = stack.enter_context(evaluation(self.resolved, site.folder))
        weakref.finalize(self, stack.close)


@lru_cache(maxsize=64)
def _workplace(site: Site, thread: int) -> _Workplace:
    return _Workplace(site)


def leave_workplaces() -> None:
    """End what evaluations in threads of this process have started."""
    _workplace.cache_clear()


@frozen
class RunSite:
    """Inputs from which a worker builds the plan of a campaign's runs.

    Attributes:
        site: The campaign; the worker must find the same.
        layout: Names of the recorded numbers.
        reference: (m,) reference point, minimized.
    """

    site: Site
    layout: Layout
    reference: FloatArray

    def plan(self) -> Plan:
        """The plan, evaluated for this thread."""
        place = _workplace(self.site, threading.get_ident())
        return Plan(place.resolved, self.layout, self.reference, place.evaluate)


def evaluate_designs(site: Site, rows: IntArray) -> Observations | Refusal:
    """The observations of (n, d) designs."""
    try:
        return _workplace(site, threading.get_ident()).evaluate(rows)
    except CodesignError as error:
        return Refusal.describe(error)


@frozen
class SliceResult:
    """Result of a slice.

    Attributes:
        run: Index of the run.
        n_before: Observations of the run on which it follows.
        error: What stopped the run, or None.
        is_over: The run needs no further slice.
    """

    run: int
    n_before: int
    batches: tuple[ObservationBatch, ...]
    error: Refusal | None
    is_over: bool


def carry_on(site: RunSite, run: int, history: StoredObservations, seconds: float) -> SliceResult:
    """Further batches of a run, the same as anywhere else.

    Args:
        site: The campaign.
        run: Index of the run.
        history: What the store holds of it.
        seconds: After so long no further batch is begun.
    """
    end = time.monotonic() + seconds
    result = partial(SliceResult, run, len(history))
    batches = []
    try:
        for batch in run_batches(site.plan(), run, history):
            batches.append(batch)
            if time.monotonic() > end:
                return result(tuple(batches), None, is_over=False)
    except CodesignError as error:
        return result(tuple(batches), Refusal.describe(error), is_over=True)
    return result(tuple(batches), None, is_over=True)
