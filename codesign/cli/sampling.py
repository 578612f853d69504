"""The options of a study by sampling: how many draws, which seed."""

from __future__ import annotations

from typing import Annotated

import typer

from codesign.base.errors import InputError
from codesign.base.records import drop_none

Samples = Annotated[
    int | None, typer.Option(min=1, max=100_000, help="Draws from the ranges. [500]")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of the draws. [0]")]


def sampling(flag: str, is_on: bool, samples: int | None, seed: int | None) -> dict[str, int]:
    """The options of the draws as keyword arguments; those left at their default are absent.

    Raises:
        InputError: An option of the draws is set, but the option that draws is not.
    """
    flag_values = {"samples": samples, "seed": seed}
    draws = drop_none(flag_values)
    if draws and not is_on:
        raise InputError(f"--{next(iter(draws))} is of use only with {flag}")
    return draws
