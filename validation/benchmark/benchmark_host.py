"""Host and versions of a benchmark."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import codesign
from codesign.base.columns import JsonObject
from codesign.base.processes import n_cores


def surroundings() -> JsonObject:
    """Versions, the commit if the package lies in a checkout, and the machine."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return {
        "version": codesign.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "numba": _version("numba"),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": (names[0] if names else platform.processor()),
        "cores": n_cores(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit that is checked out, with ``+`` if files differ from it."""
    folder = Path(codesign.__file__).parents[1]
    if not (folder / ".git").exists():
        return None
    try:
        commit = _git(folder, "rev-parse", "--short", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    ).stdout.strip()
