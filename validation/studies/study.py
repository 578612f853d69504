"""Result of a validation: comparisons, one row each, and their summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from codesign.base.columns import FieldRows, Fields, FloatArray, JsonObject, Strings
from codesign.base.records import frozen

DATA = Path(__file__).parent / "data"


def model_file(name: str) -> str:
    """The file of a model that a study brings along, or the name of a bundled one."""
    path = DATA / "models" / f"{name}.yaml"
    return str(path) if path.is_file() else name


@frozen
class Study:
    """A finished comparison with numbers that are not ours.

    Attributes:
        name: As the command line says it.
        question: What is compared with what, in one sentence.
        rows: One per comparison; at least ``what``, ``reference``, ``ours`` and ``error``, the
            relative error ``ours / reference - 1``; values are plain JSON.
        summary: One per group of comparisons; see :func:`summarize`.
        targets: What the project promises; see :func:`promise`.
        notes: What limits the comparison, what is not reproducible and why.
    """

    name: str
    question: str
    rows: FieldRows
    summary: FieldRows
    targets: FieldRows = ()
    notes: Strings = field(default_factory=tuple)


def comparison(labels: Fields, reference: float, ours: float, **more: Any) -> JsonObject:
    """A row of a study.

    Args:
        labels: What is compared, under ``what``, and what sorts it.
        reference: The number that is not ours.
        ours: The same by us.
        more: What else there is to know of it.

    Examples:
        >>> comparison({"what": "TDP, W"}, 200.0, 250.0, source="a datasheet")["error"]
        0.25
    """
    # A reference of 0, as rounded numbers are printed, has no relative error.
    error = float(ours) / float(reference) - 1.0 if reference else None
    numbers = {"reference": float(reference), "ours": float(ours), "error": error}
    return {**labels, **numbers, **more}


def summarize(group: str, errors: FloatArray) -> JsonObject:
    """Distribution of relative errors: count, median signed, median and 95th percentile absolute.

    Args:
        group: What they have in common.
        errors: (n,) relative errors; at least one.
    """
    size = np.abs(errors)
    return {
        "group": group,
        "n": len(errors),
        "median_error": float(np.median(errors)),
        "median_absolute_error": float(np.median(size)),
        "p90_absolute_error": float(np.quantile(size, 0.9)),
        "p95_absolute_error": float(np.quantile(size, 0.95)),
        "largest_absolute_error": float(size.max()),
    }


def errors_of(rows: FieldRows) -> FloatArray:
    """(n,) relative errors of rows."""
    return np.array([row["error"] for row in rows])


def grouped_errors(rows: FieldRows) -> dict[str, FloatArray]:
    """Relative errors of rows by their ``group``, in the order of the rows."""
    groups = dict.fromkeys(row["group"] for row in rows)
    return {name: errors_of([row for row in rows if row["group"] == name]) for name in groups}


def promise(subject: str, target: str, measured: Any, is_met: bool) -> JsonObject:
    """One of the targets of a study.

    Args:
        target: How good it is to be, in words.
        measured: How good it is: a number, or words.
        is_met: Whether that is good enough.
    """
    return {"what": subject, "target": target, "measured": measured, "is_met": bool(is_met)}


def median_promise(subject: str, limit: float, errors: FloatArray) -> JsonObject:
    """The target that the median of (n,) absolute relative errors is at most ``limit``.

    Examples:
        >>> target = median_promise("throughput", 0.1, np.array([0.25, -0.0625, 0.03125]))
        >>> target["what"], target["target"], target["measured"], target["is_met"]
        ('median error, throughput', '<= 10%', 0.0625, True)
    """
    median = float(np.median(np.abs(errors)))
    return promise(f"median error, {subject}", f"<= {limit:.0%}", median, median <= limit)


def count_promise(subject: str, target: str, n_met: int, n: int) -> JsonObject:
    """The target that all ``n`` of something are as they should be, of which ``n_met`` are."""
    return promise(subject, target, f"{n_met} of {n}", n_met == n)


def ranged_row(subject: str, reference: float, ends: Sequence[float], source: str) -> JsonObject:
    """A comparison with a modelled range.

    Args:
        subject: Of the comparison, with its unit.
        ends: Ours with all constants low, typical and high.
        source: Where the published number was read.
    """
    low, typical, high = ends
    return {
        "what": subject,
        "reference": reference,
        "ours": typical,
        "low": low,
        "high": high,
        "error": typical / reference - 1.0,
        "is_within": low <= reference <= high,
        "source": source,
    }


def all_within(subject: str, rows: FieldRows) -> JsonObject:
    """The target that every one of some :func:`ranged_row` is within its range."""
    n_within = sum(bool(row["is_within"]) for row in rows)
    return count_promise(subject, f"{len(rows)} of {len(rows)}", n_within, len(rows))
