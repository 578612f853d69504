"""The energy of measured kernels beside what users get: every error without the row's device."""

import numpy as np
import pytest

from codesign.studies.validation import energy
from codesign.studies.validation.expected_errors import energy_lines
from codesign.studies.validation.study import Study


@pytest.fixture(scope="module")
def study() -> Study:
    return energy.run()


def test_every_row_with_watts_has_all_predictions(study: Study) -> None:
    assert len(study.rows) > 500
    assert {row["device"] for row in study.rows} == {"b200-sxm", "h200-sxm"}
    times = ("measured_time", "measured_time_device", "measured_time_geometry")
    for name in ("error", "held_out", *times):
        assert np.isfinite([row[name] for row in study.rows]).all()
    row = study.rows[0]
    assert row["ours"] == pytest.approx(row["reference"] * (1 + row["error"]))


def test_what_is_held_out_differs_from_what_was_fitted(study: Study) -> None:
    ours, held_out = (np.array([row[name] for row in study.rows]) for name in ("error", "held_out"))
    assert np.mean(ours != held_out) > 0.9
    power_seen, geometry_unseen, device_unseen, seen, unseen = (
        target["measured"] for target in study.targets
    )
    assert power_seen < geometry_unseen < device_unseen < unseen
    assert power_seen < seen < unseen


def test_the_range_of_energy_is_of_rows_whose_device_was_held_out() -> None:
    rows = [{"device": "x", "held_out": error} for error in (-0.5, 0.0, 0.25)]
    study = Study("energy", "?", rows, ())
    (everywhere, own) = energy_lines(study)
    assert everywhere.startswith("  all: {cases: 3, median: 0.250")
    # Measured over predicted: 1 / 0.5, 1 and 1 / 1.25, of which 5 and 95 % lie a tenth inside.
    assert own.endswith("low: 0.820, high: 1.900}")
