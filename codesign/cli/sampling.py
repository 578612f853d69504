"""The options of a study by sampling: how many draws, which seed."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from codesign.errors import InputError

Samples: TypeAlias = Annotated[
    int | None, typer.Option(min=1, max=100_000, help="Draws from the ranges. [500]")
]
Seed: TypeAlias = Annotated[int | None, typer.Option(min=0, help="Of the draws. [0]")]


def sampling(flag: str, is_on: bool, samples: int | None, seed: int | None) -> dict[str, int]:
    """What was said about the draws, as keyword arguments; nothing where the default holds.

    Raises:
        InputError: Something was said, but the option that draws is not given.
    """
    said = {"samples": samples, "seed": seed}
    given = {name: value for name, value in said.items() if value is not None}
    if given and not is_on:
        raise InputError(f"--{next(iter(given))} is of use only with {flag}")
    return given
