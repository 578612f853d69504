"""What designs bring to a pass: hardware, formats, batch size, and where their data live."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from codesign.columns import BoolArray, FloatArray, IntArray, combined, distinct
from codesign.evaluators.npu.npu_options import MATRIX_SHARE, NpuOptions
from codesign.evaluators.npu.operator_stage import pinned_shares, tails_of
from codesign.evaluators.npu.placement import Three, share_on_chip
from codesign.evaluators.npu.stage_records import DesignInputs, Modelling, Moved, WeightGroups
from codesign.evaluators.npu.traffic import port_bytes
from codesign.hardware.accelerator import AcceleratorBatch
from codesign.workload.lowering import Phase

BANDWIDTH_PRIORITIES = tuple(MATRIX_SHARE)
"""Bandwidth priorities; a code is the position here."""
ArrayKind: TypeAlias = tuple[float, float, int, int]
"""Depth, width, organization and dataflow of an array."""
ArrayShape: TypeAlias = tuple[ArrayKind, float]
"""An array with a batch size."""
_MATRIX_SHARES = np.array([MATRIX_SHARE[name] or 1.0 for name in BANDWIDTH_PRIORITIES])


@dataclass(frozen=True)
class PassSetup:
    """What ``n`` designs bring to a pass.

    Attributes:
        weight_bytes: (n, 1) bytes of a weight, on average.
        weight_groups: The same by groups of layers.
        activation_bytes: (n, 1) bytes of an activation.
        kv_bytes: (n, 1) bytes of an element of the KV cache.
        organization: (n, 1) positions in ``ORGANIZATIONS``.
        dataflow: (n, 1) positions in ``DATAFLOWS``.
        bandwidth_priority: (n, 1) positions in ``BANDWIDTH_PRIORITIES``.
        batch_size: (n, 1) requests processed together in the pass.
        storage: (n,) positions in ``PRIORITIES``.
        sizes_bytes: (3, n) bytes of each kind of data.
        data_capacity_bytes: (n,) on-chip bytes for data that stay.
        kind: (n,) which of the ``k`` distinct combinations of array and dataflow each design has;
            what depends on those and on the batch size alone is computed once.
        representative: (k,) position of one design of each.
        phase: ``prefill`` or ``decode``.
    """

    accelerators: AcceleratorBatch
    weight_bytes: FloatArray
    weight_groups: WeightGroups
    activation_bytes: FloatArray
    kv_bytes: FloatArray
    organization: IntArray
    dataflow: IntArray
    bandwidth_priority: IntArray
    batch_size: FloatArray
    storage: IntArray
    sizes_bytes: FloatArray
    data_capacity_bytes: FloatArray
    kind: IntArray
    representative: IntArray
    options: NpuOptions
    phase: Phase

    @cached_property
    def modelling(self) -> Modelling:
        """The options as numbers."""
        return modelling_of(self.options, self.phase)

    @cached_property
    def arrays(self) -> tuple[ArrayKind, ...]:
        """(k,) depth, width, organization and dataflow of each kind."""
        hardware, few = self.accelerators, self.representative
        columns = (
            hardware.array_depth[few],
            hardware.array_width[few],
            self.organization[few, 0],
            self.dataflow[few, 0],
        )
        return tuple(zip(*(column.tolist() for column in columns), strict=True))

    @cached_property
    def shape(self) -> IntArray:
        """(n,) which of ``shapes`` each design has."""
        return self._shapes[0]

    @property
    def shapes(self) -> tuple[ArrayShape, ...]:
        """(u,) the distinct combinations of array, dataflow and batch size."""
        return self._shapes[1]

    @cached_property
    def _shapes(self) -> tuple[IntArray, tuple[ArrayShape, ...]]:
        size = self.batch_size[:, 0]
        number, first = distinct(*combined(self.kind, size.astype(np.int64)))
        kinds, sizes = self.kind[first].tolist(), size[first].tolist()
        return number, tuple((self.arrays[kind], of) for kind, of in zip(kinds, sizes, strict=True))

    @cached_property
    def is_shared_freely(self) -> BoolArray:
        """(n, 1) whether weights, KV cache and activations have no fixed shares of bandwidth."""
        by_design = self.bandwidth_priority == BANDWIDTH_PRIORITIES.index("shared")
        return np.asarray(by_design | (self.options.bandwidth_sharing == "shared"))

    @cached_property
    def on_chip_bytes(self) -> FloatArray:
        """(3, n) what each kind of data has on chip."""
        return share_on_chip(self.sizes_bytes, self.data_capacity_bytes, self.storage)

    @cached_property
    def pinned(self) -> FloatArray:
        """(3, n) the share of all data of each kind that this is."""
        return np.stack(pinned_shares(_three(self.on_chip_bytes), _three(self.sizes_bytes)))

    @cached_property
    def tails(self) -> FloatArray:
        """(3, t, n) share of each kind's off-chip bytes in tier t or deeper; the first is 1."""
        all_bytes = np.ones(len(self.storage))
        tails = tails_of(self.inputs((-1,)), self.modelling)
        return np.stack([np.stack(np.broadcast_arrays(all_bytes, *of_kind)) for of_kind in tails])

    def inputs(self, shape: tuple[int, ...]) -> DesignInputs:
        """What the operator stage needs of designs; every array in this shape, (n,) or (n, 1)."""
        hardware, levels = self.accelerators, self.accelerators.levels
        share = np.where(self.is_shared_freely, 1.0, _MATRIX_SHARES[self.bandwidth_priority])
        capacity, bandwidth = levels.capacity_bytes, levels.bandwidth_bytes_per_s
        latency = levels.latency_s
        return DesignInputs(
            batch_size=self.batch_size.reshape(shape),
            weight_bytes=self.weight_bytes.reshape(shape),
            activation_bytes=self.activation_bytes.reshape(shape),
            kv_bytes=self.kv_bytes.reshape(shape),
            dataflow=self.dataflow.reshape(shape),
            depth=hardware.array_depth.reshape(shape),
            width=hardware.array_width.reshape(shape),
            clock_hz=hardware.clock_hz.reshape(shape),
            matrix_share=share.reshape(shape),
            is_shared=self.is_shared_freely.reshape(shape),
            storage=self.storage.reshape(shape),
            sizes=_three(self.sizes_bytes.reshape(3, *shape)),
            data_capacity_bytes=self.data_capacity_bytes.reshape(shape),
            on_chip_capacity_bytes=capacity[0].reshape(shape),
            on_chip_bandwidth_bytes_per_s=bandwidth[0].reshape(shape),
            on_chip_latency_s=latency[0].reshape(shape),
            tier_capacity_bytes=tuple(of.reshape(shape) for of in capacity[1:]),
            tier_bandwidth_bytes_per_s=tuple(of.reshape(shape) for of in bandwidth[1:]),
            tier_latency_s=tuple(of.reshape(shape) for of in latency[1:]),
            write_energy_ratio=tuple(of.reshape(shape) for of in levels.write_energy_ratio),
        )

    def port_traffic(self, moved: Moved) -> tuple[FloatArray, FloatArray]:
        """(l, ...) bytes read and written at every level's port; the other axes are ``moved``'s."""
        beyond = self.tails[:, 1:]
        if moved.weight_reads.ndim == 2:
            beyond = beyond[..., None]
        of_activations, of_kv, of_weights = (tuple(of_kind) for of_kind in beyond)
        tails = (of_activations, of_kv, of_weights)
        reads, writes = port_bytes(moved, tails, self.modelling.is_staged)
        return np.stack(reads), np.stack(writes)


def modelling_of(options: NpuOptions, phase: Phase) -> Modelling:
    """Resolved options as numbers."""
    is_calibrated = options.blocking == "array"
    return Modelling(
        blocks_for_capacity=not is_calibrated,
        is_series=is_calibrated and phase == "decode",
        # Calibrated, every tier feeds the array side by side, whatever the topology.
        is_staged=options.topology == "staged" and not is_calibrated,
        is_vector_serial=options.vector == "serial",
        offchip_efficiency=options.offchip_efficiency or 1.0,
        requests_in_flight=0.0 if is_calibrated else options.requests_in_flight or 0.0,
    )


def _three(rows: FloatArray) -> Three:
    first, second, third = rows
    return first, second, third
