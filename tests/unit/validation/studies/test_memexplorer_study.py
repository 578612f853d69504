"""The study of MemExplorer's tables."""

import math
from dataclasses import replace

import pytest

from validation.studies.memexplorer_study import (
    compute,
    load_cells,
    log_error,
    ratios,
    run,
)


@pytest.fixture(scope="module")
def study():
    return run()


def test_every_cell_is_a_row_with_both_profiles_and_their_errors(study):
    assert len(study.rows) == sum(len(cells) for cells in load_cells().values())
    for row in study.rows:
        assert row["error"] == pytest.approx(row["ours"] / row["reference"] - 1)
        assert row["plain_error"] == pytest.approx(row["plain"] / row["reference"] - 1)


def test_batch_power_and_ratios_come_out_as_promised(study):
    assert [target["is_met"] for target in study.targets] == [True, True, True]
    assert study.targets[-1]["target"] == "<= 0.2"
    assert study.targets[-1]["measured"] == log_error(ratios(), "memexplorer")


def test_calibration_brings_the_ratios_closer_than_plain_physics(study):
    by_group = {line["group"]: line["median_absolute_error"] for line in study.summary}
    assert by_group["all 14 ratios, calibrated"] < by_group["all 14 ratios, plain"]


def test_the_notes_carry_the_arithmetic_of_what_cannot_come_out(study):
    text = " ".join(study.notes)
    # A block: 4096 tokens x 856 M weights and 2 x 8192 x 4096^2 of attention, 262,144 a cycle.
    assert "14.4 ms" in text
    # 70.55 GB of weights and 98,000 or 119,000 tokens of 163,840 bytes.
    assert "86.6 GB (osworld), 90.1 GB (bfcl)" in text
    # 1.44 x 257.4 / 239.27 and 1.44 x 300.1 / 249.90.
    assert "1.55 (D1 by average), 1.73 (D1 by TDP)" in text


def test_the_logarithmic_error_counts_a_half_and_a_double_alike():
    cell = ratios()[0]
    ours = compute(cell, "plain")
    pair = [replace(cell, printed=2 * ours), replace(cell, printed=ours / 2)]
    assert log_error(pair, "plain") == pytest.approx(math.log(2), rel=1e-12)


def test_the_notes_say_how_far_the_calibration_carries(study):
    text = " ".join(study.notes)
    assert "in-sample" in text
    assert "no number serves one cell alone" in text
    # 90,000 tokens at 1.48 a second.
    assert "16.9 hours" in text
