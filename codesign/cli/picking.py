"""The option ``--pick`` of commands whose ``--design`` may be one of a front."""

from __future__ import annotations

from typing import Annotated

import typer

from codesign.base.errors import InputError, check_known

PICKS = ("recommended", "knee", "frugal", "fastest")

Pick = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(PICKS),
        help="A recommended design of the front, instead of --design.",
        autocompletion=lambda: list(PICKS),
    ),
]


def design_or_pick(design: str | None, pick: str | None) -> str | None:
    """The design that ``--design`` or ``--pick`` names.

    Raises:
        InputError: Both are given, or there is no such pick.
    """
    if pick is None:
        return design
    if design is not None:
        raise InputError(f"expected no --design {design}: --pick chooses the design", "--pick")
    check_known("pick", pick, PICKS, "--pick")
    return pick
