"""What is known of designs before and after their batch size and order of tiers are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from codesign.columns import FloatArray, IntArray
from codesign.evaluators.npu.pass_setup import PassSetup
from codesign.hardware.accelerator import AcceleratorBatch, take
from codesign.hardware.hierarchy import inverse


@dataclass(frozen=True)
class Footprint:
    """What is known of ``n`` designs before batch size and order of the tiers are chosen.

    Attributes:
        hardware: With the tiers in the order in which the designs list them, so that a sum over
            them does not depend on the order in which they are used.
        accelerators: The same, the fastest tier first.
        tier_bytes_per_s: (t, n) what each tier sustains.
        tier_order: (t, n) which tier of the design, from 0, stands at each place.
        weight_bytes: (n,) all weights.
        kv_bytes: (n,) KV cache and recurrent state of one request at its end.
        operand_bits: (2, n) widths of the array's two operands: activations, and the wider of
            weights and KV cache.
        sizes: (s,) batch sizes, ascending.
        least_size: (n,) position of the smallest that each may choose.
        most_size: (n,) position of the largest, with which the choice begins.
        violations: Limits known without evaluating, as relative excess; (n,) each.
    """

    hardware: AcceleratorBatch
    accelerators: AcceleratorBatch
    tier_bytes_per_s: FloatArray
    tier_order: IntArray
    weight_bytes: FloatArray
    kv_bytes: FloatArray
    operand_bits: FloatArray
    sizes: FloatArray
    least_size: IntArray
    most_size: IntArray
    violations: Mapping[str, FloatArray]

    def take(self, positions: IntArray, order: IntArray | None = None) -> Footprint:
        """Of the designs at these positions.

        Args:
            positions: (p,) those wanted.
            order: (t, p) another order of their tiers, as positions among those here.
        """
        bandwidth, tier_order = self.tier_bytes_per_s[:, positions], self.tier_order[:, positions]
        if order is not None:
            bandwidth = np.take_along_axis(bandwidth, order, axis=0)
            tier_order = np.take_along_axis(tier_order, order, axis=0)
        return Footprint(
            hardware=take(self.hardware, positions),
            accelerators=take(self.accelerators, positions, order),
            tier_bytes_per_s=bandwidth,
            tier_order=tier_order,
            weight_bytes=self.weight_bytes[positions],
            kv_bytes=self.kv_bytes[positions],
            operand_bits=self.operand_bits[:, positions],
            sizes=self.sizes,
            least_size=self.least_size[positions],
            most_size=self.most_size[positions],
            violations={name: values[positions] for name, values in self.violations.items()},
        )


@dataclass(frozen=True)
class PreparedBatch:
    """``n`` designs ready for the operators; arrays are (n,).

    Attributes:
        setup: What they bring to a pass, their tiers in the order in which they are used.
        tier_order: (t, n) which tier of the design, from 0, stands at each place.
        batch_size: Requests whose KV cache is held.
        kv_bytes: KV cache and recurrent state of one request at its end.
    """

    setup: PassSetup
    tier_order: IntArray
    batch_size: FloatArray
    weight_bytes: FloatArray
    kv_bytes: FloatArray


def requests_that_fit(room_bytes: FloatArray, kv_bytes: FloatArray, n_batches: int) -> FloatArray:
    """(n,) requests of all batches; those of one share its room, and each of them takes ``kv``.

    Args:
        room_bytes: Memory of a device without the weights.
        kv_bytes: Cache of a request, of the layers that a device has times the stages.
        n_batches: Batches on their way, in groups of devices and in stages of a pipeline.
    """
    fitting = np.floor(np.maximum(room_bytes, 0.0) * inverse(kv_bytes)) * n_batches
    return np.where(kv_bytes > 0, fitting, np.inf)
