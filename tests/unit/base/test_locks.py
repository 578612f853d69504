"""One process runs a campaign; others are told who it is."""

import os
import signal
import subprocess
import sys

import pytest

from codesign.base.errors import StoreError
from codesign.base.locks import exclusive, is_held

HOLD = (
    "import sys, time; from pathlib import Path; from codesign.base.locks "
    "import exclusive\n"
    "with exclusive(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "lock"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_and_told_the_first_ones_number(tmp_path, holder):
    with (
        pytest.raises(StoreError, match=rf"process {holder.pid} on .* is running this campaign"),
        exclusive(tmp_path / "lock"),
    ):
        pass
    assert is_held(tmp_path / "lock")


def test_a_killed_process_holds_nothing(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert not is_held(tmp_path / "lock")
    with exclusive(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text().split()[0] == str(os.getpid())
    assert not is_held(tmp_path / "lock")


def test_looking_does_not_disturb(tmp_path):
    assert not is_held(tmp_path / "lock")
    assert not (tmp_path / "lock").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with (
        pytest.raises(StoreError, match=r"no/lock: cannot be written: No such file"),
        exclusive(tmp_path / "no" / "lock"),
    ):
        pass


def test_a_lock_that_is_not_kept_leaves_no_file_and_excludes_as_well(tmp_path, holder):
    with pytest.raises(StoreError, match="measures"), exclusive(tmp_path / "lock", "measures"):
        pass
    with exclusive(tmp_path / "other", is_kept=False):
        assert is_held(tmp_path / "other")
        with pytest.raises(StoreError), exclusive(tmp_path / "other", is_kept=False):
            pass
    assert not (tmp_path / "other").exists()
