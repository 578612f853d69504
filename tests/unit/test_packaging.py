"""The pins name what was tested, with hashes; the package runs where POSIX modules are missing."""

import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT_POSIX = """
import os, sys
sys.modules |= dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios"))
for name in ("killpg", "memfd_create", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
from codesign.cli import main
sys.exit(any(main(words.split()) for words in sys.argv[1:]))
"""
SMALL = """
space: zdt
evaluator: {name: benchmark-functions, function: zdt1}
objectives: [minimize f1, minimize f2]
reference_point: {f1: 1.1, f2: 11}
optimizers: [pls, random]
initial: 4
budget: 6
workers: 2
"""


def pins(file):
    """Version by name of a file of requirements."""
    listed = re.findall(r"^([\w.-]+)==([^ \n]+)", (ROOT / file).read_text(), re.M)
    return {name.lower().replace("_", "-"): version for name, version in listed}


def test_every_pin_has_a_hash():
    assert pins("constraints.txt").items() <= pins(".ci/requirements.txt").items()


def test_every_package_without_a_permissive_licence_is_named_to_contributors():
    text, names = (ROOT / "docs" / "contributing.md").read_text(), pins("constraints.txt")
    for package in distributions():
        words = (
            package.metadata.get_all("Classifier", []),
            package.metadata.get("License-Expression"),
        )
        if package.name in names and re.search(r"\bL?GPL|\bMPL", str(words)):
            assert f"`{package.name}`" in text


@pytest.mark.timeout(300)
def test_a_python_without_posix_modules_searches_and_reports(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_POSIX,
         "run small.yaml", "report small.yaml --samples 0"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "small" / "report.html").exists()
