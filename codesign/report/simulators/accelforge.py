"""A design's matrix products on AccelForge: ``python -m codesign.report.simulators.accelforge``.

AccelForge's mapper chooses for each product how it is cut into pieces that fit the memories, for
the least energy and delay. Limiting assumptions: the products follow one another, each from and to
the outermost memory; the vector unit is left out. Equal products are mapped once. AccelForge fills
and drains its array in no time, as the organization ``flattened`` of ``npu`` does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from codesign.base.columns import JsonObject
from codesign.base.errors import JobError
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.report.exports.accelforge import architecture_of
from codesign.report.exports.scalesim import ScaleSimProduct, products_of
from codesign.report.machine import machine_of
from codesign.report.simulators.design_file import answer
from codesign.report.simulators.environments import run_with

PROGRAM = Path(__file__).with_name("accelforge_program.py")
WORKLOAD = """\
workload:
  iteration_space_shape:
    m: 0 <= m < {item.m}
    n: 0 <= n < {item.n}
    k: 0 <= k < {item.k}
  bits_per_value: {{{bits}}}
  einsums:
  - name: Matmul
    tensor_accesses:
    - {{name: A, projection: [m, k]}}
    - {{name: W, projection: [k, n]}}
    - {{name: C, projection: [m, n], output: True}}
    renames: {{weight: W, input: A, output: C}}
"""


def simulate(evaluated: EvaluatedDesign) -> JsonObject:
    """Time and energy of one pass by AccelForge, next to what ``npu`` says.

    Raises:
        InputError: AccelForge is not installed.
        JobError: AccelForge fails.
    """
    machine = machine_of(evaluated)
    architecture = Path("architecture.yaml")
    architecture.write_text(architecture_of(machine), encoding="utf-8")
    products = products_of(evaluated, "the design")
    bits = f"All: {max(machine.operand_bits)}"
    distinct: dict[tuple[int, int, int], ScaleSimProduct] = {}
    for product in products:
        distinct.setdefault((product.m, product.n, product.k), product)
    files = []
    for i, product in enumerate(distinct.values()):
        files.append(f"product{i}.yaml")
        Path(files[-1]).write_text(WORKLOAD.format(item=product, bits=bits), encoding="utf-8")
    reported = run_with("accelforge", PROGRAM, str(architecture), *files)
    if len(reported["products"]) != len(distinct):
        raise JobError(f"AccelForge mapped {len(reported['products'])} of {len(distinct)} products")
    by_size = dict(zip(distinct, reported["products"], strict=True))
    mapped = [(product.times, by_size[product.m, product.n, product.k]) for product in products]
    Path("mapped.json").write_text(json.dumps(reported, indent=2), encoding="utf-8")
    return {
        "version": reported["version"],
        "latency_s": sum(times * mapping["latency_s"] for times, mapping in mapped),
        "energy_joules": sum(times * mapping["energy_joules"] for times, mapping in mapped),
        "npu_latency_s": evaluated.metrics["time_to_first_token_s"],
        "tdp_watts": evaluated.metrics["tdp_watts"],
    }


if __name__ == "__main__":
    sys.exit(answer(simulate))
