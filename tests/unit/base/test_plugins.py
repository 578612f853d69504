"""What goes wrong in a plug-in is said of the plug-in: its package, its file and its line."""

import re

import pytest

from codesign.base import plugins
from codesign.cli import main

MODULE = """
from codesign.base.evaluator import Evaluator
from codesign.base.metrics import METRICS
from codesign.base.schema import Record


class Raises(Evaluator):
    Workload = Options = Record
    metrics = (METRICS["tdp_watts"],)
    required_parameters = frozenset({"a"})
    optional_parameters = frozenset()

    def __init__(self, workload, options):
        pass

    def known_violations(self, designs):
        return {}

    def provenance(self):
        return {}

    def evaluate(self, designs, metrics=None):
        return {}["x"]


class Number(Raises):
    def evaluate(self, designs, metrics=None):
        return 5


class NoOptions:
    Workload = Record


class Alike:
    def __init__(self, workload, options):
        pass

    for name in ("Workload", "Options", "metrics", "known_violations", "provenance", "evaluate",
                 "required_parameters", "optional_parameters"):
        locals()[name] = vars(Raises)[name]


class OneRecord(Raises):
    def __init__(self, workload):
        pass


class Fussy(Raises):
    def __init__(self, workload, options):
        raise TypeError("no")
"""
ENTRIES = """[codesign.evaluators]
raises = odd_evaluators:Raises
number = odd_evaluators:Number
no-options = odd_evaluators:NoOptions
alike = odd_evaluators:Alike
one-record = odd_evaluators:OneRecord
fussy = odd_evaluators:Fussy
exits = odd_exit:Exits
"""
SPACE = "description: One\nparameters: {a: {values: [1, 2]}}\ndesigns: {d: {values: {a: 1}}}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A package with evaluators, none of which keeps the contract, as installers leave it."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "odd-1.2.dist-info").mkdir()
    for name, text in {
        "odd_evaluators.py": MODULE,
        "odd-1.2.dist-info/METADATA": "Name: odd\nVersion: 1.2\n",
        "odd-1.2.dist-info/entry_points.txt": ENTRIES,
        "odd_exit.py": "raise SystemExit(0)",
        "tiny.yaml": SPACE,
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("evaluator", "code", "words", "line"),
    [
        ("raises", 1, "failed on this design: KeyError: 'x' (odd_", 'return {}["x"]'),
        ("exits", 2, "evaluator 'exits' ends the process at import", None),
        ("number", 1, "evaluator 'number' gave int, expected an Evaluation", None),
        ("no-options", 1, "defect of odd 1.2 (/", "class NoOptions:"),
        ("alike", 2, "expected a class derived from codesign.base.evaluator.Evaluator", None),
        ("one-record", 2, "cannot be built from 2 records", "class OneRecord(Raises):"),
        ("fussy", 1, "defect of odd 1.2 (/", 'raise TypeError("no")'),
    ],
)
def test_a_defect_of_a_plug_in_is_said_to_be_the_plug_ins(
    evaluator,
    code,
    words,
    line,
    folder,
    monkeypatch,
    capsys,
):
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    arguments = ["evaluate", "--space", "tiny.yaml", "--design", "d", "--evaluator", evaluator]
    assert main(arguments) == code
    err = capsys.readouterr().err
    assert words in err and "defect of codesign" not in err
    place = re.search(r"odd_evaluators\.py:(\d+)", err)
    assert (MODULE.splitlines()[int(place[1]) - 1].strip() if place else None) == line


def test_a_defect_of_ours_is_ours():
    with pytest.raises(AttributeError) as caught:
        raise AttributeError("no such thing", obj=plugins.load("evaluators", "npu"))
    assert plugins.defective(caught.value) is None
