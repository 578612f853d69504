"""A design as a system of GenZ [GenZ]_, for ``genz-llm``.

GenZ takes ``Flops`` in TFLOP/s at bf16 and runs 8 bits twice and 4 bits four times as fast;
``Memory_BW`` "GB/s" is multiplied by 2**30, ``Memory_size`` "GB" is GiB
(``GenZ/system.py``, ``GenZ/unit.py`` of version 0.0.16).

.. [GenZ] A. Bambhaniya et al., Demystifying Platform Requirements for Diverse LLM Inference
   Use Cases, 2024.
"""

from __future__ import annotations

from pathlib import Path

from codesign.base.errors import InputError
from codesign.report.chosen import ChosenDesign
from codesign.report.exports.design_files import (
    Written,
    flat_memory_notes,
    format_notes,
    need_tiers,
    write_document,
)

_BITS = {4: "int4", 8: "int8", 16: "bf16"}
"""Value for ``bits``; GenZ's numbers depend on the width only."""
_SLOWER = {"int4": 0.25, "int8": 0.5, "bf16": 1.0}
"""Time of an operation against bf16 (``System.compute_multiplier``)."""


def write_genz(design: ChosenDesign, path: Path) -> Written:
    """The dictionary to pass as ``system_name``, as JSON; GenZ ignores the keys it does not know.

    Raises:
        InputError: No off-chip memory, or a width that GenZ has not.
    """
    need_tiers(design, "GenZ")
    machine = design.machine
    width = max(machine.operand_bits)
    if width not in _BITS:
        raise InputError(f"GenZ has widths of 4, 8 and 16 bits, got {width}", design.title)
    bits = _BITS[width]
    notes = [
        *flat_memory_notes(machine),
        *format_notes(machine, width),
        "GenZ has no on-chip memory in a system dictionary: it keeps intermediates on chip "
        "whatever their size",
        "GenZ reads no power, area, vector unit or dataflow",
        "one device without a network: ICN is 0, so tensor and pipeline parallelism must be 1",
    ]
    system = {
        "Flops": machine.peak_flop_per_s * _SLOWER[bits] / 1e12,
        "Memory_size": machine.offchip_capacity_bytes / 2**30,
        "Memory_BW": machine.offchip_bandwidth_bytes_per_s / 2**30,
        "ICN": 0,
        "real_values": True,
        "units": {
            "Flops": "TFLOP/s at bf16 (int8 runs at twice, int4 at four times as much)",
            "Memory_size": "GiB",
            "Memory_BW": "GiB/s",
            "ICN": "GiB/s",
        },
        "call_with": {"bits": bits},
    }
    return write_document(design, path, system, notes)
