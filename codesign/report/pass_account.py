"""How long a pass of a design takes, and each of its units works in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign.evaluated_design import EvaluatedDesign

_ROUNDING = 1e-9
_MATRIX_TIMES = {
    "compute": "compute_time_s",
    "on-chip port": "on_chip_time_s",
    "off-chip": "off_chip_time_s",
}
"""What may bound an operator of array and memories, where the vector unit takes longer."""


def pass_account(evaluated: EvaluatedDesign) -> dict[str, Any] | None:
    """How long one pass takes and each unit works in it; None if the evaluator does not tell.

    ``bounds`` has the time of array and memories by what sets it. Units work side by side where
    they add up to more than the pass.
    """
    rows = evaluated.operators
    lasting = [
        (level["read_bytes"] + level["written_bytes"])
        / (level["bandwidth_bytes_per_s"] * level["utilization"])
        for level in evaluated.levels
        if level.get("utilization") and {"read_bytes", "written_bytes"} <= set(level)
    ]
    if not lasting or not all({"matrix_time_s", "vector_time_s"} <= set(row) for row in rows):
        return None
    bounds: dict[str, float] = {}
    for row in rows:
        if row["matrix_time_s"]:
            bound = str(row["bound"])
            if bound == "vector":
                bound = max(_MATRIX_TIMES, key=lambda name: row[_MATRIX_TIMES[name]])
            bounds[bound] = bounds.get(bound, 0.0) + row["matrix_time_s"]
    matrix_s, vector_s = sum(bounds.values()), sum(row["vector_time_s"] for row in rows)
    return {
        "pass_s": lasting[0],
        "matrix_s": matrix_s,
        "vector_s": vector_s,
        "bounds": bounds,
        "is_side_by_side": matrix_s + vector_s > lasting[0] * (1 + _ROUNDING),
    }
