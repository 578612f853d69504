"""Features of an NPU known before any operator: hints for models of its metrics.

Search may learn faster from these than from the parameters: the ends of the roofline, the
power limit, how long the data that stay in memory take to read once, and (added by the evaluator)
what a roofline of the whole pass allows. They are features of
a surrogate model and no result, so they need to be informative, not accurate.
"""

from __future__ import annotations

from codesign.base.columns import ArrayDict
from codesign.evaluators.npu.cost_metrics import SiliconMetrics
from codesign.evaluators.npu.prepared_designs import PreparedDesigns
from codesign.models.hardware.formula_operations import inverse

BOUNDED = ("throughput_tokens_per_s", "energy_joules_per_token")
"""Metrics whose bounds by the busiest unit of a whole pass (``best_case.py``) are features too."""
BOUNDED_ALIKE = frozenset({"lifetime_years"})
"""Metrics whose bound is the same for every design, so that it predicts nothing."""
_KV, _WEIGHTS = 1, 2
"""Positions in ``pinned`` and ``tails`` of designs."""


def features(designs: PreparedDesigns) -> ArrayDict:
    """(n,) numbers by name, of designs with hardware, batch size and placement.

    Power, rates, capacity and batch size are of all devices that serve the model, the rest of one.
    ``resident_bytes`` are the weights and the batch's KV cache that are kept off chip; a tier
    takes ``their bytes over its peak bandwidth`` to read its share of them, and all that lies
    deeper, once (MemExplorer Eq. 2 passes deeper data through every level).
    """
    hardware = designs.accelerators
    preparation = designs.preparation
    levels = hardware.levels
    silicon = SiliconMetrics(hardware, designs.operand_bits, preparation, designs.filled_rows, {})
    off_chip = 1.0 - designs.pinned
    kv_bytes = designs.kv_request_bytes * designs.batch_size * off_chip[_KV]
    weight_bytes = designs.all_weight_bytes * off_chip[_WEIGHTS]
    tails = designs.tails
    through_tiers = kv_bytes * tails[_KV] + weight_bytes * tails[_WEIGHTS]
    tier_s = through_tiers * inverse(levels.bandwidth_bytes_per_s[1:])
    return {
        "tdp_watts": silicon.tdp_watts,
        "peak_flop_per_s": silicon.peak_flop_per_s,
        "onchip_bandwidth_bytes_per_s": levels.bandwidth_bytes_per_s[0],
        "offchip_bandwidth_bytes_per_s": silicon.offchip_bandwidth_bytes_per_s,
        "onchip_capacity_bytes": levels.capacity_bytes[0],
        "memory_capacity_bytes": silicon.memory_capacity_bytes,
        "batch_size": designs.batch_size * preparation.part.n_batches,
        "resident_bytes": kv_bytes + weight_bytes,
        "slowest_tier_s": tier_s.max(axis=0),
        "all_tiers_s": tier_s.sum(axis=0),
    }
