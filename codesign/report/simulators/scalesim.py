"""A design's matrix products on SCALE-Sim: ``python -m codesign.report.simulators.scalesim``.

Limiting assumptions: the products follow one another; the vector unit and energy are left out; of
a product that is wider than the array, the first ``COLUMN_FOLDS`` array widths are simulated and
count for the others, which is exact where the columns stay in the array (``ws``, ``os``) and
nothing carries over from fold to fold. SCALE-Sim steps through some 5,000 cycles a second: a whole
layer of a language model would take an hour. It begins with full buffers, and on-chip memories of
many megabytes hold all of such a part, so it never waits for memory: a product therefore takes at
least the time in which its operands and its result cross the off-chip interface once.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from codesign.base.columns import JsonObject
from codesign.base.errors import InputError
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.report.exports.scalesim import configuration_of, products_of
from codesign.report.machine import machine_of
from codesign.report.simulators.design_file import answer
from codesign.report.simulators.environments import run_with

COLUMN_FOLDS = 1
"""Array widths of a product that are simulated."""
PROGRAM = Path(__file__).with_name("scalesim_program.py")
"""Run by the Python that has SCALE-Sim."""
_FLOWS = ("ws", "os")


def simulate(evaluated: EvaluatedDesign) -> JsonObject:
    """Time of one pass by SCALE-Sim, next to what ``npu`` says.

    Raises:
        InputError: The dataflow streams the columns; SCALE-Sim is not installed.
        JobError: SCALE-Sim fails.
    """
    machine = machine_of(evaluated)
    if machine.dataflow not in _FLOWS or machine.sram_level is None:
        raise InputError(f"expected on-chip memory and a dataflow of {', '.join(_FLOWS)}")
    width = COLUMN_FOLDS * machine.array_columns
    configuration = Path("machine.cfg")
    configuration.write_text(configuration_of("machine", machine), encoding="utf-8")
    products = products_of(evaluated, "the design")
    topology_lines = [f"{product.m},{min(product.n, width)},{product.k}" for product in products]
    distinct = list(dict.fromkeys(topology_lines))
    reported = run_with("scalesim", PROGRAM, str(configuration), *distinct)
    cycles = dict(zip(distinct, reported["cycles"], strict=True))
    array_s = 0.0
    latency_s = 0.0
    for product, line in zip(products, topology_lines, strict=True):
        folds = math.ceil(product.n / machine.array_columns)
        simulated_folds = math.ceil(min(product.n, width) / machine.array_columns)
        product_s = cycles[line] * folds / simulated_folds / machine.clock_hz
        array_s += product.times * product_s
        elements = product.m * product.k + product.k * product.n + product.m * product.n
        traffic_bytes = elements * max(machine.operand_bits) / 8
        # Operands and result cross the off-chip interface once.
        offchip_s = traffic_bytes / machine.offchip_bandwidth_bytes_per_s
        latency_s += product.times * max(product_s, offchip_s)
    return {
        "version": reported["version"],
        "latency_s": latency_s,
        "array_s": array_s,
        "stall_cycles": sum(reported["stalls"]),
        "npu_latency_s": evaluated.metrics["time_to_first_token_s"],
        "tdp_watts": evaluated.metrics["tdp_watts"],
    }


if __name__ == "__main__":
    sys.exit(answer(simulate, array="systolic"))
