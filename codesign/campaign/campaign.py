"""A campaign: a definition, its runs, and the store in which they continue."""

from __future__ import annotations

import logging
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeAlias

import codesign
from codesign import resources
from codesign.campaign.definition import (
    Definition,
    ResolvedDefinition,
    campaign_reading,
    load_definition,
    load_problem,
    read_definition,
)
from codesign.campaign.exact import front_results
from codesign.campaign.executor import (
    Progress,
    Quiet,
    Recorder,
    WorkerSetup,
    execute_here,
    execute_in_processes,
)
from codesign.campaign.lock import exclusive, is_held
from codesign.campaign.loop import Plan
from codesign.campaign.observations import Layout, Run
from codesign.campaign.reference import find_reference, minimized
from codesign.campaign.results import Results, read_results
from codesign.campaign.store import BatchTiming, RunCounts, Store, create_store, open_store
from codesign.enumeration import EnumerationProgress, ExactFront, exact_front, stored_front
from codesign.errors import CodesignError, InputError, StoreError
from codesign.problem import Problem
from codesign.processes import n_cores

State: TypeAlias = Literal["not started", "running", "stopped", "complete", "exhausted"]
"""``stopped``: begun, to be continued. ``exhausted``: no further design existed."""

STORE = "campaign.sqlite"
_LIBRARIES = ("numpy", "scipy", "moocore", "torch", "botorch", "gpytorch", "pymoo", "optuna")
_MOST_DIFFERENCES = 20

_logger = logging.getLogger(__name__)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a campaign between two batches; its text says how to go on."""


@dataclass(frozen=True)
class RunStatus:
    """How far a run has come.

    Attributes:
        run: Optimizer and seed.
        state: What it is doing.
        done: Designs evaluated.
        feasible: Of those, within every limit.
        failed: Of those, without a result.
        hypervolume: So far.
        seconds: Wall time spent.
    """

    run: Run
    state: State
    done: int = 0
    feasible: int = 0
    failed: int = 0
    hypervolume: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class CampaignStatus:
    """How far a campaign has come.

    Attributes:
        name: Of the campaign.
        folder: Where its results are.
        state: Of the whole.
        budget: Designs per run.
        runs: Each run; empty if the store cannot be read.
        problem: Why definition or store cannot be used, or None.
    """

    name: str
    folder: Path
    state: State
    budget: int
    runs: tuple[RunStatus, ...]
    problem: str | None = None

    @property
    def done(self) -> int:
        """Designs evaluated over all runs."""
        return sum(run.done for run in self.runs)

    @property
    def total(self) -> int:
        """Designs that all runs evaluate if the space does not run out of them."""
        return self.budget * len(self.runs)


class Campaign:
    """The runs of a definition; everything that is kept is in its folder.

    Args:
        resolved: The definition.
        folder: Of this campaign.
        asked_as: What the user called it, for messages.
    """

    def __init__(self, resolved: ResolvedDefinition, folder: Path, asked_as: str) -> None:
        self._resolved = resolved
        self._asked_as = asked_as
        self._command = f"codesign run {asked_as}"
        self.folder = folder

    @classmethod
    def load(cls, name_or_path: str | Path, folder: str | Path | None = None) -> Campaign:
        """The campaign of a definition.

        Args:
            name_or_path: ``osworld-prefill`` for ``runs/osworld-prefill.yaml``, or a path.
            folder: In which each campaign has its folder; ``runs`` in the working folder if None.

        Raises:
            InputError: The definition, or what it names, cannot be used.
        """
        resolved = load_definition(name_or_path)
        place = results_folder(folder) / resolved.definition.name
        return cls(resolved, place, str(name_or_path))

    @property
    def definition(self) -> Definition:
        """What the campaign file says."""
        return self._resolved.definition

    @property
    def problem(self) -> Problem:
        """Space, evaluator, objectives and constraints."""
        return self._resolved.problem

    @property
    def reading(self) -> dict[str, Any]:
        """Name, profile and options of the evaluator."""
        return campaign_reading(self.definition, self.problem)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every optimizer with every seed."""
        return self.definition.runs

    @property
    def store_path(self) -> Path:
        """The SQLite file."""
        return self.folder / STORE

    def run(self, progress: Progress | None = None, workers: int | None = None) -> None:
        """Start the campaign or continue it, to the same results in either case.

        Args:
            progress: Told of every durable batch.
            workers: Processes; the definition's number, or one per core, if None. With one,
                this process does the work itself.

        Raises:
            InputError: No admissible design; the definition differs from the stored one.
            StoreError: The store is damaged, in use, or its folder cannot be written.
            JobError: A run failed. The others were done; to run again continues.
            Interrupted: Ctrl-C; everything that was reported is stored.
        """
        is_new = not self.folder.exists()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            text = f"the folder cannot be made: {error.strerror}"
            raise StoreError(text, str(self.folder)) from error
        try:
            with exclusive(self.folder / "lock"):
                if not self.store_path.exists():
                    self._create()
                with open_store(self.store_path) as store:
                    self._check_same(store)
                with open_store(self.store_path, writing=True) as store:
                    self._execute(store, progress or Quiet(), self._n_workers(workers))
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped; what was done is stored in {self.folder}, "
                f"'{self._command}' goes on from there"
            ) from None
        finally:
            if is_new and not self.store_path.exists():
                # Refused before it began: leave nothing behind.
                shutil.rmtree(self.folder, ignore_errors=True)

    def status(self) -> CampaignStatus:
        """How far the campaign has come; disturbs nobody who runs it.

        Raises:
            StoreError: The store is damaged.
        """
        name, budget = self.definition.name, self.definition.budget
        if not self.store_path.exists():
            runs = tuple(RunStatus(run, "not started") for run in self.runs)
            return CampaignStatus(name, self.folder, "not started", budget, runs)
        return _status_of(name, self.folder)

    def results(self) -> Results:
        """All observations so far.

        Raises:
            InputError: The campaign was not begun, or the definition differs from the stored one.
            StoreError: The store is damaged.
        """
        if not self.store_path.exists():
            raise InputError(
                f"campaign {self.definition.name!r} has no results yet; "
                f"'{self._command}' starts it",
                str(self.folder),
            )
        with open_store(self.store_path) as store:
            self._check_same(store)
            exact = stored_front(self.problem, self.folder)
            # The state first: what is stored after it was asked for does no harm.
            state = _status_of_store(store, self.definition.name, self.folder).state
            return read_results(store, self.definition, self.problem, exact, state)

    def exact_front(
        self, workers: int | None = None, progress: EnumerationProgress | None = None
    ) -> ExactFront:
        """The exact front of the problem: as stored in the campaign's folder, or enumerated.

        An interrupted enumeration goes on where it was.

        Args:
            workers: Processes; the definition's number, or one per core, if None.
            progress: Told how much of the space is settled.

        Raises:
            InputError: The space cannot be listed, no design is feasible, or the folder cannot
                be written.
            JobError: The enumeration failed.
            Interrupted: Ctrl-C; what was settled is stored.
        """
        try:
            return exact_front(
                self.problem,
                self.folder,
                workers=self._n_workers(workers),
                rebuild=partial(load_problem, self._resolved.path),
                progress=progress,
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped; what was settled is stored in {self.folder}; "
                f"the same command, or 'codesign enumerate {self._asked_as}', goes on from there"
            ) from None

    def exact_results(self, front: ExactFront, listed: bool = False) -> Results:
        """An exact front as results: one design per point, or all that are listed."""
        rows = front.rows if listed else front.representatives()
        return front_results(
            front,
            rows,
            self.definition,
            self.problem,
            self._reference_point(),
            library_versions(),
        )

    def _reference_point(self) -> Mapping[str, float]:
        """The campaign's bound of the hypervolume, as stored or as it would be."""
        if self.store_path.exists():
            with open_store(self.store_path) as store:
                self._check_same(store)
                stored: Mapping[str, float] = store.meta["reference_point"]
                return stored
        stated_point = self._resolved.reference_point
        return find_reference(self.problem, self.definition.reference_sample, stated_point).point

    def timings(self) -> list[BatchTiming]:
        """Wall time of every batch so far; empty if the campaign was not begun.

        Raises:
            StoreError: The store is damaged.
        """
        if not self.store_path.exists():
            return []
        with open_store(self.store_path) as store:
            return store.timings()

    def _create(self) -> None:
        stated_point = self._resolved.reference_point
        reference = find_reference(self.problem, self.definition.reference_sample, stated_point)
        layout = Layout(
            metrics=self.problem.metric_names,
            violations=reference.violation_names,
            objectives=tuple(item.metric.name for item in self.problem.objectives),
            signs=tuple(item.sign for item in self.problem.objectives),
        )
        meta = {
            "definition": self.definition.model_dump(mode="json"),
            "identity": self._resolved.identity(),
            "versions": library_versions(),
            "layout": layout.to_json(),
            "parameters": list(self.problem.space.names),
            "reference_point": dict(reference.point),
        }
        create_store(self.store_path, meta, self.runs)

    def _check_same(self, store: Store) -> None:
        stored, now = store.meta.get("identity", {}), self._resolved.identity()
        lines = list(_differences(stored, now))
        if lines:
            listed = lines[:_MOST_DIFFERENCES]
            if len(lines) > len(listed):
                listed.append(f"... and {len(lines) - len(listed)} more")
            raise StoreError(
                [
                    f"{self.store_path}: the store belongs to another definition; change it "
                    "back, give the campaign another name, or move its folder away. "
                    "Stored -> now:",
                    *(f"  {line}" for line in listed),
                ]
            )
        for line in _differences(store.meta.get("versions", {}), library_versions()):
            _logger.warning("%s was begun with other versions: %s", self.definition.name, line)

    def _execute(self, store: Store, progress: Progress, workers: int) -> None:
        counts = store.counts()
        pending = [index for index, count in enumerate(counts) if count.ended is None]
        recorder = Recorder(store, self.definition.budget, progress)
        reference = minimized(self.problem, store.meta["reference_point"])
        total = self.definition.budget * len(counts)
        progress.start(total, sum(count.done for count in counts))
        try:
            if min(workers, len(pending)) <= 1:
                execute_here(Plan(self._resolved, store.layout, reference), pending, recorder)
            else:
                resolved = self._resolved
                setup = WorkerSetup(resolved.path, resolved.identity(), store.layout, reference)
                execute_in_processes(setup, self.runs, pending, recorder, workers)
        finally:
            progress.finish()

    def _n_workers(self, workers: int | None) -> int:
        wanted = workers or self.definition.workers
        if wanted is not None:
            return wanted
        return n_cores()


def results_folder(folder: str | Path | None = None) -> Path:
    """The folder in which each campaign has its own."""
    return Path(folder) if folder is not None else Path.cwd() / "runs"


def library_versions() -> dict[str, str]:
    """Versions of all that can change the last bits of a result."""
    versions = {"python": platform.python_version(), "codesign": codesign.__version__}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def list_campaigns(folder: str | Path | None = None) -> list[CampaignStatus]:
    """Every campaign that has a definition or a store, by name, with its state.

    A definition or a store that cannot be used is listed with its problem.
    """
    root = results_folder(folder)
    stores = {path.parent.name for path in root.glob(f"*/{STORE}")}
    listed = [_listed_store(name, root / name) for name in stores]
    for name, path in resources.listed("runs").items():
        if name not in stores:
            listed.append(_listed_definition(path, root))
    return sorted(
        {item.name: item for item in reversed(listed)}.values(), key=lambda item: item.name
    )


def _listed_store(name: str, folder: Path) -> CampaignStatus:
    try:
        return _status_of(name, folder)
    except CodesignError as error:
        return CampaignStatus(name, folder, "stopped", 0, (), str(error))


def _listed_definition(path: Path, root: Path) -> CampaignStatus:
    try:
        _, definition = read_definition(path)
    except CodesignError as error:
        return CampaignStatus(path.stem, root / path.stem, "not started", 0, (), str(error))
    name = definition.name
    if (root / name / STORE).exists():
        return _listed_store(name, root / name)
    runs = tuple(RunStatus(run, "not started") for run in definition.runs)
    return CampaignStatus(name, root / name, "not started", definition.budget, runs)


def _status_of(name: str, folder: Path) -> CampaignStatus:
    with open_store(folder / STORE) as store:
        return _status_of_store(store, name, folder)


def _status_of_store(store: Store, name: str, folder: Path) -> CampaignStatus:
    counts = store.counts()
    budget = int(store.meta.get("identity", {}).get("budget", 0))
    is_running = is_held(folder / "lock")
    runs = tuple(_run_status(count, is_running) for count in counts)
    return CampaignStatus(name, folder, _state(runs, is_running), budget, runs)


def _run_status(count: RunCounts, is_running: bool) -> RunStatus:
    state: State = "not started"
    if count.ended is not None:
        state = "complete" if count.ended == "complete" else "exhausted"
    elif count.done:
        state = "running" if is_running else "stopped"
    return RunStatus(
        run=count.run,
        state=state,
        done=count.done,
        feasible=count.feasible,
        failed=count.failed,
        hypervolume=count.hypervolume,
        seconds=count.seconds,
    )


def _state(runs: Sequence[RunStatus], is_running: bool) -> State:
    states = {run.state for run in runs}
    if states <= {"complete", "exhausted"}:
        return "exhausted" if states == {"exhausted"} else "complete"
    return "running" if is_running else "stopped"


def _differences(stored: Any, now: Any, path: str = "") -> Iterator[str]:
    """``key: stored -> now`` for every leaf in which two JSON values differ."""
    if isinstance(stored, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*stored, *now]):
            inner = f"{path}.{key}" if path else str(key)
            yield from _differences(stored.get(key), now.get(key), inner)
    elif isinstance(stored, list) and isinstance(now, list):
        yield from _list_differences(stored, now, path)
    elif stored != now or type(stored) is not type(now):
        yield f"{path}: {_short(stored)} -> {_short(now)}"


def _list_differences(stored: list[Any], now: list[Any], path: str) -> Iterator[str]:
    if len(stored) == len(now):
        for i, (before, after) in enumerate(zip(stored, now, strict=True)):
            yield from _differences(before, after, f"{path}.{i}")
        return
    gone = [item for item in stored if item not in now] or None
    new = [item for item in now if item not in stored] or None
    yield f"{path}: {_short(gone)} -> {_short(new)} ({len(stored)} -> {len(now)} entries)"


def _short(value: Any, most: int = 120) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= most else text[: most - 1] + "…"
