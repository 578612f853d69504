"""Other people's optimizers in their own process: what the adapter promises whatever they do."""

import json
import subprocess
import sys

import numpy as np
import pytest

from codesign.base.errors import InputError, JobError, MissingExtraError
from codesign.search.optimizers import peer_process
from codesign.search.optimizers.base import SearchSpace, initial_designs
from codesign.search.optimizers.peer import Peer
from codesign.space import parse_space

SPACE = """\
parameters:
  size: {values: [1, 2, 4, 8], scale: log}
  kind: [plain, fancy, odd]
  layers: {low: 0, high: 5}
constraints: [size + layers <= 10]
"""


@pytest.fixture
def search():
    space = parse_space(SPACE, {}, "small.yaml")
    return SearchSpace(space, space.contains)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Put a script of a few lines in place of the worker."""

    def script(body):
        (tmp_path / "main.py").write_text(
            "import json, sys\n"
            "def answer(design):\n"
            "    reply = {'designs': [design], 'origin': '', 'settings': {}}\n"
            "    print(json.dumps(reply), flush=True)\n"
            "def main():\n"
            "  for line in sys.stdin:\n"
            "    q = json.loads(line)\n" + body
        )
        monkeypatch.setattr(peer_process, "_WORKER", tmp_path)

    return script


def _told(search, optimizer, n=8):
    rows = initial_designs(search, n, 0)
    points = rows[:, :2].astype(float)
    optimizer.tell(rows, points, points[:, :1] - 2.0, np.zeros(n, dtype=bool))
    return rows


def _peer(search, **options):
    return Peer(search, 2, 0, Peer.Options(**options), reference_point=np.array([9.0, 9.0]))


def test_a_peer_that_repeats_itself_gets_random_designs_and_none_twice(search, script):
    script("    answer(q['results'][0]['design'])\n")
    optimizer = _peer(search)
    rows = _told(search, optimizer)
    new = optimizer.ask(5)
    everything = search.space.keys(np.concatenate([rows, new]))
    assert len(np.unique(everything)) == 13
    assert search.admits(new).all()


def test_a_step_has_as_many_attempts_as_the_option_says(search, script, tmp_path):
    script(
        "    open('asked.txt', 'a').write(f\"{q['attempt']} \")\n"
        "    answer(q['results'][0]['design'])\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        optimizer = _peer(search, attempts=3)
        _told(search, optimizer)
        optimizer.ask(1)
    assert (tmp_path / "asked.txt").read_text() == "0 1 2 "


def test_a_repeated_proposal_is_told_back_with_its_result(search, script, tmp_path):
    script(
        "    n = len(q['rejected'])\n"
        "    if n == 2: open('seen.json', 'w').write(json.dumps(q))\n"
        "    answer(q['results'][n]['design'])\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        optimizer = _peer(search)
        _told(search, optimizer, 12)
        optimizer.ask(1)
    request = json.loads((tmp_path / "seen.json").read_text())
    assert request["rejected"] == request["results"][:2]
    assert request["reference_point"] == [9.0, 9.0]
    assert (request["levels"], request["is_ordered"]) == ([4, 3, 6], [True, False, True])


def test_a_worker_that_dies_is_one_line_with_its_last_word(search, script):
    script("    sys.exit('out of luck')\n")
    optimizer = _peer(search)
    _told(search, optimizer)
    with pytest.raises(JobError, match="peer 'optuna-tpe': its process ended: out of luck"):
        optimizer.ask(1)


def test_an_error_of_the_method_is_one_line(search, script):
    script("    print(json.dumps({'error': 'ValueError: no'}), flush=True)\n")
    optimizer = _peer(search)
    _told(search, optimizer)
    with pytest.raises(JobError, match="peer 'optuna-tpe': ValueError: no"):
        optimizer.ask(1)


def test_a_missing_library_is_named_with_what_to_install(search, script):
    script("    print(json.dumps({'missing': 'ax'}), flush=True)\n")
    optimizer = _peer(search, method="ax")
    _told(search, optimizer)
    with pytest.raises(MissingExtraError, match=r"'ax' in CODESIGN_PEER_PYTHON.*codesign\[peers\]"):
        optimizer.ask(1)


def test_the_interpreter_is_that_of_the_variable(search, monkeypatch):
    monkeypatch.setenv(peer_process.PYTHON, "/nowhere/python")
    optimizer = _peer(search)
    _told(search, optimizer)
    with pytest.raises(InputError, match="cannot be started: /nowhere/python"):
        optimizer.ask(1)
    monkeypatch.setenv(peer_process.PYTHON, sys.executable)
    assert len(optimizer.ask(1)) == 1


def test_a_library_may_have_an_interpreter_of_its_own(search, monkeypatch):
    monkeypatch.setenv(peer_process.PYTHON, sys.executable)
    monkeypatch.setenv(f"{peer_process.PYTHON}_HEBO", "/nowhere/hebo")
    optimizer = _peer(search, method="hebo")
    _told(search, optimizer)
    with pytest.raises(InputError, match="PYTHON_HEBO: cannot be started: /nowhere/hebo"):
        optimizer.ask(1)


def test_an_interpreter_without_our_packages_can_run_the_worker():
    names = [path.stem for path in peer_process._WORKER.glob("[a-z]*.py")]
    code = peer_process._BOOTSTRAP.replace("; main()", "")
    code += f"; import importlib; [importlib.import_module('peer_worker.' + x) for x in {names}]"
    command = [sys.executable, "-S", "-P", "-c", code, str(peer_process._WORKER)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_every_process_goes_through_a_set_of_texts_in_the_same_order(search, script):
    # A set that is a constant of the code comes in another order from bytecode than from source.
    script("    answer(list(set('0123')).index('0') and [0, 1, 2] or [1, 1, 2])\n")
    optimizers = [_peer(search) for _ in range(8)]
    for optimizer in optimizers:
        _told(search, optimizer, 2)
    assert len({tuple(optimizer.ask(1)[0].tolist()) for optimizer in optimizers}) == 1


def test_the_first_new_and_admissible_design_is_taken(search, script):
    script(
        "    known = q['results'][0]['design']\n"
        "    inadmissible = [3, 0, 5]\n"
        "    reply = {'designs': [known, inadmissible, [0, 1, 2]], 'origin': '', 'settings': {}}\n"
        "    print(json.dumps(reply), flush=True)\n"
    )
    optimizer = _peer(search)
    rows = np.array([[0, 0, 0], [1, 1, 1]])
    optimizer.tell(rows, rows[:, :2] + 1.0, np.zeros((2, 0)), np.zeros(2, dtype=bool))
    assert optimizer.ask(1).tolist() == [[0, 1, 2]]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["optuna-gp", "botorch-qlognehvi"])
def test_a_costly_peer_proposes_as_a_function_of_its_history(search, method):
    proposals = []
    for _ in range(2):
        optimizer = _peer(search, method=method)
        _told(search, optimizer)
        proposals.append(optimizer.ask(2).tolist())
    assert proposals[0] == proposals[1]
