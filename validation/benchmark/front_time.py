"""Time and memory of the exact front of a space, in a process of its own."""

from __future__ import annotations

import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from codesign.base.processes import WorkerProcess, n_cores
from codesign.base.records import frozen
from codesign.search.enumeration import enumerate_front
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem
from validation.benchmark.evaluation_rates import OBJECTIVES, Row, benchmark_space, evaluator
from validation.benchmark.timing import Effort

_POWER_LIMIT = "tdp_watts <= 700"


@frozen
class FrontTask:
    """Problem to enumerate.

    Attributes:
        model: Language model of a prefill.
        fixed: Parameters of the space with one value.
    """

    model: str
    fixed: dict[str, object]
    workers: int

    def __call__(self) -> Problem:
        """The problem: throughput against power, at most 700 W."""
        space = benchmark_space().fix(self.fixed)
        objectives = [f"maximize {OBJECTIVES[0]}", f"minimize {OBJECTIVES[1]}"]
        return build_problem(
            space, evaluator(self.model, "prefill"), objectives, [_POWER_LIMIT], "npu"
        )


def enumeration_time(effort: Effort) -> Row:
    """Seconds and peak memory of the exact front of one space."""
    worker = WorkerProcess("validation.benchmark.front_time")
    task = FrontTask(effort.model_names[0], effort.fixed, min(2, n_cores()))
    try:
        worker.send(task)
        row: Row = worker.receive()
    finally:
        worker.stop()
    return row


def main(connection: Connection) -> None:
    """Enumerate the one task that the parent sends."""
    task: FrontTask = connection.recv()
    start = time.perf_counter()
    front = enumerate_front(task(), workers=task.workers, rebuild=task)
    seconds = time.perf_counter() - start
    connection.send(
        {
            "space": f"memexplorer, {len(task.fixed)} fixed",
            "designs": front.n_designs,
            "evaluated": front.n_evaluated,
            "front": len(front),
            "workers": task.workers,
            "time_s": seconds,
            "designs_per_s": front.n_designs / seconds,
            "peak_bytes": _peak_bytes(),
        }
    )


def _peak_bytes() -> float | None:
    """The most memory that this process or one of its workers held."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    workers = float(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) * unit
    # What getrusage says of this process includes the memory of the one that started it.
    try:
        with Path("/proc/self/status").open(encoding="utf-8") as file:
            lines = [line.split() for line in file if line.startswith("VmHWM:")]
    except OSError:
        return workers
    return max(workers, float(lines[0][1]) * 1024.0 if lines else 0.0)
