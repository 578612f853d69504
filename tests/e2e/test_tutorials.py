"""Every command of the tutorials runs, in order, in an empty folder, and prints what they show.

So do those of how-to pages, which start with the files of the tutorials that they link to. A block
with ``title="PATH"`` is a file that the reader writes. In a ``console`` block, a line after ``$``
is a command and what follows is its output, in which ``...`` stands for anything and a run of
spaces and line ends is one space. Of a command that fails, the output is its error.
"""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from codesign.cli import main
from validation.__main__ import main as run_validation

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
HOW_TO = FOLDER.parent / "how-to"
BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<path>[^"]+)")?\n(?P<text>.*?)^```', re.M | re.S
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def commands(text):
    """Each command of a console block with the output that the page shows."""
    for command, output in COMMAND.findall(text):
        yield command.replace("\\\n", " "), output


def run(command, expected, capsys):
    words = shlex.split(command, comments=True)
    is_validation = words[:3] == ["python", "-m", "validation"]
    assert is_validation or words[0] == "codesign", f"only codesign is run here: {command}"
    capsys.readouterr()
    code = run_validation(words[3:]) if is_validation else main(words[1:])
    output, errors = capsys.readouterr()
    printed = output if code == 0 else errors
    assert code == 0 or "error:" in expected, f"{command}\n{errors}"
    if expected:
        checker, example = doctest.OutputChecker(), doctest.Example(command, expected)
        message = f"{command}\n" + checker.output_difference(example, printed, doctest.ELLIPSIS)
        assert checker.check_output(expected, printed, LENIENT), message


def follow(page, capsys):
    """Do in the working folder what a page says; without ``capsys`` only write its files."""
    n_commands = 0
    for block in BLOCK.finditer(page.read_text("utf-8")):
        if block["path"]:
            file = Path(block["path"])
            file.parent.mkdir(exist_ok=True)
            file.write_text(block["text"], encoding="utf-8")
        elif block["kind"] == "console" and capsys is not None:
            for command, expected in commands(block["text"]):
                run(command, expected, capsys)
                n_commands += 1
    assert n_commands or capsys is None, "the page has no console block with a prompt"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_the_commands_of_a_tutorial_print_what_it_shows(page, capsys):
    follow(page, capsys)


@pytest.mark.parametrize(
    "name",
    ["size-a-deployment", pytest.param("planned-memories", marks=pytest.mark.slow)],
)
def test_the_commands_of_a_how_to_page_print_what_it_shows(name, capsys):
    page = HOW_TO / f"{name}.md"
    for link in re.findall(r"\.\./tutorials/([\w-]+\.md)", page.read_text("utf-8")):
        follow(FOLDER / link, None)
    follow(page, capsys)


def test_there_are_the_five_tutorials():
    names = {page.stem for page in FOLDER.glob("*.md")}
    assert names == {"first-answer", "my-model", "my-memory", "my-limit", "is-it-true"}


def test_an_output_that_is_wrong_is_noticed(capsys):
    with pytest.raises(AssertionError, match="codesign --version"):
        run("codesign --version", "codesign 99\n", capsys)


def test_the_notebook_runs_and_shows_figures_and_tables(tmp_path):
    import nbformat  # here and not in each process that lists the tests
    from nbclient import NotebookClient

    notebook = nbformat.read(FOLDER / "notebook.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [cell.outputs[-1].data for cell in notebook.cells if cell.get("outputs")]
    assert ["image/svg+xml" in data for data in shown] == [False, False, True, False, False]
    assert all("<table" in data["text/html"] for data in shown if "text/html" in data)
    assert "tdp_watts <= 600" in (tmp_path / "runs" / "smoke" / "smoke.yaml").read_text("utf-8")
