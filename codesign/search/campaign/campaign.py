"""A campaign: a definition, its runs, and the store in which they continue."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from codesign.base.columns import (
    Fields,
    FloatMap,
    IntArray,
    IntegerTuple,
    JsonObject,
    StringList,
    Strings,
)
from codesign.base.errors import InputError, StoreError
from codesign.base.locks import exclusive
from codesign.base.notebook import table_html
from codesign.base.processes import n_cores
from codesign.search.campaign.campaign_definition import (
    Definition,
    ResolvedDefinition,
    campaign_reading,
    load_definition,
)
from codesign.search.campaign.current_inputs import CurrentInputs, library_versions
from codesign.search.campaign.exact_results import front_results
from codesign.search.campaign.execution import Job
from codesign.search.campaign.execution_settings import Execution
from codesign.search.campaign.executor import Recorder
from codesign.search.campaign.guarded_evaluation import LOG, enumerated_problem, load_enumerated
from codesign.search.campaign.manifest import (
    Origin,
    digest_of,
    file_digest,
    list_files,
    read_manifest,
)
from codesign.search.campaign.observations import Layout, Run, RunStatus
from codesign.search.campaign.reference import minimized, settled, worst_point
from codesign.search.campaign.results import Results, read_results
from codesign.search.campaign.sample import FILE as SAMPLE_FILE
from codesign.search.campaign.sample import make_reference, sample_batch, sample_notices
from codesign.search.campaign.settings import (
    check_settings,
    keeping_settings,
    settings_path,
    settings_words,
    stored_settings,
)
from codesign.search.campaign.status import (
    CampaignStatus,
    command_arguments,
    results_folder,
    status_of_store,
)
from codesign.search.campaign.store import BatchTiming
from codesign.search.campaign.store_file import STORE, create_store, open_store
from codesign.search.campaign.stored_inputs import stored_problem
from codesign.search.campaign.tracker import Tracker
from codesign.search.enumeration import (
    ExactFront,
    KeptFront,
    exact_front,
    kept_front,
    leaving_nothing_of_the_unattainable,
    read_front,
    stored_front,
    stored_kept_front,
)
from codesign.search.enumeration.front_cache import front_path
from codesign.search.problem import Problem

Front = TypeVar("Front", ExactFront, KeptFront)

_logger = logging.getLogger(__name__)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a campaign between two batches; its text says how to go on."""


class Campaign:
    """The runs of a definition; everything that is kept is in its folder.

    Args:
        asked_as: What the user called it, for messages, and the flag of its folder.
        error: Why the definition cannot be used today; it is that of the store then, which can be
            read, and no more.
    """

    def __init__(
        self,
        resolved: ResolvedDefinition,
        folder: Path,
        asked_as: str,
        error: InputError | None = None,
    ) -> None:
        self._file = resolved.path
        if resolved.settings:
            resolved = replace(resolved, path=settings_path(folder).absolute())
        self._resolved = resolved
        resolved.definition._asked_as = asked_as
        self.command = f"codesign run {asked_as}"
        self.folder = folder
        self._inputs = CurrentInputs(resolved, folder / STORE, error)

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        folder: str | Path | None = None,
        settings: Fields | None = None,
    ) -> Campaign:
        """The campaign of a definition.

        Args:
            name_or_path: ``osworld-prefill`` for ``runs/osworld-prefill.yaml``, or a path.
            folder: In which each campaign has its folder; ``runs`` in the working folder if None.
            settings: Values that replace those of the file, by dotted key such as
                ``constraints.0``; they are stored with the results.

        Raises:
            InputError: The definition, or what it names, cannot be used, and there is no store;
                or the campaign was begun with other settings.
        """
        name = Path(name_or_path).name.removesuffix(".yml").removesuffix(".yaml")
        place = results_folder(folder) / name
        asked_as = command_arguments(name_or_path, folder)
        stored_values = stored_settings(place)
        try:
            resolved = load_definition(name_or_path, settings or stored_values)
        except InputError as error:
            path = place / STORE
            if settings or not path.is_file():
                raise
            with open_store(path) as store:
                definition = Definition.model_validate(store.inputs["definition"])
                problem = stored_problem(store, None)
            stored = ResolvedDefinition(path, definition, problem, (), None)
            return cls(stored, place, asked_as, error)
        check_settings(place, settings, stored_values)
        return cls(resolved, place, asked_as)

    @property
    def definition(self) -> Definition:
        """Definition in the campaign file."""
        return self._resolved.definition

    @property
    def problem(self) -> Problem:
        """Space, evaluator, objectives and constraints."""
        return self._resolved.problem

    @property
    def reading(self) -> JsonObject:
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

    def _repr_html_(self) -> str:
        """The front in a notebook, or the reason for its absence."""
        try:
            return self.front_results()._repr_html_()
        except InputError as error:
            return table_html(self.definition.name, ["results"], [[str(error)]])

    @property
    def variations(self) -> Path:
        """Folder of the exact fronts of variations of the problem."""
        return self.folder / "variations"

    def run(
        self,
        workers: int | None = None,
        execution: Execution | None = None,
        accept_changes: bool = False,
        retry_failed: bool = False,
        trackers: Sequence[Tracker] = (),
    ) -> None:
        """Start the campaign or continue it, to the same results in either case.

        Args:
            workers: Processes; the definition's number, or one per core, if None. With one,
                this process does the work itself.
            execution: How designs are evaluated; as the definition says if None.
            accept_changes: Go on although inputs differ from the stored ones; what is stored from
                then on is marked.
            retry_failed: Evaluate initial designs again that failed in an earlier run, all of
                them, so that the campaign could not begin.
            trackers: Listeners to every result that becomes durable.

        Raises:
            InputError: No admissible design; inputs or the evaluator's code differ from the stored
                ones and that is not accepted, or they differ in what cannot change; failed designs
                are to be evaluated again of which optimizers were told.
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
            with exclusive(self.folder / "lock"), self._keeping_settings():
                if self.store_path.exists() and retry_failed:
                    raise InputError(
                        "expected no --retry-failed: the campaign has begun, and what failed since "
                        "is part of what its optimizers were told",
                        str(self.store_path),
                    )
                job = Job(
                    self._resolved.replace_execution(execution),
                    self.folder,
                    workers or self.definition.workers or n_cores(),
                )
                with job:
                    self._do(job, accept_changes, retry_failed, trackers)
            self.list_files([self.store_path])
            for tracker in trackers:
                tracker.send_end(self.results())
        except KeyboardInterrupt:
            if self.store_path.exists():
                self.list_files([self.store_path])
            raise Interrupted(
                f"stopped; what was done is stored in {self.folder}, "
                "the same command goes on from there"
            ) from None
        finally:
            stored_files = (self.store_path, self.folder / SAMPLE_FILE, self.folder / LOG)
            if is_new and not any(path.exists() for path in stored_files):
                # Refused before it began: leave nothing behind.
                shutil.rmtree(self.folder, ignore_errors=True)

    def _keeping_settings(self) -> AbstractContextManager[None]:
        return keeping_settings(self.folder, self._file, self._resolved.settings)

    @property
    def path(self) -> Path:
        """The file that defines the campaign: its own, or that of the settings over it."""
        return self._resolved.path

    def status(self) -> CampaignStatus:
        """Progress of the campaign, read without disturbing its run.

        Raises:
            StoreError: The store is damaged.
        """
        name = self.definition.name
        budget = self.definition.budget
        settings = self._resolved.settings
        first = (f"settings: {settings_words(settings)}",) if settings else ()
        if not self.store_path.exists():
            runs = tuple(RunStatus(run, "not started") for run in self.runs)
            notices = (*first, *sample_notices(self.problem, self.folder))
            return CampaignStatus(name, self.folder, "not started", budget, runs, notices=notices)
        with open_store(self.store_path) as store:
            status = status_of_store(store, name, self.folder)
            return replace(status, notices=(*first, *status.notices, *self._inputs.changes(store)))

    def results(self) -> Results:
        """All observations so far.

        Raises:
            InputError: The campaign was not begun.
            StoreError: The store is damaged.
        """
        if not self.store_path.exists():
            name = self.definition.name
            message = f"campaign {name!r} has no results yet; '{self.command}' starts it"
            if stored_front(self.problem, self.folder) is not None:
                message = f"only the exact front of {name!r} is here; '{self.command}' searches"
            elif any(self.folder.glob("exact-*.npz")):
                # Asked for where no front in the folder fits: the definition or our code changed.
                message = (
                    f"the exact front in the folder is of another definition of {name!r} or of "
                    f"another version of codesign; 'codesign enumerate "
                    f"{self.definition.asked_as}' finds it anew, and '{self.command}' searches"
                )
            raise InputError(message, str(self.folder))
        with open_store(self.store_path) as store:
            if store.notice:
                _logger.warning("%s", store.notice)
            # The state first: what is stored after it was asked for does no harm.
            state = status_of_store(store, self.definition.name, self.folder).state
            if changes := self._inputs.changes(store):
                first = changes[0]
                more = len(changes) - 1
                _logger.warning(
                    "%s: read with its stored inputs; today's differ: %s%s",
                    self.definition.name,
                    first,
                    f" and {more} more ('codesign status {self.definition.asked_as}')"
                    if more
                    else "",
                )
                problem = stored_problem(store, None if self._inputs.error else self.problem)
                definition = Definition.model_validate(store.inputs["definition"])
                return read_results(store, definition, problem, None, state)
            self._inputs.warn_of_versions(store)
            exact = stored_front(self.problem, self.folder)
            return read_results(store, self.definition, self.problem, exact, state)

    def verify(self) -> StringList:
        """Damages of the store and of stored exact fronts, one line each.

        Raises:
            StoreError: The store cannot be opened at all.
        """
        damages = []
        for path in sorted(self.folder.glob("exact-*.npz")):
            try:
                read_front(path)
            except StoreError as error:
                damages.append(str(error))
        with open_store(self.store_path) as store:
            return [*store.verify(), *damages]

    def list_files(self, files: Iterable[Path]) -> None:
        """Enter finished files of the campaign's folder into its manifest."""
        numbers: IntegerTuple = ()
        if self._resolved.settings:
            files = (*files, settings_path(self.folder))
        results = None
        inputs = self._inputs.stored_form()
        if self.store_path.exists():
            with open_store(self.store_path) as store:
                numbers = store.numbers()
                inputs = dict(store.inputs)
                results = store.digest(numbers)
        front = front_path(self.problem, self.folder)
        origin = Origin(
            inputs=digest_of(inputs["identity"]),
            code=inputs.get("code", ""),
            observations=numbers,
            results=results,
            exact_front=file_digest(front) if front.exists() else None,
            versions=library_versions(),
        )
        list_files(self.folder, self.definition.name, files, origin)

    def exact_front(
        self,
        workers: int | None = None,
        executor: str | None = None,
        every_design: bool = False,
    ) -> ExactFront:
        """The exact front of the problem: as stored in the campaign's folder, or enumerated.

        An interrupted enumeration goes on where it was.

        Args:
            workers: Processes; the definition's number, or one per core, if None.
            executor: Where it is done, as ``NAME`` or ``NAME:TEXT``; as the definition says if
                None.
            every_design: Evaluate every design, also where bounds would leave designs out.

        Raises:
            InputError: The space cannot be listed, no design is feasible, or the folder cannot
                be written.
            JobError: The enumeration failed.
            Interrupted: Ctrl-C; what was settled is stored.
        """
        find = partial(exact_front, every_design=every_design)
        flags = " --every-design" if every_design else ""
        return self._enumerated(find, workers, executor, flags)

    def kept_front(
        self,
        metrics: Strings,
        workers: int | None = None,
        executor: str | None = None,
    ) -> KeptFront:
        """The designs from which the exact front under tighter limits on metrics follows.

        Stored and resumed like the exact front, which is found first.

        Args:
            metrics: By name; the objectives are kept in any case.
            workers: As of :meth:`exact_front`.
            executor: Likewise.

        Raises:
            InputError: As of :meth:`exact_front`, or a metric cannot be kept.
            JobError: As of :meth:`exact_front`, or some designs lack a metric.
            Interrupted: Ctrl-C; what was settled is stored.
        """
        find = partial(kept_front, names=metrics)
        return self._enumerated(find, workers, executor, f" --keep {','.join(metrics)}")

    def stored_kept_front(self) -> KeptFront | None:
        """Stored front that keeps most metrics, among those of :meth:`kept_front`."""
        return stored_kept_front(self.problem, self.folder)

    def _enumerated(
        self,
        enumerate_: Callable[..., Front],
        workers: int | None,
        executor: str | None,
        flags: str = "",
    ) -> Front:
        before = {each for each in self._stored_fronts().items() if each[0].name in self._listed()}
        try:
            with leaving_nothing_of_the_unattainable(self.folder), self._keeping_settings():
                front = enumerate_(
                    self._enumerated_problem,
                    folder=self.folder,
                    workers=workers or self.definition.workers or n_cores(),
                    rebuild=partial(load_enumerated, self._resolved.path),
                    executor=executor or self.definition.execution.executor,
                )
            listed = self._listed()
            fronts = self._stored_fronts().items()
            self.list_files(
                path
                for path, time in fronts
                if path.name not in listed or (path, time) not in before
            )
            return front
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped; what was settled is stored in {self.folder}; the same command, "
                f"or 'codesign enumerate {self.definition.asked_as}{flags}', goes on from there"
            ) from None

    def _listed(self) -> Collection[str]:
        """Names in the manifest; none of a damaged one, which is begun anew."""
        try:
            manifest = read_manifest(self.folder)
        except StoreError:
            return ()
        return manifest.files if manifest is not None else ()

    def _stored_fronts(self) -> dict[Path, int]:
        """Files of exact fronts in the folder, with the times of their last change."""
        return {path: path.stat().st_mtime_ns for path in self.folder.glob("exact-*.npz")}

    def exact_results(self, front: ExactFront, listed: bool = False) -> Results:
        """An exact front as results: one design per point, or all that are listed."""
        rows = front.rows if listed else front.representatives()
        return self._listed_front(front, rows, self._reference_point(front))

    @property
    def _enumerated_problem(self) -> Problem:
        return enumerated_problem(self._resolved)

    def _listed_front(
        self, front: ExactFront, rows: IntArray, reference_point: FloatMap
    ) -> Results:
        return front_results(
            front,
            rows,
            self.definition,
            self._enumerated_problem,
            reference_point,
            library_versions(),
        )

    def front_results(self, searched: Results | None = None) -> Results:
        """The front whose numbers name designs everywhere: the exact one, one design for each
        point, if it is stored; else what was searched so far.

        Args:
            searched: The campaign's :meth:`results`, if they were read.

        Raises:
            InputError: The campaign was neither enumerated nor begun.
            StoreError: The store is damaged.
        """
        if searched is None and not self.store_path.exists():
            exact = stored_front(self.problem, self.folder)
            return self.results() if exact is None else self.exact_results(exact)
        results = self.results() if searched is None else searched
        if results.exact is None or results.front_run is not None:
            return results
        rows = results.exact.representatives()
        return self._listed_front(results.exact, rows, results.reference_point)

    def _reference_point(self, front: ExactFront) -> FloatMap:
        """The bound of the hypervolume, as results have it or would have it."""
        if self.store_path.exists():
            with open_store(self.store_path) as store:
                self._inputs.accepted_changes(store)
                return settled(store, store.read(), front.objectives)[0]
        reference = make_reference(self._resolved)
        if reference.is_of_feasible:
            return reference.point
        return {**worst_point(self.problem, front.objectives), **reference.bounds}

    def timings(self) -> list[BatchTiming]:
        """Wall time of every batch so far; empty if the campaign was not begun.

        Raises:
            StoreError: The store is damaged.
        """
        if not self.store_path.exists():
            return []
        with open_store(self.store_path) as store:
            return store.timings()

    def _do(
        self,
        job: Job,
        accept_changes: bool,
        retry_failed: bool,
        trackers: Sequence[Tracker],
    ) -> None:
        if not self.store_path.exists():
            self._create(job, retry_failed)
        with open_store(self.store_path, is_ours=True) as store:
            changes = self._inputs.accepted_changes(store, accept_changes)
            changes += self._inputs.accepted_code(store, changes, accept_changes)
        with open_store(self.store_path, writing=True) as store:
            if changes:
                store.accept(changes, self._inputs.stored_form())
            counts = store.counts()
            pending = [index for index, count in enumerate(counts) if not count.has_ended]
            recorder = Recorder(store, self.definition.budget, trackers)
            reference = minimized(self.problem, store.meta["reference_point"])
            with ExitStack() as stack:
                for loop in recorder.loops.values():
                    stack.enter_context(loop)
                job.do(store.layout, reference, pending, recorder)

    def _create(self, job: Job, retry_failed: bool) -> None:
        reference = make_reference(self._resolved, job, retry_failed)
        layout = Layout(
            metrics=self.problem.metric_names,
            violations=reference.sample.violation_names,
            objectives=tuple(self.problem.objective_names),
            senses=self.problem.senses,
        )
        meta = {
            **self._inputs.stored_form(),
            "layout": layout.document(),
            "parameters": list(self.problem.space.names),
            "reference_point": dict(reference.point),
            "reference_bounds": dict(reference.bounds),
            "reference_is_provisional": reference.is_provisional,
            "metrics": [vars(metric) for metric in self.problem.metrics],
        }
        create_store(self.store_path, meta, self.runs, sample_batch(reference))
        (self.folder / SAMPLE_FILE).unlink(missing_ok=True)
