"""Published problems: a record and its exact front, two files that never change.

``published/NAME.vN.json`` is the record, ``published/NAME.vN.csv`` the front. A problem that
changes gets files of a new version; ``published/withdrawn.yaml`` says of earlier ones why they no
longer hold. The record carries hashes of the definition and of the front, so that a change of
either is noticed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from codesign.base.columns import (
    FieldRows,
    FloatArray,
    FloatDict,
    FloatMap,
    IntegerSequence,
    StringDict,
    Strings,
    StringTuple,
)
from codesign.base.errors import InputError, JobError, UnknownNameError
from codesign.base.schema import Document, Record, parse_record, read_document
from codesign.search.problem import Problem

FOLDER = Path(__file__).resolve().parent / "published"
CAMPAIGN = "problem-"
"""Prefix of the name of a problem's campaign file."""
MOST_LISTED = 2000
"""Points of a front up to which the designs are published, and not only the objectives. [ours]"""
COUNT = "designs"
"""The column of a front that says how many designs have these objectives."""
ProofKind = Literal["enumeration", "composition", "reduction", "closed form"]
_NAME = re.compile(r"(?P<name>.+?)(?:\.v(?P<version>[1-9]\d*))?")
_WITHDRAWN = "withdrawn.yaml"


class ProblemRecord(Record):
    """Record of one version of a problem."""

    name: str
    """Name of the problem; ``problem-NAME`` is its campaign file."""
    version: int
    """1 and up."""
    kind: str
    """Problems of one kind are hard for the same reason."""
    objectives: StringTuple
    """``minimize METRIC`` or ``maximize METRIC``."""
    limits: StringTuple
    """The campaign's constraints, and the limits of the evaluator that some designs break."""
    n_designs: int
    """Designs of the space."""
    feasible_share: float
    """Feasible share of the designs; from a uniform sample of 20,000 where ``n_feasible`` is
    unknown."""
    n_feasible: int | None
    """Feasible designs, where all were counted."""
    front_points: int
    """Distinct points of the exact front."""
    front_designs: int
    """Designs that have these objectives."""
    reference_point: FloatDict
    """Bound of the hypervolume by objective, in natural sign."""
    hypervolume: float
    """Hypervolume of the exact front, bounded by the reference point."""
    proof: ProofKind
    """Proof of the front; see docs/how-to/problem-set.md."""
    definition_sha256: str
    """Digest of the resolved problem: space, evaluator with all its inputs, objectives, limits."""
    front_sha256: str
    """Digest of the CSV file."""

    @property
    def label(self) -> str:
        """``NAME.vN``, as the files are called."""
        return f"{self.name}.v{self.version}"


def published() -> dict[str, ProblemRecord]:
    """The latest version of every problem by name, without those that are withdrawn."""
    gone = withdrawn()
    records: dict[str, ProblemRecord] = {}
    for path in sorted(FOLDER.glob("*.json")):
        record = read_record(path)
        latest = records.get(record.name)
        if record.label not in gone and (latest is None or latest.version < record.version):
            records[record.name] = record
    return dict(sorted(records.items(), key=lambda item: (item[1].kind, item[0])))


def withdrawn() -> StringDict:
    """Reasons for which versions no longer hold, by ``NAME.vN``."""
    path = FOLDER / _WITHDRAWN
    data = read_document(path).data if path.exists() else {}
    return {str(label): str(reason) for label, reason in (data or {}).items()}


def find_record(name: str) -> ProblemRecord:
    """The record of ``NAME``, the latest version, or of ``NAME.vN``.

    Raises:
        UnknownNameError: No such problem or version; the nearest is offered.
        InputError: The version is withdrawn.
    """
    match = _NAME.fullmatch(name.removeprefix(CAMPAIGN))
    records = published()
    if match is None or (match["version"] is None and match["name"] not in records):
        raise UnknownNameError("problem", name, records)
    if match["version"] is None:
        return records[match["name"]]
    label = f"{match['name']}.v{match['version']}"
    if label in withdrawn():
        raise InputError(f"problem {label} is withdrawn: {withdrawn()[label]}")
    path = FOLDER / f"{label}.json"
    if not path.exists():
        raise UnknownNameError("problem", label, [path.stem for path in FOLDER.glob("*.json")])
    return read_record(path)


@cache
def read_record(path: Path) -> ProblemRecord:
    """A record from its file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return parse_record(Document(path.name, data, {}), ProblemRecord)


def definition_digest(problem: Problem, reference_point: FloatMap | None) -> str:
    """Hash of all that a front and its hypervolume depend on, but the code."""
    data = {"problem": problem.provenance(), "reference_point": reference_point}
    return digest(json.dumps(data, sort_keys=True, default=str).encode())


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def front_text(
    designs: FieldRows | None,
    names: Strings,
    objectives: FloatArray,
    counts: IntegerSequence,
) -> str:
    """A front as CSV, numbers with all their digits.

    Args:
        designs: A design of each point, or None.
        names: Of the objectives.
        objectives: (p, m) in natural sign.
        counts: (p,) designs of each point.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    keys = list(designs[0]) if designs else []
    writer.writerow([*keys, *names, COUNT])
    for i, point in enumerate(objectives.tolist()):
        cells = [cell_text(designs[i][key]) for key in keys] if designs else []
        writer.writerow([*cells, *map(repr, point), counts[i]])
    return stream.getvalue()


def cell_text(value: object) -> str:
    """A parameter's value in a cell; empty where it is absent."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return repr(value) if isinstance(value, float) else str(value)


def read_front(record: ProblemRecord) -> tuple[list[dict[str, str | None]], FloatArray]:
    """Designs of a front, text or None by parameter, and its (p, m) objectives in natural sign.

    There are no designs where only objectives are published.

    Raises:
        JobError: The file is not the one that was published.
    """
    path = FOLDER / f"{record.label}.csv"
    data = path.read_bytes()
    if digest(data) != record.front_sha256:
        raise JobError(f"{path.name} is not the front that was published as {record.label}")
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    metrics = [text.split()[1] for text in record.objectives]
    points = np.array([[float(row[name]) for name in metrics] for row in rows])
    others = {*metrics, COUNT}
    designs = [
        {key: text or None for key, text in row.items() if key not in others} for row in rows
    ]
    return [design for design in designs if design], points
