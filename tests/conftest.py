"""What every test gets: each document that ``--json`` prints is checked against its schema."""

import gc
import itertools
import json
import os
import re
import sys
import time
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

# Before a library reads it: threads of two processes wait for one another at three times the cost.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some containers forbid bytecode; each of the many processes would compile all of its modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from codesign.answers import answer, json_values
from codesign.base.loop_progress import LoopProgress
from codesign.report.svg import text_width

sys.dont_write_bytecode = False  # or each process would rewrite the assertions of all modules
# jsonschema would build grammars of addresses for a second; no schema here has a format.
sys.modules["rfc3987_syntax"] = None  # as if not installed

# A busy machine may take long over any example: time is no property that a test asserts.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


_TURN = FileLock(Path(__file__).parent / "__pycache__" / "turn.lock")
"""Held by the worker that compiles what others then read."""


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Skip garbage collections while tests are listed, and most of them while tests run.

    They would take a third of the time there and a sixth of it here. One worker lists after the
    other, and so reads what the first has compiled.
    """
    gc.disable()
    with _TURN:
        yield
    gc.freeze()
    gc.set_threshold(100_000, 20, 10)
    gc.enable()


def pytest_terminal_summary(terminalreporter):
    """Tell what the suite is held to: the time of its processes, workers and children too."""
    terminalreporter.write_line(f"{sum(os.times()[:4]):.0f} s of processor time")


def _is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it ended before, or while it was read
        return False
    return state != "Z"


@pytest.fixture(scope="session")
def await_ends():
    """Waits until processes have ended, also if nobody waits for them; Linux only.

    A process that was killed is listed until the system comes to end it.
    """

    def await_ends(pids):
        while any(map(_is_alive, pids)):
            time.sleep(0.02)

    return await_ends


_VALID = set()
"""Documents that follow their schemas; those of a command are looked at as records and as text."""


@cache
def _validator(label):
    from jsonschema import Draft202012Validator

    records = {record.schema_label(): record for record in answer.answers().values()}
    return Draft202012Validator(answer.schema_of(records[label]))


def _check(document):
    text = json.dumps(document)
    if text in _VALID:
        return
    from jsonschema.exceptions import best_match

    error = best_match(_validator(document["schema"]).iter_errors(document))
    if error is not None:
        raise AssertionError(f"{document['schema']}: {error.json_path}: {error.message}")
    _VALID.add(text)


@pytest.fixture(scope="session")
def check_document():
    """Raises AssertionError where a document differs from the schema that it names."""
    return _check


@pytest.fixture(scope="session", autouse=True)
def _documents_follow_their_schemas():
    stamped = json_values.stamped

    def checked(record):
        result = stamped(record)
        _check(json.loads(json_values.json_text(result)))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "stamped", checked)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_worker_compiles_the_loop():
    """Workers that start on the compiled loop together would each compile it for six seconds."""
    from codesign.evaluators.npu import compiled_loop

    compile_loop = compiled_loop.compile_loop

    def compile_in_turn(*functions):
        loop = compile_loop(*functions)
        loop.compile = _TURN(loop.compile)
        return loop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_loop, "compile_loop", compile_in_turn)
        yield


@pytest.fixture(scope="session")
def overprinted_texts():
    """Texts of an SVG file that meet by more than two pixels."""
    return _overprinted_texts


def _overprinted_texts(path):
    """Texts of an SVG that meet by more than two pixels."""
    boxes = []

    def collect(element, dx, dy):
        move = re.match(r"translate\(([\d.]+) ([\d.]+)\)", element.get("transform", ""))
        if move:
            dx, dy = dx + float(move[1]), dy + float(move[2])
        if element.tag.endswith("text") and not element.get("transform"):
            size = float(element.get("font-size", 11))
            lines = [element.text or "", *(span.text or "" for span in element)]
            lines = [line for line in lines if line]
            wide = text_width("\n".join(lines), size)
            x, y = float(element.get("x")) + dx, float(element.get("y")) + dy
            left = x - {"middle": wide / 2, "end": wide}.get(element.get("text-anchor"), 0.0)
            bottom = y + 1.2 * size * (len(lines) - 1)
            boxes.append((" ".join(lines), left, left + wide, y - 0.75 * size, bottom))
        for child in element:
            collect(child, dx, dy)

    collect(ElementTree.parse(path).getroot(), 0.0, 0.0)
    return [
        f"{a[0]!r} on {b[0]!r}"
        for i, a in enumerate(boxes)
        for b in boxes[i + 1 :]
        if min(a[2], b[2]) - max(a[1], b[1]) > 2 and min(a[4], b[4]) - max(a[3], b[3]) > 2
    ]


@pytest.fixture
def ctrl_c(monkeypatch):
    """Press Ctrl-C when loops over a subject have told of progress so many times."""

    def press(after, subject="all evaluations"):
        advance, times = LoopProgress.advance, itertools.count(1)

        def interrupted(loop, n=1):
            advance(loop, n)
            if loop.subject == subject and next(times) == after:
                raise KeyboardInterrupt

        monkeypatch.setattr(LoopProgress, "advance", interrupted)

    return press


@pytest.fixture
def told(monkeypatch):
    """Subject, total and number done of each loop when it begins, then each step."""
    steps, enter, advance = [], LoopProgress.__enter__, LoopProgress.advance

    def entered(loop):
        steps.append((loop.subject, loop.total, loop.done))
        return enter(loop)

    def advanced(loop, n=1):
        steps.append((loop.subject, n))
        advance(loop, n)

    monkeypatch.setattr(LoopProgress, "__enter__", entered)
    monkeypatch.setattr(LoopProgress, "advance", advanced)
    return steps
