"""Start-up time of the command, which every use of it waits for."""

from __future__ import annotations

import subprocess
import sys
import time

from validation.benchmark.evaluation_rates import Row
from validation.benchmark.timing import Effort

_STARTS_PER_REPEAT = 3


def startup_time(effort: Effort) -> Row:
    """Processor time of a ``codesign --help``, wall time on Windows; the fastest counts."""
    seconds = [_start_seconds() for _ in range(_STARTS_PER_REPEAT * effort.repeats)]
    return {"what": "start of `codesign --help`", "time_s": min(seconds)}


def _start_seconds() -> float:
    command = [sys.executable, "-m", "codesign", "--help"]
    start = _seconds()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return _seconds() - start


def _seconds() -> float:
    """The time of all processes that this one started and that have ended, where it is known."""
    try:
        import resource
    except ImportError:  # not on Windows
        return time.perf_counter()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
