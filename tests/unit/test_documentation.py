"""The README stays short, and the commands that pages show exist with their options."""

import re
from pathlib import Path

import pytest
import yaml

import codesign
from codesign.cli.app import command_tree

ROOT = Path(__file__).parents[2]
MOST_WORDS = 700
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?codesign (\S+)(.*)$", re.MULTILINE)
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


def test_the_readme_has_at_most_700_words_code_included():
    words = (ROOT / "README.md").read_text("utf-8").split()
    assert len(words) <= MOST_WORDS, "move something to docs/, to which the README links"


def test_the_readme_names_the_two_commands_and_shows_designs_and_a_system():
    text = (ROOT / "README.md").read_text("utf-8")
    for words in ("make demo", "make test", "each creates its own environment"):
        assert words in re.sub(r"\s+", " ", text)
    assert {"docs/images/recommended.png", "docs/images/system.png"} <= set(
        re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    )


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == codesign.__version__


def stale_commands(text):
    """What console blocks ask of the command line that it does not know."""
    commands = command_tree().commands
    for block in CONSOLE.findall(text):
        for name, arguments in COMMAND.findall(block.replace("\\\n", " ")):
            if name.startswith("--"):
                continue
            options = OPTION.findall(arguments.partition(" #")[0])
            second = f"{name} {arguments.split()[0] if arguments.split() else ''}"
            name = second if second in commands else name
            known = {
                option
                for parameter in (commands[name].params if name in commands else ())
                for option in (*parameter.opts, *parameter.secondary_opts, "--help")
            }
            if name not in commands or not known.issuperset(options):
                yield f"codesign {name} {' '.join(set(options) - known)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_exist_with_their_options(page):
    assert not list(stale_commands(page.read_text("utf-8")))


def test_a_stale_command_is_noticed():
    text = "```console\ncodesign run smoke \\\n    --quickly   # --json\ncodesign walk smoke\n```\n"
    assert list(stale_commands(text)) == ["codesign run --quickly", "codesign walk "]
