"""Exact fronts in files, found again by what they depend on.

The name holds a digest of the problem (space, evaluator with its technologies and model,
workload, objectives, constraints) and of the code that computes it: the enumeration, the evaluator
and what they import. So a front is never taken for that of another problem, and a change of
commands, reports or optimizers leaves it valid.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from codesign.base.code_digest import code_digest
from codesign.base.columns import JsonObject, StringList, Strings, StringTuple
from codesign.base.errors import InputError, JobError, StoreError, UnattainableError
from codesign.base.files import replacing
from codesign.base.locks import exclusive
from codesign.search.enumeration.checkpoint import damaged, read_arrays
from codesign.search.enumeration.composition import compose_front, is_composed
from codesign.search.enumeration.enumerate import enumerate_front
from codesign.search.enumeration.enumeration_worker import Rebuild
from codesign.search.enumeration.front import ExactFront
from codesign.search.enumeration.kept import KeptFront, keeping
from codesign.search.enumeration.wanted import WantedPart
from codesign.search.execution.result_cache import evaluator_modules
from codesign.search.problem import Problem

_COUNTS = ("n_designs", "n_evaluated", "n_repeated", "n_excluded", "n_failed")
_ARRAYS = ("objectives", "counts", "rows", "point")
_CODE = ("codesign.search.enumeration", "codesign.search.problem_builder")
"""Modules whose changes may change a front, whatever the evaluator."""

_logger = logging.getLogger(__name__)


def exact_front(
    problem: Problem,
    folder: Path,
    *,
    workers: int = 1,
    rebuild: Rebuild | None = None,
    executor: str | None = None,
    wanted: WantedPart | None = None,
    every_design: bool = False,
) -> ExactFront:
    """The exact front of a problem: from its file in the folder, or computed and stored there.

    Interrupted, it goes on from where it was. Other arguments and errors as in
    :func:`~codesign.search.enumeration.enumerate.enumerate_front`.

    Args:
        every_design: Evaluate every design, without bounds and stored fronts.
    """
    if wanted is not None and is_composed(problem):
        wanted = None  # all of it takes the fronts of the pools
    key = "" if wanted is None else wanted.key
    path = front_path(problem, folder, key)
    if not every_design:
        try:
            stored = read_front(path)
        except StoreError as error:
            _logger.warning("%s; it is found anew now", error)
            stored = None
        if stored is not None:
            return stored
    with _enumerating(path):
        if is_composed(problem):
            find = partial(exact_front, folder=folder, workers=workers)
            find = partial(find, executor=executor, every_design=every_design)
            front = compose_front(problem, lambda pool, again: find(pool, rebuild=again), rebuild)
        else:
            checkpoint = path.with_suffix(".every.part" if every_design else ".part")
            if every_design:
                rebuild = rebuild and partial(_evaluating_all, rebuild)
            front = enumerate_front(
                replace(problem, evaluates_all=every_design),
                workers=workers,
                rebuild=rebuild,
                checkpoint=checkpoint,
                executor=executor,
                wanted=wanted,
            )
        with replacing(path) as unfinished, unfinished.open("wb") as file:
            arrays: JsonObject = {name: getattr(front, name) for name in _ARRAYS}
            # As text: designs of systems are more than 64 bits can count.
            counts = np.array([str(getattr(front, name)) for name in _COUNTS])
            provenance = np.frombuffer(_provenance(problem, key).encode(), dtype=np.uint8)
            np.savez_compressed(file, sizes=counts, provenance=provenance, **arrays)
    return front


@contextmanager
def _enumerating(path: Path) -> Iterator[None]:
    """Refuse to do what another process does; leaves no folder that it made without a front."""
    absent = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(path.with_suffix(".lock"), "enumerates this space", is_kept=False):
            yield
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", str(path.parent)) from error
    finally:
        for folder in absent:
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def leaving_nothing_of_the_unattainable(folder: Path) -> Iterator[None]:
    """Remove what was stored meanwhile, fronts of pools, if no system keeps the limits.

    Such a problem is refused as bad input is, which leaves no file.
    """
    absent = [place for place in (folder, *folder.parents) if not place.exists()]
    before = set(folder.glob("exact-*"))
    try:
        yield
    except UnattainableError:
        for path in set(folder.glob("exact-*")) - before:
            path.unlink(missing_ok=True)
        for place in absent:
            if place.exists() and not any(place.iterdir()):
                place.rmdir()
        raise


def stored_front(problem: Problem, folder: Path) -> ExactFront | None:
    """The exact front if the folder has it.

    Raises:
        StoreError: Its file is damaged.
    """
    return read_front(front_path(problem, folder))


def read_front(path: Path) -> ExactFront | None:
    """The front in a file; None if there is no such file.

    Raises:
        StoreError: It is damaged.
    """
    data = read_arrays(path)
    if data is None:
        return None
    try:
        counts: JsonObject = dict(zip(_COUNTS, map(int, data["sizes"].tolist()), strict=True))
        arrays: JsonObject = {name: data[name] for name in _ARRAYS}
        named = f"exact-{hashlib.sha256(data['provenance'].tobytes()).hexdigest()[:16]}.npz"
    except (ValueError, KeyError) as error:
        raise damaged(path) from error
    front = ExactFront(**arrays, **counts)
    sizes = len(front.counts), len(np.unique(front.point)), len(front.rows)
    if named != path.name or sizes != (len(front), len(front), len(front.point)):
        raise damaged(path)
    return front


def kept_front(
    problem: Problem,
    names: Strings,
    folder: Path,
    *,
    workers: int = 1,
    rebuild: Rebuild | None = None,
    executor: str | None = None,
) -> KeptFront:
    """The designs from which the exact front under tighter limits follows.

    Stored, found again and resumed as :func:`exact_front`, whose arguments and errors it has.

    Args:
        names: Metrics to keep; see :func:`~codesign.search.enumeration.kept.keeping`.
        rebuild: How a worker gets the problem.
        executor: Where it is done; see :func:`exact_front`.

    Raises:
        JobError: Without tighter limits, the filter has not the points of the exact front: some
            designs of it have no finite value of a kept metric.
    """
    larger = keeping(problem, names)
    build = partial(_rebuilt_keeping, rebuild, tuple(names)) if rebuild else None
    find = partial(exact_front, folder=folder, workers=workers, executor=executor)
    points = find(problem, rebuild=rebuild).objectives
    stored = find(larger, rebuild=build)
    front = KeptFront(larger, stored, len(problem.objectives))
    if not np.array_equal(stored.objectives[front.positions({}), : front.n_objectives], points):
        raise JobError(
            f"the front that keeps {', '.join(front.kept)} is not the exact one: "
            f"{stored.n_failed:,} designs have no finite value of these metrics"
        )
    return front


def _evaluating_all(rebuild: Rebuild) -> Problem:
    return replace(rebuild(), evaluates_all=True)


def _rebuilt_keeping(rebuild: Rebuild, names: StringTuple) -> Problem:
    return keeping(rebuild(), names)


def stored_kept_front(problem: Problem, folder: Path) -> KeptFront | None:
    """Stored front that keeps most metrics, among those of :func:`kept_front` in the folder.

    Of several with as many metrics, the first by the names of their files.
    """
    n = len(problem.objectives)
    objective_texts = [str(objective) for objective in problem.objectives]
    largest: KeptFront | None = None
    for path in sorted(folder.glob("exact-*.npz")):
        data = read_arrays(path, only=("provenance",)) or {}
        try:
            objectives: StringList = json.loads(data["provenance"].tobytes())["problem"][
                "objectives"
            ]
        except (ValueError, KeyError) as error:
            raise damaged(path) from error
        names = [text.split()[1] for text in objectives[n:]]
        if (
            objectives[:n] != objective_texts
            or not names
            or (largest and len(largest.kept) >= len(names))
        ):
            continue
        try:
            larger = keeping(problem, names)
        except InputError:
            continue
        # A file of other versions, or of another problem with these objectives, has another name.
        front = stored_front(larger, folder) if front_path(larger, folder) == path else None
        largest = KeptFront(larger, front, n) if front is not None else largest
    return largest


def front_path(problem: Problem, folder: Path, key: str = "") -> Path:
    """The file of a problem's front; of a part of it, by the key of the part."""
    digest = hashlib.sha256(_provenance(problem, key).encode()).hexdigest()
    return folder / f"exact-{digest[:16]}.npz"


def _provenance(problem: Problem, key: str) -> str:
    """All that a front depends on, as one text."""
    data = {
        "problem": problem.provenance(),
        "numpy": np.__version__,
        "code": code_digest((*_CODE, *evaluator_modules(problem.evaluator))),
    } | ({"part": key} if key else {})
    return json.dumps(data, sort_keys=True, default=str)
