"""The public set: loads, evaluates and scores; what is published is what is computed."""

import json

import numpy as np
import pytest

from codesign import problems
from codesign.base.errors import InputError, JobError, UnknownNameError
from codesign.insight.comparison.published_problems import differences
from codesign.search.pareto import hypervolume
from codesign.search.problems import problem_records
from codesign.search.problems.problem_records import published, read_front, read_record
from codesign.search.problems.public_problem import counts_to_show
from tests.gate.publish_problems import KINDS, record_text

RECORDS = published()
SMALL = ("zdt1-30", "dtlz2-5", "re22", "re24", "failing-re37", "forecast-edge")
"""Computed again in the tests; all others by ``codesign compare problems --verify``."""


def test_the_set_has_every_problem_with_its_kind():
    kinds = {name: kind for kind, members in KINDS.items() for name in members}
    assert {name: record.kind for name, record in RECORDS.items()} == kinds


@pytest.mark.parametrize("name", RECORDS)
def test_a_published_problem_is_that_of_its_campaign_and_its_front_is_untouched(name):
    problem = problems.load(name)  # compares the hash of the definition
    record, front = problem.record, problem.exact_front  # compares the hash of the file
    assert len(front) == record.front_points
    signs = np.array([1 if sense == "minimize" else -1 for sense in problem.objectives.values()])
    reference = np.array([record.reference_point[name] for name in problem.objectives])
    volume = hypervolume(front * signs, reference * signs)
    assert volume == pytest.approx(record.hypervolume, rel=1e-9)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_front_is_computed_again_as_published(name, tmp_path):
    assert differences(RECORDS[name], tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RECORDS if name not in SMALL])
def test_a_large_front_is_computed_again_as_published(name, tmp_path):
    assert differences(RECORDS[name], tmp_path) == []


@pytest.mark.parametrize("name", ["re22", "cantilever", "platform-rag", "categories-re21"])
def test_the_designs_of_a_front_have_its_points_and_all_of_its_hypervolume(name):
    problem = problems.load(name)
    evaluated = problem.evaluate(read_front(problem.record)[0])
    assert evaluated.feasible.all() and not evaluated.reasons
    assert np.allclose(evaluated.objectives, problem.exact_front, rtol=1e-9)
    shares = problem.score(evaluated)
    assert shares[-1] == pytest.approx(1.0) and (np.diff(shares) >= -1e-12).all()


def test_a_change_of_a_front_is_noticed(tmp_path, monkeypatch):
    record = RECORDS["re21"]
    text = (problem_records.FOLDER / "re21.v1.csv").read_text()
    (tmp_path / "re21.v1.csv").write_text(text.replace("2886", "2887", 1))
    monkeypatch.setattr(problem_records, "FOLDER", tmp_path)
    with pytest.raises(JobError, match=r"re21\.v1\.csv is not the front that was published"):
        read_front(record)


def test_a_change_of_a_definition_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "codesign.search.problems.public_problem.find_record",
        lambda name: RECORDS["re21"].model_copy(update={"definition_sha256": "0" * 64}),
    )
    with pytest.raises(InputError, match=r"re21\.v1: problem-re21\.yaml or what it names"):
        problems.load("re21")


def test_a_withdrawn_version_is_refused_with_its_reason(tmp_path, monkeypatch):
    for name in ("re21", "re24"):
        source = problem_records.FOLDER / f"{name}.v1.json"
        (tmp_path / source.name).write_bytes(source.read_bytes())
    newer = json.loads((tmp_path / "re24.v1.json").read_text()) | {"version": 2}
    (tmp_path / "re24.v2.json").write_text(json.dumps(newer))
    (tmp_path / "withdrawn.yaml").write_text("re21.v1: a wrong modulus\n")
    monkeypatch.setattr(problem_records, "FOLDER", tmp_path)
    assert {name: record.version for name, record in published().items()} == {"re24": 2}
    with pytest.raises(InputError, match=r"re21\.v1 is withdrawn: a wrong modulus"):
        problem_records.find_record("re21.v1")
    assert problem_records.find_record("re24.v1").version == 1


@pytest.mark.parametrize("name", ["re29", "re21.v9", "", "re21.v0"])
def test_an_unknown_problem_is_refused(name):
    with pytest.raises(UnknownNameError):
        problems.load(name)


def test_a_design_outside_the_space_is_not_feasible_and_says_why():
    problem = problems.load("cantilever")
    thick = {"x1": "tube", "x2": "steel", "x3": 0, "x4": 20}
    fine = {"x1": "round", "x2": "steel", "x3": 10, "x4": 3}  # x4 is absent in round sections
    evaluated = problem.evaluate([thick, fine])
    assert evaluated.feasible.tolist() == [False, True]
    assert np.isnan(evaluated.objectives[0]).all()
    assert evaluated.reasons == {0: "breaks '2 * x4 + 2 <= 10 * x3 + 20'"}
    assert problem.parameters["x4"][0] is None


def test_a_failed_design_says_so_and_adds_nothing():
    problem = problems.load("failing-re37")
    evaluated = problem.evaluate(problem.sample(50))
    assert 2 < len(evaluated.reasons) < 25
    failed = list(evaluated.reasons)
    assert np.isnan(evaluated.objectives[failed]).all() and not evaluated.feasible[failed].any()
    shares = problem.score(evaluated)
    assert all(shares[i] == shares[i - 1] for i in failed if i)


def test_what_breaks_a_limit_adds_nothing_to_the_score():
    problem = problems.load("osy")
    evaluated = problem.evaluate(problem.sample(200, seed=1))
    points = np.where(evaluated.feasible[:, None], evaluated.objectives, np.nan)
    assert 0 < evaluated.feasible.sum() < 50
    assert problem.score(points).tolist() == problem.score(evaluated).tolist()
    assert problem.hypervolume(evaluated) == pytest.approx(
        problem.score(evaluated)[-1] * problem.exact_hypervolume
    )


def test_a_point_that_no_design_has_is_refused():
    problem = problems.load("re21")
    better = problem.exact_front[:3] * 0.99
    with pytest.raises(InputError, match=r"evaluation 1: .* is better than the exact front"):
        problem.score(better)


def test_samples_repeat_and_are_in_the_space():
    problem = problems.load("cantilever")
    assert problem.sample(5, seed=3) == problem.sample(5, seed=3) != problem.sample(5, seed=4)
    assert not problem.evaluate(problem.sample(100)).reasons


def test_a_record_reads_as_it_was_written():
    record = read_record(problem_records.FOLDER / "re21.v1.json")
    assert (problem_records.FOLDER / "re21.v1.json").read_text() == record_text(record)


def test_shares_are_listed_at_round_numbers_of_evaluations_and_at_the_last():
    assert counts_to_show(1200) == [10, 20, 50, 100, 200, 500, 1000, 1200]
    assert counts_to_show(20) == [10, 20]
