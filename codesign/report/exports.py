"""Results in the formats that other tools load; each file is written whole or not at all.

An export is a function ``(results, path, scope) -> path``, registered in the entry-point group
``codesign.exports`` under the name of its format. ``scope`` is ``front`` (the non-dominated
feasible designs) or ``all`` (every observation).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.columns import IntArray
from codesign.errors import MissingExtraError
from codesign.files import replacing
from codesign.report.frames import Scope, observation_columns, positions_of
from codesign.report.plain import to_json_text, to_plain

if TYPE_CHECKING:
    from codesign.campaign import Results

_CHUNK = 10_000


def provenance(results: Results, scope: str = "front") -> dict[str, Any]:
    """What the numbers depend on: versions, definition, resolved problem, reference point."""
    objectives = results.problem.objectives
    return {
        "campaign": results.definition.name,
        "scope": scope,
        "versions": dict(results.versions),
        "objectives": {objective.metric.name: objective.sense for objective in objectives},
        "reference_point": to_plain(results.reference_point),
        "definition": to_plain(results.definition),
        "problem": to_plain(results.problem.provenance()),
    }


def observations(results: Results, positions: IntArray) -> Iterator[dict[str, Any]]:
    """One plain mapping per observation; absent parameters are left out of its design."""
    for start in range(0, len(positions), _CHUNK):
        chunk = positions[start : start + _CHUNK]
        designs = results.problem.space.decode(results.rows[chunk])
        for position, design in zip(chunk.tolist(), designs, strict=True):
            yield _observation(results, position, design)


def _observation(results: Results, position: int, design: Mapping[str, Any]) -> dict[str, Any]:
    run = results.runs[int(results.run_index[position])]
    return {
        "optimizer": run.optimizer,
        "seed": run.seed,
        "step": int(results.step[position]),
        "design": plain_design(design),
        "metrics": {name: to_plain(values[position]) for name, values in results.metrics.items()},
        "violations": {
            name: to_plain(values[position]) for name, values in results.violations.items()
        },
        "feasible": bool(results.feasible[position]),
        "failed": bool(results.failed[position]),
        "reason": results.reasons.get(position),
        "hypervolume": to_plain(results.hypervolume[position]),
    }


def plain_design(design: Mapping[str, Any]) -> dict[str, Any]:
    """The present parameters of a design as JSON values."""
    return {name: to_plain(value) for name, value in design.items() if value is not None}


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


def to_json(results: Results, path: Path, scope: Scope = "front") -> Path:
    """Provenance and ``observations``, one object each; NaN and infinity are null."""
    head = to_json_text(provenance(results, scope)).removesuffix("\n}")
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write(head + ',\n  "observations": [')
        for number, item in enumerate(observations(results, positions_of(results, scope))):
            file.write((",\n    " if number else "\n    ") + to_json_text(item, indent=None))
        file.write("\n  ]\n}\n")
    return path


def to_yaml(results: Results, path: Path, scope: Scope = "front") -> Path:
    """Provenance, ``designs`` by name as a space file has them, and their ``results``.

    ``codesign evaluate --design-file FILE --design NAME`` accepts it back, workload included.
    """
    import yaml

    designs, outcomes = {}, {}
    for number, item in enumerate(observations(results, positions_of(results, scope)), start=1):
        name = f"{scope}-{number}"
        said = "campaign {}, {optimizer}, seed {seed}, step {step}"
        source = said.format(results.definition.name, **item)
        designs[name] = {"values": item.pop("design"), "source": source}
        outcomes[name] = item
    # What people look for comes first; the resolved problem is long.
    document = {"designs": designs, "results": outcomes} | provenance(results, scope)
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        yaml.dump(document, file, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100)
    return path


def _dumper() -> Any:
    """Lists of plain values on one line, so that ``[2048, 256]`` reads as in a space file."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
        is_flat = not any(isinstance(item, list | dict) for item in data)
        return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=is_flat)

    Dumper.add_representer(list, represent)
    return Dumper


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
