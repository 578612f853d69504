"""What packages register is read once, and found wherever it was installed in the meantime."""

import sys

import pytest

from codesign.base import plugins
from codesign.base.errors import UnknownNameError


def _install(site):
    """A package that registers ``codesign.base.plugins:names`` as an export format of its own."""
    folder = site / "late-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Name: late\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[codesign.exports]\nlate = codesign.base.plugins:names\n"
    )


def test_a_package_that_is_installed_after_the_first_look_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnknownNameError, match="unknown export 'late'"):
        plugins.load("exports", "late")
    _install(tmp_path)
    assert plugins.load("exports", "late") is plugins.names
    assert plugins.distribution("exports", "late") == "late 1.0"


def test_a_folder_that_is_taken_off_the_search_path_registers_nothing(tmp_path, monkeypatch):
    _install(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert "late" in plugins.names("exports")
    monkeypatch.undo()
    assert "late" not in plugins.names("exports")


def test_packages_are_read_once_for_all_names(monkeypatch):
    plugins.names("exports")
    monkeypatch.setattr(plugins, "entry_points", None)
    for group in ("evaluators", "optimizers"):
        for name in plugins.names(group):
            plugins.load(group, name)
