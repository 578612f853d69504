"""Environments of the simulators of others, one each, in the user's cache folder.

They want other versions of libraries, or of Python, than we do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from codesign.base.columns import IntegerPair, StringList, StringTuple
from codesign.base.errors import InputError, JobError, check_known
from codesign.base.records import frozen
from codesign.base.resources import user_cache

_NEWER_PYTHON = "CODESIGN_PYTHON312"


@frozen
class InstallableSimulator:
    """A simulator that codesign can install.

    Attributes:
        requirements: As the extra of the same purpose has them.
        least_python: Oldest version of Python that it runs on.
        campaign: A shipped campaign that runs it.
    """

    title: str
    requirements: StringTuple
    least_python: IntegerPair
    campaign: str


SIMULATORS = {
    "scalesim": InstallableSimulator(
        "SCALE-Sim", ("scalesim>=3,<4", "numpy<2.4"), (3, 11), "scalesim-prefill"
    ),
    "accelforge": InstallableSimulator(
        "AccelForge", ("accelforge>=1.0.467,<2",), (3, 12), "accelforge-prefill"
    ),
}


def folder_of(name: str) -> Path:
    """The environment's folder.

    Raises:
        UnknownNameError: There is no such simulator.
    """
    check_known("simulator", name, SIMULATORS)
    return user_cache() / "simulators" / name


def is_installed(name: str) -> bool:
    """Whether the simulator's environment is complete."""
    return (folder_of(name) / "ready").exists()


def interpreter_of(name: str) -> Path:
    """The Python that has the simulator.

    Raises:
        InputError: It is not installed.
    """
    if not is_installed(name):
        title = SIMULATORS[name].title
        raise InputError(
            f"{title} is not installed; 'codesign list simulators {name} --install' installs it"
        )
    return folder_of(name) / "bin" / "python"


def run_with(name: str, program: Path, *arguments: str, folder: Path | None = None) -> Any:
    """Answer of a program as JSON in the last line of its output, run by a simulator's Python.

    Args:
        folder: In which it runs; the working folder if None.

    Raises:
        InputError: The simulator is not installed.
        JobError: The program fails.
    """
    # Isolated, as our modules are next to the program.
    command = [str(interpreter_of(name)), "-I", "-W", "ignore", str(program), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    except OSError as error:
        raise JobError(f"{SIMULATORS[name].title} cannot be run: {error}") from error
    sys.stderr.write(done.stderr)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise JobError(f"{SIMULATORS[name].title} failed: {last}")
    return json.loads(lines[-1])


def install(name: str) -> Path:
    """Make the simulator's environment anew; returns its Python.

    Raises:
        InputError: There is no such simulator, or no Python that is new enough.
        JobError: It cannot be installed.
    """
    folder = folder_of(name)
    simulator = SIMULATORS[name]
    python = _python(simulator)
    (folder / "ready").unlink(missing_ok=True)
    _call([python, "-m", "venv", "--clear", str(folder)], simulator)
    interpreter = folder / "bin" / "python"
    _call([str(interpreter), "-m", "pip", "install", "--quiet", *simulator.requirements], simulator)
    (folder / "ready").touch()
    return interpreter


def _python(simulator: InstallableSimulator) -> str:
    least = simulator.least_python
    for python in _candidates():
        # What is on the path may be a stand-in that only says that nothing is chosen.
        ask = [python, "-c", f"import sys, venv; sys.exit(sys.version_info < {least})"]
        try:
            if subprocess.run(ask, capture_output=True, check=False).returncode == 0:
                return python
        except OSError:
            continue
    raise InputError(
        f"{simulator.title} needs Python {least[0]}.{least[1]} or later: name one in "
        f"{_NEWER_PYTHON}, such as {_NEWER_PYTHON}=/usr/bin/python3.12"
    )


def _candidates() -> Iterator[str]:
    """Interpreters, ours first."""
    yield sys.executable
    if named := os.environ.get(_NEWER_PYTHON):
        yield named
    for minor in range(12, 16):
        if path := shutil.which(f"python3.{minor}"):
            yield path
    with suppress(RuntimeError):  # a user without a home folder
        yield from map(str, sorted(Path.home().glob(".pyenv/versions/3.1[2-9].*/bin/python")))


def _call(command: StringList, simulator: InstallableSimulator) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise JobError(f"{simulator.title} cannot be installed: {error}") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise JobError(f"{simulator.title} cannot be installed: {' '.join(last)}")
