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
    smoke = (ROOT / "runs" / "smoke.yaml").read_text("utf-8")
    few = {"initial: 8": "initial: 4", "budget: 24": "budget: 6", "seeds: 2": "seeds: 1"}
    for line, shorter in few.items():
        assert line in smoke
        smoke = smoke.replace(line, shorter)
    (tmp_path / "small.yaml").write_text(smoke.replace("name: smoke", "name: small"), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_POSIX,
         "run small.yaml", "report small.yaml --samples 0"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "small" / "report.html").exists()
