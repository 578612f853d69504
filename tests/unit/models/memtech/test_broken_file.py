"""A memory file with mistakes stops only what names it."""

from pathlib import Path

import pytest

from codesign.api import load_space
from codesign.base.errors import InputError
from codesign.models.memtech import load_library

SPACE = "parameters:\n  tier1_technology: {{from: memtech{}}}\n"


@pytest.fixture(autouse=True)
def half_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memtech").mkdir()
    (tmp_path / "memtech" / "mine.yaml").write_text("bandwidth: 1 TB/s\n")


def space(values):
    Path("one.yaml").write_text(SPACE.format(values))
    return load_space("one.yaml")


def test_a_space_of_other_memories_is_read():
    assert space(", values: [hbm4_12h]").size == 1
    assert "hbm4_12h" in load_library() and "mine" not in load_library()


@pytest.mark.parametrize("values", [", values: [hbm4_12h, mine]", ""])
def test_its_mistakes_are_told_where_it_is_named(values):
    with pytest.raises(InputError, match=r"mine\.yaml:1: capacity: the key is required"):
        space(values)


def test_a_library_gives_the_mistakes_of_a_memory_that_is_asked_for():
    with pytest.raises(InputError, match=r"mine\.yaml:1: capacity: the key is required"):
        load_library()["mine"]
