"""What the command writes to stderr beside its own words."""

import logging
import sys

import pytest

from codesign.cli.app import _PrintableFormatter


@pytest.fixture
def record():
    """What Parsl logs, and then goes on, when a scheduler does not answer."""
    try:
        raise TimeoutError("squeue\ntimed out")
    except TimeoutError:
        return logging.LogRecord(
            "parsl", logging.ERROR, "", 1, "Command failed:\nsqueue %s", ("7",), sys.exc_info()
        )


def test_an_error_that_a_library_goes_on_from_is_one_line(record):
    line = _PrintableFormatter().format(record)
    assert line == "ERROR: Command failed: squeue 7 (TimeoutError: squeue timed out)"


def test_its_traceback_is_shown_to_those_who_debug(record, monkeypatch):
    monkeypatch.setenv("CODESIGN_DEBUG", "1")
    assert "Traceback" in _PrintableFormatter().format(record)
