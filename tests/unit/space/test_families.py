"""Families of accelerators in one space: counted, numbered, drawn and walked as any other."""

from pathlib import Path

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.search.optimizers.base import KeySet
from codesign.space import parse_space

FILE = Path(__file__).with_name("families.yaml")
SIZES = {
    "systolic": 5 * 5 * 5 * 5 * 4 * 8,
    "vector": 8**5,
    "tiled": 6**6,
    "dataflow": 8**4,  # of 8^5, those in which two are equal
    "analog": 8 * (10 + 5 * 5),  # one of two modes, each with parameters of its own
}


@pytest.fixture(scope="module")
def families():
    return parse_space(FILE.read_text("utf-8"))


def test_the_designs_of_all_families_are_added_up(families):
    assert families.size == sum(SIZES.values()) == 103_800
    rows = families.rows(np.arange(families.size))
    assert families.contains(rows).all()
    assert np.bincount(rows[:, 0]).tolist() == list(SIZES.values())
    assert (families.numbers(rows) == np.arange(families.size)).all()
    assert len(np.unique(rows, axis=0)) == families.size


def test_fixing_the_family_leaves_its_own_designs(families):
    for family, size in SIZES.items():
        assert families.fix({"family": family}).size == size


def test_keys_beyond_64_bits_tell_designs_apart(families):
    rows = families.rows(np.arange(0, families.size, 7))
    keys = families.keys(rows)
    assert keys.dtype == object
    assert max(keys) >= 2**63
    assert len(np.unique(keys)) == len(rows)
    seen = KeySet()
    for part in np.array_split(keys[::2], 3):
        seen.add(part)
    assert len(seen) == len(keys[::2])
    assert seen.contains(keys).tolist() == [place % 2 == 0 for place in range(len(keys))]


def test_one_move_leads_into_every_other_family(families):
    for number in np.linspace(0, families.size - 1, 9).astype(np.int64):
        (row,) = families.rows(np.array([number]))
        near = families.neighbors(row)
        assert families.contains(near).all()
        assert set(near[:, 0]) == set(range(5))
        assert len(near) < 280 + 4 * 64 + 100  # analog has 280 designs, and all are tried


def test_few_ways_to_fill_in_are_all_tried_and_of_many_some_that_are_feasible():
    text = "parameters:\n  kind: [plain, rich]\n" + "".join(
        f"  p{i}: {{low: 1, high: {{high}}, when: kind == rich}}\n" for i in range(5)
    )
    text += "constraints: [kind == plain or p0 == p1]\n"
    few = parse_space(text.replace("{high}", "3"))
    assert len(few.neighbors(np.array([0, -1, -1, -1, -1, -1]))) == 3**4
    many = parse_space(text.replace("{high}", "8"))
    near = many.neighbors(np.array([0, -1, -1, -1, -1, -1]))
    assert len(near) == 64
    assert (near[:, 1] == near[:, 2]).all()
    assert len(np.unique(near[:, 1])) == 8


def test_parameters_far_apart_in_the_file_are_brought_together():
    """20 equal pairs, in the file's order 16^20 states."""
    names = [f"{letter}{i}" for letter in "ab" for i in range(20)]
    text = "parameters:\n  all: [yes, no]\n"
    text += "".join(f"  {name}: {{low: 1, high: 16, when: all == yes}}\n" for name in names)
    text += "constraints:\n" + "".join(f"  - a{i} == b{i}\n" for i in range(20))
    space = parse_space(text)
    assert space.size == 16**20 + 1
    rows = space.sample(np.random.default_rng(0), 50)
    assert space.contains(rows).all()
    assert (space.rows(space.numbers(rows)) == rows).all()


def test_a_row_that_is_no_design_has_no_number(families):
    row = families.rows(np.array([5]))
    row[0, 1] = -1
    with pytest.raises(InputError, match="a row is not a design of space"):
        families.numbers(row)


def test_choices_of_a_large_component_are_spread_each_by_itself():
    names = [f"p{i}" for i in range(40)]
    text = "parameters:\n  kind: [x, y]\n"
    text += "".join(f"  {name}: {{low: 1, high: 4, when: kind == x}}\n" for name in names)
    space = parse_space(text)
    assert space.size == 4**40 + 1
    assert space.n_coordinates == 41
    points = (np.arange(64)[:, None] * np.arange(1, 82, 2)[None, :] % 64 + 0.5) / 64
    levels = space.sobol_rows(points)[:, 1:]
    assert ((levels == 0).mean(axis=0) == 0.25).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "parameters:\n  f: [x, y]\n  a: {values: [1, 2], when: b > 1}\n"
            "  b: {values: [1, 2], when: c > 1}\n  c: {values: [1, 2], when: a > 1}",
            "space:3: parameters.a: the conditions go in a circle: a -> b -> c -> a",
        ),
        ("parameters:\n  f: [x]\n  a: {values: [1], when: g == x}", "unknown name 'g'"),
        ("parameters:\n  f: [x, y]\n  a: {values: [1], when: f == z}", "unknown value of f 'z'"),
    ],
)
def test_a_mistake_in_a_condition_is_one_line_with_its_place(text, message):
    with pytest.raises(InputError) as caught:
        parse_space(text)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("space:3: parameters.a")
    assert message in line
