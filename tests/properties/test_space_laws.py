"""Laws of every design space, on random small ones that are also worked out by hand."""

import itertools
import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from codesign.base.catalog import Catalog
from codesign.space import parse_space

CATALOG = Catalog(
    units={"speed": "B/s"},
    entries={"p": {"speed": 4.0}, "q": {"speed": 4.0}, "r": {"speed": 2.0}, "s": {"speed": 1.0}},
)
SPEED = {name: entry["speed"] for name, entry in CATALOG.entries.items()}


@st.composite
def definitions(draw):
    """A space with every construct, small enough to be listed by brute force."""
    levels = draw(st.integers(1, 3))
    minimum = draw(st.integers(0, 2))
    return {
        "a": list(range(1, levels + 1)),
        "b": draw(st.sampled_from([["x"], ["x", "y"]])),
        "b_optional": draw(st.booleans()),
        "c": draw(st.integers(1, 3)),
        "c_needs": draw(st.sampled_from(["x", "none"])),
        "names": draw(st.lists(st.sampled_from("pqrs"), min_size=1, max_size=3, unique=True)),
        "counts": draw(st.sampled_from([[1], [1, 2]])),
        "minimum": minimum,
        "maximum": draw(st.integers(max(1, minimum), 3)),
        "tag": draw(st.booleans()),
        "limit": draw(st.integers(1, 30)),
    }


def built(given_space):
    parameters = {"kind": {"from": "memory", "values": given_space["names"]}}
    parameters["count"] = {"values": given_space["counts"]}
    if given_space["tag"]:
        parameters["tag"] = {"values": [True, False], "when": "count >= 2 and a >= 2"}
    definition = {
        "parameters": {
            "a": {"values": given_space["a"]},
            "b": {"values": given_space["b"], "optional": given_space["b_optional"]},
            "c": {"low": 0, "high": given_space["c"], "when": f"b == {given_space['c_needs']}"},
            "free": {"values": [[1, 2], [3, 4]]},
        },
        "repeated": {
            "part": {
                "minimum": given_space["minimum"],
                "maximum": given_space["maximum"],
                "parameters": parameters,
                "order": "kind.speed * count",
            }
        },
        "derived": {"total": {"value": "sum(part, kind.speed * count)", "feature": True}},
        "constraints": [f"total / 1 B * 1 s + a + c <= {given_space['limit']}"],
    }
    return parse_space(json.dumps(definition), {"memory": CATALOG})


def by_hand(given_space):
    """The designs as sets of what they consist of, found without any of the space's code."""
    designs = set()
    tags = [True, False, None] if given_space["tag"] else [None]
    repetitions = list(itertools.product(given_space["names"], given_space["counts"], tags))
    for a in given_space["a"]:
        for b in [*given_space["b"], *([None] if given_space["b_optional"] else [])]:
            needed = None if given_space["c_needs"] == "none" else given_space["c_needs"]
            for c in range(given_space["c"] + 1) if b == needed else [None]:
                for held in _held(given_space, repetitions):
                    needs = [given_space["tag"] and r[1] >= 2 and a >= 2 for r in held]
                    if any((r[2] is not None) != n for r, n in zip(held, needs, strict=True)):
                        continue
                    if sum(SPEED[r[0]] * r[1] for r in held) + a + (c or 0) <= given_space["limit"]:
                        designs |= {(a, b, c, free, held) for free in ((1, 2), (3, 4))}
    return designs


def _held(given_space, repetitions):
    for number in range(given_space["minimum"], given_space["maximum"] + 1):
        for held in itertools.combinations_with_replacement(repetitions, number):
            yield tuple(sorted(held, key=repr))


def told(space, given_space, rows):
    """Rows in the form of :func:`by_hand`."""
    designs = []
    for design in space.decode(rows):
        held = [
            tuple(design.get(f"part{k}_{name}") for name in ("kind", "count", "tag"))
            for k in range(1, given_space["maximum"] + 1)
        ]
        there = tuple(sorted((r for r in held if r[0] is not None), key=repr))
        designs.append((design["a"], design["b"], design["c"], design["free"], there))
    return designs


def space_or_none(given_space):
    return built(given_space) if by_hand(given_space) else None


@settings(max_examples=40, deadline=None)
@given(definitions())
def test_the_designs_are_those_of_a_search_by_hand(given_space):
    space = space_or_none(given_space)
    if space is None:
        return
    expected = by_hand(given_space)
    rows = space.rows(np.arange(space.size))
    assert space.size == len(expected) == len(rows)
    assert set(told(space, given_space, rows)) == expected
    assert space.contains(rows).all()
    assert len(np.unique(space.keys(rows))) == len(rows)
    assert (space.canonical(rows) == rows).all()


@settings(max_examples=40, deadline=None)
@given(definitions(), st.integers(0, 2**32 - 1))
def test_arbitrary_rows_have_one_canonical_form_and_one_key(given_space, seed):
    space = space_or_none(given_space)
    if space is None:
        return
    rng = np.random.default_rng(seed)
    levels = [len(parameter.values) for parameter in space.parameters]
    rows = rng.integers(-1, levels, size=(300, len(levels)))
    canonical = space.canonical(rows)
    assert (space.canonical(canonical) == canonical).all()
    keys = space.keys(rows)
    assert (keys == space.keys(canonical)).all()
    n_rows = len(np.unique(canonical, axis=0))
    assert len(np.unique(keys)) == n_rows
    # What it contains among arbitrary rows is exactly the listed designs.
    listed = {tuple(row) for row in space.rows(np.arange(space.size)).tolist()}
    inside = space.contains(rows)
    assert [tuple(row) in listed for row in rows.tolist()] == inside.tolist()


@settings(max_examples=40, deadline=None)
@given(definitions(), st.integers(0, 2**32 - 1))
def test_designs_survive_every_coordinate_system(given_space, seed):
    space = space_or_none(given_space)
    if space is None:
        return
    rng = np.random.default_rng(seed)
    rows = space.sample(rng, 100)
    assert space.contains(rows).all()
    unit = space.points(rows)
    assert ((unit >= 0) & (unit <= 1)).all()
    assert (space.rows_near(unit) == rows).all()
    for row, design in zip(rows[:10], space.decode(rows[:10]), strict=True):
        assert (space.encode(design)[0] == row).all()
    cube = space.sobol_rows(rng.random((50, space.n_coordinates)))
    assert space.contains(cube).all()
    corners = space.rows_near(rng.integers(0, 2, size=(20, rows.shape[1])).astype(float))
    assert (space.canonical(corners) == corners).all()
    features = space.features(rows)
    assert features.min(initial=0) >= -1e-9
    assert features.max(initial=0) <= 1 + 1e-9


@settings(max_examples=30, deadline=None)
@given(definitions(), st.integers(0, 2**32 - 1))
def test_neighbors_are_other_designs_of_the_space_each_once(given_space, seed):
    space = space_or_none(given_space)
    if space is None:
        return
    (row,) = space.sample(np.random.default_rng(seed), 1)
    others = space.neighbors(row)
    assert space.contains(others).all()
    assert len(np.unique(space.keys(others))) == len(others)
    assert not (others == row).all(axis=1).any()


def test_every_design_can_be_reached_by_moves():
    space = built(
        {"a": [1, 2, 3], "b": ["x", "y"], "b_optional": True, "c": 2, "c_needs": "x",
         "names": ["p", "q", "s"], "counts": [1, 2], "minimum": 1, "maximum": 2, "tag": True,
         "limit": 14}
    )  # fmt: skip
    reached, pending = set(), [space.rows(np.array([0]))[0]]
    while pending:
        row = pending.pop()
        if tuple(row) not in reached:
            reached.add(tuple(row))
            pending += list(space.neighbors(row))
    assert len(reached) == space.size


def test_sampling_is_uniform_over_designs():
    space = built(
        {"a": [1, 2], "b": ["x", "y"], "b_optional": True, "c": 1, "c_needs": "x",
         "names": ["p", "r"], "counts": [1, 2], "minimum": 0, "maximum": 2, "tag": False,
         "limit": 14}
    )  # fmt: skip
    rows = space.sample(np.random.default_rng(7), 200 * space.size)
    _, counts = np.unique(space.keys(rows), return_counts=True)
    assert len(counts) == space.size
    assert chisquare(counts).pvalue > 1e-3


def test_evenly_spread_points_give_every_design_of_a_component_its_share():
    space = parse_space('{"parameters": {"a": [1, 2, 3], "b": ["x", "y"]}}')
    grid = np.stack(np.meshgrid(*[(np.arange(12) + 0.5) / 12] * 2), axis=-1).reshape(-1, 2)
    _, counts = np.unique(space.keys(space.sobol_rows(grid)), return_counts=True)
    assert counts.tolist() == [24] * 6


def test_levels_own_equal_shares_of_the_unit_cube():
    space = parse_space(
        '{"parameters": {"a": [1, 2, 3], "b": {"values": [1, 2], "optional": true}}}'
    )
    points = (np.arange(300) + 0.5) / 300
    rows = space.rows_near(np.stack([points, points], axis=1))
    assert [np.bincount(column + 1, minlength=4).tolist() for column in rows.T] == [
        [0, 100, 100, 100],
        [100, 100, 100, 0],
    ]
    assert space.rows_near(np.array([[0.0, 0.0], [1.0, 1.0], [-3.0, 7.0]])).tolist() == [
        [0, -1],
        [2, 1],
        [0, 1],
    ]
