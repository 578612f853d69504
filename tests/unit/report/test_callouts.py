"""A name's place is the best of all, though most leaders are never followed."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from codesign.report import callouts


def _crowd_of_every_place(scene, boxes, leaders):
    """(k,) how much each box and its leader meet: all of them are followed."""
    low, high = scene.frame[:2], scene.frame[2:]
    is_outside = (boxes[:, :2] < low).any(axis=1) | (boxes[:, 2:] > high).any(axis=1)
    over_texts = callouts._n_met(boxes, scene._texts)
    on_marks, on_dots = (callouts._n_met(boxes, drawn) for drawn in (scene._marks, scene._dots))
    over_marks = on_marks + callouts._ON_LINE * (on_marks > 0) + callouts._ON_DOT * on_dots
    for index in np.flatnonzero(~is_outside & (over_texts == 0)):
        leader = leaders.to(index)
        if leader is not None:
            places = callouts._around(leader, 0.5)
            over_texts[index] += callouts._n_met(places, scene._texts).any()
            crossed = callouts._n_met(scene._dots, places) > 0
            over_marks[index] += callouts._ACROSS_DOT * crossed.sum()
    weights = callouts._ON_DOT + callouts._ACROSS_DOT
    worst = callouts._ON_LINE + len(scene._marks) + weights * len(scene._dots) + 1
    return over_marks + worst * over_texts + 1e6 * worst * is_outside


@pytest.mark.parametrize(("seed", "n_dots"), [(0, 5), (1, 40), (2, 150), (3, 150)])
def test_the_place_chosen_is_the_first_of_the_best_of_all(seed, n_dots):
    points = np.random.default_rng(seed).random((n_dots, 2))
    axes = Figure((3.5, 2.6)).subplots()
    axes.scatter(*points.T, s=9)
    axes.plot(*points[np.argsort(points[:, 0])].T)
    scene = callouts._Scene(axes)
    places = scene.place(points[:5])
    scene.block(callouts._around(places, 3.0), are_dots=True)
    n_led = 0
    for place in places:
        wide, high = scene.extent("a name of a design, 700 W")
        centers = place + callouts._offsets(wide, high, 3.0)
        boxes = callouts._boxes(centers, wide, high)
        leaders = callouts._Leaders(place, centers)
        expected = _crowd_of_every_place(scene, boxes, leaders)
        chosen, crowd = scene.choose(boxes, leaders)
        assert (chosen, crowd) == (np.argmin(expected), expected.min())
        scene.write(boxes[chosen], leaders.to(chosen))
        n_led += leaders.to(chosen) is not None
    assert n_led > 0 or n_dots < 40


@pytest.mark.parametrize(("n_boxes", "n_drawn"), [(40, 60), (0, 3), (3, 0)])
def test_a_box_meets_what_overlaps_it_in_both_directions(n_boxes, n_drawn):
    rng = np.random.default_rng(n_boxes)
    boxes, drawn = (
        callouts._around(rng.integers(0, most, (n, 2)), rng.integers(1, 4, (n, 1)))
        for n, most in ((n_boxes, 20), (n_drawn, 60))
    )
    expected = [
        sum(max(x0, a0) < min(x1, a1) and max(y0, b0) < min(y1, b1) for a0, b0, a1, b1 in drawn)
        for x0, y0, x1, y1 in boxes
    ]
    assert callouts._n_met(boxes, drawn).tolist() == expected
