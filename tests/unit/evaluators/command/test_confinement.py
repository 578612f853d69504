"""A program that nobody trusts sees its folder, and nothing of its caller."""

import json
import shutil
import subprocess
import sys

import pytest

from codesign.base.errors import InputError
from codesign.evaluators.command import confinement
from codesign.evaluators.command.program import run_program

ATTACK = """\
import json, os, socket, sys
seen = {"variables": sorted(os.environ), "home": None, "network": None, "written": None}
try:
    seen["home"] = os.listdir(sys.argv[1])
except OSError as error:
    seen["home"] = error.strerror
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2)
    seen["network"] = "reached"
except OSError as error:
    seen["network"] = error.strerror
for path in (sys.argv[1] + "/mark", sys.prefix + "/mark", "/usr/mark"):
    try:
        open(path, "w")
        seen["written"] = path
    except OSError:
        pass
seen["processes"] = sum(name.isdigit() for name in os.listdir("/proc"))
print(json.dumps(seen))
open("mine", "w").write("x")
"""


@pytest.fixture
def confined(monkeypatch):
    monkeypatch.setenv(confinement.UNTRUSTED, "1")
    try:
        confinement.check_confinement()
    except InputError as error:
        pytest.skip(str(error))


def test_a_confined_program_has_its_folder_alone(confined, monkeypatch, tmp_path):
    import socket

    monkeypatch.setenv("SECRET_TOKEN", "x")
    private, place = tmp_path / "private", tmp_path / "design"
    for folder in (private, place):
        folder.mkdir()
    (private / "key").touch()
    (place / "attack.py").write_text(ATTACK)
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [
            sys.executable,
            "-I",
            "-S",
            "attack.py",
            str(private),
            str(server.getsockname()[1]),
        ]
        done = run_program(words, place, {"STATED": "1"})
    assert done.code == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["home"] == "No such file or directory"
    assert seen["network"] != "reached"
    assert seen["written"] is None
    assert {"PATH", "HOME", "STATED"} <= set(seen["variables"]) <= {
        "PATH", "HOME", "STATED", "PWD", "LC_CTYPE",
    }  # fmt: skip
    assert seen["processes"] <= 3
    assert (place / "mine").read_text() == "x"
    assert not (private / "mark").exists()


def test_an_untrusted_campaign_hands_no_file_from_elsewhere_to_its_program(monkeypatch, tmp_path):
    monkeypatch.setenv(confinement.UNTRUSTED, "1")
    monkeypatch.chdir(tmp_path)
    confinement.check_within("program.py")
    for path in ("/etc/passwd", "../key"):
        with pytest.raises(InputError, match="expected a file below the working folder"):
            confinement.check_within(path)


def test_without_bubblewrap_an_untrusted_campaign_is_refused(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="--untrusted: expected the program bwrap"):
        confinement.check_confinement()
    monkeypatch.undo()
    refusal = subprocess.CompletedProcess([], 1, "", "No permissions to create a namespace\n")
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/bwrap")
    monkeypatch.setattr(subprocess, "run", lambda *words, **settings: refusal)
    with pytest.raises(InputError, match="cannot confine programs here: No permissions"):
        confinement.check_confinement()


def test_a_program_has_a_stated_list_of_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("LC_TIME", "C")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    done = run_program([sys.executable, "-I", "-S", "-c", code], tmp_path, {"LM_LICENSE_FILE": "a"})
    variables = json.loads(done.stdout)
    assert "SECRET_TOKEN" not in variables
    assert {"PATH", "LC_TIME", "LM_LICENSE_FILE"} <= variables.keys()
