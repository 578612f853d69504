"""The study of LIFE's tables."""

from dataclasses import replace

import pytest

from validation.studies.life_study import LifeCell, compute, load_cells, run


@pytest.fixture(scope="module")
def study():
    return run()


def test_every_table_comes_out_as_printed_but_for_the_remarks(study):
    assert [target["is_met"] for target in study.targets] == [True] * 8
    assert len(study.rows) == len(load_cells())


def test_a_remark_stands_only_where_the_number_does_not_come_out(study):
    remarked = [row for row in study.rows if row["remark"]]
    assert len(remarked) == 10
    assert not any(row["is_reproduced"] for row in remarked)
    assert sum(row["what"] in note for row in remarked for note in study.notes) == 10


def test_misprints_would_come_out_corrected():
    corrected = {("ttft_50_s", 84.34): 86.34, ("giga_ops", 25.60): 26.60, ("ttft_50_s", 0.22): 0.23}
    found = 0
    for cell in load_cells():
        right = corrected.get((cell.quantity, cell.printed))
        if right is not None and cell.remark:
            found += 1
            assert replace(cell, printed=right).is_reproduced_by(compute(cell))
    assert found == 3


@pytest.mark.parametrize(
    ("is_cut_off", "ours", "is_same"),
    [(False, 2.449, True), (False, 2.451, False), (True, 2.499, True), (True, 2.399, False)],
)
def test_printed_precision_is_rounding_or_cutting_off(is_cut_off, ours, is_same):
    cell = LifeCell(1, "prefill", "tera_ops", 2.4, 1, {}, 0.0, is_cut_off, "")
    assert cell.is_reproduced_by(ours) is is_same
