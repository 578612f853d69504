"""A design as a hardware description of LLMCompass [LLMCompass]_.

The 27 leaves that its loader reads (``design_space_exploration/dse.py``,
``template_to_system``, commit b95c6c9). Its "KB", "MB" and "GB" are powers of 1024.

.. [LLMCompass] H. Zhang et al., "LLMCompass: Enabling Efficient Hardware Design for Large
   Language Model Inference", ISCA 2024.
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

_NARROWEST_BITS = 8
"""Its word size is ``bits // 8`` bytes: anything narrower takes no memory at all."""


def write_llmcompass(design: ChosenDesign, path: Path) -> Written:
    """The JSON file that ``read_architecture_template`` opens.

    Raises:
        InputError: No on-chip or no off-chip memory.
    """
    need_tiers(design, "LLMCompass")
    machine = design.machine
    if (on_chip := machine.sram_level) is None:
        raise InputError("LLMCompass needs an on-chip memory, the design has none", design.title)
    bits = max(_NARROWEST_BITS, *machine.operand_bits)
    notes = [
        *flat_memory_notes(machine),
        *format_notes(machine, bits),
        "one core with one array; the machine's one on-chip memory stands both for the core's "
        "SRAM and for the global buffer",
        "LLMCompass takes a fixed latency of 1 us for the off-chip memory and overheads measured "
        "on an A100 for every operator",
        "a vector lane does one operation a cycle",
        "one device without a network: the link's numbers are 0 and its flit 1 byte, so "
        "device_count must stay 1",
        "LLMCompass's roofline_model of a block prints what it has for several devices only; "
        "compile_and_simulate takes one",
        "energy and power have no place in the format; its area model is not fed either",
    ]
    if min(machine.operand_bits) < _NARROWEST_BITS:
        notes.append("elements of fewer than 8 bits take no memory in LLMCompass: 8 bits here")
    data_type = f"int{bits}"
    # One channel of one pin carries all off-chip bandwidth.
    hardware = {
        "name": design.title,
        "device_count": 1,
        "interconnect": {
            "link": {
                "bandwidth_per_direction_byte": 0,
                "bandwidth_both_directions_byte": 0,
                "latency_second": 0,
                # The loader rounds the header up to whole flits, so a flit of 0 bytes, although
                # nothing is ever sent, divides by zero (``hardware_model/interconnect.py``).
                "flit_size_byte": 1,
                "header_size_byte": 0,
                "max_payload_size_byte": 0,
            },
            "link_count_per_device": 0,
            "topology": "FC",
        },
        "device": {
            "frequency_Hz": machine.clock_hz,
            "compute_chiplet_count": 1,
            "compute_chiplet": {
                "core_count": 1,
                "core": {
                    "sublane_count": 1,
                    "systolic_array": {
                        "array_height": machine.array_rows,
                        "array_width": machine.array_columns,
                        "data_type": data_type,
                        "mac_per_cycle": 1,
                    },
                    "vector_unit": {
                        "vector_width": machine.vector_lanes,
                        "flop_per_cycle": 1,
                        "data_type": data_type,
                    },
                    "SRAM_KB": on_chip.capacity_bytes / 2**10,
                },
            },
            "io": {
                "global_buffer_MB": on_chip.capacity_bytes / 2**20,
                "global_buffer_bandwidth_per_cycle_byte": (
                    on_chip.bandwidth_bytes_per_s / machine.clock_hz
                ),
                "memory_channel_active_count": 1,
                "pin_count_per_channel": 1,
                "bandwidth_per_pin_bit": 8.0 * machine.offchip_bandwidth_bytes_per_s,
            },
            "memory": {"total_capacity_GB": machine.offchip_capacity_bytes / 2**30},
        },
    }
    return write_document(design, path, hardware, notes)
