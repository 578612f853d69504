"""Surroundings of the evaluator in a search: hypervolume, store, enumeration."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from codesign.base.columns import FloatArray
from codesign.search.campaign.observations import Layout, ObservationBatch, Run
from codesign.search.campaign.store_file import create_store, open_store
from codesign.search.pareto import HypervolumeTracker, hypervolume
from validation.benchmark.evaluation_rates import Row
from validation.benchmark.timing import Effort, best_seconds

_UPDATES = 100
_MOST_POINTS = {3: 100_000, 4: 1_000}
"""Points up to which the hypervolume is computed anew; with more it takes minutes."""
_STORE_BATCH = 1_000


def hypervolume_times(effort: Effort) -> Iterator[Row]:
    """Seconds to take one point more into a front, by points on it and objectives.

    With two objectives the volume is updated; with more it is computed anew.
    """
    n = 100
    _update_seconds(n)  # what is imported on the way does not count
    while n <= effort.largest_front:
        yield {"objectives": 2, "points": n, "time_s": _update_seconds(n)}
        n *= 10
    for m, most in _MOST_POINTS.items():
        n = 100
        while n <= min(most, effort.largest_front):
            seconds = best_seconds(partial(hypervolume, _front(n, m), np.full(m, 1.1)), 1)
            yield {"objectives": m, "points": n, "time_s": seconds}
            n *= 10


def _front(n: int, m: int) -> FloatArray:
    """(n, m) points of which none dominates another: on a sphere around the reference."""
    points = np.abs(np.random.default_rng(0).normal(size=(n, m))) + 1e-9
    return np.asarray(1.0 - points / np.linalg.norm(points, axis=1, keepdims=True))


def _update_seconds(n: int) -> float:
    """Mean time of an update that changes the front."""
    front = _front(n + _UPDATES, 2)
    late = np.random.default_rng(1).permutation(len(front))[:_UPDATES]
    early = np.delete(front, late, axis=0)
    tracker = HypervolumeTracker(np.full(2, 1.1))
    for point in early[np.argsort(early[:, 0])]:
        tracker.add(point)
    start = time.perf_counter()
    for point in front[late]:
        tracker.add(point)
    return (time.perf_counter() - start) / _UPDATES


def store_rate(effort: Effort) -> Row:
    """Observations per second that a campaign's store makes durable, a thousand at a time."""
    names = tuple(f"metric_{i}" for i in range(25))
    layout = Layout(names, ("capacity", "shoreline", "levels"), names[:2], ("maximize", "minimize"))
    parameters = [f"parameter_{i}" for i in range(16)]
    batches = [_stored_batch(i, layout) for i in range(effort.n_stored // _STORE_BATCH)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmark.sqlite"
        create_store(
            path, {"layout": layout.document(), "parameters": parameters}, [Run("random", 0)]
        )
        with open_store(path, writing=True) as store:
            start = time.perf_counter()
            for batch in batches:
                store.append([batch])
            seconds = time.perf_counter() - start
        size = path.stat().st_size
    n = len(batches) * _STORE_BATCH
    return {
        "observations": n,
        "observations_per_s": n / seconds,
        "bytes_per_observation": size / n,
    }


def _stored_batch(number: int, layout: Layout) -> ObservationBatch:
    rng = np.random.default_rng(number)
    rows = rng.integers(-1, 9, (_STORE_BATCH, 16))
    numbers = -np.abs(rng.normal(size=(_STORE_BATCH, layout.width)))
    observations = layout.observations_of(rows, numbers, {})
    volumes = np.sort(rng.random(_STORE_BATCH))
    return ObservationBatch(0, number, number * _STORE_BATCH, observations, volumes)
