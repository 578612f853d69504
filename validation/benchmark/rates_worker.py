"""A process that evaluates batches while its like does the same; see ``evaluation_rates.py``."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

from validation.benchmark.evaluation_rates import OBJECTIVES, RateTask, batch, evaluator
from validation.benchmark.timing import working


def main(connection: Connection) -> None:
    """Measure until the parent hangs up: a task, ``ready``, a word to go, start and end."""
    try:
        while True:
            task: RateTask = connection.recv()
            npu, designs = evaluator(task.model, task.phase), batch(task.n_designs, task.is_sweep)
            with working(task.way):
                npu.evaluate(designs, OBJECTIVES)
                connection.send("ready")
                connection.recv()
                start = time.perf_counter()
                for _ in range(task.repeats):
                    npu.evaluate(designs, OBJECTIVES)
                connection.send((start, time.perf_counter()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
