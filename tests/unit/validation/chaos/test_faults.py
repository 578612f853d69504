"""Whichever call of the system fails, a command ends in one line, and run again it is the same."""

import json
import shutil
import subprocess
import sys

import pytest


def findings_of(*words):
    if sys.platform != "linux" or not shutil.which("cc"):
        pytest.skip("there is no C compiler for Linux here")
    command = [sys.executable, "-m", "validation.chaos.faults", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_a_call_that_fails_is_one_line_and_loses_nothing():
    assert findings_of("--command", "enumerate", "--share", "0.001") == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "enumerate", "compare", "quantize", "report", "export"])
def test_whichever_call_fails_nothing_is_lost(command):
    assert findings_of("--command", command, "--share", "0.05") == []
