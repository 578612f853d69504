"""The published designs of MemExplorer against its tables (tables/memexplorer_*.yaml)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from codesign.evaluators.npu import NpuEvaluator
from codesign.memtech import load_library
from codesign.space import DesignSpace, load_space
from codesign.workload import Request

TABLES = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parent / "tables").glob("memexplorer_*.yaml"))
}
LABELS = {"design", "phase", "table", "residual"}


@cache
def space() -> DesignSpace:
    return load_space("memexplorer", {"memtech": load_library().catalog()})


@cache
def evaluator(phase: str, **workload: str) -> NpuEvaluator:
    return NpuEvaluator(Request.model_validate({**workload, "phase": phase}))


def evaluate(table: dict[str, Any], cell: dict[str, Any]) -> tuple[float, float]:
    """Our number and the printed one of a cell, whose key that is no label names the metric."""
    (metric,) = set(cell) - LABELS
    designs = space().columns(space().encode(space().designs[cell["design"]]))
    result = evaluator(cell["phase"], **table["workload"]).evaluate(designs, [metric])
    return float(result.metrics[metric][0]), cell[metric]


def cells(part: str | None = None) -> list[Any]:
    return [
        pytest.param(table, cell, id=f"{name}-{cell['design']}-{cell['phase']}-{cell['table']}")
        for name, table in TABLES.items()
        for cell in (table if part is None else table.get(part, {})).get("cells", [])
    ]


@pytest.mark.parametrize(("table", "cell"), cells())
def test_a_published_number_comes_out_within_its_tolerance(
    table: dict[str, Any], cell: dict[str, Any]
) -> None:
    ours, printed = evaluate(table, cell)
    assert abs(ours / printed - 1) <= table["tolerance"]


@pytest.mark.parametrize(("table", "cell"), cells("residuals"))
def test_a_number_that_does_not_come_out_misses_by_its_recorded_residual(
    table: dict[str, Any], cell: dict[str, Any]
) -> None:
    ours, printed = evaluate(table, cell)
    assert abs(ours / printed - 1 - cell["residual"]) <= table["residuals"]["tolerance"]


def test_every_published_design_has_its_batch_and_its_power_in_a_table() -> None:
    for name, count in (("memexplorer_batch", 9), ("memexplorer_tdp", 10)):
        table = TABLES[name]
        listed = [*table["cells"], *table.get("residuals", {}).get("cells", [])]
        assert {cell["design"] for cell in listed} == set(space().designs)
        assert len(listed) == count


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_where_it_is_from_what_is_counted_and_why_its_tolerance(name: str) -> None:
    for key in ("source", "counted", "tolerance", "reason"):
        assert str(TABLES[name][key]).strip()
