"""Numbers out of what a program wrote; whatever is wrong with one is said in a line."""

from __future__ import annotations

import csv
import json
import math
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from codesign.base.columns import JsonObject, JsonRows
from codesign.base.errors import InputError
from codesign.base.units import parse_quantity, parse_unit
from codesign.evaluators.command.command_options import NumberSource
from codesign.evaluators.command.program import MOST_OUTPUT_BYTES, ProgramRun

_MOST_SEARCH_S = 10.0
"""Time for a regular expression in an output of at most 16 MiB [ours]."""


class UnreadableOutputError(Exception):
    """Output of a program that differs from the campaign file."""


class Outputs:
    """Files that a program wrote in its folder; every file is read once."""

    def __init__(self, folder: Path, program_run: ProgramRun) -> None:
        self._folder = folder
        self._texts = {"stdout": program_run.stdout, "stderr": program_run.stderr}
        self._documents: JsonObject = {}
        self._tables: dict[str, JsonRows] = {}

    def number(self, source: NumberSource, unit: str) -> float:
        """A finite number in a unit.

        Raises:
            UnreadableOutputError: It is absent, no number, not finite, or has another unit.
        """
        if source.json_file is not None:
            name = source.json_file
            key = source.key or ""
            if name not in self._documents:
                try:
                    self._documents[name] = json.loads(self._text(name))
                except (ValueError, RecursionError) as error:
                    raise UnreadableOutputError(f"{name} is not JSON: {error}") from None
            value = self._documents[name]
            for step in key.split("."):
                value = _child(value, step, name, key)
        elif source.csv_file is not None:
            value = self._csv_cell(source.csv_file, source.column or "", source.row)
        else:
            value = self._matched(source.regex or "", source.file)
        number = _converted(value, source.unit, unit)
        if not math.isfinite(number):
            raise UnreadableOutputError(f"is {number:g}")
        return number

    def _text(self, name: str) -> str:
        if name not in self._texts:
            path = self._folder / name
            try:
                size = path.stat().st_size
                if size > MOST_OUTPUT_BYTES:
                    raise UnreadableOutputError(f"{name} is too long: {size:,} bytes")
                if not path.is_file():
                    raise UnreadableOutputError(f"{name} is no file")
                self._texts[name] = path.read_text(encoding="utf-8-sig", errors="replace")
            except OSError as error:
                raise UnreadableOutputError(f"{name} cannot be read: {error.strerror}") from None
        return self._texts[name]

    def _csv_cell(self, name: str, column: str, row: int) -> Any:
        if name not in self._tables:
            lines = self._text(name).splitlines()
            try:
                reader = csv.DictReader(lines, skipinitialspace=True)
                self._tables[name] = list(reader)
            except csv.Error as error:
                raise UnreadableOutputError(f"{name} is not CSV: {error}") from None
        rows = self._tables[name]
        if not -len(rows) <= row < len(rows):
            raise UnreadableOutputError(f"{name} has {len(rows)} rows, no row {row}")
        titles = {str(title).strip(): title for title in rows[row]}
        if column not in titles or rows[row][titles[column]] is None:
            raise UnreadableOutputError(f"{name} has no {column!r} in row {row}")
        return rows[row][titles[column]]

    def _matched(self, pattern: str, name: str) -> str:
        text = self._text(name)
        with _limited_time(f"{name}: {pattern!r} takes more than {_MOST_SEARCH_S:g} s"):
            matches = [match[1] for match in re.finditer(pattern, text, re.MULTILINE)]
        if not matches or matches[-1] is None:
            raise UnreadableOutputError(f"{name} has no match for {pattern!r}")
        return matches[-1]


@contextmanager
def _limited_time(problem: str) -> Iterator[None]:
    """End a search that backtracks without end; in other threads than the main one, only a
    time limit of the design does.

    Raises:
        UnreadableOutputError: It took too long.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "SIGALRM"):  # Windows has none
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise UnreadableOutputError(problem)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _MOST_SEARCH_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _child(value: Any, step: str, name: str, key: str) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    is_position = re.fullmatch("[0-9]{1,9}", step) is not None
    if isinstance(value, list) and is_position and int(step) < len(value):
        return value[int(step)]
    raise UnreadableOutputError(f"{name} has no {key!r}")


def _converted(value: Any, written_unit: str | None, unit: str) -> float:
    """A number as the program wrote it, with or without a unit, in ``unit``."""
    scale = parse_unit(unit).scale
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                return parse_quantity(value.strip(), unit) / scale
            except InputError as error:
                raise UnreadableOutputError(str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableOutputError(f"expected a number, got {value!r:.80}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    return number if written_unit is None else number * parse_unit(written_unit).scale / scale
