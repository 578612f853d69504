"""The energy of measured kernels beside what users get, without a row's geometry or device."""

import numpy as np
import pytest

from validation.studies import kernel_energy
from validation.studies.expected_errors import energy_lines
from validation.studies.kernel_families import energy
from validation.studies.kernels import measured_kernels
from validation.studies.study import Study


@pytest.fixture(scope="module")
def study():
    """All rows with watts; of the others, to which times are fitted, every fifth."""
    table, reasons = measured_kernels()
    sample = (energy.left_out(table) == "") | (np.arange(len(table)) % 5 == 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_energy, "measured_kernels", lambda: (table.take(sample), reasons))
        return kernel_energy.run()


def test_every_row_with_watts_has_all_predictions(study):
    assert len(study.rows) > 500
    assert {row["device"] for row in study.rows} == {"b200-sxm", "h200-sxm"}
    for name in ("error", "held_out", "measured_time"):
        assert np.isfinite([row[name] for row in study.rows]).all()
    row = study.rows[0]
    assert row["ours"] == pytest.approx(row["reference"] * (1 + row["error"]))


def test_what_is_held_out_differs_from_what_was_fitted(study):
    ours, held_out = (np.array([row[name] for row in study.rows]) for name in ("error", "held_out"))
    assert np.mean(ours != held_out) > 0.9
    power_seen, seen, unseen = (target["measured"] for target in study.targets)
    assert power_seen < seen < unseen


def test_the_watts_of_boards_that_nobody_fitted_are_predicted(study):
    """Constants are of an H100: 11 % in the median, of products 3 %."""
    assert study.targets[0]["measured"] < 0.12
    large = [row for row in study.rows if row["group"] == "gemm"]
    assert np.median(np.abs([row["measured_time"] for row in large])) < 0.05


def test_ranges_of_energy_are_without_the_geometry_here_and_without_the_device_elsewhere():
    errors = (-0.5, 0.0, 0.25)
    rows = [{"device": "x", "held_out": error, "error": 0.0} for error in errors]
    everywhere, card, own = energy_lines(Study("energy", "?", rows, ()))
    assert card.startswith("  h100-sxm: {cases: 13, ")
    assert own.startswith("  x: {cases: 3, median: 0.000")
    assert everywhere.startswith("  all: {cases: 3, median: 0.250")
    # Measured over predicted: 1 / 0.5, 1 and 1 / 1.25, of which 5 and 95 % lie a tenth inside.
    assert everywhere.endswith("low: 0.820, high: 1.900}")
