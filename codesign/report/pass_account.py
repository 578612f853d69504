"""Time of a pass of a design, and of each of its units in it."""

from __future__ import annotations

from codesign.base.columns import FloatDict, JsonObject
from codesign.insight.evaluated_design import EvaluatedDesign

_ROUNDING = 1e-9


def pass_account(evaluated: EvaluatedDesign) -> JsonObject | None:
    """Time of one pass and of each unit in it; None if the evaluator does not tell.

    ``bounds`` has the time of array and memories by what sets it. Units work side by side where
    they add up to more than the pass.
    """
    rows = evaluated.operators
    pass_s = evaluated.explanation.pass_s
    if pass_s is None or not all({"matrix_s", "vector_s"} <= set(row) for row in rows):
        return None
    bounds: FloatDict = {}
    for row in rows:
        if row["matrix_s"]:
            bound = row["matrix_bound"]
            bounds[bound] = bounds.get(bound, 0.0) + row["matrix_s"]
    matrix_s = sum(bounds.values())
    vector_s = sum(row["vector_s"] for row in rows)
    return {
        "pass_s": pass_s,
        "matrix_s": matrix_s,
        "vector_s": vector_s,
        "bounds": bounds,
        "is_side_by_side": matrix_s + vector_s > pass_s * (1 + _ROUNDING),
    }
