"""The examples in the documentation of the code are run, and give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import codesign

ROOT = Path(codesign.__file__).parent


def modules_with_examples():
    """Only these are imported, so that the rest of the package costs nothing here."""
    paths = [path for path in sorted(ROOT.rglob("*.py")) if ">>> " in path.read_text("utf-8")]
    dotted = [
        ".".join(("codesign", *path.relative_to(ROOT).with_suffix("").parts)) for path in paths
    ]
    return [name.removesuffix(".__init__") for name in dotted]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_give_what_they_say(name, capsys):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0, capsys.readouterr().out
    assert result.attempted > 0, f"{name} has a prompt in a place where doctest does not look"


def test_no_example_is_skipped():
    skipped = [name for name in modules_with_examples() if "+SKIP" in source_of(name)]
    assert not skipped


def source_of(name):
    file = importlib.import_module(name).__file__
    assert file is not None
    return Path(file).read_text("utf-8")


def test_an_example_that_is_wrong_is_noticed():
    parser = doctest.DocTestParser()
    wrong = parser.get_doctest(">>> 1 + 1\n3\n", {}, "planted", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda _: None).failed == 1
