"""Every command of the tutorials runs, in order, in an empty folder, and prints what they show.

A block with ``title="PATH"`` is a file that the reader writes. In a ``console`` block, a line after
``$`` is a command and what follows is its output, in which ``...`` stands for anything and a run of
spaces and line ends is one space. Of a command that fails, the output is its error.
"""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from codesign.cli import main

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<path>[^"]+)")?\n(?P<text>.*?)^```', re.M | re.S
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block with the output that the page shows."""
    for command, output in COMMAND.findall(text):
        yield command.replace("\\\n", " "), output


def run(command: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *arguments = shlex.split(command, comments=True)
    assert program == "codesign", f"only codesign is run here: {command}"
    capsys.readouterr()
    code = main(arguments)
    output, errors = capsys.readouterr()
    printed = output if code == 0 else errors
    assert code == 0 or "error:" in expected, f"{command}\n{errors}"
    if expected:
        checker, example = doctest.OutputChecker(), doctest.Example(command, expected)
        message = f"{command}\n" + checker.output_difference(example, printed, doctest.ELLIPSIS)
        assert checker.check_output(expected, printed, LENIENT), message


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_the_commands_of_a_tutorial_print_what_it_shows(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    n_commands = 0
    for block in BLOCK.finditer(page.read_text("utf-8")):
        if block["path"]:
            file = tmp_path / block["path"]
            file.parent.mkdir(exist_ok=True)
            file.write_text(block["text"], encoding="utf-8")
        elif block["kind"] == "console":
            for command, expected in commands(block["text"]):
                run(command, expected, capsys)
                n_commands += 1
    assert n_commands > 1, "the page has no console block with a prompt"


def test_there_are_the_five_tutorials() -> None:
    names = {page.stem for page in FOLDER.glob("*.md")}
    assert names == {"first-answer", "my-model", "my-memory", "my-limit", "is-it-true"}


def test_an_output_that_is_wrong_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="codesign --version"):
        run("codesign --version", "codesign 99\n", capsys)
