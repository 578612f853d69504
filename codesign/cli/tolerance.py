"""The option of every command that shows a front: what is folded under a cheaper design."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from codesign.pareto import TOLERANCE

Tolerance: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=100.0,
        metavar="PERCENT",
        help="Designs that are better by at most so much than a cheaper one are folded under it; "
        "0 shows the whole front.",
    ),
]
DEFAULT = 100.0 * TOLERANCE
"""In percent."""


def share(tolerance: float) -> float:
    """The option as a share."""
    return tolerance / 100.0
