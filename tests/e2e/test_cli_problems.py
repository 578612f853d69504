"""`codesign compare problems` as a stranger uses it, and what it refuses in a line."""

import io
import json

import pytest

from codesign import problems
from codesign.cli import main
from codesign.search.problems.problem_records import published


@pytest.fixture(autouse=True)
def _there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def _run(capsys, *words):
    code = main(["compare", "problems", *words])
    output, errors = capsys.readouterr()
    assert "Traceback" not in errors
    return code, output, errors


def test_the_list_has_a_line_for_each_problem(capsys):
    assert main(["list", "problems"]) == 0
    output = capsys.readouterr().out
    assert all(record.label in output for record in published().values())


def test_designs_in_csv_and_in_json_lines_are_worth_the_same(capsys, tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("x1,x2,x3,x4\n0,0,0,0\n5,6,7,8\n")
    _, first, _ = _run(capsys, "re21", "--evaluate", "a.csv", "--json")
    lines = [{"x1": 0, "x2": 0, "x3": 0, "x4": 0}, {"x1": 5, "x2": 6, "x3": 7, "x4": 8}]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(map(json.dumps, lines)) + "\n"))
    _, second, _ = _run(capsys, "re21", "--evaluate", "-", "--json")
    rows, others = (json.loads(text)["evaluations"] for text in (first, second))
    assert [row["objectives"] for row in rows] == [row["objectives"] for row in others]
    assert rows[0]["objectives"]["f2"] == pytest.approx(0.04)
    assert "1237.84142" in _run(capsys, "re21", "--evaluate", "a.csv")[1]


def test_designs_and_their_objectives_have_one_score(capsys, tmp_path):
    problem = problems.load("osy")
    designs = problem.sample(60, seed=1)
    evaluated = problem.evaluate(designs)
    rows = [",".join(map(str, design.values())) for design in designs]
    (tmp_path / "designs.csv").write_text("\n".join([",".join(designs[0]), *rows]) + "\n")
    points = [
        json.dumps(dict(zip(("f1", "f2"), point, strict=True)) if feasible else {})
        for point, feasible in zip(
            evaluated.objectives.tolist(), evaluated.feasible.tolist(), strict=True
        )
    ]
    (tmp_path / "objectives.jsonl").write_text("\n".join(points) + "\n")
    documents = [
        json.loads(_run(capsys, "osy", "--score", name, "--json")[1])
        for name in ("designs.csv", "objectives.jsonl")
    ]
    assert documents[0] == documents[1]
    assert [row["evaluations"] for row in documents[0]["shares"]] == [10, 20, 50, 60]
    assert documents[0]["shares"][-1]["share"] == pytest.approx(float(problem.score(evaluated)[-1]))
    assert "60" in _run(capsys, "osy", "--score", "designs.csv")[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x1,x2,x3,x4\n0,0,0,99\n", "a.csv:2: unknown value of x4 '99'"),
        ("x1,x2,x3,x9\n0,0,0,0\n", "a.csv:2: unknown parameter 'x9'"),
        ("x1,x2,x3\n0,0,0\n", "a.csv:2: no value for x4"),
        ("x1,x2,x3,x4\n0,0,0\n", "a.csv:2: expected 4 cells, got 3"),
        ("x1,x1\n", "a.csv: expected distinct names"),
        ("x1,x2,x3,x4\n", "a.csv: expected a row for each design, got none"),
        ("", "a.csv: expected a row for each design, got none"),
        ('{"x1": 0,\n', "a.csv:1: expected a JSON object on a line"),
        ('{"x1": [1], "x2": 0, "x3": 0, "x4": 0}\n', "a.csv:1: "),
        ('x1,"x2\n', "a.csv:"),
    ],
)
def test_a_file_of_designs_that_is_wrong_is_refused_in_a_line(text, message, capsys, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    for flag in ("--evaluate", "--score"):
        code, output, errors = _run(capsys, "re21", flag, "a.csv")
        assert (code, output) == (2, "")
        assert message in errors.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["re2l", "--verify"], "unknown problem 're2l'. Did you mean"),
        (["re21.v7", "--verify"], "unknown problem 're21.v7'"),
        (["--score", "a.csv"], "expected the name of a problem"),
        (["re21", "--score", "a.csv", "--verify"], "expected one of --score, --verify, got 2"),
        (["re21", "--evaluate", "nowhere.csv"], "nowhere.csv: cannot be read"),
        (["re21", "--score", "points.csv"], "points.csv:2: f2: expected a number, got 'low'"),
        (["re21", "--score", "better.csv"], "better.csv:3: [1.0, 0.0001] is better than"),
        (["re21", "--score", "other.csv"], "other.csv:2: unknown objective 'f3'"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_line(words, message, capsys, tmp_path):
    (tmp_path / "points.csv").write_text("f1,f2\n2000,low\n")
    (tmp_path / "better.csv").write_text("f1,f2\n2900,0.05\n1,0.0001\n")
    (tmp_path / "other.csv").write_text("f1,f3\n2900,0.05\n")
    code, output, errors = _run(capsys, *words)
    assert (code, output) == (2, "")
    assert message in errors.splitlines()[0]


def test_a_front_that_is_no_longer_as_published_fails(capsys, monkeypatch):
    monkeypatch.setattr(
        "codesign.insight.comparison.published_problems.differences",
        lambda record, folder: ["re24.v1: x"],
    )
    code, _, errors = _run(capsys, "re24", "--verify")
    assert code == 1 and errors == "error: re24.v1: x\n"
