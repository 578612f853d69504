"""Observations as tables: CSV, Parquet, Excel, Markdown."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.errors import MissingExtraError
from codesign.files import replacing
from codesign.report.exports.observed import provenance
from codesign.report.frames import Scope, observation_columns, positions_of

if TYPE_CHECKING:
    from codesign.campaign import Results


def to_csv(results: Results, path: Path, scope: Scope = "front") -> Path:
    """One header line, then one line per observation; missing values are empty."""
    columns = observation_columns(results, positions_of(results, scope))
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(_csv_cells(values) for values in columns.values()), strict=True))
    return path


def _csv_cells(values: Any) -> Iterator[Any]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    # NaN is the only value that differs from itself.
    return ("" if value is None or value != value else value for value in listed)


def to_parquet(results: Results, path: Path, scope: Scope = "front") -> Path:
    """The columns of the CSV; the provenance is JSON under the metadata key ``codesign``.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Parquet", "tables") from error
    table = pa.table(observation_columns(results, positions_of(results, scope)))
    note = json.dumps(provenance(results, scope), ensure_ascii=False)
    table = table.replace_schema_metadata({"codesign": note})
    with replacing(path) as unfinished:
        pq.write_table(table, unfinished)
    return path
