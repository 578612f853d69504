"""Instances that somebody could build: whole devices, requests, stages, heads and experts.

The paper's numbers are real ([Epoch2025]_ section 3), and name instances of 4.9 devices. Here
every number that counts something is whole:

* stages of a pipeline divide the layers, and their micro-batches have whole requests;
* the devices of a stage divide the attention heads of a dense model, or are the groups of experts
  times the devices of a group, which divide the experts and the width of one;
* the devices that hold one copy of the attention divide the stage and the heads, and divide the
  heads of keys and values or are a multiple of them, which are then held several times;
* two-dimensional slices have whole sides;
* experts are spread where a micro-batch has tokens for all of them (section 3.5).

.. [Epoch2025] E. Erdil, Inference economics of language models, Epoch AI, 2025.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from codesign.base.columns import ArrayList, BoolArray, FloatArray, IntArray, JsonObject
from codesign.evaluators.economics.decoding import Decoding
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import LAYOUTS, Fixed, Load, Split
from codesign.evaluators.economics.shape import ModelShape
from codesign.models.deployments.parallelism import divisors

_Record = TypeVar("_Record", bound=Any)

_BLOCK_SYSTEMS = 64
"""Systems worked on at a time, so that their arrays stay in the cache."""


def buildable_systems(shape: ModelShape, most_devices: float) -> list[Split]:
    """Every way to cut a model over at most so many devices.

    Examples:
        >>> from codesign.evaluators.economics.shape import shape_of
        >>> from codesign.models.workload import load_model
        >>> systems = buildable_systems(shape_of(load_model("llama-3.3-70b")), 16)
        >>> sorted({system.n_devices for system in systems})  # 64 heads, 80 layers
        [1, 2, 4, 5, 8, 10, 16]
    """
    if shape.is_mixture:
        widths = divisors(shape.feedforward_width)
        stages = [(groups * n, groups) for groups in divisors(shape.n_experts) for n in widths]
    else:
        common = math.gcd(shape.n_heads, int(shape.feedforward_width))
        stages = [(size, 1) for size in divisors(common)]
    return [
        Split(layout, tensor, pipeline, attention, experts)
        for pipeline in divisors(shape.n_layers)
        for tensor, experts in stages
        if tensor <= most_devices / pipeline
        for attention in divisors(math.gcd(shape.n_heads, tensor))
        if attention % shape.n_kv_heads == 0 or shape.n_kv_heads % attention == 0
        for layout in LAYOUTS
        if layout == "1d"
        or (
            tensor // experts * attention > 1
            and all(math.isqrt(size) ** 2 == size for size in (tensor // experts, attention))
        )
    ]


def buildable_times(decoding: Decoding, load: Load) -> FloatArray:
    """(n,) seconds per token of designs at the best of the systems that they leave open.

    Args:
        decoding: Arrays of its machine, precision and split are (n,).
        load: (n,) devices and requests.

    Returns:
        Infinite where no system has the devices and the split of a design.
    """
    times = np.full(load.n_devices.shape, np.inf)
    for rows, block, suits in _suitable_systems(decoding, load):
        load_of_rows = Load(load.n_devices[rows], load.batch[rows], load.context_tokens)
        time = _cut(_taken(decoding, rows), block).token_times(load_of_rows)[0]
        times[rows] = np.minimum(times[rows], np.where(suits, time, np.inf).min(axis=0))
    return times


def are_buildable(decoding: Decoding, load: Load) -> BoolArray:
    """(n,) whether some system has the devices and the split of a design."""
    has_system = np.zeros(load.n_devices.shape, np.bool_)
    for rows, _, suits in _suitable_systems(decoding, load):
        has_system[rows] |= suits.any(axis=0)
    return has_system


def _suitable_systems(
    decoding: Decoding, load: Load
) -> Iterator[tuple[IntArray, list[Split], BoolArray]]:
    """Designs of one number of devices, systems of it, and (k, r) which system suits which."""
    shape = decoding.target.shape
    fixed = decoding.target.fixed
    for n_devices in np.unique(load.n_devices).tolist():
        rows = np.flatnonzero(load.n_devices == n_devices)
        every = buildable_systems(shape, n_devices)
        for block in _blocks([system for system in every if system.n_devices == n_devices]):
            columns = vars(_fixed(block))
            batch = load.batch[rows][None, :]
            # A micro-batch has tokens for all groups of experts (section 3.5).
            is_busy = batch / columns["pipeline"] >= 2.0 * shape.sparsity
            suits = (columns["experts"] == 1) | is_busy
            suits &= np.mod(batch, columns["pipeline"]) == 0
            for name, value in vars(fixed).items():
                if value is not None:
                    value_of_rows = np.broadcast_to(value, load.n_devices.shape)[rows]
                    suits &= np.isnan(value_of_rows) | (value_of_rows == columns[name])
            yield rows, block, suits


def _taken(record: _Record, rows: IntArray) -> _Record:
    """A record with some rows of its arrays, and of those of its records."""
    changed: JsonObject = {
        name: value[rows] if isinstance(value, np.ndarray) else _taken(value, rows)
        for name, value in vars(record).items()
        if isinstance(value, np.ndarray) or is_dataclass(value)
    }
    return replace(record, **changed)


def _blocks(systems: list[Split]) -> Iterator[list[Split]]:
    """Systems of one number of stages and one layout, a cacheful at a time."""
    key = attrgetter("pipeline", "layout")
    for _, group in groupby(sorted(systems, key=key), key):
        alike = list(group)
        for start in range(0, len(alike), _BLOCK_SYSTEMS):
            yield alike[start : start + _BLOCK_SYSTEMS]


def _cut(decoding: Decoding, systems: list[Split]) -> Decoding:
    """The decoding with the split of the systems, (k, 1), and a draft on whole devices."""
    cut = replace(decoding, target=replace(decoding.target, fixed=_fixed(systems)))
    if decoding.speculation is None:
        return cut
    draft = decoding.speculation.draft
    draft_pass = _WholeDraft(draft.shape, draft.machine, draft.precision)
    return replace(cut, speculation=replace(decoding.speculation, draft=draft_pass))


def _fixed(systems: list[Split]) -> Fixed:
    """The split of systems of one layout and number of stages, (k, 1) against batches."""
    experts, attention = (
        np.array([[float(getattr(system, name))] for system in systems])
        for name in ("experts", "attention")
    )
    layout = LAYOUTS.index(systems[0].layout) + 1.0
    return Fixed(layout, float(systems[0].pipeline), experts, attention)


class _WholeDraft(ForwardPass):
    """Passes of a draft, each at the best of its own systems within the instance's devices."""

    def best_times(self, load: Load) -> ArrayList:
        """(n,) times of designs for every number of queries."""
        every = buildable_systems(self.shape, float(load.n_devices.max()))
        systems = [system for system in every if system.pipeline == 1]
        systems.sort(key=lambda system: system.n_devices)
        sizes = np.array([[float(system.n_devices)] for system in systems])
        batch = load.batch[None, :]
        tables = [np.full((len(systems), batch.size), np.inf) for _ in load.queries]
        for layout in LAYOUTS:
            rows = [i for i, system in enumerate(systems) if system.layout == layout]
            if rows:
                load_of_rows = replace(load, n_devices=sizes[rows], batch=batch)
                fixed = _fixed([systems[i] for i in rows])
                passes = ForwardPass(self.shape, self.machine, self.precision, fixed)
                times = passes.best_times(load_of_rows)
                for table, time in zip(tables, times, strict=True):
                    table[rows] = time
        fitting = np.searchsorted(sizes[:, 0], load.n_devices, side="right") - 1
        return [np.minimum.accumulate(table)[fitting, np.arange(batch.size)] for table in tables]
