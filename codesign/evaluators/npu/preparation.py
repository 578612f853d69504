"""From columns of a design batch to what a pass needs: hardware, batch size, placement.

Which batch size and which order of the tiers a design works with is chosen in ``choice.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from codesign.columns import (
    MOST_COMBINATIONS,
    BoolArray,
    Column,
    Columns,
    FloatArray,
    IntArray,
    combined,
    distinct,
    taken,
)
from codesign.deployments import ModelPart
from codesign.errors import InputError, check_known
from codesign.evaluators.npu.footprint import Footprint, PreparedBatch
from codesign.evaluators.npu.format_widths import (
    element_bytes,
    groups_of_weights,
    meaning,
    widths_of_operands,
)
from codesign.evaluators.npu.npu_options import TILE_BUFFER_SHARE, NpuOptions
from codesign.evaluators.npu.pass_setup import BANDWIDTH_PRIORITIES, PassSetup
from codesign.evaluators.npu.placement import PRIORITIES, WRITTEN, resident_bytes
from codesign.evaluators.phase_machine import BATCH_SIZE
from codesign.hardware.accelerator import (
    OPTIONAL_PARAMETERS,
    REQUIRED_PARAMETERS,
    AcceleratorBatch,
    UnitTables,
    build_accelerators,
    take,
)
from codesign.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.hardware.hierarchy import in_flight_bandwidth_bytes_per_s, inverse
from codesign.hardware.tier_order import fastest_first
from codesign.memtech import MemoryTechnology
from codesign.workload import Request
from codesign.workload.lowering import Phase
from codesign.workload.precision import FORMAT_KEYS

STRATEGIES = ("storage_priority", "dataflow", "bandwidth_priority")
"""Parameters of the software (MemExplorer §4.2)."""


_FREE_PARAMETERS = ("vector_length", "stated_tdp_watts")
"""What the operator stage does not depend on: the vector unit works beside a whole pass."""
_READ_PARAMETERS = (
    REQUIRED_PARAMETERS | OPTIONAL_PARAMETERS | {*FORMAT_KEYS, *STRATEGIES, BATCH_SIZE}
)
_SAMPLE = 1024
"""Designs looked at for repetitions."""


class Preparation:
    """What is known of designs before any operator is looked at.

    Args:
        part: What one device has of the model.
        largest_activations: Elements that one request's largest operator reads and writes.
    """

    def __init__(
        self,
        workload: Request,
        part: ModelPart,
        options: NpuOptions,
        library: Mapping[str, MemoryTechnology],
        largest_activations: float,
    ) -> None:
        self._workload = workload
        self.part = part
        self._options = options
        self._units = UnitTables(library, options.technology_level)
        self.largest_activations = largest_activations

    def batch(
        self,
        designs: Columns,
        footprint: Footprint | None = None,
        batch_size: FloatArray | None = None,
    ) -> PreparedBatch:
        """Hardware, batch size and placement of ``n`` designs.

        Args:
            footprint: What is known of them, if it is, with the tiers in the wanted order.
            batch_size: (n,) requests held; the largest allowed if None.
        """
        known = self.footprint(designs) if footprint is None else footprint
        size = known.sizes[known.most_size] if batch_size is None else batch_size
        accelerators = known.accelerators
        activation_bytes = self._bytes(designs, "activation_format")
        in_pass = size if self._workload.phase == "decode" else np.ones_like(size)
        capacity = accelerators.levels.capacity_bytes
        for_tiles = TILE_BUFFER_SHARE if self._options.blocking == "capacity" else 0.0
        dataflow = _codes(designs, "dataflow", DATAFLOWS)
        organization = self._organization(designs)
        kind, representative = distinct(
            *combined(designs["pe_array"].codes, dataflow * len(ORGANIZATIONS) + organization)
        )
        setup = PassSetup(
            accelerators=accelerators,
            weight_bytes=self._bytes(designs, "weight_format")[:, None],
            weight_groups=groups_of_weights(
                designs["weight_format"], self._workload.format_convention
            ),
            activation_bytes=activation_bytes[:, None],
            kv_bytes=self._bytes(designs, "kv_format")[:, None],
            organization=organization[:, None],
            dataflow=dataflow[:, None],
            bandwidth_priority=_codes(designs, "bandwidth_priority", BANDWIDTH_PRIORITIES)[:, None],
            batch_size=in_pass[:, None],
            storage=_codes(designs, "storage_priority", PRIORITIES),
            sizes_bytes=np.stack(
                resident_bytes(
                    self.largest_activations,
                    in_pass,
                    activation_bytes,
                    size,
                    known.kv_bytes,
                    known.weight_bytes,
                )
            ),
            data_capacity_bytes=(1.0 - for_tiles) * capacity[0],
            kind=kind,
            representative=representative,
            options=self._options,
            phase=self._workload.phase,
        )
        return PreparedBatch(
            setup=setup,
            tier_order=known.tier_order,
            batch_size=size,
            weight_bytes=known.weight_bytes,
            kv_bytes=known.kv_bytes,
        )

    def repetition(self, designs: Columns, is_whole: bool = False) -> float:
        """How many neighbouring designs are the same, on average of a sample.

        Args:
            designs: The batch.
            is_whole: The same in every metric; else, to the operators.
        """
        n = min(len(designs["pe_array"]), _SAMPLE)
        if n < _SAMPLE:
            return 1.0
        key, limit = self._key(taken(designs, slice(n)), is_whole)
        return n / len(distinct(key, limit)[1]) if limit < MOST_COMBINATIONS else 1.0

    def without_copies(self, designs: Columns) -> tuple[Columns, IntArray | slice]:
        """Designs of which no two are the same in every metric; where each one is among them."""
        key, limit = self._key(designs, is_whole=True)
        if limit >= MOST_COMBINATIONS:
            return designs, slice(None)
        number, first = distinct(key, limit)
        return taken(designs, first), number

    def distinct_to_operators(
        self, designs: Columns, tells_vectors_apart: bool
    ) -> tuple[Columns, IntArray | None]:
        """Designs of which no two are the same to the operators; where each one is among them.

        Args:
            designs: All of them.
            tells_vectors_apart: Whether the vector unit has a say in the batch size.
        """
        free = ("stated_tdp_watts",) if tells_vectors_apart else _FREE_PARAMETERS
        key, limit = self._key(designs, is_whole=False, free=free)
        if limit >= MOST_COMBINATIONS:
            return designs, None
        number, representative = distinct(key, limit)
        return taken(designs, representative), number

    def spread(self, footprint: Footprint, number: IntArray, designs: Columns) -> Footprint:
        """The footprint of all designs from that of the distinct ones.

        Args:
            footprint: Of the distinct ones.
            number: (n,) which of them each design is.
            designs: All of them.
        """
        free: dict[str, Any] = {
            name: designs[name].lookup(float) for name in _FREE_PARAMETERS if name in designs
        }
        few = footprint.take(number)
        return replace(
            few,
            hardware=replace(few.hardware, **free),
            accelerators=replace(few.accelerators, **free),
            operand_bits=widths_of_operands(designs),
        )

    def _key(
        self, designs: Columns, is_whole: bool, free: Sequence[str] = _FREE_PARAMETERS
    ) -> tuple[IntArray, int]:
        """(n,) numbers that are equal only where operators and limits, or all metrics, are."""
        convention = self._workload.format_convention

        codes = [
            _classes(item, meaning(name, convention, is_whole))
            if name in FORMAT_KEYS
            else item.codes
            for name, item in sorted(designs.items())
            if name in _READ_PARAMETERS and (is_whole or name not in free)
        ]
        return combined(*codes)

    def violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        """``capacity``, ``shoreline`` and ``levels``, as relative excess; (n,) each."""
        return self.footprint(designs).violations

    def footprint(self, designs: Columns) -> Footprint:
        """What is known of designs before their batch size and order of tiers are chosen."""
        hardware = accelerators = build_accelerators(designs, self._units)
        weights = self.part.weight_elements * self._bytes(designs, "weight_format")
        kv = self.part.kv_elements_per_request * self._bytes(designs, "kv_format")
        kv = kv + self.part.state_bytes_per_request
        levels = accelerators.levels
        capacity = levels.capacity_bytes.sum(axis=0)
        sizes, least_size, most_size = self._batch_range(designs, capacity, weights, kv)
        missing = ~(levels.exists[0] & levels.exists[1])
        violations = {
            "capacity": (weights + sizes[least_size] * kv) / np.maximum(capacity, 1.0) - 1.0,
            "shoreline": levels.shoreline_m.sum(axis=0) / self._options.memory_edge_m - 1.0,
            # Without memory on chip or off chip there is no port to stream through.
            "levels": np.where(missing, 1.0, 0.0),
        }
        bandwidth = self._sustained_bandwidth(designs, accelerators)
        spares = self._spares_wear(designs)
        wearing = (levels.wear_per_byte[1:] > 0) & spares if spares.any() else None
        order = fastest_first(bandwidth, levels.capacity_bytes[1:], wearing)
        if order is None:
            order = np.repeat(np.arange(len(bandwidth))[:, None], len(weights), axis=1)
        else:
            accelerators = take(accelerators, np.arange(len(weights)), order)
            bandwidth = np.take_along_axis(bandwidth, order, axis=0)
        return Footprint(
            hardware=hardware,
            accelerators=accelerators,
            tier_bytes_per_s=bandwidth,
            tier_order=order,
            weight_bytes=weights,
            kv_bytes=kv,
            operand_bits=widths_of_operands(designs),
            sizes=sizes,
            least_size=least_size,
            most_size=most_size,
            violations=violations,
        )

    def _bytes(self, designs: Columns, parameter: str) -> FloatArray:
        """(n,) bytes of an element."""
        return designs[parameter].lookup(element_bytes(parameter, self._workload.format_convention))

    def _sustained_bandwidth(self, designs: Columns, accelerators: AcceleratorBatch) -> FloatArray:
        """(t, n) of each tier: the peak, unless requests in flight are limited."""
        levels, many = accelerators.levels, self._options.requests_in_flight
        if many is None or self._options.blocking == "array":
            return levels.bandwidth_bytes_per_s[1:]
        chunk_bytes = accelerators.macs_per_cycle * self._bytes(designs, "weight_format")
        return in_flight_bandwidth_bytes_per_s(
            levels.bandwidth_bytes_per_s[1:], levels.latency_s[1:], chunk_bytes, many
        )

    def _spares_wear(self, designs: Columns) -> BoolArray:
        """(n,) whether tiers that wear stand behind all others; a partial design has no say yet."""
        if "storage_priority" not in designs:
            return np.zeros(len(designs["pe_array"]), dtype=bool)
        spares = _codes(designs, "storage_priority", PRIORITIES) == WRITTEN
        if spares.any() and (self._options.topology, self._options.blocking) != (
            "staged",
            "capacity",
        ):
            raise InputError(
                "storage_priority 'written' needs topology staged and blocking capacity, as of "
                f"profile plain; got {self._options.topology} and {self._options.blocking}. "
                "Nearest: kv"
            )
        return np.asarray(spares)

    def _organization(self, designs: Columns) -> IntArray:
        """(n,) positions in ``ORGANIZATIONS``; a space may state it, else the option holds."""
        if "array_organization" in designs:
            return _codes(designs, "array_organization", ORGANIZATIONS)
        n = len(designs["pe_array"])
        return np.full(n, ORGANIZATIONS.index(self._options.array), dtype=np.int64)

    def _batch_range(
        self, designs: Columns, capacity: FloatArray, weights: FloatArray, kv: FloatArray
    ) -> tuple[FloatArray, IntArray, IntArray]:
        """(s,) batch sizes; (n,) positions of the smallest and the largest that may be chosen."""
        if BATCH_SIZE in designs:
            own = designs[BATCH_SIZE].lookup(float)
            sizes, position = np.unique(own, return_inverse=True)
            return sizes, position, position
        fixed = self.fixed_batches
        powers = 2.0 ** np.arange(np.floor(np.log2(self._workload.max_batch)) + 1)
        sizes = powers if fixed is None else fixed
        first = np.zeros(len(weights), dtype=np.int64)
        if self.batch_policy == "capacity":
            most = np.searchsorted(sizes, self.largest_batch(capacity, weights, kv))
            return sizes, most, most
        if self.phase == "prefill" or len(sizes) == 1:
            # Requests are prefilled one after the other: holding more of them speeds up none.
            return sizes, first, first
        fits = weights + sizes[1:, None] * kv <= capacity
        return sizes, first, fits.sum(axis=0)

    @property
    def phase(self) -> Phase:
        """Of the workload."""
        return self._workload.phase

    @property
    def batch_policy(self) -> int | Sequence[int] | str:
        """What workload or options say: a number, numbers to choose from, or a rule."""
        return self._workload.batch or self._options.batch or "best"

    @property
    def fixed_batches(self) -> FloatArray | None:
        """(b,) the numbers that the policy names, ascending; None if it is a rule."""
        policy = self.batch_policy
        if isinstance(policy, str):
            return None
        return np.unique(np.atleast_1d(np.array(policy, dtype=np.float64)))

    def largest_batch(
        self, capacity: FloatArray, weights: FloatArray, kv: FloatArray
    ) -> FloatArray:
        """(n,) the largest power of two that the capacity allows, 1 at least.

        Reproduces every batch of MemExplorer's Tables 5 and 6: weights and KV cache at the end
        of the generation against the capacity of all levels, activations not counted.
        """
        most = float(self._workload.max_batch)
        fitting = np.clip((capacity - weights) * inverse(kv), 1.0, most)
        fitting = np.where(kv > 0, fitting, most)
        return np.asarray(np.exp2(np.floor(np.log2(fitting))))


def _codes(designs: Columns, parameter: str, known: tuple[str, ...]) -> IntArray:
    """(n,) position of each design's value in ``known``."""

    def position(value: str) -> float:
        check_known(parameter, value, known)
        return float(known.index(value))

    return designs[parameter].lookup(position).astype(np.int64)


def _classes(column: Column, meaning: Callable[[str], Hashable]) -> IntArray:
    """(n,) a code for what each design's value means: equal for values that mean the same."""
    numbers: dict[Hashable, int] = {}

    def number(value: str) -> float:
        return float(numbers.setdefault(meaning(value), len(numbers)))

    return column.lookup(number, absent=-1.0).astype(np.int64)
