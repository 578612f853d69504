"""What a validation gives: comparisons, one row each, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from codesign.columns import FloatArray


@dataclass(frozen=True)
class Study:
    """A finished comparison with numbers that are not ours.

    Attributes:
        name: As the command line says it.
        question: What is compared with what, in one sentence.
        rows: One per comparison; at least ``what``, ``reference``, ``ours`` and ``error``, the
            relative error ``ours / reference - 1``; values are plain JSON.
        summary: One per group of comparisons; see :func:`summarize`.
        targets: What the project promises: ``what``, ``target``, ``measured``, ``is_met``.
        notes: What limits the comparison, what is not reproducible and why.
    """

    name: str
    question: str
    rows: Sequence[Mapping[str, Any]]
    summary: Sequence[Mapping[str, Any]]
    targets: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = field(default_factory=tuple)


def summarize(group: str, errors: FloatArray) -> dict[str, Any]:
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


def ranged_row(
    subject: str, reference: float, ends: Sequence[float], source: str
) -> dict[str, Any]:
    """A comparison with a modelled range.

    Args:
        subject: Of the comparison, with its unit.
        reference: The published number.
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


def all_within(subject: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The target that every one of some :func:`ranged_row` is within its range."""
    n_within = sum(bool(row["is_within"]) for row in rows)
    return {
        "what": subject,
        "target": f"{len(rows)} of {len(rows)}",
        "measured": f"{n_within} of {len(rows)}",
        "is_met": n_within == len(rows),
    }
