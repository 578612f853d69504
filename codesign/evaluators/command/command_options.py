"""Settings of a campaign file for a program that evaluates designs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from codesign.base.columns import JsonObject, StringDict, StringTuple
from codesign.base.metrics import Sense
from codesign.base.schema import Record, accepted_by
from codesign.base.units import parse_unit


def _check_existing_file(text: str) -> None:
    if not Path(text).is_file():
        raise ValueError(f"expected a file, from the folder in which codesign runs, got {text!r}")


def _check_plain_name(text: str) -> None:
    path = Path(text)
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise ValueError(f"expected the name of a file in the design's folder, got {text!r}")


def _check_pattern(text: str) -> None:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise ValueError(f"expected a regular expression, got {text!r} ({error})") from None
    if groups != 1:
        raise ValueError(
            f"expected a regular expression with one group, the number, got {groups} in {text!r}"
        )


def _check_identifier(text: str) -> None:
    if not text.isidentifier():
        raise ValueError(
            f"expected a name that works in expressions, such as latency_s, got {text!r}"
        )


UnitText = Annotated[str, accepted_by(parse_unit)]
ExistingFile = Annotated[str, accepted_by(_check_existing_file)]
PlainName = Annotated[str, accepted_by(_check_plain_name)]
Pattern = Annotated[str, accepted_by(_check_pattern)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
MetricName = Annotated[str, accepted_by(_check_identifier)]


class CommandWorkload(Record):
    """Any keys: the program is handed them as they are."""

    model_config = ConfigDict(extra="allow", frozen=True)


class NumberSource(Record):
    """Place of a number in the program's output: in JSON, in CSV, or by a pattern.

    Attributes:
        json_file: A JSON file, ``stdout`` for the program's output.
        key: Path in the JSON, joined by dots; positions of lists are numbers: ``layers.0.cycles``.
        csv_file: A CSV file with a line of titles, or ``stdout``.
        column: Title of the column.
        row: Number of the row below the titles, from 0; negative: from the end.
        regex: Regular expression with one group, the number with or without a unit; the last match.
        file: File in which the expression is searched, ``stdout`` or ``stderr``.
        unit: Unit of a number that is written without; the metric's own if not given.
    """

    json_file: PlainName | None = Field(default=None, alias="json")
    key: str | None = None
    csv_file: PlainName | None = Field(default=None, alias="csv")
    column: str | None = None
    row: Annotated[int, Field(strict=True)] = -1
    regex: Pattern | None = None
    file: PlainName = "stdout"
    unit: UnitText | None = None

    def check_fields(self) -> None:
        stated = [self.json_file, self.csv_file, self.regex]
        if sum(source is not None for source in stated) != 1:
            raise ValueError("expected one of 'json', 'csv' and 'regex'")
        if (self.key is None) != (self.json_file is None):
            raise ValueError("'json: FILE' and 'key: PATH' need each other")
        if (self.column is None) != (self.csv_file is None):
            raise ValueError("'csv: FILE' and 'column: TITLE' need each other")


class CommandMetric(Record):
    """A number that the program reports for every design.

    Attributes:
        sense: ``minimize`` or ``maximize``: the direction in which it gets better.
        unit: Unit of the stored value, such as ``s``; empty for a plain number.
        meaning: One sentence for tables.
        source: Place where the program writes it.
    """

    sense: Sense
    unit: UnitText
    meaning: str = "as the command reports it"
    source: NumberSource = Field(alias="from")


class TemplateFile(Record):
    """A file that is written with the design's values in it.

    Attributes:
        template: The text, in which ``${NAME}`` stands for a value.
    """

    template: ExistingFile


class CheaperModel(Record):
    """Another evaluator that predicts the metrics, so that optimizers learn what it gets wrong."""

    name: str
    """Under which it is registered, such as ``npu``."""
    workload: JsonObject | None = None
    """Workload of the cheaper model; the campaign's if not given."""
    options: JsonObject = Field(default_factory=dict)
    """Options that ``evaluator:`` would state."""
    metrics: StringDict = Field(default_factory=dict)
    """Its metric for each of the program's; the one of the same name if not given."""


class CommandOptions(Record):
    """Call of the program, and places of its numbers."""

    run: Annotated[StringTuple, Field(min_length=1)]
    """Program and arguments; no shell reads them. ``${NAME}`` stands for a parameter's value,
    ``${workload.KEY}``, ``${version}``, or ``${python}``, the interpreter that runs codesign."""
    files: tuple[ExistingFile, ...] = ()
    """Put into the folder of every design under their own names; their content is part of the
    campaign's identity."""
    write: dict[PlainName, Literal["json"] | TemplateFile] = Field(default_factory=dict)
    """Files to write for each design: ``json`` (``{"design": ..., "workload": ...}``), or a
    template."""
    metrics: Annotated[dict[MetricName, CommandMetric], Field(min_length=1)]
    """Metrics that the program reports."""
    limits: dict[str, NumberSource] = Field(default_factory=dict)
    """Numbers that must not be above 0 for a design to be feasible."""
    infeasible_exit_codes: tuple[Annotated[int, Field(strict=True, ge=1, le=255)], ...] = ()
    """Exit codes by which the program says that a design cannot be built; any other than 0 is a
    failure."""
    environment: dict[VariableName, str] = Field(default_factory=dict)
    """Variables for the program, besides those of a fixed list that it has from codesign."""
    version: str = ""
    """Version of the program, in any words: part of the campaign's identity."""
    keep: Literal["none", "failed", "all"] = "none"
    """Designs whose folders stay, in ``scratch/`` of the campaign's folder."""
    predicted_by: CheaperModel | None = None
    """A cheaper model of the same metrics."""

    def check_fields(self) -> None:
        for name in self.limits:
            if name in self.metrics:
                raise ValueError(f"{name!r} is a metric and a limit")
        names = [Path(file).name for file in self.files] + list(self.write)
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"'files' and 'write' put {name!r} into the folder twice")
