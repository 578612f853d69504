"""Whatever the environment lacks, a command ends with one line and the right exit code."""

import errno
import fcntl
import io
import json
import pwd
import subprocess
import sys

import pytest

from codesign.base.errors import InputError, StoreError
from codesign.base.locks import exclusive
from codesign.base.resources import user_cache
from codesign.base.text import ESCAPE
from codesign.cli.app import main


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        (">&-", 1, "error: standard output: is closed, so that the report is lost\n"),
        ("> /dev/full", 1, "error: standard output: No space left on device\n"),
        ("> /dev/full 2>&-", 1, ""),
        ("<&-", 0, ""),
    ],
)
def test_a_stream_that_takes_nothing_is_one_line(redirection, code, message):
    line = f'"{sys.executable}" -m codesign --version {redirection}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, message)


def test_a_stream_of_ascii_gets_escapes_that_json_has(capsys):
    text, content = "µ × 𝒳 \udcff", io.BytesIO()
    stream = io.TextIOWrapper(content, "ascii", errors=ESCAPE)
    print(json.dumps(text, ensure_ascii=False), file=stream, flush=True)
    assert json.loads(content.getvalue()) == text


def test_an_error_of_the_system_is_one_line_with_its_place(capsys, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.EIO, "Input/output error", "runs/a")

    monkeypatch.setattr("codesign.cli.app._run", fail)
    assert main(["models"]) == 1
    assert capsys.readouterr().err == "error: runs/a: Input/output error\n"


def test_a_user_without_a_home_folder_is_told_what_to_state(monkeypatch):
    def unknown(number):
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(InputError, match="XDG_CACHE_HOME: expected a folder for caches"):
        user_cache()


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(StoreError, match="lock: cannot be locked: No locks available"),
        exclusive(tmp_path / "lock"),
    ):
        raise AssertionError("not reached")
