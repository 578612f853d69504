"""Exact fronts in files, found again by what they depend on.

The name holds a digest of the problem (space, evaluator with its technologies and model,
workload, objectives, constraints), of the versions, and of the code that computes it, so a front
is never taken for that of another problem.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import codesign
from codesign.enumeration.checkpoint import read_arrays
from codesign.enumeration.composition import compose_front, is_composed
from codesign.enumeration.enumerate import EnumerationProgress, Rebuild, enumerate_front
from codesign.enumeration.front import ExactFront
from codesign.files import replacing
from codesign.problem import Problem

_COUNTS = ("n_designs", "n_evaluated", "n_repeated", "n_excluded", "n_failed")
_ARRAYS = ("objectives", "counts", "rows", "point")
_CODE = (
    "columns.py",
    "problem.py",
    "pareto.py",
    "deployments",
    "enumeration",
    "evaluators",
    "hardware",
    "memtech",
    "space",
    "workload",
)
"""Where a change may change a front."""


def exact_front(
    problem: Problem,
    folder: Path,
    *,
    workers: int = 1,
    rebuild: Rebuild | None = None,
    progress: EnumerationProgress | None = None,
) -> ExactFront:
    """The exact front of a problem: from its file in the folder, or computed and stored there.

    Interrupted, it goes on from where it was. Arguments and errors as in
    :func:`~codesign.enumeration.enumerate.enumerate_front`.
    """
    known = stored_front(problem, folder)
    if known is not None:
        return known
    path = front_path(problem, folder)
    if is_composed(problem):
        of_pool = partial(_front_of_pool, folder, workers, progress)
        front = compose_front(problem, of_pool, rebuild)
    else:
        front = enumerate_front(
            problem,
            workers=workers,
            rebuild=rebuild,
            checkpoint=path.with_suffix(".part"),
            progress=progress,
        )
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        arrays: dict[str, Any] = {name: getattr(front, name) for name in _ARRAYS}
        # As text: designs of systems are more than 64 bits can count.
        counts = np.array([str(getattr(front, name)) for name in _COUNTS])
        provenance = np.frombuffer(_provenance(problem).encode(), dtype=np.uint8)
        np.savez_compressed(file, sizes=counts, provenance=provenance, **arrays)
    return front


def _front_of_pool(
    folder: Path,
    workers: int,
    progress: EnumerationProgress | None,
    problem: Problem,
    rebuild: Rebuild | None,
) -> ExactFront:
    return exact_front(problem, folder, workers=workers, rebuild=rebuild, progress=progress)


def stored_front(problem: Problem, folder: Path) -> ExactFront | None:
    """The exact front if the folder has it; a file that cannot be read does not count."""
    data = read_arrays(front_path(problem, folder))
    try:
        if data is None:
            return None
        counts: dict[str, Any] = dict(zip(_COUNTS, map(int, data["sizes"].tolist()), strict=True))
        arrays: dict[str, Any] = {name: data[name] for name in _ARRAYS}
        return ExactFront(**arrays, **counts)
    except (ValueError, KeyError):
        return None


def front_path(problem: Problem, folder: Path) -> Path:
    """The file of a problem's front."""
    digest = hashlib.sha256(_provenance(problem).encode()).hexdigest()
    return folder / f"exact-{digest[:16]}.npz"


def _provenance(problem: Problem) -> str:
    """All that a front depends on, as one text."""
    data = {
        "problem": problem.provenance(),
        "versions": {"codesign": codesign.__version__, "numpy": np.__version__},
        "code": _code_digest(),
    }
    return json.dumps(data, sort_keys=True, default=str)


@cache
def _code_digest() -> str:
    root = Path(codesign.__file__).parent
    digest = hashlib.sha256()
    for name in _CODE:
        place = root / name
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
