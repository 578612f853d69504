"""From columns of a design batch to what a pass needs: hardware, batch size, placement."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codesign.columns import (
    MOST_COMBINATIONS,
    Column,
    Columns,
    FloatArray,
    IntArray,
    combined,
    distinct,
)
from codesign.errors import UnknownNameError
from codesign.evaluators.npu.operators import BANDWIDTH_PRIORITIES, Setup
from codesign.evaluators.npu.options import TILE_BUFFER_SHARE, NpuOptions
from codesign.evaluators.npu.placement import PRIORITIES
from codesign.hardware.accelerator import (
    OPTIONAL_PARAMETERS,
    REQUIRED_PARAMETERS,
    AcceleratorBatch,
    UnitTables,
    build_accelerators,
    take,
)
from codesign.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.hardware.hierarchy import inverse
from codesign.memtech import MemoryTechnology
from codesign.workload import Request, bits_per_element, multiply_bits

FORMATS = ("weight_format", "activation_format", "kv_format")
"""Parameters that say how wide each kind of data is."""
STRATEGIES = ("storage_priority", "dataflow", "bandwidth_priority")
"""Parameters of the software (MemExplorer §4.2)."""


_FREE_PARAMETERS = ("vector_length", "stated_tdp_watts")
"""What the operator stage does not depend on: the vector unit's time is added to a whole pass."""
_READ_PARAMETERS = REQUIRED_PARAMETERS | OPTIONAL_PARAMETERS | {*FORMATS, *STRATEGIES}
_SAMPLE = 1024
"""Designs looked at for repetitions."""


@dataclass(frozen=True)
class Batch:
    """A batch of designs with what every metric needs; arrays are (n,).

    Attributes:
        setup: What the designs that are distinct to the operators bring to a pass, ``r`` of them.
        accelerators: The hardware of all.
        batch_size: Requests whose KV cache is held.
        weight_bytes: All weights.
        kv_bytes: KV cache of one request at its end.
        operand_bits: Widths of the array's two operands: activations, and the wider of
            weights and KV cache.
        violations: Limits known without evaluating, as relative excess.
        repeats: (n,) which of the distinct ones each is; None if every design stands for itself.
    """

    setup: Setup
    accelerators: AcceleratorBatch
    batch_size: FloatArray
    weight_bytes: FloatArray
    kv_bytes: FloatArray
    operand_bits: tuple[FloatArray, FloatArray]
    violations: Mapping[str, FloatArray]
    repeats: IntArray | None = None


class Preparation:
    """What is known of designs before any operator is looked at.

    Args:
        workload: Model, phase, tokens, batch.
        options: Resolved options.
        library: Memory technologies.
        largest_activations: Elements that one request's largest operator reads and writes.
    """

    def __init__(
        self,
        workload: Request,
        options: NpuOptions,
        library: Mapping[str, MemoryTechnology],
        largest_activations: float,
    ) -> None:
        self._workload = workload
        self._options = options
        self._units = UnitTables(library, options.technology_level)
        self._largest_activations = largest_activations

    def batch(self, designs: Columns) -> Batch:
        """Hardware, batch size and placement of ``n`` designs."""
        accelerators, weights, kv, size, violations = self._footprints(designs)
        activation_bytes = self._bytes(designs, "activation_format")
        in_pass = size if self._workload.phase == "decode" else np.ones_like(size)
        sizes = np.stack(
            [self._largest_activations * in_pass * activation_bytes, kv * size, weights]
        )
        storage = _codes(designs, "storage_priority", PRIORITIES)
        capacity = accelerators.levels.capacity_bytes
        for_tiles = TILE_BUFFER_SHARE if self._options.blocking == "capacity" else 0.0
        dataflow = _codes(designs, "dataflow", DATAFLOWS)
        organization = self._organization(designs)
        shape, representative = distinct(
            *combined(
                designs["pe_array"].codes,
                dataflow * len(ORGANIZATIONS) + organization,
                np.log2(in_pass).astype(np.int64),
            )
        )
        setup = Setup(
            accelerators=accelerators,
            weight_bytes=self._bytes(designs, "weight_format")[:, None],
            activation_bytes=activation_bytes[:, None],
            kv_bytes=self._bytes(designs, "kv_format")[:, None],
            organization=organization[:, None],
            dataflow=dataflow[:, None],
            bandwidth_priority=_codes(designs, "bandwidth_priority", BANDWIDTH_PRIORITIES)[:, None],
            batch_size=in_pass[:, None],
            storage=storage,
            tier_priority=self._tier_priority(storage),
            sizes_bytes=sizes,
            data_capacity_bytes=(1.0 - for_tiles) * capacity[0],
            shape=shape,
            representative=representative,
        )
        widths = _operand_bits(designs)
        return Batch(setup, accelerators, size, weights, kv, widths, violations)

    def repetition(self, designs: Columns, is_whole: bool = False) -> float:
        """How many neighbouring designs are the same, on average of a sample.

        Args:
            designs: The batch.
            is_whole: The same in every metric; else, to the operators.
        """
        n = min(len(designs["pe_array"]), _SAMPLE)
        if n < _SAMPLE:
            return 1.0
        sample = {name: Column(item.values, item.codes[:n]) for name, item in designs.items()}
        key, limit = self._key(sample, is_whole)
        return n / len(distinct(key, limit)[1]) if limit < MOST_COMBINATIONS else 1.0

    def without_copies(self, designs: Columns) -> tuple[Columns, IntArray | slice]:
        """Designs of which no two are the same in every metric; where each one is among them."""
        key, limit = self._key(designs, is_whole=True)
        if limit >= MOST_COMBINATIONS:
            return designs, slice(None)
        number, one = distinct(key, limit)
        return _taken(designs, one), number

    def grouped_batch(self, designs: Columns) -> Batch:
        """As :meth:`batch`, what equal designs share worked out once."""
        key, limit = self._key(designs, is_whole=False)
        if limit >= MOST_COMBINATIONS:
            return self.batch(designs)
        number, one = distinct(key, limit)
        few = self.batch(_taken(designs, one))
        free: dict[str, Any] = {
            name: designs[name].lookup(float) for name in _FREE_PARAMETERS if name in designs
        }
        return Batch(
            setup=few.setup,
            accelerators=replace(take(few.accelerators, number), **free),
            batch_size=few.batch_size[number],
            weight_bytes=few.weight_bytes[number],
            kv_bytes=few.kv_bytes[number],
            operand_bits=_operand_bits(designs),
            violations={name: values[number] for name, values in few.violations.items()},
            repeats=number,
        )

    def _key(self, designs: Columns, is_whole: bool) -> tuple[IntArray, int]:
        """(n,) numbers that are equal only where operators and limits, or all metrics, are."""
        convention = self._workload.format_convention

        def widths(name: str) -> tuple[float, ...]:
            stored = bits_per_element(name, convention)
            return (stored, multiply_bits(name)) if is_whole else (stored,)

        codes = [
            _classes(item, widths) if name in FORMATS else item.codes
            for name, item in sorted(designs.items())
            if name in _READ_PARAMETERS and (is_whole or name not in _FREE_PARAMETERS)
        ]
        return combined(*codes)

    def _tier_priority(self, storage: IntArray) -> IntArray:
        """(n,) which kind of data fills the tiers first."""
        if self._options.equal_tiers == "interleaved":
            return storage
        # After activations, weights and KV cache follow in the order of their traffic.
        is_equal = storage == PRIORITIES.index("equal")
        return np.where(is_equal, PRIORITIES.index("activation"), storage)

    def violations(self, designs: Columns) -> dict[str, FloatArray]:
        """``capacity``, ``shoreline`` and ``levels``, as relative excess; (n,) each."""
        return self._footprints(designs)[-1]

    def _footprints(
        self, designs: Columns
    ) -> tuple[AcceleratorBatch, FloatArray, FloatArray, FloatArray, dict[str, FloatArray]]:
        """Hardware, bytes of the weights and of one request's KV cache, batch, violations."""
        accelerators = build_accelerators(designs, self._units)
        weights = self._workload.weight_elements * self._bytes(designs, "weight_format")
        kv = self._workload.kv_elements_per_request * self._bytes(designs, "kv_format")
        levels = accelerators.levels
        capacity = levels.capacity_bytes.sum(axis=0)
        size = self.batch_of(capacity, weights, kv)
        missing = ~(levels.exists[0] & levels.exists[1])
        violations = {
            "capacity": (weights + size * kv) / np.maximum(capacity, 1.0) - 1.0,
            "shoreline": levels.shoreline_m.sum(axis=0) / self._options.memory_edge_m - 1.0,
            # Without memory on chip or off chip there is no port to stream through.
            "levels": np.where(missing, 1.0, 0.0),
        }
        return accelerators, weights, kv, size, violations

    def _bytes(self, designs: Columns, parameter: str) -> FloatArray:
        """(n,) bytes of an element."""
        convention = self._workload.format_convention
        return designs[parameter].lookup(lambda name: bits_per_element(name, convention) / 8)

    def _organization(self, designs: Columns) -> IntArray:
        """(n,) positions in ``ORGANIZATIONS``; a space may state it, else the option holds."""
        if "array_organization" in designs:
            return _codes(designs, "array_organization", ORGANIZATIONS)
        n = len(designs["pe_array"])
        return np.full(n, ORGANIZATIONS.index(self._options.array), dtype=np.int64)

    def batch_of(self, capacity: FloatArray, weights: FloatArray, kv: FloatArray) -> FloatArray:
        """The batch asked for, or the largest power of two that the capacity allows.

        Reproduces every batch of MemExplorer's Tables 5 and 6: weights and KV cache at the end
        of the generation against the capacity of all levels, activations not counted.
        """
        if self._workload.batch != "capacity":
            return np.full(len(weights), float(self._workload.batch))
        most = float(self._workload.max_batch)
        if not self._workload.kv_elements_per_request:
            return np.full(len(weights), most)
        fitting = np.clip((capacity - weights) * inverse(kv), 1.0, most)
        return np.asarray(np.exp2(np.floor(np.log2(fitting))))


def _codes(designs: Columns, parameter: str, known: tuple[str, ...]) -> IntArray:
    """(n,) position of each design's value in ``known``."""

    def position(value: str) -> float:
        if value not in known:
            raise UnknownNameError(parameter, value, known)
        return float(known.index(value))

    return designs[parameter].lookup(position).astype(np.int64)


def _operand_bits(designs: Columns) -> tuple[FloatArray, FloatArray]:
    """(n,) widths of the array's two operands."""
    bits = {name: designs[name].lookup(multiply_bits) for name in FORMATS}
    return bits["activation_format"], np.maximum(bits["weight_format"], bits["kv_format"])


def _taken(designs: Columns, positions: IntArray) -> Columns:
    return {name: Column(item.values, item.codes[positions]) for name, item in designs.items()}


def _classes(column: Column, meaning: Callable[[str], Hashable]) -> IntArray:
    """(n,) a code for what each design's value means: equal for values that mean the same."""
    numbers: dict[Hashable, int] = {}

    def number(value: str) -> float:
        return float(numbers.setdefault(meaning(value), len(numbers)))

    return column.lookup(number, absent=-1.0).astype(np.int64)
