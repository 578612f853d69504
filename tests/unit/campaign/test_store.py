"""The store keeps what it is given, whole batches only, and says clearly when it cannot."""

import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from codesign.campaign import store as store_module
from codesign.campaign.observations import Layout, ObservationBatch, Run, Status
from codesign.campaign.store import create_store, open_store
from codesign.errors import JobError, StoreError

LAYOUT = Layout(("speed", "power"), ("heat",), ("speed", "power"), (-1.0, 1.0))
RUNS = (Run("random", 0), Run("nsga2", 7))
META = {"layout": LAYOUT.to_json(), "parameters": ["a", "b", "c", "d"], "note": {"x": 1}}


def batch(run=0, number=0, first=0, k=3, seed=0, reasons=None):
    rng = np.random.default_rng([seed, run, number])
    status = np.array([Status.FAILED if i in (reasons or {}) else Status.FEASIBLE
                       for i in range(k)], dtype=np.int8)  # fmt: skip
    return ObservationBatch(
        run, number, first, rng.integers(-1, 9, (k, 4)), rng.normal(size=(k, 3)), status,
        reasons or {}, rng.random(k), 0.25, 0.5,
    )  # fmt: skip


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "campaign.sqlite"
    create_store(path, META, RUNS)
    return path


def test_what_is_appended_is_read_back_to_the_bit(path):
    odd = batch(reasons={1: "the simulator said no"})
    odd.numbers[0] = [-0.0, math.inf, 5e-324]
    odd.numbers[1] = math.nan
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
    assert table.reasons == {1: "the simulator said no"}
    assert table.failed.tolist() == [False, True, False, False, False, False, False, False]
    assert np.array_equal(table.rows[:3], odd.rows)
    assert table.numbers[:3].tobytes() == odd.numbers.tobytes()
    assert table.hypervolume[5:].tobytes() == batch(run=1).hypervolume.tobytes()
    assert second.numbers.tobytes() == batch(run=1).numbers.tobytes()


def test_counts_say_how_far_each_run_has_come(path):
    with open_store(path, writing=True) as store:
        store.append([batch(reasons={2: "no"})])
        store.end_run(0, "exhausted")
    with open_store(path) as store:
        first, second = store.counts()
    assert (first.run, first.done, first.feasible, first.failed) == (RUNS[0], 3, 2, 1)
    assert first.hypervolume == batch().hypervolume[-1]
    assert (first.seconds, first.ended) == (0.75, "exhausted")
    assert (second.done, second.hypervolume, second.ended) == (0, 0.0, None)


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
        "from pathlib import Path; from codesign.campaign.store import open_store\n"
        "with open_store(Path(sys.argv[1]), writing=True) as store:\n"
        "    store.append([t.batch()]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code, path, folder], check=False)
    assert done.returncode == -9
    with open_store(path, writing=True) as store:
        assert len(store.read()) == 3


def test_a_file_system_without_shared_memory_gets_a_plain_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_is_shared", lambda path: True)
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


ZEROS = "zeroblob(length(design))"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_garbage, "damaged .*not a database"),
        (damage_empty, "not a codesign store"),
        (damage_half, "damaged .*malformed"),
        (damage_middle, "damaged"),
        (lambda p: change(p, "PRAGMA user_version = 99"), "version 99, but this codesign reads 2"),
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
    real = store_module.Path.read_text
    monkeypatch.setattr(
        store_module.Path,
        "read_text",
        lambda self, **how: "\n".join(lines) if "mountinfo" in str(self) else real(self, **how),
    )
    assert store_module._is_shared(tmp_path / "x" / "campaign.sqlite")
    assert not store_module._is_shared(tmp_path.parent / "campaign.sqlite")
