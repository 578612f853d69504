"""The document of the sliders: what is carried, and what is said if it cannot be."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.report.page import tighter_limits
from codesign.report.page.tighter_limits import limit_document
from codesign.search.enumeration import kept_front


@pytest.fixture(scope="module")
def results(make_results):
    """Results of a problem that is soon enumerated."""
    made = make_results(2)
    few = {"pe_array": [512, 64], "tier2_technology": "none", "dataflow": "os",
           "storage_priority": "equal", "bandwidth_priority": "equal"}  # fmt: skip
    return replace(made, problem=replace(made.problem, space=made.problem.space.fix(few)))


def test_every_point_is_there_with_its_numbers_to_the_last_bit(results, tmp_path):
    kept = kept_front(results.problem, ["area_mm2"], tmp_path)
    document = limit_document(results, kept)
    assert document["metrics"] == ["throughput_tokens_per_s", "tdp_watts", "area_mm2"]
    metrics = results.problem.evaluate(kept.front.representatives()).metrics
    for name in document["metrics"]:
        assert np.array_equal(document["values"][name], metrics[name])
    assert len(document["words"]) == len(kept)
    assert document["short"]["hbm4_12h"] == "HBM4"
    assert document["hint"] == ""
    has_lpddr = ["LPDDR" in words for words in document["words"]]
    assert [family == "LPDDR" for family in document["uncharged"]] == has_lpddr
    assert any(has_lpddr) and not all(has_lpddr)


def test_ranges_of_every_point_are_carried_if_there_are_draws_enough(
    results, tmp_path, monkeypatch
):
    kept = kept_front(results.problem, ["area_mm2"], tmp_path)
    assert limit_document(results, kept)["ranges"] is None
    ranges = limit_document(results, kept, 60)["ranges"]
    assert ranges["samples"] == 60
    assert set(ranges["values"]) == {"tdp_watts", "area_mm2"}  # nothing moves the throughput
    for rows in ranges["values"].values():
        assert np.shape(rows) == (len(kept), len(ranges["levels"]))
        assert (np.diff(rows, axis=1) >= 0).all()
    monkeypatch.setattr(tighter_limits, "_MOST_DRAWN", 49 * len(kept))
    assert limit_document(results, kept, 60)["ranges"] is None


def test_without_any_front_a_line_says_how_to_get_one(results):
    assert limit_document(results, None) == {
        "hint": "Sliders for shoreline, area, unit cost, time to first token, junction temperature "
        "come with “codesign enumerate by-hand --keep usual”."
    }


def test_more_points_than_a_page_carries_are_left_out_with_a_word(results, tmp_path, monkeypatch):
    monkeypatch.setattr(tighter_limits, "MOST_POINTS", 3)
    document = limit_document(results, kept_front(results.problem, ["area_mm2"], tmp_path))
    assert list(document) == ["hint"]
    assert "more than the 3 that a page carries: keep fewer metrics with" in document["hint"]
