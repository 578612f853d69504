"""Plain values and files that appear whole or not at all."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codesign.answers.json_values import json_text, plain_value
from codesign.base.errors import InputError
from codesign.base.files import replacing, replacing_together
from codesign.base.metrics import METRICS
from codesign.base.schema import Record


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
    assert plain_value(value) == plain
    assert json.loads(json_text(value)) == plain


def test_letters_stay_letters():
    assert json_text("Pareto für 3 µs") == '"Pareto für 3 µs"'


def test_a_metric_becomes_an_object():
    assert plain_value(METRICS["tdp_watts"])["unit"] == "W"


def test_numbers_keep_every_digit():
    values = np.random.default_rng(0).uniform(0, 1e9, 100)
    assert json.loads(json_text(values)) == values.tolist()


def test_a_block_that_fails_changes_nothing(tmp_path):
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(ZeroDivisionError), replacing(path) as unfinished:
        unfinished.write_text("new", encoding="utf-8")
        raise ZeroDivisionError
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_made_as_needed(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    with replacing(path) as unfinished:
        unfinished.write_text("new", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == "new"
    assert list(path.parent.iterdir()) == [path]


def test_a_place_below_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        pytest.raises(InputError, match=r"cannot be written: (Not a directory|File exists)"),
        replacing(tmp_path / "file" / "below"),
    ):
        raise AssertionError("not reached")


@pytest.mark.parametrize("n_before_failing", [0, 1, 2])
def test_files_that_belong_together_are_all_new_or_all_old(tmp_path, monkeypatch, n_before_failing):
    paths = [tmp_path / name for name in ("a", "b", "c")]
    paths[0].write_text("old a")
    paths[2].write_text("old c")
    rename, done = Path.replace, []

    def fail(self, target):
        if len(done) == n_before_failing:
            monkeypatch.undo()
            raise OSError(28, "No space left on device")
        done.append(target)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="No space left"), replacing_together(paths) as unfinished:
        for path in unfinished:
            path.write_text("new")
    assert len(done) == n_before_failing
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a": "old a",
        "c": "old c",
    }


def test_files_that_belong_together_take_their_places_and_leave_nothing_else(tmp_path):
    paths = [tmp_path / "below" / name for name in ("a", "b")]
    for text in ("once", "again"):
        with replacing_together(paths) as unfinished:
            for path in unfinished:
                path.write_text(text)
        assert {path.name: path.read_text() for path in (tmp_path / "below").iterdir()} == {
            "a": text,
            "b": text,
        }
