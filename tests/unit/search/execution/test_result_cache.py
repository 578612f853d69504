"""Every design is computed once, whoever asks; an answer is what the evaluator said, to the bit."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import yaml

from codesign.base.errors import InputError
from codesign.base.failures import Failure
from codesign.search.campaign import load_definition
from codesign.search.execution.answers import observed_answers
from codesign.search.execution.result_cache import ResultCache, source_of
from codesign.search.execution.result_store import ResultStore, canonical

PLUGINS = Path(__file__).parents[1] / "campaign" / "plugins"
SPACE = "parameters:\n  x: {low: 0, high: 29}\n  y: {low: 0, high: 29}\n"
CAMPAIGN = {
    "name": "toys",
    "space": "square",
    "evaluator": {"name": "toy", "raise_on": [5]},
    "objectives": ["maximize gain_tokens", "minimize power_watts"],
    "constraints": ["power_watts <= 300"],
    "optimizers": ["random"],
    "budget": 40,
}


@pytest.fixture
def problem_of(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.chdir(tmp_path)
    for folder in ("spaces", "runs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "spaces" / "square.yaml").write_text(SPACE)

    def problem_of(**changes):
        path = tmp_path / "runs" / "toys.yaml"
        path.write_text(yaml.safe_dump({**CAMPAIGN, **changes}, sort_keys=False))
        return load_definition(path).problem

    return problem_of


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "cache")


def rows_of(problem, n=12, seed=0):
    return problem.space.sample(np.random.default_rng(seed), n)


def same(first, second):
    return (
        np.array_equal(first.rows, second.rows)
        and first.objectives.tobytes() == second.objectives.tobytes()
        and first.violations.tobytes() == second.violations.tobytes()
        and first.violation_names == second.violation_names
        and all(first.metrics[k].tobytes() == v.tobytes() for k, v in second.metrics.items())
        and first.failures == second.failures
    )


def refuse(rows):
    raise AssertionError(f"{len(rows)} designs were computed again")


def test_answers_from_the_cache_are_those_of_the_evaluator_to_the_bit(problem_of, store):
    problem = problem_of(evaluator="toy")
    rows = rows_of(problem)
    direct = problem.evaluate(rows)
    cache = ResultCache(problem, store)
    assert same(cache.evaluate(rows[::2], problem.evaluate), problem.evaluate(rows[::2]))
    assert same(cache.evaluate(rows, problem.evaluate), direct)
    assert same(cache.evaluate(rows, refuse), direct)


def test_campaigns_with_other_objectives_and_limits_share_answers(problem_of, store):
    first = problem_of(evaluator="toy")
    rows = rows_of(first)
    ResultCache(first, store).evaluate(rows, first.evaluate)
    second = problem_of(
        evaluator="toy", objectives=["minimize power_watts"], constraints=["gain_tokens >= 25"]
    )
    assert same(ResultCache(second, store).evaluate(rows, refuse), second.evaluate(rows))


def test_another_workload_option_or_code_is_another_source(problem_of, monkeypatch):
    plain = source_of(problem_of())
    assert source_of(problem_of(constraints=[])) == plain
    assert source_of(problem_of(workload={"scale": 2.0})).digest != plain.digest
    assert source_of(problem_of(evaluator={"name": "toy", "delay_s": 0.1})).digest != plain.digest
    monkeypatch.setattr(
        "codesign.search.execution.result_cache.code_digest", lambda modules: "edited"
    )
    assert source_of(problem_of()).digest != plain.digest


def test_a_design_without_a_result_is_tried_again(problem_of, store):
    problem = problem_of()
    rows = problem.space.encode({"x": 5, "y": 1})
    cache = ResultCache(problem, store)
    for _ in range(2):
        assert cache.evaluate(rows, problem.evaluate).failures[0].kind == "failed"
    assert problem.evaluator.calls == [1, 1]
    mixed = np.concatenate([rows, problem.space.encode({"x": 6, "y": 1}), rows])
    observed = cache.evaluate(mixed, problem.evaluate)
    assert same(observed, problem.evaluate(mixed))


def test_what_a_simulator_calls_infeasible_is_kept(problem_of, store):
    problem = problem_of()
    rows = problem.space.encode({"x": 5, "y": 1})
    failure = Failure("infeasible", "does not fit")

    def simulate(rows):
        return observed_answers(problem, rows, [failure] * len(rows))

    cache = ResultCache(problem, store)
    for evaluate in (simulate, refuse):
        assert cache.evaluate(rows, evaluate).failures == {0: failure}


def test_a_damaged_answer_is_computed_again_and_verify_says_so(problem_of, store):
    problem = problem_of(evaluator="toy")
    rows = rows_of(problem, 3)
    cache = ResultCache(problem, store)
    direct = cache.evaluate(rows, problem.evaluate)
    assert store.verify() == []
    with store._connected() as connection:
        connection.execute("UPDATE results SET answer = replace(answer, '1', '2')")
    assert len(store.verify()) == 3
    assert same(cache.evaluate(rows, problem.evaluate), direct)
    assert store.verify() == []


def test_a_database_of_another_program_is_refused_and_stays_as_it_is(store):
    store.path.parent.mkdir()
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("CREATE TABLE photos (name TEXT)")
        connection.execute("PRAGMA user_version = 7")
    before = store.path.read_bytes()
    with pytest.raises(InputError, match="it is no cache of results that this codesign reads"):
        store.look_up(["a key"])
    assert store.path.read_bytes() == before


def test_prune_removes_by_evaluator_age_and_size(problem_of, store):
    problem = problem_of(evaluator="toy")
    ResultCache(problem, store).evaluate(rows_of(problem, 8), problem.evaluate)
    (holding,) = store.holdings()
    assert (holding.evaluator, holding.results) == ("toy", 8)
    assert holding.newest_days < 1
    assert store.prune() == 0
    assert store.prune(evaluator="other") == 0
    assert store.prune(older_than_days=1.0) == 0
    half = holding.size_bytes // 2
    pruned = store.prune(max_bytes=half)
    (rest,) = store.holdings()
    assert rest.results == 8 - pruned
    # Results differ by some bytes, and those of one batch are equally old.
    assert pruned in (4, 5)
    assert rest.size_bytes <= half
    assert store.prune(evaluator="toy") == rest.results
    assert store.holdings() == []


def test_a_file_that_is_no_cache_is_one_clear_line(problem_of, store):
    problem = problem_of()
    store.path.parent.mkdir()
    store.path.write_text("not a database at all, " * 100)
    with pytest.raises(InputError, match=r"results.sqlite: the cache of results cannot be used"):
        ResultCache(problem, store).evaluate(rows_of(problem), problem.evaluate)


def test_a_claim_of_a_dead_process_is_taken_over_at_once(problem_of, store):
    problem = problem_of(evaluator="toy")
    row = problem.space.encode({"x": 1, "y": 1})
    key = source_of(problem).key(canonical(problem.space.decode(row)[0]))
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from codesign.search.execution.result_store import ResultStore\n"
        "store = ResultStore(Path(sys.argv[1]))\n"
        "store.look_up([])\n"
        "with store.owner() as owner:\n"
        "    assert store.claim([sys.argv[2]], owner)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, store.path.parent, key], check=False)
    assert done.returncode == -signal.SIGKILL
    observed = ResultCache(problem, store).evaluate(row, problem.evaluate)
    assert same(observed, problem.evaluate(row))
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("SELECT * FROM owners").fetchall() == []
    assert not list(store.path.parent.glob("*.lock"))


@pytest.mark.parametrize("owner", ["", "garbage", "../\0 c", f"a {'9' * 30} c", 7, b"\xff"])
def test_a_damaged_claim_is_nobodys(problem_of, store, owner):
    key = ResultCache(problem_of(), store).source.key("{}")
    store.look_up([])
    with store.owner() as first, store.owner() as second:
        assert store.claim([key], first) == {key}
        assert store.claim([key], second) == set()
        with closing(sqlite3.connect(store.path)) as connection, connection:
            connection.execute("UPDATE owners SET owner = ?", (owner,))
        assert store.claim([key], second) == {key}


def test_a_cache_of_the_version_before_keeps_its_results(problem_of, store):
    problem = problem_of(evaluator="toy")
    rows = rows_of(problem, 3)
    direct = ResultCache(problem, store).evaluate(rows, problem.evaluate)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("DROP TABLE owners")
        connection.execute("CREATE TABLE claims (key, owner, beat)")
        connection.execute("PRAGMA user_version = 1")
    assert same(ResultCache(problem, store).evaluate(rows, refuse), direct)


SEARCH = """
import sys
import numpy as np
from pathlib import Path
from codesign.search.campaign import load_definition
from codesign.base.evaluator import (Failure)
from codesign.search.execution.answers import observed_answers
from codesign.search.execution.result_cache import ResultCache
from codesign.search.execution.result_store import ResultStore

problem = load_definition(sys.argv[1]).problem
cache = ResultCache(problem, ResultStore(Path(sys.argv[2])))
numbers = [int(word) for word in sys.argv[4:]]

def counted(rows):
    with open(sys.argv[3], "a") as file:
        file.write("".join(f"{key}\\n" for key in problem.space.keys(rows).tolist()))
    return problem.evaluate(rows)

for number in numbers:
    rows = problem.space.rows(np.array([number]))
    assert not cache.evaluate(rows, counted).failures
print("done")
"""


@pytest.fixture
def search(problem_of, tmp_path):
    """Start a process that evaluates designs by number, through one cache."""
    problem_of(evaluator={"name": "toy", "delay_s": 0.02})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PLUGINS), *sys.path])}

    def search(numbers):
        words = [tmp_path / "runs" / "toys.yaml", tmp_path / "cache", tmp_path / "calls"]
        return subprocess.Popen(
            [sys.executable, "-c", SEARCH, *map(str, words), *map(str, numbers)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    return search


def test_processes_that_want_the_same_designs_make_one_call_for_each(search, tmp_path):
    processes = [search(numbers) for numbers in (range(40), range(8, 48))]
    assert [process.communicate()[0] for process in processes] == ["done\n"] * 2
    calls = (tmp_path / "calls").read_text().split()
    assert len(calls) == len(set(calls)) == 48


@pytest.mark.slow
def test_four_writers_and_a_kill_leave_every_answer_intact(search, tmp_path, store):
    numbers = list(range(40))
    victim = search(numbers)
    while not (tmp_path / "calls").exists():
        time.sleep(0.01)
    victim.kill()
    victim.communicate()
    orders = [np.random.default_rng(seed).permutation(numbers).tolist() for seed in range(4)]
    processes = [search(order) for order in orders]
    assert [process.communicate()[0] for process in processes] == ["done\n"] * 4
    assert store.verify() == []
    assert store.holdings()[0].results == 40
    calls = (tmp_path / "calls").read_text().split()
    assert len(calls) <= 41, "the victim's claim alone may have cost a second call"
