"""Traffic of profile plain against the best mappings of AccelForge."""

import numpy as np

from validation.studies import best_mappings


def test_traffic_is_never_below_the_best_mapping_and_near_it():
    study = best_mappings.run()
    errors = np.array([row["error"] for row in study.rows])
    assert len(errors) == 100
    assert errors.min() >= -1e-9
    assert (errors <= 0.15).sum() >= 97


def test_an_operand_streamed_twice_is_found(monkeypatch):
    law = best_mappings.blocked_passes
    monkeypatch.setattr(best_mappings, "blocked_passes", lambda *x: tuple(2 * p for p in law(*x)))
    near = best_mappings.run().targets[0]["measured"]
    assert int(near.split()[0]) < 10
