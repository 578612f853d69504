"""Answers of the sliders: they are the filter and the rules of Python, looked up."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.answers.json_values import json_text
from codesign.report.page import tighter_limits
from codesign.report.page.packing import packed
from codesign.report.page.tighter_limits import limit_document
from codesign.report.picks import recommended
from codesign.search.enumeration import kept_front
from codesign.search.pareto import fold


@pytest.fixture(scope="module")
def results(make_results):
    """Results of a problem that is soon enumerated."""
    made = make_results(2)
    few = {"pe_array": [512, 64], "tier2_technology": "none", "dataflow": "os",
           "storage_priority": "equal", "bandwidth_priority": "equal"}  # fmt: skip
    return replace(made, problem=replace(made.problem, space=made.problem.space.fix(few)))


@pytest.fixture(scope="module")
def kept(results, tmp_path_factory):
    return kept_front(results.problem, ["area_mm2"], tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def document(results, kept):
    return limit_document(results, kept, {})


def _bounds(results, kept, key):
    """The limits that a key of the table stands for."""
    handles = tighter_limits.limit_points(results, kept, False).handles
    places = (map(int, entry.split(":")) for entry in key.split(",") if entry)
    return {
        handles[i].metric.name: handles[i].objective.flipped(handles[i].bounds[p])
        for i, p in places
    }


def test_every_answer_is_the_front_within_its_limits_and_what_is_recommended_there(
    document, results, kept
):
    points, objectives = document["points"], results.problem.objectives
    keys = list(document["table"])
    assert sum("," in key for key in keys) > len(keys) / 2
    for key in [*keys[:20], *keys[:: len(keys) // 40]]:
        answer = document["answers"][document["table"][key]]
        front = kept.positions(_bounds(results, kept, key))
        minimized = kept.front.objectives[front, : kept.n_objectives]
        # Equal points of different designs: the first one stands for all.
        values = np.column_stack([points["values"][item.metric.name] for item in objectives])
        drawn = results.problem.flipped(values[answer["front"]])
        order = np.lexsort(drawn.T)
        assert np.array_equal(drawn[order], minimized[np.lexsort(minimized.T)])
        under = fold(minimized, 1)
        picks = recommended(objectives, minimized, np.flatnonzero(under == np.arange(len(front))))
        assert [pick["key"] for pick in answer["picks"]] == [pick.key for pick in picks]
        places = [results.problem.flipped(values[pick["point"]]) for pick in answer["picks"]]
        assert np.array_equal(places, [minimized[pick.place] for pick in picks])


def test_limits_that_nothing_keeps_say_so(document):
    empty = [answer for answer in document["answers"] if not answer["front"]]
    assert empty and empty[0]["text"] == "No design meets all these limits."
    assert empty[0]["picks"] == []


def test_a_point_that_is_not_on_the_page_has_the_command_that_explains_it(document):
    points = document["points"]
    assert set(points["ids"]) == {None}
    assert points["commands"][0].startswith("codesign evaluate --campaign by-hand --set ")
    assert "hbm4_12h" not in " ".join(points["words"])


def test_without_any_front_a_line_says_how_to_get_one(results):
    assert limit_document(results, None, {}) == {
        "sliders": [],
        "hint": "“codesign enumerate by-hand” adds sliders for limits.",
    }


def test_more_points_than_a_page_carries_are_left_out_with_a_word(results, kept, monkeypatch):
    monkeypatch.setattr(tighter_limits, "MOST_POINTS", 3)
    document = limit_document(results, kept, {})
    assert document["sliders"] == []
    assert "more than the 3 that a page carries. Keep fewer metrics with" in document["hint"]


def test_a_large_set_is_thinned_until_it_fits_and_the_page_says_so(results, kept, monkeypatch):
    points = np.linspace(300.0, 1.0, 200)[:, None] * [-3.0, 1.0, 2.0]
    rows = kept.problem.space.sample(np.random.default_rng(0), len(points))
    front = replace(kept.front, objectives=points, rows=rows, point=np.arange(len(points)))
    texts = []
    for most, hint in ((80_000, ""), (45_000, "under moved limits."), (20_000, "one change")):
        monkeypatch.setattr(tighter_limits, "MOST_BYTES", most)
        thin = limit_document(results, replace(kept, front=front), {})
        size = 140 * len(thin["points"]["ids"]) + len(packed(json_text(thin, indent=None)))
        assert size <= most and hint in thin["hint"]
        texts.append({key: thin["answers"][n]["text"] for key, n in thin["table"].items()})
    assert texts[0] == texts[1] and texts[2].items() < texts[0].items()
