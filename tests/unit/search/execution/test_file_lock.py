"""Locks that end with the process that holds them."""

import multiprocessing
import os

import pytest

from codesign.search.execution.file_lock import FileLock

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="Linux only")


def hold(lock, is_held):
    lock.acquire()
    is_held.set()
    multiprocessing.Event().wait()


def test_a_lock_is_held_by_one_and_ends_with_it():
    spawn = multiprocessing.get_context("spawn")
    lock, is_held = FileLock(), spawn.Event()
    holder = spawn.Process(target=hold, args=(lock, is_held))
    holder.start()
    is_held.wait()
    assert not lock.acquire(block=False)
    assert not lock.acquire(timeout=0.1)
    holder.kill()
    holder.join()
    assert lock.acquire()


def test_threads_of_a_process_exclude_each_other():
    lock = FileLock()
    with lock:
        assert not lock.acquire(timeout=0.0)
    assert lock.acquire(block=False)
    lock.release()
