"""Records whose fields are flags of a command."""

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from codesign.cli.flag_records import (
    filled_keys,
    flag,
    flag_names,
    set_flags,
    spread,
    token_flag,
)

Size = Annotated[int, typer.Option("--size", help="Of the box.")]


@dataclass(frozen=True)
class Box:
    size: Size = 3
    prompt: int | None = token_flag("Tokens.", key="prompt_tokens")
    price: float | None = flag("Dollars.", None, "--cost", key="price_usd")
    is_open: bool = flag("Open.", False, "--open", key="")


@dataclass(frozen=True)
class Required:
    model: Annotated[str, typer.Option(help="A model.")]


def _run(*arguments):
    received = []

    def command(*, first: str = "x", box: Box, required: Required):
        """Take a box.

        Args:
            first: What comes
                first.
        """
        received.append((first, box, required))

    app = typer.Typer(rich_markup_mode=None)
    app.command()(spread(command))
    return CliRunner().invoke(app, list(arguments)), received


def test_a_command_receives_its_records_filled_by_flags():
    arguments = ("--model", "m", "--prompt", "2K", "--cost", "1.5", "--open", "--size", "4")
    outcome, received = _run(*arguments)
    assert outcome.exit_code == 0, outcome.output
    assert received == [("x", Box(4, 2048, 1.5, True), Required("m"))]


def test_flags_that_are_left_out_have_the_defaults_of_the_record():
    assert _run("--model", "m")[1] == [("x", Box(), Required("m"))]


def test_flags_stand_in_the_help_where_their_record_stood():
    text = _run("--help")[0].output
    names = ("--first", "--size", "--prompt", "--cost", "--open", "--model")
    places = list(map(text.index, names))
    assert places == sorted(places)
    assert "N|32K" in text
    assert "What comes first." in text
    assert "Args" not in text


def test_a_flag_without_a_default_must_be_there():
    outcome, received = _run()
    assert outcome.exit_code == 2
    assert not received


def test_keys_are_those_of_the_flags_that_are_set():
    box = Box(prompt=5, is_open=True)
    assert filled_keys(box) == {"size": 3, "prompt_tokens": 5}
    assert flag_names(Box) == {
        "size": "--size",
        "prompt_tokens": "--prompt",
        "price_usd": "--cost",
    }
    assert set_flags(box) == ["--prompt", "--open"]


def test_two_records_with_the_same_flag_are_refused():
    def command(*, box: Box, again: Box) -> None:
        """Never called."""

    with pytest.raises(ValueError, match="duplicate parameter name"):
        spread(command)


@dataclass(frozen=True)
class Engine:
    """Options that are defined once."""

    most_steps: int = 2048
    """Steps; ``policy`` cuts
    them."""
    policy: str = "slow"
    """``slow`` or ``fast``."""
    price: float | None = None
    """Dollars, if any."""
    is_open: bool = False
    """Whether it is open."""


@dataclass(frozen=True)
class EngineFlags:
    record: ClassVar[str] = f"{__name__}:Engine"
    steps: int | None = token_flag("", key="most_steps")
    policy: str | None = flag("", None, "--rule")
    price: float | None = flag()
    is_open: bool | None = flag("", None, "--open")
    speed: int | None = flag("Its own.", 3, key="")


def test_the_help_of_an_option_is_what_its_record_says():
    def command(*, engine: EngineFlags) -> None:
        """Never called."""

    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(spread(command))
    output = CliRunner().invoke(app, ["--help"]).output
    texts = dict(re.findall(r"^ +(--\w+).*?  +(.*)$", output, re.MULTILINE))
    assert texts == {
        "--steps": "Steps; --rule cuts them. [2048]",
        "--rule": "slow or fast. [slow]",
        "--price": "Dollars, if any.",
        "--open": "Whether it is open.",
        "--speed": "Its own.  [default: 3]",
        "--help": "Show this message and exit.",
    }
