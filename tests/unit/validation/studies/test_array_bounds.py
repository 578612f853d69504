"""The study of the array's lower bounds, small, and that it sees faults."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.evaluators.npu import operator_times
from codesign.models.hardware.array import flattened_cycles
from codesign.models.workload import Request, list_models
from validation.studies import array_bounds
from validation.studies.study import Study


def small() -> Study:
    return array_bounds.run(seed=1, size=60)


@pytest.fixture(scope="module")
def study() -> Study:
    return small()


def test_no_product_is_below_its_bound_and_what_is_far_is_padding(study: Study) -> None:
    assert [target["is_met"] for target in study.targets] == [True, True]
    far = [row for row in study.rows if row["error"] + 1 > array_bounds.FAR]
    assert far
    for row in far:
        start = f"{row['operator']}, {row['reason']}: "
        (note,) = (note for note in study.notes if note.startswith(start))
        assert f"{row['model']} {row['phase']} {row['error'] + 1:.3g} x" in note


def test_every_product_of_every_model_is_there(study: Study) -> None:
    rows = {(row["model"], row["phase"], row["operator"]) for row in study.rows}
    assert len(rows) == len(study.rows)
    for model in list_models():
        for phase in ("prefill", "decode"):
            table = Request(model=model, phase=phase, trace="osworld").operators()
            products = {name for name, m in zip(table.names, table.m_per_request, strict=True) if m}
            assert {row[2] for row in rows if row[:2] == (model, phase)} == products


def test_an_array_twice_as_fast_as_it_can_be_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments):  # type: ignore[no-untyped-def]  # a fault
        return 0.5 * flattened_cycles(*arguments)

    monkeypatch.setattr(operator_times, "flattened_cycles", wrong)
    assert [target["is_met"] for target in small().targets] == [False, True]


def test_one_key_per_cycle_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(k, depth, organization, is_per_head):  # type: ignore[no-untyped-def]  # a fault
        return np.ones(np.broadcast(k, depth).shape)

    monkeypatch.setattr(operator_times, "column_slots", wrong)
    study = small()
    assert [target["is_met"] for target in study.targets] == [True, False]
    unexplained = {row["operator"] for row in study.rows if row["error"] > 3 and not row["reason"]}
    assert "attention_qk" in unexplained


def test_a_reason_is_the_padding_along_each_axis() -> None:
    unit = np.array([1.0])
    item = array_bounds.BoundedProduct(
        model="a model",
        phase="decode",
        name="a product",
        kind="gemm",
        rows=65 * unit,
        inner=100.0,
        columns=60.0,
        n_products=2 * unit,
        is_per_head=False,
        depth=200 * unit,
        width=64 * unit,
        cycles=2 * flattened_cycles(65.0, 100.0, 60.0, 200.0, 64.0) * unit,
    )
    assert float(item.ratio[0]) == pytest.approx((128 / 65) * (200 / 100))
    assert item.reason(0) == ("inner size 100 padded to MLEN 200, 65 rows padded to BLEN 64")
