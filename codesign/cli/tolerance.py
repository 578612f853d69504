"""The option of every command that shows a front: what is folded under a cheaper design."""

from __future__ import annotations

from typing import Annotated

import typer

Tolerance = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=100.0,
        metavar="PERCENT",
        help="A design that is better than a cheaper one by at most this much is folded under it; "
        "2 if not given; 0 shows the whole front. Recommendations count such designs as equal.",
    ),
]


def share(tolerance: float | None) -> float:
    """The option as a share; the usual one if it is not given."""
    from codesign.search.pareto import TOLERANCE

    return TOLERANCE if tolerance is None else tolerance / 100.0
