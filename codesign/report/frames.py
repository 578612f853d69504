"""Observations as named columns, which every export and the data frame are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from codesign.base.columns import IntArray, JsonObject
from codesign.base.errors import InputError, describe_unknown, needing_extra
from codesign.insight.plateaus import folded_front
from codesign.search.campaign import Results

if TYPE_CHECKING:
    import pandas as pd

Scope = Literal["front", "folded", "all"]
"""``front``: the non-dominated feasible designs; ``folded``: those of them that are not folded
under a cheaper one; ``all``: every observation."""
_SCOPES = ("front", "folded", "all")


def positions_of(results: Results, scope: str) -> IntArray:
    """Positions of the observations in a scope, the front sorted by its first objective.

    Raises:
        InputError: There is no such scope.
    """
    check_scope(scope)
    if scope == "front":
        return results.front()
    if scope == "folded":
        folded = folded_front(results)
        return folded.positions[folded.kept]
    return np.arange(len(results.rows), dtype=np.int64)


def numbers_of(results: Results, scope: str) -> IntArray:
    """The numbers of the same observations: on the whole front, or in their order for ``all``.

    Raises:
        InputError: There is no such scope.
    """
    if scope == "folded":
        return folded_front(results).kept + 1
    return np.arange(1, len(positions_of(results, scope)) + 1)


def check_scope(scope: str) -> None:
    """Refuse what is not a scope.

    Raises:
        InputError: There is no such scope.
    """
    if scope not in _SCOPES:
        raise InputError(describe_unknown("scope", scope, _SCOPES))


def observation_columns(results: Results, positions: IntArray) -> JsonObject:
    """Origin of each observation, its design, its metrics, its violations.

    A parameter stands under its own name, or under ``parameter.NAME`` if that is taken; a
    violation under ``violation.NAME``. Tuples are text: (2048, 256) is "2048x256". Where changed
    inputs were accepted, ``inputs`` counts how often before an observation.
    """
    runs = [results.runs[index] for index in results.run_index[positions]]
    columns = {
        "optimizer": [run.optimizer for run in runs],
        "seed": [run.seed for run in runs],
        "step": results.step[positions],
    }
    taken_names = {
        *columns,
        *results.metrics,
        "feasible",
        "failed",
        "status",
        "reason",
        "hypervolume",
    }
    taken_names |= {"inputs"} if results.accepted else set()
    designs = results.problem.space.columns(results.rows[positions])
    for name, column in designs.items():
        key = f"parameter.{name}" if name in taken_names else name
        columns[key] = [
            ("x".join(map(str, value)) if isinstance(value, tuple) else value)
            for value in column.decoded()
        ]
    columns |= {name: values[positions] for name, values in results.metrics.items()}
    columns |= {
        f"violation.{name}": values[positions] for name, values in results.violations.items()
    }
    columns["feasible"] = results.feasible[positions]
    columns["failed"] = results.failed[positions]
    columns["status"] = [results.status_word(int(position)) for position in positions]
    columns["reason"] = [results.reasons.get(int(position), "") for position in positions]
    columns["hypervolume"] = results.hypervolume[positions]
    if results.accepted:
        columns["inputs"] = results.epoch[positions]
    return columns


def scope_columns(results: Results, scope: str) -> JsonObject:
    """The columns of a scope's observations; where numbers have gaps they are the first.

    Raises:
        InputError: There is no such scope.
    """
    columns = observation_columns(results, positions_of(results, scope))
    if scope == "folded":
        return {"front_number": numbers_of(results, scope)} | columns
    return columns


def results_frame(results: Results, scope: Scope = "all") -> pd.DataFrame:
    """The observations as a pandas data frame, one row each.

    Where a campaign was run: ``frame = results_frame(load_campaign("osworld-prefill").results())``.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    with needing_extra("a data frame", "tables"):
        import pandas as pd
    return pd.DataFrame(scope_columns(results, scope))
