"""The store keeps what it is given, whole batches only, and says clearly when it cannot."""

import math
import os
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from codesign.base import databases
from codesign.base.errors import JobError, StoreError
from codesign.base.failures import Failure
from codesign.base.locks import exclusive
from codesign.search.campaign.observations import SAMPLE, Layout, ObservationBatch, Run
from codesign.search.campaign.store_file import create_store, open_store

LAYOUT = Layout(("speed", "power"), ("heat",), ("speed", "power"), ("maximize", "minimize"))
RUNS = (Run("random", 0), Run("nsga2", 7))
META = {"layout": LAYOUT.document(), "parameters": ["a", "b", "c", "d"], "note": {"x": 1}}


def batch(run=0, number=0, first=0, k=3, seed=0, reasons=None):
    rng = np.random.default_rng([seed, run % 99, number])
    rows, numbers = rng.integers(-1, 9, (k, 4)), -rng.random((k, 3))
    failures = {i: Failure("failed", reason) for i, reason in (reasons or {}).items()}
    numbers[list(failures)] = math.nan
    observations = LAYOUT.observations_of(rows, numbers, failures)
    return ObservationBatch(run, number, first, observations, rng.random(k), 0.25, 0.5)


def numbers_of(stored):
    return LAYOUT.numbers_of(stored.observations).tobytes()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "campaign.sqlite"
    create_store(path, META, RUNS)
    return path


def test_what_is_appended_is_read_back_to_the_bit(path):
    odd = batch(reasons={1: "the simulator said no"})
    odd.observations.metrics["speed"][0], odd.observations.metrics["power"][0] = -0.0, math.inf
    odd.observations.violations[0] = 5e-324
    with open_store(path, writing=True) as store:
        store.append([odd, batch(run=1)])
        store.append([batch(number=1, first=3, k=2)])
    with open_store(path) as store:
        table, second = store.read(), store.read(1)
        assert store.runs == RUNS
        assert store.meta["note"] == {"x": 1}
        assert store.layout == LAYOUT
    assert table.run.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert table.step.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert table.batch.tolist() == [0, 0, 0, 1, 1, 0, 0, 0]
    observations = table.observations
    assert observations.failures == {1: Failure("failed", "the simulator said no")}
    assert observations.failed.tolist() == [False, True, False, False, False, False, False, False]
    assert observations.feasible.tolist() == [False, False, True, True, True, True, True, True]
    assert np.array_equal(observations.rows[:3], odd.observations.rows)
    assert numbers_of(table)[: 24 * 3] == numbers_of(odd)
    assert table.hypervolume[5:].tobytes() == batch(run=1).hypervolume.tobytes()
    assert numbers_of(second) == numbers_of(batch(run=1))


def test_counts_say_how_far_each_run_has_come(path):
    with open_store(path, writing=True) as store:
        store.append([batch(reasons={2: "no"})])
        store.end_run(0, "exhausted")
    with open_store(path) as store:
        first, second = store.counts()
    assert (first.run, first.done, first.feasible) == (RUNS[0], 3, 2)
    assert first.failures == {"failed": 1}
    assert first.hypervolume == batch().hypervolume[-1]
    assert (first.seconds, first.state) == (0.75, "exhausted")
    assert (second.done, second.hypervolume, second.state) == (0, 0.0, "not started")


def test_of_several_batches_all_or_none_are_stored(path):
    with open_store(path, writing=True) as store:
        with pytest.raises(StoreError, match="UNIQUE"):
            store.append([batch(), batch()])
        assert len(store.read()) == 0


def test_a_reader_sees_the_last_commit_while_a_writer_goes_on(path):
    with open_store(path, writing=True) as writer, open_store(path) as reader:
        writer.append([batch()])
        assert len(reader.read()) == 3
        writer.append([batch(number=1, first=3)])
        assert len(reader.read()) == 6


def test_a_batch_that_was_acknowledged_survives_the_death_of_its_writer(path):
    code = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[2]); import test_store as t; "
        "from pathlib import Path; from codesign.search.campaign.store_file import open_store\n"
        "with open_store(Path(sys.argv[1]), writing=True) as store:\n"
        "    store.append([t.batch()]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code, path, folder], check=False)
    assert done.returncode == -9
    with open_store(path, writing=True) as store:
        assert len(store.read()) == 3


def test_a_file_system_without_shared_memory_gets_a_plain_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "is_shared", lambda path: True)
    path = tmp_path / "campaign.sqlite"
    create_store(path, META, RUNS)
    with open_store(path, writing=True) as store:
        store.append([batch()])
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    with open_store(path) as store:
        assert len(store.read()) == 3


def damage_garbage(path):
    path.write_bytes(b"this is not a database, " * 500)


def damage_empty(path):
    path.write_bytes(b"")


def damage_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage_middle(path):
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)


def change(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("table", "call"),
    [
        ("timings", lambda store: store.timings()),
        ("observations", lambda store: store.read()),
        ("observations", lambda store: store.counts()),
        ("observations", lambda store: store.append([batch()])),
        ("timings", lambda store: store.append([batch()])),
        ("runs", lambda store: store.counts()),
        ("runs", lambda store: store.end_run(0, "done")),
    ],
)
def test_a_table_that_is_gone_is_told_with_the_path_of_the_store(path, table, call):
    with open_store(path, writing=True) as store:
        store._connection.execute(f"DROP TABLE {table}")
        with pytest.raises(StoreError, match=rf"{path}: .*no such table: (main\.)?{table}"):
            call(store)


ZEROS = "zeroblob(length(design))"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_garbage, "damaged .*not a database"),
        (damage_empty, "not a codesign store"),
        (damage_half, "damaged .*malformed"),
        (damage_middle, "damaged"),
        (lambda p: change(p, "PRAGMA user_version = 2"), "version 2, but this codesign reads 3"),
        (lambda p: change(p, "PRAGMA application_id = 1"), "not a codesign store"),
        (lambda p: change(p, "DROP TABLE observations"), "no such table: observations"),
        (lambda p: change(p, "DROP TABLE meta"), "no such table: meta"),
        (lambda p: change(p, "DELETE FROM meta WHERE key = 'layout'"), "incomplete"),
        (lambda p: change(p, "UPDATE meta SET value = '{'"), "not JSON"),
        (lambda p: change(p, "DELETE FROM observations WHERE step = 1"), "are missing"),
        (lambda p: change(p, "UPDATE observations SET design = x'00'"), "not what was written"),
        (lambda p: change(p, f"UPDATE observations SET design = {ZEROS}"), "not what was written"),
        (
            lambda p: change(p, "UPDATE observations SET numbers = zeroblob(length(numbers))"),
            "not what was written",
        ),
        (lambda p: change(p, "UPDATE observations SET hypervolume = 1e99"), "not what was written"),
        (lambda p: change(p, "UPDATE observations SET hypervolume = 'x'"), "not what was written"),
        (lambda p: change(p, "UPDATE observations SET status = 77"), "not what was written"),
    ],
)
def test_a_damaged_store_is_one_clear_line_and_stays_as_it_is(path, damage, message):
    with open_store(path, writing=True) as store:
        store.append([batch(number=i, first=100 * i, k=100) for i in range(20)])
    damage(path)
    before = path.read_bytes()

    def use(writing):
        with open_store(path, writing) as store:
            store.counts()
            store.read()

    for writing in (False, True):
        with pytest.raises(StoreError, match=message) as caught:
            use(writing)
        assert len(caught.value.problems) == 1
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
    # The first 100 bytes say how the file was last opened.
    assert path.read_bytes()[100:] == before[100:]


def test_a_missing_store_is_named(tmp_path):
    with (
        pytest.raises(StoreError, match=r"absent\.sqlite: no such store"),
        open_store(tmp_path / "absent.sqlite"),
    ):
        pass


def test_a_full_disk_is_a_failed_job_that_can_go_on(path):
    with open_store(path, writing=True) as store:
        store.append([batch()])
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(JobError, match=r"full; what was stored before is intact"):
            store.append([batch(number=1, first=3, k=5000)])
    with open_store(path) as store:
        assert len(store.read()) == 3


def test_a_store_that_was_being_made_when_its_maker_was_killed_is_made_again(tmp_path):
    path = tmp_path / "campaign.sqlite"
    (tmp_path / "campaign.sqlite.new").write_bytes(b"half a file")
    (tmp_path / "campaign.sqlite.new-wal").write_bytes(b"half a journal")
    create_store(path, META, RUNS)
    with open_store(path) as store:
        assert store.runs == RUNS
    assert sorted(p.name for p in tmp_path.iterdir()) == ["campaign.sqlite"]


def test_the_file_system_of_a_path_is_that_of_its_deepest_mount(tmp_path, monkeypatch):
    lines = [
        "21 1 8:1 / / rw - ext4 /dev/root rw",
        f"22 21 0:40 / {tmp_path} rw shared:1 - nfs4 server:/export rw",
    ]
    real = databases.Path.read_text
    monkeypatch.setattr(
        databases.Path,
        "read_text",
        lambda self, **how: "\n".join(lines) if "mountinfo" in str(self) else real(self, **how),
    )
    assert databases.is_shared(tmp_path / "x" / "campaign.sqlite")
    assert not databases.is_shared(tmp_path.parent / "campaign.sqlite")


def contents(path):
    with open_store(path) as store:
        table = store.read()
        assert store.verify() == []
        return (
            store.meta, store.runs, store.timings(), store.counts(), store.epochs,
            table.observations.failures, table.observations.rows.tobytes(), numbers_of(table),
            *(getattr(table, name).tobytes() for name in ("run", "step", "batch", "hypervolume")),
        )  # fmt: skip


def test_a_flipped_bit_is_found_or_changes_nothing(path):
    with open_store(path, writing=True) as store:
        store.append([batch(number=i, first=20 * i, k=20, reasons={3: "no"}) for i in range(5)])
        store.end_run(0, "complete")
        store.accept(["budget: 1 -> 2"], {"identity": {"budget": 2}})
    expected, data = contents(path), path.read_bytes()
    chance, found = np.random.default_rng(0), 0
    for position in chance.integers(0, len(data), 250).tolist():
        flipped = bytearray(data)
        flipped[position] ^= 1 << int(chance.integers(8))
        path.write_bytes(flipped)
        try:
            assert contents(path) == expected
        except (StoreError, AssertionError):
            found += 1
            with open_store_or_none(path) as store:
                assert store is None or store.verify()
    assert found > 50


@contextmanager
def open_store_or_none(path):
    try:
        with open_store(path) as store:
            yield store
    except StoreError:
        yield None


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("UPDATE timings SET ask_seconds = 7", "timings: 1 rows are not what was written"),
        (
            "UPDATE observations SET hypervolume = 7",
            "observations of random, seed 0: an observation is not what was written",
        ),
    ],
)
def test_verify_says_what_is_damaged(path, statement, line):
    with open_store(path, writing=True) as store:
        store.append([batch()])
    change(path, statement)
    with open_store(path) as store:
        assert store.verify() == [line]


@pytest.mark.parametrize("statement", ["meta SET value = '1'", "runs SET seed = 3"])
def test_a_changed_description_is_refused(path, statement):
    change(path, f"UPDATE {statement}")
    with pytest.raises(StoreError, match="is not what was written"), open_store(path):
        pass


def test_a_copy_without_the_log_says_that_it_lacks_the_latest(path, tmp_path):
    copy = tmp_path / "elsewhere" / "campaign.sqlite"
    copy.parent.mkdir()
    with open_store(path, writing=True) as store:
        store.append([batch()])
        copy.write_bytes(path.read_bytes())
        with open_store(path) as live:
            assert live.notice is None
    with open_store(copy) as store:
        assert "without campaign.sqlite-wal" in store.notice
        assert len(store.read()) == 0
    assert sorted(item.name for item in copy.parent.iterdir()) == ["campaign.sqlite"]
    copy.write_bytes(path.read_bytes())
    with open_store(copy) as store:
        assert store.notice is None
        assert len(store.read()) == 3


def test_a_copy_is_complete_up_to_the_last_checkpoint(path, tmp_path):
    copy = tmp_path / "copy.sqlite"
    with open_store(path, writing=True) as store:
        for number in range(200):
            store.append([batch(number=number, first=20 * number, k=20)])
        copy.write_bytes(path.read_bytes())
    with open_store(copy) as store:
        assert len(store.read()) > 3000


def test_observations_with_accepted_inputs_are_marked(path):
    with open_store(path, writing=True) as store:
        store.append([batch(), batch(run=1)])
        store.end_run(0, "complete")
        store.accept(["budget: 3 -> 6"], {"identity": {"budget": 6}})
        store.append([batch(number=1, first=3)])
    with open_store(path) as store:
        assert store.epoch_of(store.read()).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
        assert store.inputs["identity"] == {"budget": 6}
        assert store.epochs[0].changes == ("budget: 3 -> 6",)
        assert not store.counts()[0].has_ended


def test_the_sample_is_apart_from_the_runs(tmp_path):
    path = tmp_path / "campaign.sqlite"
    create_store(path, META, RUNS, batch(run=SAMPLE, reasons={1: "no"}))
    with open_store(path, writing=True) as store:
        store.append([batch()])
        assert len(store.read()) == len(store.read(SAMPLE)) == 3
        assert [count.done for count in store.counts()] == [3, 0]
        assert store.read(SAMPLE).observations.failures == {1: Failure("failed", "no")}


def test_a_store_with_its_log_is_read_where_nothing_can_be_written(path, tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir()
    with open_store(path, writing=True) as store:
        store.append([batch()])
        for file in (path, path.with_name("campaign.sqlite-wal")):
            (closed / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr("codesign.search.campaign.store_file.os.access", lambda *_: False)
    with open_store(closed / "campaign.sqlite") as store:
        assert (len(store.read()), store.notice) == (3, None)
    assert len(list(closed.iterdir())) == 2, "nothing was written beside it"


_KILLED_IN_A_TRANSACTION = """\
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = DELETE")
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE observations SET hypervolume = -1")
connection.execute("CREATE TABLE more AS SELECT randomblob(4096) FROM observations, observations")
os._exit(9)
"""


def test_what_a_kill_left_half_written_is_undone_by_readers_too(path):
    with open_store(path, writing=True) as store:
        store.append([batch(k=40)])
    program = [sys.executable, "-c", _KILLED_IN_A_TRANSACTION, str(path)]
    assert subprocess.run(program, check=False).returncode == 9
    journal = path.with_name(path.name + "-journal")
    left = path.read_bytes()
    assert journal.stat().st_size > 0
    with open_store(path) as store:
        assert store.read().hypervolume.tobytes() == batch(k=40).hypervolume.tobytes()
    assert journal.exists() and path.read_bytes() == left  # a reader leaves all as it is
    with exclusive(path.with_name("lock")), open_store(path, is_ours=True) as store:
        assert len(store.read()) == 40, "so can the campaign that goes on, before it writes"
