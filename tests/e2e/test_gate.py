"""Each line of ``make test`` fails on the faults that it is there for.

The faults are planted in a copy of the repository, where the line runs as make prints it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Fault:
    """A text at the end of a file that may be new, or in place of another text."""

    path: str
    text: str
    message: str
    """A pattern in what the line prints about it."""
    instead_of: str = ""

    def plant(self, tree):
        """Write the fault."""
        path = tree / self.path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        assert self.instead_of in text
        changed = (
            text.replace(self.instead_of, self.text, 1) if self.instead_of else text + self.text
        )
        path.write_text(changed, encoding="utf-8")


FAULTS = {
    "ruff format": [Fault("codesign/api.py", "\n\n\n\n\nX = {  'a':1 }\n", "api.py")],
    "ruff check": [Fault("codesign/api.py", "\nimport this\n", "F401")],
    "codespell": [Fault("docs/trust.md", "\nIt is reci" + "eved.\n", "==> received")],
    "actionlint": [Fault(".github/workflows/gate.yml", "runs_on:", "runs_on", "runs-on:")],
    "bin/mypy": [Fault("codesign/search/pareto.py", "\nX: int = 'text'\n", "Incompatible types")],
    "lint-imports": [
        Fault("codesign/base/units.py", "\nfrom codesign import api\n", "not allowed to import"),
        Fault("codesign/search/pareto.py", "\nfrom codesign import models\n", "not allowed"),
        Fault("codesign/stray.py", '"""A module of no layer."""\n', "stray"),
    ],
    "tests.gate.house": [
        Fault("CHANGELOG.md", "word " * 5000, "beyond their limit: words of the changelog"),
    ],
    "mkdocs": [
        Fault("docs/trust.md", "\n[a page](missing.md)\n", "missing.md"),
        Fault("docs/trust.md", "\n[a heading](npu.md#missing)\n", "#missing"),
        Fault("docs/stray.md", "# A page of no navigation\n", "stray.md"),
    ],
    "codesign run smoke": [Fault("runs/smoke.yaml", "space: memexplore", "unknown", "space: mem")],
    "tests.gate.package": [Fault("pyproject.toml", '"/none/*.yaml"', "smoke", '"/runs/*.yaml"')],
    "bin/pytest": [Fault("tests/unit/test_planted.py", "def test_planted(): 1 / 0\n", "1 failed")],
}  # fmt: skip
"""Faults of each line of the gate, by words that stand in this line only."""
CASES = [(words, fault) for words, faults in FAULTS.items() for fault in faults]


def lines_of_the_gate(tree):
    """Commands of ``make test``, as make prints them."""
    command = ["make", "--dry-run", "--assume-old=.venv/.ready", "test"]
    run = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if not line.startswith("make")]


def test_every_line_of_the_gate_has_a_fault_that_it_must_find():
    lines = lines_of_the_gate(ROOT)
    assert len(lines) == len(FAULTS)
    for words in FAULTS:
        assert sum(words in line for line in lines) == 1, words


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The repository's files, with the environment and mypy's cache of the checkout."""
    tree = tmp_path_factory.mktemp("copy")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(lambda name: name and (ROOT / name).is_file(), listed):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)  # actionlint looks for it
    (tree / ".venv").symlink_to(sys.prefix)
    if (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", tree / ".mypy_cache")
    return tree


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "fault"), CASES, ids=[f"{words}: {fault.path}" for words, fault in CASES]
)
def test_a_line_of_the_gate_fails_on_its_fault(words, fault, copy):
    (line,) = (line for line in lines_of_the_gate(copy) if words in line)
    before = (copy / fault.path).read_bytes() if (copy / fault.path).exists() else None
    # pytest alone would run all tests: it must collect the planted one by itself.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTEST_ADDOPTS": "-k test_planted"}
    try:
        fault.plant(copy)
        run = subprocess.run(
            ["sh", "-c", line],
            cwd=copy, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        (copy / fault.path).unlink()
        if before is not None:
            (copy / fault.path).write_bytes(before)
    assert run.returncode != 0, line
    assert re.search(fault.message, run.stdout + run.stderr), run.stdout + run.stderr
