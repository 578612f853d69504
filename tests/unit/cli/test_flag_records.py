"""Records whose fields are flags of a command."""

import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, get_args

import pytest
import typer
from typer.testing import CliRunner

from codesign.cli.economics_flags import DraftFlags, OwnershipFlags, PromptFlags, RuleFlags
from codesign.cli.flag_records import (
    filled_keys,
    flag,
    flag_names,
    set_flags,
    spread,
    token_flag,
)
from codesign.cli.fleet_flags import EngineFlags
from codesign.cli.forecast import BatchFlags, SoftwareFlags
from codesign.cli.platform_flags import PassFlags
from codesign.deployments.queueing import EngineLimits
from codesign.evaluators.economics.economics_options import EconomicsOptions, EconomicsWorkload
from codesign.evaluators.economics.shape import Profile
from codesign.evaluators.forecast.forecast_options import ForecastOptions, ForecastRequest
from codesign.evaluators.platform import PlatformRequest

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

    def command(*, first: Annotated[str, typer.Option()] = "x", box: Box, required: Required):
        received.append((first, box, required))

    app = typer.Typer(rich_markup_mode=None)
    app.command()(spread(command))
    outcome = CliRunner().invoke(app, list(arguments))
    return outcome, received


def test_a_command_receives_its_records_filled_by_flags():
    arguments = ("--model", "m", "--prompt", "2K", "--cost", "1.5", "--open", "--size", "4")
    outcome, received = _run(*arguments)
    assert outcome.exit_code == 0, outcome.output
    assert received == [("x", Box(4, 2048, 1.5, True), Required("m"))]


def test_flags_that_are_left_out_have_the_defaults_of_the_record():
    assert _run("--model", "m")[1] == [("x", Box(), Required("m"))]


def test_flags_stand_in_the_help_where_their_record_stood():
    text = _run("--help")[0].output
    flags = ["--first", "--size", "--prompt", "--cost", "--open", "--model"]
    places = [text.index(name) for name in flags]
    assert places == sorted(places)
    assert "N|32K" in text


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


def _default(record, key):
    if is_dataclass(record):
        return next((item.default for item in fields(record) if item.name == key), None)
    return record.model_fields[key].default if key in record.model_fields else None


ALLOWED = {"plans_ahead", "variant"}
"""A fleet plans ahead unless it is told not to; the default variant is named by its formats."""


@pytest.mark.parametrize(
    ("flags", "record"),
    [
        (DraftFlags, EconomicsWorkload),
        (PromptFlags, EconomicsWorkload),
        (OwnershipFlags, EconomicsOptions),
        (EngineFlags, EngineLimits),
        (BatchFlags, ForecastRequest),
        (SoftwareFlags, ForecastOptions),
        (PassFlags, PlatformRequest),
    ],
)
def test_a_flag_says_the_default_of_the_option_that_it_fills(flags, record):
    """The records take long to import, so that ``--help`` cannot ask them."""
    compared = 0
    for item in fields(flags):
        key = item.metadata["key"] or item.name
        default = _default(record, key)
        if default is None or key in ALLOWED:
            continue
        bracketed = re.search(r"\[(.*)\]$", item.metadata["settings"]["help"])
        stated = bracketed[1] if item.default is None and bracketed else item.default
        if isinstance(default, float):
            stated = float(str(stated).split()[0])
        assert stated == default, key
        compared += 1
    assert compared


def test_the_help_of_economics_names_the_options_and_profiles_that_there_are():
    texts = {item.name: item.metadata["settings"]["help"] for item in fields(RuleFlags)}
    options = re.findall(r"\w+", texts["option"].removeprefix("Repeatable: "))
    assert options and set(options) <= EconomicsOptions.model_fields.keys()
    assert set(re.findall(r"(\w+) \(", texts["profile"])) == {"fitted", *get_args(Profile)}
    assert f"; {EconomicsOptions().profile} with a flag" in texts["profile"]
