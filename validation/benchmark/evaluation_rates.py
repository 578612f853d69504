"""Designs per second of the ``npu`` evaluator, and of the ``mix`` evaluator.

One core is timed by its own processor time, two by the wall: from the start of the first process to
the end of the last, so other work on the machine shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product, repeat

import numpy as np

from codesign.base.columns import Columns, IntArray, JsonObject
from codesign.base.processes import WorkerProcess
from codesign.base.records import frozen
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.sessions.mix_evaluator import MixEvaluator, MixWorkload
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.models.workload.precision import FORMAT_KEYS
from codesign.space import DesignSpace, load_space
from validation.benchmark.timing import Effort, best_seconds, ways, working

OBJECTIVES = ["throughput_tokens_per_s", "tdp_watts"]
PHASES = ("prefill", "decode")
SWEPT = ("vector_length", *FORMAT_KEYS)
"""Parameters that a structured sweep varies around each design, fastest last."""

Row = JsonObject
_SESSIONS = {
    "chat": "llama-3-8b",
    "rag": "qwen3-32b",
    "osworld": "qwen3-32b",
    "coding-agent": "llama-3.3-70b",
}
"""Sessions of the mix, each with its language model."""


@frozen
class RateTask:
    """Measurement of a worker process.

    Attributes:
        way: ``numpy`` or ``compiled``.
        repeats: Times the batch is evaluated.
        is_sweep: Whether the designs are a structured sweep.
    """

    model: str
    phase: str
    way: str
    n_designs: int
    repeats: int
    is_sweep: bool


@cache
def benchmark_space() -> DesignSpace:
    """The space that is measured on."""
    return load_space("memexplorer", {"memtech": load_library().catalog()})


@cache
def evaluator(model: str, phase: str) -> NpuEvaluator:
    """The evaluator of OSWorld requests to a model, with the options' defaults."""
    return NpuEvaluator(
        Request.model_validate(
            {"model": model, "phase": phase, "trace": "osworld", "beyond_context": True}
        )
    )


def random_rows(n: int) -> IntArray:
    """(n, d) random designs."""
    return benchmark_space().sample(np.random.default_rng(0), n)


def swept_rows(n: int) -> IntArray:
    """(n, d) random designs, each with all vector lengths and formats before the next."""
    space = benchmark_space()
    columns = [space.names.index(name) for name in SWEPT]
    grid = np.indices([space.structure.n_levels[i] for i in columns]).reshape(len(columns), -1).T
    rows = np.repeat(random_rows(-(-n // len(grid))), len(grid), axis=0)
    rows[:, columns] = np.tile(grid, (len(rows) // len(grid), 1))
    return rows[:n]


@cache
def batch(n: int, is_sweep: bool) -> Columns:
    """The designs of one measurement."""
    return benchmark_space().columns(swept_rows(n) if is_sweep else random_rows(n))


def evaluator_rates(effort: Effort) -> list[Row]:
    """Rates for every model, phase and way, on one core and on two."""
    cases = product(effort.model_names, PHASES)
    one_core = [row for case in cases for row in _one_core(*case, effort)]
    return [*one_core, *_two_cores(effort)]


def _one_core(model: str, phase: str, effort: Effort) -> Iterator[Row]:
    npu, n = evaluator(model, phase), effort.n_designs
    base = npu.explain
    named = benchmark_space().columns(random_rows(1))
    for way in ways():
        with working(way):
            row = partial(_row, model=model, phase=phase, way=way, cores=1)
            if way == "numpy":
                yield row("one design, explained", 1, _best(effort, partial(base, named), 10))
            for case, size, names, is_sweep in (
                ("batch of 1", 1, OBJECTIVES, False),
                (f"batch of {n:,}", n, OBJECTIVES, False),
                (f"batch of {n:,}, all metrics", n, None, False),
                (f"sweep of {n:,}", n, OBJECTIVES, True),
            ):
                call = partial(npu.evaluate, batch(size, is_sweep), names)
                yield row(case, size, _best(effort, call, 10 if size == 1 else 1))


def mix_rates(effort: Effort) -> Iterator[Row]:
    """Rates of a mix of four workloads and of the last alone, on one core, in the fastest way.

    Every call has new designs, because the prefills of a batch are remembered.
    """
    space = load_space("mix-caches", {"memtech": load_library().catalog()})
    rng, way = np.random.default_rng(0), ways()[-1]
    names = ["sessions_per_s", "usd_per_million_asked_tokens", "tdp_watts"]
    cases = [*((n, "consecutive") for n in effort.consecutive), (effort.n_designs, "random")]
    for sessions in (_SESSIONS, ("coding-agent",)):
        mix = [
            {
                "share": 1 / len(sessions),
                "session": session,
                "model": _SESSIONS[session],
                "batch": 8,
                "concurrent_sessions": 64,
            }
            for session in sessions
        ]
        evaluate = MixEvaluator(MixWorkload.model_validate({"mix": mix})).evaluate
        for n, order in cases:
            batches = [
                space.columns(
                    space.sample(rng, n)
                    if order == "random"
                    else space.rows(rng.integers(space.size - n) + np.arange(n))
                )
                for _ in range(effort.repeats + 1)
            ]
            with working(way):
                call = partial(next, map(evaluate, batches, repeat(names)))
                yield {
                    "workloads": len(sessions),
                    "designs": f"{n:,} {order}",
                    "way": way,
                    "designs_per_s": n / _best(effort, call, 1),
                }


def _best(effort: Effort, call: Callable[[], object], factor: int) -> float:
    return best_seconds(call, factor * effort.repeats)


def _two_cores(effort: Effort) -> Iterator[Row]:
    workers = [WorkerProcess("validation.benchmark.rates_worker") for _ in range(2)]
    try:
        for case in product(effort.model_names, PHASES, ways(), (False, True)):
            yield _together(workers, *case, effort)
    finally:
        for worker in workers:
            worker.stop()


def _together(
    workers: list[WorkerProcess], model: str, phase: str, way: str, is_sweep: bool, effort: Effort
) -> Row:
    """The rate of all workers from the first one's start to the last one's end."""
    n = effort.n_designs
    task = RateTask(model, phase, way, n, 2 * effort.repeats, is_sweep)
    for worker in workers:
        worker.send(task)
    for worker in workers:
        worker.receive()  # it has warmed up
    for worker in workers:
        worker.send("go")
    spans = [worker.receive() for worker in workers]
    seconds = max(end for _, end in spans) - min(start for start, _ in spans)
    case = f"sweep of {n:,}" if is_sweep else f"batch of {n:,}"
    n_done = n * task.repeats * len(workers)
    return _row(case, n_done, seconds, model=model, phase=phase, way=way, cores=len(workers))


def _row(case: str, n: int, seconds: float, *, model: str, phase: str, way: str, cores: int) -> Row:
    return {
        "what": case,
        "model": model,
        "phase": phase,
        "way": way,
        "cores": cores,
        "designs_per_s": n / seconds,
        "microseconds_per_design": 1e6 * seconds / n,
    }
