"""Plain values and files that appear whole or not at all."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codesign.errors import InputError
from codesign.files import replacing
from codesign.metrics import METRICS
from codesign.report.plain import to_json_text, to_plain
from codesign.schema import Record


class _Point(Record):
    x: float
    name: str = "p"


@dataclass(frozen=True)
class _Pair:
    left: object
    right: object


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.nan, None),
        (-math.inf, None),
        (np.float64("nan"), None),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1.0, np.inf]]), [[1.0, None]]),
        ((1, "a", None), [1, "a", None]),
        ({"b": {1: (2,)}}, {"b": {"1": [2]}}),
        (_Point(x=1.5), {"x": 1.5, "name": "p"}),
        (_Pair(_Pair(1, 2), math.nan), {"left": {"left": 1, "right": 2}, "right": None}),
        (Path("a/b"), "a/b"),
        ({"z", "a"}, ["a", "z"]),
        (True, True),
    ],
)
def test_everything_becomes_what_json_knows(value, plain):
    assert to_plain(value) == plain
    assert json.loads(to_json_text(value)) == plain


def test_a_metric_becomes_an_object():
    assert to_plain(METRICS["tdp_watts"])["unit"] == "W"


def test_numbers_keep_every_digit():
    values = np.random.default_rng(0).uniform(0, 1e9, 100)
    assert json.loads(to_json_text(values)) == values.tolist()


def test_a_block_that_fails_changes_nothing(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(ZeroDivisionError), replacing(path) as unfinished:
        unfinished.write_text("new", encoding="utf-8")
        raise ZeroDivisionError
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_made_as_needed(tmp_path: Path):
    path = tmp_path / "a" / "b" / "file"
    with replacing(path) as unfinished:
        unfinished.write_text("new", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == "new"
    assert list(path.parent.iterdir()) == [path]


def test_a_place_below_a_file_is_refused_in_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        pytest.raises(InputError, match=r"cannot be written: (Not a directory|File exists)"),
        replacing(tmp_path / "file" / "below"),
    ):
        raise AssertionError("not reached")
