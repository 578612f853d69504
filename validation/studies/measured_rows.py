"""Rows of a table of measurements: CSV in UTF-8, compressed or not."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Collection
from pathlib import Path

from codesign.base.columns import Strings
from codesign.base.errors import InputError


def read_rows(
    path: Path | str, needed: Collection[str] = ()
) -> tuple[list[dict[str, str]], Strings]:
    """The rows of a table, and the names of its columns.

    Raises:
        InputError: The file cannot be read or lacks a column that is needed.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot be read as UTF-8 text", str(path)) from error
    reader = csv.DictReader(text.splitlines())
    rows, names = list(reader), reader.fieldnames or ()
    if missing := sorted(set(needed) - set(names)):
        raise InputError(f"columns are missing: {', '.join(missing)}", str(path))
    return rows, names
