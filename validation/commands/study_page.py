"""The finding of a study as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from codesign.base.errors import InputError

Output: TypeAlias = Annotated[
    Path | None, typer.Option(help="Also store the finding, such as validation/results/NAME.json.")
]


def check_output(output: Path | None) -> None:
    """Refuse a finding that is no JSON.

    Raises:
        InputError: The name of the file ends in something else.
    """
    if output is not None and output.suffix != ".json":
        raise InputError(f"expected a file that ends in .json, got {str(output)!r}", "--output")
