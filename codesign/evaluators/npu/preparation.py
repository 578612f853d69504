"""Facts about all designs before any operator is looked at, and groups of equal designs.

Which batch size and which order of the tiers a design works with is chosen in ``choice.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial

import numpy as np

from codesign.base.columns import (
    MOST_COMBINATIONS,
    Column,
    Columns,
    FloatArray,
    IntArray,
    IntegerSequence,
    SharedColumns,
    Strings,
    combined,
    compute_once,
    distinct,
    n_designs,
    taken,
)
from codesign.base.errors import entry_named
from codesign.evaluators.npu.format_widths import meaning
from codesign.evaluators.npu.npu_options import (
    MATRIX_SHARE,
    NpuOptions,
    account_constants,
    link_time,
    modelling_of,
)
from codesign.evaluators.npu.operator_times import Pass
from codesign.evaluators.npu.prepared_designs import PreparedDesigns
from codesign.evaluators.phase_machine import BATCH_SIZE
from codesign.models.deployments import ModelPart
from codesign.models.hardware.accelerator import (
    OPTIONAL_PARAMETERS,
    REQUIRED_PARAMETERS,
    build_accelerators,
    shared_tables,
)
from codesign.models.hardware.formula_operations import inverse
from codesign.models.machines.npu.operator_stage import TILE_BUFFER_SHARE
from codesign.models.memtech import (
    Technologies,
)
from codesign.models.workload import Request
from codesign.models.workload.lowering import Phase
from codesign.models.workload.precision import FORMAT_KEYS

STRATEGIES = ("storage_priority", "dataflow", "bandwidth_priority")
"""Parameters of the software (MemExplorer §4.2)."""


_FREE_PARAMETERS = ("vector_length", "stated_tdp_watts")
"""Parameters on which the operator stage does not depend: the vector unit works beside a whole
pass."""
_READ_PARAMETERS = (
    REQUIRED_PARAMETERS | OPTIONAL_PARAMETERS | {*FORMAT_KEYS, *STRATEGIES, BATCH_SIZE}
)
_SAMPLE = 1024
"""Designs looked at for repetitions."""


class Preparation:
    """Inputs that all designs share: the work, the modelling and the technologies.

    Args:
        part: What one device has of the model.
        pass_: Its operators.
    """

    def __init__(
        self,
        workload: Request,
        part: ModelPart,
        options: NpuOptions,
        library: Technologies,
        pass_: Pass,
    ) -> None:
        self.workload = workload
        self.part = part
        self.options = options
        self.pass_ = pass_
        self.modelling = modelling_of(options)
        self.link = link_time(part, options)
        self.constants = account_constants(options)
        self.energies = self.constants.operation_energies
        self.convention = workload.format_convention
        self.units = shared_tables(
            library,
            options.technology_level,
            options.score_path or "uncharged",
            self.constants.logic_energy_scale,
        )
        self.key = self.units, repr(options), self.convention
        """Everything besides parameters on which a design's hardware depends."""
        table = part.table
        largest = (table.input_elements_per_request + table.output_elements_per_request).max()
        self.largest_activations = float(largest)
        """Elements that one request's largest operator reads and writes."""

    def prepared(self, designs: Columns) -> PreparedDesigns:
        """The designs with the largest batch size allowed, the fastest tier first."""
        columns = designs if isinstance(designs, SharedColumns) else SharedColumns(designs)
        listed = compute_once(columns, self.key, partial(build_accelerators, columns, self.units))
        return PreparedDesigns(self, columns, listed)

    def repetition(self, designs: Columns, is_whole: bool = False) -> float:
        """Mean number of equal neighbouring designs in a sample.

        Args:
            designs: The batch.
            is_whole: The same in every metric; else, to the operators.
        """
        n = min(n_designs(designs), _SAMPLE)
        if n < _SAMPLE:
            return 1.0
        key, limit = self._key(taken(designs, slice(n)), is_whole)
        return n / len(distinct(key, limit)[1]) if limit < MOST_COMBINATIONS else 1.0

    def deduplicated(self, designs: Columns) -> tuple[Columns, IntArray | slice]:
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

    def _key(
        self, designs: Columns, is_whole: bool, free: Strings = _FREE_PARAMETERS
    ) -> tuple[IntArray, int]:
        """(n,) numbers that are equal only where operators and limits, or all metrics, are."""
        codes = [
            _classes(item, meaning(name, self.convention, is_whole))
            if name in FORMAT_KEYS
            else item.codes
            for name, item in sorted(designs.items())
            if name in _READ_PARAMETERS and (is_whole or name not in free)
        ]
        return combined(*codes)

    def request_bytes(self, kv_bytes: FloatArray) -> FloatArray:
        """KV cache and recurrent state of one request at its end, by the bytes of an element."""
        return self.part.kv_elements_per_request * kv_bytes + self.part.state_bytes_per_request

    @property
    def phase(self) -> Phase:
        """Phase of the workload."""
        return self.workload.phase

    def matrix_share(self, priority: str) -> float:
        """Share of the off-chip bandwidth that a bandwidth priority gives weights and KV cache."""
        share = entry_named("bandwidth_priority", priority, MATRIX_SHARE)
        return 1.0 if self.options.bandwidth_sharing == "shared" else share

    @property
    def data_share(self) -> float:
        """Part of the on-chip memory for data that stay; the rest is for tiles."""
        return 1.0 if self.modelling.is_array_blocked else 1.0 - TILE_BUFFER_SHARE

    @property
    def batch_policy(self) -> int | IntegerSequence | str:
        """Batch policy of workload or options: a number, numbers to choose from, or a rule."""
        return self.workload.batch or self.options.batch or "best"

    @cached_property
    def fixed_batches(self) -> FloatArray | None:
        """(b,) the numbers that the policy names, ascending; None if it is a rule."""
        policy = self.batch_policy
        if isinstance(policy, str):
            return None
        return np.unique(np.atleast_1d(np.array(policy, np.float64)))

    @property
    def powers_of_two(self) -> FloatArray:
        """(s,) the batch sizes of the rules."""
        return 2.0 ** np.arange(np.floor(np.log2(self.workload.max_batch)) + 1)

    def largest_size(
        self, sizes: FloatArray, capacity: FloatArray, weights: FloatArray, kv: FloatArray
    ) -> IntArray:
        """(n,) position of the largest batch size that the memory allows; the first at least.

        Args:
            sizes: (s,) batch sizes, ascending.
            capacity: (n,) bytes of all memory levels.
            weights: (n,) bytes of all weights.
            kv: (n,) bytes that a request keeps.
        """
        if self.batch_policy == "capacity":
            return np.searchsorted(sizes, self.largest_batch(capacity, weights, kv))
        if self.phase == "prefill" or len(sizes) == 1:
            # Requests are prefilled one after the other: holding more of them speeds up none.
            return np.zeros(len(capacity), np.int64)
        return np.asarray((weights + sizes[1:, None] * kv <= capacity).sum(axis=0))

    def most_rows(self, sizes: FloatArray) -> FloatArray:
        """(s,) rows of the product with most rows, by batch size."""
        pass_requests = sizes if self.phase == "decode" else np.ones_like(sizes)
        return np.asarray(self.part.table.rows_per_product(pass_requests[:, None]).max(axis=1))

    def filled_rows(self, rows: FloatArray, width: FloatArray) -> FloatArray:
        """(n,) share of the array's rows that draw power at most.

        Args:
            rows: (n,) rows of the largest product.
            width: (n,) rows of the array.
        """
        return (
            np.ones(len(width)) if self.options.work == "padded" else np.minimum(rows / width, 1.0)
        )

    def largest_batch(
        self, capacity: FloatArray, weights: FloatArray, kv: FloatArray
    ) -> FloatArray:
        """(n,) the largest power of two that the capacity allows, 1 at least.

        Reproduces every batch of MemExplorer's Tables 5 and 6: weights and KV cache at the end
        of the generation against the capacity of all levels, activations not counted.
        """
        most = float(self.workload.max_batch)
        fitting = np.clip((capacity - weights) * inverse(kv), 1.0, most)
        fitting = np.where(kv > 0, fitting, most)
        return np.exp2(np.floor(np.log2(fitting)))


def _classes(column: Column, meaning: Callable[[str], Hashable]) -> IntArray:
    """(n,) a code for what each design's value means: equal for values that mean the same."""
    numbers: dict[Hashable, int] = {}

    def number(value: str) -> float:
        return float(numbers.setdefault(meaning(value), len(numbers)))

    return column.lookup(number, absent=-1.0).astype(np.int64)


def requests_that_fit(room_bytes: FloatArray, kv_bytes: FloatArray, n_batches: int) -> FloatArray:
    """(n,) requests of all batches; those of one share its room, and each of them takes ``kv``.

    Args:
        room_bytes: Memory of a device without the weights.
        kv_bytes: Cache of a request, of the layers that a device has times the stages.
        n_batches: Batches on their way, in groups of devices and in stages of a pipeline.
    """
    fitting = np.floor(np.maximum(room_bytes, 0.0) * inverse(kv_bytes)) * n_batches
    return np.where(kv_bytes > 0, fitting, np.inf)
