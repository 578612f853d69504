"""Seconds of a call, and how much work to spend on finding out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from codesign.base.records import frozen
from codesign.evaluators.npu import compiled


@frozen
class Effort:
    """Amount of measurement.

    Attributes:
        consecutive: Sizes of the batches of consecutive designs that a mix is measured on.
        repeats: Times each measurement is repeated; the fastest counts, for on a shared machine
            timings err only upwards.
        largest_front: The end of the growth over points of a front.
        n_stored: Observations that are written to a store.
        model_names: Language models that the evaluator is measured with.
        fixed: Parameters of the space that is enumerated.
    """

    n_designs: int
    consecutive: tuple[int, ...]
    repeats: int
    largest_front: int
    n_stored: int
    model_names: tuple[str, ...]
    fixed: dict[str, object]


def _one_core_clock() -> Callable[[], float]:
    """The process's own time, where it is fine enough: other work on the machine adds little."""
    is_fine = time.get_clock_info("process_time").resolution <= 1e-6
    return time.process_time if is_fine else time.perf_counter


_seconds = _one_core_clock()


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    """Processor time of the fastest of some calls, after one that does not count.

    The wall time of work that keeps one core busy on a machine with nothing else to do.
    """
    call()
    best = float("inf")
    for _ in range(repeats):
        start = _seconds()
        call()
        best = min(best, (_seconds() - start))
    return best


def ways() -> tuple[str, ...]:
    """Modes of the evaluator on this host: ``numpy``, and ``compiled`` if numba is installed."""
    return ("numpy", "compiled") if compiled.has_numba() else ("numpy",)


@contextmanager
def working(way: str) -> Iterator[None]:
    """The evaluator works this way within the block."""
    before = os.environ.get(compiled.SWITCH)
    os.environ[compiled.SWITCH] = "1" if way == "compiled" else "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[compiled.SWITCH]
        else:
            os.environ[compiled.SWITCH] = before
