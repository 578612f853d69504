"""The look of every table on the terminal: readable on 80 columns and better on 140."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Column, Table

from codesign.base.columns import FieldRows, Fields, StringList, StringPair, Strings, StringTuple
from codesign.base.metrics import ALL_METRICS
from codesign.base.units import parse_unit
from codesign.insight.uncertainty.uncertainty_results import CONSTANTS
from codesign.report.labels import (
    UNIT_OF_SUFFIX,
    format_metric,
    format_setting,
    format_value,
    memory_words,
    metric_title,
    spaced_name,
)

Tables = list[RenderableType]
"""Tables and paragraphs that the terminal prints."""


def plain_table(
    title: str,
    columns: Strings,
    numbers: Iterable[str] = (),
    rows: Iterable[Strings] = (),
) -> Table:
    """A table of rows; the columns named in ``numbers`` are aligned to the right.

    Numbers, and names before columns of text, are never broken over lines; headers are. Where a
    terminal is too narrow for one, it ends in an ellipsis, so that nobody reads a part as a number.
    """
    right = set(numbers)
    has_texts = len(columns) > 2 and not right.issuperset(columns[1:])
    table = Table(
        title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False, show_edge=False, header_style="bold", caption_justify="left",
        padding=(0, 1, 0, 0),
    )  # fmt: skip
    for position, column in enumerate(columns):
        is_number = column in right
        is_whole = is_number or (position == 0 and has_texts)
        table.add_column(
            header_lines(column) if is_number else column,
            justify="right" if is_number else "left",
            no_wrap=is_whole,
            overflow="ellipsis" if is_whole else "fold",
        )
    for row in rows:
        table.add_row(*row)
    return table


def let_break(column: Column) -> None:
    """Let the cells of a column be broken over lines where the table does not fit."""
    column.no_wrap = False
    column.overflow = "fold"


def header_lines(header: str) -> str:
    """A header over several short lines."""
    longest = max(map(len, header.split()), default=1)
    return "\n".join(textwrap.wrap(header, max(6, longest), break_on_hyphens=False))


def pairs_table(title: str, pairs: Fields) -> Table:
    """Names and values, one pair per line, without a header."""
    table = Table(
        title=title or None, title_justify="left", title_style="bold", box=None,
        show_header=False, pad_edge=False,
    )  # fmt: skip
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        table.add_row(name, format_cell("", value))
    return table


def spaced(*parts: RenderableType | Sequence[RenderableType]) -> Tables:
    """Parts with a blank line between them; lines in a list are one part, an empty list is none.

    >>> spaced("a", [], ["b", "c"])
    ['a', '', 'b', 'c']
    """
    lists = [section if isinstance(section, list) else [section] for section in parts]
    return [line for section_lines in lists if section_lines for line in ("", *section_lines)][1:]


def unit_and_title(name: str) -> StringPair:
    """The unit that ends a name, and the rest in words: ``time_s`` gives "s", "time"."""
    for suffix, unit in UNIT_OF_SUFFIX.items():
        if name == suffix or name.endswith(f"_{suffix}"):
            return unit, spaced_name(name.removesuffix(suffix).rstrip("_") or name)
    return "", spaced_name(name)


_CONSTANT_TITLES = dict(
    row.split(maxsplit=1)
    for row in """\
active_joules_per_mtransistor switching energy per cycle (J per million transistors)
air_kelvin_mm2_per_watt thermal resistance with air (K·mm²/W)
ambient_celsius ambient temperature (°C)
assembly_usd assembly price (USD)
bond_usd_per_mm2 bonding price (USD/mm²)
defects_per_cm2 defect density (1/cm²)
design_usd design and mask cost (USD)
edge_mm_per_interface_mm2 edge per interface area (mm/mm²)
electricity_usd_per_kwh electricity price (USD/kWh)
fab_kgco2e_per_cm2 fab carbon (kg/cm²)
gpu_core_mtransistors GPU core interconnect (million transistors)
gpu_lane_mtransistors GPU lane (million transistors)
grid_kgco2e_per_kwh grid carbon (kg/kWh)
host_interface_mm2 host interface area (mm²)
host_usd host and rack price per device (USD)
interposer_usd_per_mm2 interposer price (USD/mm²)
lane_mtransistors vector lane (million transistors)
layer_kelvin_mm2_per_watt thermal resistance between layers (K·mm²/W)
link_mm2_per_gigabyte_per_s link area (mm² per GB/s one way)
liquid_kelvin_mm2_per_watt thermal resistance with liquid (K·mm²/W)
logic_mm2_per_mtransistor logic area (mm² per million transistors)
package_kgco2e package carbon (kg)
pue power usage effectiveness
score_buffer_joules_per_byte score buffer energy
sram_mm2_per_megabyte SRAM area (mm²/MB)
substrate_usd_per_mm2 substrate price (USD/mm² of die)
test_usd_per_mm2 test price (USD/mm²)
wafer_usd wafer price (USD)
write_off_per_year share written off per year
""".splitlines()
)
"""Titles of unclear constants, with the unit unless their values are printed with it."""


def constant_words(technology: str, number: str) -> str:
    """A constant in words, after the name of its memory technology if it has one.

    >>> constant_words("hbm4_12h", "access_energy"), constant_words(CONSTANTS, "mac_energy_joules")
    ('HBM4, 12-high access energy', 'MAC energy')
    """
    title = _CONSTANT_TITLES.get(number) or unit_and_title(number)[1]
    return title if technology == CONSTANTS else f"{memory_words(technology)} {title}"


def rows_table(title: str, rows: FieldRows, width: int = 140, first: Strings = ()) -> Table:
    """Rows of an evaluator's explanation, each number in the unit that its name states.

    A value that is itself a mapping (traffic by memory level) becomes one column per key.
    Columns that are empty or zero throughout are left out, and if the table is wider than
    ``width``, columns from the end as well: the JSON has them all.

    Args:
        rows: The same keys in each.
        width: Columns of the terminal.
        first: Keys to show before the others, in this order.
    """
    columns: dict[StringTuple, list[Any]] = {}
    for number, row in enumerate(rows):
        for key, value in row.items():
            inner = value if isinstance(value, Mapping) else {None: value}
            for name, cell in inner.items():
                path = (key,) if name is None else (str(name), key)
                columns.setdefault(path, [None] * len(rows))[number] = cell
    rank = {key: number for number, key in enumerate(first)}
    headers = []
    cells: list[StringList] = []
    numbers = []
    n_hidden = 0
    used = 0
    for words in sorted(columns, key=lambda words: rank.get(words[-1], len(rank))):
        values = columns[words]
        header = " ".join(unit_and_title(word)[1] for word in words)
        if not any(value not in (None, 0, "") for value in values):
            continue
        texts = [format_cell(words[-1], value) for value in values]
        # Headers wrap at spaces, cells do not.
        used += 2 + max(map(len, [*header_lines(header).splitlines(), *texts]))
        if cells and used > width:
            n_hidden += 1
            continue
        headers.append(header)
        cells.append(texts)
        if all(isinstance(value, int | float | None) for value in values):
            numbers.append(header)
    table = plain_table(title, headers, numbers, zip(*cells, strict=True))
    if n_hidden:
        table.caption = f"{n_hidden} more columns fit a wider terminal or --json"
    return table


def field_cells(
    records: Iterable[Any], fields: str, digits: int = 4
) -> tuple[dict[str, StringList], StringList]:
    """Cells of records by header, each number in the unit that its field states.

    Args:
        fields: Names with a point between levels, separated by spaces; ``name=header`` states a
            header, with ``_`` for its spaces. Numbers of ``name:unit=header`` are in that unit,
            without its name; a zero is a dash.

    Returns:
        Cells by header, and the headers of columns of numbers.

    >>> field_cells([{"n": 1200, "wait_s": 0.5}], "n=runs wait_s wait_s:ms=ms")
    ({'runs': ['1,200'], 'wait': ['500 ms'], 'ms': ['500']}, ['runs', 'wait', 'ms'])
    """
    listed = list(records)
    cells = {}
    numbers = []
    for field in fields.split():
        path, _, header = field.partition("=")
        name, in_unit, unit = path.partition(":")
        values = listed
        for step in name.split("."):
            values = [
                record.get(step) if isinstance(record, Mapping) else getattr(record, step)
                for record in values
            ]
        header = header.replace("_", " ") or unit_and_title(name)[1]
        if all(isinstance(value, int | float | None) for value in values):
            numbers.append(header)
        scale = parse_unit(unit).scale
        cells[header] = [
            format_value(value / scale if value else None, "", digits)
            if in_unit
            else format_cell(name, value, digits)
            for value in values
        ]
    return cells, numbers


def record_table(
    title: str, records: Iterable[Any], fields: str, digits: int = 4, folds: bool = False
) -> Table:
    """A line per record and a column per field, as :func:`field_cells` words them.

    Args:
        folds: The cells of the first column may be broken over lines.
    """
    cells, numbers = field_cells(records, fields, digits)
    table = plain_table(title, list(cells), numbers, zip(*cells.values(), strict=True))
    if folds:
        let_break(table.columns[0])
    return table


def format_cell(name: str, value: Any, digits: int = 3) -> str:
    """One value of an explanation in the unit that its name states."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if name == "share" or name.endswith(("_share", "_fraction", "utilization")):
            return f"{100 * value:.1f} %"
        return format_value(float(value), unit_and_title(name)[0], digits)
    if isinstance(value, Mapping):
        return ", ".join(
            f"{'best ' * (key not in ALL_METRICS)}{metric_title(metric)} "
            f"{format_metric(element, metric, digits)}"
            if (metric := ALL_METRICS.get(key.removeprefix("best_")))
            else f"{key} {format_cell(name, element)}"
            for key, element in value.items()
        )
    if isinstance(value, list | tuple) and not all(isinstance(element, int) for element in value):
        return ", ".join(format_cell(name, element) for element in value)
    return format_setting(value)
