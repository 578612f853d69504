"""Instances that somebody could build: whole devices, requests, stages, heads and experts.

The paper's frontier is over real numbers ([Epoch2025]_ section 3), which draws smooth curves and
names instances of 4.9 devices. Here every number that counts something is whole:

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
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray, JsonObject
from codesign.base.errors import InputError
from codesign.evaluators.economics.decoding import Decoding
from codesign.evaluators.economics.frontier import Grid, Points, misfit_of, priced
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import LAYOUTS, ElementBytes, Fixed, Load
from codesign.evaluators.economics.nccl import Fabric
from codesign.evaluators.economics.shape import ModelShape
from codesign.evaluators.economics.sustained_device import SustainedDevice
from codesign.models.deployments.parallelism import divisors

_Fields = TypeVar("_Fields", Decoding, SustainedDevice, ElementBytes, Fabric)

_BLOCK_SYSTEMS = 64
"""Systems worked on at a time, so that their arrays stay in the cache."""

_MOST_DEVICES = 100_000
"""Devices at which the search for an instance that holds a model ends."""


@dataclass(frozen=True)
class System:
    """One way to cut a model over whole devices.

    Attributes:
        layout: 1.0 or 2.0, the sides along which a matrix is sliced.
        pipeline: Stages of the pipeline.
        tensor: Devices of a stage.
        attention: Devices that hold one copy of the attention.
        experts: Groups of devices among which the experts are spread.
    """

    layout: float
    pipeline: int
    tensor: int
    attention: int
    experts: int

    @property
    def n_devices(self) -> int:
        """Devices of an instance."""
        return self.pipeline * self.tensor


def buildable_systems(shape: ModelShape, most_devices: float) -> list[System]:
    """Every way to cut a model over at most so many devices.

    Examples:
        >>> from codesign.evaluators.economics.shape import shape_of
        >>> from codesign.models.workload import load_model
        >>> systems = buildable_systems(shape_of(load_model("llama-3.3-70b")), 16)
        >>> sorted({system.n_devices for system in systems})  # 64 heads, 80 layers
        [1, 2, 4, 5, 8, 10, 16]
    """
    return [
        System(layout, stages, tensor, attention, experts)
        for stages in divisors(shape.n_layers)
        for tensor, experts in _stage_sizes(shape, most_devices / stages)
        for attention in _attention_sizes(shape, tensor)
        for layout in (1.0, 2.0)
        if layout == 1.0 or _has_whole_sides(tensor // experts, attention)
    ]


def _stage_sizes(shape: ModelShape, most: float) -> Iterator[tuple[int, int]]:
    """Devices of a stage, and the groups of experts among them."""
    if not shape.is_mixture:
        sizes = divisors(math.gcd(shape.n_heads, int(shape.feedforward_width)))
        yield from ((size, 1) for size in sizes if size <= most)
        return
    for groups in divisors(shape.n_experts):
        for size in divisors(shape.feedforward_width):
            if groups * size <= most:
                yield groups * size, groups


def _attention_sizes(shape: ModelShape, tensor: int) -> list[int]:
    keys = shape.n_kv_heads
    sizes = divisors(math.gcd(shape.n_heads, tensor))
    return [size for size in sizes if size % keys == 0 or keys % size == 0]


def _has_whole_sides(*sizes: int) -> bool:
    return max(sizes) > 1 and all(math.isqrt(size) ** 2 == size for size in sizes)


def buildable_points(
    decoding: Decoding,
    usd_per_hour: float,
    grid: Grid | None = None,
    context_tokens: float = 0.0,
    demand_tokens_per_s: float | None = None,
) -> Points:
    """Every system, with every batch of the grid, that fits the memory and the demand.

    Limiting assumption: the draft model, where there is one, runs on the best of its own systems
    without a pipeline, on as many of the instance's devices as that takes.

    Args:
        decoding: Model, machine, precision, speculation; what it fixes of the split is kept.
        grid: The largest instance, and the batches.
        context_tokens: Tokens that every request attends to.
        demand_tokens_per_s: Tokens per second that all users together ask for.

    Raises:
        InputError: Nothing fits; by how much, and what would.
    """
    grid = grid or Grid()
    systems = _kept(buildable_systems(decoding.target.shape, grid.most_devices), decoding)
    solutions = [
        _solve(decoding, block, grid.whole_requests(block[0].pipeline), context_tokens)
        for block in _blocks(systems)
    ]
    if not sum(len(split) for _, split in solutions):
        largest = max(system.n_devices for system in systems)
        every = buildable_systems(decoding.target.shape, _MOST_DEVICES)
        sizes = [system.n_devices for system in every]
        raise InputError(misfit_of(decoding, largest, context_tokens, sizes))
    columns = np.concatenate([columns for columns, _ in solutions], axis=1)
    split = np.concatenate([split for _, split in solutions])
    return priced(columns, usd_per_hour, demand_tokens_per_s, split)


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
    has_system = np.zeros(load.n_devices.shape, dtype=np.bool_)
    for rows, _, suits in _suitable_systems(decoding, load):
        has_system[rows] |= suits.any(axis=0)
    return has_system


def _suitable_systems(
    decoding: Decoding, load: Load
) -> Iterator[tuple[IntArray, list[System], BoolArray]]:
    """Designs of one number of devices, systems of it, and (k, r) which system suits which."""
    shape, fixed = decoding.target.shape, decoding.target.fixed
    for n_devices in np.unique(load.n_devices).tolist():
        rows = np.flatnonzero(load.n_devices == n_devices)
        every = buildable_systems(shape, n_devices)
        for block in _blocks([system for system in every if system.n_devices == n_devices]):
            columns = {
                name: np.array([[float(getattr(system, name))] for system in block])
                for name in vars(fixed)
            }
            batch = load.batch[rows][None, :]
            suits = _are_busy(shape, columns["experts"], batch / columns["pipeline"])
            suits &= np.mod(batch, columns["pipeline"]) == 0
            for name, value in vars(fixed).items():
                if value is not None:
                    value_of_rows = np.broadcast_to(value, load.n_devices.shape)[rows]
                    suits &= np.isnan(value_of_rows) | (value_of_rows == columns[name])
            yield rows, block, suits


def _taken(decoding: Decoding, rows: IntArray) -> Decoding:
    """The decoding of some of the designs; whatever they fix of the split is left open."""
    rows_of_decoding = replace(
        _taken_fields(decoding, rows), target=_taken_pass(decoding.target, rows)
    )
    if decoding.speculation is None:
        return rows_of_decoding
    draft = _taken_pass(decoding.speculation.draft, rows)
    return replace(rows_of_decoding, speculation=replace(decoding.speculation, draft=draft))


def _taken_pass(passes: ForwardPass, rows: IntArray) -> ForwardPass:
    machine, precision = passes.machine, passes.precision
    fabric = _taken_fields(machine.fabric, rows)
    return ForwardPass(
        passes.shape,
        replace(_taken_fields(machine, rows), fabric=fabric),
        _taken_fields(precision, rows),
    )


def _taken_fields(record: _Fields, rows: IntArray) -> _Fields:
    arrays: JsonObject = {
        name: value[rows] for name, value in vars(record).items() if isinstance(value, np.ndarray)
    }
    return replace(record, **arrays)


def buildable_point(
    decoding: Decoding, usd_per_hour: float, n_devices: int, batch: int, context_tokens: float
) -> Points:
    """The fastest way to use so many devices for one batch, which fits their memory.

    Raises:
        InputError: No way comes out even; the nearest numbers of devices.
    """
    every = _kept(buildable_systems(decoding.target.shape, 2 * n_devices), decoding)
    systems = [system for system in every if batch % system.pipeline == 0]
    systems_of_size = [system for system in systems if system.n_devices == n_devices]
    if not systems_of_size:
        sizes = sorted({system.n_devices for system in systems}, key=lambda n: abs(n - n_devices))
        near = " or ".join(str(size) for size in sorted(sizes[:2])) or "no number"
        raise InputError(
            f"{n_devices} devices do not divide {_parts_words(decoding.target.shape)} and a batch "
            f"of {batch} evenly; {near} would (--continuous divides what is whole)"
        )
    requests = np.array([float(batch)])
    solutions = [
        _solve(decoding, block, requests, context_tokens) for block in _blocks(systems_of_size)
    ]
    columns = np.concatenate([columns for columns, _ in solutions], axis=1)
    split = np.concatenate([split for _, split in solutions])
    points = priced(columns, usd_per_hour, split=split)
    return points.chosen(np.array([points.fastest()]))


def _parts_words(shape: ModelShape) -> str:
    experts = f", {shape.n_experts:g} experts" if shape.is_mixture else ""
    return f"{shape.n_layers:g} layers, {shape.n_heads} heads{experts}"


def _kept(systems: list[System], decoding: Decoding) -> list[System]:
    """The systems that have what the decoding fixes."""
    fixed_split = vars(decoding.target.fixed)
    return [
        system
        for system in systems
        if all(
            value is None or getattr(system, name) == value for name, value in fixed_split.items()
        )
    ]


def _blocks(systems: list[System]) -> Iterator[list[System]]:
    """Systems of one number of stages and one layout, a cacheful at a time."""
    for stages in sorted({system.pipeline for system in systems}):
        for layout in range(1, len(LAYOUTS) + 1):
            alike = [
                system for system in systems if (system.pipeline, system.layout) == (stages, layout)
            ]
            for start in range(0, len(alike), _BLOCK_SYSTEMS):
                yield alike[start : start + _BLOCK_SYSTEMS]


def _solve(
    decoding: Decoding, systems: list[System], requests: FloatArray, context_tokens: float
) -> tuple[FloatArray, FloatArray]:
    """(5, k) columns, as :func:`.frontier.priced` takes them, and (k, 4) splits, of what fits."""
    split = np.array(
        [(system.layout, system.pipeline, system.attention, system.experts) for system in systems],
        np.float64,
    )
    n_devices = np.array([[float(system.n_devices)] for system in systems])
    load = Load(n_devices, requests[None, :], context_tokens)
    cut = _cut(decoding, systems)
    fits = decoding.memory_excess(load) <= 0
    fits &= _are_busy(decoding.target.shape, split[:, 3:], load.batch / systems[0].pipeline)
    time, length, first = cut.request_times(load, float(systems[0].pipeline))
    columns = np.broadcast_arrays(load.n_devices, load.batch, time, length, first)
    rows = np.broadcast_to(np.arange(len(systems))[:, None], fits.shape)[fits]
    return np.stack([np.asarray(system[fits], np.float64) for system in columns]), split[rows]


def _cut(decoding: Decoding, systems: list[System]) -> Decoding:
    """The decoding with the split of the systems, (k, 1), and a draft on whole devices."""
    cut = replace(decoding, target=_fixed(decoding.target, systems))
    if decoding.speculation is None:
        return cut
    draft = decoding.speculation.draft
    draft_pass = _WholeDraft(draft.shape, draft.machine, draft.precision)
    return replace(cut, speculation=replace(decoding.speculation, draft=draft_pass))


def _are_busy(shape: ModelShape, experts: FloatArray, micro_batch: FloatArray) -> BoolArray:
    """Whether a micro-batch has tokens for all groups of experts (section 3.5)."""
    return np.asarray((experts == 1) | (micro_batch >= 2.0 * shape.sparsity))


def _fixed(passes: ForwardPass, systems: list[System]) -> ForwardPass:
    """Passes whose split is that of the systems, (k, 1) against batches; all of one layout."""
    attention = np.array([[float(system.attention)] for system in systems])
    experts = np.array([[float(system.experts)] for system in systems])
    fixed = Fixed(systems[0].layout, float(systems[0].pipeline), experts, attention)
    return ForwardPass(passes.shape, passes.machine, passes.precision, fixed)


class _WholeDraft(ForwardPass):
    """Passes of a draft, each at the best of its own systems within the instance's devices."""

    def best_times(self, load: Load) -> list[FloatArray]:
        """Times for every number of queries: (k, b) of (k, 1) instances, or (n,) of designs."""
        every = buildable_systems(self.shape, float(load.n_devices.max()))
        systems = sorted((system for system in every if system.pipeline == 1), key=_n_devices)
        sizes = np.array([[float(system.n_devices)] for system in systems])
        batch = np.atleast_2d(load.batch)
        tables = [np.full((len(systems), batch.shape[1]), np.inf) for _ in load.queries]
        for layout in range(1, len(LAYOUTS) + 1):
            rows = [i for i, system in enumerate(systems) if system.layout == layout]
            if rows:
                load_of_rows = replace(load, n_devices=sizes[rows], batch=batch)
                times = _fixed(self, [systems[i] for i in rows]).best_times(load_of_rows)
                for table, time in zip(tables, times, strict=True):
                    table[rows] = time
        fitting = np.searchsorted(sizes[:, 0], load.n_devices, side="right") - 1
        columns = np.arange(batch.shape[1])
        return [np.minimum.accumulate(table)[fitting, columns] for table in tables]


def _n_devices(system: System) -> int:
    return system.n_devices
