"""Build wheel and sdist, and run both in clean environments: ``python -m tests.gate.package``.

Each Python that the machine offers gets an environment with the package and what it needs, no tool
of development. There the smallest campaign runs from an empty folder; then, with pytest added, the
unit tests of the core run against the installed package. The sdist is tried with one Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OLDEST = (3, 11)
CORE = ["tests/unit/space", "tests/unit/search/test_pareto.py"]
CORE += [f"tests/unit/models/{name}" for name in ("memtech", "hardware")]
"""Tests that need no optional part of the package."""
_TOOLS = ["pytest", "pytest-xdist", "pytest-timeout", "hypothesis", "jsonschema", "pint"]
_VERSION = "import sys; print(sys.version_info[0], sys.version_info[1], sys.version_info[2])"


def pythons() -> dict[tuple[int, ...], Path]:
    """The newest interpreter of each minor version: on the path, of pyenv, of uv."""
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    candidates = [Path(sys.executable), *pyenv.glob("versions/*/bin/python3")]
    candidates += (home / ".local/share/uv/python").glob("*/bin/python3")
    for folder in os.environ["PATH"].split(os.pathsep):
        candidates += Path(folder).glob("python3.[0-9][0-9]")
    newest: dict[tuple[int, ...], tuple[tuple[int, ...], Path]] = {}
    for path in candidates:
        run = subprocess.run([path, "-c", _VERSION], capture_output=True, text=True, check=False)
        version = tuple(map(int, run.stdout.split())) if run.returncode == 0 else ()
        if version >= OLDEST:
            newest[version[:2]] = max(newest.get(version[:2], (version, path)), (version, path))
    return {version: path for _, (version, path) in sorted(newest.items())}


def _call(*words: str | Path, folder: Path) -> None:
    """Run a command without what the caller's environment says of Python."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        )


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist; hatchling is installed, so nothing is fetched."""
    for target in ("wheel", "sdist"):
        _call(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder, folder=ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def try_package(python: Path, package: Path, folder: Path) -> Path:
    """Install a package into a new environment and run the smallest campaign; its interpreter."""
    _call(python, "-m", "venv", folder / "environment", folder=folder)
    inside = folder / "environment" / "bin" / "python"
    install(inside, package, folder=folder)
    empty = folder / "empty"
    empty.mkdir()
    codesign = inside.with_name("codesign")
    for words in (
        ["run", "smoke"],
        ["status", "front", "smoke"],
        ["export", "smoke", "--output", "a.csv"],
    ):
        _call(codesign, *words, folder=empty)
    return inside


def install(python: Path, *packages: str | Path, folder: Path) -> None:
    """Install packages at the versions that were tested together."""
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _call(python, *pip, "--constraint", ROOT / "constraints.txt", *packages, folder=folder)


def test_core(python: Path, folder: Path) -> None:
    """Run the unit tests of the core beside no source: they meet the installed package."""
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in ("spaces", "memtech", "runs"):
        shutil.copytree(ROOT / name, folder / name)
    install(python, *_TOOLS, folder=folder)
    _call(python, "-m", "pytest", *CORE, folder=folder)


def main() -> int:
    """Try the wheel with each Python and the sdist with the first; the exit code."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        wheel, sdist = build(top)
        for number, (version, python) in enumerate(pythons().items()):
            words = ".".join(map(str, version))
            for package in (wheel, sdist)[: 2 if number == 0 else 1]:
                folder = top / f"{words}-{package.suffix}"
                folder.mkdir()
                inside = try_package(python, package, folder)
                print(f"Python {words}: {package.name} runs a campaign", flush=True)
            test_core(inside, folder)
            print(f"Python {words}: unit tests of the core pass", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
