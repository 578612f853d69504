"""The pins name what was tested, with hashes; the package runs where POSIX modules are missing."""

import re
import subprocess
import sys
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
space: grid
evaluator: {name: benchmark-functions, function: zdt1, steps: 8}
objectives: [minimize f1, minimize f2]
reference_point: {f1: 1.1, f2: 11}
optimizers: [pls, random]
initial: 4
budget: 6
workers: 2
"""


def test_every_hashed_pin_is_the_tested_version():
    pins = dict(re.findall(r"^([\w.-]+)==([^ \n]+)", (ROOT / "constraints.txt").read_text(), re.M))
    hashed = re.findall(
        r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
        (ROOT / ".ci" / "requirements.txt").read_text(),
        re.M,
    )
    names = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    versions = {name: version for name, version, _ in hashed}
    assert {name: names.get(name, version) for name, version in versions.items()} == versions
    assert {"numpy", "torch", "filelock", "pytest"} <= set(versions)


@pytest.mark.timeout(300)
def test_a_python_without_posix_modules_searches_and_reports(tmp_path):
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "grid.yaml").write_text(
        "parameters: {x1: {low: 0, high: 8}, x2: {low: 0, high: 8, step: 4}}", encoding="utf-8"
    )
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_POSIX,
         "run small.yaml", "report small.yaml --samples 0"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "small" / "report.html").exists()
