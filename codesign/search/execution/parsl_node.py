"""Parsl's manager of a node, with queues that a killed worker does not hold for ever.

The workers of a node take tasks from one queue, under a semaphore. Who is killed while it waits for
a task holds it: the others then wait for ever, and the node goes on with its signs of life.
"""

from __future__ import annotations

import os
import runpy
from typing import Any

from parsl.multiprocessing import SpawnContext

from codesign.search.execution.file_lock import FileLock


def main() -> None:
    """Run Parsl's manager, whose queues take their locks from the context."""
    context: Any = SpawnContext
    if hasattr(os, "memfd_create"):
        context.Lock = FileLock
    name = "parsl.executors.high_throughput.process_worker_pool"
    runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
