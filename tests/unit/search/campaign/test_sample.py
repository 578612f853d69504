"""The reference sample is durable design by design, and no run asks for its designs again."""

from concurrent.futures import Executor, Future

import numpy as np
import pytest

from codesign.base.errors import InputError, JobError
from codesign.base.failures import Failure
from codesign.cli import main
from codesign.search.campaign import Campaign, load_definition
from codesign.search.campaign.guarded_evaluation import LOG
from codesign.search.campaign.sample import FILE, _rows
from codesign.search.execution.known_answers import AnswerFile, KnownAnswers

SLOW = {"reference_sample": None, "optimizers": ["random"], "seeds": 1, "budget": 12}


@pytest.fixture
def counted(write, folder, monkeypatch):
    """A campaign of a slow evaluator that notes each design it evaluates, in this process."""
    monkeypatch.setattr(
        "codesign.search.campaign.guarded_evaluation.is_isolated", lambda resolved: False
    )

    def counted(**changes):
        return write(**{**SLOW, "execution": {"cache": False}, **changes})

    return counted


def keys_of(campaign):
    """What the evaluator was asked, by number of the design."""
    seen = []
    problem = campaign.problem
    evaluate = problem.evaluator.evaluate

    def noting(designs, metrics=None):
        seen.extend(zip(designs["x"].decoded(), designs["y"].decoded(), strict=True))
        return evaluate(designs, metrics)

    problem.evaluator.evaluate = noting
    return seen


def test_the_initial_designs_are_the_sample_and_cost_nothing_more(counted):
    campaign = Campaign.load(counted(evaluator={"name": "toy", "nan_on": [3, 4, 5, 6]}))
    seen = keys_of(campaign)
    campaign.run(workers=1)
    assert len(seen) == len(set(seen)) == 12
    results = campaign.results()
    assert (
        results.reference_point["gain_tokens"]
        <= results.metrics["gain_tokens"][results.feasible].min()
    )
    assert not (campaign.folder / FILE).exists()


def test_an_interrupted_sample_goes_on_where_it_was(counted):
    campaign = Campaign.load(counted())
    seen = keys_of(campaign)
    evaluate = campaign.problem.evaluator.evaluate

    def interrupted(designs, metrics=None):
        if len(seen) == 4:
            raise KeyboardInterrupt
        return evaluate(designs, metrics)

    campaign.problem.evaluator.evaluate = interrupted
    with pytest.raises(KeyboardInterrupt):
        campaign.run(workers=1)
    assert (campaign.folder / FILE).exists()
    assert campaign.status().state == "not started"
    again = Campaign.load("toys")
    seen_again = keys_of(again)
    again.run(workers=1)
    assert len(seen_again) == 8
    assert not set(seen) & set(seen_again)


ALL_FAIL = {"name": "toy", "raise_on": list(range(30))}


def test_a_sample_that_failed_as_a_whole_is_stored_and_not_asked_again(counted):
    counted(evaluator=ALL_FAIL)
    with pytest.raises(JobError, match=r"failed on all 10 designs .*this is stored.*--retry-fail"):
        Campaign.load("toys").run(workers=1)
    again = Campaign.load("toys")
    seen = keys_of(again)
    with pytest.raises(JobError, match=r"failed on all 10 designs .*in an earlier run.*--retry-f"):
        again.run(workers=1)
    assert not seen
    assert again.status().state == "not started"
    (notice,) = again.status().notices
    assert "10 designs are stored, 10 failed, the last with: ZeroDivisionError: the toy" in notice
    assert main(["run", "toys"]) == 1


def test_what_failed_as_a_whole_is_evaluated_again_when_that_is_asked_for(counted):
    campaign = Campaign.load(counted(evaluator=ALL_FAIL))
    with pytest.raises(JobError):
        campaign.run(workers=1)
    seen = keys_of(campaign)
    with pytest.raises(JobError, match="this is stored"):
        campaign.run(workers=1, retry_failed=True)
    assert len(seen) == 10
    mended = Campaign.load("toys")
    evaluator = mended.problem.evaluator
    evaluator.evaluate = type(evaluator)(evaluator.workload, evaluator.Options()).evaluate
    seen = keys_of(mended)
    mended.run(workers=1, retry_failed=True)
    assert len(seen) == len(set(seen)) == 12
    assert not mended.results().failed.any()
    with pytest.raises(InputError, match="expected no --retry-failed: the campaign has begun"):
        mended.run(workers=1, retry_failed=True)


def test_a_larger_initial_asks_for_further_designs_only(counted):
    counted(evaluator=ALL_FAIL, initial=4)
    with pytest.raises(JobError, match="failed on all 4 designs"):
        Campaign.load("toys").run(workers=1)
    campaign = Campaign.load(counted(evaluator=ALL_FAIL, initial=6))
    seen = keys_of(campaign)
    with pytest.raises(JobError, match=r"failed on all 6 designs .*this is stored"):
        campaign.run(workers=1)
    assert len(seen) == 2


def test_a_sample_that_failed_as_a_whole_names_the_log(counted):
    campaign = Campaign.load(counted(evaluator=ALL_FAIL))
    evaluate = campaign.problem.evaluator.evaluate
    log = campaign.folder / LOG

    def logging(designs, metrics=None):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("no license")
        return evaluate(designs, metrics)

    campaign.problem.evaluator.evaluate = logging
    with pytest.raises(JobError, match=r"set a larger 'initial'; .*evaluator.log has what was"):
        campaign.run(workers=1)
    assert log.read_text() == "no license"


def test_an_evaluator_that_can_go_on_no_more_loses_no_answer(counted):
    campaign = Campaign.load(counted())
    seen = keys_of(campaign)
    evaluate = campaign.problem.evaluator.evaluate

    def gone(designs, metrics=None):
        if len(seen) == 4:
            raise JobError("the program is not there")
        return evaluate(designs, metrics)

    campaign.problem.evaluator.evaluate = gone
    with pytest.raises(JobError, match="the program is not there"):
        campaign.run(workers=1)
    again = Campaign.load("toys")
    seen_again = keys_of(again)
    again.run(workers=1)
    assert len(seen) == 4
    assert not set(seen) & set(seen_again)


def test_with_a_stated_point_every_initial_design_may_be_the_first_with_a_result(counted):
    point = {"gain_tokens": 0, "power_watts": 1000}
    campaign = Campaign.load(counted(reference_point=point, initial=12))
    rows = _rows(campaign._resolved)
    last = campaign.problem.space.decode(rows)[-1]
    evaluate = campaign.problem.evaluator.evaluate

    def broken(designs, metrics=None):
        if any(designs[name].decoded() != [last[name]] for name in designs):
            raise ZeroDivisionError
        return evaluate(designs, metrics)

    campaign.problem.evaluator.evaluate = broken
    seen = keys_of(campaign)
    campaign.run(workers=1)
    assert campaign.results().failed.sum() == 11
    assert len(seen) == len(set(seen)) == 12  # the runs ask for none of them again


def test_a_provisional_point_gives_way_to_what_is_feasible(counted):
    limits = ["power_watts * 1 <= 101", "gain_tokens * 1 >= 45"]
    campaign = Campaign.load(counted(constraints=limits, optimizers=["toy-climb"], budget=300))
    campaign.run(workers=1)
    results = campaign.results()
    feasible = results.objectives[results.feasible]
    assert len(feasible)
    worst = feasible.max(axis=0)
    assert results.reference_point == {"gain_tokens": -worst[0], "power_watts": worst[1]}
    assert results.hypervolume[-1] == campaign.status().runs[0].hypervolume


class AtOnce(Executor):
    """Each task is done when it is submitted."""

    def __init__(self, told):
        self.told = told

    def submit(self, fn, /, *args):
        self.told.append("submitted")
        future = Future()
        future.set_result(fn(*args))
        return future


@pytest.mark.parametrize(
    ("execution", "places"), [({"in_flight": 3}, 3), ({"executor": "farm"}, 2)]
)
def test_the_sample_is_evaluated_where_the_runs_are(
    counted, folder, monkeypatch, told, execution, places
):
    alone = Campaign.load(counted(), folder / "alone")
    alone.run(workers=1)
    executor = AtOnce(told)
    monkeypatch.setattr("codesign.search.campaign.execution.open_executor", lambda *_: executor)
    campaign = Campaign.load(counted(execution={"cache": False, **execution}), folder / "farm")
    told.clear()
    campaign.run(workers=2)
    assert told.count(("reference sample", 1)) == 10
    begin = [("reference sample", 10, 0), *["submitted"] * places, ("reference sample", 1)]
    assert told[: len(begin)] == begin
    point = campaign.results().reference_point
    assert point == alone.results().reference_point


@pytest.fixture
def problem(write):
    return load_definition(write(evaluator={"name": "toy", "raise_on": [5]})).problem


def each(evaluate):
    return lambda rows: ((i, evaluate(rows[i : i + 1])) for i in range(len(rows)))


def test_an_answer_file_survives_a_cut_line_and_serves_no_other_problem(problem, write, tmp_path):
    path, calls = tmp_path / "answers", []

    def evaluate(rows):
        calls.append(len(rows))
        return problem.evaluate(rows)

    rows = np.concatenate([problem.space.encode({"x": x, "y": 1, "kind": "plain"}) for x in (4, 5)])
    direct = AnswerFile(path, problem).evaluate(rows, each(evaluate))
    assert direct.failures == {
        1: Failure("failed", "ZeroDivisionError: the toy broke (toy_plugins.py:60)")
    }
    path.write_bytes(path.read_bytes()[:-5])
    again = AnswerFile(path, problem).evaluate(rows, each(evaluate))
    assert AnswerFile(path, problem).evaluate(rows, each(evaluate)).failures == again.failures
    assert calls == [1, 1, 1]
    other = load_definition(write(workload={"scale": 2.0})).problem
    AnswerFile(path, other).evaluate(rows[:1], each(evaluate))
    assert calls == [1, 1, 1, 1]


def test_known_answers_are_not_asked_again(problem):
    rows = problem.space.rows(np.arange(12))
    known = KnownAnswers(problem, problem.evaluate(rows[::2]))
    asked = []

    def evaluate(rows):
        asked.extend(problem.space.keys(rows).tolist())
        return problem.evaluate(rows)

    mixed, direct = known.evaluate(rows, evaluate), problem.evaluate(rows)
    assert asked == problem.space.keys(rows[1::2]).tolist()
    assert mixed.objectives.tobytes() == direct.objectives.tobytes()
    assert mixed.violations.tobytes() == direct.violations.tobytes()


def test_a_full_disk_is_said_and_loses_no_answer(problem, tmp_path, monkeypatch):
    file = AnswerFile(tmp_path / "answers", problem)
    rows = problem.space.encode({"x": 4, "y": 1, "kind": "plain"})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("codesign.search.execution.known_answers.os.fsync", full)
    with pytest.raises(Exception, match="answers: cannot be written: No space left on device"):
        file.evaluate(rows, each(problem.evaluate))
