"""Designs or objectives that others write: CSV with a head, or one JSON object a line."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import numpy as np

from codesign.base.columns import Fields, FloatArray, Strings, StringTuple
from codesign.base.errors import InputError, describe_unknown
from codesign.base.records import frozen
from codesign.base.schema import read_text


@frozen
class Rows:
    """Rows of a file in their order.

    Attributes:
        records: Value by name; text in CSV.
        places: ``file:line`` of each.
    """

    records: tuple[Fields, ...]
    places: StringTuple

    @property
    def names(self) -> set[str]:
        """Every name that a row has."""
        return {name for record in self.records for name in record}


def read_rows(source: str) -> Rows:
    """The rows of a file, or of standard input if ``source`` is ``-``.

    Raises:
        InputError: The file cannot be read, or a line of it; it has no rows.
    """
    if source == "-":
        text = sys.stdin.read()
        place = "standard input"
    else:
        text, place = read_text(Path(source))
    rows = _json_lines(text, place) if text.lstrip().startswith("{") else _csv(text, place)
    if not rows.records:
        raise InputError("expected a row for each design, got none", place)
    return rows


def _json_lines(text: str, place: str) -> Rows:
    records = []
    places = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{place}:{number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"expected a JSON object on a line, got {error}", where) from error
        if not isinstance(record, dict):
            raise InputError(f"expected a JSON object on a line, got {line.strip()[:40]}", where)
        records.append(record)
        places.append(where)
    return Rows(tuple(records), tuple(places))


def _csv(text: str, place: str) -> Rows:
    records = []
    places = []
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        head = [name.strip() for name in next(reader, [])]
        if len(set(head)) < len(head) or not all(head):
            raise InputError(f"expected distinct names with commas between, got {head}", place)
        for cells in reader:
            where = f"{place}:{reader.line_num}"
            if not cells:
                continue
            if len(cells) != len(head):
                raise InputError(f"expected {len(head)} cells, got {len(cells)}", where)
            values = (cell.strip() or None for cell in cells)
            records.append(dict(zip(head, values, strict=True)))
            places.append(where)
    except csv.Error as error:
        raise InputError(f"this is no CSV: {error}", f"{place}:{reader.line_num}") from error
    return Rows(tuple(records), tuple(places))


def objectives_in(rows: Rows, names: Strings) -> FloatArray:
    """(n, m) numbers of the columns ``names``; NaN for a row that has none of them.

    Raises:
        InputError: A row with some of them, or with a text that is no number.
    """
    points = np.full((len(rows.records), len(names)), np.nan)
    for i, (record, place) in enumerate(zip(rows.records, rows.places, strict=True)):
        if all(record.get(name) is None for name in names):
            continue
        for j, name in enumerate(names):
            value = record.get(name)
            where = f"{place}: {name}"
            try:
                number = math.nan if value is None or isinstance(value, bool) else float(value)
            except (TypeError, ValueError, OverflowError):
                number = math.nan
            if not math.isfinite(number):
                raise InputError(f"expected a number, got {value!r}", where)
            points[i, j] = number
    return points


def check_names(rows: Rows, names: Strings, subject: str) -> None:
    """Refuse a column that means nothing.

    Raises:
        InputError: A name that is not known; the nearest is offered.
    """
    for name in sorted(rows.names - set(names)):
        place = next(
            place for record, place in zip(rows.records, rows.places, strict=True) if name in record
        )
        raise InputError(describe_unknown(subject, name, names), place)
