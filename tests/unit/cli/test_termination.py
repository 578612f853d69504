"""SIGTERM arrives, wherever Python drops what its handler raises."""

import importlib
import os
import signal
import time

import pytest

from codesign.cli.termination import is_termination, stopped_by_sigterm


def test_a_signal_that_comes_during_an_import_waits_for_its_end(tmp_path, monkeypatch):
    """Extension modules drop exceptions while they are imported, as this one does."""
    (tmp_path / "dropping.py").write_text(
        "import os, signal\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    ended = True\n"
        "except BaseException:\n"
        "    ended = False\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    imported = []
    with pytest.raises(KeyboardInterrupt) as caught, stopped_by_sigterm():
        imported.append(importlib.import_module("dropping"))
        time.sleep(60)
    assert imported[0].ended
    assert is_termination(caught.value)


class SignalledWhenItGoes:
    """Python drops what is raised while an object is finalized, as in other callbacks."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)  # where the handler runs


def test_a_signal_that_comes_in_a_callback_comes_again():
    reached = []
    with pytest.raises(KeyboardInterrupt) as caught, stopped_by_sigterm():
        SignalledWhenItGoes()
        reached.append("the line after it")
        time.sleep(60)
    assert reached
    assert is_termination(caught.value)
