"""A function of Python is searched without files: ask, tell, and the front."""

import pytest

import codesign
from codesign.base.errors import InputError

SPACE = {"width": [1, 2, 3, 4], "height": {"values": [1, 2, 3, 4]}}


def beam(design):
    width, height = design["width"], design["height"]
    return {"mass": width * height, "sag": 8 / (width * height**3), "stress": 6 / height}


def study(**settings):
    return codesign.Study(SPACE, ["minimize mass", "minimize sag"], initial=4, **settings)


def test_a_searched_front_is_that_of_all_designs():
    found = codesign.optimize(
        beam, SPACE, ["minimize mass", "minimize sag"],
        constraints=["stress <= 3"], numbers=["stress"], budget=99, initial=4, optimizer="random",
    )  # fmt: skip
    assert len(found) == 16
    # A taller beam is better than a wider one of the same mass; height 1 is too weak.
    sides = [(1, 2), (1, 3), (1, 4), (2, 4), (3, 4), (4, 4)]
    designs = [{"width": width, "height": height} for width, height in sides]
    assert found.front() == [design | beam(design) for design in designs]


def test_an_objective_is_maximized_or_minimized_as_it_says():
    for sense, sides in (("maximize", (4, 4)), ("minimize", (1, 1))):
        [best] = codesign.optimize(beam, SPACE, [f"{sense} mass"], budget=16).front()
        assert (best["width"], best["height"]) == sides


def test_the_same_results_give_the_same_proposals_and_none_twice():
    proposals = []
    for _ in range(2):
        search = study(seed=3)
        for _ in range(4):
            designs = search.ask(2)
            search.tell(designs, [beam(design) for design in designs])
        proposals.append(search.frame())
    assert proposals[0].equals(proposals[1])
    assert not proposals[0].duplicated(["width", "height"]).any()


def test_a_design_without_a_result_is_on_no_front():
    search = study()
    designs = search.ask(2)
    search.tell(designs, [None, beam(designs[1])])
    assert [row["mass"] for row in search.front()] == [beam(designs[1])["mass"]]
    assert "Front: 1 designs" in search._repr_html_()
    assert ">front<" in codesign.plot(search).svg


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.tell(s.ask(1), []), "expected a result per design, 1, got 0"),
        (lambda s: s.tell(s.ask(1), [{"mass": 1}]), "expected a number for 'sag', got None"),
        (lambda s: s.tell(s.ask(1), [3]), "expected numbers by name, got 3"),
        (lambda s: study(seed=-1), "expected numbers from 0, got initial=4 and seed=-1"),
        (lambda s: codesign.Study(SPACE, "minimize mass"), "expected lists, got a text"),
        (lambda s: codesign.optimize(beam, SPACE, [], budget=0), "a budget of at least 1, got 0"),
        (lambda s: s.tell([{"width": 9, "height": 1}], [None]), "unknown value of width"),
        (lambda s: codesign.Study(SPACE, ["minimize width"]), "'width' is a parameter"),
        (lambda s: codesign.Study(SPACE, ["minimise mass"]), "Did you mean 'minimize'"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call(study())
