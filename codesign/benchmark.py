"""How fast the evaluator and the design space are on this machine: ``codesign bench``.

Rates are the best of a few repeats, on one core: timings on a shared machine err only upwards.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import codesign
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.memtech import load_library
from codesign.space import load_space
from codesign.workload import Request

BATCH = 65_536
"""Designs of a batch."""
_OBJECTIVES = ["throughput_tokens_per_s", "tdp_watts"]
_MEMEXPLORER_SECONDS = 24e-3
"""One evaluation of MemExplorer's analytical model (its Table 9)."""


def benchmark(n_designs: int = BATCH, repeats: int = 3) -> dict[str, Any]:
    """Rates of the ``npu`` evaluator over random designs of the ``memexplorer`` space.

    Args:
        n_designs: Designs of a batch.
        repeats: Times each measurement is repeated; the fastest counts.

    Returns:
        Version and machine, and under ``rates`` one row per measurement: what, designs per
        second, microseconds per design.
    """
    space = load_space("memexplorer", {"memtech": load_library().catalog()})
    rng = np.random.default_rng(0)
    designs = space.sample(rng, n_designs)
    columns, one = space.columns(designs), space.columns(designs[:1])
    rows = [
        _rate("sample designs", n_designs, repeats, partial(space.sample, rng, n_designs)),
        _rate("check designs", n_designs, repeats, partial(space.contains, designs)),
    ]
    for phase in ("prefill", "decode"):
        request = Request(model="llama-3.3-70b", phase=phase, trace="osworld")
        for profile in ("plain", "memexplorer"):
            npu = NpuEvaluator(request, NpuOptions(profile=profile))
            name = f"npu {phase}, {profile}"
            objectives = partial(npu.evaluate, columns, _OBJECTIVES)
            single = partial(npu.evaluate, one, _OBJECTIVES)
            rows += [
                _rate(f"{name}: objectives", n_designs, repeats, objectives),
                _rate(f"{name}: all metrics", n_designs, repeats, partial(npu.evaluate, columns)),
                _rate(f"{name}: one at a time", 1, 20 * repeats, single),
            ]
    return {
        "version": codesign.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "processor": _processor(),
        "designs_per_batch": n_designs,
        "cores": 1,
        "rates": rows,
        "memexplorer_published_designs_per_s": 1 / _MEMEXPLORER_SECONDS,
    }


def _rate(what: str, n: int, repeats: int, call: Callable[[], object]) -> dict[str, Any]:
    call()
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return {
        "what": what,
        "designs_per_s": n / best,
        "microseconds_per_design": 1e6 * best / n,
    }


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()
